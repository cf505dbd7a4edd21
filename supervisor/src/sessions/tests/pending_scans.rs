//! Requests that find their session busy: which of them wait for a look at the workspace, and for which.

use super::harness::{Do, World, command, outcome, start, within};
use crate::runs::Phase;
use crate::sessions::*;
use proctor_core::bounds::QUEUED_RUNS_MAX;
use std::sync::mpsc as std_mpsc;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

fn asked(session: &SessionHandle, word: &str, if_busy: IfBusy, asking: &mut JoinSet<Result<Started, SessionError>>) {
    let (session, request) = (session.clone(), command(word));
    asking.spawn(async move { session.start(request, RunKind::Tests, if_busy).await });
}

/// A session with a run that goes on: its turn may come a moment after it was accepted.
async fn busy() -> (World, SessionHandle, Started) {
    let world = World::new();
    let session = world.open("s");
    let running = start(&session, "a").await;
    while within(running.handle.snapshot()).await.unwrap().phase != Phase::Running {
        tokio::task::yield_now().await;
    }
    (world, session, running)
}

/// Takes the one thread that there is for looks, so that none begins until it is let go of.
async fn hold() -> (std_mpsc::SyncSender<()>, JoinHandle<()>) {
    let (let_go, held) = std_mpsc::sync_channel(1);
    let (tell, begun) = oneshot::channel();
    let thread = spawn_blocking(move || {
        _ = tell.send(());
        _ = held.recv();
    });
    begun.await.unwrap();
    (let_go, thread)
}

fn with_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(test);
}

#[test]
fn a_look_serves_all_who_came_before_it_began() {
    with_one_thread(async {
        let (world, session, running) = busy().await;
        let (let_go, thread) = hold().await;
        let mut asking = JoinSet::new();
        asked(&session, "a", IfBusy::Refuse, &mut asking);
        // The actor answers in order, so by its answer it has taken in what was asked before.
        tokio::task::yield_now().await;
        within(session.status()).await.unwrap();
        for _ in 0..40 {
            asked(&session, "a", IfBusy::Refuse, &mut asking);
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
            within(session.status()).await.unwrap();
        }
        let_go.send(()).unwrap();
        while let Some(started) = within(asking.join_next()).await {
            assert_eq!(started.unwrap().unwrap().run, running.run, "all join the run that goes on");
        }
        thread.await.unwrap();
        let looks = session.about.looks.load(Ordering::Relaxed);
        assert_eq!(looks, 2, "one for who came first, one for the rest");
        world.tell(Do::Exit(0));
        assert_eq!(outcome(&running).await, Outcome::Passed);
    });
}

#[test]
fn what_no_look_decides_is_answered_while_none_can_begin() {
    with_one_thread(async {
        let (_world, session, running) = busy().await;
        for number in 0..QUEUED_RUNS_MAX {
            start(&session, &number.to_string()).await;
        }
        let looks = session.about.looks.load(Ordering::Relaxed);
        let (let_go, thread) = hold().await;
        let refused = async |word, if_busy| within(session.start(command(word), RunKind::Tests, if_busy)).await.err();
        assert_eq!(refused("x", IfBusy::Refuse).await, Some(SessionError::Rejected(StartRejected::Busy)));
        assert_eq!(refused("x", IfBusy::Queue).await, Some(SessionError::Rejected(StartRejected::QueueFull)));
        assert!(start(&session, "3").await.attached_age_ms.is_some(), "it joins one that waits");
        let_go.send(()).unwrap();
        thread.await.unwrap();
        assert_eq!(session.about.looks.load(Ordering::Relaxed), looks);
        assert!(within(session.cancel(running.run)).await.unwrap());
        within(session.close()).await;
    });
}

/// A run that ends while a request waits for its look leaves the session idle, and the request starts.
#[test]
fn a_request_whose_look_outlasts_the_run_before_it_starts() {
    with_one_thread(async {
        let (world, session, running) = busy().await;
        let (let_go, thread) = hold().await;
        let mut asking = JoinSet::new();
        asked(&session, "b", IfBusy::Queue, &mut asking);
        tokio::task::yield_now().await;
        within(session.status()).await.unwrap();
        world.tell(Do::Exit(0));
        assert_eq!(outcome(&running).await, Outcome::Passed);
        let_go.send(()).unwrap();
        thread.await.unwrap();
        let next = within(asking.join_next()).await.unwrap().unwrap().unwrap();
        assert_eq!(next.attached_age_ms, None);
        world.tell(Do::Exit(1));
        assert_eq!(outcome(&next).await, Outcome::Failed);
    });
}
