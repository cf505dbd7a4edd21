//! Following a run: from any event on, after losing the stream, and by waiting for its end.

use crate::{Scene, assert_passed};
use proctor_proto::v1::{Outcome, RunState, Stream, WatchRunRequest};
use std::time::{Duration, Instant};
use tonic::Code;

#[tokio::test]
async fn a_run_is_watched_from_any_event_on_without_gap_or_duplicate() {
    let scene = Scene::new().await;
    let mut first = scene.client.start(scene.request()).await.unwrap();
    let run_id = first.wait_for_test("TestWaits").await;
    let known = first.seen.len() as u64;
    let mut during = Vec::new();
    for cursor in [0, 1, known / 2, known - 1, known] {
        during.push((cursor, scene.client.watch(&run_id, cursor).await));
    }
    let beyond = |cursor| {
        let (mut runs, run_id) = (scene.client.runs.clone(), run_id.clone());
        async move { runs.watch_run(WatchRunRequest { run_id, cursor }).await.err().unwrap().code() }
    };
    assert_eq!(beyond(u64::MAX).await, Code::OutOfRange, "during the run");
    scene.waiting.resume();
    let whole = first.to_end().await;
    whole.assert_numbered_from(0);
    assert_passed(&whole, 3);
    let from = |cursor: u64| &whole.events[usize::try_from(cursor).unwrap()..];
    for (cursor, stream) in during {
        assert_eq!(stream.to_end().await.events, from(cursor), "during the run, from {cursor}");
    }
    let last = whole.events.len() as u64;
    for cursor in 0..last {
        assert_eq!(scene.client.watch(&run_id, cursor).await.to_end().await.events, from(cursor), "from {cursor}");
    }
    assert_eq!(beyond(last + 1).await, Code::OutOfRange, "after its end");
    assert_eq!(scene.client.get_run(&run_id, 0).await.next_sequence, last);
    assert!(!whole.output(Stream::Stdout).is_empty(), "cursors of output have no gap either");
}

#[tokio::test]
async fn waiting_for_a_run_ends_with_it_or_with_patience() {
    let scene = Scene::new().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let asked = Instant::now();
    assert_eq!(scene.client.get_run(&run_id, 200).await.state(), RunState::Running);
    assert!(asked.elapsed() >= Duration::from_millis(200));
    let waiting = tokio::spawn({
        let (client, run_id) = (scene.client.clone(), run_id.clone());
        async move { client.get_run(&run_id, 60_000).await }
    });
    scene.waiting.resume();
    let ended = waiting.await.unwrap();
    assert_eq!((ended.state(), ended.report.unwrap().outcome()), (RunState::Finished, Outcome::Passed));
}

#[tokio::test]
async fn a_lost_client_does_not_lose_the_run() {
    let scene = Scene::new().await;
    let mut lost = scene.client.start(scene.request()).await.unwrap();
    let run_id = lost.wait_for_test("TestWaits").await;
    drop(lost);
    assert_eq!(scene.client.get_run(&run_id, 0).await.state(), RunState::Running);
    let again = scene.supervisor.client("alpha").await.start(scene.request()).await.unwrap();
    scene.waiting.resume();
    let again = again.to_end().await;
    assert_eq!(again.run_id, run_id, "who comes again with the same request finds it");
    assert_passed(&again, 3);
}

#[tokio::test]
async fn a_run_that_nobody_watches_ends_after_half_a_minute() {
    let scene = Scene::new().await;
    let mut lost = scene.client.start(scene.request()).await.unwrap();
    let run_id = lost.wait_for_test("TestWaits").await;
    drop(lost);
    let dropped = Instant::now();
    // Asking how it is does not keep it alive.
    let ended =
        scene.client.until_session(&scene.session, "it is given up", |session| session.running_run_id.is_empty());
    ended.await;
    let after = dropped.elapsed();
    assert!((Duration::from_secs(25)..Duration::from_secs(120)).contains(&after), "{after:?}");
    let report = scene.client.get_run(&run_id, 0).await.report.unwrap();
    assert_eq!((report.outcome(), report.partial), (Outcome::Cancelled, true));
    assert_eq!(report.evidence.unwrap().killed, "abandoned");
}
