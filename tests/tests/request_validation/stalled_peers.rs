//! Peers that send requests without finishing them, or request answers without reading them: memory stays bounded, and
//! authenticated connections are kept.

use crate::credentials::Keys;
use crate::{assert_can_run, start};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, ReadOutputRequest, RunTestsRequest, WatchRunRequest};
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use std::io::ErrorKind::WouldBlock;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

/// Slightly more connections than a listener accepts.
const FLOOD_CONNECTIONS: usize = 4_200;

/// Peers with unfinished handshakes.
const SLOW_PEERS: usize = 600;

/// Attempts for tests in which a slow machine may run into a timeout of the supervisor first.
const ATTEMPTS_MAX: usize = 10;

fn quota(status: &Status) -> String {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().is_some());
    status.get_details_error_info().unwrap().metadata["quota"].clone()
}

// Calls RunTests with these requests on a stream that never ends, and returns the error.
async fn call_without_end(channel: Channel, token: Option<String>, requests: Vec<RunTestsRequest>) -> Status {
    let endless = tokio_stream::iter(requests).chain(tokio_stream::pending());
    let mut request = Request::new(endless);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<RunTestsRequest, v1::RunEvent>::default();
    let answer = grpc.streaming(request, PathAndQuery::from_static("/proctor.v1.Runs/RunTests"), codec);
    match timeout(WAIT_MAX, answer).await.unwrap() {
        Ok(_) => panic!("the run started"),
        Err(status) => status,
    }
}

#[tokio::test]
async fn authenticates_before_reading_a_request_and_times_out_slow_ones() {
    let supervisor = SupervisorProcess::start();
    let (alpha, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session_id = other.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let missing = "metadata `authorization: Bearer TOKEN` is missing";
    for (token, text) in [(None, missing), (Some(token("nobody")), "the bearer token is not known")] {
        let status = call_without_end(alpha.channel.clone(), token, Vec::new()).await;
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, text));
    }
    wait_until("the refusal is in the audit log", || {
        let audit = std::fs::read_to_string(supervisor.audit_log()).unwrap();
        audit.contains("authentication_refused") && audit.contains("Runs/RunTests")
    });

    let large = RunTestsRequest { filter: "x".repeat(7 << 20), ..RunTestsRequest::default() };
    let mut is_quota_reached = false;
    for _ in 0..ATTEMPTS_MAX {
        let mut sending = JoinSet::new();
        sending.spawn(call_without_end(supervisor.client("beta").await.channel, Some(token("beta")), Vec::new()));
        for _ in 0..20 {
            let channel = supervisor.client("alpha").await.channel;
            sending.spawn(call_without_end(channel, Some(token("alpha")), vec![large.clone()]));
        }
        assert_can_run(&other, &session_id).await;
        let (late, full): (Vec<Status>, Vec<Status>) =
            sending.join_all().await.into_iter().partition(|status| status.code() == Code::DeadlineExceeded);
        assert!(late.iter().all(|status| status.message() == "the request did not arrive within 10 s"), "{late:?}");
        assert!(full.iter().all(|status| quota(status) == "request_bytes"), "{full:?}");
        assert!(!late.is_empty() && late.len() + full.len() == 21, "{late:?} {full:?}");
        is_quota_reached = !full.is_empty();
        if is_quota_reached {
            break;
        }
    }
    assert!(is_quota_reached, "the requests never reach the quota");
    // The bytes are released: a complete request gets beyond the quota.
    let status = alpha.start(large).await.err().unwrap();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

