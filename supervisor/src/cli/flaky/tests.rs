//! What the counts of stages show, and what they do not show.

use super::conclusion::{conclusion, exit_status};
use super::stage::{Condition, Stage};
use proctor_core::outcome::Outcome;
use proctor_core::repetition::{ExecutionTally, Repetitions};
use proctor_core::report::Report;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use proctor_frameworks::FixedChance;
use std::collections::BTreeMap;
use std::sync::Arc;

const HASH_SEED: FixedChance = FixedChance { variable: "PYTHONHASHSEED", value: "0", what: "the hash seed of Python" };

fn stage(condition: Condition, failures: u64) -> Stage {
    let outcome = if failures > 0 { Outcome::Failed } else { Outcome::Passed };
    let others = usize::from(condition.name() != "alone");
    let before = if others > 0 { vec![id("Polluter")] } else { Vec::new() };
    let exit_code = outcome.exit_code(None);
    Stage { condition, others, executions: 10, failures, before, seed: None, outcome, exit_code }
}

fn id(name: &str) -> TestId {
    TestId { package: "p".to_owned(), name: name.to_owned() }
}

fn alone(failures: u64) -> Stage {
    stage(Condition::Alone, failures)
}

fn among(failures: u64) -> Stage {
    stage(Condition::AmongAll, failures)
}

fn cut_off(stage: Stage, outcome: Outcome) -> Stage {
    Stage { outcome, exit_code: outcome.exit_code(None), ..stage }
}

#[test]
fn a_stage_that_did_not_run_to_its_end_is_no_success() {
    for (stages, status) in [
        (vec![alone(0), among(0)], 0),
        (vec![alone(0), among(1)], 1),
        (vec![alone(0), cut_off(among(1), Outcome::Crashed)], 1),
        (vec![alone(0), cut_off(among(0), Outcome::BuildFailed)], 3),
        (vec![alone(0), cut_off(among(0), Outcome::TimedOut)], 124),
        (vec![alone(0), cut_off(among(0), Outcome::OutOfMemory)], 137),
        (vec![alone(0), cut_off(among(0), Outcome::WorkerLost)], 5),
        (vec![cut_off(alone(0), Outcome::CollectionFailed)], 3),
        (vec![cut_off(alone(1), Outcome::Cancelled)], 130),
        (vec![Stage { executions: 0, ..alone(0) }], 4),
        // Other tests may fail.
        (vec![alone(0), cut_off(among(0), Outcome::Failed)], 0),
    ] {
        assert_eq!(exit_status(&stages), status, "{stages:?}");
        let is_inconclusive = ![0, 1, 4, 130].contains(&status);
        assert_eq!(conclusion(&stages).starts_with("nothing follows"), is_inconclusive, "{stages:?}");
    }
}

/// A report of executions of a parent `T`, its subtest and another test.
fn repeated_report(executions: &[[TestOutcome; 3]]) -> Report {
    let case = |(position, (name, outcome)): (u64, (&str, TestOutcome))| TestCase {
        position,
        ..TestCase::new(id(name), format!("p/{name}"), outcome)
    };
    let now = proctor_core::timestamp::Timestamp(0);
    let limits = proctor_core::limits::Limits::DEFAULT;
    let reason = proctor_core::outcome::KillReason::Cancelled;
    let mut report = crate::runs::without_running(now, limits, "go", reason, "");
    let mut tally = ExecutionTally::default();
    for (number, outcomes) in (1..).zip(executions) {
        let tests: Vec<TestCase> = (0..).zip(["T", "T/a", "U"].into_iter().zip(*outcomes)).map(case).collect();
        tally.add(number, &tests, &BTreeMap::new(), "");
        report.tests = tests;
    }
    let counts = Arc::new(tally.counts());
    let failing_orders = Arc::new(tally.failing_orders());
    let (_, flaky) = tally.flaky();
    report.repetitions = Some(Repetitions {
        requested: 4,
        executions: u32::try_from(executions.len()).unwrap(),
        failed: 1,
        retries: 0,
        flaky,
        counts,
        failing_orders,
        files_changed: false,
    });
    report.outcome = Outcome::Failed;
    report
}

#[test]
fn counts_the_results_of_a_parent_by_those_of_its_subtests() {
    use TestOutcome::{Failed, Passed, Skipped};
    let report = repeated_report(&[
        [Passed, Passed, Skipped],
        [Passed, Passed, Failed],
        [Failed, Failed, Skipped],
        [Failed, Failed, Skipped],
    ]);
    for (name, executions, failures, before) in
        [("T", 4, 2, vec![]), ("p/T/a", 4, 2, vec![]), ("U", 1, 1, vec![id("T"), id("T/a")]), ("V", 0, 0, vec![])]
    {
        let stage = Stage::from_report(Condition::Alone, &report, name).unwrap().stage;
        assert_eq!((stage.executions, stage.failures, stage.before), (executions, failures, before), "{name}");
    }
}

