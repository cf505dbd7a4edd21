//! Tracks the suites of nextest's stream: which binary a test belongs to, and whether the stream is complete.

use crate::runners::rust::event::{SuiteLine, TestLine};
use crate::runners::rust::nextest::SuiteOrigins;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::test_case::TestId;
use std::collections::HashSet;

/// State of nextest's suites.
#[derive(Debug, Default)]
pub(super) struct NextestSuites {
    origins: SuiteOrigins,
    /// Number of suites that are open in this step; `None` before the first.
    open: Option<u64>,
    /// Whether a test was reported before any suite: the stream lacks its beginning.
    lacks_beginning: bool,
    /// Whether ignored tests were counted in this step, and which tests were reported as skipped.
    has_ignored: bool,
    skipped: HashSet<TestId>,
}

impl NextestSuites {
    /// Starts a step.
    pub(super) fn begin(&mut self) {
        (self.open, self.has_ignored) = (None, false);
    }

    /// Records that a suite began or ended.
    pub(super) fn record_suite(&mut self, suite: &SuiteLine) {
        let begins = suite.event == "started";
        if let Some(origin) = suite.nextest.as_ref().filter(|_| begins) {
            self.origins.start_suite(origin);
        }
        let open = self.open.unwrap_or(0);
        self.open = Some(if begins { open + 1 } else { open.saturating_sub(1) });
        self.has_ignored |= suite.ignored > 0;
    }

    /// The binary, the name and the attempt of a test.
    pub(super) fn split<'t>(&mut self, test: &'t TestLine) -> Option<(String, &'t str, u32)> {
        self.lacks_beginning |= self.open.is_none();
        self.origins.split(&test.name, test.event == "started")
    }

    /// Records that a test was skipped.
    pub(super) fn record_skipped(&mut self, id: &TestId) {
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
    pub(super) fn are_all_closed(&self) -> bool {
        self.open.is_none_or(|open| open == 0)
    }

    /// Whether a part of the stream is missing.
    pub(super) fn are_incomplete(&self) -> bool {
        self.lacks_beginning || !self.are_all_closed()
    }
}
