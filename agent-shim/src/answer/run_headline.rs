//! The outcome of a run in one line: `failed: 1 of 500 (go, 3.2s)`.

use super::failure::{FailureEntry, FailureKind};
use proctor_proto::printable::line;
use proctor_proto::text;
use proctor_proto::v1::{Outcome, Report, Summary};

/// Most tests named that were running when the run was cut off.
const RUNNING_MAX: usize = 3;

/// The outcome of `report`, whose failures are `entries`.
pub(crate) fn headline(report: &Report, entries: &[FailureEntry]) -> String {
    let counts = report.summary.unwrap_or_default();
    let what = match report.outcome() {
        Outcome::Passed if !report.structured => "the command exited 0 and gives no results test by test".to_owned(),
        Outcome::Passed if counts.total > 0 && counts.skipped == counts.total => {
            format!("all {} tests were skipped", counts.total)
        }
        Outcome::Passed => match report.affected.as_ref().filter(|affected| affected.full_reason.is_none()) {
            Some(affected) => {
                let all = counts.total + affected.left_out;
                format!("{} affected of {all}{}", counts.passed, other_counts(report))
            }
            None => format!("{} tests{}", counts.passed, other_counts(report)),
        },
        Outcome::Failed if counts.failed + counts.error > 0 => {
            format!("{} of {}{}", failing(report), counts.total, other_counts(report))
        }
        Outcome::Failed => no_failing_test(report, &counts),
        Outcome::BuildFailed => format!("{}; {}", broken_units(report, "did not build"), finished(report, &counts)),
        Outcome::CollectionFailed => {
            format!("{}; {}", broken_units(report, "could not be loaded"), finished(report, &counts))
        }
        Outcome::NoTests => "nothing ran".to_owned(),
        Outcome::Crashed => match report.evidence.as_ref().and_then(|evidence| evidence.signal) {
            Some(signal) => format!("signal {signal} ended the runner; {}", finished(report, &counts)),
            None => finished(report, &counts),
        },
        _ => finished(report, &counts) + &running(entries),
    };
    let outcome = text::outcome_name(report.outcome());
    let changes = text::changes(report.since_last_run.as_ref(), report.since_last_green.as_ref());
    let changes = changes.map(|changes| format!("; {changes}")).unwrap_or_default();
    format!("{outcome}: {what} ({}, {:.1}s){changes}", report.framework, report.duration_s)
}

/// Number of failed tests without those that failed only because a subtest of theirs did, which no list of failures repeats.
pub(crate) fn failing(report: &Report) -> u64 {
    let counts = report.summary.unwrap_or_default();
    (counts.failed + counts.error).saturating_sub(report.failed_parents)
}

fn no_failing_test(report: &Report, counts: &Summary) -> String {
    let not_run =
        report.evidence.as_ref().map_or(0, |evidence| evidence.not_run.len() as u64 + evidence.not_run_left_out);
    match not_run {
        0 if report.structured => format!("the runner exited {} although no single test failed", report.exit_code),
        0 => format!("the command exited {}", report.exit_code),
        not_run => {
            let cause = report.raw_exit_code.filter(|code| *code != 0);
            let cause = cause.map(|code| format!(": the runner exited {code}")).unwrap_or_default();
            format!("{} passed, and {not_run} that were selected by name gave no result{cause}", counts.passed)
        }
    }
}

fn other_counts(report: &Report) -> String {
    let counts = report.summary.unwrap_or_default();
    let kinds = [
        (report.failed_parents, "failed by a subtest"),
        (counts.skipped, "skipped"),
        (counts.xfailed, "failed as expected"),
        (counts.xpassed, "passed unexpectedly"),
    ];
    kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!(", {count} {kind}")).collect()
}

fn broken_units(report: &Report, what: &str) -> String {
    let count = report.collectors.len() as u64 + report.collectors_left_out;
    match report.collectors.first() {
        Some(first) if count == 1 => format!("{} {what}", line(&first.nodeid)),
        _ => format!("{count} packages or files {what}"),
    }
}

fn finished(report: &Report, counts: &Summary) -> String {
    format!("{} passed, {} failed", counts.passed, failing(report))
}

