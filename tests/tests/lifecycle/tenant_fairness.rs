//! What tenants have of a host and of its supervisor: turns, positions, quotas that refuse by name.

use crate::assert_passed;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{
    CancelRunRequest, GetRunRequest, ListTestsRequest, Outcome, Priority, RunTestsRequest, WatchRunRequest,
};
use proctor_tests::grpc_client::{Client, CompletedRun, Stream};
use proctor_tests::paused_test::PausedTest;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Tenants that have this quota each.
fn quota(quota: &str) -> SupervisorSettings {
    SupervisorSettings { tenant: format!("[tenant.quota]\n{quota}"), ..SupervisorSettings::default() }
}

/// A host with the room of one run, whose tenants may have one run waiting.
fn crowded() -> SupervisorProcess {
    let host = "memory = \"2GiB\"\ncpus = 2".to_owned();
    SupervisorProcess::with(&SupervisorSettings { host, ..quota("queued_runs = 1\nrunning_runs = 1") })
}

/// A tenant, each of whose runs is in a session and a workspace of its own, and waits at its gate.
struct Tenant<'s> {
    supervisor: &'s SupervisorProcess,
    name: &'static str,
    client: Client,
}

impl Tenant<'_> {
    async fn both(supervisor: &SupervisorProcess) -> (Tenant<'_>, Tenant<'_>) {
        let alpha = Tenant { supervisor, name: "alpha", client: supervisor.client("alpha").await };
        (alpha, Tenant { supervisor, name: "beta", client: supervisor.client("beta").await })
    }

    async fn open(&self, workspace: &str) -> (PausedTest, RunTestsRequest) {
        let gate = self.supervisor.paused_test(self.name, workspace);
        let session_id = self.client.open(&gate.workspace).await;
        (gate, RunTestsRequest { session_id, ..RunTestsRequest::default() })
    }

    async fn start(&self, workspace: &str) -> (PausedTest, Stream) {
        let (gate, request) = self.open(workspace).await;
        (gate, self.client.start(request).await.unwrap())
    }

    /// The same, once the run is at its gate; with the run's id.
    async fn run(&self, workspace: &str) -> (PausedTest, Stream, String) {
        let (gate, mut stream) = self.start(workspace).await;
        let run = stream.wait_for_test("TestWaits").await;
        (gate, stream, run)
    }
}

/// Opens the gates of runs, all of which pass then.
async fn assert_all_pass(gates: &[PausedTest], streams: impl IntoIterator<Item = Stream>) {
    gates.iter().for_each(PausedTest::resume);
    for stream in streams {
        assert_passed(&stream.to_end().await, 3);
    }
}

fn is_at(event: &Event, position: u32) -> bool {
    matches!(event, Event::Queued(queued) if queued.position == position)
}

fn positions(followed: &CompletedRun) -> Vec<u32> {
    let position = |event: &Option<Event>| match event {
        Some(Event::Queued(queued)) => Some(queued.position),
        _ => None,
    };
    followed.events.iter().filter_map(|event| position(&event.event)).collect()
}

fn assert_used_up(refused: &Status, quota: &str) {
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(refused.get_details_error_info().unwrap().metadata["quota"], quota);
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());
}

#[tokio::test]
async fn runs_of_two_tenants_take_turns_and_are_told_where_they_stand() {
    let supervisor = crowded();
    let (alpha, beta) = Tenant::both(&supervisor).await;
    let (first, running, _) = alpha.run("first").await;
    // The tenant that has the host comes after the one that has had nothing of it.
    let (second, mut behind) = alpha.start("second").await;
    behind.until("alone in the queue", |event| is_at(event, 1)).await;
    let (third, mut ahead) = beta.start("third").await;
    ahead.until("the next", |event| is_at(event, 1)).await;
    behind.until("passed by the other tenant", |event| is_at(event, 2)).await;

    assert_all_pass(&[first], [running]).await;
    ahead.wait_for_test("TestWaits").await;
    behind.until("the next", |event| is_at(event, 1)).await;
    third.resume();
    second.resume();
    let (ahead, behind) = (ahead.to_end().await, behind.to_end().await);
    for (followed, told) in [(&ahead, vec![0, 1]), (&behind, vec![0, 1, 2, 1])] {
        assert_passed(followed, 3);
        followed.assert_numbered_from(0);
        assert_eq!(positions(followed), told);
        assert!(followed.report().resources.as_ref().unwrap().queue_wait_s > 0.0);
    }
}

#[tokio::test]
async fn a_full_queue_refuses_one_tenant_and_not_the_other() {
    let supervisor = crowded();
    let (alpha, beta) = Tenant::both(&supervisor).await;
    let (first, running, _) = alpha.run("first").await;
    let (second, waits) = alpha.start("second").await;
    let (third, request) = alpha.open("third").await;
    let Err(refused) = alpha.client.start(request.clone()).await else { panic!("it began") };
    assert_used_up(&refused, "queued_runs");
    let (others, other) = beta.start("others").await;
    assert_all_pass(&[first, second, third, others], [running, waits, other]).await;
    // The session that was refused has room now, and knows of no run.
    assert_passed(&alpha.client.start(request).await.unwrap().to_end().await, 3);
}

