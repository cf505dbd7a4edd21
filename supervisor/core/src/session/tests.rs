//! Tests of the session state machine: tables for the contract, properties for the rest.

use super::*;
use crate::check::{CheckKind, CheckReportBuilder, CheckRequest, CheckerStatus};
use crate::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan};
use crate::limits::LimitRequest;
use crate::repetition::Repetition;
use crate::report::tests::report;
use crate::request::{EarlierState, RerunTarget};
use crate::test_case::{TestCase, TestId, TestOutcome};
use crate::test_order::TestOrder;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn run(name: &str) -> RunId {
    RunId::new(name)
}

fn request_run(name: &str, selection: Selection, workspace: u8, if_busy: IfBusy) -> SessionEvent {
    SessionEvent::Requested {
        run: run(name),
        request: Box::new(RunRequest { selection, ..RunRequest::default() }),
        kind: RunKind::Tests,
        fingerprint: Some(Fingerprint([workspace; 32])),
        if_busy,
        quota_exceeded: None,
    }
}

fn rescanned(name: &str, workspace: u8) -> SessionEvent {
    SessionEvent::Rescanned { run: run(name), fingerprint: Some(Fingerprint([workspace; 32])) }
}

fn files(name: &str) -> Selection {
    Selection::Matching { filter: None, files: vec![name.into()] }
}

fn ended(name: &str, outcome: Outcome, tests: Vec<TestCase>) -> SessionEvent {
    SessionEvent::Ended {
        run: run(name),
        report: Arc::new(report(outcome, tests)),
        measured: RunCoverage::default(),
        seen: None,
    }
}

fn started(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Start { run, .. } => Some(run.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn runs_one_at_a_time_and_starts_the_next_when_it_ends() {
    let mut session = Session::default();
    let effects = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    assert_eq!(effects[0], Effect::Accept { run: run("a"), position: 0 });
    assert_eq!(started(&effects), ["a"]);
    let effects = session.step(Timestamp(1), request_run("b", files("x"), 1, IfBusy::Queue));
    assert_eq!(effects, [Effect::Accept { run: run("b"), position: 1 }]);
    let effects = session.step(Timestamp(2), request_run("c", files("y"), 1, IfBusy::Refuse));
    assert_eq!(effects, [Effect::Refuse { run: run("c"), refusal: StartRejected::Busy }]);
    let effects = session.step(Timestamp(3), ended("a", Outcome::Passed, Vec::new()));
    assert_eq!(started(&effects), ["b"]);
}

#[test]
fn a_full_quota_rejects_requests_that_attach_to_no_run() {
    let full = QuotaExceeded::QueuedRuns { max: 3 };
    let request_over_quota = |name: &str, selection| match request_run(name, selection, 1, IfBusy::Queue) {
        SessionEvent::Requested { run, request, kind, fingerprint, if_busy, .. } => {
            SessionEvent::Requested { run, request, kind, fingerprint, if_busy, quota_exceeded: Some(full.clone()) }
        }
        other => other,
    };
    let mut session = Session::default();
    let refused = session.step(Timestamp(0), request_over_quota("a", Selection::All));
    let refusal = || StartRejected::Quota(full.clone());
    assert_eq!(refused, [Effect::Refuse { run: run("a"), refusal: refusal() }], "the host's queue is full");
    assert_eq!(started(&session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue))), ["a"]);
    let attached = session.step(Timestamp(1), request_over_quota("b", Selection::All));
    assert_eq!(attached, [Effect::Attach { run: run("b"), to: run("a"), age_ms: 1 }]);
    let refused = session.step(Timestamp(2), request_over_quota("c", files("x")));
    assert_eq!(refused, [Effect::Refuse { run: run("c"), refusal: refusal() }]);
    assert_eq!(session.waiting(), 0);
    let _ = session.step(Timestamp(3), request_run("d", files("x"), 1, IfBusy::Queue));
    let attached = session.step(Timestamp(4), request_over_quota("e", files("x")));
    assert_eq!(attached, [Effect::Attach { run: run("e"), to: run("d"), age_ms: 1 }]);
}

