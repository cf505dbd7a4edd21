//! Joins the reports of a run's executions into one. Each test is listed once, with its first failure if it had one; the
//! outcome is the first in precedence, so no repetition makes a failure green.

use super::combined_exit;
use super::report_builder::within_limit;
use super::tally::Tally;
use proctor_core::bounds::{NOT_BUILT_MAX, NOTES_MAX, RUNNING_NAMES_MAX};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::{Evidence, Outcome};
use proctor_core::report::{Report, Summary, Truncated};
use proctor_core::test_case::{Collector, TestCase, TestId, TestOutcome};
use proctor_core::usage_samples;
use std::collections::{BTreeMap, BTreeSet};

/// Joins an execution of the whole selection to those before it.
pub(super) fn join(mut all: Report, mut next: Report) -> Report {
    let unlisted_parents = unlisted_parents(&all).max(unlisted_parents(&next));
    let (tests, summary, left_out) = join_tests(&mut all, &mut next);
    add_figures(&mut all, &mut next);
    let (collectors, collectors_left_out) = join_collectors(&mut all, &mut next);
    let structured = all.structured && next.structured;
    let partial = all.partial || next.partial;
    let flaky_in_run = all.flaky_in_run.max(next.flaky_in_run);
    // Outcome and exit status belong together: they are those of the worst execution. Facts of the others stay.
    let mut joined = if next.outcome < all.outcome {
        with_outcome_of(all, next)
    } else {
        add_evidence(&mut all.evidence, next.evidence);
        all.truncated.not_run = all.truncated.not_run.max(next.truncated.not_run);
        all
    };
    let listed: BTreeSet<TestId> = tests.iter().map(TestCase::id).collect();
    // A test that gave a result in another execution has run.
    joined.evidence.not_run.retain(|test| !listed.contains(test));
    Report {
        summary,
        failed_parents: count_parents(&tests) + unlisted_parents,
        flaky_in_run,
        partial,
        structured,
        truncated: Truncated { tests: left_out, collectors: collectors_left_out, ..joined.truncated },
        tests,
        collectors,
        ..joined
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
    let joined = with_outcome_of(all, retry);
    Report {
        tests,
        summary,
        failed_parents,
        partial: true,
        truncated: Truncated { tests: truncated, ..joined.truncated },
        ..joined
    }
}

/// `all` with the outcome of `worse` and the facts of both.
fn with_outcome_of(all: Report, worse: Report) -> Report {
    let mut evidence = worse.evidence;
    let notes = all.evidence.notes.clone();
    add_evidence(&mut evidence, all.evidence);
    evidence.notes = notes;
    Report {
        outcome: worse.outcome,
        exit_code: worse.exit_code,
        raw_exit_code: worse.raw_exit_code,
        evidence,
        truncated: Truncated { not_run: worse.truncated.not_run.max(all.truncated.not_run), ..all.truncated },
        ..all
    }
}

/// Adds the facts of another execution, within the bounds of a report. Those of `first` come first; exit status, signal
/// and notes stay.
fn add_evidence(first: &mut Evidence, other: Evidence) {
    first.held.extend(other.held);
    first.held.sort_unstable();
    first.held.dedup();
    first.killed = first.killed.or(other.killed);
    // One hit of each limit in the report, with the count of all.
    for hit in other.limit_hits {
        match first.limit_hits.iter_mut().find(|known| known.limit == hit.limit) {
            Some(known) => {
                known.peak = known.peak.max(hit.peak);
                known.count = known.count.saturating_add(hit.count);
            }
            None => first.limit_hits.push(hit),
        }
    }
    add_new(&mut first.running, other.running, RUNNING_NAMES_MAX);
    add_new(&mut first.not_built, other.not_built, NOT_BUILT_MAX);
    if first.hung.is_empty() {
        first.hung = other.hung;
    }
    // The names of both lists are selected ones, of which a request has a bounded number.
    let known: BTreeSet<&TestId> = first.not_run.iter().collect();
    let new: Vec<TestId> = other.not_run.into_iter().filter(|test| !known.contains(test)).collect();
    first.not_run.extend(new);
    first.not_run = within_limit(std::mem::take(&mut first.not_run));
    first.unreached |= other.unreached;
    first.tests_finished = first.tests_finished.max(other.tests_finished);
}

fn add_new<T: PartialEq>(first: &mut Vec<T>, other: Vec<T>, max: usize) {
    for item in other {
        if first.len() < max && !first.contains(&item) {
            first.push(item);
        }
    }
}

/// The build and collection errors of both, and the number of those that are not listed.
fn join_collectors(all: &mut Report, next: &mut Report) -> (Vec<Collector>, u64) {
    let left_out = all.truncated.collectors.max(next.truncated.collectors);
    let known = std::mem::take(&mut all.collectors);
    let ids: BTreeSet<String> = known.iter().map(|collector| collector.nodeid.clone()).collect();
    let new = std::mem::take(&mut next.collectors);
    let new: Vec<Collector> = new.into_iter().filter(|collector| !ids.contains(&collector.nodeid)).collect();
    if new.is_empty() {
        return (known, left_out);
    }
    let mut tally = Tally::default();
    for collector in known.into_iter().chain(new) {
        tally.record(RunnerEvent::Collector(Box::new(collector)));
    }
    add_note(all, tally.note());
    let (_, collectors, truncated) = tally.into_parts();
    (collectors, left_out + truncated.collectors)
}

/// Adds times, resources, notes and the end of the output.
fn add_figures(all: &mut Report, next: &mut Report) {
    let queue_wait_s = all.resources.queue_wait_s;
    all.resources = combined_exit::add(all.resources, next.resources);
    all.resources.queue_wait_s = queue_wait_s;
    all.usage = usage_samples::join(&all.usage, &next.usage);
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

fn count_parents(tests: &[TestCase]) -> u64 {
    tests.iter().filter(|test| test.failed_by_subtest).count() as u64
}

fn unlisted_parents(report: &Report) -> u64 {
    report.failed_parents.saturating_sub(count_parents(&report.tests))
}

/// The tests of both, their counts, and the number of those that are not listed.
fn join_tests(all: &mut Report, next: &mut Report) -> (Vec<TestCase>, Summary, u64) {
    let mut tests = std::mem::take(&mut all.tests);
    // Which tests an execution left out is not known: the larger number is the least that is true.
    let (mut summary, mut left_out) = (all.summary, all.truncated.tests);
    let listed_failures = |tests: &[TestCase]| tests.iter().filter(|test| test.outcome.is_failure()).count() as u64;
    // Failures that no list had room for: a failed test that is not listed may be one of them.
    let mut unlisted_failures = summary.failures().saturating_sub(listed_failures(&tests));
    let known: BTreeMap<TestId, usize> = tests.iter().enumerate().map(|(index, test)| (test.id(), index)).collect();
    let mut changed = false;
    for test in std::mem::take(&mut next.tests) {
        match known.get(&test.id()).and_then(|index| tests.get_mut(*index)) {
            Some(listed) if !listed.outcome.is_failure() && test.outcome.is_failure() => {
                summary.move_count(listed.outcome, test.outcome);
                *listed = test;
                changed = true;
            }
            // A failure of its own says more than one by a subtest.
            Some(listed) if listed.failed_by_subtest && test.is_own_failure() => {
                summary.move_count(listed.outcome, test.outcome);
                *listed = test;
                changed = true;
            }
            Some(_) => {}
            // One of the tests that the report had no room for.
            None if left_out > 0 => {
                if test.outcome.is_failure() {
                    if unlisted_failures > 0 {
                        unlisted_failures -= 1;
                    } else {
                        summary.move_count(TestOutcome::Passed, test.outcome);
                    }
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
    // The other execution may have had tests and failures that it did not list: no count of the run is below its own.
    while summary.total < next.summary.total {
        let is_failure = summary.failures() < next.summary.failures();
        summary.count(if is_failure { TestOutcome::Failed } else { TestOutcome::Passed });
        left_out += 1;
    }
    while summary.failures() < next.summary.failures() && summary.passed > 0 {
        summary.move_count(TestOutcome::Passed, TestOutcome::Failed);
    }
    if !changed {
        return (tests, summary, left_out);
    }
    // The bounds of a report hold for the joined one.
    let mut tally = Tally::default();
    for test in tests {
        tally.record_test(test);
    }
    add_note(all, tally.note());
    let (tests, _, truncated) = tally.into_parts();
    (tests, summary, left_out + truncated.tests)
}

/// Adds a note about texts that had no room, unless there is one.
fn add_note(all: &mut Report, note: Option<String>) {
    let notes = &mut all.evidence.notes;
    let Some(note) = note.filter(|_| notes.len() < NOTES_MAX) else { return };
    // They differ in a number only.
    let is_same = |other: &&String| {
        note.chars().take_while(|c| !c.is_ascii_digit()).eq(other.chars().take_while(|c| !c.is_ascii_digit()))
    };
    if !notes.iter().any(|other| is_same(&other)) {
        notes.push(note);
    }
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
    fn the_run_has_the_worst_result_of_each_test() {
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
    fn no_count_is_wrong_by_a_test_that_had_no_room() {
        use TestOutcome::{Failed, Passed};
        // An unlisted failure is not counted twice.
        let mut first = report(Outcome::Failed, &[("a", Passed), ("unlisted", Failed)]);
        first.tests.truncate(1);
        first.truncated.tests = 1;
        let joined = join(first, report(Outcome::Failed, &[("a", Passed), ("unlisted", Failed)]));
        assert_eq!(joined.summary, Summary { total: 2, passed: 1, failed: 1, ..Summary::default() });
        // Tests that only a later execution had, without room for them.
        let mut second = report(Outcome::Failed, &[("a", Passed), ("b", Passed), ("c", Failed)]);
        second.tests.truncate(1);
        second.truncated.tests = 2;
        let joined = join(report(Outcome::Crashed, &[("a", Passed)]), second);
        assert_eq!(joined.summary, Summary { total: 3, passed: 2, failed: 1, ..Summary::default() });
        assert_eq!((joined.tests.len(), joined.truncated.tests), (1, 2));
    }

    #[test]
    fn the_facts_of_every_execution_stay_whichever_ended_worse() {
        let collector = |nodeid: &str| Collector {
            nodeid: nodeid.to_owned(),
            kind: proctor_core::test_case::CollectorKind::Collection,
            file: None,
            line: None,
            message: "no module".to_owned(),
            output: String::new(),
        };
        let id = |name: &str| TestId { package: "p".to_owned(), name: name.to_owned() };
        let mut broken = report(Outcome::CollectionFailed, &[]);
        broken.collectors = vec![collector("one.py"), collector("two.py")];
        broken.evidence.unreached = true;
        broken.evidence.not_run = vec![id("a"), id("gone")];
        let mut crashed = report(Outcome::Crashed, &[("a", TestOutcome::Error)]);
        crashed.evidence.running = vec![id("a")];
        crashed.collectors = vec![collector("two.py")];
        for executions in [[broken.clone(), crashed.clone()], [crashed, broken]] {
            let [first, second] = executions;
            let joined = join(first, second);
            assert_eq!((joined.outcome, joined.truncated.collectors), (Outcome::Crashed, 0));
            assert_eq!(joined.evidence.held, [Outcome::Crashed, Outcome::CollectionFailed]);
            let mut names: Vec<&str> = joined.collectors.iter().map(|collector| collector.nodeid.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["one.py", "two.py"]);
            assert!(joined.evidence.unreached);
            assert_eq!((joined.evidence.running, joined.evidence.not_run), (vec![id("a")], vec![id("gone")]));
        }
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
