//! Keeps what a run writes after its processes were asked for their stacks.

use proctor_core::bounds::STACK_DUMP_BYTES_MAX;
use proctor_core::event::Stream;

/// The beginning of each stream after the request, at most [`STACK_DUMP_BYTES_MAX`] bytes of each.
#[derive(Debug, Default)]
pub(super) struct StackCapture {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    printed: Vec<u8>,
}

impl StackCapture {
    /// Adds bytes that the run wrote.
    pub(super) fn record(&mut self, stream: Stream, bytes: &[u8]) {
        append(
            match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            },
            bytes,
        );
    }

    /// Adds bytes that the program that asks for stacks printed.
    pub(super) fn record_printed(&mut self, bytes: &[u8]) {
        append(&mut self.printed, bytes);
    }

    /// The texts of stdout, stderr and the program.
    pub(super) fn texts(&self) -> [String; 3] {
        [&self.stdout, &self.stderr, &self.printed].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

fn append(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = STACK_DUMP_BYTES_MAX.saturating_sub(kept.len()).min(bytes.len());
    kept.extend_from_slice(&bytes[..room]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_beginning_of_each_stream() {
        let mut capture = StackCapture::default();
        capture.record(Stream::Stderr, b"first");
        for _ in 0..3 {
            capture.record(Stream::Stderr, &vec![b'x'; STACK_DUMP_BYTES_MAX / 2]);
        }
        capture.record_printed(b"[]");
        let [stdout, stderr, printed] = capture.texts();
        assert_eq!(printed, "[]");
        assert!(stdout.is_empty() && stderr.starts_with("firstx"));
        assert_eq!(stderr.len(), STACK_DUMP_BYTES_MAX);
    }
}
