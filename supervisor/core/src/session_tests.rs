//! What must hold of a session whatever happens to it: tables for the contract, properties for the rest.

use super::*;
use crate::report::tests::report;
use crate::test_case::{TestCase, TestId, TestOutcome};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn run(name: &str) -> RunId {
    RunId::new(name)
}

fn ask(name: &str, selection: Selection, workspace: u8, if_busy: IfBusy) -> Event {
    Event::Requested {
        run: run(name),
        request: Box::new(RunRequest { selection, ..RunRequest::default() }),
        kind: RunKind::Tests,
        fingerprint: Some(Fingerprint([workspace; 32])),
        if_busy,
        no_room: None,
    }
}

fn began(name: &str, workspace: u8) -> Event {
    Event::Began { run: run(name), fingerprint: Some(Fingerprint([workspace; 32])) }
}

fn files(name: &str) -> Selection {
    Selection::Matching { filter: None, files: vec![name.into()] }
}

fn ended(name: &str, outcome: Outcome, tests: Vec<TestCase>) -> Event {
    Event::Ended { run: run(name), report: Arc::new(report(outcome, tests)), measured: Vec::new() }
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
fn one_run_at_a_time_and_the_next_starts_when_it_ends() {
    let mut session = Session::default();
    let effects = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    assert_eq!(effects[0], Effect::Accept { run: run("a"), position: 0 });
    assert_eq!(started(&effects), ["a"]);
    let effects = session.step(Timestamp(1), ask("b", files("x"), 1, IfBusy::Queue));
    assert_eq!(effects, [Effect::Accept { run: run("b"), position: 1 }]);
    let effects = session.step(Timestamp(2), ask("c", files("y"), 1, IfBusy::Refuse));
    assert_eq!(effects, [Effect::Refuse { run: run("c"), refusal: StartRejected::Busy }]);
    let effects = session.step(Timestamp(3), ended("a", Outcome::Passed, Vec::new()));
    assert_eq!(started(&effects), ["b"]);
}

#[test]
fn a_tenant_without_room_for_one_more_that_waits_is_refused_only_what_would_wait() {
    let full = QuotaExceeded::QueuedRuns { max: 3 };
    let ask_full = |name: &str, selection| match ask(name, selection, 1, IfBusy::Queue) {
        Event::Requested { run, request, kind, fingerprint, if_busy, .. } => {
            Event::Requested { run, request, kind, fingerprint, if_busy, no_room: Some(full.clone()) }
        }
        other => other,
    };
    let mut session = Session::default();
    assert_eq!(started(&session.step(Timestamp(0), ask_full("a", Selection::All))), ["a"]);
    let _ = session.step(Timestamp(0), began("a", 1));
    let attached = session.step(Timestamp(1), ask_full("b", Selection::All));
    assert_eq!(attached, [Effect::Attach { run: run("b"), to: run("a"), age_ms: 1 }]);
    let refused = session.step(Timestamp(2), ask_full("c", files("x")));
    assert_eq!(refused, [Effect::Refuse { run: run("c"), refusal: StartRejected::Quota(full.clone()) }]);
    assert_eq!(session.waiting(), 0);
    let _ = session.step(Timestamp(3), ask("d", files("x"), 1, IfBusy::Queue));
    let attached = session.step(Timestamp(4), ask_full("e", files("x")));
    assert_eq!(attached, [Effect::Attach { run: run("e"), to: run("d"), age_ms: 1 }]);
}

#[test]
fn an_identical_request_attaches_only_while_the_workspace_is_unchanged() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let effects = session.step(Timestamp(1), ask("z", Selection::All, 1, IfBusy::Refuse));
    let refused = Effect::Refuse { run: run("z"), refusal: StartRejected::Busy };
    assert_eq!(effects, [refused], "a may still be refused as if it had never been, whatever was seen for it before");
    let _ = session.step(Timestamp(1), began("a", 1));
    let effects = session.step(Timestamp(12), ask("b", Selection::All, 1, IfBusy::Refuse));
    assert_eq!(effects, [Effect::Attach { run: run("b"), to: run("a"), age_ms: 12 }]);
    let effects = session.step(Timestamp(13), ask("c", Selection::All, 2, IfBusy::Queue));
    assert_eq!(effects, [Effect::Accept { run: run("c"), position: 1 }], "edited since: queues");
    let effects = session.step(Timestamp(14), ask("d", Selection::All, 3, IfBusy::Queue));
    assert_eq!(effects, [Effect::Attach { run: run("d"), to: run("c"), age_ms: 1 }], "c has not looked yet");
}

