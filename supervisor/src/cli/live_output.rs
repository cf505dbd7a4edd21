//! Shows a command's output at a terminal while it runs: whole lines with their colours. All other terminal control is
//! removed or escaped, since the output is untrusted.

use proctor_proto::printable::{colour_len, live_output};

/// Most bytes of an unfinished line that are buffered.
const LINE_BYTES_MAX: usize = 64 * 1_024;

/// Most bytes of colour sequences carried over to the next line.
const COLOURS_BYTES_MAX: usize = 256;

/// One output stream on its way to a terminal.
#[derive(Default)]
pub(super) struct LiveOutput {
    line: Vec<u8>,
    /// The active colour sequences, as written.
    colours: String,
}

impl LiveOutput {
    /// Returns the lines that `bytes` complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.line.extend_from_slice(bytes);
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if self.line.len() - end > LINE_BYTES_MAX { self.line.len() } else { end };
        let lines: Vec<u8> = self.line.drain(..end).collect();
        self.show(&lines)
    }

    /// Returns the unfinished last line, with a line end.
    pub(super) fn finish(&mut self) -> String {
        let last = std::mem::take(&mut self.line);
        if last.is_empty() { String::new() } else { self.show(&last) + "\n" }
    }

    // Colours are reset after each batch, because what is printed next is not the command's output.
    fn show(&mut self, lines: &[u8]) -> String {
        let text = live_output(&String::from_utf8_lossy(lines));
        if text.is_empty() {
            return text;
        }
        let before = self.colours.clone();
        self.track_colours(&text);
        let after = if self.colours.is_empty() { "" } else { "\x1b[0m" };
        format!("{before}{text}{after}")
    }

    fn track_colours(&mut self, text: &str) {
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
    fn passes_on_whole_lines_with_their_colours() {
        let mut stream = LiveOutput::default();
        assert_eq!(stream.push(b"one\ntw"), "one\n");
        assert_eq!(stream.push(b"o \x1b[31mred\n"), "two \x1b[31mred\n\x1b[0m");
        assert_eq!(stream.push(b"still\x1b[0m\nplain"), "\x1b[31mstill\x1b[0m\n");
        assert_eq!(stream.finish(), "plain\n");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn removes_terminal_control() {
        let mut stream = LiveOutput::default();
        let hostile = "\x1b[2J\x1b]0;owned\x07\x1b[?1049h\u{9b}2Ja\r\nfailed\rpassed\x08\u{202e}\n";
        assert_eq!(stream.push(hostile.as_bytes()), "\\u{9b}2Ja\nfailed\npassed\\u{8}\\u{202e}\n");
        assert_eq!(stream.push(b"\xff\n"), "\u{fffd}\n");
        assert_eq!(stream.push(&[b'x'; LINE_BYTES_MAX]), "");
        assert_eq!(stream.push(b"x").len(), LINE_BYTES_MAX + 1);
        assert!(stream.push("\x1b[1m".repeat(500).as_bytes()).is_empty());
        stream.push(b"\n");
        assert!(stream.colours.len() <= COLOURS_BYTES_MAX);
    }
}
