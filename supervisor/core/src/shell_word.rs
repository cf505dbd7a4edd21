//! Words of command lines for a POSIX shell, for commands that a shell runs and for those that a person may paste.

/// A word between quotes, whatever it holds.
#[must_use]
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A word as a person would write it: quoted only if a shell would read it otherwise.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { quoted(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_only_what_a_shell_would_read_otherwise() {
        assert_eq!(shell_word("a.py::test_b"), "a.py::test_b");
        assert_eq!(shell_word("my shop"), "'my shop'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(quoted("plain"), "'plain'");
    }
}
