//! A collector that hangs, floods, refuses or answers nonsense costs no run anything, and neither does none.

use crate::collector::{Behaviour, Collector};
use crate::{settings, shell};
use nix::sys::signal::Signal;
use proctor_tests::metrics_scrape::{MetricsScrape, metrics_address};
use proctor_tests::process::wait_until;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::time::Instant;

/// Runs twice, waits until the lost spans are counted and logged once, and stops the supervisor.
async fn assert_runs_go_on(collector: &Collector, keys: &str) {
    let settings = settings(collector, &format!("timeout = \"200ms\"\n{keys}"));
    let began = Instant::now();
    let mut supervisor = SupervisorProcess::with_settings(&settings);
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    for _ in 0..2 {
        let run = client.start(shell(&session, "true")).await.unwrap().read_to_end().await;
        assert_eq!(run.report().outcome, i32::from(proctor_proto::v1::Outcome::Passed));
    }
    let metrics = metrics_address(&supervisor);
    wait_until("lost spans are counted", || {
        MetricsScrape::of(metrics).sum("proctor_spans_dropped_total", &["reason=\"not_sent\""]) > 0.0
    });
    let lines = |supervisor: &SupervisorProcess| {
        supervisor.log().lines().filter(|line| line.contains("did not reach the collector")).count()
    };
    wait_until("the loss is logged", || lines(&supervisor) > 0);
    for _ in 0..3 {
        client.start(shell(&session, "true")).await.unwrap().read_to_end().await;
    }
    let minutes = usize::try_from(began.elapsed().as_secs() / 60).unwrap();
    assert!(lines(&supervisor) <= 1 + minutes, "{}", supervisor.log());
    assert!(!supervisor.log().contains('\x1b'), "a collector's text is escaped");
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
    assert_eq!(collector.spans(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_go_on_without_the_collector_over_grpc() {
    for behaviour in [Behaviour::Hangs, Behaviour::Closes, Behaviour::AnswersNonsense] {
        assert_runs_go_on(&Collector::with_behaviour(behaviour), "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_go_on_without_the_collector_over_http() {
    for behaviour in
        [Behaviour::Hangs, Behaviour::Closes, Behaviour::AnswersNonsense, Behaviour::Floods, Behaviour::Refuses]
    {
        assert_runs_go_on(&Collector::with_behaviour(behaviour), "protocol = \"http/protobuf\"").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_supervisor_does_not_wait_for_a_collector_that_hangs() {
    let collector = Collector::with_behaviour(Behaviour::Hangs);
    let mut supervisor = SupervisorProcess::with_settings(&settings(&collector, "timeout = \"1h\""));
    let client = supervisor.client("alpha").await;
    client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    wait_until("the collector has a connection", || collector.connections() > 0);
    // It would take an hour.
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_settings_no_connection_is_made_and_a_run_has_no_context() {
    let collector = Collector::with_behaviour(Behaviour::Takes);
    for env in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
        let mut settings = settings(&collector, "");
        settings.env.push((env.0.to_owned(), env.1.into()));
        assert_no_traces(&settings).await;
    }
    assert_no_traces(&SupervisorSettings::default()).await;
    assert_eq!(collector.connections(), 0);
}

async fn assert_no_traces(settings: &SupervisorSettings) {
    let mut supervisor = SupervisorProcess::with_settings(settings);
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    let run = client.start(shell(&session, "test -z \"$TRACEPARENT\"")).await.unwrap().read_to_end().await;
    assert_eq!(run.report().outcome, i32::from(proctor_proto::v1::Outcome::Passed));
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_sampled_requests_is_bounded_by_the_queue() {
    let collector = Collector::with_behaviour(Behaviour::Hangs);
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, "queue_spans = 8\ntimeout = \"1h\""));
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    for _ in 0..50 {
        let mut sessions = client.sessions.clone();
        let message = proctor_proto::v1::GetSessionRequest { session_id: session.clone() };
        sessions.get_session(crate::with_context(message, &crate::traceparent("01"), "")).await.unwrap();
    }
    let metrics = metrics_address(&supervisor);
    // A call has a span, and one of its admission; eight of them wait. A span may end after its call.
    wait_until("the spans beyond the queue are dropped", || {
        MetricsScrape::of(metrics).sum("proctor_spans_dropped_total", &["reason=\"queue_full\""]) >= 92.0
    });
}
