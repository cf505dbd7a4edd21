//! What measuring coverage costs the tests of a project, and which runs of all tests measure it for that reason.
//!
//! The cost is a ratio of wall times, since that is what a caller waits for: tests that a measured run executes one after
//! another use no more processor time, and end later.

use crate::report::Report;
use crate::request::{CoverageMode, RunRequest};
use serde::{Deserialize, Serialize};

/// Time of tests, in milliseconds, up to which every run measures: of less, nobody notices the difference.
const CHEAP_MS: u64 = 20_000;

/// Thousandths of the time without measuring up to which every run measures.
const SLOWDOWN_MILLIS_MAX: u64 = 1_500;

/// Beyond, one in so many runs of all tests measures.
const MEASURED_EVERY: u32 = 5;

/// Times are compared while the number of tests changes by at most this fraction, and of runs in which at most this fraction failed.
const FRACTION: u64 = 10;

/// Times that are kept of each kind. The shortest counts, since other work on the host only makes tests slower.
const TIMES_MAX: usize = 3;

/// How long all tests take with and without measuring.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageCost {
    /// The framework that the runs asked for; `None` for the one that is detected.
    framework: Option<String>,
    /// Milliseconds of the last runs that measured, the newest last.
    measured_ms: Vec<u64>,
    /// The same of runs that did not.
    plain_ms: Vec<u64>,
    /// Runs of all tests since the last one that measured.
    plain_runs: u32,
    /// Number of the tests that took these times.
    tests: u64,
}

impl CoverageCost {
    /// Records a run that was asked for all tests. Times count only of one that had all results, and next to no failure: a test that
    /// fails may end early.
    pub fn record(&mut self, request: &RunRequest, report: &Report, has_measured: bool) {
        if !request.repetition.is_once() || !request.command.is_empty() {
            return;
        }
        if self.framework != request.framework {
            *self = CoverageCost { framework: request.framework.clone(), ..CoverageCost::default() };
        }
        self.plain_runs = if has_measured { 0 } else { self.plain_runs.saturating_add(1) };
        let tests = report.summary.total;
        let is_typical = report.has_all_results() && report.summary.failures() <= tests / FRACTION;
        let Some(ms) = tests_ms(report).filter(|_| is_typical) else { return };
        if tests.abs_diff(self.tests) > self.tests / FRACTION {
            self.measured_ms.clear();
            self.plain_ms.clear();
        }
        self.tests = tests;
        let times = if has_measured { &mut self.measured_ms } else { &mut self.plain_ms };
        times.push(ms);
        times.drain(..times.len().saturating_sub(TIMES_MAX));
    }

    /// Why a run of all tests does not measure coverage although it may; `None` if it measures.
    #[must_use]
    pub fn skip(&self, request: &RunRequest) -> Option<String> {
        let may_skip = request.coverage == CoverageMode::Auto
            && request.selection.is_whole()
            && request.command.is_empty()
            && request.check.is_none()
            && request.repetition.is_once()
            && request.framework == self.framework;
        let measured_ms = self.measured_ms.iter().copied().min().filter(|ms| may_skip && *ms > CHEAP_MS)?;
        let measured_s = measured_ms / 1_000;
        let Some(plain_ms) = self.plain_ms.iter().copied().min() else {
            // A run that told nothing is not followed by another one of its kind.
            return (self.plain_runs == 0).then(|| {
                format!(
                    "no lines are measured in this run, to learn what measuring costs: with it, the tests took {measured_s} s"
                )
            });
        };
        let is_due = self.plain_runs + 1 >= MEASURED_EVERY;
        let slowdown = measured_ms.saturating_mul(1_000) / plain_ms.max(1);
        (slowdown > SLOWDOWN_MILLIS_MAX && !is_due).then(|| {
            format!(
                "no lines are measured in this run: with it, the tests took {measured_s} s instead of {} s, so that one run of all \
                 tests in {MEASURED_EVERY} measures them, and each run of some tests; coverage \"on\" measures them now",
                plain_ms / 1_000
            )
        })
    }
}