/// Of one tenant's runs, wherever they wait.
#[tokio::test]
async fn priorities_order_a_tenants_runs_and_all_that_wait_count() {
    let supervisor = SupervisorProcess::with(&SupervisorSettings {
        host: "memory = \"2GiB\"\ncpus = 2".to_owned(),
        tenant: "[tenant.quota]\nqueued_runs = 3".to_owned(),
        ..SupervisorSettings::default()
    });
    let alpha = supervisor.client("alpha").await;
    let sleep = |session: &str, seconds: u32, priority: Priority| RunTestsRequest {
        session_id: session.to_owned(),
        command: vec!["/bin/sleep".to_owned(), seconds.to_string()],
        priority: priority.into(),
        ..RunTestsRequest::default()
    };
    let mut sessions = Vec::new();
    for name in ["first", "second", "third"] {
        sessions.push(alpha.open(&supervisor.empty_workspace("alpha", name)).await);
    }
    let mut running = alpha.start(sleep(&sessions[0], 600, Priority::Unspecified)).await.unwrap();
    running.until("the start", |event| matches!(event, Event::Started(_))).await;
    let mut low = alpha.start(sleep(&sessions[1], 600, Priority::Low)).await.unwrap();
    low.until("alone in the queue", |event| is_at(event, 1)).await;
    let mut high = alpha.start(sleep(&sessions[2], 600, Priority::High)).await.unwrap();
    high.until("the next", |event| is_at(event, 1)).await;
    let low_id = low.until("passed by the other", |event| is_at(event, 2)).await.run_id;

    // The same request with another priority is the same run, which keeps its own.
    let mut joined = alpha.start(sleep(&sessions[1], 600, Priority::High)).await.unwrap();
    let attached = joined.until("the first event", |event| matches!(event, Event::Queued(_))).await;
    assert_eq!(attached.run_id, low_id);

    // Behind the running one of its session: the third that waits, and the last that may.
    let mut third = alpha.start(sleep(&sessions[0], 601, Priority::High)).await.unwrap();
    let refused = alpha.start(sleep(&sessions[0], 602, Priority::High)).await.err().unwrap();
    assert_used_up(&refused, "queued_runs");
    let run_id = third.until("its place", |event| is_at(event, 1)).await.run_id;
    alpha.runs.clone().cancel_run(CancelRunRequest { run_id }).await.unwrap();
    assert_eq!(third.to_end().await.report().outcome(), Outcome::Cancelled);
    alpha.start(sleep(&sessions[0], 602, Priority::High)).await.unwrap();
}

/// What a run gets that asks for nothing is more than all of this tenant's may use together.
#[tokio::test]
async fn a_run_that_asks_for_nothing_has_what_its_tenants_quota_leaves() {
    let supervisor = SupervisorProcess::with(&quota("memory = \"512MiB\"\ncpus = 1"));
    let alpha = supervisor.client("alpha").await;
    let session_id = alpha.open(&supervisor.empty_workspace("alpha", "small")).await;
    let command = vec!["/bin/true".to_owned()];
    let request = RunTestsRequest { session_id, command, ..RunTestsRequest::default() };
    let followed = alpha.start(request).await.unwrap().to_end().await;
    let limits = followed.report().limits.unwrap();
    assert_eq!(followed.report().outcome(), Outcome::Passed);
    assert_eq!((limits.memory_bytes, limits.cpu_millis), (512 << 20, 1_000));
}

#[tokio::test]
async fn streams_of_events_are_counted_until_they_are_dropped() {
    let supervisor = SupervisorProcess::with(&quota("subscribers = 2"));
    let (alpha, beta) = Tenant::both(&supervisor).await;
    let (gate, running, run_id) = alpha.run("watched").await;
    let (_listed, RunTestsRequest { session_id, .. }) = alpha.open("listed").await;
    let alpha = alpha.client;
    let second = alpha.watch(&run_id, 0).await;
    let watch = WatchRunRequest { run_id: run_id.clone(), cursor: 0 };
    assert_used_up(&alpha.runs.clone().watch_run(watch).await.unwrap_err(), "subscribers");
    let wait = GetRunRequest { run_id: run_id.clone(), wait_ms: 1 };
    assert_used_up(&alpha.runs.clone().get_run(wait).await.unwrap_err(), "subscribers");
    let list = ListTestsRequest { session_id, ..ListTestsRequest::default() };
    assert_used_up(&alpha.results.clone().list_tests(list).await.unwrap_err(), "subscribers");
    alpha.get_run(&run_id, 0).await;
    let (others, other) = beta.start("others").await;
    assert_all_pass(&[gate, others], [running, second, other]).await;
    assert_passed(&alpha.watch(&run_id, 0).await.to_end().await, 3);
}

#[tokio::test]
async fn a_flood_of_requests_is_told_when_to_come_again_and_hurts_nobody_else() {
    let supervisor = SupervisorProcess::with(&quota("requests_per_second = 5"));
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let ask = async |client: &Client| {
        let request = GetRunRequest { run_id: "none".to_owned(), wait_ms: 0 };
        client.runs.clone().get_run(request).await.unwrap_err()
    };
    let refused = loop {
        let answer = ask(&alpha).await;
        if answer.code() != Code::PermissionDenied {
            break answer;
        }
    };
    assert_used_up(&refused, "requests_per_second");
    assert_eq!(ask(&beta).await.code(), Code::PermissionDenied);
    tokio::time::sleep(refused.get_details_retry_info().unwrap().retry_delay.unwrap()).await;
    assert_eq!(ask(&alpha).await.code(), Code::PermissionDenied);
}
