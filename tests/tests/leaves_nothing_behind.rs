//! What is left when programs are ended in the middle of a run, kindly or not: no process, no mount, no file, and after a
//! clean end no cgroup. That every run that ends by itself leaves nothing is asserted where the table is driven.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

#[path = "outcome_table/mcp_client.rs"]
#[expect(dead_code, reason = "a shim that is asked little needs a part of it")]
mod mcp_client;

use mcp_client::Mcp;
use nix::sys::signal::Signal;
use proctor_proto::v1::{CloseSessionRequest, ListSessionsRequest};
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

fn none_is_alive(family: &BTreeSet<Process>) {
    assert!(family.len() >= 3, "worker, init and runner at least: {family:?}");
    wait_until("all are dead", || !family.iter().any(Process::is_alive));
}

fn no_cgroups(pid: u32) {
    assert_eq!(supervisor_cgroups(pid), [""; 0].map(PathBuf::from));
}

fn no_mounts(supervisor: &SupervisorProcess) {
    wait_until("no mount is left", || proctor_mounts(supervisor.dir().to_str().unwrap()).is_empty());
}

fn no_files(tmp: &Path) {
    let left: Vec<PathBuf> = std::fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [""; 0].map(PathBuf::from));
}

/// A `proctor run` in the middle of its run.
fn in_mid_run(place: &TestWorkspace) -> (std::process::Child, PausedTest) {
    let waiting = PausedTest::at(&place.workspace);
    let child = place.command("proctor").args(["run", "--output", "json"]).spawn().unwrap();
    waiting.wait_until_paused();
    (child, waiting)
}

#[test]
fn a_command_line_that_is_killed_takes_its_run_along() {
    let place = TestWorkspace::empty();
    let (child, waiting) = in_mid_run(&place);
    let (pid, before) = (child.id(), Baseline::capture(&place));
    let family = descendants(pid);
    assert!(!supervisor_cgroups(pid).is_empty(), "there is something to leave");
    signal(pid, Signal::SIGKILL);
    assert_eq!(wait_for_exit(child).status, -1);
    none_is_alive(&family);
    assert_eq!(processes_matching(place.root().to_str().unwrap()), []);
    before.assert_files(&place);

    // The groups of a dead supervisor are swept by the next one, which must not be disturbed by them either.
    waiting.resume();
    let next = place.proctor(&["run", "--output", "json"]);
    assert_eq!(next.status, 0, "{next:?}");
    no_cgroups(pid);
}

#[test]
fn a_worker_that_is_killed_is_evidence() {
    let place = TestWorkspace::empty();
    let (child, _) = in_mid_run(&place);
    let pid = child.id();
    wait_until("the test is in the log", || has_written_to_run_log(pid, "=== RUN   TestWaits"));
    let (family, before) = (descendants(pid), Baseline::capture(&place));
    let worker = family.iter().find(|process| process.line.contains("proctor-worker")).unwrap();
    signal(worker.pid, Signal::SIGKILL);
    let said = wait_for_exit(child);
    assert_eq!((said.status, said.json()["outcome"].as_str()), (5, Some("worker_lost")), "{said:?}");
    let report = said.json();
    assert_eq!(report["tests"].as_array().unwrap().len(), 1, "what had finished is kept, and nothing else is known");
    assert_eq!(report["tests"][0]["name"], "TestEnds");
    assert_eq!(report["evidence"]["running"][0]["name"], "TestWaits");
    assert!(report["evidence"]["notes"].to_string().contains("can be asked for again"), "{report}");
    none_is_alive(&family);
    before.assert_nothing_is_left(&place, pid);
}

