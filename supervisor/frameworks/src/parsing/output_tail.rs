//! What a runner said and how it ended, in words for a person: what parsers share that are asked why it gave up. Must not know
//! any runner.

use proctor_core::outcome::Exit;

/// Bytes of each stream that are kept to explain why a runner gave up.
const SAID_BYTES_MAX: usize = 64 * 1024;

/// How a command ended, as the end of a sentence about it.
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

/// The last words of a stream.
#[derive(Debug, Default)]
pub(crate) struct OutputTail(Vec<u8>);

impl OutputTail {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes.get(bytes.len().saturating_sub(SAID_BYTES_MAX)..).unwrap_or_default());
        // Twice the bound, so that little is moved for each piece of a long stream.
        if self.0.len() > 2 * SAID_BYTES_MAX {
            self.0.drain(..self.0.len() - SAID_BYTES_MAX);
        }
    }

    pub(crate) fn text(&self) -> String {
        let from = self.0.len().saturating_sub(SAID_BYTES_MAX);
        String::from_utf8_lossy(self.0.get(from..).unwrap_or_default()).into_owned()
    }
}
