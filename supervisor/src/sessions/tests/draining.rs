//! Tests of a drain: runs are waited for until its deadline.

use super::harness::{Order, TestRegistry, World, command, outcome, start, tenant, until_running, within};
use crate::sessions::limits::SessionLimits;
use crate::sessions::*;
use proctor_core::outcome::KillReason;

#[tokio::test]
async fn a_drain_lets_runs_end_and_rejects_new_ones() {
    let world = World::new();
    let (registry, workspace) = (TestRegistry::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (one, idle) = (registry.separate(&ours, &workspace).await, registry.separate(&ours, &workspace).await);
    let (first, second) = (start(&one, "a").await, start(&one, "b").await);
    assert!(one.is_busy() && !idle.is_busy());
    let registry = registry.handle.clone();
    let draining = tokio::spawn(async move { registry.drain(std::future::pending()).await });
    let refusal = within(async {
        loop {
            match one.start(command("c"), RunKind::Tests, IfBusy::Refuse).await {
                Err(SessionError::Rejected(StartRejected::Busy)) => tokio::task::yield_now().await,
                other => return other.err(),
            }
        }
    });
    assert_eq!(refusal.await, Some(SessionError::Rejected(StartRejected::Draining)));
    assert_eq!(one.unfinished().await.unwrap().len(), 2, "accepted runs continue");
    world.order(Order::Exit(0));
    world.order(Order::Exit(1));
    assert_eq!((outcome(&first).await, outcome(&second).await), (Outcome::Passed, Outcome::Failed));
    assert_eq!(within(draining).await.unwrap(), ClosedRuns { finished: 2, cancelled: 0 });
    assert!(one.is_gone() && idle.is_gone() && world.fake.killed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_drain_cancels_the_runs_left_at_its_deadline() {
    let world = World::new();
    let (registry, workspace) = (TestRegistry::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let session = registry.separate(&ours, &workspace).await;
    let runs = [start(&session, "a").await, start(&session, "b").await, start(&session, "c").await];
    let (over, deadline) = oneshot::channel::<()>();
    let registry = registry.handle.clone();
    let draining = tokio::spawn(async move { registry.drain(async { _ = deadline.await }).await });
    // A run that ends before the session has handled the drain is not counted.
    within(async {
        while !matches!(
            session.start(command("d"), RunKind::Tests, IfBusy::Refuse).await,
            Err(SessionError::Rejected(StartRejected::Draining))
        ) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.order(Order::Exit(0));
    assert_eq!(outcome(&runs[0]).await, Outcome::Passed);
    until_running(&runs[1]).await;
    assert!(!draining.is_finished());
    over.send(()).unwrap();
    assert_eq!(within(draining).await.unwrap(), ClosedRuns { finished: 1, cancelled: 2 });
    assert_eq!((outcome(&runs[1]).await, outcome(&runs[2]).await), (Outcome::Cancelled, Outcome::Cancelled));
    assert_eq!(world.killed_because().await, KillReason::Closed);
}
