//! Size limits of a report's parts: the report must fit into one message, on the wire and as JSON.

use proctor_core::bounds::REPORT_TESTS_BYTES_MAX;
use proctor_core::check::{CheckReport, Finding};
use serde::Serialize;
use std::io;

/// JSON bytes of `value` as a list element: six for a control character, plus field names.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    // Neither the writer nor a serialized type can fail.
    _ = serde_json::to_writer(&mut counter, value);
    counter.0 + 1
}

/// Most bytes of the findings of a check, as JSON: those of tests, of which a check has none.
const CHECK_JSON_BYTES_MAX: usize = REPORT_TESTS_BYTES_MAX;

/// A check whose findings fit into a message also as JSON, and its notes, which belong to the evidence of the run.
pub(super) fn bounded_check(check: Option<CheckReport>) -> Option<(CheckReport, Vec<String>)> {
    let mut check = check?;
    let mut bytes = 0;
    let fits = |finding: &&Finding| {
        bytes += json_bytes(finding);
        bytes <= CHECK_JSON_BYTES_MAX
    };
    let fitting = check.findings.iter().take_while(fits).count();
    check.omitted += (check.findings.len() - fitting) as u64;
    check.findings.truncate(fitting);
    let notes = std::mem::take(&mut check.notes);
    Some((check, notes))
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
