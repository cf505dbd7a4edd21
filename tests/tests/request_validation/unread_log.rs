//! A supervisor whose log nobody reads, or that cannot be written: calls, revocation and the end are as ever. Must not know how
//! lines get to a log.

use nix::sys::signal::Signal;
use proctor_proto::v1::ListSessionsRequest;
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, signal};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::io::Read;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// What a pipe holds.
const PIPE: usize = 64 * 1024;

async fn list(client: &Client) -> Result<(), Status> {
    client.sessions.clone().list_sessions(ListSessionsRequest::default()).await.map(drop)
}

// Much is said of each call.
fn talkative() -> SupervisorProcess {
    let env = vec![("PROCTOR_LOG".to_owned(), "debug".into())];
    SupervisorProcess::with(&SupervisorSettings { env, ..SupervisorSettings::default() })
}

// More is said than the pipe holds, and everything goes on.
async fn goes_on(supervisor: &SupervisorProcess) {
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
        supervisor.rewrite(|text| text.replace(&old, &new));
        signal(supervisor.pid(), Signal::SIGHUP);
        let until = Instant::now() + WAIT_MAX;
        while list(&beta).await.is_err() != revoked {
            assert!(Instant::now() < until, "the host file is not read anew");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    list(&alpha).await.unwrap();
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_nobody_up() {
    let mut supervisor = talkative();
    supervisor.stop_reading();
    goes_on(&supervisor).await;
    let mut unread = supervisor.unread();
    assert_eq!(supervisor.end(Signal::SIGTERM).status, 0);
    let mut text = Vec::new();
    unread.read_to_end(&mut text).unwrap();
    assert!(text.len() > PIPE * 9 / 10, "the pipe was full, and not with {} bytes", text.len());
}

#[tokio::test]
async fn a_log_whose_reader_has_gone_is_no_failure() {
    let mut supervisor = talkative();
    supervisor.stop_reading();
    list(&supervisor.client("alpha").await).await.unwrap();
    drop(supervisor.unread());
    goes_on(&supervisor).await;
    assert_eq!(supervisor.end(Signal::SIGTERM).status, 0);
}
