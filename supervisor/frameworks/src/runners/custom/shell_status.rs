//! Finds failures that a shell line keeps from its exit status.
//!
//! This is not a shell: quotes, substitutions and comments are skipped, and the rest is searched for operators between commands. A
//! misread line gets a superfluous note and has no other effect.

use memchr::memchr;

/// Names of shells.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// Commands after `||` that always exit with 0.
const ALWAYS_SUCCEED: [&str; 5] = [":", "echo", "exit 0", "printf", "true"];

/// What continues a condition or ends a group after `;`, and starts no further command of a list.
const CONTINUATIONS: [&str; 8] = ["#", ")", ";", "elif", "else", "fi", "then", "}"];

/// Why a failure within `command` may not show in its exit status; `None` if it is no shell line or hides nothing.
pub(super) fn hidden_failure(command: &[String]) -> Option<String> {
    let [shell, options @ .., line] = command else { return None };
    let is_shell = SHELLS.contains(&shell.rsplit('/').next().unwrap_or(shell));
    let is_line = options.last().is_some_and(|option| option.starts_with('-') && option.ends_with('c'));
    let stops_at_first = options.iter().any(|option| sets_e(option));
    if is_shell && is_line { hidden_in(line, stops_at_first) } else { None }
}

/// Whether a shell with this option stops at the first failure.
fn sets_e(option: &str) -> bool {
    option.starts_with('-') && option.contains('e')
}

fn hidden_in(line: &str, stops_at_first: bool) -> Option<String> {
    let stops_at_first =
        stops_at_first || line.trim_start().strip_prefix("set ").is_some_and(|rest| sets_e(rest.trim_start()));
    let has_pipefail = line.contains("pipefail");
    let last = "its status is that of its last part, and a failure before it is not seen";
    Operators { line, at: 0 }.find_map(|(operator, after)| {
        let next = after.trim_start();
        let is_next = |words: &[&str]| words.iter().any(|word| starts_with_word(next, word));
        match operator {
            "|" if !has_pipefail => Some(format!("the command is a pipeline: {last}")),
            "||" if is_next(&ALWAYS_SUCCEED) => {
                Some("the command has `||` before what always succeeds: a failure before it is not seen".to_owned())
            }
            ";" if !stops_at_first && !next.is_empty() && !is_next(&CONTINUATIONS) => {
                Some(format!("the command is a list (`;`, or several lines): {last}"))
            }
            "&" => Some("a part of the command runs in the background (`&`): a failure of it is not seen".to_owned()),
            _ => None,
        }
    })
}

/// Whether `text` starts with the word `word`, and not with a longer one.
fn starts_with_word(text: &str, word: &str) -> bool {
    let is_word_character = |character: char| character.is_alphanumeric() || "_-./".contains(character);
    text.strip_prefix(word)
        .is_some_and(|rest| !word.ends_with(is_word_character) || !rest.starts_with(is_word_character))
}

/// The operators between the commands of a line, each with the text after it; the end of a line is a `;`.
struct Operators<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Iterator for Operators<'a> {
    type Item = (&'static str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.line.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            let (begin, next) = (self.at, bytes.get(self.at + 1));
            let from = |length: usize| bytes.get(begin + length..).unwrap_or_default();
            let past = |end: u8| memchr(end, from(1)).map_or(bytes.len(), |length| length + 2);
            let (operator, length) = match (byte, next) {
                (b'\\', _) | (b'>' | b'<', Some(b'&' | b'|')) | (b'&', Some(b'>')) => ("", 2),
                (b'\'' | b'`', _) => ("", past(*byte)),
                (b'"', _) => ("", 1 + quoted_length(from(1))),
                (b'$', Some(b'(')) => ("", 2 + substitution_length(from(2))),
                (b'#', _) if begin == 0 || bytes[begin - 1].is_ascii_whitespace() => ("", past(b'\n') - 1),
                (b'&', Some(b'&')) => ("&&", 2),
                (b'|', Some(b'|')) => ("||", 2),
                (b'|', Some(b'&')) => ("|", 2),
                (b'|', _) => ("|", 1),
                (b'&', _) => ("&", 1),
                (b'\n', _) if is_continued(self.line.get(..begin).unwrap_or_default()) => ("", 1),
                (b';' | b'\n', _) => (";", 1),
                _ => ("", 1),
            };
            self.at += length;
            if !operator.is_empty() {
                return Some((operator, self.line.get(self.at..).unwrap_or_default()));
            }
        }
        None
    }
}

/// Whether `text` is empty or continues on the next line.
fn is_continued(text: &str) -> bool {
    let last = text.split_whitespace().next_back().unwrap_or_default();
    last.is_empty() || last.ends_with(['|', '&', ';', '{', '(']) || ["do", "else", "then"].contains(&last)
}

/// Length of the text up to and including the closing double quote.
fn quoted_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// Length of the text up to and including the closing parenthesis of `$(`.
fn substitution_length(text: &[u8]) -> usize {
    let mut open = 1_usize;
    let end = text.iter().position(|byte| {
        open = match byte {
            b'(' => open + 1,
            b')' => open - 1,
            _ => open,
        };
        open == 0
    });
    end.map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(line: &str) -> String {
        let command = ["/bin/sh", "-c", line].map(str::to_owned);
        hidden_failure(&command).unwrap_or_default()
    }

    #[test]
    fn names_the_operator_that_hides_a_failure() {
        for (line, start) in [
            ("npm test 2>&1 | tee log", "the command is a pipeline: "),
            ("make|&cat", "the command is a pipeline: "),
            ("make check || true", "the command has `||` before what always succeeds: "),
            ("make check ||: ", "the command has `||` before what always succeeds: "),
            ("./a; ./b", "the command is a list (`;`, or several lines): "),
            ("./a 'x;\ny'\n./b\n", "the command is a list (`;`, or several lines): "),
            ("echo \"\\\"\"; make \"é\"", "the command is a list (`;`, or several lines): "),
            ("for x in a b; do ./$x; done", "the command is a list (`;`, or several lines): "),
            ("./server & ./test", "a part of the command runs in the background (`&`): "),
            ("set -e; make | tee log", "the command is a pipeline: "),
        ] {
            assert!(reason(line).starts_with(start), "{line}: {}", reason(line));
        }
    }

    #[test]
    fn finds_nothing_where_no_failure_is_hidden() {
        for line in [
            "make check",
            "cd x && make check >log 2>&1 &&\n ./more &>log >|log",
            "echo 'a | b; c' \"d || true; \\\" | e\" f\\|g && make",
            "make A=$(ls | (tail -1; true)) `a; b` # c; d | e",
            "test -d x || mkdir x",
            "make a || truest",
            "make;\n",
            "if [ -f x ]; then make; else make y; fi",
            "{ make; } && (make x;)",
            "\n\nif true\nthen\n  make\nfi\n",
            "set -eu\nmake a\nmake b\n",
            "set -euo pipefail; make | tee log",
            "'never ends | ",
            "\\",
        ] {
            assert_eq!(reason(line), "", "{line}");
        }
        let words = |words: &[&str]| hidden_failure(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["bash", "-ec", "make a; make b"]), None);
        assert!(words(&["bash", "-c", "make a; make b"]).is_some());
        for none in [&["grep", "-c", "a|b"][..], &["sh", "a;b"], &["sh"], &[]] {
            assert_eq!(words(none), None, "{none:?}");
        }
    }
}
