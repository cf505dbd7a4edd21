//! What tenants have of a host and of its supervisor: turns, positions, quotas that refuse by name.

use crate::assert_passed;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{GetRunRequest, RunTestsRequest, WatchRunRequest};
use proctor_tests::supervisor::{Settings, Supervisor};
use proctor_tests::waiting::Waiting;
use proctor_tests::wire::{Client, Followed};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A host with the room of one run, whose tenants may have one run waiting.
fn crowded() -> Supervisor {
    Supervisor::with(&Settings {
        host: "memory = \"2GiB\"\ncpus = 2".to_owned(),
        tenant: "[tenant.quota]\nqueued_runs = 1\nrunning_runs = 1".to_owned(),
        ..Settings::default()
    })
}

async fn at(supervisor: &Supervisor, client: &Client, tenant: &str, name: &str) -> (Waiting, RunTestsRequest) {
    let waiting = supervisor.waiting(tenant, name);
    let session_id = client.open(&waiting.workspace).await;
    (waiting, RunTestsRequest { session_id, ..RunTestsRequest::default() })
}

fn is_at(event: &Event, position: u32) -> bool {
    matches!(event, Event::Queued(queued) if queued.position == position)
}

fn positions(followed: &Followed) -> Vec<u32> {
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
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let (first, request) = at(&supervisor, &alpha, "alpha", "first").await;
    let mut running = alpha.start(request).await.unwrap();
    running.until_running("TestWaits").await;
    // The tenant that has the host comes after the one that has had nothing of it.
    let (second, request) = at(&supervisor, &alpha, "alpha", "second").await;
    let mut behind = alpha.start(request).await.unwrap();
    behind.until("alone in the queue", |event| is_at(event, 1)).await;
    let (third, request) = at(&supervisor, &beta, "beta", "third").await;
    let mut ahead = beta.start(request).await.unwrap();
    ahead.until("the next", |event| is_at(event, 1)).await;
    behind.until("passed by the other tenant", |event| is_at(event, 2)).await;

    first.open_the_gate();
    assert_passed(&running.to_end().await, 3);
    ahead.until_running("TestWaits").await;
    behind.until("the next", |event| is_at(event, 1)).await;
    third.open_the_gate();
    second.open_the_gate();
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
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let (first, request) = at(&supervisor, &alpha, "alpha", "first").await;
    let mut running = alpha.start(request).await.unwrap();
    running.until_running("TestWaits").await;
    let (second, request) = at(&supervisor, &alpha, "alpha", "second").await;
    let waits = alpha.start(request).await.unwrap();
    let (third, request) = at(&supervisor, &alpha, "alpha", "third").await;
    let Err(refused) = alpha.start(request.clone()).await else { panic!("it began") };
    assert_used_up(&refused, "tenant_queued_runs");
    let (others, others_request) = at(&supervisor, &beta, "beta", "others").await;
    let other = beta.start(others_request).await.unwrap();
    for waiting in [first, second, third, others] {
        waiting.open_the_gate();
    }
    for followed in [running.to_end().await, waits.to_end().await, other.to_end().await] {
        assert_passed(&followed, 3);
    }
    // The session that was refused has room now, and knows of no run.
    assert_passed(&alpha.start(request).await.unwrap().to_end().await, 3);
}

#[tokio::test]
async fn streams_of_events_are_counted_until_they_are_dropped() {
    let supervisor =
        Supervisor::with(&Settings { tenant: "[tenant.quota]\nsubscribers = 2".to_owned(), ..Settings::default() });
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let (gate, request) = at(&supervisor, &alpha, "alpha", "watched").await;
    let mut running = alpha.start(request).await.unwrap();
    let run_id = running.until_running("TestWaits").await;
    let second = alpha.watch(&run_id, 0).await;
    let watch = WatchRunRequest { run_id: run_id.clone(), cursor: 0 };
    assert_used_up(&alpha.runs.clone().watch_run(watch).await.unwrap_err(), "subscribers");
    let wait = GetRunRequest { run_id: run_id.clone(), wait_ms: 1 };
    assert_used_up(&alpha.runs.clone().get_run(wait).await.unwrap_err(), "subscribers");
    alpha.get_run(&run_id, 0).await;
    let (others, request) = at(&supervisor, &beta, "beta", "others").await;
    let other = beta.start(request).await.unwrap();
    gate.open_the_gate();
    others.open_the_gate();
    for stream in [running, second, other] {
        assert_passed(&stream.to_end().await, 3);
    }
    assert_passed(&alpha.watch(&run_id, 0).await.to_end().await, 3);
}

#[tokio::test]
async fn a_flood_of_requests_is_told_when_to_come_again_and_hurts_nobody_else() {
    let supervisor = Supervisor::with(&Settings {
        tenant: "[tenant.quota]\nrequests_per_second = 5".to_owned(),
        ..Settings::default()
    });
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
    assert_used_up(&refused, "requests");
    assert_eq!(ask(&beta).await.code(), Code::PermissionDenied);
    tokio::time::sleep(refused.get_details_retry_info().unwrap().retry_delay.unwrap()).await;
    assert_eq!(ask(&alpha).await.code(), Code::PermissionDenied);
}