#[test]
fn a_run_that_waited_is_attached_to_by_what_it_saw_when_it_began() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", files("x"), 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), ask("b", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), ended("a", Outcome::Passed, Vec::new()));
    let refused = session.step(Timestamp(1), ask("c", Selection::All, 1, IfBusy::Refuse));
    assert_eq!(refused, [Effect::Refuse { run: run("c"), refusal: StartRejected::Busy }], "nobody knows what b saw");
    let _ = session.step(Timestamp(2), began("b", 2));
    let attached = session.step(Timestamp(3), ask("d", Selection::All, 2, IfBusy::Refuse));
    assert_eq!(attached, [Effect::Attach { run: run("d"), to: run("b"), age_ms: 3 }]);
}

#[test]
fn nobody_joins_a_run_that_was_told_to_end() {
    for (at, end, reason) in [
        (2, Event::CancelRequested { run: run("a") }, KillReason::Cancelled),
        (DETACHED_MS_MAX, Event::Tick, KillReason::Abandoned),
    ] {
        let mut session = Session::default();
        let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
        let _ = session.step(Timestamp(1), began("a", 1));
        assert_eq!(session.step(Timestamp(at), end), [Effect::Kill { run: run("a"), reason }]);
        let now = Timestamp(DETACHED_MS_MAX + 1);
        let all = RunRequest::default();
        assert!(!session.needs_look(&all, RunKind::Tests, IfBusy::Refuse, true), "busy, whatever is in the workspace");
        assert!(session.needs_look(&all, RunKind::Tests, IfBusy::Queue, true), "it would wait");
        let refused = session.step(now, ask("b", Selection::All, 1, IfBusy::Refuse));
        assert_eq!(refused, [Effect::Refuse { run: run("b"), refusal: StartRejected::Busy }]);
        let waits = session.step(now, ask("c", Selection::All, 1, IfBusy::Queue));
        assert_eq!(waits, [Effect::Accept { run: run("c"), position: 1 }]);
        let joins = session.step(now, ask("d", Selection::All, 1, IfBusy::Queue));
        assert_eq!(joins, [Effect::Attach { run: run("d"), to: run("c"), age_ms: 0 }]);
        assert_eq!(started(&session.step(now, ended("a", Outcome::Cancelled, Vec::new()))), ["c"]);
    }
}

#[test]
fn a_run_that_its_workspace_refuses_leaves_nothing_and_the_next_starts() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), ask("b", files("x"), 1, IfBusy::Queue));
    let effects = session.step(Timestamp(1), Event::Rejected { run: run("a") });
    assert_eq!(effects[0], Effect::Forget { run: run("a") });
    assert_eq!(started(&effects), ["b"]);
    assert_eq!((session.last(), session.last_request()), (None, None));
    assert_eq!(session.step(Timestamp(2), Event::Rejected { run: run("a") }), []);
}

