//! Tests of runs: start, wait, attach, cancel, and retention of their results.

use super::harness::{Order, World, command, outcome, start, within};
use crate::caches;
use crate::ops::audit;
use crate::runs::ReadError;
use crate::runs::prepare::prepare;
use crate::sessions::*;
use crate::tenants::policy::Policy;
use proctor_core::bounds::RETAINED_FILE_BYTES_MIN;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::outcome::KillReason;
use proctor_core::quota::QuotaExceeded;
use proctor_frameworks::detection::DetectError;
use std::path::PathBuf;

async fn events(started: &StartedRun, mut from: u64) -> Vec<(u64, &'static str)> {
    let mut events = Vec::new();
    loop {
        let batch = within(started.handle.read(from)).await.unwrap();
        let Some(last) = batch.last() else { return events };
        from = last.sequence + 1;
        events.extend(batch.iter().map(|entry| (entry.sequence, name(&entry.event))));
    }
}

fn name(event: &RunEvent) -> &'static str {
    match event {
        RunEvent::Queued { .. } => "queued",
        RunEvent::Started { .. } => "started",
        RunEvent::Output { .. } => "output",
        RunEvent::Progress(_) => "progress",
        RunEvent::Finished(_) => "finished",
        _ => "other",
    }
}

#[tokio::test]
async fn a_run_without_a_cache_directory_sees_no_cache_of_the_host() {
    let world = World::new();
    let policy = Policy { cache: None, ..world.policy() };
    let (workspace, session) = (world.workspace(), SessionId::new("s"));
    let scan = workspace.scan().unwrap();
    let request = command("a");
    let prepared =
        prepare(&world.context, &policy, &session, &workspace, &scan, &request, RunKind::Tests).ok().unwrap();
    assert_eq!(prepared.spec.jail.writable, [""; 0].map(PathBuf::from));
    assert_eq!(prepared.env["GOCACHE"], "/tmp/proctor/cache/go-build");
}