fn running(entries: &[FailureEntry]) -> String {
    let names: Vec<&str> =
        entries.iter().filter(|entry| entry.kind == FailureKind::Running).map(|entry| entry.name.as_str()).collect();
    let shown: Vec<_> = names.iter().take(RUNNING_MAX).map(|name| line(name)).collect();
    match names.len() {
        0 => String::new(),
        count if count > RUNNING_MAX => format!("; running: {} and {} more", shown.join(", "), count - RUNNING_MAX),
        _ => format!("; running: {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::failure;
    use proctor_proto::v1::{
        Affected, Collector, Evidence, SinceLastGreen, SinceLastRun, TestCase, TestGroup, TestId, TestOutcome,
    };

    fn report(outcome: Outcome, summary: Summary) -> Report {
        Report {
            outcome: outcome.into(),
            framework: "go".into(),
            duration_s: 1.34,
            structured: true,
            summary: Some(summary),
            ..Report::default()
        }
    }

    fn line_of(report: &Report) -> String {
        headline(report, &failure::entries(report))
    }

    #[test]
    fn describes_each_outcome_in_one_line() {
        let counts = Summary { total: 12, passed: 9, failed: 2, skipped: 1, ..Summary::default() };
        assert_eq!(line_of(&report(Outcome::Failed, counts)), "failed: 2 of 12, 1 skipped (go, 1.3s)");
        let passed = Summary { total: 12, passed: 12, ..Summary::default() };
        assert_eq!(line_of(&report(Outcome::Passed, passed)), "passed: 12 tests (go, 1.3s)");
        let skipped = Summary { total: 3, skipped: 3, ..Summary::default() };
        assert_eq!(line_of(&report(Outcome::Passed, skipped)), "passed: all 3 tests were skipped (go, 1.3s)");
        let mut cut = report(Outcome::TimedOut, counts);
        let hang = TestId { package: "a/b".into(), name: "TestHang".into() };
        cut.evidence = Some(Evidence { running: vec![hang.clone()], ..Evidence::default() });
        assert_eq!(line_of(&cut), "timed_out: 9 passed, 2 failed; running: a/b/TestHang (go, 1.3s)");
        cut.evidence = Some(Evidence { running: vec![hang; 5], ..Evidence::default() });
        assert!(line_of(&cut).ends_with("TestHang and 2 more (go, 1.3s)"), "{}", line_of(&cut));
        let mut crashed = report(Outcome::Crashed, passed);
        crashed.evidence = Some(Evidence { signal: Some(11), ..Evidence::default() });
        assert_eq!(line_of(&crashed), "crashed: signal 11 ended the runner; 12 passed, 0 failed (go, 1.3s)");
        let mut build = report(Outcome::BuildFailed, Summary::default());
        build.collectors = vec![Collector { nodeid: "a/b".into(), ..Collector::default() }];
        assert_eq!(line_of(&build), "build_failed: a/b did not build; 0 passed, 0 failed (go, 1.3s)");
        build.outcome = Outcome::CollectionFailed.into();
        build.collectors_left_out = 1;
        assert!(line_of(&build).starts_with("collection_failed: 2 packages or files could not be loaded; 0 passed"));
    }

    #[test]
    fn a_pass_of_affected_tests_is_no_pass_of_all() {
        let mut passed = report(Outcome::Passed, Summary { total: 12, passed: 12, ..Summary::default() });
        passed.affected = Some(Affected { selected: 12, left_out: 328, ..Affected::default() });
        assert_eq!(line_of(&passed), "passed: 12 affected of 340 (go, 1.3s)");
        passed.affected = Some(Affected { selected: 12, full_reason: Some("why".into()), ..Affected::default() });
        assert_eq!(line_of(&passed), "passed: 12 tests (go, 1.3s)");
    }

    #[test]
    fn says_what_changed_since_the_last_run() {
        let counts = Summary { total: 12, passed: 9, failed: 3, ..Summary::default() };
        let group = |total| Some(TestGroup { total, ..TestGroup::default() });
        let mut changed = report(Outcome::Failed, counts);
        changed.since_last_run =
            Some(SinceLastRun { new: group(1), fixed: group(4), still_failing: group(2), ..SinceLastRun::default() });
        assert_eq!(line_of(&changed), "failed: 3 of 12 (go, 1.3s); 1 new, 4 fixed, 2 still failing");
        changed.since_last_green = Some(SinceLastGreen { runs: 3, ..SinceLastGreen::default() });
        let line = "failed: 3 of 12 (go, 1.3s); 1 new, 4 fixed, 2 still failing; all passed 3 runs ago";
        assert_eq!(line_of(&changed), line);
        changed.since_last_run = Some(SinceLastRun { new: group(0), ..SinceLastRun::default() });
        assert_eq!(line_of(&changed), "failed: 3 of 12 (go, 1.3s)");
    }

    #[test]
    fn says_what_gave_no_result_in_a_rerun() {
        let mut again = report(Outcome::Failed, Summary { total: 1, passed: 1, ..Summary::default() });
        again.evidence = Some(Evidence { not_run: vec![TestId::default(); 2], ..Evidence::default() });
        again.raw_exit_code = Some(2);
        assert_eq!(
            line_of(&again),
            "failed: 1 passed, and 2 that were selected by name gave no result: the runner exited 2 (go, 1.3s)"
        );
    }

    #[test]
    fn counts_the_failures_that_it_lists() {
        let case = |name: &str, message: Option<&str>| TestCase {
            nodeid: name.into(),
            outcome: TestOutcome::Failed.into(),
            message: message.map(str::to_owned),
            ..TestCase::default()
        };
        let mut nested = report(Outcome::Failed, Summary { total: 6, passed: 4, failed: 2, ..Summary::default() });
        nested.tests = vec![case("a/T/x", Some("wrong")), TestCase { failed_by_subtest: true, ..case("a/T", None) }];
        nested.failed_parents = 1;
        assert_eq!(line_of(&nested), "failed: 1 of 6, 1 failed by a subtest (go, 1.3s)");
    }
}