#[test]
fn a_session_that_drains_ends_what_it_accepted_and_takes_on_nothing() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(0), ask("b", files("x"), 1, IfBusy::Queue));
    assert_eq!(session.step(Timestamp(1), Event::DrainRequested), []);
    let refused = |name: &str| [Effect::Refuse { run: run(name), refusal: StartRejected::Draining }];
    assert_eq!(session.step(Timestamp(2), ask("c", files("y"), 1, IfBusy::Queue)), refused("c"));
    assert_eq!(session.step(Timestamp(2), ask("d", Selection::All, 1, IfBusy::Queue)), refused("d"), "joins nothing");
    assert_eq!(session.unfinished().map(RunId::as_str).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(started(&session.step(Timestamp(3), ended("a", Outcome::Passed, Vec::new()))), ["b"]);
    let _ = session.step(Timestamp(4), ended("b", Outcome::Passed, Vec::new()));
    assert_eq!(session.unfinished().count(), 0);
    assert_eq!(session.step(Timestamp(5), ask("e", Selection::All, 1, IfBusy::Queue)), refused("e"));
    assert_eq!(session.step(Timestamp(6), Event::CloseRequested), [Effect::Stop]);
}

#[test]
fn a_run_that_nobody_watches_is_abandoned_after_its_grace() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(10), Event::Watched { run: run("a"), watchers: 1 });
    assert_eq!(session.step(Timestamp(100_000), Event::Tick), []);
    let _ = session.step(Timestamp(100_000), Event::Watched { run: run("a"), watchers: 0 });
    let _ = session.step(Timestamp(110_000), Event::Watched { run: run("a"), watchers: 0 });
    assert_eq!(session.step(Timestamp(129_999), Event::Tick), []);
    let kill = Effect::Kill { run: run("a"), reason: KillReason::Abandoned };
    assert_eq!(session.step(Timestamp(130_000), Event::Tick), [kill]);
}

#[test]
fn a_rerun_repeats_the_last_request_on_what_failed() {
    let mut session = Session::default();
    let failed = Selection::LastFailed { limit: None };
    let effects = session.step(Timestamp(0), ask("r", failed.clone(), 1, IfBusy::Queue));
    assert_eq!(effects, [Effect::Refuse { run: run("r"), refusal: StartRejected::NoRunYet }]);
    let request = RunRequest { framework: Some("go".into()), ..RunRequest::default() };
    let _ = session.step(
        Timestamp(0),
        Event::Requested {
            run: run("a"),
            request: Box::new(request),
            kind: RunKind::Tests,
            fingerprint: None,
            if_busy: IfBusy::Queue,
            no_room: None,
        },
    );
    let id = TestId { package: "p".into(), name: "T".into() };
    let test = TestCase::new(id.clone(), "p/T".into(), TestOutcome::Failed);
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, vec![test]));
    let effects = session.step(Timestamp(2), ask("r", failed.clone(), 1, IfBusy::Queue));
    let Effect::Start { request, .. } = &effects[1] else { unreachable!("{effects:?}") };
    assert_eq!(request.framework.as_deref(), Some("go"));
    assert_eq!(request.selection, Selection::Exactly(vec![crate::request::RerunTarget::Test(id)]));
    let _ = session.step(Timestamp(3), ended("r", Outcome::Passed, Vec::new()));
    let effects = session.step(Timestamp(4), ask("s", failed, 1, IfBusy::Queue));
    let refusal = StartRejected::NothingToRerun { framework: "go".into() };
    assert_eq!(effects, [Effect::Refuse { run: run("s"), refusal }]);
}

#[test]
fn a_listing_leaves_what_is_remembered_alone() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Failed, Vec::new()));
    let before = session.slot().clone();
    let listing = Event::Requested {
        run: run("l"),
        request: Box::default(),
        kind: RunKind::Listing,
        fingerprint: None,
        if_busy: IfBusy::Queue,
        no_room: None,
    };
    let _ = session.step(Timestamp(2), listing);
    let _ = session.step(Timestamp(3), ended("l", Outcome::Passed, Vec::new()));
    assert_eq!(session.slot(), &before);
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Failed)));
}