#[test]
fn attaches_an_identical_request_only_while_the_workspace_is_unchanged() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let effects = session.step(Timestamp(12), request_run("b", Selection::All, 1, IfBusy::Refuse));
    assert_eq!(effects, [Effect::Attach { run: run("b"), to: run("a"), age_ms: 12 }]);
    let effects = session.step(Timestamp(13), request_run("c", Selection::All, 2, IfBusy::Queue));
    assert_eq!(effects, [Effect::Accept { run: run("c"), position: 1 }], "edited since: waits");
    let effects = session.step(Timestamp(14), request_run("d", Selection::All, 3, IfBusy::Queue));
    assert_eq!(
        effects,
        [Effect::Attach { run: run("d"), to: run("c"), age_ms: 1 }],
        "c has not scanned the workspace yet"
    );
}

#[test]
fn attaches_to_a_run_that_waited_by_the_fingerprint_at_its_start() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", files("x"), 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), request_run("b", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), ended("a", Outcome::Passed, Vec::new()));
    let refused = session.step(Timestamp(1), request_run("c", Selection::All, 1, IfBusy::Refuse));
    assert_eq!(
        refused,
        [Effect::Refuse { run: run("c"), refusal: StartRejected::Busy }],
        "the fingerprint of b is unknown"
    );
    let _ = session.step(Timestamp(2), rescanned("b", 2));
    let attached = session.step(Timestamp(3), request_run("d", Selection::All, 2, IfBusy::Refuse));
    assert_eq!(attached, [Effect::Attach { run: run("d"), to: run("b"), age_ms: 3 }]);
}

#[test]
fn does_not_attach_to_a_killed_run() {
    for (at, end, reason) in [
        (2, SessionEvent::CancelRequested { run: run("a") }, KillReason::Cancelled),
        (DETACHED_MS_MAX, SessionEvent::Tick, KillReason::Abandoned),
    ] {
        let mut session = Session::default();
        let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
        assert_eq!(session.step(Timestamp(at), end), [Effect::Kill { run: run("a"), reason }]);
        let now = Timestamp(DETACHED_MS_MAX + 1);
        let all = RunRequest::default();
        assert!(!session.needs_scan(&all, RunKind::Tests, IfBusy::Refuse, true), "busy, whatever is in the workspace");
        assert!(session.needs_scan(&all, RunKind::Tests, IfBusy::Queue, true), "it would wait");
        let refused = session.step(now, request_run("b", Selection::All, 1, IfBusy::Refuse));
        assert_eq!(refused, [Effect::Refuse { run: run("b"), refusal: StartRejected::Busy }]);
        let waiting = session.step(now, request_run("c", Selection::All, 1, IfBusy::Queue));
        assert_eq!(waiting, [Effect::Accept { run: run("c"), position: 1 }]);
        let joins = session.step(now, request_run("d", Selection::All, 1, IfBusy::Queue));
        assert_eq!(joins, [Effect::Attach { run: run("d"), to: run("c"), age_ms: 0 }]);
        assert_eq!(started(&session.step(now, ended("a", Outcome::Cancelled, Vec::new()))), ["c"]);
    }
}

#[test]
fn a_draining_session_finishes_accepted_runs_and_rejects_new_ones() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), request_run("b", files("x"), 1, IfBusy::Queue));
    assert_eq!(session.step(Timestamp(1), SessionEvent::DrainRequested), []);
    let refused = |name: &str| [Effect::Refuse { run: run(name), refusal: StartRejected::Draining }];
    assert_eq!(session.step(Timestamp(2), request_run("c", files("y"), 1, IfBusy::Queue)), refused("c"));
    assert_eq!(
        session.step(Timestamp(2), request_run("d", Selection::All, 1, IfBusy::Queue)),
        refused("d"),
        "attaches to nothing"
    );
    assert_eq!(session.unfinished().map(RunId::as_str).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(started(&session.step(Timestamp(3), ended("a", Outcome::Passed, Vec::new()))), ["b"]);
    let _ = session.step(Timestamp(4), ended("b", Outcome::Passed, Vec::new()));
    assert_eq!(session.unfinished().count(), 0);
    assert_eq!(session.step(Timestamp(5), request_run("e", Selection::All, 1, IfBusy::Queue)), refused("e"));
    assert_eq!(session.step(Timestamp(6), SessionEvent::CloseRequested), [Effect::Stop]);
}

