//! Ending runs before their time: by CancelRun, by closing the session, by Ctrl-C at a terminal, by an agent.

use crate::{Scene, names};
use nix::sys::signal::Signal;
use proctor_proto::v1::{CancelRunRequest, CloseSessionRequest, Outcome, Report, RunState};
use proctor_tests::paused_test::{PausedTest, TESTS};
use proctor_tests::process::{has_written_to_run_log, processes_matching, signal, wait_for_exit, wait_until};
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use std::time::{Duration, Instant};
use tonic::Code;

/// Nothing else would end these runs, whose test waits for ever.
const AT_ONCE: Duration = Duration::from_secs(60);

fn assert_cut_off(report: &Report, killed: &str) {
    assert_eq!((report.outcome(), report.exit_code, report.partial), (Outcome::Cancelled, 130, true), "{report:?}");
    let evidence = report.evidence.as_ref().unwrap();
    assert_eq!(evidence.killed, killed);
    assert_eq!(names(&evidence.running), [TESTS[1]]);
    assert_eq!(report.tests[0].nodeid, TESTS[0], "what had finished is kept");
}

#[tokio::test]
async fn a_cancelled_run_ends_at_once_and_keeps_what_it_knows() {
    let scene = Scene::new().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let cancel = || {
        let mut runs = scene.client.runs.clone();
        let request = CancelRunRequest { run_id: run_id.clone() };
        async move { runs.cancel_run(request).await.unwrap() }
    };
    let asked = Instant::now();
    cancel().await;
    let ended = run.to_end().await;
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    assert_cut_off(ended.report(), "cancelled");
    cancel().await;
    let after = scene.client.get_run(&run_id, 0).await;
    assert_eq!((after.state(), after.report.as_ref()), (RunState::Finished, Some(ended.report())), "it stays as it is");
    assert_eq!(scene.client.failures(&scene.session).await.outcome(), Outcome::Cancelled);
}

#[tokio::test]
async fn a_run_that_waits_can_be_cancelled_too() {
    let scene = Scene::new().await;
    let mut first = scene.client.start(scene.request()).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let other = proctor_proto::v1::RunTestsRequest { filter: "TestLast".to_owned(), ..scene.request() };
    let mut second = scene.client.start(other).await.unwrap();
    let queued = second.until("queued", |event| matches!(event, proctor_proto::v1::run_event::Event::Queued(_))).await;
    scene.client.runs.clone().cancel_run(CancelRunRequest { run_id: queued.run_id }).await.unwrap();
    assert_eq!(second.to_end().await.report().outcome(), Outcome::Cancelled);
    scene.waiting.resume();
    assert_eq!(first.to_end().await.report().outcome(), Outcome::Passed, "the one before it is not touched");
}

#[tokio::test]
async fn closing_a_session_kills_its_run_and_forgets_everything() {
    let scene = Scene::new().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    let run_id = run.wait_for_test("TestWaits").await;
    let asked = Instant::now();
    let request = CloseSessionRequest { session_id: scene.session.clone() };
    scene.client.sessions.clone().close_session(request).await.unwrap();
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    let mark = scene.waiting.workspace.to_str().unwrap();
    assert_eq!(processes_matching(mark), [], "nothing of it is alive when the answer comes");
    assert_cut_off(run.to_end().await.report(), "closed");
    let request = proctor_proto::v1::GetSessionRequest { session_id: scene.session.clone() };
    let gone = scene.client.sessions.clone().get_session(request).await.unwrap_err();
    let request = proctor_proto::v1::GetRunRequest { run_id, wait_ms: 0 };
    let forgotten = scene.client.runs.clone().get_run(request).await.unwrap_err();
    assert_eq!((gone.code(), forgotten.code()), (Code::PermissionDenied, Code::PermissionDenied));
}

#[test]
fn ctrl_c_prints_the_partial_report() {
    for stop in [Signal::SIGINT, Signal::SIGTERM] {
        let place = TestWorkspace::empty();
        let waiting = PausedTest::at(&place.workspace);
        let child = place.command("proctor").args(["run", "--output", "json"]).spawn().unwrap();
        let pid = child.id();
        wait_until("the test waits", || has_written_to_run_log(pid, "=== RUN   TestWaits"));
        waiting.wait_until_paused();
        let before = Baseline::capture(&place);
        let sent = Instant::now();
        signal(pid, stop);
        let said = wait_for_exit(child);
        assert!(sent.elapsed() < AT_ONCE, "{:?}", sent.elapsed());
        assert_eq!(said.status, 130, "{said:?}");
        let report = said.json();
        assert_eq!((report["outcome"].as_str(), report["partial"].as_bool()), (Some("cancelled"), Some(true)));
        assert_eq!(report["evidence"]["running"][0]["name"], "TestWaits");
        assert_eq!(report["tests"][0]["nodeid"], TESTS[0]);
        before.assert_nothing_is_left(&place, pid);
        let failures = place.proctor(&["failures"]);
        let wanted = "last run did not pass: cancelled (1 passed, 0 failed, running: example.com/waiting/TestWaits)\n";
        assert_eq!(failures.stdout, wanted);
    }
}
