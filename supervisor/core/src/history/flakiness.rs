//! Flaky tests: those that passed, failed and passed again, or failed, passed and failed again, in runs with equal
//! conditions. The rate of failure comes with its Wilson score interval (E. B. Wilson, 1927), because few runs say little.
//!
//! One change of the result is not enough: conditions do not cover everything outside the workspace, so a new version of
//! the toolchain or of an installed package may break or repair a test for good. A result that comes back shows that
//! nothing was broken or repaired. Within one run both results are enough, as nothing was installed in between.

use super::TestResult;
use crate::test_case::TestOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The 97.5th percentile of the normal distribution, for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A rate with its 95 % Wilson interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Failures divided by runs.
    pub rate: f64,
    /// Lower end of the interval.
    #[serde(rename = "rate_low")]
    pub low: f64,
    /// Upper end of the interval.
    #[serde(rename = "rate_high")]
    pub high: f64,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64| part * 100.0;
        let (rate, low, high) = (percent(self.rate), percent(self.low), percent(self.high));
        write!(f, "{rate:.0} %, 95 % interval {low:.0} % to {high:.0} %")
    }
}

impl Rate {
    /// The rate of `hits` in `all`; of nothing, anything between 0 and 1 is possible.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
    pub fn new(hits: u64, all: u64) -> Rate {
        if all == 0 {
            return Rate { rate: 0.0, low: 0.0, high: 1.0 };
        }
        let n = all as f64;
        let rate = hits.min(all) as f64 / n;
        let squared = Z * Z;
        let centre = rate + squared / (2.0 * n);
        let half = Z * (rate * (1.0 - rate) / n + squared / (4.0 * n * n)).sqrt();
        let divisor = 1.0 + squared / n;
        Rate { rate, low: ((centre - half) / divisor).max(0.0), high: ((centre + half) / divisor).min(1.0) }
    }
}

/// Changes of the result, in the order of the runs, that make a test flaky.
const CHANGES_MIN: u64 = 2;

/// A test whose result changed and came back under equal conditions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flaky<T> {
    /// The test.
    pub test: T,
    /// Executions that passed or failed it, under the conditions in which it was flaky.
    pub runs: u64,
    /// The failures among these.
    pub failures: u64,
    /// Their rate.
    pub rate: Rate,
}

/// Counts passes, failures and changes by test and conditions. Feed it the runs in their order, or in the reverse order.
#[derive(Debug, Clone)]
pub struct FlakyDetector<T, C> {
    counts: BTreeMap<(T, C), Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    passed: u64,
    failed: u64,
    changes: u64,
    last_failed: Option<bool>,
}

impl Counts {
    fn add(&mut self, failed: bool) {
        *(if failed { &mut self.failed } else { &mut self.passed }) += 1;
        self.changes += u64::from(self.last_failed.is_some_and(|last| last != failed));
        self.last_failed = Some(failed);
    }
}

impl<T: Ord + Copy, C: Ord + Copy> Default for FlakyDetector<T, C> {
    fn default() -> Self {
        FlakyDetector { counts: BTreeMap::new() }
    }
}

impl<T: Ord + Copy, C: Ord + Copy> FlakyDetector<T, C> {
    /// Counts one result. `conditions` are equal for runs of the same files, command and environment.
    pub fn add(&mut self, test: T, conditions: C, result: TestResult) {
        match result.outcome {
            TestOutcome::Passed => self.counts.entry((test, conditions)).or_default().add(false),
            TestOutcome::Failed | TestOutcome::Error => self.counts.entry((test, conditions)).or_default().add(true),
            TestOutcome::Skipped | TestOutcome::Xfailed | TestOutcome::Xpassed => {}
        }
    }

    /// Counts a test that one run executed several times with both results, of which `failures` failed.
    pub fn add_repeated(&mut self, test: T, conditions: C, executions: u64, failures: u64) {
        let counts = self.counts.entry((test, conditions)).or_default();
        counts.passed += executions.saturating_sub(failures);
        counts.failed += failures;
        counts.changes += if failures > 0 && failures < executions { CHANGES_MIN } else { 0 };
    }

