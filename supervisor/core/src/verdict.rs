//! The verdict: derives the outcome of a run from the recorded facts. A false green would be made here, so every way to
//! [`Outcome::Passed`] is in one function.

use crate::bounds::{NAME_BYTES_MAX, NOT_BUILT_MAX};
use crate::check::{CheckReport, CheckerStatus};
use crate::limits::LimitKind;
use crate::outcome::{Evidence, Exit, KillReason, LimitHit, Outcome};
use crate::proof::Proof;
use crate::report::Summary;
use crate::test_case::TestId;
use std::collections::BTreeSet;

/// Most tests named in a note.
const NOT_RUN_NAMED_MAX: usize = 8;

/// Recorded facts of a run.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Number of commands in the run's plan.
    pub commands: usize,
    /// Exit of each started command.
    pub exits: Vec<Exit>,
    /// Why proctor killed the run, if it did.
    pub killed: Option<KillReason>,
    /// Whether the processes were asked for their stacks at the deadline. A runner may exit with a status because of it.
    pub stacks_requested: bool,
    /// Whether the worker ended without reporting the exit of its command.
    pub worker_lost: bool,
    /// Limits that were hit; for memory, `count` is the number of processes that the kernel killed.
    pub limit_hits: Vec<LimitHit>,
    /// Counts of finished tests.
    pub summary: Summary,
    /// Packages or files that could not be built.
    pub build_errors: u64,
    /// Packages or files that could not be collected.
    pub collection_errors: u64,
    /// Whether the runner gives results test by test.
    pub structured: bool,
    /// Whether the runner proved that it reached its end and reported everything.
    pub proof: Proof,
    /// Commands that reported that no test was selected: their exit status carries no other information.
    pub nothing_selected: BTreeSet<usize>,
    /// Whether the runner is not installed where its project expects it.
    pub runner_missing: bool,
    /// Tests that had started and not ended.
    pub running: Vec<TestId>,
    /// Whether the request selected tests: by a filter, by name, by file, or as failures of an earlier run.
    pub selected: bool,
    /// Tests that were selected by name and gave no result. The package is empty where the request names none.
    pub not_run: Vec<TestId>,
    /// Whether the runner ran less than it was to run and cannot name the rest.
    pub unreached: bool,
    /// Packages whose tests did not run because a dependency of theirs was not built.
    pub not_built: Vec<String>,
    /// What a check found; `None` for tests.
    pub check: Option<CheckFacts>,
    /// Frameworks of several that executed no test, in a run whose project file leaves out tests.
    pub idle_frameworks: Vec<&'static str>,
    /// Notes of the parser or the plan for the evidence.
    pub notes: Vec<String>,
}

/// Recorded facts of a check by linters and type checkers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckFacts {
    /// Commands of checkers that came to their end.
    pub complete: u64,
    /// Commands that checked only a part.
    pub partial: u64,
    /// Commands that gave no verdict.
    pub incomplete: u64,
    /// Checkers that are not installed.
    pub missing: u64,
    /// Errors and warnings in the files that were asked for.
    pub findings: u64,
}

impl CheckFacts {
    /// The facts of a report.
    #[must_use]
    pub fn of(check: &CheckReport) -> CheckFacts {
        let mut facts =
            CheckFacts { findings: check.severities.errors + check.severities.warnings, ..CheckFacts::default() };
        for checker in &check.checkers {
            match checker.status {
                CheckerStatus::Complete => facts.complete += 1,
                CheckerStatus::Partial { .. } => facts.partial += 1,
                CheckerStatus::Failed { .. } => facts.incomplete += 1,
                CheckerStatus::Missing { .. } => facts.missing += 1,
            }
        }
        facts
    }

