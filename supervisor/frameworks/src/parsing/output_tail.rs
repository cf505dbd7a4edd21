//! The last output of a runner and its exit, for parsers that explain to a person why the runner gave up.

use proctor_core::outcome::Exit;

/// Bytes kept of the end of each stream.
const TAIL_BYTES_MAX: usize = 64 * 1024;

/// How a command ended, as the predicate of a sentence.
pub(crate) fn describe_exit(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::NotStarted(_) => "was not started".to_owned(),
    }
}

/// `text` without terminal control sequences.
pub(crate) fn strip_ansi(text: &str) -> String {
    if text.contains('\x1b') { anstream::adapter::strip_str(text).to_string() } else { text.to_owned() }
}

/// The last [`TAIL_BYTES_MAX`] bytes of a stream.
#[derive(Debug, Default)]
pub(crate) struct OutputTail(Vec<u8>);

impl OutputTail {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes.get(bytes.len().saturating_sub(TAIL_BYTES_MAX)..).unwrap_or_default());
        // The buffer may grow to twice the bound, so that a long stream moves few bytes per piece.
        if self.0.len() > 2 * TAIL_BYTES_MAX {
            self.0.drain(..self.0.len() - TAIL_BYTES_MAX);
        }
    }

    pub(crate) fn text(&self) -> String {
        let from = self.0.len().saturating_sub(TAIL_BYTES_MAX);
        String::from_utf8_lossy(self.0.get(from..).unwrap_or_default()).into_owned()
    }
}
