//! Masks what differs between failures that are otherwise alike: numbers, addresses, absolute paths and times.

/// Most bytes of a message that are compared.
const COMPARED_BYTES: usize = 512;

/// The beginning of `message` with numbers, addresses and times as `#` and absolute paths as `<path>`.
pub(super) fn masked(message: &str) -> String {
    let message = &message[..message.floor_char_boundary(COMPARED_BYTES)];
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let after_word = text.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_');
        let end = match first {
            '0' if !after_word && rest.starts_with("0x") => 2 + span(&rest[2..], |c| c.is_ascii_hexdigit()),
            '0'..='9' => span(rest, |c| c.is_ascii_digit() || matches!(c, '.' | ':')),
            '/' if !after_word && rest[1..].starts_with(|c: char| c.is_alphanumeric()) => {
                let end = span(rest, |c| !c.is_whitespace() && !matches!(c, '\'' | '"' | ')' | ':' | ',' | '`'));
                text.push_str("<path>");
                rest = &rest[end..];
                continue;
            }
            other => {
                text.push(other);
                rest = &rest[other.len_utf8()..];
                continue;
            }
        };
        let value = rest[..end].trim_end_matches(['.', ':']);
        text.push('#');
        rest = &rest[value.len()..];
    }
    text
}

fn span(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_addresses_paths_and_times_do_not_tell_failures_apart() {
        for (message, masked_as) in [
            ("index 7 out of range for length 12", "index # out of range for length #"),
            ("at 0xc000012ab0: nil", "at #: nil"),
            ("open /tmp/a-123/x.txt: no such file", "open <path>: no such file"),
            ("took 12:30:01.25.", "took #."),
            ("a/b.py is relative, and/or 3", "a/b.py is relative, and/or #"),
            ("größe 1é", "größe #é"),
        ] {
            assert_eq!(masked(message), masked_as);
        }
    }
}