    /// The flaky tests, those that surely fail most often first.
    #[must_use]
    pub fn flaky(self) -> Vec<Flaky<T>> {
        let mut by_test: BTreeMap<T, (u64, u64)> = BTreeMap::new();
        for ((test, _), Counts { passed, failed, changes, .. }) in self.counts {
            if changes >= CHANGES_MIN {
                let (runs, failures) = by_test.entry(test).or_default();
                *runs += passed + failed;
                *failures += failed;
            }
        }
        let flaky = |(test, (runs, failures))| Flaky { test, runs, failures, rate: Rate::new(failures, runs) };
        let mut flaky: Vec<Flaky<T>> = by_test.into_iter().map(flaky).collect();
        flaky.sort_by(|a, b| b.rate.low.total_cmp(&a.rate.low).then(a.test.cmp(&b.test)));
        flaky
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn result(outcome: TestOutcome) -> TestResult {
        TestResult { outcome, duration_us: None }
    }

    #[test]
    fn intervals_equal_published_values() {
        // Newcombe (1998), Statistics in Medicine 17, table I, method 3: Wilson score without continuity correction.
        for (hits, all, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let rate = Rate::new(hits, all);
            assert!((rate.low - low).abs() < 5e-5 && (rate.high - high).abs() < 5e-5, "{hits}/{all}: {rate:?}");
        }
        assert_eq!(Rate::new(0, 0), Rate { rate: 0.0, low: 0.0, high: 1.0 });
    }

    #[test]
    fn only_a_test_whose_result_came_back_under_equal_conditions_is_flaky() {
        let mut detector = FlakyDetector::default();
        for (test, conditions, outcome) in [
            ("flaky", 1, TestOutcome::Passed),
            ("flaky", 1, TestOutcome::Failed),
            ("flaky", 1, TestOutcome::Passed),
            ("flaky", 2, TestOutcome::Passed),
            ("broken by an edit", 1, TestOutcome::Passed),
            ("broken by an edit", 2, TestOutcome::Failed),
            ("skipped at times", 1, TestOutcome::Skipped),
            ("skipped at times", 1, TestOutcome::Failed),
            ("error", 3, TestOutcome::Error),
            ("error", 3, TestOutcome::Passed),
            ("error", 3, TestOutcome::Skipped),
            ("error", 3, TestOutcome::Failed),
            ("repaired by an upgrade", 1, TestOutcome::Failed),
            ("repaired by an upgrade", 1, TestOutcome::Failed),
            ("repaired by an upgrade", 1, TestOutcome::Passed),
            ("repaired by an upgrade", 1, TestOutcome::Passed),
        ] {
            detector.add(test, conditions, result(outcome));
        }
        detector.add_repeated("both in one run", 1, 10, 1);
        detector.add_repeated("broken in each execution", 1, 10, 10);
        let flaky: Vec<_> =
            detector.flaky().into_iter().map(|found| (found.test, found.runs, found.failures)).collect();
        assert_eq!(flaky, [("error", 3, 2), ("flaky", 3, 1), ("both in one run", 10, 1)]);
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_rate(hits in 0_u64..1_000, more in 0_u64..1_000) {
            let Rate { rate, low, high } = Rate::new(hits, hits + more);
            prop_assert!((0.0..=1.0).contains(&low) && (0.0..=1.0).contains(&high));
            prop_assert!(low <= rate + 1e-12 && rate <= high + 1e-12);
        }

        #[test]
        fn a_test_that_always_fails_is_never_flaky(runs in proptest::collection::vec(0_u8..4, 0..50)) {
            let mut detector = FlakyDetector::default();
            runs.into_iter().for_each(|conditions| detector.add("t", conditions, result(TestOutcome::Failed)));
            prop_assert!(detector.flaky().is_empty());
        }
    }
}
