//! The history of a workspace's runs: how the results of two runs differ, which tests are flaky, and which became slow.
//! Pure statistics; the store is `history` of the crate `proctor`.

pub mod flakiness;
pub mod result_encoding;
pub mod slowness;

use crate::bounds::{HISTORY_CHANGES_BYTES_MAX, HISTORY_CHANGES_LISTED_MAX};
use crate::test_case::{TestId, TestOutcome};
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Result of one test in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestResult {
    /// Outcome of the test.
    pub outcome: TestOutcome,
    /// Wall time in microseconds, if the runner measured it.
    pub duration_us: Option<u64>,
}

impl TestResult {
    /// The result of two executions of a test in one run: a failure is never hidden, and the longer time counts.
    #[must_use]
    pub fn merge(self, other: TestResult) -> TestResult {
        let outcome = if other.outcome.is_failure() { other.outcome } else { self.outcome };
        TestResult { outcome, duration_us: self.duration_us.max(other.duration_us) }
    }
}

/// The tests whose results changed, or that fail again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T> {
    /// Fail now and did not fail before, or were unknown.
    pub new: Vec<T>,
    /// Failed before and pass now.
    pub fixed: Vec<T>,
    /// Fail now and failed before.
    pub still_failing: Vec<T>,
}

/// Compares the results of a run with earlier ones. A test without a result in `now` is in no group: nothing is known of
/// it. A test that was skipped is neither fixed nor failing.
pub fn compare<T: Ord + Clone>(now: &BTreeMap<T, TestOutcome>, before: &BTreeMap<T, TestOutcome>) -> Changes<T> {
    let mut changes = Changes { new: Vec::new(), fixed: Vec::new(), still_failing: Vec::new() };
    for (test, outcome) in now {
        let failed_before = before.get(test).is_some_and(|before| before.is_failure());
        let group = match (outcome.is_failure(), failed_before) {
            (true, false) => &mut changes.new,
            (true, true) => &mut changes.still_failing,
            (false, true) if *outcome != TestOutcome::Skipped => &mut changes.fixed,
            (false, _) => continue,
        };
        group.push(test.clone());
    }
    changes
}

/// Tests of one group of a comparison: all are counted, the first are listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TestGroup {
    /// Number of tests.
    pub total: u64,
    /// By package and name, at most [`HISTORY_CHANGES_LISTED_MAX`] and [`HISTORY_CHANGES_BYTES_MAX`] of names.
    pub tests: Vec<TestId>,
}

impl TestGroup {
    /// A group of these tests.
    #[must_use]
    pub fn new(mut tests: Vec<TestId>) -> TestGroup {
        tests.sort_unstable();
        let total = tests.len() as u64;
        let mut bytes = 0;
        let within = |test: &TestId| {
            bytes += test.text_bytes();
            bytes <= HISTORY_CHANGES_BYTES_MAX
        };
        let tests: Vec<TestId> = tests.into_iter().take(HISTORY_CHANGES_LISTED_MAX).take_while(within).collect();
        TestGroup { total, tests }
    }

    /// The group with its number alone.
    #[must_use]
    fn without_names(&self) -> TestGroup {
        TestGroup { total: self.total, tests: Vec::new() }
    }

    /// Memory use in bytes, without the group itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tests.iter().map(|test| size_of::<TestId>() + test.text_bytes()).sum()
    }
}

/// How a run differs from what was known of its tests before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinceLastRun {
    /// The run before it in this workspace.
    pub run_id: String,
    /// When that run ended.
    pub ended_at: Timestamp,
    /// Fail, and passed the last time they ran or had never run.
    pub new: TestGroup,
    /// Pass, and failed the last time they ran.
    pub fixed: TestGroup,
    /// Fail, and failed the last time they ran.
    pub still_failing: TestGroup,
}

