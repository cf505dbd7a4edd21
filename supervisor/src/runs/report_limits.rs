//! Size limits of a report's parts: the report must fit into one message, on the wire and as JSON.

use serde::Serialize;
use std::io;

/// Most bytes of the tests of one report, as JSON: 100,000 tests with 150 bytes of names each take 31 MiB. Together
/// with the next three this leaves 8 MiB of a message for the rest, whose parts have their own bounds. The wire format
/// is smaller than JSON.
pub(super) const TESTS_BYTES_MAX: usize = 40 * 1024 * 1024;

/// The same for tests that were selected for a rerun and did not report: 10,000 with 400 bytes of names each.
pub(super) const NOT_RUN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The same for build and collection errors.
pub(super) const COLLECTORS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The same for the list of artifacts; entries beyond it omit the test that left the artifact. Names alone take less.
pub(super) const ARTIFACTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most notes of one kind in a report, and the bytes of each.
pub(super) const NOTES_MAX: usize = 64;
pub(super) const NOTE_BYTES_MAX: usize = 2 * 1024;

/// JSON bytes of `value` as a list element: six for a control character, plus field names.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    // Neither the writer nor a serialized type can fail.
    _ = serde_json::to_writer(&mut counter, value);
    counter.0 + 1
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
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
    fn counts_the_bytes_that_serialization_writes() {
        for text in ["", "plain", "\u{1}\"\\\n", "\u{20ac}\u{1f600}"] {
            assert_eq!(super::json_bytes(&text), serde_json::to_string(text).unwrap().len() + 1);
        }
    }
}
