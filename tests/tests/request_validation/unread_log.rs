//! A supervisor whose log pipe is full or closed: calls, revocation and shutdown still work.

use nix::sys::signal::Signal;
use proctor_proto::v1::ListSessionsRequest;
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, signal};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::io::Read;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// Capacity of a pipe in bytes.
const PIPE_BYTES: usize = 64 * 1024;

async fn list(client: &Client) -> Result<(), Status> {
    client.sessions.clone().list_sessions(ListSessionsRequest::default()).await.map(drop)
}

// A supervisor that logs much about each call.
fn start_with_debug_log() -> SupervisorProcess {
    let env = vec![("PROCTOR_LOG".to_owned(), "debug".into())];
    SupervisorProcess::with_settings(&SupervisorSettings { env, ..SupervisorSettings::default() })
}

// Makes the supervisor log more than the pipe holds, and checks that calls and reloads still work.
async fn assert_calls_and_reloads_work(supervisor: &SupervisorProcess) {
    let (stranger, alpha, beta) =
        (supervisor.client("stranger").await, supervisor.client("alpha").await, supervisor.client("beta").await);
    for _ in 0..500 {
        let refused = tokio::time::timeout(WAIT_MAX, list(&stranger)).await.unwrap();
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }
    list(&alpha).await.unwrap();
    for revoked in [true, false, true] {
        let hash = blake3::hash(proctor_tests::supervisor_process::token("beta").as_bytes()).to_string();
        let (old, new) = if revoked { (hash.clone(), "0".repeat(64)) } else { ("0".repeat(64), hash) };
        supervisor.rewrite_host_file(|text| text.replace(&old, &new));
        signal(supervisor.pid(), Signal::SIGHUP);
        let until = Instant::now() + WAIT_MAX;
        while list(&beta).await.is_err() != revoked {
            assert!(Instant::now() < until, "the host file is not reloaded");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    list(&alpha).await.unwrap();
}

#[tokio::test]
async fn unread_log_blocks_no_call() {
    let mut supervisor = start_with_debug_log();
    supervisor.stop_reading_stderr();
    assert_calls_and_reloads_work(&supervisor).await;
    let mut unread = supervisor.take_stderr();
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
    let mut text = Vec::new();
    unread.read_to_end(&mut text).unwrap();
    assert!(text.len() > PIPE_BYTES * 9 / 10, "the pipe was not full: {} bytes", text.len());
}

#[tokio::test]
async fn closed_log_pipe_is_harmless() {
    let mut supervisor = start_with_debug_log();
    supervisor.stop_reading_stderr();
    list(&supervisor.client("alpha").await).await.unwrap();
    drop(supervisor.take_stderr());
    assert_calls_and_reloads_work(&supervisor).await;
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
}
