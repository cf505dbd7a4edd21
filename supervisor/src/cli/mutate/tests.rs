//! What a report of a run shows of a mutant.

use super::verdict::{Unmutated, Verdict};
use proctor_core::limits::Limits;
use proctor_core::outcome::{KillReason, Outcome};
use proctor_core::report::Report;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use std::collections::BTreeSet;

fn id(name: &str) -> TestId {
    TestId { package: "p".to_owned(), name: name.to_owned() }
}

fn report(outcome: Outcome, failed: &[&str]) -> Report {
    let mut report = crate::runs::without_running(Timestamp(0), Limits::DEFAULT, "pytest", KillReason::Cancelled, "");
    report.outcome = outcome;
    report.tests =
        failed.iter().map(|name| TestCase::new(id(name), format!("p/{name}"), TestOutcome::Failed)).collect();
    report
}

#[test]
fn a_mutant_is_noticed_only_by_evidence() {
    let before = Unmutated { failing: BTreeSet::from([id("broken")]), outcome: Outcome::Failed, collectors: 0 };
    let killed = |name: &str| Some(Verdict::Killed { by: vec![id(name)] });
    for (outcome, failed, ran_all, expected) in [
        (Outcome::Passed, &[][..], false, Some(Verdict::Survived)),
        (Outcome::Failed, &["a"], false, killed("a")),
        // A crash after a failure, and an end by the clock after one, have a test that names the change.
        (Outcome::TimedOut, &["a"], false, killed("a")),
        (Outcome::TimedOut, &[], false, Some(Verdict::TimedOut)),
        (Outcome::OutOfMemory, &[], false, Some(Verdict::Ended(Outcome::OutOfMemory))),
        (Outcome::BuildFailed, &[], false, Some(Verdict::NotCompiled)),
        (Outcome::CollectionFailed, &[], true, Some(Verdict::NotLoaded)),
        // Tests that were not found under their names: only the whole suite shows it.
        (Outcome::CollectionFailed, &[], false, None),
        (Outcome::NoTests, &[], false, None),
        (Outcome::Failed, &["broken"], true, Some(Verdict::Survived)),
        // A threshold of the project fails the suite without a failed test, as before.
        (Outcome::Failed, &[], true, Some(Verdict::Survived)),
        (Outcome::Failed, &[], false, None),
        (Outcome::Cancelled, &["a"], false, Some(Verdict::NotRun("cancelled".to_owned()))),
        (Outcome::WorkerLost, &[], false, Some(Verdict::NotRun("worker_lost".to_owned()))),
    ] {
        let shown = Verdict::from_report(&report(outcome, failed), &before, ran_all);
        assert_eq!(shown, expected, "{outcome:?} {failed:?}");
    }
}

#[test]
fn what_no_compiler_takes_does_not_count() {
    let mut report = report(Outcome::CollectionFailed, &[]);
    report.collectors = vec![Collector {
        nodeid: "a.test.ts".to_owned(),
        kind: CollectorKind::Collection,
        file: None,
        line: None,
        message: "src/a.ts:3:1 - error TS2367: no overlap".to_owned(),
        output: String::new(),
    }];
    let mut before = Unmutated { failing: BTreeSet::new(), outcome: Outcome::Passed, collectors: 0 };
    assert_eq!(Verdict::from_report(&report, &before, false), Some(Verdict::NotCompiled));
    report.collectors[0].message = "cannot find module".to_owned();
    assert_eq!(Verdict::from_report(&report, &before, true), Some(Verdict::NotLoaded));
    before = Unmutated { outcome: Outcome::CollectionFailed, collectors: 1, ..before };
    assert_eq!(Verdict::from_report(&report, &before, true), Some(Verdict::Survived), "it could not be loaded before");
}