#[test]
fn abandons_an_unwatched_run_after_its_grace() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(10), SessionEvent::Watched { run: run("a"), watchers: 1 });
    assert_eq!(session.step(Timestamp(100_000), SessionEvent::Tick), []);
    let _ = session.step(Timestamp(100_000), SessionEvent::Watched { run: run("a"), watchers: 0 });
    let _ = session.step(Timestamp(110_000), SessionEvent::Watched { run: run("a"), watchers: 0 });
    assert_eq!(session.step(Timestamp(129_999), SessionEvent::Tick), []);
    let kill = Effect::Kill { run: run("a"), reason: KillReason::Abandoned };
    assert_eq!(session.step(Timestamp(130_000), SessionEvent::Tick), [kill]);
}

#[test]
fn a_run_without_callers_ends_when_another_is_requested() {
    let mut session = Session::default();
    let watched = |name: &str, watchers| SessionEvent::Watched { run: run(name), watchers };
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let waits = session.step(Timestamp(1), request_run("b", files("x"), 1, IfBusy::Queue));
    assert_eq!(waits, [Effect::Accept { run: run("b"), position: 1 }], "nobody has looked at a yet");
    for name in ["a", "b"] {
        let _ = session.step(Timestamp(2), watched(name, 1));
        let _ = session.step(Timestamp(3), watched(name, 0));
    }
    let attached = session.step(Timestamp(4), request_run("c", Selection::All, 1, IfBusy::Queue));
    assert_eq!(attached, [Effect::Attach { run: run("c"), to: run("a"), age_ms: 4 }], "a retry finds its run");
    let effects = session.step(Timestamp(4), request_run("g", files("v"), 1, IfBusy::Refuse));
    assert_eq!(effects, [Effect::Refuse { run: run("g"), refusal: StartRejected::Busy }], "it ends nothing");
    let _ = session.step(Timestamp(5), watched("a", 1));
    let effects = session.step(Timestamp(6), request_run("d", files("y"), 1, IfBusy::Queue));
    let withdraw = Effect::Withdraw { run: run("b"), reason: KillReason::Abandoned };
    assert_eq!(effects, [Effect::Accept { run: run("d"), position: 1 }, withdraw], "a has a caller again");
    let _ = session.step(Timestamp(7), watched("a", 0));
    let kill = Effect::Kill { run: run("a"), reason: KillReason::Abandoned };
    let effects = session.step(Timestamp(8), request_run("e", files("z"), 1, IfBusy::Queue));
    assert_eq!(effects, [Effect::Accept { run: run("e"), position: 2 }, kill]);
    let effects = session.step(Timestamp(9), request_run("f", files("w"), 1, IfBusy::Queue));
    assert_eq!(effects, [Effect::Accept { run: run("f"), position: 3 }], "it is killed once");
}

