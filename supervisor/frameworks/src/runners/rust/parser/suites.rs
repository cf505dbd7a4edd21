//! The suites of nextest's stream: whose a test is, and whether the stream has all parts. Must not know results.

use crate::runners::rust::event::{Suite, Test};
use crate::runners::rust::nextest::Origins;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::test_case::TestId;
use std::collections::HashSet;

/// What nextest has told of its suites.
#[derive(Debug, Default)]
pub(super) struct Suites {
    origins: Origins,
    /// Suites that began in this step and did not end; none before the first.
    open: Option<u64>,
    /// Whether a test was told of before any suite had begun: the stream lacks a part.
    is_headless: bool,
    /// Whether ignored tests were counted in this step, and those that were told as skipped.
    has_ignored: bool,
    skipped: HashSet<TestId>,
}

impl Suites {
    /// Begins a step.
    pub(super) fn begin(&mut self) {
        (self.open, self.has_ignored) = (None, false);
    }

    /// Takes in that a suite began or ended.
    pub(super) fn line(&mut self, suite: &Suite) {
        let begins = suite.event == "started";
        if let Some(origin) = suite.nextest.as_ref().filter(|_| begins) {
            self.origins.suite_began(origin);
        }
        let open = self.open.unwrap_or(0);
        self.open = Some(if begins { open + 1 } else { open.saturating_sub(1) });
        self.has_ignored |= suite.ignored > 0;
    }

    /// The binary, the name and the attempt of a test.
    pub(super) fn split<'t>(&mut self, test: &'t Test) -> Option<(String, &'t str, u32)> {
        self.is_headless |= self.open.is_none();
        self.origins.split(&test.name, test.event == "started")
    }

    /// Takes in that a test was skipped.
    pub(super) fn skipped(&mut self, id: &TestId) {
        if self.skipped.len() < TEST_CASES_MAX {
            self.skipped.insert(id.clone());
        }
    }

    pub(super) fn has_skipped(&self, id: &TestId) -> bool {
        self.skipped.contains(id)
    }

    pub(super) fn has_ignored(&self) -> bool {
        self.has_ignored
    }

    /// Whether every suite that began has ended.
    pub(super) fn are_closed(&self) -> bool {
        self.open.is_none_or(|open| open == 0)
    }

    /// Whether parts of the stream are not there.
    pub(super) fn lack_a_part(&self) -> bool {
        self.is_headless || !self.are_closed()
    }
}