impl SinceLastRun {
    /// The numbers alone.
    #[must_use]
    pub fn without_names(&self) -> SinceLastRun {
        let [new, fixed, still_failing] = [&self.new, &self.fixed, &self.still_failing].map(TestGroup::without_names);
        SinceLastRun { run_id: self.run_id.clone(), ended_at: self.ended_at, new, fixed, still_failing }
    }
}

/// How a run differs from the last run of all tests that passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinceLastGreen {
    /// The last run of all tests that passed.
    pub run_id: String,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Number of runs after it, up to and including the compared one.
    pub runs: u64,
    /// Fail now.
    pub failing: TestGroup,
}

impl SinceLastGreen {
    /// The numbers alone.
    #[must_use]
    pub fn without_names(&self) -> SinceLastGreen {
        SinceLastGreen { run_id: self.run_id.clone(), failing: self.failing.without_names(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::TestOutcome::{Error, Failed, Passed, Skipped, Xfailed};
    use super::*;
    use proptest::prelude::*;

    fn results(results: &[(&'static str, TestOutcome)]) -> BTreeMap<&'static str, TestOutcome> {
        results.iter().copied().collect()
    }

    #[test]
    fn compares_each_test_with_its_earlier_result() {
        let before =
            results(&[("a", Passed), ("b", Failed), ("c", Error), ("d", Failed), ("e", Failed), ("f", Skipped)]);
        let now = results(&[("a", Failed), ("b", Passed), ("c", Failed), ("d", Skipped), ("f", Error), ("g", Failed)]);
        let changes = compare(&now, &before);
        assert_eq!(changes.new, ["a", "f", "g"]);
        assert_eq!(changes.fixed, ["b"]);
        assert_eq!(changes.still_failing, ["c"], "d was skipped, e did not run");
        assert_eq!(compare(&results(&[("b", Xfailed)]), &before).fixed, ["b"]);
    }

    #[test]
    fn a_group_counts_what_it_does_not_list() {
        let named = |number: usize| TestId { package: "p".to_owned(), name: format!("{number:05}") };
        let group = TestGroup::new((0..HISTORY_CHANGES_LISTED_MAX + 7).rev().map(named).collect());
        assert_eq!(
            (group.total, group.tests.len()),
            (HISTORY_CHANGES_LISTED_MAX as u64 + 7, HISTORY_CHANGES_LISTED_MAX)
        );
        assert_eq!(group.tests[0], named(0));
        let long = |number: u8| TestId { package: "p".repeat(4_000), name: format!("{number}{}", "n".repeat(4_000)) };
        let group = TestGroup::new((0..20).map(long).collect());
        assert_eq!((group.total, group.tests.len()), (20, HISTORY_CHANGES_BYTES_MAX / 8_001));
    }

    #[test]
    fn two_executions_in_one_run_keep_the_failure_and_the_longer_time() {
        let result = |outcome, duration_us| TestResult { outcome, duration_us };
        assert_eq!(result(Passed, Some(3)).merge(result(Failed, Some(2))), result(Failed, Some(3)));
        assert_eq!(result(Failed, None).merge(result(Passed, Some(2))), result(Failed, Some(2)));
    }

    fn outcome() -> impl Strategy<Value = TestOutcome> {
        proptest::sample::select(vec![Passed, Failed, Skipped, Error])
    }

    proptest! {
        #[test]
        fn every_failure_is_in_exactly_one_group(
            now in proptest::collection::btree_map(0_u8..40, outcome(), 0..40),
            before in proptest::collection::btree_map(0_u8..40, outcome(), 0..40),
        ) {
            let changes = compare(&now, &before);
            let mut failing = [changes.new, changes.still_failing].concat();
            failing.sort_unstable();
            let expected: Vec<u8> = now.iter().filter(|(_, outcome)| outcome.is_failure()).map(|(test, _)| *test).collect();
            prop_assert_eq!(failing, expected);
            for fixed in changes.fixed {
                prop_assert!(before[&fixed].is_failure() && now[&fixed] == Passed);
            }
        }
    }
}