#[test]
fn a_rerun_that_waited_behind_a_run_that_passed_is_refused_and_leaves_the_slot_alone() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let failed = Selection::LastFailed { limit: None };
    let _ = session.step(Timestamp(1), ask("r", failed, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(2), ask("b", files("x"), 1, IfBusy::Queue));
    let effects = session.step(Timestamp(3), ended("a", Outcome::Passed, Vec::new()));
    let refusal = StartRejected::NothingToRerun { framework: "go".into() };
    assert_eq!(effects[0], Effect::Refuse { run: run("r"), refusal });
    assert_eq!(started(&effects), ["b"]);
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Passed)));
}

#[derive(Debug, Clone)]
enum Happening {
    Ask { selection: u8, workspace: u8, refuse: bool },
    Begin { workspace: u8 },
    End { passed: bool },
    Refuse,
    Cancel(u8),
    CancelRunning,
    Watch(u8, usize),
    Tick(u16),
    Crowd,
    Close,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (0u8..4, 0u8..2, any::<bool>())
            .prop_map(|(selection, workspace, refuse)| Happening::Ask { selection, workspace, refuse }),
        4 => (0u8..2).prop_map(|workspace| Happening::Begin { workspace }),
        4 => any::<bool>().prop_map(|passed| Happening::End { passed }),
        1 => Just(Happening::Refuse),
        2 => (0u8..30).prop_map(Happening::Cancel),
        2 => Just(Happening::CancelRunning),
        2 => ((0u8..30), 0usize..3).prop_map(|(run, watchers)| Happening::Watch(run, watchers)),
        2 => any::<u16>().prop_map(Happening::Tick),
        1 => Just(Happening::Crowd),
        1 => Just(Happening::Close),
    ]
}

#[test]
fn a_crowded_tenants_session_forgets_all_but_the_last_run() {
    let mut session = Session::default();
    for name in ["a", "b", "c"] {
        let _ = session.step(Timestamp(0), ask(name, Selection::All, 1, IfBusy::Queue));
        let _ = session.step(Timestamp(1), ended(name, Outcome::Passed, Vec::new()));
    }
    for forgotten in ["a", "b"] {
        assert_eq!(session.step(Timestamp(2), Event::Crowded), [Effect::Forget { run: run(forgotten) }]);
    }
    assert_eq!(session.step(Timestamp(2), Event::Crowded), []);
}

#[test]
fn runs_that_were_withdrawn_do_not_push_the_last_run_out() {
    let mut session = Session::default();
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, IfBusy::Queue));
    let _ = session.step(Timestamp(1), ended("a", Outcome::Passed, Vec::new()));
    let _ = session.step(Timestamp(2), ask("b", Selection::All, 1, IfBusy::Queue));
    let mut forgotten = Vec::new();
    for number in 0..2 * FINISHED_RUNS_MAX {
        let name = format!("w{number}");
        let _ = session.step(Timestamp(3), ask(&name, files(&name), 1, IfBusy::Queue));
        forgotten.extend(session.step(Timestamp(4), Event::CancelRequested { run: run(&name) }));
        forgotten.extend(session.step(Timestamp(4), Event::Crowded));
    }
    assert!(forgotten.len() > FINISHED_RUNS_MAX);
    assert!(!forgotten.contains(&Effect::Forget { run: run("a") }), "the session names it");
    assert_eq!(session.last(), Some(&(run("a"), Outcome::Passed)));
}