#[tokio::test]
async fn bounds_answers_that_clients_do_not_read() {
    const CALLS: usize = 300;
    let supervisor = SupervisorProcess::start();
    let (alpha, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session_id = alpha.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let others = other.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let run = start(&alpha, &session_id, &["/usr/bin/head", "-c", "2M", "/dev/zero"]).await.read_to_end().await;
    let (run_id, written) = (run.run_id.clone(), run.output(v1::Stream::Stdout).len());
    assert_eq!((run.report().outcome(), written), (Outcome::Passed, 2 << 20));
    // The largest output event; streams that start at it request it first.
    let len = |event: &v1::RunEvent| match &event.event {
        Some(Event::Output(output)) => output.bytes.len(),
        _ => 0,
    };
    let largest = run.events.iter().max_by_key(|event| len(event)).unwrap();
    let (cursor, streams) = (largest.sequence, (1 << 20) / len(largest) + 50);
    assert!(streams < 700, "the streams must fit on one connection with the calls: {streams}");
    let mebibyte = 1 << 20;
    let read =
        ReadOutputRequest { run_id: run_id.clone(), stream: v1::Stream::Stdout.into(), cursor: 0, max_bytes: mebibyte };

    let endpoint: Endpoint = format!("http://{}", supervisor.address).parse().unwrap();
    let stalled = Client::over_channel(&endpoint.initial_stream_window_size(0).connect().await.unwrap(), "alpha");
    let mut reading = JoinSet::new();
    for _ in 0..CALLS {
        let (mut runs, read) = (stalled.runs.clone(), read.clone());
        reading.spawn(async move { runs.read_output(read).await.map(drop).unwrap_err() });
    }
    for _ in 256..CALLS {
        let refused = timeout(WAIT_MAX, reading.join_next()).await.expect("a refusal").unwrap().unwrap();
        assert_eq!(quota(&refused), "answer_bytes");
        assert!(refused.message().ends_with("read the pending answers, or request less at a time"), "{refused:?}");
    }
    // The streams get the rest of the tenant's bytes; another tenant has its full quota.
    let mut watching = JoinSet::new();
    for _ in 0..streams {
        let (mut runs, watch) = (stalled.runs.clone(), WatchRunRequest { run_id: run_id.clone(), cursor });
        watching.spawn(async move {
            let mut events = runs.watch_run(watch).await?.into_inner();
            while events.message().await?.is_some() {}
            Ok(())
        });
    }
    let refused: Result<(), Status> =
        timeout(WAIT_MAX, watching.join_next()).await.expect("a refusal").unwrap().unwrap();
    assert_eq!(quota(&refused.unwrap_err()), "answer_bytes");
    assert_can_run(&other, &others).await;
    drop((reading, watching, stalled));
    // The bytes are released, and all events are still there.
    let again = async {
        while alpha.runs.clone().read_output(read.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, again).await.expect("an answer");
    assert_eq!(alpha.watch(&run_id, 0).await.read_to_end().await.events, run.events);
}

#[tokio::test]
async fn keeps_idle_authenticated_connections_during_a_flood() {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, limit.1, limit.1).unwrap();
    let supervisor = SupervisorProcess::start();
    let client = supervisor.local_client().await;
    let session_id = client.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let mut run = start(&client, &session_id, &["/bin/sleep", "600"]).await;
    run.next().await.unwrap();
    let peers: Vec<UnixStream> =
        (0..FLOOD_CONNECTIONS).map(|_| UnixStream::connect(supervisor.socket()).unwrap()).collect();
    // A new connection evicts one of the silent peers.
    let late = supervisor.local_client().await;
    let others = late.open_session(&supervisor.empty_workspace("alpha", "other")).await;
    assert_can_run(&late, &others).await;
    wait_until("the log names the reason", || supervisor.log().contains("too many connections"));
    client.sessions.clone().close_session(v1::CloseSessionRequest { session_id }).await.unwrap();
    let outcome = run.read_to_end().await.report().outcome();
    assert_eq!(outcome, Outcome::Cancelled, "the old connection still works");
    drop(peers);
}

#[tokio::test]
async fn unfinished_handshakes_do_not_delay_clients() {
    let keys = Keys::new();
    let supervisor = keys.supervisor();
    let workspace = supervisor.empty_workspace("beta", "shop");
    let mut is_served_first = false;
    for _ in 0..ATTEMPTS_MAX {
        let slow_peer = |number: usize| {
            let mut peer = TcpStream::connect(supervisor.address).unwrap();
            // The beginning of a ClientHello, or a part of it.
            peer.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1][..number % 9]).unwrap();
            peer.set_nonblocking(true).unwrap();
            peer
        };
        let peers: Vec<TcpStream> = (0..SLOW_PEERS).map(slow_peer).collect();
        let late = Client::tls(supervisor.address, keys.client(None), Some(&token("beta"))).await.unwrap();
        let session_id = late.open_session(&workspace).await;
        // The supervisor sends nothing to these peers, so a read shows whether it has closed the connection.
        let is_open = |mut peer: &TcpStream| peer.read(&mut [0]).is_err_and(|error| error.kind() == WouldBlock);
        is_served_first = peers.iter().all(is_open);
        assert_can_run(&late, &session_id).await;
        if is_served_first {
            break;
        }
    }
    assert!(is_served_first, "a client is only served after unfinished handshakes have ended");
}

#[tokio::test]
async fn bounds_unauthenticated_calls_per_connection() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let mut watching = Vec::new();
    let refused = loop {
        match HealthClient::new(client.channel.clone()).watch(HealthCheckRequest::default()).await {
            Ok(stream) => watching.push(stream),
            Err(status) => break status,
        }
    };
    assert_eq!((quota(&refused).as_str(), watching.len()), ("open_calls", 16));
    let large = HealthCheckRequest { service: "x".repeat(5_000) };
    let other = supervisor.client("alpha").await;
    let status = HealthClient::new(other.channel).check(large).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    drop(watching);
    let again = async {
        while HealthClient::new(client.channel.clone()).check(HealthCheckRequest::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, again).await.expect("the calls are released");
}
