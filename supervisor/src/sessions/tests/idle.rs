//! Sessions at rest: what they cost, and when they end by themselves.

use super::harness::{Book, Do, World, eventually, hold_the_clock, start, tenant, within};
use crate::ops::audit;
use crate::sessions::limits::SessionLimits;
use crate::sessions::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_ends_and_the_audit_log_says_so() {
    let world = World::new();
    let session = world.open("s");
    within(session.status()).await.unwrap();
    // The clock runs by itself to the one thing that is waited for.
    tokio::time::sleep(Duration::from_secs(13 * 60 * 60)).await;
    assert!(session.is_gone());
    let told = world.told();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].event, told[0].session.as_deref()), (audit::AuditEvent::SessionExpired, Some("s")));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_expires_and_whoever_looks_at_it_does_not_use_it() {
    let world = World::new();
    let minute = Duration::from_secs(60);
    let (book, place) =
        (Book::with(&world, SessionLimits { idle_max: minute, ..SessionLimits::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (session, _) = book.open(&ours, &place, "", false).await.unwrap();
    assert_eq!(session.idle_max(), minute);
    let half = Duration::from_secs(40);
    tokio::time::sleep(half).await;
    assert_eq!(session.last_run(1).await.unwrap(), None, "this is a use of it");
    tokio::time::sleep(half).await;
    let status = session.status().await.unwrap();
    assert_eq!(world.context.clock.now().ms_since(status.used_at), 40_000);
    assert_eq!(session.unfinished().await.unwrap().len(), 0);
    tokio::time::sleep(half).await;
    assert!(session.is_gone());
    eventually(&book, 0).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_is_given_a_session_that_was_there_has_it_for_as_long_as_a_new_one() {
    let world = World::new();
    let minute = Duration::from_secs(60);
    let (book, place) =
        (Book::with(&world, SessionLimits { idle_max: minute, ..SessionLimits::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (first, _) = book.open(&ours, &place, "", false).await.unwrap();
    let nearly = minute - Duration::from_secs(1);
    for _ in 0..3 {
        tokio::time::sleep(nearly).await;
        let (again, existing) = book.open(&ours, &place, "", false).await.unwrap();
        assert_eq!((again.id(), existing), (first.id(), true));
    }
    tokio::time::sleep(nearly).await;
    assert!(!first.is_gone());
}

#[tokio::test]
async fn a_session_that_ends_while_it_is_found_is_not_given_to_anybody() {
    let world = World::new();
    let (book, place) = (Book::with(&world, SessionLimits::default()), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (first, _) = book.open(&ours, &place, "key", false).await.unwrap();
    // The registry is asked first, and answers when the session has been asked to end.
    let (opened, _) = tokio::join!(book.open(&ours, &place, "key", false), first.close());
    let (next, existing) = opened.unwrap();
    assert!(!existing && next.id() != first.id());
    assert!(within(next.status()).await.is_ok());
}

/// Whoever waited for a run finds the session that ran it, however long the run took.
#[tokio::test(start_paused = true)]
async fn a_session_does_not_expire_because_its_run_took_longer_than_it_may_be_idle() {
    let world = World::new();
    let _held = hold_the_clock();
    let minute = Duration::from_secs(60);
    let (book, place) =
        (Book::with(&world, SessionLimits { idle_max: minute, ..SessionLimits::default() }), world.workspace());
    let ours = tenant(&world, 1, 9);
    let (session, _) = book.open(&ours, &place, "", false).await.unwrap();
    let run = start(&session, "a").await;
    let _watch = run.handle.watch();
    tokio::time::advance(3 * minute).await;
    world.tell(Do::Exit(0));
    let ended = loop {
        let snapshot = run.handle.snapshot().await.unwrap();
        if snapshot.end.is_some() {
            break world.context.clock.now();
        }
        tokio::task::yield_now().await;
    };
    let status = session.status().await.unwrap();
    assert_eq!((status.running, status.used_at), (None, ended), "idle counts from the end of the run");
    tokio::time::advance(minute / 2).await;
    assert!(session.run(run.run.clone()).await.unwrap().is_some());
}

/// Most sessions are at rest, and there may be 100,000 of them.
#[tokio::test]
async fn a_session_at_rest_costs_its_actor_little() {
    let world = World::new();
    let (_handle, actor) = prepare_actor(Opening {
        id: SessionId::new("s"),
        context: Arc::clone(&world.context),
        policy: Arc::new(world.policy()).into(),
        workspace: world.workspace(),
        idle_max: IDLE_MAX,
        memory: Memory::default(),
    });
    let bytes = size_of_val(&actor);
    assert!(bytes <= 2_048, "{bytes} bytes");
}
