//! Tests of idle sessions: their cost and their expiry.

use super::harness::{Order, TestRegistry, World, eventually, freeze_clock, start, tenant, within};
use crate::ops::audit;
use crate::sessions::limits::SessionLimits;
use crate::sessions::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_unused_session_expires_with_an_audit_record() {
    let world = World::new();
    let session = world.open("s");
    within(session.status()).await.unwrap();
    // The paused clock advances by itself to the only pending timer.
    tokio::time::sleep(Duration::from_secs(13 * 60 * 60)).await;
    assert!(session.is_gone());
    let records = world.audit_records();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].event, records[0].session.as_deref()), (audit::AuditEvent::SessionExpired, Some("s")));
}

#[tokio::test(start_paused = true)]
async fn a_status_query_does_not_delay_the_expiry_of_a_session() {
    let world = World::new();
    let minute = Duration::from_secs(60);
    let (registry, workspace) =
        (TestRegistry::with(&world, SessionLimits { idle_max: minute, ..SessionLimits::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (session, _) = registry.open(&ours, &workspace, "", false).await.unwrap();
    assert_eq!(session.idle_max(), minute);
    let half = Duration::from_secs(40);
    tokio::time::sleep(half).await;
    assert_eq!(session.last_run(0, 1).await.unwrap(), None, "this counts as a use");
    tokio::time::sleep(half).await;
    let status = session.status().await.unwrap();
    assert_eq!(world.context.clock.now().ms_since(status.used_at), 40_000);
    assert_eq!(session.unfinished().await.unwrap().len(), 0);
    tokio::time::sleep(half).await;
    assert!(session.is_gone());
    eventually(&registry, 0).await;
}

#[tokio::test(start_paused = true)]
async fn finding_an_existing_session_restarts_its_idle_time() {
    let world = World::new();
    let minute = Duration::from_secs(60);
    let (registry, workspace) =
        (TestRegistry::with(&world, SessionLimits { idle_max: minute, ..SessionLimits::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (first, _) = registry.open(&ours, &workspace, "", false).await.unwrap();
    let nearly = minute - Duration::from_secs(1);
    for _ in 0..3 {
        tokio::time::sleep(nearly).await;
        let (again, existing) = registry.open(&ours, &workspace, "", false).await.unwrap();
        assert_eq!((again.id(), existing), (first.id(), true));
    }
    tokio::time::sleep(nearly).await;
    assert!(!first.is_gone());
}

#[tokio::test]
async fn does_not_return_a_session_that_closes_while_it_is_found() {
    let world = World::new();
    let (registry, workspace) = (TestRegistry::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (first, _) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    // The registry handles the open first, and the session is already closing when it is touched.
    let (opened, _) = tokio::join!(registry.open(&ours, &workspace, "key", false), first.close());
    let (next, existing) = opened.unwrap();
    assert!(!existing && next.id() != first.id());
    assert!(within(next.status()).await.is_ok());
}

/// A caller that waited for a run finds the session that ran it, however long the run took.
#[tokio::test(start_paused = true)]
async fn a_long_run_does_not_expire_its_session() {
    let world = World::new();
    let _held = freeze_clock();
    let minute = Duration::from_secs(60);
    let (registry, workspace) =
        (TestRegistry::with(&world, SessionLimits { idle_max: minute, ..SessionLimits::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (session, _) = registry.open(&ours, &workspace, "", false).await.unwrap();
    let run = start(&session, "a").await;
    let _watch = run.handle.watch();
    tokio::time::advance(3 * minute).await;
    world.order(Order::Exit(0));
    let ended = loop {
        let snapshot = run.handle.snapshot().await.unwrap();
        if snapshot.end.is_some() {
            break world.context.clock.now();
        }
        tokio::task::yield_now().await;
    };
    let status = session.status().await.unwrap();
    assert_eq!((status.running, status.used_at), (None, ended), "the idle time starts at the end of the run");
    tokio::time::advance(minute / 2).await;
    assert!(session.run(run.run.clone()).await.unwrap().is_some());
}

/// Most sessions are idle, and there may be 100,000 of them.
#[tokio::test]
async fn an_idle_session_takes_little_memory() {
    let world = World::new();
    let (_handle, actor) = prepare_actor(SessionOptions {
        id: SessionId::new("s"),
        context: Arc::clone(&world.context),
        policy: world.policy().into(),
        workspace: world.workspace(),
        idle_max: SESSION_IDLE_MAX,
        memory: SessionMemory::default(),
    });
    let bytes = size_of_val(&actor);
    assert!(bytes <= 2_048, "{bytes} bytes");
}
