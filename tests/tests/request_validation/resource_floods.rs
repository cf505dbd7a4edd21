//! Clients that take too many shared resources (connections, streams, sessions): the excess is refused, resources are
//! released afterwards, and the other tenant is not affected.

use crate::{assert_can_run, start};
use proctor_proto::v1::{Outcome, WatchRunRequest};
use proctor_tests::process::wait_until;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;
use tonic_types::StatusExt;

/// Streams that are opened and dropped, in all and at the same time.
const STREAMS: usize = 2_000;
const CONCURRENT_STREAMS: usize = 50;

/// Connections whose peer sends nothing, or a part of the HTTP/2 preface.
const PEERS: usize = 500;

fn descriptors(supervisor: &SupervisorProcess) -> usize {
    fs::read_dir(format!("/proc/{}/fd", supervisor.pid())).unwrap().count()
}

#[tokio::test]
async fn short_lived_streams_are_released() {
    let supervisor = SupervisorProcess::start();
    let (client, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session_id = client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let others = other.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let mut run = start(&client, &session_id, &["/bin/sleep", "600"]).await;
    let run_id = run.next().await.unwrap().unwrap().run_id.clone();
    for _ in 0..STREAMS / CONCURRENT_STREAMS {
        let mut watching = JoinSet::new();
        for cursor in 0..CONCURRENT_STREAMS {
            let (mut runs, run_id) = (client.runs.clone(), run_id.clone());
            // Some are dropped before their answer and some after it.
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
        assert_can_run(&other, &others).await;
    }
    // A stream that is still counted would exceed the quota together with these.
    let mut watchers = Vec::new();
    for _ in 0..CONCURRENT_STREAMS {
        watchers.push(client.watch(&run_id, 0).await);
    }
    client.sessions.clone().close_session(proctor_proto::v1::CloseSessionRequest { session_id }).await.unwrap();
    for watcher in watchers {
        assert_eq!(watcher.read_to_end().await.report().outcome(), Outcome::Cancelled);
    }
}

#[tokio::test]
async fn silent_peers_do_not_block_clients() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let session_id = client.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    assert_can_run(&client, &session_id).await;
    let before = descriptors(&supervisor);
    let mut peers = Vec::new();
    for number in 0..PEERS {
        let mut peer = TcpStream::connect(supervisor.address).unwrap();
        peer.write_all(&b"PRI * HTTP/2.0\r\n"[..number % 16]).unwrap();
        peers.push(peer);
    }
    // Descriptors of the earlier run are closed meanwhile, and the oldest peers may be evicted.
    wait_until("the peers are accepted", || descriptors(&supervisor) >= before + PEERS * 9 / 10);
    let late = supervisor.client("beta").await;
    assert_can_run(&late, &session_id).await;
    // The peers keep their connections open; the supervisor drops them.
    wait_until("the peers are dropped", || descriptors(&supervisor) <= before + PEERS / 10);
    assert_can_run(&client, &session_id).await;
    drop(peers);
}

#[tokio::test]
async fn session_flood_stops_at_the_tenant_quota() {
    let settings = SupervisorSettings { tenant: "sessions_max = 8".to_owned(), ..SupervisorSettings::default() };
    let supervisor = SupervisorProcess::with_settings(&settings);
    let (client, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.empty_workspace("alpha", "shop");
    let mut opening = JoinSet::new();
    for _ in 0..400 {
        let (client, workspace) = (client.clone(), workspace.clone());
        opening.spawn(async move { client.try_open_session(&workspace, true).await });
    }
    let answers = opening.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 8);
    for status in answers.into_iter().filter_map(Result::err) {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        let quota = status.get_details_error_info().unwrap().metadata["quota"].clone();
        assert_eq!(quota, "sessions_max");
        assert!(status.get_details_retry_info().is_some());
    }
    let session_id = other.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    assert_can_run(&other, &session_id).await;
}
