//! Watching runs: from any event, after losing the stream, and by waiting for the end.

use crate::{PausedSession, assert_passed};
use proctor_proto::v1::{Outcome, RunState, Stream, WatchRunRequest};
use tonic::Code;

#[tokio::test]
async fn watches_from_any_cursor_without_gap_or_duplicate() {
    let setup = PausedSession::new().await;
    let mut first = setup.client.start(setup.request()).await.unwrap();
    let run_id = first.wait_for_test("TestWaits").await;
    let known = first.received.len() as u64;
    let mut during = Vec::new();
    for cursor in [0, 1, known / 2, known - 1, known] {
        during.push((cursor, setup.client.watch(&run_id, cursor).await));
    }
    let beyond = |cursor| {
        let (mut runs, run_id) = (setup.client.runs.clone(), run_id.clone());
        async move { runs.watch_run(WatchRunRequest { run_id, cursor }).await.err().unwrap().code() }
    };
    assert_eq!(beyond(u64::MAX).await, Code::OutOfRange, "during the run");
    setup.paused.resume();
    let whole = first.read_to_end().await;
    whole.assert_numbered_from(0);
    assert_passed(&whole, 3);
    let from = |cursor: u64| &whole.events[usize::try_from(cursor).unwrap()..];
    for (cursor, stream) in during {
        assert_eq!(stream.read_to_end().await.events, from(cursor), "during the run, from {cursor}");
    }
    let last = whole.events.len() as u64;
    for cursor in 0..last {
        assert_eq!(setup.client.watch(&run_id, cursor).await.read_to_end().await.events, from(cursor), "from {cursor}");
    }
    assert_eq!(beyond(last + 1).await, Code::OutOfRange, "after its end");
    assert_eq!(setup.client.get_run(&run_id, 0).await.next_sequence, last);
    assert!(!whole.output(Stream::Stdout).is_empty(), "the output has no gap");
}

#[tokio::test]
async fn get_run_waits_for_the_end_or_its_wait_time() {
    let setup = PausedSession::new().await;
    let mut run = setup.client.start(setup.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    assert_eq!(setup.client.get_run(&run_id, 200).await.state(), RunState::Running, "its wait time is over");
    let waiting = tokio::spawn({
        let (client, run_id) = (setup.client.clone(), run_id.clone());
        async move { client.get_run(&run_id, 60_000).await }
    });
    setup.paused.resume();
    let ended = waiting.await.unwrap();
    assert_eq!((ended.state(), ended.report.unwrap().outcome()), (RunState::Finished, Outcome::Passed));
}

#[tokio::test]
async fn identical_request_finds_the_run_of_a_lost_client() {
    let setup = PausedSession::new().await;
    let mut lost = setup.client.start(setup.request()).await.unwrap();
    let run_id = lost.wait_for_test("TestWaits").await;
    drop(lost);
    assert_eq!(setup.client.get_run(&run_id, 0).await.state(), RunState::Running);
    let again = setup.supervisor.client("alpha").await.start(setup.request()).await.unwrap();
    setup.paused.resume();
    let again = again.read_to_end().await;
    assert_eq!(again.run_id, run_id, "the identical request attaches");
    assert_passed(&again, 3);
}

#[tokio::test]
async fn abandons_a_run_without_watchers() {
    let setup = PausedSession::new().await;
    let mut lost = setup.client.start(setup.request()).await.unwrap();
    let run_id = lost.wait_for_test("TestWaits").await;
    drop(lost);
    // Status queries do not keep the run alive.
    let ended = setup
        .client
        .wait_for_session(&setup.session, "the run is abandoned", |session| session.running_run_id.is_empty());
    ended.await;
    let report = setup.client.get_run(&run_id, 0).await.report.unwrap();
    assert_eq!((report.outcome(), report.partial), (Outcome::Cancelled, true));
    assert_eq!(report.evidence.unwrap().killed, "abandoned");
}
