//! Requests during a run: they attach, queue, or are refused.

use crate::{PausedSession, assert_passed};
use proctor_proto::reason;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{CancelRunRequest, IfBusy, Outcome, Queued, RunTestsRequest};
use proctor_tests::grpc_client::CompletedRun;
use proctor_tests::supervisor_process::SupervisorProcess;
use tonic::Code;
use tonic_types::StatusExt;

fn queued_events(followed: &CompletedRun) -> Vec<Queued> {
    let events = followed.events.iter().filter_map(|event| match &event.event {
        Some(Event::Queued(queued)) => Some(*queued),
        _ => None,
    });
    events.collect()
}

#[tokio::test]
async fn identical_request_attaches_and_gets_all_events() {
    let setup = PausedSession::new().await;
    let mut first = setup.client.start(setup.request()).await.unwrap();
    let run_id = first.wait_for_test("TestWaits").await;
    let refusing = RunTestsRequest { if_busy: IfBusy::Refuse.into(), ..setup.request() };
    let second = setup.client.start(setup.request()).await.unwrap();
    let third = setup.supervisor.local_client().await.start(refusing).await.unwrap();
    setup.paused.resume();
    let first = first.read_to_end().await;
    assert_passed(&first, 3);
    for attached in [second.read_to_end().await, third.read_to_end().await] {
        assert_eq!(attached.run_id, run_id);
        let queued = queued_events(&attached)[0];
        assert!(queued.attached && queued.position == 0, "{queued:?}");
        assert_eq!(attached.events[1..], first.events[1..], "equal from the second event on");
    }
    assert!(!queued_events(&first)[0].attached);
}

/// Agents retry after their own timeout, while the suite still runs. Build output is not an edit of the workspace.
#[tokio::test]
async fn build_output_in_the_workspace_does_not_prevent_attaching() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    for (fixture, output_dir) in [("maven/hang", "target"), ("gradle/hang", "build")] {
        let workspace = supervisor.workspace("alpha", output_dir, fixture);
        let session_id = client.open_session(&workspace).await;
        let request = RunTestsRequest { session_id, if_busy: IfBusy::Refuse.into(), ..Default::default() };
        let mut first = client.start(request.clone()).await.unwrap();
        let run_id = first.wait_for_event("a test", |event| matches!(event, Event::TestFinished(_))).await.run_id;
        assert!(workspace.join(output_dir).is_dir(), "{fixture}");
        let mut second = client.start(request).await.unwrap();
        let attached = second.wait_for_event("queueing", |event| matches!(event, Event::Queued(_))).await;
        assert_eq!(attached.run_id, run_id, "{fixture}");
        client.runs.clone().cancel_run(CancelRunRequest { run_id }).await.unwrap();
        assert_eq!(first.read_to_end().await.report().outcome(), Outcome::Cancelled, "{fixture}");
    }
}

#[tokio::test]
async fn changed_workspace_or_request_queues_behind_the_run() {
    let setup = PausedSession::new().await;
    let mut first = setup.client.start(setup.request()).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let other = RunTestsRequest { filter: "TestEnds".to_owned(), ..setup.request() };
    let other = setup.client.start(other).await.unwrap();
    setup.paused.change();
    let changed = setup.client.start(setup.request()).await.unwrap();
    let session =
        setup.client.wait_for_session(&setup.session, "two runs are queued", |session| session.queued_runs == 2).await;
    assert_eq!(session.running_run_id, first.received[0].run_id);

    let refusing = RunTestsRequest { if_busy: IfBusy::Refuse.into(), ..setup.request() };
    let Err(refused) = setup.client.start(refusing).await else { panic!("the run started") };
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.get_details_error_info().unwrap().reason, reason::BUSY);

    setup.paused.resume();
    let (first, other, changed) = (first.read_to_end().await, other.read_to_end().await, changed.read_to_end().await);
    assert_passed(&first, 3);
    assert_passed(&other, 1);
    assert_passed(&changed, 3);
    assert!(first.run_id != other.run_id && other.run_id != changed.run_id);
    let positions = |followed: &CompletedRun| queued_events(followed).iter().map(|at| at.position).collect::<Vec<_>>();
    assert_eq!(positions(&first), [0]);
    assert_eq!(positions(&other)[0], 1);
    assert_eq!(positions(&changed)[..2], [2, 1]);
    assert!(changed.report().resources.as_ref().unwrap().queue_wait_s > 0.0);
}

#[tokio::test]
async fn ninth_queued_run_is_refused_with_quota_and_retry_delay() {
    let setup = PausedSession::new().await;
    let mut first = setup.client.start(setup.request()).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let mut queued = Vec::new();
    for number in 0..8 {
        let filter = format!("TestEnds|Test{number}");
        queued.push(setup.client.start(RunTestsRequest { filter, ..setup.request() }).await.unwrap());
    }
    let one_more = RunTestsRequest { filter: "TestLast".to_owned(), ..setup.request() };
    let Err(refused) = setup.client.start(one_more).await else { panic!("the run started") };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(refused.get_details_error_info().unwrap().metadata["quota"], "session_queued_runs");
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());
    assert_eq!(refused.get_details_quota_failure().unwrap().violations[0].subject, "session_queued_runs");
    setup.paused.resume();
    for run in queued {
        assert_passed(&run.read_to_end().await, 1);
    }
}

/// Invariant 4: the actor never waits for a run.
#[tokio::test]
async fn answers_every_query_during_a_run() {
    use proctor_proto::v1::{self, GetReportRequest, ListSessionsRequest, ReadOutputRequest, TestsCoveringRequest};
    let setup = PausedSession::new().await;
    let only = RunTestsRequest { filter: "TestEnds".to_owned(), ..setup.request() };
    let before = setup.client.start(only).await.unwrap().read_to_end().await;
    let mut run = setup.client.start(setup.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let session_id = setup.session.clone();

    // The test is paused until `resume`, so no answer can have waited for the run.
    let client = setup.client.clone();
    let session =
        client.wait_for_session(&session_id, "the run is running", |session| !session.running_run_id.is_empty()).await;
    assert_eq!((session.running_run_id, session.last_run_id), (run_id.clone(), before.run_id.clone()));
    let sessions = client.sessions.clone().list_sessions(ListSessionsRequest::default()).await.unwrap();
    assert_eq!(sessions.into_inner().sessions.len(), 1);
    let failures = client.failures(&session_id).await;
    assert_eq!(failures.run_id, before.run_id, "the failures are those of the previous run");
    let covering =
        TestsCoveringRequest { session_id: session_id.clone(), file: "x.go".to_owned(), ..Default::default() };
    client.results.clone().tests_covering(covering).await.unwrap();
    let report = GetReportRequest { session_id: session_id.clone(), ..GetReportRequest::default() };
    let report = client.results.clone().get_report(report).await.unwrap().into_inner();
    assert_eq!(report.run_id, before.run_id);
    assert_eq!(client.get_run(&run_id, 0).await.state(), v1::RunState::Running);
    let stdout = v1::Stream::Stdout.into();
    let output = ReadOutputRequest { run_id: run_id.clone(), stream: stdout, cursor: 0, max_bytes: 0 };
    let output = client.runs.clone().read_output(output).await.unwrap().into_inner();
    assert!(!output.bytes.is_empty() && !output.end);

    setup.paused.resume();
    assert_passed(&run.read_to_end().await, 3);
}