#[test]
fn a_pass_of_some_tests_keeps_the_failures_that_it_did_not_run() {
    let test = |name: &str, outcome| {
        let id = TestId { package: "p".into(), name: name.into() };
        TestCase::new(id, format!("p/{name}"), outcome)
    };
    let (failed, passed) = (TestOutcome::Failed, TestOutcome::Passed);
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, vec![test("T", failed), test("U", failed)]));
    let _ = session.step(Timestamp(2), request_run("b", files("x"), 1, IfBusy::Queue));
    let _ = session.step(Timestamp(3), ended("b", Outcome::Passed, vec![test("T", passed)]));
    let left = |session: &Session| session.slot().last().map(|last| last.deferred.targets.clone()).unwrap_or_default();
    let target = RerunTarget::Test(TestId { package: "p".into(), name: "U".into() });
    assert_eq!(left(&session), std::slice::from_ref(&target));
    let rerun = request_run("r", Selection::LastFailed { limit: None }, 1, IfBusy::Queue);
    let effects = session.step(Timestamp(4), rerun);
    let Effect::Start { request, .. } = &effects[1] else { unreachable!("{effects:?}") };
    assert_eq!(request.selection, Selection::Exactly(vec![target]));
    let _ = session.step(Timestamp(5), ended("r", Outcome::Passed, vec![test("U", passed)]));
    assert_eq!(left(&session), []);
    let _ = session.step(Timestamp(6), request_run("c", files("y"), 1, IfBusy::Queue));
    let _ = session.step(Timestamp(7), ended("c", Outcome::Failed, vec![test("V", failed)]));
    let _ = session.step(Timestamp(8), request_run("d", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(9), ended("d", Outcome::Passed, vec![test("T", passed)]));
    assert_eq!(left(&session), [], "a run of everything replaces what was known");
    // A name that no test has is reported by each run, and kept by none.
    for at in 10..13 {
        let _ = session.step(Timestamp(at), request_run("e", files("y"), 1, IfBusy::Queue));
        let mut typo = report(Outcome::NoTests, Vec::new());
        typo.evidence.not_run = vec![TestId { package: String::new(), name: "typo".into() }];
        typo.evidence.running = vec![TestId { package: "p".into(), name: "H".into() }];
        let end =
            SessionEvent::Ended { run: run("e"), report: Arc::new(typo), measured: RunCoverage::default(), seen: None };
        let _ = session.step(Timestamp(at), end);
        assert_eq!(left(&session), []);
    }
    let _ = session.step(Timestamp(14), request_run("f", files("y"), 1, IfBusy::Queue));
    let _ = session.step(Timestamp(15), ended("f", Outcome::Passed, vec![test("T", passed)]));
    assert_eq!(left(&session), [RerunTarget::Test(TestId { package: "p".into(), name: "H".into() })]);
}

#[test]
fn a_scoped_run_of_all_tests_replaces_no_coverage_of_others() {
    let measured = |test: &str| CoverageMeasurement {
        package: "p".into(),
        tests: vec![test.into()],
        complete: true,
        attribution: Attribution::Test,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: vec![(format!("{test}.go"), vec![LineSpan { first: 1, last: 2 }])],
    };
    let mut session = Session::restore(FailureSlot::default(), CoverageIndex::default(), None, None);
    let mut at = 0;
    let mut files_after = |test: &str, is_scoped: bool| {
        let _ = session.step(Timestamp(at), request_run(test, Selection::All, 1, IfBusy::Queue));
        let id = TestId { package: "p".into(), name: test.into() };
        let tests = vec![TestCase::new(id, test.into(), TestOutcome::Passed)];
        let report = Report { is_scoped, ..report(Outcome::Passed, tests) };
        let end = SessionEvent::Ended {
            run: run(test),
            report: Arc::new(report),
            measured: RunCoverage { tests: vec![measured(test)], ..RunCoverage::default() },
            seen: None,
        };
        at += 1;
        let _ = session.step(Timestamp(at), end);
        session.index.files()
    };
    assert_eq!((files_after("a", false), files_after("b", true), files_after("c", false)), (1, 2, 1));
}

#[test]
fn a_rerun_keeps_the_limits_of_the_last_request_unless_it_sets_its_own() {
    let limits = |wall_ms| LimitRequest { wall_ms, pids: Some(9), ..LimitRequest::default() };
    let mut session = Session::restore(FailureSlot::default(), CoverageIndex::default(), None, None);
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let id = TestId { package: "p".into(), name: "T".into() };
    let _ = session
        .step(Timestamp(1), ended("a", Outcome::Failed, vec![TestCase::new(id, "p/T".into(), TestOutcome::Failed)]));
    session.last_request = Some(Box::new(RunRequest { limits: limits(Some(5_000)), ..RunRequest::default() }));
    let selection = Selection::LastFailed { limit: None };
    let rerun = RunRequest { selection: selection.clone(), ..RunRequest::default() };
    assert_eq!(session.resolve(&rerun).unwrap().request.limits, limits(Some(5_000)));
    let own = LimitRequest { wall_ms: Some(7_000), ..LimitRequest::default() };
    let rerun = RunRequest { selection, limits: own, ..RunRequest::default() };
    assert_eq!(session.resolve(&rerun).unwrap().request.limits, limits(Some(7_000)));
}