    /// The outcomes that hold. Only checkers that all came to their end make a pass; where one checked a part, as of files with
    /// errors of syntax, what it found there is the outcome.
    fn outcomes(self) -> impl Iterator<Item = Outcome> {
        let is_complete = self.complete > 0 && self.partial + self.incomplete + self.missing == 0;
        let has_no_verdict = self.incomplete > 0 || self.findings == 0 && !is_complete && self.missing == 0;
        let held = [
            (self.missing > 0, Outcome::RunnerMissing),
            (has_no_verdict, Outcome::CollectionFailed),
            (self.findings > 0, Outcome::Failed),
            (is_complete && self.findings == 0, Outcome::Passed),
        ];
        held.into_iter().filter(|(holds, _)| *holds).map(|(_, outcome)| outcome)
    }
}

/// The outcome and its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Exit number of the trailer: the runner's own status when it exited by itself and not with 0, else the outcome's.
    pub exit_code: i32,
    /// The runner's own status, when it exited by itself.
    pub raw_exit_code: Option<i32>,
    /// Whether the run was cut off.
    pub partial: bool,
    /// Facts behind the outcome.
    pub evidence: Evidence,
}

/// Judges a run.
#[must_use]
pub fn judge(facts: Facts) -> Verdict {
    let raw_exit_code = raw_exit_code(&facts);
    let signal = facts.exits.iter().find_map(|exit| match exit {
        Exit::Signal(number) => Some(*number),
        _ => None,
    });
    // A clipped name would be another package's.
    let is_whole = |name: &&String| name.len() <= NAME_BYTES_MAX;
    let not_built: Vec<String> = facts.not_built.iter().filter(is_whole).take(NOT_BUILT_MAX).cloned().collect();
    let mut notes = facts.notes.clone();
    notes.extend(not_run(&facts));
    notes.extend(idle_note(&facts));
    let held = outcomes_that_hold(&facts, raw_exit_code, &mut notes);
    let outcome = held.first().copied().unwrap_or(Outcome::WorkerLost);
    let partial = facts.killed.is_some() || facts.worker_lost || !is_complete(&facts) || !facts.running.is_empty();
    // The statuses of checkers have no common meaning.
    let own_status = raw_exit_code.filter(|code| *code != 0 && facts.killed.is_none() && facts.check.is_none());
    Verdict {
        outcome,
        exit_code: own_status.unwrap_or_else(|| i32::from(outcome.exit_code(signal))),
        raw_exit_code,
        partial,
        evidence: Evidence {
            held,
            exit_code: raw_exit_code,
            signal,
            killed: facts.killed,
            limit_hits: facts.limit_hits,
            running: facts.running,
            // Read from the run's output, which the verdict does not depend on.
            hung: Vec::new(),
            not_run: facts.not_run,
            unreached: facts.unreached || partial || not_built.len() < facts.not_built.len(),
            not_built,
            tests_finished: facts.summary.total,
            notes,
        },
    }
}

fn is_complete(facts: &Facts) -> bool {
    facts.proof.covers(facts.summary.total)
}

// The first status other than 0, and 0 only when every planned command exited with it. A command without selected tests
// counts only when no other command had tests. After the kernel has killed a process for memory, or proctor has asked for
// stacks, the runner may or may not exit before everything is killed, so that its status counts for nothing.
fn raw_exit_code(facts: &Facts) -> Option<i32> {
    if facts.killed == Some(KillReason::OutOfMemory) || facts.stacks_requested {
        return None;
    }
    let codes: Vec<(usize, i32)> = facts
        .exits
        .iter()
        .enumerate()
        .filter_map(|(command, exit)| match exit {
            Exit::Code(code) => Some((command, *code)),
            _ => None,
        })
        .collect();
    let all_exited = codes.len() == facts.commands && facts.commands > 0;
    let any_other = facts.nothing_selected.len() < facts.commands && facts.summary.total > 0;
    let counts = |command: usize| !any_other || !facts.nothing_selected.contains(&command);
    let bad = codes.iter().find(|(command, code)| *code != 0 && counts(*command));
    bad.map(|(_, code)| *code).or_else(|| all_exited.then_some(0))
}

