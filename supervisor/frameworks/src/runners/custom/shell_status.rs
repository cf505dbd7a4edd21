//! Says which failures a line for the shell keeps from its exit status. Must not know what the line runs.
//!
//! This is no shell: what is quoted, substituted or a comment is passed over, and the rest is looked at for what stands between
//! commands. A line that is taken for more than it is gets a sentence too many, and nothing else comes of it.

use memchr::memchr;

/// Shells, by the names of their programs.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// What always ends with 0, after `||`.
const ALWAYS: [&str; 5] = [":", "echo", "exit 0", "printf", "true"];

/// What goes on with a condition, or ends a group, and makes no list of commands.
const GOES_ON: [&str; 8] = ["#", ")", ";", "elif", "else", "fi", "then", "}"];

/// Why a failure within `command` may not show in its status, if it is a line for a shell and that is so.
pub(super) fn hidden_failure(command: &[String]) -> Option<String> {
    let [shell, options @ .., line] = command else { return None };
    let is_shell = SHELLS.contains(&shell.rsplit('/').next().unwrap_or(shell));
    let is_line = options.last().is_some_and(|option| option.starts_with('-') && option.ends_with('c'));
    let stops_at_first = options.iter().any(|option| sets_e(option));
    if is_shell && is_line { hidden_in(line, stops_at_first) } else { None }
}

/// Whether the shell gives up at the first failure with such an option.
fn sets_e(option: &str) -> bool {
    option.starts_with('-') && option.contains('e')
}

fn hidden_in(line: &str, stops_at_first: bool) -> Option<String> {
    let stops_at_first =
        stops_at_first || line.trim_start().strip_prefix("set ").is_some_and(|rest| sets_e(rest.trim_start()));
    let fails_as_a_whole = line.contains("pipefail");
    let last = "its status is that of its last part, and a failure before it is not seen";
    Operators { line, at: 0 }.find_map(|(operator, after)| {
        let next = after.trim_start();
        let is_next = |words: &[&str]| words.iter().any(|word| begins(next, word));
        match operator {
            "|" if !fails_as_a_whole => Some(format!("the command is a pipeline: {last}")),
            "||" if is_next(&ALWAYS) => {
                Some("the command has `||` before what always succeeds: a failure before it is not seen".to_owned())
            }
            ";" if !stops_at_first && !next.is_empty() && !is_next(&GOES_ON) => {
                Some(format!("the command is a list (`;`, or several lines): {last}"))
            }
            "&" => Some("a part of the command runs in the background (`&`): a failure of it is not seen".to_owned()),
            _ => None,
        }
    })
}

/// Whether `text` begins with `word` and not with a longer one.
fn begins(text: &str, word: &str) -> bool {
    let is_of_a_word = |character: char| character.is_alphanumeric() || "_-./".contains(character);
    text.strip_prefix(word).is_some_and(|rest| !word.ends_with(is_of_a_word) || !rest.starts_with(is_of_a_word))
}

/// What stands between the commands of a line, each with what comes after it; the end of a line is a `;`.
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
                (b'"', _) => ("", 1 + quoted(from(1))),
                (b'$', Some(b'(')) => ("", 2 + substituted(from(2))),
                (b'#', _) if begin == 0 || bytes[begin - 1].is_ascii_whitespace() => ("", past(b'\n') - 1),
                (b'&', Some(b'&')) => ("&&", 2),
                (b'|', Some(b'|')) => ("||", 2),
                (b'|', Some(b'&')) => ("|", 2),
                (b'|', _) => ("|", 1),
                (b'&', _) => ("&", 1),
                (b'\n', _) if is_begun(self.line.get(..begin).unwrap_or_default()) => ("", 1),
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

/// Whether the next line goes on with what this is, or is its first.
fn is_begun(text: &str) -> bool {
    let last = text.split_whitespace().next_back().unwrap_or_default();
    last.is_empty() || last.ends_with(['|', '&', ';', '{', '(']) || ["do", "else", "then"].contains(&last)
}

/// How long what is between double quotes is, with the last of them.
fn quoted(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// How long what is between `$(` and its parenthesis is, with that.
fn substituted(text: &[u8]) -> usize {
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

    fn of(line: &str) -> String {
        let command = ["/bin/sh", "-c", line].map(str::to_owned);
        hidden_failure(&command).unwrap_or_default()
    }

    #[test]
    fn what_hides_a_failure_is_told() {
        for (line, told) in [
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
            assert!(of(line).starts_with(told), "{line}: {}", of(line));
        }
    }

    #[test]
    fn of_what_hides_none_nothing_is_told() {
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
            assert_eq!(of(line), "", "{line}");
        }
        let words = |words: &[&str]| hidden_failure(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["bash", "-ec", "make a; make b"]), None);
        assert!(words(&["bash", "-c", "make a; make b"]).is_some());
        for none in [&["grep", "-c", "a|b"][..], &["sh", "a;b"], &["sh"], &[]] {
            assert_eq!(words(none), None, "{none:?}");
        }
    }
}
