//! Peers who make a supervisor hold what they send and do not finish, and what they ask for and do not take: it is bounded, and
//! nobody who is known has to leave for somebody who is not. Must not know how good input is carried out.

use crate::credentials::Keys;
use crate::{assert_passes, start};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, ReadOutputRequest, RunTestsRequest, WatchRunRequest};
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
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

/// What a caller who is known, or a stranger, would be waited for.
const ARRIVAL: Duration = Duration::from_secs(10);

/// One more than a listener has room for, by a margin.
const FLOOD: usize = 4_200;

/// Peers whose handshake does not end: more than any number of turns that one would have to wait for.
const SLOW: usize = 600;

fn quota(status: &Status) -> String {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().is_some());
    status.get_details_error_info().unwrap().metadata["quota"].clone()
}

// A call of RunTests that sends these requests and does not end.
async fn unfinished(channel: Channel, token: Option<String>, requests: Vec<RunTestsRequest>) -> Status {
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
        Ok(_) => panic!("it began"),
        Err(status) => status,
    }
}

#[tokio::test]
async fn nothing_of_a_request_is_waited_for_before_its_caller_is_known_nor_for_long_after() {
    let supervisor = SupervisorProcess::start();
    let (alpha, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session_id = other.open(&supervisor.empty_workspace("beta", "shop")).await;
    let began = Instant::now();
    let missing = "metadata `authorization: Bearer TOKEN` is missing";
    for (shown, text) in [(None, missing), (Some(token("nobody")), "the bearer token is not known")] {
        let status = unfinished(alpha.channel.clone(), shown, Vec::new()).await;
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, text));
    }
    wait_until("the refusal is in the audit log", || {
        let audit = std::fs::read_to_string(supervisor.audit()).unwrap();
        audit.contains("authentication_refused") && audit.contains("Runs/RunTests")
    });

    let large = RunTestsRequest { filter: "x".repeat(7 << 20), ..RunTestsRequest::default() };
    let mut sending = JoinSet::new();
    sending.spawn(unfinished(supervisor.client("beta").await.channel, Some(token("beta")), Vec::new()));
    for _ in 0..20 {
        let channel = supervisor.client("alpha").await.channel;
        sending.spawn(unfinished(channel, Some(token("alpha")), vec![large.clone()]));
    }
    assert_passes(&other, &session_id).await;
    let (late, full): (Vec<Status>, Vec<Status>) =
        sending.join_all().await.into_iter().partition(|status| status.code() == Code::DeadlineExceeded);
    assert!(began.elapsed() >= ARRIVAL, "{late:?}");
    assert!(late.iter().all(|status| status.message() == "the request did not arrive within 10 s"));
    assert!(
        late.len() + full.len() == 21 && !full.is_empty() && full.iter().all(|status| quota(status) == "request_bytes"),
        "{full:?}"
    );
    // It is given back.
    let status = alpha.start(large).await.err().unwrap();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

