//! Masks the values in messages, so that failures that differ only by them are alike. A mask keeps the kind of its value: a message with
//! a number is not the same as one with an address, a path or a time in its place.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Most bytes of a masked message that are kept as text.
const TEXT_BYTES: usize = 512;

/// Most bytes of a masked message that are compared: beyond are further values of one failure, as a diff of two long lists.
const COMPARED_BYTES: usize = 8 * 1024;

/// A message without its values, for comparison.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MaskedMessage {
    /// The masked beginning, at most [`TEXT_BYTES`] long.
    beginning: String,
    /// Hash of the masked rest.
    rest: u64,
}

impl MaskedMessage {
    pub(super) fn new(message: &str) -> MaskedMessage {
        // Values differ in width: a split of the message itself would be at another place for each.
        let masked = masked(message, COMPARED_BYTES);
        let (beginning, rest) = masked.split_at(masked.floor_char_boundary(TEXT_BYTES));
        let mut hasher = DefaultHasher::new();
        rest.hash(&mut hasher);
        MaskedMessage { beginning: beginning.to_owned(), rest: hasher.finish() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.beginning.is_empty()
    }
}

/// `text` with numbers, addresses, absolute paths and times replaced by their kinds, up to `bytes_max`.
fn masked(text: &str, bytes_max: usize) -> String {
    let mut masked = String::with_capacity(text.len().min(bytes_max));
    let mut rest = text;
    while let Some(first) = rest.chars().next().filter(|_| masked.len() < bytes_max) {
        let after_word = masked.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_');
        let (mask, length) = match first {
            '0' if !after_word && rest.starts_with("0x") => {
                ("<address>", 2 + span(&rest[2..], |c| c.is_ascii_hexdigit()))
            }
            '0'..='9' => number(rest),
            '/' if !after_word && rest[1..].starts_with(|c: char| c.is_alphanumeric()) => {
                let is_part = |c: char| !c.is_whitespace() && !matches!(c, '\'' | '"' | ')' | ':' | ',' | '`');
                ("<path>", span(rest, is_part))
            }
            other => {
                masked.push(other);
                rest = &rest[other.len_utf8()..];
                continue;
            }
        };
        masked.push_str(mask);
        rest = &rest[length..];
    }
    masked.truncate(masked.floor_char_boundary(bytes_max));
    masked
}

// A number that stands at the beginning of `text`, with the points and colons within it.
fn number(text: &str) -> (&'static str, usize) {
    let value = text[..span(text, |c| c.is_ascii_digit() || matches!(c, '.' | ':'))].trim_end_matches(['.', ':']);
    let mask = match (value.contains(':'), value.matches('.').count()) {
        (true, _) => "<time>",
        (false, 0) => "<integer>",
        (false, 1) => "<fraction>",
        (false, _) => "<version>",
    };
    (mask, value.len())
}

fn span(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_keeps_the_kind_of_its_value() {
        for (message, masked_as) in [
            ("index 7 out of range for length 12", "index <integer> out of range for length <integer>"),
            ("at 0xc000012ab0: nil", "at <address>: nil"),
            ("open /tmp/a-123/x.txt: no such file", "open <path>: no such file"),
            ("took 12:30:01.25.", "took <time>."),
            ("0.25 of 1.2.3", "<fraction> of <version>"),
            ("a/b.py is relative, and/or 3", "a/b.py is relative, and/or <integer>"),
            ("größe 1é", "größe <integer>é"),
        ] {
            assert_eq!(masked(message, COMPARED_BYTES), masked_as);
        }
    }

    #[test]
    fn messages_are_compared_beyond_their_beginning() {
        let long = |end: &str| MaskedMessage::new(&format!("{}{end}", "a".repeat(600)));
        assert_eq!(long(" 1"), long(" 2"));
        assert_ne!(long(" none"), long(" some"));
        for bytes in [600, TEXT_BYTES - 4, 2 * COMPARED_BYTES] {
            let wide = |value: &str| MaskedMessage::new(&format!("took {value} ms: {}", "a 1 ".repeat(bytes / 4)));
            assert_eq!(wide("9"), wide("10"), "{bytes}");
            assert_ne!(wide("9"), wide("9.5"), "{bytes}");
        }
        assert_ne!(MaskedMessage::new("got 1"), MaskedMessage::new("got 1.5"));
    }
}