#[test]
fn only_what_the_workspace_decides_needs_a_look_at_it() {
    let all = RunRequest::default();
    let other = |name: &str| RunRequest { selection: files(name), ..RunRequest::default() };
    let (queue, refuse) = (IfBusy::Queue, IfBusy::Refuse);
    let mut session = Session::default();
    assert!(!session.needs_look(&all, RunKind::Tests, queue, true), "it starts, and looks when it begins");
    let _ = session.step(Timestamp(0), ask("a", Selection::All, 1, queue));
    assert!(!session.needs_look(&all, RunKind::Tests, refuse, true), "nobody knows yet what a sees");
    let _ = session.step(Timestamp(0), began("a", 1));
    for if_busy in [queue, refuse] {
        assert!(session.needs_look(&all, RunKind::Tests, if_busy, false), "it may join a");
        assert!(!session.needs_look(&all, RunKind::Listing, if_busy, false), "a listing joins no run of tests");
    }
    assert!(!session.needs_look(&other("x"), RunKind::Tests, refuse, true), "busy, whatever is in the workspace");
    assert!(!session.needs_look(&other("x"), RunKind::Tests, queue, false), "no room for one more that waits");
    assert!(session.needs_look(&other("x"), RunKind::Tests, queue, true));
    for number in 0..QUEUED_RUNS_MAX {
        let _ = session.step(Timestamp(1), ask(&number.to_string(), files(&number.to_string()), 1, queue));
    }
    assert!(!session.needs_look(&other("x"), RunKind::Tests, queue, true), "the queue is full");
    assert!(!session.needs_look(&other("1"), RunKind::Tests, queue, true), "it joins one that waits");
    assert!(session.needs_look(&all, RunKind::Tests, queue, true));
    let _ = session.step(Timestamp(2), Event::DrainRequested);
    assert!(!session.needs_look(&all, RunKind::Tests, queue, true));
}

proptest! {
    /// Every accepted run reaches exactly one end, at most one runs at a time, the queue keeps its bound, and a closed
    /// session stops once, when nothing of it is left. The run that it names as its last is never forgotten, nor the newest.
    /// Nobody joins a run that was told to end.
    #[test]
    fn every_accepted_run_ends_once(happenings in prop::collection::vec(happening(), 0..90)) {
        let mut session = Session::default();
        let mut now = Timestamp(0);
        let mut open: BTreeMap<RunId, bool> = BTreeMap::new(); // accepted and not ended -> started
        let mut done = BTreeSet::new();
        let (mut killed, mut forgotten) = (BTreeSet::new(), BTreeSet::new());
        let mut stops = 0;
        let mut names = 0u8;
        for happening in happenings {
            let ending = matches!(happening, Happening::End { .. } | Happening::Refuse);
            let event = match happening {
                Happening::Ask { selection, workspace, refuse } => {
                    names += 1;
                    let if_busy = if refuse { IfBusy::Refuse } else { IfBusy::Queue };
                    let selection = match selection {
                        0 => Selection::All,
                        1 => Selection::LastFailed { limit: None },
                        other => files(&other.to_string()),
                    };
                    ask(&names.to_string(), selection, workspace, if_busy)
                }
                Happening::Begin { workspace } => match session.running() {
                    Some(running) => began(running.as_str(), workspace),
                    None => continue,
                },
                Happening::End { passed } => match session.running() {
                    Some(running) => {
                        let running = running.as_str().to_owned();
                        ended(&running, if passed { Outcome::Passed } else { Outcome::Failed }, Vec::new())
                    }
                    None => continue,
                },
                Happening::Refuse => match session.running() {
                    Some(running) => Event::Rejected { run: running.clone() },
                    None => continue,
                },
                Happening::Cancel(name) => Event::CancelRequested { run: run(&name.to_string()) },
                Happening::CancelRunning => match session.running() {
                    Some(running) => Event::CancelRequested { run: running.clone() },
                    None => continue,
                },
                Happening::Watch(name, watchers) => Event::Watched { run: run(&name.to_string()), watchers },
                Happening::Tick(ms) => { now = now.plus_ms(ms.into()); Event::Tick }
                Happening::Crowd => Event::Crowded,
                Happening::Close => Event::CloseRequested,
            };
            if let Some(run) = session.running().filter(|_| ending).cloned() {
                prop_assert_eq!(open.remove(&run), Some(true));
                prop_assert!(done.insert(run));
            }
            for effect in session.step(now, event) {
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
                    Effect::Moved { run, .. } => prop_assert_eq!(open.get(&run), Some(&false)),
                    Effect::Refuse { run, .. } => {
                        // Either it never became one, or it waited and has nothing left to do.
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