#[tokio::test]
async fn a_supervisor_that_is_killed_takes_all_runs_along() {
    let mut supervisor = SupervisorProcess::start();
    let mut runs = Vec::new();
    for tenant in ["alpha", "beta"] {
        let waiting = supervisor.paused_test(tenant, "waiting");
        let client = supervisor.client(tenant).await;
        let session = client.open(&waiting.workspace).await;
        let request = proctor_proto::v1::RunTestsRequest { session_id: session, ..Default::default() };
        let mut run = client.start(request).await.unwrap();
        run.wait_for_test("TestWaits").await;
        runs.push((run, client, waiting));
    }
    let (pid, family) = (supervisor.pid(), descendants(supervisor.pid()));
    let waits = family.iter().filter(|process| process.line.contains("waiting.test")).count();
    assert!(waits >= 2, "both tenants' tests run: {family:?}");
    _ = supervisor.end(Signal::SIGKILL);
    none_is_alive(&family);
    no_files(&supervisor.tmp());
    no_mounts(&supervisor);
    for (run, _, _) in runs {
        assert!(run.try_to_end().await.is_err(), "its clients are told");
    }

    // A restart finds the socket of the dead one and takes its place; nothing of the old runs is left.
    let mut next = SupervisorProcess::start();
    let client = next.client("alpha").await;
    let session = client.open(&next.workspace("alpha", "shop", "go/pass")).await;
    client.run(&session).await;
    no_cgroups(pid);
    let pid = next.pid();
    assert_eq!(next.end(Signal::SIGTERM).status, 0);
    no_cgroups(pid);
    no_files(&next.tmp());
}

#[tokio::test]
async fn a_supervisor_that_ends_leaves_nothing_of_all_its_runs() {
    let mut supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    for (name, fixture) in [("orphan", "go/orphan"), ("panic", "go/panic"), ("builderror", "go/builderror")] {
        let workspace = supervisor.workspace("alpha", name, fixture);
        let before = proctor_tests::test_workspace::tree(&workspace);
        let session = client.open(&workspace).await;
        client.run(&session).await;
        wait_until("no process of the run is alive", || processes_matching(workspace.to_str().unwrap()).is_empty());
        // Until then a worker waits in its leaf for the session's next run.
        let close = CloseSessionRequest { session_id: session };
        client.sessions.clone().close_session(close).await.unwrap();
        wait_until("its groups are gone", || supervisor_cgroups(supervisor.pid()).is_empty());
        assert!(proctor_tests::test_workspace::tree(&workspace) == before, "{name}: the workspace has changed");
        no_files(&supervisor.tmp());
    }
    let (pid, family) = (supervisor.pid(), descendants(supervisor.pid()));
    assert_eq!(supervisor.end(Signal::SIGTERM).status, 0);
    wait_until("all are dead", || !family.iter().any(Process::is_alive));
    no_cgroups(pid);
    no_files(&supervisor.tmp());
    no_mounts(&supervisor);
    assert!(!supervisor.socket().exists());
}

#[test]
fn an_agents_shim_that_is_killed_takes_its_supervisor_and_its_run_along() {
    let place = TestWorkspace::empty();
    let waiting = PausedTest::at(&place.workspace);
    let mut shim = place.command("proctor-mcp");
    shim.arg("--workspace").arg(&place.workspace).stdin(Stdio::piped());
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
    waiting.wait_until_paused();
    let (family, before) = (descendants(shim.id()), Baseline::capture(&place));
    let supervisor = family.iter().find(|process| process.line.contains("--private")).unwrap().pid;
    signal(shim.id(), Signal::SIGKILL);
    _ = wait_for_exit(shim);
    none_is_alive(&family);
    before.assert_nothing_is_left(&place, supervisor);
}

/// A shim that is killed closes nothing, and so lives on in its tenant's quota, but not for long.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_shim_stays_as_long_as_the_shim_and_not_much_longer() {
    let idle = Duration::from_secs(6);
    let supervisor = SupervisorProcess::with(&SupervisorSettings {
        host: "session_idle = \"6s\"".to_owned(),
        ..SupervisorSettings::default()
    });
    let alpha = supervisor.client("alpha").await;
    let sessions = async || {
        alpha.sessions.clone().list_sessions(ListSessionsRequest::default()).await.unwrap().into_inner().sessions.len()
    };
    let mut place = TestWorkspace::empty();
    place.workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let token_file = place.root().join("token");
    std::fs::write(&token_file, token("alpha")).unwrap();
    let mut command = place.command("proctor-mcp");
    command.args(["--supervisor", &format!("http://{}", supervisor.address), "--token-file"]).arg(&token_file);
    let mut mcp = Mcp::started_by(&mut command, &place).await;
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
