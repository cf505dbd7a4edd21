//! Finds the tests that failed only because a subtest of theirs did, while the results of a run arrive: runners report a subtest
//! before its parent.

use crate::test_case::TestCase;
use std::collections::HashSet;

/// Most bytes of the names of parents that are expected to fail. A suite has as many as tests with failed subtests run at once.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// The parents of failed tests, by the runner's own names, whose own results have not arrived yet.
#[derive(Debug, Default)]
pub struct FailedParents {
    names: HashSet<String>,
    bytes: usize,
}

impl FailedParents {
    /// Marks a finished test if it failed without a reason of its own and after a subtest, and expects its parents to fail. A
    /// name beyond the bound is forgotten: its test then counts as a failure of its own.
    pub fn mark(&mut self, test: &mut TestCase) {
        let is_expected = self.names.remove(&test.nodeid);
        if is_expected {
            self.bytes -= test.nodeid.len();
        }
        if !test.outcome.is_failure() {
            return;
        }
        test.failed_by_subtest |= is_expected && test.message.is_none() && test.file.is_none();
        // The `/` of a package or a file separate no tests.
        let start = if test.nodeid.starts_with(&test.package) { test.package.len() } else { 0 };
        let ends = test.nodeid[start..].match_indices('/').map(|(at, _)| start + at);
        for parent in ends.map(|end| &test.nodeid[..end]).filter(|parent| parent.len() > start) {
            if self.bytes + parent.len() <= NAMES_BYTES_MAX && self.names.insert(parent.to_owned()) {
                self.bytes += parent.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_case::{TestId, TestOutcome};

    fn mark(parents: &mut FailedParents, name: &str, outcome: TestOutcome, message: Option<&str>) -> bool {
        let id = TestId { package: "a/b".to_owned(), name: name.to_owned() };
        let mut test = TestCase::new(id, format!("a/b/{name}"), outcome);
        test.message = message.map(str::to_owned);
        parents.mark(&mut test);
        test.failed_by_subtest
    }

    #[test]
    fn marks_a_parent_without_a_reason_after_its_failed_subtest() {
        use TestOutcome::{Failed, Passed};
        let mut parents = FailedParents::default();
        for (name, outcome, message, expected) in [
            ("T/x/deep", Failed, Some("boom"), false),
            ("T/x", Failed, None, true),
            ("T", Failed, None, true),
            ("T2", Failed, None, false),
            ("U/x", Failed, Some("no"), false),
            ("U", Failed, Some("and I failed too"), false),
            ("V/x", Passed, None, false),
            ("V", Failed, None, false),
            // The second of two executions, in which no subtest failed.
            ("T", Failed, None, false),
            // A retry whose parent passes, and a later failure of the parent.
            ("W/x", Failed, Some("flaky"), false),
            ("W", Passed, None, false),
            ("W", Failed, None, false),
        ] {
            assert_eq!(mark(&mut parents, name, outcome, message), expected, "{name}");
        }
        assert!(parents.names.is_empty() && parents.bytes == 0, "a package is no parent: {parents:?}");
    }

    #[test]
    fn the_names_of_parents_are_bounded() {
        let mut parents = FailedParents::default();
        for number in 0..10_000 {
            mark(&mut parents, &format!("{number}{}/x", "y".repeat(1_000)), TestOutcome::Failed, Some("no"));
        }
        assert!(parents.bytes <= NAMES_BYTES_MAX && parents.names.len() > 3_000);
    }
}
