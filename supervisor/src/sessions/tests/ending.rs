//! Tests of ends without a cancel of the run: of its session, its driver, its watchers.

use super::harness::{Order, TestRegistry, World, command, freeze_clock, outcome, refused, start, tenant, within};
use crate::ops::audit;
use crate::runs::{NotStarted, RunEnd};
use crate::sessions::limits::SessionLimits;
use crate::sessions::registry::CreateError;
use crate::sessions::*;
use futures_util::FutureExt;
use proctor_core::bounds::DETACHED_MS_MAX;
use proctor_core::id::TenantId;
use proctor_core::outcome::KillReason;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, advance};

/// A panic costs one session: its runs end, their watchers and the audit log are told, other sessions continue.
#[tokio::test]
async fn a_panic_costs_one_session() {
    let world = World::new();
    let (broken, other) = (world.open("broken"), world.open("other"));
    let before = start(&broken, "a").await;
    world.order(Order::Exit(0));
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
    let is_host_failure = |end| matches!(end, Ok(RunEnd::NotStarted(NotStarted::Host { .. })));
    assert!(is_host_failure(within(watching).await.unwrap()), "the watcher gets the reason");
    for (later, ended) in [(&run, false), (&waiting, false), (&before, true)] {
        let found = within(broken.run(later.run.clone())).await.unwrap().expect("the end of the run is readable");
        let end = within(found.end()).await;
        assert_eq!(is_host_failure(end.clone()), !ended, "{end:?}");
    }
    assert_eq!(outcome(&before).await, Outcome::Passed);
    let records = world.audit_records();
    let ends: Vec<_> =
        records.iter().map(|record| (record.run.as_deref().unwrap(), record.outcome.as_deref().unwrap())).collect();
    assert_eq!(ends[0], (before.run.as_str(), "passed"));
    let mut crashed = ends[1..].to_vec();
    crashed.sort_unstable();
    assert_eq!(crashed, [(run.run.as_str(), "not_started"), (waiting.run.as_str(), "not_started")], "each once");
    assert!(records.iter().all(|record| record.event == audit::AuditEvent::RunFinished));
    let run = start(&other, "a").await;
    world.order(Order::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

#[tokio::test]
async fn a_crashed_session_is_replaced_and_the_ends_of_its_runs_are_found() {
    let world = World::new();
    let (registry, workspace) = (TestRegistry::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 1);
    let (broken, _) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    let run = start(&broken, "a").await;
    within(broken.panic()).await;
    assert!(within(registry.handle.find(ours.id.clone(), broken.id().clone())).await.is_none());
    let found = within(registry.handle.find_by_run(ours.id.clone(), &run.run)).await.expect("its runs are still found");
    assert!(within(found.run(run.run.clone())).await.unwrap().is_some());
    assert!(
        within(registry.handle.find_by_run(TenantId::new("2"), &run.run)).await.is_none(),
        "not for another tenant"
    );
    drop((found, broken));
    let (next, existing) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    assert!(!existing, "a tenant with one session allowed has one");
    let second = start(&next, "a").await;
    world.order(Order::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
    assert_eq!(registry.sessions().await, 1);
    let again = registry.open(&ours, &workspace, "", true).await;
    assert_eq!(refused(again), CreateError::TooMany { max: 1 });
}

#[tokio::test]
async fn a_broken_driver_costs_one_run() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    world.order(Order::Panic);
    assert!(matches!(within(first.handle.end()).await.unwrap(), RunEnd::NotStarted(_)));
    world.order(Order::Exit(0));
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
async fn kills_an_unwatched_run_after_its_grace() {
    let world = World::new();
    let _held = freeze_clock();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let watch = run.handle.watch();
    // More than a tick passes while the run is watched.
    advance(Duration::from_millis(2 * DETACHED_MS_MAX)).await;
    assert!(within(session.status()).await.unwrap().running.is_some());
    drop(watch);
    let (before, begun) = (Instant::now(), std::time::Instant::now());
    while world.fake.killed.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the run was not killed");
        // The grace and more has passed: from here on only the run's thread needs time.
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

/// The permit of one scan of the tenant.
type Permit = Option<OwnedSemaphorePermit>;

/// A request whose workspace cannot be scanned, as on a slow disk: all permits of its tenant are taken.
/// A run whose only caller has left makes way for another request, which becomes a run as any other.
#[tokio::test]
async fn an_abandoned_run_makes_way_for_the_next() {
    let world = World::new();
    let session = world.open("w");
    let abandoned = start(&session, "a").await;
    let watch = abandoned.handle.watch();
    // The session asks for the watchers when it handles a request, not only once a second.
    within(session.status()).await.unwrap();
    let waiting = start(&session, "b").await;
    drop(watch);
    let next = start(&session, "c").await;
    assert_eq!(world.killed_because().await, KillReason::Abandoned);
    for run in [&waiting, &next] {
        world.order(Order::Exit(0));
        assert_eq!(outcome(run).await, Outcome::Passed);
    }
    assert!(!session.is_busy());
}

async fn start_without_permit(
    world: &World,
) -> (SessionHandle, JoinHandle<Result<StartedRun, SessionError>>, Vec<Permit>) {
    let (policy, id) = (CurrentPolicy::from(world.policy()), SessionId::new("s"));
    let permits = std::iter::from_fn(|| policy.usage.scan_permits.acquire().now_or_never()).collect();
    let context = Arc::clone(&world.context);
    let (session, _) = open(id, context, policy, world.workspace(), SessionMemory::default());
    let starting = tokio::spawn({
        let session = session.clone();
        async move { session.start(command("a"), RunKind::Tests, IfBusy::Queue).await }
    });
    (session, starting, permits)
}

/// Twice the grace of an unwatched run passes.
async fn pass_the_time(session: &SessionHandle) {
    for _ in 0..4 * DETACHED_MS_MAX / 1_000 {
        advance(Duration::from_millis(500)).await;
        let status = within(session.status()).await.unwrap();
        assert_eq!((status.running, status.last), (None, None), "a request is no run before its scan");
    }
}

#[tokio::test(start_paused = true)]
async fn starts_a_request_however_long_its_scan_takes() {
    let world = World::new();
    let _held = freeze_clock();
    let (session, starting, permits) = start_without_permit(&world).await;
    pass_the_time(&session).await;
    drop(permits);
    world.order(Order::Exit(0));
    let run = within(starting).await.unwrap().unwrap();
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_caller_left_before_its_scan_becomes_no_run() {
    let world = World::new();
    let _held = freeze_clock();
    let (session, starting, permits) = start_without_permit(&world).await;
    pass_the_time(&session).await;
    starting.abort();
    assert!(within(starting).await.unwrap_err().is_cancelled());
    drop(permits);
    // The scan for this request follows that of the first.
    let run = start(&session, "b").await;
    assert_eq!((run.run.as_str(), run.attached_age_ms), ("s-1", None), "the session's first run");
    world.order(Order::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

/// The next run of the session waits for its scan, as on a slow disk.
#[tokio::test]
async fn cancels_a_run_that_waits_for_its_scan() {
    let world = World::new();
    let (policy, id) = (CurrentPolicy::from(world.policy()), SessionId::new("s"));
    let context = Arc::clone(&world.context);
    let (session, _) = open(id, context, policy.clone(), world.workspace(), SessionMemory::default());
    let (first, second) = (start(&session, "a").await, start(&session, "b").await);
    let permits: Vec<Permit> = std::iter::from_fn(|| policy.usage.scan_permits.acquire().now_or_never()).collect();
    world.order(Order::Exit(0));
    assert_eq!(outcome(&first).await, Outcome::Passed);
    assert_eq!(within(session.status()).await.unwrap().running, Some(second.run.clone()));
    assert!(within(session.cancel(second.run.clone())).await.unwrap());
    assert_eq!(outcome(&second).await, Outcome::Cancelled);
    drop(permits);
    let third = start(&session, "c").await;
    world.order(Order::Exit(0));
    assert_eq!(outcome(&third).await, Outcome::Passed);
}
