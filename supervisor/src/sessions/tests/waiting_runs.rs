//! Tests of waiting runs: their order and the quota that counts them.

use super::harness::{Order, World, command, outcome, start, within};
use crate::sessions::*;
use crate::tenants::policy::Policy;
use proctor_core::quota::{Quota, QuotaExceeded};

/// Two sessions of a tenant that may run one at a time.
#[tokio::test]
async fn priority_orders_the_sessions_of_a_tenant_and_is_no_part_of_the_request() {
    let world = World::new();
    let quota = Quota { running_runs_max: 1, ..world.policy().quota };
    let policy = CurrentPolicy::from(Policy { quota, ..world.policy() });
    let session = |name: &str| {
        let (id, context) = (SessionId::new(name), Arc::clone(&world.context));
        open(id, context, policy.clone(), world.workspace(), SessionMemory::default()).0
    };
    let [first, second, third] = ["first", "second", "third"].map(session);
    let start = async |session: &SessionHandle, word: &str, priority| {
        let waiting = QueueOptions { priority, ..QueueOptions::default() };
        within(session.start(command(word), RunKind::Tests, waiting)).await.unwrap()
    };
    let running = start(&first, "a", Priority::Low).await;
    let low = start(&second, "a", Priority::Low).await;
    let behind = start(&second, "b", Priority::High).await;
    let high = start(&third, "a", Priority::High).await;
    assert_eq!(start(&second, "b", Priority::Low).await.run, behind.run, "the same request attaches to it");
    assert_eq!(start(&first, "a", Priority::High).await.run, running.run);
    let mut order = Vec::new();
    for _ in 0..4 {
        world.order(Order::Exit(0));
        let ended = within(async {
            tokio::select! {
                _ = running.handle.end(), if !order.contains(&running.run) => &running,
                _ = low.handle.end(), if !order.contains(&low.run) => &low,
                _ = behind.handle.end(), if !order.contains(&behind.run) => &behind,
                _ = high.handle.end(), if !order.contains(&high.run) => &high,
            }
        });
        let run = ended.await.run.clone();
        order.push(run);
    }
    assert_eq!(order, [running.run, high.run, low.run, behind.run], "runs of one session keep their order");
}

/// In the queue of a session or of the host, in one session or in two.
#[tokio::test]
async fn counts_waiting_runs_together_wherever_they_wait() {
    let world = World::new();
    let quota = Quota { queued_runs_max: 2, ..world.policy().quota };
    let policy = CurrentPolicy::from(Policy { quota, ..world.policy() });
    let session = |name: &str| {
        let (id, context) = (SessionId::new(name), Arc::clone(&world.context));
        open(id, context, policy.clone(), world.workspace(), SessionMemory::default()).0
    };
    let [one, other, last] = ["one", "other", "last"].map(session);
    let refused = async |session: &SessionHandle, word: &str| {
        within(session.start(command(word), RunKind::Tests, IfBusy::Queue)).await.err()
    };
    let (full, queued) = (QuotaExceeded::QueuedRuns { max: 2 }, || policy.usage.queued.now());
    let running = start(&one, "a").await;
    let waiting = start(&one, "b").await;
    let cancelled = start(&one, "c").await;
    assert_eq!(queued(), 2);
    assert_eq!(refused(&one, "d").await, Some(SessionError::Rejected(StartRejected::Quota(full.clone()))));
    assert_eq!(start(&one, "c").await.run, cancelled.run, "an attached request is no further waiting run");
    // The host has a free slot, so this run does not wait.
    let elsewhere = start(&other, "a").await;
    assert!(within(one.cancel(cancelled.run)).await.unwrap());
    assert_eq!(queued(), 1);
    (0..3).for_each(|_| world.order(Order::Exit(0)));
    for run in [running, elsewhere, waiting] {
        assert_eq!(outcome(&run).await, Outcome::Passed);
    }
    assert_eq!(queued(), 0);

    // A full host, and a session whose first run waits for a slot.
    let all = world.occupy().await;
    let on_host = start(&one, "a").await;
    let behind = start(&one, "b").await;
    assert_eq!(queued(), 2);
    assert_eq!(refused(&other, "a").await, Some(SessionError::Rejected(StartRejected::Quota(full.clone()))));
    drop(all);
    world.order(Order::Exit(0));
    world.order(Order::Exit(0));
    assert_eq!((outcome(&on_host).await, outcome(&behind).await), (Outcome::Passed, Outcome::Passed));
    assert_eq!(queued(), 0);

    // Runs that end otherwise: with their session, and with their crashed session.
    for broken in [false, true] {
        let session = if broken { &last } else { &other };
        start(session, "a").await;
        start(session, "b").await;
        assert_eq!(queued(), 1);
        if broken {
            within(session.panic()).await
        } else {
            _ = within(session.close()).await
        }
        within(async {
            while queued() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
