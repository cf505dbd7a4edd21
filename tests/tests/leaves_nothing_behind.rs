//! What is left when programs end in the middle of a run, by a signal or by SIGKILL: no process, no mount, no file, and
//! after a clean end no cgroup. The outcome table checks the same for every run that ends by itself.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use nix::sys::signal::Signal;
use proctor_proto::v1::{CloseSessionRequest, ListSessionsRequest};
use proctor_tests::mcp_client::Mcp;
use proctor_tests::paused_test::PausedTest;
use proctor_tests::process::{
    Process, WAIT_MAX, descendants, has_written_to_run_log, processes_matching, proctor_mounts, signal,
    supervisor_cgroups, wait_for_exit, wait_until,
};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, token};
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

fn wait_until_dead(family: &BTreeSet<Process>) {
    assert!(family.len() >= 3, "worker, init and runner at least: {family:?}");
    wait_until("all processes are dead", || !family.iter().any(Process::is_alive));
}

fn assert_no_cgroups(pid: u32) {
    assert_eq!(supervisor_cgroups(pid), [""; 0].map(PathBuf::from));
}

fn wait_until_no_mounts(supervisor: &SupervisorProcess) {
    wait_until("no mount is left", || proctor_mounts(supervisor.dir().to_str().unwrap()).is_empty());
}

fn assert_no_files(tmp: &Path) {
    let left: Vec<PathBuf> = std::fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [""; 0].map(PathBuf::from));
}

/// Starts `proctor run` and waits until its test is paused.
fn start_paused_run(workspace: &TestWorkspace) -> (std::process::Child, PausedTest) {
    let paused = PausedTest::at(&workspace.path);
    let child = workspace.command("proctor").args(["run", "--output", "json"]).spawn().unwrap();
    paused.wait_until_paused();
    (child, paused)
}

#[test]
fn killing_the_command_line_ends_its_run() {
    let workspace = TestWorkspace::empty();
    let (child, paused) = start_paused_run(&workspace);
    let (pid, before) = (child.id(), Baseline::capture(&workspace));
    let family = descendants(pid);
    assert!(!supervisor_cgroups(pid).is_empty(), "the run has cgroups");
    signal(pid, Signal::SIGKILL);
    assert_eq!(wait_for_exit(child).status, -1);
    wait_until_dead(&family);
    assert_eq!(processes_matching(workspace.root().to_str().unwrap()), []);
    before.assert_files(&workspace);

    // The next supervisor removes the cgroups of a dead one and works in spite of them.
    paused.resume();
    let next = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!(next.status, 0, "{next:?}");
    assert_no_cgroups(pid);
}

#[test]
fn reports_a_killed_worker_as_worker_lost() {
    let workspace = TestWorkspace::empty();
    let (child, _) = start_paused_run(&workspace);
    let pid = child.id();
    wait_until("the log shows the test", || has_written_to_run_log(pid, "=== RUN   TestWaits"));
    let (family, before) = (descendants(pid), Baseline::capture(&workspace));
    let worker = family.iter().find(|process| process.command_line.contains("proctor-worker")).unwrap();
    signal(worker.pid, Signal::SIGKILL);
    let output = wait_for_exit(child);
    assert_eq!((output.status, output.json()["outcome"].as_str()), (5, Some("worker_lost")), "{output:?}");
    let report = output.json();
    assert_eq!(report["tests"].as_array().unwrap().len(), 1, "finished tests are kept");
    assert_eq!(report["tests"][0]["name"], "TestEnds");
    assert_eq!(report["evidence"]["running"][0]["name"], "TestWaits");
    assert!(report["evidence"]["notes"].to_string().contains("can be asked for again"), "{report}");
    wait_until_dead(&family);
    before.assert_nothing_is_left(&workspace, pid);
}

#[tokio::test]
async fn killing_the_supervisor_ends_all_runs() {
    let mut supervisor = SupervisorProcess::start();
    let mut runs = Vec::new();
    for tenant in ["alpha", "beta"] {
        let paused = supervisor.paused_test(tenant, "waiting");
        let client = supervisor.client(tenant).await;
        let session = client.open_session(&paused.workspace).await;
        let request = proctor_proto::v1::RunTestsRequest { session_id: session, ..Default::default() };
        let mut run = client.start(request).await.unwrap();
        run.wait_for_test("TestWaits").await;
        runs.push((run, client, paused));
    }
    let (pid, family) = (supervisor.pid(), descendants(supervisor.pid()));
    let waits = family.iter().filter(|process| process.command_line.contains("waiting.test")).count();
    assert!(waits >= 2, "both tenants' tests run: {family:?}");
    _ = supervisor.stop(Signal::SIGKILL);
    wait_until_dead(&family);
    assert_no_files(&supervisor.tmp());
    wait_until_no_mounts(&supervisor);
    for (run, _, _) in runs {
        assert!(run.try_read_to_end().await.is_err(), "clients get an error");
    }

    // A restarted supervisor replaces the socket of the dead one; nothing of the old runs is left.
    let mut next = SupervisorProcess::start();
    let client = next.client("alpha").await;
    let session = client.open_session(&next.workspace("alpha", "shop", "go/pass")).await;
    client.run(&session).await;
    assert_no_cgroups(pid);
    let pid = next.pid();
    assert_eq!(next.stop(Signal::SIGTERM).status, 0);
    assert_no_cgroups(pid);
    assert_no_files(&next.tmp());
}

