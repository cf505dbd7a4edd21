//! Graceful shutdown of a busy supervisor by an operator and a service manager: accepted runs may finish, new work is
//! refused, and nothing is left.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use proctor_proto::v1::{self, DrainRequest, ListRunsRequest, ListTenantsRequest, Outcome, RunTestsRequest};
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{supervisor_cgroups, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

const SESSIONS: usize = 1_000;

/// A deadline longer than any test, so that only an explicit request ends the drain.
const LONG_MS: u64 = 600_000;

fn drain(client: &Client, deadline_ms: u64) -> tokio::task::JoinHandle<v1::DrainResponse> {
    let mut host = client.host.clone();
    let request = DrainRequest { deadline_ms: Some(deadline_ms) };
    tokio::spawn(async move { host.drain(request).await.unwrap().into_inner() })
}

async fn health(client: &Client, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(client.channel.clone()).check(request).await.unwrap().into_inner().status()
}

fn assert_draining(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drains_a_thousand_sessions_and_running_runs() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("notify");
    let notify_socket = UnixDatagram::bind(&socket).unwrap();
    notify_socket.set_nonblocking(true).unwrap();
    let mut supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
        host: "memory = \"8GiB\"\ncpus = 8".to_owned(),
        tenant: format!("sessions_max = {}", SESSIONS + 3),
        env: vec![("NOTIFY_SOCKET".to_owned(), socket.into()), ("WATCHDOG_USEC".to_owned(), "300000".into())],
        ..SupervisorSettings::default()
    });
    let mut received = String::new();
    let mut wait_for_notification = |what: &str| {
        wait_until(what, || {
            let mut bytes = [0; 512];
            while let Ok(len) = notify_socket.recv(&mut bytes) {
                received += &String::from_utf8_lossy(&bytes[..len]);
                received.push('\n');
            }
            received.lines().any(|line| line == what)
        });
    };
    wait_for_notification("READY=1");
    wait_for_notification("WATCHDOG=1");

    let (client, operator) = (supervisor.client("alpha").await, supervisor.client("operator").await);
    let shop = supervisor.workspace("alpha", "shop", "go/pass");
    let mut opening = JoinSet::new();
    for _ in 0..SESSIONS {
        let (client, shop) = (client.clone(), shop.clone());
        opening.spawn(async move { client.open_separate_session(&shop).await });
    }
    let sessions = opening.join_all().await;
    let mut runs = Vec::new();
    for name in ["ends", "stays", "waits"] {
        let paused = supervisor.paused_test("alpha", name);
        let session_id = client.open_session(&paused.workspace).await;
        let mut run = client.start(RunTestsRequest { session_id, ..Default::default() }).await.unwrap();
        run.wait_for_test("TestWaits").await;
        runs.push((paused, run));
    }

    let tenants = operator.host.clone().list_tenants(ListTenantsRequest {}).await.unwrap().into_inner().tenants;
    let seen: Vec<_> =
        tenants.iter().map(|t| (t.tenant_id.as_str(), t.sessions, t.runs_running, t.runs_queued)).collect();
    assert_eq!(seen, [("alpha", SESSIONS as u64 + 3, 3, 0), ("beta", 0, 0, 0)]);
    let (mut listed, mut page_token) = (Vec::new(), String::new());
    loop {
        let page = operator.host.clone().list_runs(ListRunsRequest { page_size: 2, page_token }).await.unwrap();
        let page = page.into_inner();
        listed.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed.len(), 3);
    assert!(listed.is_sorted_by(|one, other| one.run_id < other.run_id), "{listed:?}");
    for run in &listed {
        assert_eq!((run.tenant_id.as_str(), run.state()), ("alpha", v1::RunState::Running), "{run:?}");
        assert!(run.run_id.starts_with(&run.session_id), "{run:?}");
    }

    let draining = drain(&operator, LONG_MS);
    wait_until("the supervisor drains", || supervisor.log().contains("draining"));
    assert_draining(&client.try_open_session(&shop, true).await.unwrap_err());
    let session_id = sessions[0].clone();
    assert_draining(&client.start(RunTestsRequest { session_id, ..Default::default() }).await.err().unwrap());
    for service in ["", "proctor.v1.Runs", "proctor.v1.Sessions"] {
        // Another task sets the health after the log line is written.
        while health(&client, service).await != ServingStatus::NotServing {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    wait_for_notification("STOPPING=1");
    wait_for_notification("EXTEND_TIMEOUT_USEC=30000000");
    let mut runs = runs.into_iter();
    let (paused, run) = runs.next().unwrap();
    paused.resume();
    assert_eq!(run.read_to_end().await.report().outcome(), Outcome::Passed, "the run was allowed to finish");
    assert!(!draining.is_finished());

    // A second call shortens the deadline of both.
    let at_once = drain(&operator, 0);
    for (_, run) in runs {
        assert_eq!(run.read_to_end().await.report().outcome(), Outcome::Cancelled);
    }
    let expected = v1::DrainResponse { runs_finished: 1, runs_cancelled: 2 };
    assert_eq!((draining.await.unwrap(), at_once.await.unwrap()), (expected, expected));
    let (pid, tmp, path) = (supervisor.pid(), supervisor.tmp(), supervisor.socket());
    assert_eq!(supervisor.wait_for_exit().status, 0);
    assert_eq!(supervisor_cgroups(pid), [""; 0].map(PathBuf::from));
    assert_eq!(std::fs::read_dir(tmp).unwrap().count(), 0);
    assert!(!path.exists());
}
