//! What a command writes, shown at a terminal while it goes on: whole lines with their colours. Everything else that would act
//! on the terminal is left out or shown as an escape, since what runs is nobody's friend. Must not know where bytes come from.

use proctor_proto::printable::{colour_len, live};

/// Bytes of a line that are kept until its end comes.
const LINE_BYTES_MAX: usize = 64 * 1_024;

/// Bytes of colours that are remembered from one line to the next.
const COLOURS_BYTES_MAX: usize = 256;

/// One stream on its way to a terminal.
#[derive(Default)]
pub(super) struct Live {
    line: Vec<u8>,
    /// The colours that are on, as they were written.
    colours: String,
}

impl Live {
    /// The whole lines that `bytes` complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> String {
        self.line.extend_from_slice(bytes);
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if self.line.len() - end > LINE_BYTES_MAX { self.line.len() } else { end };
        let lines: Vec<u8> = self.line.drain(..end).collect();
        self.show(&lines)
    }

    /// What is left of the last line, with an end.
    pub(super) fn rest(&mut self) -> String {
        let last = std::mem::take(&mut self.line);
        if last.is_empty() { String::new() } else { self.show(&last) + "\n" }
    }

    // Colours do not last beyond the lines: what is printed next is not the command's.
    fn show(&mut self, lines: &[u8]) -> String {
        let text = live(&String::from_utf8_lossy(lines));
        if text.is_empty() {
            return text;
        }
        let before = self.colours.clone();
        self.remember(&text);
        let after = if self.colours.is_empty() { "" } else { "\x1b[0m" };
        format!("{before}{text}{after}")
    }

    fn remember(&mut self, text: &str) {
        for (at, _) in text.match_indices('\x1b') {
            let Some(len) = colour_len(&text[at..]) else { continue };
            let colour = &text[at..at + len];
            if matches!(colour, "\x1b[m" | "\x1b[0m") || self.colours.len() + len > COLOURS_BYTES_MAX {
                self.colours.clear();
            } else {
                self.colours.push_str(colour);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_with_their_colours() {
        let mut stream = Live::default();
        assert_eq!(stream.take(b"one\ntw"), "one\n");
        assert_eq!(stream.take(b"o \x1b[31mred\n"), "two \x1b[31mred\n\x1b[0m");
        assert_eq!(stream.take(b"still\x1b[0m\nplain"), "\x1b[31mstill\x1b[0m\n");
        assert_eq!(stream.rest(), "plain\n");
        assert_eq!(stream.rest(), "");
    }

    #[test]
    fn no_command_steers_the_terminal() {
        let mut stream = Live::default();
        let hostile = "\x1b[2J\x1b]0;owned\x07\x1b[?1049h\u{9b}2Ja\r\nfailed\rpassed\x08\u{202e}\n";
        assert_eq!(stream.take(hostile.as_bytes()), "\\u{9b}2Ja\nfailed\npassed\\u{8}\\u{202e}\n");
        assert_eq!(stream.take(b"\xff\n"), "\u{fffd}\n");
        assert_eq!(stream.take(&[b'x'; LINE_BYTES_MAX]), "");
        assert_eq!(stream.take(b"x").len(), LINE_BYTES_MAX + 1);
        assert!(stream.take("\x1b[1m".repeat(500).as_bytes()).is_empty());
        stream.take(b"\n");
        assert!(stream.colours.len() <= COLOURS_BYTES_MAX);
    }
}