#[tokio::test]
async fn rejects_runs_while_caches_exceed_twice_their_bound_and_are_in_use() {
    let world = World::new();
    let policy = world.policy();
    let (cache, max) = (policy.cache.unwrap(), policy.cache_bytes_max);
    std::fs::create_dir(&cache).unwrap();
    let other_session = caches::lock_for_run(&cache).unwrap();
    std::fs::write(cache.with_extension("used"), format!("{} 0\n", 2 * max + 1)).unwrap();
    let session = world.open("s");
    let refused = within(session.start(command("a"), RunKind::Tests, IfBusy::Queue)).await.err();
    assert_eq!(refused, Some(SessionError::Rejected(StartRejected::Quota(QuotaExceeded::Cache { max }))));
    drop(other_session);
    let run = start(&session, "a").await;
    world.order(Order::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

/// Invariant 4: the actor never waits for a run.
#[tokio::test]
async fn answers_queries_while_a_run_is_in_progress() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let status = within(session.status()).await.unwrap();
    assert_eq!((status.running, status.waiting), (Some(run.run.clone()), 0));
    assert_eq!(within(session.last_run(0, 10)).await.unwrap(), None);
    assert_eq!(within(session.covering("a.go".into(), None)).await.unwrap(), None);
    world.order(Order::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
    assert_eq!(within(session.status()).await.unwrap().last, Some((run.run, Outcome::Passed)));
    assert_eq!(within(session.last_run(0, 10)).await.unwrap().unwrap().outcome, Outcome::Passed);
}

/// Otherwise a tenant with many long runs could keep all callers from sessions, scans and output.
#[test]
fn a_running_run_uses_no_blocking_thread() {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build();
    threads.unwrap().block_on(async {
        let world = World::new();
        let (one, other) = (world.open("one"), world.open("other"));
        let runs = [start(&one, "a").await, start(&other, "a").await];
        // Waits behind a running run, and needs a scan of its own.
        let waits = start(&one, "b").await;
        (0..3).for_each(|_| world.order(Order::Exit(0)));
        for run in runs.iter().chain([&waits]) {
            assert_eq!(outcome(run).await, Outcome::Passed);
        }
    });
}

#[tokio::test]
async fn an_identical_request_attaches_and_reads_every_event() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    world.order(Order::Write("hello\n"));
    let second = start(&session, "a").await;
    assert_eq!(second.run, first.run);
    assert!(second.attached_age_ms.is_some() && first.attached_age_ms.is_none());
    let third = start(&session, "b").await;
    assert_ne!(third.run, first.run);
    world.order(Order::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
    let all = events(&second, 0).await;
    // Progress is emitted for a run of more than 250 ms, as any may be on a busy host.
    let names: Vec<_> = all.iter().map(|(_, name)| *name).filter(|name| *name != "progress").collect();
    assert_eq!(names, ["queued", "started", "output", "finished"]);
    assert!(all.iter().map(|(sequence, _)| *sequence).eq(0..all.len() as u64));
    assert_eq!(events(&first, 2).await, all[2..]);
    let files = second.handle.files().await.unwrap();
    assert_eq!(files.read_output(Stream::Stdout, 1, 3).unwrap(), b"ell");
    world.order(Order::Exit(1));
    assert_eq!(outcome(&third).await, Outcome::Failed);
}

#[tokio::test]
async fn a_cancelled_waiting_run_ends_with_a_report() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    assert!(within(session.cancel(second.run.clone())).await.unwrap());
    assert_eq!(outcome(&second).await, Outcome::Cancelled);
    assert!(within(session.cancel(first.run.clone())).await.unwrap());
    assert_eq!(outcome(&first).await, Outcome::Cancelled);
    assert_eq!(world.killed_because().await, KillReason::Cancelled);
    assert!(!within(session.cancel(RunId::new("s-99"))).await.unwrap());
}

#[tokio::test]
async fn a_request_that_the_workspace_rejects_becomes_no_run() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    world.order(Order::Exit(0));
    assert_eq!(outcome(&first).await, Outcome::Passed);
    let refused = || async {
        let request = RunRequest::default();
        within(session.start(request, RunKind::Tests, IfBusy::Queue)).await.err()
    };
    let no_project = SessionError::Prepare(DetectError::NoProject.into());
    // More requests than a session keeps runs.
    for _ in 0..20 {
        assert_eq!(refused().await.as_ref(), Some(&no_project));
    }
    let running = start(&session, "a").await;
    assert_eq!(refused().await, Some(no_project));
    let status = within(session.status()).await.unwrap();
    assert_eq!((status.running, status.waiting), (Some(running.run.clone()), 0));
    assert!(within(session.run(first.run.clone())).await.unwrap().is_some(), "no run was forgotten for them");
    world.order(Order::Exit(0));
    assert_eq!(outcome(&running).await, Outcome::Passed);
}

#[tokio::test]
async fn accepts_a_run_without_a_free_slot_and_can_cancel_it() {
    let world = World::new();
    let all = world.occupy().await;
    let session = world.open("s");
    let waiting = start(&session, "a").await;
    assert!(within(session.cancel(waiting.run.clone())).await.unwrap());
    assert_eq!(outcome(&waiting).await, Outcome::Cancelled);
    let waiting = start(&session, "a").await;
    drop(all);
    world.order(Order::Exit(0));
    assert_eq!(outcome(&waiting).await, Outcome::Passed);
}