#[test]
fn concludes_only_what_the_counts_show() {
    let pressed = |failures| stage(Condition::AloneLittleCpu, failures);
    let fixed = |failures| stage(Condition::AloneFixed(HASH_SEED), failures);
    let seeded = |failures| stage(Condition::AloneSeeded(7), failures);
    let after = |failures| stage(Condition::After("p/Polluter".to_owned()), failures);
    let some = |tests, failures| {
        let before: Vec<TestId> = (0..tests).map(|number| id(&format!("T{number}"))).collect();
        Stage { before: before.clone(), ..stage(Condition::AfterSome(before), failures) }
    };
    let flaky = "it is flaky by itself: no other test is needed for a failure";
    let decides = |why: &str| format!("{flaky}; {why}");
    let with = |stages: &[Stage]| [vec![alone(0)], stages.to_vec()].concat();
    for (stages, expected) in [
        (vec![alone(3)], flaky.to_owned()),
        (vec![alone(5), fixed(5), pressed(6)], flaky.to_owned()),
        (
            vec![alone(6), fixed(0), pressed(5)],
            decides("the hash seed of Python decides: with PYTHONHASHSEED=0 it failed 0 of 10 executions, without 6 of 10"),
        ),
        (
            vec![alone(2), seeded(10)],
            decides("random values decide: with seed 7 it failed 10 of 10 executions, without 2 of 10"),
        ),
        (
            vec![alone(2), pressed(10)],
            decides(
                "it fails more often under cpu pressure: 10 of 10 executions with 0.2 processors, 2 of 10 without that limit",
            ),
        ),
        (vec![alone(10)], "it failed each time, so this run shows a broken test and no flaky one".to_owned()),
        (
            with(&[among(0), pressed(0)]),
            "it did not fail: a test that passes 30 times fails in at most 11 % of its executions (95 %)".to_owned(),
        ),
        (
            with(&[among(0), pressed(10)]),
            "it fails only under cpu pressure: 10 of 10 executions with 0.2 processors, 0 of 10 without that limit"
                .to_owned(),
        ),
        (
            with(&[among(0), pressed(2)]),
            "it failed under cpu pressure (2 of 10 executions with 0.2 processors, 0 of 10 without that limit): too few \
             executions to say that this is the cause"
                .to_owned(),
        ),
        (
            with(&[among(4), after(10)]),
            "it fails only when p/Polluter ran before it: 10 of 10 executions then, 0 of 10 alone".to_owned(),
        ),
        (
            with(&[among(4), after(1)]),
            "it failed when p/Polluter ran before it (1 of 10 executions then, 0 of 10 alone): too few executions to say \
             that this is the cause"
                .to_owned(),
        ),
        (
            with(&[among(4), some(1, 2), after(0)]),
            "it failed when p/Polluter ran before it, but in none of 10 further executions".to_owned(),
        ),
        (
            with(&[among(4), Stage { before: Vec::new(), ..after(10) }]),
            "it fails only when p/Polluter ran with it: 10 of 10 executions then, 0 of 10 alone".to_owned(),
        ),
        (
            with(&[among(10), some(4, 10), some(2, 0), some(2, 0)]),
            "it fails only when the same 4 tests ran before it (from p/T0 to p/T3), and no half of them was enough: 10 of \
             10 executions then, 0 of 10 alone"
                .to_owned(),
        ),
        (
            with(&[among(10), some(4, 10), cut_off(some(2, 0), Outcome::TimedOut), some(2, 0)]),
            "it fails only when the same 4 tests ran before it (from p/T0 to p/T3); not every half of them ran to its end: \
             10 of 10 executions then, 0 of 10 alone"
                .to_owned(),
        ),
        (
            with(&[among(10), some(4, 0)]),
            "it fails only among other tests: by their order, by what they leave behind, or by the load".to_owned(),
        ),
        (
            with(&[among(0), stage(Condition::Reversed, 10), some(4, 0)]),
            "it failed 10 of 10 executions among all tests in the reverse order, and 0 of 10 among all tests in their own \
             order"
                .to_owned(),
        ),
        (
            with(&[among(0), stage(Condition::Shuffled, 3), some(4, 0), stage(Condition::ShuffledBy(5), 10)]),
            "it fails only in some orders: 10 of 10 executions among all tests in the order of seed 5, 0 of 10 alone; no \
             smaller group of tests was found"
                .to_owned(),
        ),
        (vec![alone(0)], "it did not fail alone, and there is no result among all tests".to_owned()),
        (
            with(&[Stage { executions: 0, ..among(0) }]),
            "it did not fail alone, and has no result among all tests: the project file may leave it out of them"
                .to_owned(),
        ),
    ] {
        assert_eq!(conclusion(&stages), expected, "{stages:?}");
    }
}