#[test]
fn a_rerun_executes_its_tests_once_unless_it_asks_for_more() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let id = TestId { package: "p".into(), name: "T".into() };
    let _ = session
        .step(Timestamp(1), ended("a", Outcome::Failed, vec![TestCase::new(id, "p/T".into(), TestOutcome::Failed)]));
    let repeated = Repetition { repeat: 20, until_different: true, retry_failed: 2 };
    session.last_request = Some(Box::new(RunRequest { repetition: repeated, ..RunRequest::default() }));
    let rerun = RunRequest { selection: Selection::LastFailed { limit: None }, ..RunRequest::default() };
    assert_eq!(session.resolve(&rerun).unwrap().request.repetition, Repetition::ONCE);
    let own = Repetition { repeat: 3, ..Repetition::ONCE };
    assert_eq!(session.resolve(&RunRequest { repetition: own, ..rerun }).unwrap().request.repetition, own);
}

#[test]
fn an_order_of_tests_is_for_its_own_run_alone() {
    let mut session = Session::default();
    let id = TestId { package: "p".into(), name: "T".into() };
    let failed = TestCase::new(id, "p/T".into(), TestOutcome::Failed);
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, vec![failed]));
    session.last_request = Some(Box::new(RunRequest { order: TestOrder::Reversed, ..RunRequest::default() }));
    for selection in [Selection::LastFailed { limit: None }, Selection::Affected { since: EarlierState::LastRun }] {
        let again = RunRequest { selection, ..RunRequest::default() };
        assert_eq!(session.resolve(&again).unwrap().request.order, TestOrder::Project);
        let order = TestOrder::Shuffled { seed: Some(1) };
        assert_eq!(session.resolve(&RunRequest { order, ..again }).unwrap().request.order, order);
    }
}

#[test]
fn a_rerun_repeats_the_last_request_on_the_failures() {
    let mut session = Session::default();
    let failed = Selection::LastFailed { limit: None };
    let effects = session.step(Timestamp(0), request_run("r", failed.clone(), 1, IfBusy::Queue));
    assert_eq!(effects, [Effect::Refuse { run: run("r"), refusal: StartRejected::NoRunYet }]);
    let request = RunRequest { framework: Some("go".into()), ..RunRequest::default() };
    let _ = session.step(
        Timestamp(0),
        SessionEvent::Requested {
            run: run("a"),
            request: Box::new(request),
            kind: RunKind::Tests,
            fingerprint: None,
            if_busy: IfBusy::Queue,
            quota_exceeded: None,
        },
    );
    let id = TestId { package: "p".into(), name: "T".into() };
    let test = TestCase::new(id.clone(), "p/T".into(), TestOutcome::Failed);
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, vec![test]));
    let effects = session.step(Timestamp(2), request_run("r", failed.clone(), 1, IfBusy::Queue));
    let Effect::Start { request, .. } = &effects[1] else { unreachable!("{effects:?}") };
    assert_eq!(request.framework.as_deref(), Some("go"));
    assert_eq!(request.selection, Selection::Exactly(vec![RerunTarget::Test(id)]));
    let _ = session.step(Timestamp(3), ended("r", Outcome::Passed, Vec::new()));
    let effects = session.step(Timestamp(4), request_run("s", failed, 1, IfBusy::Queue));
    let refusal = StartRejected::NothingToRerun { framework: "go".into() };
    assert_eq!(effects, [Effect::Refuse { run: run("s"), refusal }]);
}

