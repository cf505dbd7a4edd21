//! Tests of workspace scans: which requests wait for which scan, and that each is scanned for once.

use super::harness::{Order, World, command, outcome, start, until_running, within};
use crate::sessions::*;
use proctor_core::bounds::QUEUED_RUNS_MAX;
use std::sync::mpsc as std_mpsc;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

fn request(
    session: &SessionHandle,
    word: &str,
    if_busy: IfBusy,
    starts: &mut JoinSet<Result<StartedRun, SessionError>>,
) {
    let (session, request) = (session.clone(), command(word));
    starts.spawn(async move { session.start(request, RunKind::Tests, if_busy).await });
}

/// A session with a run in progress.
async fn busy() -> (World, SessionHandle, StartedRun) {
    let world = World::new();
    let session = world.open("s");
    let running = start(&session, "a").await;
    until_running(&running).await;
    (world, session, running)
}

/// Takes the only blocking thread, so that no scan starts until it is released.
async fn hold_blocking_thread() -> (std_mpsc::SyncSender<()>, JoinHandle<()>) {
    let (release, receiver) = std_mpsc::sync_channel(1);
    let (sender, started) = oneshot::channel();
    let thread = spawn_blocking(move || {
        _ = sender.send(());
        _ = receiver.recv();
    });
    started.await.unwrap();
    (release, thread)
}

fn with_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(test);
}

#[test]
fn one_scan_serves_all_requests_that_arrived_before_it() {
    with_one_thread(async {
        let (world, session, running) = busy().await;
        let (release, thread) = hold_blocking_thread().await;
        let mut starts = JoinSet::new();
        request(&session, "a", IfBusy::Refuse, &mut starts);
        // The actor answers in order, so after this answer it has handled the request.
        tokio::task::yield_now().await;
        within(session.status()).await.unwrap();
        for _ in 0..40 {
            request(&session, "a", IfBusy::Refuse, &mut starts);
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
            within(session.status()).await.unwrap();
        }
        release.send(()).unwrap();
        while let Some(started) = within(starts.join_next()).await {
            assert_eq!(started.unwrap().unwrap().run, running.run, "all attach to the running run");
        }
        thread.await.unwrap();
        let scans = session.shared.scans.load(Ordering::Relaxed);
        assert_eq!(scans, 3, "one for the run, one for the first request, one for the rest");
        world.order(Order::Exit(0));
        assert_eq!(outcome(&running).await, Outcome::Passed);
    });
}

#[test]
fn answers_requests_that_need_no_scan_while_none_can_start() {
    with_one_thread(async {
        let (_world, session, running) = busy().await;
        for number in 0..QUEUED_RUNS_MAX {
            start(&session, &number.to_string()).await;
        }
        let scans = session.shared.scans.load(Ordering::Relaxed);
        let (release, thread) = hold_blocking_thread().await;
        let refused = async |word, if_busy| within(session.start(command(word), RunKind::Tests, if_busy)).await.err();
        assert_eq!(refused("x", IfBusy::Refuse).await, Some(SessionError::Rejected(StartRejected::Busy)));
        assert_eq!(refused("x", IfBusy::Queue).await, Some(SessionError::Rejected(StartRejected::QueueFull)));
        assert!(start(&session, "3").await.attached_age_ms.is_some(), "it attaches to a waiting run");
        release.send(()).unwrap();
        thread.await.unwrap();
        assert_eq!(session.shared.scans.load(Ordering::Relaxed), scans);
        assert!(within(session.cancel(running.run)).await.unwrap());
        within(session.close()).await;
    });
}

/// The run ends while a request waits for its scan: the session is idle then, and the request starts.
#[test]
fn starts_a_request_whose_scan_outlasts_the_previous_run() {
    with_one_thread(async {
        let (world, session, running) = busy().await;
        let (release, thread) = hold_blocking_thread().await;
        let mut starts = JoinSet::new();
        request(&session, "b", IfBusy::Queue, &mut starts);
        tokio::task::yield_now().await;
        within(session.status()).await.unwrap();
        world.order(Order::Exit(0));
        assert_eq!(outcome(&running).await, Outcome::Passed);
        release.send(()).unwrap();
        thread.await.unwrap();
        let next = within(starts.join_next()).await.unwrap().unwrap().unwrap();
        assert_eq!(next.attached_age_ms, None);
        world.order(Order::Exit(1));
        assert_eq!(outcome(&next).await, Outcome::Failed);
    });
}