#[tokio::test]
async fn clean_shutdown_leaves_nothing_of_any_run() {
    let mut supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    for (name, fixture) in [("orphan", "go/orphan"), ("panic", "go/panic"), ("builderror", "go/builderror")] {
        let workspace = supervisor.workspace("alpha", name, fixture);
        let before = proctor_tests::test_workspace::tree(&workspace);
        let session = client.open_session(&workspace).await;
        client.run(&session).await;
        wait_until("no process of the run is alive", || processes_matching(workspace.to_str().unwrap()).is_empty());
        // Closing ends the idle worker that waits in its cgroup for the session's next run.
        let close = CloseSessionRequest { session_id: session };
        client.sessions.clone().close_session(close).await.unwrap();
        wait_until("the cgroups are gone", || supervisor_cgroups(supervisor.pid()).is_empty());
        assert!(proctor_tests::test_workspace::tree(&workspace) == before, "{name}: the workspace has changed");
        assert_no_files(&supervisor.tmp());
    }
    let (pid, family) = (supervisor.pid(), descendants(supervisor.pid()));
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
    wait_until("all processes are dead", || !family.iter().any(Process::is_alive));
    assert_no_cgroups(pid);
    assert_no_files(&supervisor.tmp());
    wait_until_no_mounts(&supervisor);
    assert!(!supervisor.socket().exists());
}

#[test]
fn killing_the_shim_ends_its_supervisor_and_run() {
    let workspace = TestWorkspace::empty();
    let paused = PausedTest::at(&workspace.path);
    let mut shim = workspace.command("proctor-mcp");
    shim.arg("--workspace").arg(&workspace.path).stdin(Stdio::piped());
    let mut shim = shim.spawn().unwrap();
    let hello = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"#,
        r#""clientInfo":{"name":"t","version":"0"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_tests","arguments":{}}}"#,
        "\n",
    );
    let mut input = shim.stdin.take().unwrap();
    input.write_all(hello.as_bytes()).unwrap();
    paused.wait_until_paused();
    let (family, before) = (descendants(shim.id()), Baseline::capture(&workspace));
    let supervisor = family.iter().find(|process| process.command_line.contains("--private")).unwrap().pid;
    signal(shim.id(), Signal::SIGKILL);
    _ = wait_for_exit(shim);
    wait_until_dead(&family);
    before.assert_nothing_is_left(&workspace, supervisor);
}

/// A killed shim does not close its session, so the session must expire soon after.
#[tokio::test(flavor = "multi_thread")]
async fn shim_session_outlives_idle_periods_but_not_the_shim() {
    let idle = Duration::from_secs(6);
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
        host: "session_idle = \"6s\"".to_owned(),
        ..SupervisorSettings::default()
    });
    let alpha = supervisor.client("alpha").await;
    let sessions = async || {
        alpha.sessions.clone().list_sessions(ListSessionsRequest::default()).await.unwrap().into_inner().sessions.len()
    };
    let mut workspace = TestWorkspace::empty();
    workspace.path = supervisor.workspace("alpha", "shop", "go/fail");
    let token_file = workspace.root().join("token");
    std::fs::write(&token_file, token("alpha")).unwrap();
    let mut command = workspace.command("proctor-mcp");
    command.args(["--supervisor", &format!("http://{}", supervisor.address), "--token-file"]).arg(&token_file);
    let mut mcp = Mcp::start_with(&mut command, &workspace).await;
    let failed = mcp.call("run_tests", json!({})).await;
    assert_eq!(failed.structured["outcome"], "failed");
    tokio::time::sleep(idle + idle / 2).await;
    let remembered = mcp.call("last_test_failures", json!({})).await;
    assert!(remembered.structured["failures"].as_array().is_some_and(|all| !all.is_empty()), "{remembered:?}");
    assert_eq!(sessions().await, 1);
    mcp.shim.kill().await.unwrap();
    tokio::time::timeout(WAIT_MAX, async {
        while sessions().await > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
}
