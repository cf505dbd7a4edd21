//! Ends that nobody asked a run for: of its session, of its driver, of whoever watched it.

use super::harness::{Book, Do, World, command, hold_the_clock, outcome, refused, start, tenant, within};
use crate::ops::audit;
use crate::runs::{NotStarted, RunEnd};
use crate::sessions::limits::SessionLimits;
use crate::sessions::registry::CreateError;
use crate::sessions::*;
use futures_util::FutureExt;
use proctor_core::id::TenantId;
use proctor_core::outcome::KillReason;
use proctor_core::session::DETACHED_MS_MAX;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, advance};

/// A panic costs one session: its runs end, whoever watches them and the audit log are told, the rest goes on.
#[tokio::test]
async fn a_panic_costs_one_session() {
    let world = World::new();
    let (broken, other) = (world.open("broken"), world.open("other"));
    let before = start(&broken, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&before).await, Outcome::Passed);
    let run = start(&broken, "b").await;
    let waiting = start(&broken, "c").await;
    let watching = tokio::spawn({
        let handle = run.handle.clone();
        async move { handle.end().await }
    });
    within(broken.panic()).await;
    assert_eq!(world.killed_because().await, KillReason::Closed);
    assert!(broken.is_gone() && !broken.is_busy());
    assert_eq!(within(broken.status()).await, Err(SessionError::Gone));
    let host = |end| matches!(end, Ok(RunEnd::NotStarted(NotStarted::Host { .. })));
    assert!(host(within(watching).await.unwrap()), "whoever watches is told what happened");
    for (later, ended) in [(&run, false), (&waiting, false), (&before, true)] {
        let found = within(broken.run(later.run.clone())).await.unwrap().expect("it can be read what became of it");
        let end = within(found.end()).await;
        assert_eq!(host(end.clone()), !ended, "{end:?}");
    }
    assert_eq!(outcome(&before).await, Outcome::Passed);
    let lines = world.told();
    let told: Vec<_> =
        lines.iter().map(|line| (line.run.as_deref().unwrap(), line.outcome.as_deref().unwrap())).collect();
    assert_eq!(told[0], (before.run.as_str(), "passed"));
    let mut broke = told[1..].to_vec();
    broke.sort_unstable();
    assert_eq!(broke, [(run.run.as_str(), "not_started"), (waiting.run.as_str(), "not_started")], "each once");
    assert!(lines.iter().all(|line| line.event == audit::AuditEvent::RunFinished));
    let run = start(&other, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

#[tokio::test]
async fn a_session_that_broke_gives_its_place_to_the_next_and_what_became_of_its_runs_is_found() {
    let world = World::new();
    let (book, place) = (Book::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 1);
    let (broken, _) = book.open(&ours, &place, "key", false).await.unwrap();
    let run = start(&broken, "a").await;
    within(broken.panic()).await;
    let registry = &book.registry;
    assert!(within(registry.find(ours.id.clone(), broken.id().clone())).await.is_none());
    let found = within(registry.find_by_run(ours.id.clone(), &run.run)).await.expect("its runs are told of");
    assert!(within(found.run(run.run.clone())).await.unwrap().is_some());
    assert!(within(registry.find_by_run(TenantId::new("2"), &run.run)).await.is_none(), "to nobody else");
    drop((found, broken));
    let (next, existing) = book.open(&ours, &place, "key", false).await.unwrap();
    assert!(!existing, "a tenant that may have one session has one");
    let second = start(&next, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
    assert_eq!(book.sessions().await, 1);
    let again = book.open(&ours, &place, "", true).await;
    assert_eq!(refused(again), CreateError::TooMany { max: 1 });
}

#[tokio::test]
async fn a_broken_driver_costs_one_run() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    world.tell(Do::Panic);
    assert!(matches!(within(first.handle.end()).await.unwrap(), RunEnd::NotStarted(_)));
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
}

#[tokio::test]
async fn closing_a_session_kills_its_run_and_leaves_nothing() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let waiting = start(&session, "b").await;
    within(session.close()).await;
    assert_eq!(world.killed_because().await, KillReason::Closed);
    assert_eq!(outcome(&run).await, Outcome::Cancelled);
    assert_eq!(outcome(&waiting).await, Outcome::Cancelled);
    assert!(session.is_gone());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_watches_dies_after_its_grace() {
    let world = World::new();
    let _held = hold_the_clock();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let watch = run.handle.watch();
    // A whole tick and more passes while somebody watches.
    advance(Duration::from_millis(2 * DETACHED_MS_MAX)).await;
    assert!(within(session.status()).await.unwrap().running.is_some());
    drop(watch);
    let (before, begun) = (Instant::now(), std::time::Instant::now());
    while world.fake.killed.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(120), "nobody killed it");
        // The grace and more has passed: from then on it takes what the thread of the run takes.
        if before.elapsed() < Duration::from_millis(2 * DETACHED_MS_MAX) {
            advance(Duration::from_millis(500)).await;
        } else {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(before.elapsed() >= Duration::from_millis(DETACHED_MS_MAX));
    assert_eq!(world.killed_because().await, KillReason::Abandoned);
}

/// What one look of a tenant takes.
type Permit = Option<OwnedSemaphorePermit>;

/// A run that cannot look at its workspace, as on a disk that takes its time: other looks of its tenant are all on.
async fn beginning(world: &World) -> (SessionHandle, JoinHandle<Result<Started, SessionError>>, Vec<Permit>) {
    let (policy, id) = (Arc::new(world.policy()), SessionId::new("s"));
    let looks = std::iter::from_fn(|| policy.scan_permits.acquire().now_or_never()).collect();
    let context = Arc::clone(&world.context);
    let (session, _) = open(id, context, Arc::clone(&policy), world.workspace(), Memory::default());
    let asking = tokio::spawn({
        let session = session.clone();
        async move { session.start(command("a"), RunKind::Tests, IfBusy::Queue).await }
    });
    while within(session.status()).await.unwrap().running.is_none() {
        tokio::task::yield_now().await;
    }
    (session, asking, looks)
}

/// Lets time pass for as long as the session's run goes on, up to twice the grace of one that nobody watches.
async fn pass_the_time(session: &SessionHandle) -> Duration {
    let (begin, step) = (Instant::now(), Duration::from_millis(500));
    while begin.elapsed() < Duration::from_millis(2 * DETACHED_MS_MAX) {
        advance(step).await;
        if within(session.status()).await.unwrap().running.is_none() {
            break;
        }
    }
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_while_its_caller_waits_for_it_to_begin_however_long_that_takes() {
    let world = World::new();
    let _held = hold_the_clock();
    let (session, asking, looks) = beginning(&world).await;
    assert_eq!(pass_the_time(&session).await, Duration::from_millis(2 * DETACHED_MS_MAX));
    drop(looks);
    world.tell(Do::Exit(0));
    let run = within(asking).await.unwrap().unwrap();
    assert_eq!(run.handle.watchers(), 0, "whoever was told watches it from then on");
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_caller_went_before_it_began_dies_after_its_grace() {
    let world = World::new();
    let _held = hold_the_clock();
    let (session, asking, _looks) = beginning(&world).await;
    pass_the_time(&session).await;
    asking.abort();
    let passed = pass_the_time(&session).await;
    let grace = Duration::from_millis(DETACHED_MS_MAX);
    assert!((grace..2 * grace).contains(&passed), "{passed:?}");
    let last = within(session.status()).await.unwrap().last;
    assert_eq!(last, Some((RunId::new("s-1"), Outcome::Cancelled)));
}