#[test]
fn a_listing_changes_neither_the_slot_nor_the_last_run() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, Vec::new()));
    let before = session.slot().clone();
    let listing = SessionEvent::Requested {
        run: run("l"),
        request: Box::default(),
        kind: RunKind::Listing,
        fingerprint: None,
        if_busy: IfBusy::Queue,
        quota_exceeded: None,
    };
    let _ = session.step(Timestamp(2), listing);
    let _ = session.step(Timestamp(3), ended("l", Outcome::Passed, Vec::new()));
    assert_eq!(session.slot(), &before);
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Failed)));
}

#[test]
fn a_check_leaves_what_is_known_of_tests_alone_and_is_remembered() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, Vec::new()));
    let (slot, runs, request) = (session.slot().clone(), session.ended_runs(), session.last_request().cloned());
    for (at, number) in [(2, 1), (4, 2)] {
        let name = format!("c{number}");
        let _ = session.step(
            Timestamp(at),
            SessionEvent::Requested {
                run: run(&name),
                request: Box::new(RunRequest { check: Some(Box::default()), ..RunRequest::default() }),
                kind: RunKind::Check,
                fingerprint: None,
                if_busy: IfBusy::Queue,
                quota_exceeded: None,
            },
        );
        let mut builder = CheckReportBuilder::new(CheckRequest::default());
        builder.add("ruff", CheckKind::Lint, "", CheckerStatus::Complete, Vec::new());
        let check = builder.build();
        assert_eq!(session.checks().compare(&check).is_some(), number == 2, "the check before is known");
        let report = Report { check: Some(check), ..report(Outcome::Failed, Vec::new()) };
        let effects = session.step(
            Timestamp(at + 1),
            SessionEvent::Ended {
                run: run(&name),
                report: Arc::new(report),
                measured: RunCoverage::default(),
                seen: None,
            },
        );
        assert_eq!(effects, [], "its events are kept for readers");
    }
    assert_eq!(session.slot(), &slot);
    assert_eq!((session.ended_runs(), session.last_request().cloned()), (runs, request));
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Failed)));
    assert!(session.checks().memory_bytes() > 0);
}

#[test]
fn rejects_a_rerun_that_waited_behind_a_passed_run() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let failed = Selection::LastFailed { limit: None };
    let _ = session.step(Timestamp(1), request_run("r", failed, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(2), request_run("b", files("x"), 1, IfBusy::Queue));
    let effects = session.step(Timestamp(3), ended("a", Outcome::Passed, Vec::new()));
    let refusal = StartRejected::NothingToRerun { framework: "go".into() };
    assert_eq!(effects[0], Effect::Refuse { run: run("r"), refusal });
    assert_eq!(started(&effects), ["b"]);
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Passed)));
}

#[derive(Debug, Clone)]
enum SessionStep {
    Request { selection: u8, workspace: u8, refuse: bool },
    Rescan { workspace: u8 },
    End { passed: bool },
    Cancel(u8),
    CancelRunning,
    Watch(u8, usize),
    Tick(u16),
    ExceedRetention,
    Close,
}

fn step() -> impl Strategy<Value = SessionStep> {
    prop_oneof![
        8 => (0u8..4, 0u8..2, any::<bool>())
            .prop_map(|(selection, workspace, refuse)| SessionStep::Request { selection, workspace, refuse }),
        4 => (0u8..2).prop_map(|workspace| SessionStep::Rescan { workspace }),
        4 => any::<bool>().prop_map(|passed| SessionStep::End { passed }),
        2 => (0u8..30).prop_map(SessionStep::Cancel),
        2 => Just(SessionStep::CancelRunning),
        2 => ((0u8..30), 0usize..3).prop_map(|(run, watchers)| SessionStep::Watch(run, watchers)),
        2 => any::<u16>().prop_map(SessionStep::Tick),
        1 => Just(SessionStep::ExceedRetention),
        1 => Just(SessionStep::Close),
    ]
}

