//! Bounded buffer for the output of one test or package, kept JSON-escaped because most of it is thrown away unread.

use super::event::{OutputKind, unescape};

/// Most bytes kept of the beginning of an output. With the tail it is [`proctor_core::bounds::TEST_OUTPUT_BYTES_MAX`].
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Most bytes in each of the two generations of the end. A test that logs for a megabyte and then fails prints the reason
/// at the end, so the beginning alone would lose the message.
const TAIL_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a piece beside its text: its kind, two quotes and the end.
const PIECE_OVERHEAD_BYTES: usize = 4;

/// Most bytes kept of one piece. A message keeps no more (`MESSAGE_BYTES_MAX`).
const PIECE_BYTES_MAX: usize = 16 * 1024 - 16;

/// A line of output without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputLine {
    pub(super) kind: OutputKind,
    pub(super) text: String,
}

/// Beginning and end of an output.
#[derive(Debug, Default)]
pub(super) struct OutputBuffer {
    head: Vec<u8>,
    before_tail: Vec<u8>,
    tail: Vec<u8>,
    cut: bool,
    /// Bytes between head and end that are not kept, not counting escapes.
    left_out: u64,
}

impl OutputBuffer {
    /// Appends a piece of output, a JSON string literal, and returns by how many bytes the buffer grew.
    pub(super) fn push(&mut self, kind: OutputKind, literal: &str) -> usize {
        let end = literal.floor_char_boundary(PIECE_BYTES_MAX);
        let literal = &literal[..end];
        let before = self.bytes();
        let fits_head = !self.cut && self.head.len() + literal.len() + 2 <= HEAD_BYTES_MAX;
        let target = if fits_head {
            &mut self.head
        } else {
            self.cut = true;
            if self.tail.len() + literal.len() + 2 > TAIL_BYTES_MAX {
                std::mem::swap(&mut self.before_tail, &mut self.tail);
                let pieces = memchr::memchr_iter(b'\n', &self.tail).count();
                let escapes = memchr::memchr_iter(b'\\', &self.tail).count();
                self.left_out += self.tail.len().saturating_sub(PIECE_OVERHEAD_BYTES * pieces + escapes) as u64;
                self.tail.clear();
            }
            &mut self.tail
        };
        target.push(match kind {
            OutputKind::Plain => b'p',
            OutputKind::Frame => b'f',
            OutputKind::Error => b'e',
            OutputKind::ErrorContinued => b'c',
        });
        target.extend_from_slice(literal.as_bytes());
        target.push(b'\n');
        self.bytes().saturating_sub(before)
    }

    /// Size of the buffered content, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.head.len() + self.before_tail.len() + self.tail.len()
    }

    /// Empties the buffer and keeps the head's memory for the next test.
    pub(super) fn clear(&mut self) {
        self.head.clear();
        self.before_tail = Vec::new();
        self.tail = Vec::new();
        self.cut = false;
        self.left_out = 0;
    }

    /// The lines, unescaped. A piece without a newline is continued by the next one; a kind other than `Plain` wins.
    pub(super) fn lines(&self) -> Vec<OutputLine> {
        let mut lines: Vec<OutputLine> = Vec::new();
        for (index, part) in [&self.head, &self.before_tail, &self.tail].into_iter().enumerate() {
            let mut open = false;
            if index > 0 && self.left_out > 0 && !part.is_empty() && !lines.iter().any(is_gap) {
                let text = format!("{GAP}{} bytes left out ...]", self.left_out);
                lines.push(OutputLine { kind: OutputKind::Plain, text });
            }
            for piece in part.split(|byte| *byte == b'\n').filter(|piece| !piece.is_empty()) {
                let kind = match piece[0] {
                    b'f' => OutputKind::Frame,
                    b'e' => OutputKind::Error,
                    b'c' => OutputKind::ErrorContinued,
                    _ => OutputKind::Plain,
                };
                add_piece(&mut lines, &mut open, kind, &unescape(&String::from_utf8_lossy(&piece[1..])));
            }
        }
        lines
    }
}

/// Beginning of the line between head and end.
const GAP: &str = "[... about ";

fn is_gap(line: &OutputLine) -> bool {
    line.text.starts_with(GAP)
}

fn add_piece(lines: &mut Vec<OutputLine>, open: &mut bool, kind: OutputKind, text: &str) {
    for part in text.split_inclusive('\n') {
        let complete = part.ends_with('\n');
        let part = part.strip_suffix('\n').unwrap_or(part);
        match lines.last_mut() {
            Some(last) if *open => {
                last.text.push_str(part);
                if kind != OutputKind::Plain {
                    last.kind = kind;
                }
            }
            _ => lines.push(OutputLine { kind, text: part.to_owned() }),
        }
        *open = !complete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> String {
        serde_json::to_string(text).unwrap()
    }

    #[test]
    fn joins_pieces_to_lines() {
        let mut buffer = OutputBuffer::default();
        buffer.push(OutputKind::Plain, &literal("partial "));
        buffer.push(OutputKind::Error, &literal("    x_test.go:1: bad\n"));
        buffer.push(OutputKind::Plain, &literal("a\u{2028}b\n"));
        let texts: Vec<_> = buffer.lines().into_iter().map(|line| (line.kind, line.text)).collect();
        assert_eq!(
            texts,
            [
                (OutputKind::Error, "partial     x_test.go:1: bad".to_owned()),
                (OutputKind::Plain, "a\u{2028}b".to_owned())
            ]
        );
    }

    #[test]
    fn keeps_the_beginning_and_the_end_of_a_flood() {
        let mut buffer = OutputBuffer::default();
        for number in 0..100_000 {
            buffer.push(OutputKind::Plain, &literal(&format!("line {number}\n")));
        }
        assert!(buffer.bytes() <= proctor_core::bounds::TEST_OUTPUT_BYTES_MAX);
        let lines = buffer.lines();
        assert_eq!(lines[0].text, "line 0");
        assert_eq!(lines.last().unwrap().text, "line 99999");
        assert_eq!(lines.iter().filter(|line| is_gap(line)).count(), 1);
        let kept: usize = lines.iter().filter(|line| !is_gap(line)).map(|line| line.text.len() + 1).sum();
        let all: usize = (0..100_000).map(|number| format!("line {number}\n").len()).sum();
        assert_eq!(buffer.left_out, (all - kept) as u64);
    }

    #[test]
    fn clips_a_long_piece_and_still_reads_it() {
        let mut buffer = OutputBuffer::default();
        buffer.push(OutputKind::Plain, &literal(&"é\\\n".repeat(1_000_000)));
        let lines = buffer.lines();
        assert!(lines.len() > 1000);
        assert_eq!(lines[0].text, "é\\");
    }
}