fn outcomes_that_hold(facts: &Facts, raw_exit_code: Option<i32>, notes: &mut Vec<String>) -> Vec<Outcome> {
    let exited_well = raw_exit_code == Some(0) && facts.killed.is_none() && !facts.worker_lost;
    let mut held = BTreeSet::new();
    held.extend(facts.killed.map(KillReason::outcome));
    for hit in facts.limit_hits.iter().filter(|hit| hit.count > 0 && !exited_well) {
        match hit.limit {
            LimitKind::Memory => _ = held.insert(Outcome::OutOfMemory),
            LimitKind::Pids => _ = held.insert(Outcome::PidsExhausted),
            LimitKind::Tmp | LimitKind::Disk => _ = held.insert(Outcome::DiskFull),
            LimitKind::Cpu | LimitKind::Wall | LimitKind::Log | LimitKind::Writes => {}
        }
    }
    if facts.worker_lost {
        held.insert(Outcome::WorkerLost);
    }
    for exit in &facts.exits {
        match exit {
            Exit::Signal(_) if facts.killed.is_none() => _ = held.insert(Outcome::Crashed),
            Exit::NotStarted(_) => _ = held.insert(Outcome::RunnerMissing),
            Exit::Signal(_) | Exit::Code(_) => {}
        }
    }
    if facts.runner_missing {
        held.insert(Outcome::RunnerMissing);
    }
    if facts.build_errors > 0 {
        held.insert(Outcome::BuildFailed);
    }
    if facts.collection_errors > 0 {
        held.insert(Outcome::CollectionFailed);
    }
    if facts.summary.failures() > 0 {
        held.insert(Outcome::Failed);
    }
    match facts.check {
        // A pass of the checkers counts only if nothing else says otherwise.
        Some(check) => held.extend(check.outcomes()),
        None if held.is_empty() => _ = held.insert(without_evidence_of_failure(facts, raw_exit_code, notes)),
        None => {}
    }
    if held.len() > 1 {
        held.remove(&Outcome::Passed);
    }
    held.into_iter().collect()
}

// A run that leaves out tests selected by name must not be green.
fn not_run(facts: &Facts) -> Option<String> {
    let (count, names) = (facts.not_run.len(), facts.not_run.iter().take(NOT_RUN_NAMED_MAX));
    let separator = |test: &TestId| if test.package.is_empty() { "" } else { "/" };
    let names = names.map(|test| format!("{}{}{}", test.package, separator(test), test.name));
    let mut names: Vec<String> = names.collect();
    names.extend((count > names.len()).then(|| "...".to_owned()));
    let names = names.join(", ");
    (count > 0).then(|| {
        format!(
            "{count} selected test(s) gave no result: {names} (a listing or a run of all tests shows whether they exist)"
        )
    })
}

// A framework whose tests are all left out would otherwise stay unnoticed beside one that has tests.
fn idle_note(facts: &Facts) -> Option<String> {
    let names = facts.idle_frameworks.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "of {names} no test was executed: the project file's patterns and exclude leave none, or all were skipped"
        )
    })
}

// Whether every command that failed reported that it had no test to run.
fn nothing_was_selected(facts: &Facts) -> bool {
    let explained =
        |(command, exit): (usize, &Exit)| *exit == Exit::Code(0) || facts.nothing_selected.contains(&command);
    facts.exits.iter().enumerate().all(explained)
}

