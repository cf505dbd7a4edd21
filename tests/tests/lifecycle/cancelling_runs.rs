//! Ending runs early: by CancelRun, by closing the session, and by signals to the command line.

use crate::{PausedSession, names};
use nix::sys::signal::Signal;
use proctor_proto::v1::{CancelRunRequest, CloseSessionRequest, Outcome, Report, RunState};
use proctor_tests::paused_test::{PausedTest, TESTS};
use proctor_tests::process::{has_written_to_run_log, processes_matching, signal, wait_for_exit, wait_until};
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use tonic::Code;

// The paused test never ends by itself, so its run ends early only because of the request: the report names the reason.
fn assert_cut_off(report: &Report, killed: &str) {
    assert_eq!((report.outcome(), report.exit_code, report.partial), (Outcome::Cancelled, 130, true), "{report:?}");
    let evidence = report.evidence.as_ref().unwrap();
    assert_eq!(evidence.killed, killed);
    assert_eq!(names(&evidence.running), [TESTS[1]]);
    assert_eq!(report.tests[0].nodeid, TESTS[0], "finished tests are kept");
}

#[tokio::test]
async fn cancelled_run_keeps_its_partial_results() {
    let setup = PausedSession::new().await;
    let mut run = setup.client.start(setup.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let cancel = || {
        let mut runs = setup.client.runs.clone();
        let request = CancelRunRequest { run_id: run_id.clone() };
        async move { runs.cancel_run(request).await.unwrap() }
    };
    cancel().await;
    let ended = run.read_to_end().await;
    assert_cut_off(ended.report(), "cancelled");
    cancel().await;
    let after = setup.client.get_run(&run_id, 0).await;
    assert_eq!(
        (after.state(), after.report.as_ref()),
        (RunState::Finished, Some(ended.report())),
        "a second cancel changes nothing"
    );
    assert_eq!(setup.client.failures(&setup.session).await.outcome(), Outcome::Cancelled);
}

#[tokio::test]
async fn cancels_a_queued_run() {
    let setup = PausedSession::new().await;
    let mut first = setup.client.start(setup.request()).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let other = proctor_proto::v1::RunTestsRequest { filter: "TestLast".to_owned(), ..setup.request() };
    let mut second = setup.client.start(other).await.unwrap();
    let queued =
        second.wait_for_event("queued", |event| matches!(event, proctor_proto::v1::run_event::Event::Queued(_))).await;
    setup.client.runs.clone().cancel_run(CancelRunRequest { run_id: queued.run_id }).await.unwrap();
    assert_eq!(second.read_to_end().await.report().outcome(), Outcome::Cancelled);
    setup.paused.resume();
    assert_eq!(first.read_to_end().await.report().outcome(), Outcome::Passed, "the running run is not affected");
}

#[tokio::test]
async fn closing_a_session_kills_its_run_and_forgets_it() {
    let setup = PausedSession::new().await;
    let mut run = setup.client.start(setup.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let request = CloseSessionRequest { session_id: setup.session.clone() };
    setup.client.sessions.clone().close_session(request).await.unwrap();
    let mark = setup.paused.workspace.to_str().unwrap();
    assert_eq!(processes_matching(mark), [], "no process is alive when the call returns");
    assert_cut_off(run.read_to_end().await.report(), "closed");
    let request = proctor_proto::v1::GetSessionRequest { session_id: setup.session.clone() };
    let gone = setup.client.sessions.clone().get_session(request).await.unwrap_err();
    let request = proctor_proto::v1::GetRunRequest { run_id, wait_ms: 0 };
    let forgotten = setup.client.runs.clone().get_run(request).await.unwrap_err();
    assert_eq!((gone.code(), forgotten.code()), (Code::PermissionDenied, Code::PermissionDenied));
}

#[test]
fn ctrl_c_prints_the_partial_report() {
    for stop in [Signal::SIGINT, Signal::SIGTERM] {
        let workspace = TestWorkspace::empty();
        let paused = PausedTest::at(&workspace.path);
        let child = workspace.command("proctor").args(["run", "--output", "json"]).spawn().unwrap();
        let pid = child.id();
        wait_until("the log shows the test", || has_written_to_run_log(pid, "=== RUN   TestWaits"));
        paused.wait_until_paused();
        let before = Baseline::capture(&workspace);
        signal(pid, stop);
        let output = wait_for_exit(child);
        assert_eq!(output.status, 130, "{output:?}");
        let report = output.json();
        assert_eq!((report["outcome"].as_str(), report["partial"].as_bool()), (Some("cancelled"), Some(true)));
        assert_eq!(report["evidence"]["running"][0]["name"], "TestWaits");
        assert_eq!(report["tests"][0]["nodeid"], TESTS[0]);
        before.assert_nothing_is_left(&workspace, pid);
        let failures = workspace.proctor(&["failures"]);
        let wanted = "last run did not pass: cancelled (1 passed, 0 failed, running: example.com/waiting/TestWaits)\n";
        assert_eq!(failures.stdout, wanted);
    }
}