#[test]
fn forgets_all_but_the_last_run_over_the_retention_quota() {
    let mut session = Session::default();
    for name in ["a", "b", "c"] {
        let _ = session.step(Timestamp(0), request_run(name, Selection::All, 1, IfBusy::Queue));
        let _ = session.step(Timestamp(1), ended(name, Outcome::Passed, Vec::new()));
    }
    for forgotten in ["a", "b"] {
        assert_eq!(
            session.step(Timestamp(2), SessionEvent::RetentionExceeded),
            [Effect::Forget { run: run(forgotten) }]
        );
    }
    assert_eq!(session.step(Timestamp(2), SessionEvent::RetentionExceeded), []);
}

#[test]
fn withdrawn_runs_do_not_evict_the_last_run() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Passed, Vec::new()));
    let _ = session.step(Timestamp(2), request_run("b", Selection::All, 1, IfBusy::Queue));
    let mut forgotten = Vec::new();
    for number in 0..2 * FINISHED_RUNS_MAX {
        let name = format!("w{number}");
        let _ = session.step(Timestamp(3), request_run(&name, files(&name), 1, IfBusy::Queue));
        forgotten.extend(session.step(Timestamp(4), SessionEvent::CancelRequested { run: run(&name) }));
        forgotten.extend(session.step(Timestamp(4), SessionEvent::RetentionExceeded));
    }
    assert!(forgotten.len() > FINISHED_RUNS_MAX);
    assert!(!forgotten.contains(&Effect::Forget { run: run("a") }), "the session still reports it");
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Passed)));
}

#[test]
fn needs_a_scan_only_when_the_workspace_decides() {
    let all = RunRequest::default();
    let other = |name: &str| RunRequest { selection: files(name), ..RunRequest::default() };
    let (queue, refuse) = (IfBusy::Queue, IfBusy::Refuse);
    let mut session = Session::default();
    assert!(session.needs_scan(&all, RunKind::Tests, queue, false), "it starts on what the scan finds");
    let rerun = RunRequest { selection: Selection::LastFailed { limit: None }, ..RunRequest::default() };
    assert!(!session.needs_scan(&rerun, RunKind::Tests, queue, true), "there is no run to repeat");
    let _ = session.step(Timestamp(0), request_run("a", Selection::All, 1, queue));
    for if_busy in [queue, refuse] {
        assert!(session.needs_scan(&all, RunKind::Tests, if_busy, false), "it may attach to a");
        assert!(!session.needs_scan(&all, RunKind::Listing, if_busy, false), "a listing attaches to no run of tests");
    }
    assert!(!session.needs_scan(&other("x"), RunKind::Tests, refuse, true), "busy, whatever is in the workspace");
    assert!(!session.needs_scan(&other("x"), RunKind::Tests, queue, false), "the quota allows no further waiting run");
    assert!(session.needs_scan(&other("x"), RunKind::Tests, queue, true));
    for number in 0..QUEUED_RUNS_MAX {
        let _ = session.step(Timestamp(1), request_run(&number.to_string(), files(&number.to_string()), 1, queue));
    }
    assert!(!session.needs_scan(&other("x"), RunKind::Tests, queue, true), "the queue is full");
    assert!(!session.needs_scan(&other("1"), RunKind::Tests, queue, true), "it attaches to a waiting run");
    assert!(session.needs_scan(&all, RunKind::Tests, queue, true));
    let _ = session.step(Timestamp(2), SessionEvent::DrainRequested);
    assert!(!session.needs_scan(&all, RunKind::Tests, queue, true));
}