/// Milliseconds from the start of the first test to the end of the run, without what was built before; `None` if the runner
/// does not say when its tests end.
fn tests_ms(report: &Report) -> Option<u64> {
    let starts = report.tests.iter().filter_map(|test| Some(test.finished_s? - test.duration_s.unwrap_or_default()));
    let first = starts.min_by(f64::total_cmp)?;
    let span = ((report.duration_s - first.max(0.0)) * 1_000.0).max(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds of a run, not negative")]
    Some(span as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::repetition::Repetition;
    use crate::report::tests::report;
    use crate::request::Selection;
    use crate::test_case::{TestCase, TestId, TestOutcome};

    /// A run of 100 s of which tests took the last `seconds`.
    fn took(seconds: f64) -> Report {
        let id = TestId { package: "p".into(), name: "T".into() };
        let mut test = TestCase::new(id, "p/T".into(), TestOutcome::Passed);
        (test.duration_s, test.finished_s) = (Some(2.0), Some(102.0 - seconds));
        Report { duration_s: 100.0, ..report(Outcome::Passed, vec![test]) }
    }

    /// What is said of the next run after runs that took so many seconds, measured or not.
    fn after(runs: &[(f64, bool)]) -> Option<String> {
        let (mut cost, request) = (CoverageCost::default(), RunRequest::default());
        runs.iter().for_each(|(seconds, measured)| cost.record(&request, &took(*seconds), *measured));
        cost.skip(&request)
    }

    #[test]
    fn measures_every_run_of_short_tests_and_of_tests_that_it_slows_down_little() {
        for runs in [
            &[][..],
            &[(19.0, true)],
            &[(19.0, true), (1.0, false)],
            &[(60.0, true), (41.0, false)],
            // Measured once on a busy host.
            &[(60.0, true), (10.0, false), (15.0, true)],
            // Nothing was measured, as of a framework without coverage.
            &[(60.0, false), (60.0, false)],
        ] {
            assert_eq!(after(runs), None, "{runs:?}");
        }
    }

    #[test]
    fn finds_out_what_measuring_costs_and_then_measures_one_run_in_five() {
        let mut runs = vec![(60.0, true)];
        assert!(after(&runs).is_some_and(|note| note.contains("to learn what measuring costs")));
        for _ in 0..4 {
            assert!(after(&runs).is_some(), "{runs:?}");
            runs.push((30.0, false));
        }
        assert_eq!(after(&runs), None, "{runs:?}");
        runs.push((61.0, true));
        assert!(after(&runs).is_some_and(|note| note.contains("took 60 s instead of 30 s")));
        // The tests are faster now, in each of the last runs.
        runs.extend([(21.0, true); 3]);
        runs.push((20.0, false));
        assert_eq!(after(&runs), None);
    }

    #[test]
    fn counts_runs_of_all_tests_of_one_framework_only() {
        let expensive = || {
            let (mut cost, request) = (CoverageCost::default(), RunRequest::default());
            cost.record(&request, &took(60.0), true);
            cost.record(&request, &took(30.0), false);
            cost
        };
        let go = RunRequest { framework: Some("go".into()), ..RunRequest::default() };
        assert!(expensive().skip(&RunRequest::default()).is_some());
        let some = Selection::Matching { filter: None, files: vec!["x".into()] };
        for other in [
            RunRequest { coverage: CoverageMode::On, ..RunRequest::default() },
            RunRequest { coverage: CoverageMode::Off, ..RunRequest::default() },
            RunRequest { selection: some, ..RunRequest::default() },
            RunRequest { command: vec!["make".into()], ..RunRequest::default() },
            go.clone(),
        ] {
            assert_eq!(expensive().skip(&other), None, "{other:?}");
        }
        let mut cost = expensive();
        cost.record(
            &RunRequest { repetition: Repetition { repeat: 9, ..Repetition::ONCE }, ..go.clone() },
            &took(9.0),
            true,
        );
        assert_eq!(cost, expensive());
        cost.record(&go, &took(90.0), true);
        assert_eq!(cost.skip(&RunRequest::default()), None);
        assert!(cost.skip(&go).is_some());
    }
}
