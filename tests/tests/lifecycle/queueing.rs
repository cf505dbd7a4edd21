//! Requests that come while a run is going on: they attach, wait, or are refused.

use crate::{Scene, assert_passed};
use proctor_proto::reason;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{CancelRunRequest, IfBusy, Outcome, Queued, RunTestsRequest};
use proctor_tests::grpc_client::CompletedRun;
use proctor_tests::supervisor_process::SupervisorProcess;
use tonic::Code;
use tonic_types::StatusExt;

fn queued(followed: &CompletedRun) -> Vec<Queued> {
    let queued = followed.events.iter().filter_map(|event| match &event.event {
        Some(Event::Queued(queued)) => Some(*queued),
        _ => None,
    });
    queued.collect()
}

#[tokio::test]
async fn the_same_request_joins_the_run_in_flight_and_gets_all_its_events() {
    let scene = Scene::new().await;
    let mut first = scene.client.start(scene.request()).await.unwrap();
    let run_id = first.wait_for_test("TestWaits").await;
    let refusing = RunTestsRequest { if_busy: IfBusy::Refuse.into(), ..scene.request() };
    let second = scene.client.start(scene.request()).await.unwrap();
    let third = scene.supervisor.local_client().await.start(refusing).await.unwrap();
    scene.waiting.resume();
    let first = first.to_end().await;
    assert_passed(&first, 3);
    for joined in [second.to_end().await, third.to_end().await] {
        assert_eq!(joined.run_id, run_id);
        let attached = queued(&joined)[0];
        assert!(attached.attached && attached.position == 0, "{attached:?}");
        assert_eq!(joined.events[1..], first.events[1..], "from the second event on there is no difference");
    }
    assert!(!queued(&first)[0].attached);
}

/// As of a client whose timer is shorter than the suite: what was compiled meanwhile is no edit.
#[tokio::test]
async fn the_same_request_joins_a_run_that_builds_in_its_workspace() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    for (fixture, built) in [("maven/hang", "target"), ("gradle/hang", "build")] {
        let workspace = supervisor.workspace("alpha", built, fixture);
        let session_id = client.open(&workspace).await;
        let request = RunTestsRequest { session_id, if_busy: IfBusy::Refuse.into(), ..Default::default() };
        let mut first = client.start(request.clone()).await.unwrap();
        let run_id = first.until("a test", |event| matches!(event, Event::TestFinished(_))).await.run_id;
        assert!(workspace.join(built).is_dir(), "{fixture}");
        let mut second = client.start(request).await.unwrap();
        let joined = second.until("its place", |event| matches!(event, Event::Queued(_))).await;
        assert_eq!(joined.run_id, run_id, "{fixture}");
        client.runs.clone().cancel_run(CancelRunRequest { run_id }).await.unwrap();
        assert_eq!(first.to_end().await.report().outcome(), Outcome::Cancelled, "{fixture}");
    }
}

#[tokio::test]
async fn a_changed_workspace_or_request_waits_behind_the_run() {
    let scene = Scene::new().await;
    let mut first = scene.client.start(scene.request()).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let other = RunTestsRequest { filter: "TestEnds".to_owned(), ..scene.request() };
    let other = scene.client.start(other).await.unwrap();
    scene.waiting.change();
    let changed = scene.client.start(scene.request()).await.unwrap();
    let session = scene.client.until_session(&scene.session, "two wait", |session| session.queued_runs == 2).await;
    assert_eq!(session.running_run_id, first.seen[0].run_id);

    let refusing = RunTestsRequest { if_busy: IfBusy::Refuse.into(), ..scene.request() };
    let Err(refused) = scene.client.start(refusing).await else { panic!("it began") };
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.get_details_error_info().unwrap().reason, reason::BUSY);

    scene.waiting.resume();
    let (first, other, changed) = (first.to_end().await, other.to_end().await, changed.to_end().await);
    assert_passed(&first, 3);
    assert_passed(&other, 1);
    assert_passed(&changed, 3);
    assert!(first.run_id != other.run_id && other.run_id != changed.run_id);
    let positions = |followed: &CompletedRun| queued(followed).iter().map(|at| at.position).collect::<Vec<_>>();
    assert_eq!(positions(&first), [0]);
    assert_eq!(positions(&other)[0], 1);
    assert_eq!(positions(&changed)[..2], [2, 1]);
    assert!(changed.report().resources.as_ref().unwrap().queue_wait_s > 0.0);
}

#[tokio::test]
async fn the_ninth_that_waits_is_told_which_quota_and_when_to_come_again() {
    let scene = Scene::new().await;
    let mut first = scene.client.start(scene.request()).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let mut waiting = Vec::new();
    for number in 0..8 {
        let filter = format!("TestEnds|Test{number}");
        waiting.push(scene.client.start(RunTestsRequest { filter, ..scene.request() }).await.unwrap());
    }
    let one_more = RunTestsRequest { filter: "TestLast".to_owned(), ..scene.request() };
    let Err(refused) = scene.client.start(one_more).await else { panic!("it began") };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(refused.get_details_error_info().unwrap().metadata["quota"], "session_queued_runs");
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());
    assert_eq!(refused.get_details_quota_failure().unwrap().violations[0].subject, "session_queued_runs");
    scene.waiting.resume();
    for run in waiting {
        assert_passed(&run.to_end().await, 1);
    }
}

/// Invariant 4: the actor never waits for a run.
#[tokio::test]
async fn every_question_is_answered_while_a_run_is_going_on() {
    use proctor_proto::v1::{self, GetReportRequest, ListSessionsRequest, ReadOutputRequest, TestsCoveringRequest};
    let scene = Scene::new().await;
    let only = RunTestsRequest { filter: "TestEnds".to_owned(), ..scene.request() };
    let before = scene.client.start(only).await.unwrap().to_end().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let session_id = scene.session.clone();

    // It waits for the gate, so that no answer can have waited for it.
    let client = scene.client.clone();
    let session = client.until_session(&session_id, "it runs", |session| !session.running_run_id.is_empty()).await;
    assert_eq!((session.running_run_id, session.last_run_id), (run_id.clone(), before.run_id.clone()));
    let sessions = client.sessions.clone().list_sessions(ListSessionsRequest::default()).await.unwrap();
    assert_eq!(sessions.into_inner().sessions.len(), 1);
    let failures = client.failures(&session_id).await;
    assert_eq!(failures.run_id, before.run_id, "the failures are still those of the run before");
    let place = TestsCoveringRequest { session_id: session_id.clone(), file: "x.go".to_owned(), line: None, limit: 0 };
    client.results.clone().tests_covering(place).await.unwrap();
    let report = GetReportRequest { session_id: session_id.clone(), ..GetReportRequest::default() };
    let report = client.results.clone().get_report(report).await.unwrap().into_inner();
    assert_eq!(report.run_id, before.run_id);
    assert_eq!(client.get_run(&run_id, 0).await.state(), v1::RunState::Running);
    let stdout = v1::Stream::Stdout.into();
    let output = ReadOutputRequest { run_id: run_id.clone(), stream: stdout, cursor: 0, max_bytes: 0 };
    let output = client.runs.clone().read_output(output).await.unwrap().into_inner();
    assert!(!output.bytes.is_empty() && !output.end);

    scene.waiting.resume();
    assert_passed(&run.to_end().await, 3);
}
