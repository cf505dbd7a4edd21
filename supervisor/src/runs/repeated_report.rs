//! Joins the reports of a run's executions into one. Each test is listed once, with its first failure if it had one; the
//! outcome is the first in precedence, so no repetition makes a failure green.

use super::combined_exit;
use super::tally::Tally;
use proctor_core::bounds::NOTES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::failure::count_failed_parents;
use proctor_core::outcome::Outcome;
use proctor_core::report::{Report, Summary, Truncated};
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use std::collections::BTreeMap;

/// Joins an execution of the whole selection to those before it.
pub(super) fn join(mut all: Report, mut next: Report) -> Report {
    let (tests, summary, left_out) = join_tests(&mut all, &mut next);
    add_figures(&mut all, &mut next);
    let structured = all.structured && next.structured;
    let partial = all.partial || next.partial;
    let flaky_in_run = all.flaky_in_run.max(next.flaky_in_run);
    // The rest belongs together: it describes the execution whose outcome stands.
    let stands = if next.outcome < all.outcome { adopt(all, next) } else { all };
    Report {
        summary,
        failed_parents: count_failed_parents(&tests),
        flaky_in_run,
        partial,
        structured,
        truncated: Truncated { tests: left_out, ..stands.truncated },
        tests,
        ..stands
    }
}

/// Joins a retry of failed tests: it changes no result. Only a cancellation of the run becomes its outcome.
pub(super) fn join_retry(mut all: Report, mut retry: Report) -> Report {
    add_figures(&mut all, &mut retry);
    if retry.outcome != Outcome::Cancelled {
        return all;
    }
    let (tests, summary, truncated) = (std::mem::take(&mut all.tests), all.summary, all.truncated.tests);
    let failed_parents = all.failed_parents;
    let stands = adopt(all, retry);
    Report {
        tests,
        summary,
        failed_parents,
        partial: true,
        truncated: Truncated { tests: truncated, ..stands.truncated },
        ..stands
    }
}

/// `worse` with what all executions have in common from `all`.
fn adopt(all: Report, worse: Report) -> Report {
    let mut evidence = worse.evidence;
    evidence.held = [evidence.held, all.evidence.held].concat();
    evidence.held.sort_unstable();
    evidence.held.dedup();
    evidence.notes = all.evidence.notes;
    Report {
        outcome: worse.outcome,
        exit_code: worse.exit_code,
        raw_exit_code: worse.raw_exit_code,
        collectors: worse.collectors,
        evidence,
        truncated: Truncated {
            collectors: worse.truncated.collectors,
            not_run: worse.truncated.not_run,
            ..all.truncated
        },
        ..all
    }
}

/// Adds times, resources, notes and the end of the output.
fn add_figures(all: &mut Report, next: &mut Report) {
    let queue_wait_s = all.resources.queue_wait_s;
    all.resources = combined_exit::add(all.resources, next.resources);
    all.resources.queue_wait_s = queue_wait_s;
    all.duration_s += next.duration_s;
    all.ended_at = next.ended_at;
    all.stdout_tail = std::mem::take(&mut next.stdout_tail);
    all.stderr_tail = std::mem::take(&mut next.stderr_tail);
    (all.truncated.stdout_bytes, all.truncated.stderr_bytes) =
        (next.truncated.stdout_bytes, next.truncated.stderr_bytes);
    if all.artifacts.is_empty() {
        all.artifacts = std::mem::take(&mut next.artifacts);
    }
    for note in std::mem::take(&mut next.evidence.notes) {
        if all.evidence.notes.len() < NOTES_MAX && !all.evidence.notes.contains(&note) {
            all.evidence.notes.push(note);
        }
    }
}

/// The tests of both, their counts, and the number of those that are not listed.
fn join_tests(all: &mut Report, next: &mut Report) -> (Vec<TestCase>, Summary, u64) {
    let mut tests = std::mem::take(&mut all.tests);
    let (mut summary, mut left_out) = (all.summary, all.truncated.tests);
    let known: BTreeMap<TestId, usize> = tests.iter().enumerate().map(|(index, test)| (test.id(), index)).collect();
    let mut changed = false;
    for test in std::mem::take(&mut next.tests) {
        match known.get(&test.id()).and_then(|index| tests.get_mut(*index)) {
            Some(listed) if !listed.outcome.is_failure() && test.outcome.is_failure() => {
                move_count(&mut summary, listed.outcome, test.outcome);
                *listed = test;
                changed = true;
            }
            Some(_) => {}
            // One of the tests that the report had no room for, which did not fail then.
            None if left_out > 0 => {
                if test.outcome.is_failure() {
                    move_count(&mut summary, TestOutcome::Passed, test.outcome);
                    left_out -= 1;
                    tests.push(test);
                    changed = true;
                }
            }
            None => {
                summary.count(test.outcome);
                tests.push(test);
                changed = true;
            }
        }
    }
    if !changed {
        return (tests, summary, left_out);
    }
    // The bounds of a report hold for the joined one.
    let mut tally = Tally::default();
    for test in tests {
        tally.record(RunnerEvent::TestFinished(Box::new(test)));
    }
    let (tests, _, truncated) = tally.into_parts();
    (tests, summary, left_out + truncated.tests)
}

