//! Keeps what a run writes after its processes were asked for their stacks.

use proctor_core::bounds::STACK_DUMP_BYTES_MAX;
use proctor_core::event::Stream;

/// The beginning of each stream after the request, at most [`STACK_DUMP_BYTES_MAX`] bytes of each.
#[derive(Debug, Default)]
pub(super) struct StackCapture {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl StackCapture {
    /// Adds bytes that the run wrote.
    pub(super) fn record(&mut self, stream: Stream, bytes: &[u8]) {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = STACK_DUMP_BYTES_MAX.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
    }

    /// The texts of stdout and stderr.
    pub(super) fn texts(&self) -> (String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&self.stdout), text(&self.stderr))
    }
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
        let (stdout, stderr) = capture.texts();
        assert!(stdout.is_empty() && stderr.starts_with("firstx"));
        assert_eq!(stderr.len(), STACK_DUMP_BYTES_MAX);
    }
}
