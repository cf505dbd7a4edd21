//! How large what is told of a run may be: a report has to fit into one message, on the wire and as JSON. Must not know what
//! is told.

use serde::Serialize;
use std::io;

/// Most bytes of the tests of one report, as JSON: with 150 bytes of names each, 100,000 tests take 31 MiB. Together with the
/// next three this leaves 8 MiB of a message to everything else, which is bounded by itself. The wire takes less than JSON does.
pub(super) const TESTS_BYTES_MAX: usize = 40 * 1024 * 1024;

/// The same of those that were to run again and told nothing: 10,000 with 400 bytes of names each.
pub(super) const NOT_RUN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The same of its build and collection errors.
pub(super) const COLLECTORS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The same of the list of its artefacts, beyond which it does not say which test left one. Names alone take less.
pub(super) const ARTIFACTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most sentences of one kind in a report, and their bytes each: whoever reads more reads the stream.
pub(super) const NOTES_MAX: usize = 64;
pub(super) const NOTE_BYTES_MAX: usize = 2 * 1024;

/// Bytes of `what` in a list, as JSON: six for a control character, and names of fields.
pub(super) fn bytes(what: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    // Neither the writer nor any type of ours can fail.
    _ = serde_json::to_writer(&mut counted, what);
    counted.0 + 1
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_counted_is_what_is_written() {
        for text in ["", "plain", "\u{1}\"\\\n", "\u{20ac}\u{1f600}"] {
            assert_eq!(super::bytes(&text), serde_json::to_string(text).unwrap().len() + 1);
        }
    }
}
