//! The end of a supervisor: runs that go on are waited for, until there is no more time.

use super::harness::{Book, Do, World, command, outcome, start, tenant, within};
use crate::sessions::limits::SessionLimits;
use crate::sessions::*;
use proctor_core::outcome::KillReason;

#[tokio::test]
async fn a_drain_lets_runs_end_and_takes_on_none() {
    let world = World::new();
    let (book, place) = (Book::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (one, idle) = (book.separate(&ours, &place).await, book.separate(&ours, &place).await);
    let (first, second) = (start(&one, "a").await, start(&one, "b").await);
    assert!(one.is_busy() && !idle.is_busy());
    let registry = book.registry.clone();
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
    assert_eq!(one.unfinished().await.unwrap().len(), 2, "what was accepted goes on");
    world.tell(Do::Exit(0));
    world.tell(Do::Exit(1));
    assert_eq!((outcome(&first).await, outcome(&second).await), (Outcome::Passed, Outcome::Failed));
    assert_eq!(within(draining).await.unwrap(), ClosedRuns { finished: 2, cancelled: 0 });
    assert!(one.is_gone() && idle.is_gone() && world.fake.killed.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_drain_cancels_what_has_not_ended_at_its_deadline() {
    let world = World::new();
    let (book, place) = (Book::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let session = book.separate(&ours, &place).await;
    let runs = [start(&session, "a").await, start(&session, "b").await, start(&session, "c").await];
    let (over, deadline) = oneshot::channel::<()>();
    let registry = book.registry.clone();
    let draining = tokio::spawn(async move { registry.drain(async { _ = deadline.await }).await });
    // Until the drain is known in the session, what ends is no run of the drain.
    within(async {
        while !matches!(
            session.start(command("d"), RunKind::Tests, IfBusy::Refuse).await,
            Err(SessionError::Rejected(StartRejected::Draining))
        ) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&runs[0]).await, Outcome::Passed);
    assert!(!draining.is_finished());
    over.send(()).unwrap();
    assert_eq!(within(draining).await.unwrap(), ClosedRuns { finished: 1, cancelled: 2 });
    assert_eq!((outcome(&runs[1]).await, outcome(&runs[2]).await), (Outcome::Cancelled, Outcome::Cancelled));
    assert_eq!(world.killed_because().await, KillReason::Closed);
}