// Nothing recorded says that the run failed; passing still needs proof.
fn without_evidence_of_failure(facts: &Facts, raw_exit_code: Option<i32>, notes: &mut Vec<String>) -> Outcome {
    match raw_exit_code {
        None => return Outcome::WorkerLost,
        Some(0) => {}
        // This is never green, so the runners' own report is enough.
        Some(_) if facts.summary.total == 0 && nothing_was_selected(facts) => return Outcome::NoTests,
        Some(code) => {
            notes.push(format!("the runner exited with {code} and named no failed test"));
            return Outcome::Failed;
        }
    }
    if !is_complete(facts) || !facts.running.is_empty() {
        notes.push("the runner exited with 0 before its results were complete".to_owned());
        return Outcome::Failed;
    }
    if facts.unreached {
        notes.push("the runner exited with 0, and not all of its tests had run".to_owned());
        return Outcome::Failed;
    }
    if !facts.structured && facts.not_run.is_empty() {
        notes.push("the runner has no test-level output: only its exit status counts".to_owned());
        return Outcome::Passed;
    }
    if facts.summary.total == 0 {
        return Outcome::NoTests;
    }
    // Several runners report tests that are not selected as skipped. Whatever the runner reports, nothing was executed.
    if facts.selected && facts.summary.skipped == facts.summary.total {
        notes.push("no selected test was executed: all reported tests were skipped".to_owned());
        return Outcome::NoTests;
    }
    if !facts.idle_frameworks.is_empty() {
        return Outcome::NoTests;
    }
    if !facts.not_run.is_empty() {
        return Outcome::Failed;
    }
    if facts.summary.skipped == facts.summary.total {
        notes.push("all tests were skipped".to_owned());
    }
    Outcome::Passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn green() -> Facts {
        Facts {
            commands: 1,
            exits: vec![Exit::Code(0)],
            summary: Summary { total: 3, passed: 3, ..Summary::default() },
            structured: true,
            proof: Proof::Shown { tests: 0 },
            ..Facts::default()
        }
    }

    fn hit(limit: LimitKind) -> LimitHit {
        LimitHit { limit, max: 1, peak: 1, count: 1 }
    }

    fn one_test() -> Vec<TestId> {
        vec![TestId { package: "p".into(), name: "T".into() }]
    }

    #[test]
    fn only_checkers_that_all_came_to_their_end_without_findings_make_a_pass() {
        let passed = CheckFacts { complete: 2, ..CheckFacts::default() };
        let judged = |check, exits: &[Exit], killed| {
            let facts = Facts { check: Some(check), exits: exits.to_vec(), killed, commands: 2, ..green() };
            let verdict = judge(facts);
            (verdict.outcome, verdict.exit_code)
        };
        let [zero, one] = [0, 1].map(|code| [Exit::Code(0), Exit::Code(code)]);
        assert_eq!(judged(passed, &zero, None), (Outcome::Passed, 0));
        assert_eq!(judged(passed, &one, None), (Outcome::Passed, 0), "hints alone");
        for (check, expected) in [
            (CheckFacts { findings: 1, ..passed }, (Outcome::Failed, 1)),
            (CheckFacts { incomplete: 1, ..passed }, (Outcome::CollectionFailed, 3)),
            (CheckFacts { incomplete: 1, findings: 1, ..passed }, (Outcome::CollectionFailed, 3)),
            (CheckFacts { partial: 1, findings: 1, ..passed }, (Outcome::Failed, 1)),
            (CheckFacts { partial: 1, ..passed }, (Outcome::CollectionFailed, 3)),
            (CheckFacts { missing: 1, ..passed }, (Outcome::RunnerMissing, 5)),
            (CheckFacts::default(), (Outcome::CollectionFailed, 3)),
        ] {
            assert_eq!(judged(check, &zero, None), expected, "{check:?}");
            assert_eq!(judged(check, &one, None), expected, "{check:?}");
        }
        assert_eq!(judged(passed, &one, Some(KillReason::Deadline)), (Outcome::TimedOut, 124));
        assert_eq!(judged(passed, &[Exit::Code(0), Exit::Signal(11)], None), (Outcome::Crashed, 139));
    }

    /// One row per way in which a run can end: the difference from a green run, and the outcome.
    #[test]
    fn each_way_to_end_has_its_own_outcome() {
        type Change = fn(&mut Facts);
        let rows: [(&str, Change, Outcome, i32); 36] = [
            ("green", |_| {}, Outcome::Passed, 0),
            (
                "failed test",
                |f| {
                    f.summary.failed = 1;
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::Failed,
                1,
            ),
            ("failed test, exit 0", |f| f.summary.failed = 1, Outcome::Failed, 1),
            ("error, exit 0", |f| f.summary.error = 1, Outcome::Failed, 1),
            ("exit 2, no failed test", |f| f.exits = vec![Exit::Code(2)], Outcome::Failed, 2),
            ("no proof, exit 0", |f| f.proof = Proof::Missing, Outcome::Failed, 1),
            (
                "a test that the runner counted did not arrive",
                |f| f.proof = Proof::Shown { tests: 4 },
                Outcome::Failed,
                1,
            ),
            ("not all tests ran, exit 0", |f| f.unreached = true, Outcome::Failed, 1),
            (
                "at the deadline, and ended by the signal that asked for its stacks",
                |f| {
                    f.killed = Some(KillReason::Deadline);
                    f.stacks_requested = true;
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::TimedOut,
                124,
            ),
            ("unfinished test, exit 0", |f| f.running = one_test(), Outcome::Failed, 1),
            ("a requested test gave no result", |f| f.not_run = one_test(), Outcome::Failed, 1),
            (
                "no requested test gave a result",
                |f| {
                    f.not_run = one_test();
                    f.summary = Summary::default()
                },
                Outcome::NoTests,
                4,
            ),
            (
                "a requested test is unknown as nothing is reported test by test",
                |f| {
                    f.not_run = one_test();
                    f.structured = false
                },
                Outcome::Failed,
                1,
            ),
            ("nothing ran", |f| f.summary = Summary::default(), Outcome::NoTests, 4),
            (
                "nothing selected, exit 5",
                |f| {
                    f.summary = Summary::default();
                    f.nothing_selected = BTreeSet::from([0]);
                    f.exits = vec![Exit::Code(5)]
                },
                Outcome::NoTests,
                5,
            ),
            (
                "nothing selected in one of two",
                |f| {
                    (f.commands, f.nothing_selected) = (2, BTreeSet::from([0]));
                    f.exits = vec![Exit::Code(5), Exit::Code(0)]
                },
                Outcome::Passed,
                0,
            ),
            (
                "nothing selected in one, another exits with 2",
                |f| {
                    (f.commands, f.nothing_selected) = (2, BTreeSet::from([0]));
                    f.exits = vec![Exit::Code(5), Exit::Code(2)]
                },
                Outcome::Failed,
                2,
            ),
            (
                "runner not installed",
                |f| {
                    f.summary = Summary::default();
                    f.runner_missing = true;
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::RunnerMissing,
                1,
            ),
            ("all skipped", |f| f.summary = Summary { total: 1, skipped: 1, ..Summary::default() }, Outcome::Passed, 0),
            ("selected", |f| f.selected = true, Outcome::Passed, 0),
            (
                "selected, one executed, one skipped",
                |f| {
                    f.selected = true;
                    f.summary = Summary { total: 2, passed: 1, skipped: 1, ..Summary::default() }
                },
                Outcome::Passed,
                0,
            ),
            (
                "selected, none executed",
                |f| {
                    f.selected = true;
                    f.summary = Summary { total: 2, skipped: 2, ..Summary::default() }
                },
                Outcome::NoTests,
                4,
            ),
            ("one of several frameworks executed none", |f| f.idle_frameworks = vec!["jest"], Outcome::NoTests, 4),
            (
                "build",
                |f| {
                    f.build_errors = 1;
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::BuildFailed,
                1,
            ),
            (
                "collection",
                |f| {
                    f.collection_errors = 1;
                    f.exits = vec![Exit::Code(2)]
                },
                Outcome::CollectionFailed,
                2,
            ),
            ("crash", |f| f.exits = vec![Exit::Signal(11)], Outcome::Crashed, 139),
            ("missing", |f| f.exits = vec![Exit::NotStarted(2)], Outcome::RunnerMissing, 5),
            (
                "deadline",
                |f| {
                    f.killed = Some(KillReason::Deadline);
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::TimedOut,
                124,
            ),
            (
                "pids",
                |f| {
                    f.limit_hits = vec![hit(LimitKind::Pids)];
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::PidsExhausted,
                1,
            ),
            (
                "disk",
                |f| {
                    f.killed = Some(KillReason::DiskFull);
                    f.limit_hits = vec![hit(LimitKind::Disk)];
                    f.exits.clear()
                },
                Outcome::DiskFull,
                137,
            ),
            (
                "disk, failed by itself",
                |f| {
                    f.limit_hits = vec![hit(LimitKind::Disk)];
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::DiskFull,
                1,
            ),
            (
                "tmp",
                |f| {
                    f.limit_hits = vec![hit(LimitKind::Tmp)];
                    f.exits = vec![Exit::Code(1)]
                },
                Outcome::DiskFull,
                1,
            ),
            ("disk, recovered", |f| f.limit_hits = vec![hit(LimitKind::Disk)], Outcome::Passed, 0),
            ("pids, recovered", |f| f.limit_hits = vec![hit(LimitKind::Pids)], Outcome::Passed, 0),
            (
                "worker lost",
                |f| {
                    f.worker_lost = true;
                    f.exits.clear()
                },
                Outcome::WorkerLost,
                5,
            ),
            ("second command never ran", |f| f.commands = 2, Outcome::WorkerLost, 5),
        ];
        for (name, change, outcome, exit_code) in rows {
            let mut facts = green();
            change(&mut facts);
            let verdict = judge(facts);
            assert_eq!((verdict.outcome, verdict.exit_code), (outcome, exit_code), "{name}");
        }
    }

    #[test]
    fn judges_a_program_without_test_output_by_its_status_with_a_note() {
        let verdict = judge(Facts { structured: false, summary: Summary::default(), ..green() });
        assert_eq!(verdict.outcome, Outcome::Passed);
        assert!(verdict.evidence.notes[0].contains("only its exit status counts"));
    }

    fn exit() -> impl Strategy<Value = Exit> {
        prop_oneof![
            Just(Exit::Code(0)),
            (1..255).prop_map(Exit::Code),
            (1..32).prop_map(Exit::Signal),
            Just(Exit::NotStarted(2))
        ]
    }

    proptest! {
        /// Invariant 7: no false green, for any combination of facts.
        #[test]
        fn passed_means_that_everything_went_well(
            exits in prop::collection::vec(exit(), 0..3), commands in 0usize..3, total in 0u64..3, failed in 0u64..2,
            error in 0u64..2, build_errors in 0u64..2, collection_errors in 0u64..2, lost: bool,
            proven in prop::option::of(0u64..3), unreached: bool,
            structured: bool, killed: bool, unfinished: bool, nothing_selected in prop::collection::btree_set(0usize..3, 0..3), runner_missing: bool,
        ) {
            let facts = Facts {
                commands, exits: exits.clone(), worker_lost: lost, unreached, structured, build_errors, collection_errors,
                proof: proven.map_or(Proof::Missing, |tests| Proof::Shown { tests }),
                nothing_selected: nothing_selected.clone(), runner_missing,
                killed: killed.then_some(KillReason::Cancelled),
                running: if unfinished { one_test() } else { Vec::new() },
                summary: Summary { total, failed, error, ..Summary::default() },
                ..Facts::default()
            };
            let verdict = judge(facts);
            if verdict.outcome == Outcome::Passed {
                let went_well = |(command, exit): (usize, &Exit)| {
                    *exit == Exit::Code(0) || matches!(exit, Exit::Code(_)) && nothing_selected.contains(&command)
                };
                let all_went_well = exits.iter().enumerate().all(went_well);
                prop_assert!(commands > 0 && exits.len() == commands && all_went_well);
                prop_assert!(exits.contains(&Exit::Code(0)));
                prop_assert!(proven.is_some_and(|tests| tests <= total) && !unreached);
                prop_assert!(!lost && !killed && !unfinished && !runner_missing);
                prop_assert_eq!(failed + error + build_errors + collection_errors, 0);
                prop_assert!(!structured || total > 0);
            }
            prop_assert_eq!(verdict.exit_code == 0, verdict.outcome == Outcome::Passed);
            prop_assert_eq!(verdict.evidence.held.first(), Some(&verdict.outcome));
        }
    }
}