#[tokio::test]
async fn answers_that_nobody_takes_are_held_up_to_a_bound() {
    const CALLS: usize = 300;
    let supervisor = SupervisorProcess::start();
    let (alpha, other) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session_id = alpha.open(&supervisor.empty_workspace("alpha", "shop")).await;
    let others = other.open(&supervisor.empty_workspace("beta", "shop")).await;
    let run = start(&alpha, &session_id, &["/usr/bin/head", "-c", "2M", "/dev/zero"]).await.to_end().await;
    let (run_id, written) = (run.run_id.clone(), run.output(v1::Stream::Stdout).len());
    assert_eq!((run.report().outcome(), written), (Outcome::Passed, 2 << 20));
    // The largest piece of it, which a stream from there on is asked for first.
    let len = |event: &v1::RunEvent| match &event.event {
        Some(Event::Output(output)) => output.bytes.len(),
        _ => 0,
    };
    let largest = run.events.iter().max_by_key(|event| len(event)).unwrap();
    let (cursor, streams) = (largest.sequence, (1 << 20) / len(largest) + 50);
    assert!(streams < 700, "on one connection with the calls: {streams}");
    let mebibyte = 1 << 20;
    let read =
        ReadOutputRequest { run_id: run_id.clone(), stream: v1::Stream::Stdout.into(), cursor: 0, max_bytes: mebibyte };

    let endpoint: Endpoint = format!("http://{}", supervisor.address).parse().unwrap();
    let takes_nothing = Client::on(&endpoint.initial_stream_window_size(0).connect().await.unwrap(), "alpha");
    let mut asking = JoinSet::new();
    for _ in 0..CALLS {
        let (mut runs, read) = (takes_nothing.runs.clone(), read.clone());
        asking.spawn(async move { runs.read_output(read).await.map(drop).unwrap_err() });
    }
    for _ in 256..CALLS {
        let refused = timeout(WAIT_MAX, asking.join_next()).await.expect("one is refused").unwrap().unwrap();
        assert_eq!(quota(&refused), "answer_bytes");
        assert!(refused.message().ends_with("read the pending answers, or request less at a time"), "{refused:?}");
    }
    // Streams have what is left, and another tenant has all that it may have.
    let mut watching = JoinSet::new();
    for _ in 0..streams {
        let (mut runs, watch) = (takes_nothing.runs.clone(), WatchRunRequest { run_id: run_id.clone(), cursor });
        watching.spawn(async move {
            let mut events = runs.watch_run(watch).await?.into_inner();
            while events.message().await?.is_some() {}
            Ok(())
        });
    }
    let refused: Result<(), Status> =
        timeout(WAIT_MAX, watching.join_next()).await.expect("a refusal").unwrap().unwrap();
    assert_eq!(quota(&refused.unwrap_err()), "answer_bytes");
    assert_passes(&other, &others).await;
    drop((asking, watching, takes_nothing));
    // It is given back, and the events are caught up with.
    let again = async {
        while alpha.runs.clone().read_output(read.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, again).await.expect("an answer");
    assert_eq!(alpha.watch(&run_id, 0).await.to_end().await.events, run.events);
}

#[tokio::test]
async fn whoever_is_known_and_quiet_stays_while_peers_who_say_nothing_flood_in() {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, limit.1, limit.1).unwrap();
    let supervisor = SupervisorProcess::start();
    let client = supervisor.local_client().await;
    let session_id = client.open(&supervisor.empty_workspace("alpha", "shop")).await;
    let mut run = start(&client, &session_id, &["/bin/sleep", "600"]).await;
    run.next().await.unwrap();
    let peers: Vec<UnixStream> = (0..FLOOD).map(|_| UnixStream::connect(supervisor.socket()).unwrap()).collect();
    // Who comes now makes room for one more.
    let late = supervisor.local_client().await;
    let others = late.open(&supervisor.empty_workspace("alpha", "other")).await;
    assert_passes(&late, &others).await;
    wait_until("the log says why", || supervisor.said().contains("too many connections"));
    client.sessions.clone().close_session(v1::CloseSessionRequest { session_id }).await.unwrap();
    assert_eq!(run.to_end().await.report().outcome(), Outcome::Cancelled, "on the connection that it began on");
    drop(peers);
}

#[tokio::test]
async fn handshakes_that_do_not_end_keep_nobody_waiting() {
    let keys = Keys::new();
    let supervisor = keys.supervisor();
    let mut peers = Vec::new();
    for number in 0..SLOW {
        let mut peer = TcpStream::connect(supervisor.address).unwrap();
        // The beginning of a ClientHello, or less.
        peer.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1][..number % 9]).unwrap();
        peers.push(peer);
    }
    let began = Instant::now();
    let late = Client::tls(supervisor.address, keys.client(None), Some(&token("beta"))).await.unwrap();
    let session_id = late.open(&supervisor.empty_workspace("beta", "shop")).await;
    assert_passes(&late, &session_id).await;
    assert!(began.elapsed() < ARRIVAL / 2, "{:?}", began.elapsed());
    drop(peers);
}

#[tokio::test]
async fn what_anybody_may_ask_is_bounded_on_each_connection() {
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
    timeout(WAIT_MAX, again).await.expect("they are given back");
}