/// One file per run where the tenant may keep one and a half: one session forgets a run, and the other cannot.
#[tokio::test]
async fn bounds_the_retained_results_of_a_whole_tenant() {
    // More output than is kept in memory.
    let output: &'static str = "ten bytes\n".repeat(1_000).leak();
    let world = World::new();
    let policy = CurrentPolicy::from(world.policy());
    let open_session = |name: &str| {
        let (id, context) = (SessionId::new(name), Arc::clone(&world.context));
        open(id, context, policy.clone(), world.workspace(), SessionMemory::default()).0
    };
    let run = async |session: &SessionHandle, request: &str| {
        let run = start(session, request).await;
        world.order(Order::Write(output));
        world.order(Order::Exit(0));
        assert_eq!(outcome(&run).await, Outcome::Passed);
        run
    };
    let files = || policy.usage.retained.bytes.now() / RETAINED_FILE_BYTES_MIN;
    let session = open_session("first");
    let first = run(&session, "a").await;
    let one = policy.usage.retained.bytes.now();
    assert!(
        (RETAINED_FILE_BYTES_MIN + 500..RETAINED_FILE_BYTES_MIN + 20_000).contains(&one),
        "events and report count: {one}"
    );
    // A client follows the run and reads nothing.
    let following = tokio::spawn({
        let handle = first.handle.clone();
        async move { handle.read(1_000).await.map(|batch| batch.len()) }
    });
    assert_eq!(within(following).await.unwrap(), Ok(0));
    let second = run(&session, "b").await;
    assert_eq!(files(), 1, "the first run was forgotten for the second, although a client holds its handle");
    assert!(matches!(first.handle.files().await, Err(ReadError::Forgotten)), "its files are gone");
    assert!(matches!(first.handle.read(0).await, Err(ReadError::Forgotten)));
    assert!(within(session.run(first.run)).await.unwrap().is_none());
    assert!(within(session.run(second.run)).await.unwrap().is_some());
    let other = open_session("other");
    let last = run(&other, "a").await;
    assert_eq!(files(), 2, "the last run of each session stays");
    let refused = within(other.start(command("b"), RunKind::Tests, IfBusy::Queue)).await.err();
    let full = SessionError::Rejected(StartRejected::Quota(QuotaExceeded::RetainedBytes {
        max: policy.now().quota.retained_bytes_max,
    }));
    assert_eq!(refused.as_ref(), Some(&full));
    // The session is gone, but its run stays while a client may read it.
    within(other.close()).await;
    assert!(last.handle.files().await.is_ok());
    assert_eq!(files(), 2);
    let refused = within(session.start(command("b"), RunKind::Tests, IfBusy::Queue)).await.err();
    assert_eq!(refused.as_ref(), Some(&full));
    drop(last);
    within(async {
        while files() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run(&session, "b").await;
    assert_eq!(files(), 1);
}

#[tokio::test]
async fn reads_the_output_of_a_run_after_its_session_was_closed() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    world.order(Order::Write("hello\n"));
    world.order(Order::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
    within(session.close()).await;
    let files = within(run.handle.files()).await.unwrap();
    assert_eq!(files.read_output(Stream::Stdout, 0, 10).unwrap(), b"hello\n");
    assert_eq!(events(&run, 0).await.last().unwrap().1, "finished");
}

#[tokio::test]
async fn records_the_end_of_every_run_in_the_audit_log() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    let third = start(&session, "c").await;
    assert!(within(session.cancel(second.run.clone())).await.unwrap());
    world.order(Order::Exit(1));
    assert_eq!(outcome(&first).await, Outcome::Failed);
    assert!(within(session.cancel(third.run.clone())).await.unwrap());
    assert_eq!(outcome(&third).await, Outcome::Cancelled);
    let ends: Vec<_> = world
        .audit_records()
        .into_iter()
        .map(|record| (record.event, record.run.unwrap().to_string(), record.outcome.unwrap()))
        .collect();
    let end =
        |run: &StartedRun, outcome: &str| (audit::AuditEvent::RunFinished, run.run.to_string(), outcome.to_owned());
    assert_eq!(ends, [end(&second, "cancelled"), end(&first, "failed"), end(&third, "cancelled")]);
    let records = world.audit_records();
    assert!(
        records.iter().all(|record| record.tenant.as_deref() == Some("acme") && record.session.as_deref() == Some("s"))
    );
    assert!(records.iter().all(|record| record.limits.is_some() && record.duration_ms.is_some()));
    assert_eq!((records[0].reason.as_deref(), records[1].reason.as_deref()), (Some("cancelled"), None));
}
