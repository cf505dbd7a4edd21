//! Sharing of a host and its supervisor between tenants: order of runs, queue positions, and quotas.

use crate::assert_passed;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{
    CancelRunRequest, GetRunRequest, ListTestsRequest, Outcome, Priority, RunState, RunTestsRequest, WatchRunRequest,
};
use proctor_tests::grpc_client::{Client, CompletedRun, RunStream};
use proctor_tests::paused_test::PausedTest;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Settings with these keys in each tenant's quota.
fn quota(quota: &str) -> SupervisorSettings {
    SupervisorSettings { tenant: format!("[tenant.quota]\n{quota}"), ..SupervisorSettings::default() }
}

/// A host with room for one run, whose tenants may have one run queued each.
fn crowded() -> SupervisorProcess {
    let host = "memory = \"2GiB\"\ncpus = 2".to_owned();
    SupervisorProcess::with_settings(&SupervisorSettings { host, ..quota("queued_runs = 1\nrunning_runs = 1") })
}

/// A tenant that runs each paused test in a session and a workspace of its own.
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
        let paused = self.supervisor.paused_test(self.name, workspace);
        let session_id = self.client.open_session(&paused.workspace).await;
        (paused, RunTestsRequest { session_id, ..RunTestsRequest::default() })
    }

    async fn start(&self, workspace: &str) -> (PausedTest, RunStream) {
        let (paused, request) = self.open(workspace).await;
        (paused, self.client.start(request).await.unwrap())
    }

    /// Starts a run and waits until its test is paused. Returns the run's id as well.
    async fn start_and_pause(&self, workspace: &str) -> (PausedTest, RunStream, String) {
        let (paused, mut stream) = self.start(workspace).await;
        let run = stream.wait_for_test("TestWaits").await;
        (paused, stream, run)
    }
}

/// Resumes the tests and waits until all runs have passed.
async fn resume_and_assert_passed(paused: &[PausedTest], streams: impl IntoIterator<Item = RunStream>) {
    paused.iter().for_each(PausedTest::resume);
    for stream in streams {
        assert_passed(&stream.read_to_end().await, 3);
    }
}

fn has_position(event: &Event, position: u32) -> bool {
    matches!(event, Event::Queued(queued) if queued.position == position)
}

fn positions(followed: &CompletedRun) -> Vec<u32> {
    let position = |event: &Option<Event>| match event {
        Some(Event::Queued(queued)) => Some(queued.position),
        _ => None,
    };
    followed.events.iter().filter_map(|event| position(&event.event)).collect()
}

fn assert_quota_exceeded(refused: &Status, quota: &str) {
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(refused.get_details_error_info().unwrap().metadata["quota"], quota);
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());
}

#[tokio::test]
async fn alternates_tenants_and_reports_queue_positions() {
    let supervisor = crowded();
    let (alpha, beta) = Tenant::both(&supervisor).await;
    let (first, running, first_run) = alpha.start_and_pause("first").await;
    // A tenant with a running run queues behind a tenant with none.
    let (second, mut behind) = alpha.start("second").await;
    behind.wait_for_event("position 1", |event| has_position(event, 1)).await;
    let (third, mut ahead) = beta.start("third").await;
    ahead.wait_for_event("position 1", |event| has_position(event, 1)).await;
    let queued = behind.wait_for_event("position 2, behind the other tenant", |event| has_position(event, 2)).await;
    for (run_id, state, position) in [(&queued.run_id, RunState::Queued, 2), (&first_run, RunState::Running, 0)] {
        let status = alpha.client.get_run(run_id, 0).await;
        assert_eq!((status.state(), status.queue_position), (state, position));
    }

    resume_and_assert_passed(&[first], [running]).await;
    ahead.wait_for_test("TestWaits").await;
    behind.wait_for_event("position 1 again", |event| has_position(event, 1)).await;
    third.resume();
    second.resume();
    let (ahead, behind) = (ahead.read_to_end().await, behind.read_to_end().await);
    for (followed, expected) in [(&ahead, vec![0, 1]), (&behind, vec![0, 1, 2, 1])] {
        assert_passed(followed, 3);
        followed.assert_numbered_from(0);
        assert_eq!(positions(followed), expected);
        assert!(followed.report().resources.as_ref().unwrap().queue_wait_s > 0.0);
    }
}

#[tokio::test]
async fn full_queue_refuses_only_its_tenant() {
    let supervisor = crowded();
    let (alpha, beta) = Tenant::both(&supervisor).await;
    let (first, running, _) = alpha.start_and_pause("first").await;
    let (second, queued) = alpha.start("second").await;
    let (third, request) = alpha.open("third").await;
    let Err(refused) = alpha.client.start(request.clone()).await else { panic!("the run started") };
    assert_quota_exceeded(&refused, "queued_runs");
    let (others, other) = beta.start("others").await;
    resume_and_assert_passed(&[first, second, third, others], [running, queued, other]).await;
    // The refused session may start a run now and remembers no refused one.
    assert_passed(&alpha.client.start(request).await.unwrap().read_to_end().await, 3);
}

