//! The bound of a document: how many entries it has room for, and how much of their texts.

use super::check_entries;
use super::entries::{Entry, Status};
use proctor_core::report::Report;
use std::fmt::Write as _;

/// Bytes kept free for what frames the entries: names of the run, counts, notes.
const FRAME_BYTES: usize = 24 * 1_024;

/// Bytes of a message that every entry has room for.
const MESSAGE_BYTES: usize = 200;

/// The part of a message that counts as part of its entry.
pub(super) fn beginning(message: &str) -> &str {
    cut(message, MESSAGE_BYTES)
}

/// At most `bytes` of a text; the report has all of it.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The room that a document has left. Entries come failures first, so that what is left out is what matters least.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    text_bytes: usize,
    left_out: LeftOut,
}

/// What a document has no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Failures and errors.
    pub(super) failures: u64,
    /// Other entries.
    pub(super) others: u64,
    /// Texts of entries that are there: stacks, output, values.
    pub(super) texts: u64,
}

impl Budget {
    /// The room of a document of at most `bytes_max`: at most half of it is for texts.
    pub(super) fn new(bytes_max: usize) -> Budget {
        let bytes = bytes_max.saturating_sub(FRAME_BYTES);
        Budget { bytes, text_bytes: bytes / 2, left_out: LeftOut::default() }
    }

    /// Whether an entry of `bytes` without its texts fits; if not, it is counted as left out.
    pub(super) fn take_entry(&mut self, entry: &Entry<'_>, bytes: usize) -> bool {
        let fits = bytes <= self.bytes;
        if fits {
            self.bytes -= bytes;
        } else {
            self.bytes = 0;
            self.count(entry.status);
        }
        fits
    }

    /// Counts an entry as left out.
    pub(super) fn count(&mut self, status: Status) {
        match status {
            Status::Failed | Status::Error => self.left_out.failures += 1,
            Status::Passed | Status::Skipped => self.left_out.others += 1,
        }
    }

    /// Whether a text of `bytes` fits; if not, it is counted as left out.
    pub(super) fn take_text(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.text_bytes.min(self.bytes);
        if fits {
            self.bytes -= bytes;
            self.text_bytes -= bytes;
        } else {
            self.left_out.texts += 1;
        }
        fits
    }

    /// The whole of a message of `bytes` if it fits, otherwise its beginning, for which the entry has room.
    pub(super) fn message<'a>(&mut self, message: &'a str, bytes: usize) -> &'a str {
        let short = beginning(message);
        if short.len() == message.len() || self.take_text(bytes) { message } else { short }
    }

    /// What did not fit.
    pub(super) fn left_out(&self) -> LeftOut {
        self.left_out
    }
}

impl LeftOut {
    /// What the report itself has no room for, so that no document can have it.
    pub(super) fn of_report(report: &Report) -> LeftOut {
        let listed = report.tests.iter().filter(|test| test.outcome.is_failure()).count() as u64;
        // Failures displace other tests, and are left out themselves only if they alone fill the report.
        let failures = report.summary.failures().saturating_sub(listed).min(report.truncated.tests);
        let (findings, hints) = report.check.as_ref().map_or((0, 0), check_entries::left_out);
        LeftOut {
            failures: failures + report.truncated.collectors + findings,
            others: report.truncated.tests - failures + report.truncated.not_run + hints,
            texts: 0,
        }
    }

    /// A sentence about what a document of `report` leaves out; `None` if it is whole.
    pub(super) fn note(self, report: &Report) -> Option<String> {
        let unlisted = LeftOut::of_report(report);
        let (failures, others) = (self.failures + unlisted.failures, self.others + unlisted.others);
        let counts = [(failures, "failures"), (others, "other tests"), (self.texts, "long texts")];
        let mut text = String::new();
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{count} {what}");
        }
        (!text.is_empty()).then(|| format!("left out, as there is no room for more: {text}"))
    }
}
