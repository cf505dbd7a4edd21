//! Words and regular expressions in the text of a source, for scanners that read it byte by byte.

/// Whether a byte is part of a name, keyword or number. Every byte of a character that is not ASCII is.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Most bytes of a regular expression. A longer one is not read as one, so that brackets that never close take no time.
const REGEX_BYTES_MAX: usize = 1_024;

/// The offset behind the last `/` of JavaScript's regular expression whose first one is at `from`; `None` if it does not end in its line.
pub(crate) fn regex_end(text: &[u8], from: usize) -> Option<usize> {
    let (mut at, mut is_class) = (from + 1, false);
    while at < from + REGEX_BYTES_MAX {
        match text.get(at).copied().unwrap_or(0) {
            0 | b'\n' => return None,
            // A line ends behind a backslash, too.
            b'\\' if text.get(at + 1) != Some(&b'\n') => at += 1,
            b'[' => is_class = true,
            b']' => is_class = false,
            b'/' if !is_class => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_of_a_regular_expression() {
        for (text, expected) in [
            ("/a/g", Some(3)),
            ("/[/]\\//", Some(7)),
            ("/a\\/", None),
            ("/a", None),
            ("/a\\", None),
            ("/a\n/", None),
            ("/a\\\n/", None),
        ] {
            assert_eq!(regex_end(text.as_bytes(), 0), expected, "{text}");
        }
    }
}