proptest! {
    /// Every accepted run ends exactly once, at most one runs at a time, the queue keeps its bound, and a closed
    /// session stops once, when nothing of it is left. The last run that the session reports is never forgotten, nor
    /// the newest. No request attaches to a killed run.
    #[test]
    fn every_accepted_run_ends_once(steps in prop::collection::vec(step(), 0..90)) {
        let mut session = Session::default();
        let mut now = Timestamp(0);
        let mut open: BTreeMap<RunId, bool> = BTreeMap::new(); // accepted and not ended -> started
        let mut done = BTreeSet::new();
        let (mut killed, mut forgotten) = (BTreeSet::new(), BTreeSet::new());
        let mut stops = 0;
        let mut names = 0u8;
        for step in steps {
            let ending = matches!(step, SessionStep::End { .. });
            let event = match step {
                SessionStep::Request { selection, workspace, refuse } => {
                    names += 1;
                    let if_busy = if refuse { IfBusy::Refuse } else { IfBusy::Queue };
                    let selection = match selection {
                        0 => Selection::All,
                        1 => Selection::LastFailed { limit: None },
                        other => files(&other.to_string()),
                    };
                    request_run(&names.to_string(), selection, workspace, if_busy)
                }
                SessionStep::Rescan { workspace } => match session.running() {
                    Some(running) => rescanned(running.as_str(), workspace),
                    None => continue,
                },
                SessionStep::End { passed } => match session.running() {
                    Some(running) => {
                        let running = running.as_str().to_owned();
                        ended(&running, if passed { Outcome::Passed } else { Outcome::Failed }, Vec::new())
                    }
                    None => continue,
                },
                SessionStep::Cancel(name) => SessionEvent::CancelRequested { run: run(&name.to_string()) },
                SessionStep::CancelRunning => match session.running() {
                    Some(running) => SessionEvent::CancelRequested { run: running.clone() },
                    None => continue,
                },
                SessionStep::Watch(name, watchers) => SessionEvent::Watched { run: run(&name.to_string()), watchers },
                SessionStep::Tick(ms) => { now = now.plus_ms(ms.into()); SessionEvent::Tick }
                SessionStep::ExceedRetention => SessionEvent::RetentionExceeded,
                SessionStep::Close => SessionEvent::CloseRequested,
            };
            if let Some(run) = session.running().filter(|_| ending).cloned() {
                prop_assert_eq!(open.remove(&run), Some(true));
                prop_assert!(done.insert(run));
            }
            let is_request = matches!(event, SessionEvent::Requested { .. });
            let effects = session.step(now, event);
            let answers = |effect: &Effect| matches!(effect, Effect::Accept { .. } | Effect::Attach { .. } | Effect::Refuse { .. });
            prop_assert!(!is_request || effects.first().is_some_and(answers), "{:?}", effects);
            for effect in effects {
                match effect {
                    Effect::Accept { run, .. } => prop_assert!(open.insert(run, false).is_none()),
                    Effect::Start { run, .. } => prop_assert_eq!(open.insert(run, true), Some(false)),
                    Effect::Withdraw { run, .. } => {
                        prop_assert_eq!(open.remove(&run), Some(false));
                        prop_assert!(done.insert(run));
                    }
                    Effect::Attach { to, .. } => {
                        prop_assert!(open.contains_key(&to));
                        prop_assert!(!killed.contains(&to));
                    }
                    Effect::Kill { run, .. } => {
                        prop_assert_eq!(open.get(&run), Some(&true));
                        killed.insert(run);
                    }
                    Effect::Forget { run } => {
                        prop_assert!(done.contains(&run));
                        prop_assert!(forgotten.insert(run));
                    }
                    Effect::Stop => { stops += 1; prop_assert!(open.is_empty()); }
                    Effect::ReportPosition { run, .. } => prop_assert_eq!(open.get(&run), Some(&false)),
                    Effect::Refuse { run, .. } => {
                        // Either the request was never accepted, or it waited and has nothing left to do.
                        if open.remove(&run).is_some() {
                            prop_assert!(done.insert(run));
                        }
                    }
                }
            }
            if let Some((last, _)) = session.last() {
                prop_assert!(!forgotten.contains(last));
            }
            prop_assert!(session.finished.len() <= FINISHED_RUNS_MAX);
            prop_assert!(session.finished.iter().all(|run| !forgotten.contains(run)));
            prop_assert!(open.values().filter(|started| **started).count() <= 1);
            prop_assert!(session.waiting() <= QUEUED_RUNS_MAX);
            prop_assert!(stops <= 1);
        }
    }
}
