//! Callers who take what there is for everybody: connections, streams, sessions. What is too much is told so and given back,
//! and the other tenant does not notice. Must not know how good input is carried out.

use crate::{assert_passes, start};
use proctor_proto::v1::{Outcome, WatchRunRequest};
use proctor_tests::process::wait_until;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;
use tonic_types::StatusExt;

/// Streams that nobody reads, in all and at the same time.
const STREAMS: usize = 2_000;
const AT_ONCE: usize = 50;

/// Peers that say nothing, or half of what they have to.
const PEERS: usize = 500;

fn descriptors(supervisor: &SupervisorProcess) -> usize {
    fs::read_dir(format!("/proc/{}/fd", supervisor.pid())).unwrap().count()
}

#[tokio::test]
async fn streams_that_end_as_they_begin_are_given_back() {
    let supervisor = SupervisorProcess::start();
    let (client, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session_id = client.open(&supervisor.empty_workspace("alpha", "shop")).await;
    let others = other.open(&supervisor.empty_workspace("beta", "shop")).await;
    let mut run = start(&client, &session_id, &["/bin/sleep", "600"]).await;
    let run_id = run.next().await.unwrap().unwrap().run_id.clone();
    for _ in 0..STREAMS / AT_ONCE {
        let mut watching = JoinSet::new();
        for cursor in 0..AT_ONCE {
            let (mut runs, run_id) = (client.runs.clone(), run_id.clone());
            // Some are dropped before their answer, some after it.
            watching.spawn(async move {
                let watch = runs.watch_run(WatchRunRequest { run_id, cursor: 0 });
                if cursor % 2 == 0 {
                    _ = watch.await;
                } else {
                    _ = tokio::time::timeout(std::time::Duration::from_micros(200), watch).await;
                }
            });
        }
        watching.join_all().await;
        assert_passes(&other, &others).await;
    }
    // Whoever is still counted would be in the way of these.
    let mut watchers = Vec::new();
    for _ in 0..AT_ONCE {
        watchers.push(client.watch(&run_id, 0).await);
    }
    client.sessions.clone().close_session(proctor_proto::v1::CloseSessionRequest { session_id }).await.unwrap();
    for watcher in watchers {
        assert_eq!(watcher.to_end().await.report().outcome(), Outcome::Cancelled);
    }
}

#[tokio::test]
async fn peers_that_do_not_greet_are_in_nobodys_way() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let session_id = client.open(&supervisor.empty_workspace("beta", "shop")).await;
    assert_passes(&client, &session_id).await;
    let before = descriptors(&supervisor);
    let mut peers = Vec::new();
    for number in 0..PEERS {
        let mut peer = TcpStream::connect(supervisor.address).unwrap();
        peer.write_all(&b"PRI * HTTP/2.0\r\n"[..number % 16]).unwrap();
        peers.push(peer);
    }
    // What the run before left open is closed meanwhile, and the first who came may have to leave.
    wait_until("they are let in", || descriptors(&supervisor) >= before + PEERS * 9 / 10);
    let late = supervisor.client("beta").await;
    assert_passes(&late, &session_id).await;
    // They hold on, and are let go of.
    wait_until("nobody is waited for", || descriptors(&supervisor) <= before + PEERS / 10);
    assert_passes(&client, &session_id).await;
    drop(peers);
}

#[tokio::test]
async fn a_flood_of_sessions_ends_at_the_quota_of_its_tenant() {
    let settings = SupervisorSettings { tenant: "sessions_max = 8".to_owned(), ..SupervisorSettings::default() };
    let supervisor = SupervisorProcess::with(&settings);
    let (client, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.empty_workspace("alpha", "shop");
    let mut asking = JoinSet::new();
    for _ in 0..400 {
        let (client, workspace) = (client.clone(), workspace.clone());
        asking.spawn(async move { client.try_open_session(&workspace, true).await });
    }
    let answers = asking.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 8);
    for status in answers.into_iter().filter_map(Result::err) {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        let quota = status.get_details_error_info().unwrap().metadata["quota"].clone();
        assert_eq!(quota, "sessions_max");
        assert!(status.get_details_retry_info().is_some());
    }
    let session_id = other.open(&supervisor.empty_workspace("beta", "shop")).await;
    assert_passes(&other, &session_id).await;
}