/// Priorities order the runs of one tenant across its sessions.
#[tokio::test]
async fn priorities_order_one_tenants_queue_and_quota_counts_all() {
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
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
        sessions.push(alpha.open_session(&supervisor.empty_workspace("alpha", name)).await);
    }
    let mut running = alpha.start(sleep(&sessions[0], 600, Priority::Unspecified)).await.unwrap();
    running.wait_for_event("the start", |event| matches!(event, Event::Started(_))).await;
    let mut low = alpha.start(sleep(&sessions[1], 600, Priority::Low)).await.unwrap();
    low.wait_for_event("position 1", |event| has_position(event, 1)).await;
    let mut high = alpha.start(sleep(&sessions[2], 600, Priority::High)).await.unwrap();
    high.wait_for_event("position 1", |event| has_position(event, 1)).await;
    let low_id = low.wait_for_event("position 2, behind the other run", |event| has_position(event, 2)).await.run_id;

    // An identical request with another priority attaches to the run, which keeps its priority.
    let mut joined = alpha.start(sleep(&sessions[1], 600, Priority::High)).await.unwrap();
    let attached = joined.wait_for_event("the first event", |event| matches!(event, Event::Queued(_))).await;
    assert_eq!(attached.run_id, low_id);

    // Behind the running run of its session: the third queued run, which exhausts the quota.
    let mut third = alpha.start(sleep(&sessions[0], 601, Priority::High)).await.unwrap();
    let refused = alpha.start(sleep(&sessions[0], 602, Priority::High)).await.err().unwrap();
    assert_quota_exceeded(&refused, "queued_runs");
    let run_id = third.wait_for_event("position 1", |event| has_position(event, 1)).await.run_id;
    alpha.runs.clone().cancel_run(CancelRunRequest { run_id }).await.unwrap();
    assert_eq!(third.read_to_end().await.report().outcome(), Outcome::Cancelled);
    alpha.start(sleep(&sessions[0], 602, Priority::High)).await.unwrap();
}

/// The default limits exceed the quota of this tenant.
#[tokio::test]
async fn default_limits_shrink_to_the_tenant_quota() {
    let supervisor = SupervisorProcess::with_settings(&quota("memory = \"512MiB\"\ncpus = 1"));
    let alpha = supervisor.client("alpha").await;
    let session_id = alpha.open_session(&supervisor.empty_workspace("alpha", "small")).await;
    let command = vec!["/bin/true".to_owned()];
    let request = RunTestsRequest { session_id, command, ..RunTestsRequest::default() };
    let followed = alpha.start(request).await.unwrap().read_to_end().await;
    let limits = followed.report().limits.unwrap();
    assert_eq!(followed.report().outcome(), Outcome::Passed);
    assert_eq!((limits.memory_bytes, limits.cpu_millis), (512 << 20, 1_000));
}

#[tokio::test]
async fn counts_subscribers_until_they_disconnect() {
    let supervisor = SupervisorProcess::with_settings(&quota("subscribers = 2"));
    let (alpha, beta) = Tenant::both(&supervisor).await;
    let (paused, running, run_id) = alpha.start_and_pause("watched").await;
    let (_listed, RunTestsRequest { session_id, .. }) = alpha.open("listed").await;
    let alpha = alpha.client;
    let second = alpha.watch(&run_id, 0).await;
    let watch = WatchRunRequest { run_id: run_id.clone(), cursor: 0 };
    assert_quota_exceeded(&alpha.runs.clone().watch_run(watch).await.unwrap_err(), "subscribers");
    let wait = GetRunRequest { run_id: run_id.clone(), wait_ms: 1 };
    assert_quota_exceeded(&alpha.runs.clone().get_run(wait).await.unwrap_err(), "subscribers");
    let list = ListTestsRequest { session_id, ..ListTestsRequest::default() };
    assert_quota_exceeded(&alpha.results.clone().list_tests(list).await.unwrap_err(), "subscribers");
    alpha.get_run(&run_id, 0).await;
    let (others, other) = beta.start("others").await;
    resume_and_assert_passed(&[paused, others], [running, second, other]).await;
    assert_passed(&alpha.watch(&run_id, 0).await.read_to_end().await, 3);
}

#[tokio::test]
async fn rate_limit_answers_with_a_retry_delay_and_spares_others() {
    let supervisor = SupervisorProcess::with_settings(&quota("requests_per_second = 5"));
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let query = async |client: &Client| {
        let request = GetRunRequest { run_id: "none".to_owned(), wait_ms: 0 };
        client.runs.clone().get_run(request).await.unwrap_err()
    };
    let refused = loop {
        let answer = query(&alpha).await;
        if answer.code() != Code::PermissionDenied {
            break answer;
        }
    };
    assert_quota_exceeded(&refused, "requests_per_second");
    assert_eq!(query(&beta).await.code(), Code::PermissionDenied);
    tokio::time::sleep(refused.get_details_retry_info().unwrap().retry_delay.unwrap()).await;
    assert_eq!(query(&alpha).await.code(), Code::PermissionDenied);
}