fn move_count(summary: &mut Summary, from: TestOutcome, to: TestOutcome) {
    let count = match from {
        TestOutcome::Passed => &mut summary.passed,
        TestOutcome::Failed => &mut summary.failed,
        TestOutcome::Skipped => &mut summary.skipped,
        TestOutcome::Xfailed => &mut summary.xfailed,
        TestOutcome::Xpassed => &mut summary.xpassed,
        TestOutcome::Error => &mut summary.error,
    };
    if *count > 0 {
        *count -= 1;
        summary.total -= 1;
    }
    summary.count(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::without_running;
    use proctor_core::limits::Limits;
    use proctor_core::outcome::KillReason;
    use proctor_core::timestamp::Timestamp;

    fn report(outcome: Outcome, tests: &[(&str, TestOutcome)]) -> Report {
        let base = without_running(Timestamp(0), Limits::DEFAULT, "go", KillReason::Cancelled, "");
        let case = |(name, outcome): &(&str, TestOutcome)| {
            let id = TestId { package: "p".to_owned(), name: (*name).to_owned() };
            TestCase::new(id, format!("p/{name}"), *outcome)
        };
        let tests: Vec<TestCase> = tests.iter().map(case).collect();
        let mut summary = Summary::default();
        tests.iter().for_each(|test| summary.count(test.outcome));
        let mut report = Report { outcome, tests, summary, partial: false, duration_s: 2.0, ..base };
        report.exit_code = i32::from(outcome.exit_code(None));
        report.evidence.held = vec![outcome];
        report.evidence.notes = vec![format!("note of {}", outcome.name())];
        report
    }

    fn shown(report: &Report) -> Vec<(&str, TestOutcome)> {
        let mut tests: Vec<_> = report.tests.iter().map(|test| (test.name.as_str(), test.outcome)).collect();
        tests.sort_unstable_by_key(|(name, _)| *name);
        tests
    }

    #[test]
    fn the_worst_result_of_each_test_and_of_the_run_stands() {
        use TestOutcome::{Error, Failed, Passed};
        let first = report(Outcome::Passed, &[("a", Passed), ("b", Passed)]);
        let second = report(Outcome::Failed, &[("a", Failed), ("b", Passed), ("new", Passed)]);
        let third = report(Outcome::Passed, &[("a", Passed), ("b", Passed)]);
        let fourth = report(Outcome::Failed, &[("a", Error), ("b", Passed)]);
        let joined = [second, third, fourth].into_iter().fold(first, join);
        assert_eq!(shown(&joined), [("a", Failed), ("b", Passed), ("new", Passed)]);
        assert_eq!(joined.summary, Summary { total: 3, passed: 2, failed: 1, ..Summary::default() });
        assert_eq!((joined.outcome, joined.exit_code, joined.duration_s), (Outcome::Failed, 1, 8.0));
        assert_eq!(joined.evidence.held, [Outcome::Failed, Outcome::Passed]);
        assert_eq!(joined.evidence.notes, ["note of passed", "note of failed"]);
    }

    #[test]
    fn tests_beyond_the_report_are_counted_when_they_fail_later() {
        use TestOutcome::{Failed, Passed};
        let mut first = report(Outcome::Passed, &[("a", Passed), ("left out", Passed)]);
        first.tests.truncate(1);
        first.truncated.tests = 1;
        let joined = join(first, report(Outcome::Failed, &[("a", Passed), ("left out", Failed)]));
        assert_eq!(joined.summary, Summary { total: 2, passed: 1, failed: 1, ..Summary::default() });
        assert_eq!((joined.tests.len(), joined.truncated.tests), (2, 0));
    }

    #[test]
    fn a_retry_changes_no_result() {
        use TestOutcome::{Failed, Passed};
        let joined = join_retry(report(Outcome::Failed, &[("a", Failed)]), report(Outcome::Passed, &[("a", Passed)]));
        assert_eq!((joined.outcome, shown(&joined)), (Outcome::Failed, vec![("a", Failed)]));
        let late = join_retry(joined, report(Outcome::TimedOut, &[]));
        assert_eq!(late.outcome, Outcome::Failed, "the tests themselves had ended");
        let cancelled = join_retry(late, report(Outcome::Cancelled, &[]));
        assert_eq!((cancelled.outcome, cancelled.partial), (Outcome::Cancelled, true));
        assert_eq!((shown(&cancelled), cancelled.summary.failed), (vec![("a", Failed)], 1));
    }
}
