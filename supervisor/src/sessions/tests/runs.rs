//! Requests and what becomes of them: runs that begin, wait, are joined and are cancelled, and what is kept of them.

use super::harness::{Do, World, command, outcome, start, within};
use crate::caches;
use crate::ops::audit;
use crate::runs::context::Policy;
use crate::runs::prepare::prepare;
use crate::runs::{FILE_BYTES_MIN, ReadError};
use crate::sessions::*;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::outcome::KillReason;
use proctor_frameworks::detect::DetectError;
use std::path::PathBuf;

async fn events(started: &Started, mut from: u64) -> Vec<(u64, &'static str)> {
    let mut seen = Vec::new();
    loop {
        let batch = within(started.handle.read(from)).await.unwrap();
        let Some(last) = batch.last() else { return seen };
        from = last.sequence + 1;
        seen.extend(batch.iter().map(|entry| (entry.sequence, name(&entry.event))));
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
async fn without_a_cache_directory_a_run_is_shown_none_of_the_hosts() {
    let world = World::new();
    let policy = Policy { cache: None, ..world.policy() };
    let (workspace, session) = (world.workspace(), SessionId::new("s"));
    let look = workspace.scan().unwrap();
    let request = command("a");
    let prepared =
        prepare(&world.context, &policy, &session, &workspace, &look, &request, RunKind::Tests).ok().unwrap();
    assert_eq!(prepared.spec.jail.writable, [""; 0].map(PathBuf::from));
    assert_eq!(prepared.env["GOCACHE"], "/tmp/proctor/cache/go-build");
}

#[tokio::test]
async fn caches_far_beyond_their_bound_take_in_no_further_run_until_those_that_use_them_have_ended() {
    let world = World::new();
    let policy = world.policy();
    let (cache, max) = (policy.cache.unwrap(), policy.cache_bytes_max);
    std::fs::create_dir(&cache).unwrap();
    let of_another_session = caches::lock_for_run(&cache).unwrap();
    std::fs::write(cache.with_extension("used"), format!("{} 0\n", 2 * max + 1)).unwrap();
    let session = world.open("s");
    let refused = within(session.start(command("a"), RunKind::Tests, IfBusy::Queue)).await.err();
    assert_eq!(refused, Some(SessionError::Quota(QuotaExceeded::Cache { max })));
    drop(of_another_session);
    let run = start(&session, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
}

/// Invariant 4: the actor never waits for a run.
#[tokio::test]
async fn questions_are_answered_while_a_run_goes_on() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    let status = within(session.status()).await.unwrap();
    assert_eq!((status.running, status.waiting), (Some(run.run.clone()), 0));
    assert_eq!(within(session.last_run(10)).await.unwrap(), None);
    assert_eq!(within(session.covering("a.go".into(), None)).await.unwrap(), None);
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
    assert_eq!(within(session.status()).await.unwrap().last, Some((run.run, Outcome::Passed)));
    assert_eq!(within(session.last_run(10)).await.unwrap().unwrap().outcome, Outcome::Passed);
}

/// Else who has many runs that take their time would keep everybody from sessions, looks and output.
#[test]
fn a_run_that_goes_on_takes_no_thread_from_those_who_look() {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build();
    threads.unwrap().block_on(async {
        let world = World::new();
        let (one, other) = (world.open("one"), world.open("other"));
        let runs = [start(&one, "a").await, start(&other, "a").await];
        // Behind a run that goes on, which takes a look of its own.
        let waits = start(&one, "b").await;
        (0..3).for_each(|_| world.tell(Do::Exit(0)));
        for run in runs.iter().chain([&waits]) {
            assert_eq!(outcome(run).await, Outcome::Passed);
        }
    });
}

#[tokio::test]
async fn an_identical_request_joins_and_reads_every_event_from_the_first() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    world.tell(Do::Write("hello\n"));
    let second = start(&session, "a").await;
    assert_eq!(second.run, first.run);
    assert!(second.attached_age_ms.is_some() && first.attached_age_ms.is_none());
    let third = start(&session, "b").await;
    assert_ne!(third.run, first.run);
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&second).await, Outcome::Passed);
    let all = events(&second, 0).await;
    // Progress is told of a run that takes longer than 250 ms, as any may on a busy host.
    let names: Vec<_> = all.iter().map(|(_, name)| *name).filter(|name| *name != "progress").collect();
    assert_eq!(names, ["queued", "started", "output", "finished"]);
    assert!(all.iter().map(|(sequence, _)| *sequence).eq(0..all.len() as u64));
    assert_eq!(events(&first, 2).await, all[2..]);
    let files = second.handle.files().await.unwrap();
    assert_eq!(files.read_output(Stream::Stdout, 1, 3).unwrap(), b"ell");
    world.tell(Do::Exit(1));
    assert_eq!(outcome(&third).await, Outcome::Failed);
}

#[tokio::test]
async fn a_waiting_run_that_is_cancelled_ends_with_a_report() {
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
async fn a_request_that_the_workspace_refuses_is_no_run_whether_it_would_wait_or_not() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&first).await, Outcome::Passed);
    let refused = || async {
        let request = RunRequest::default();
        within(session.start(request, RunKind::Tests, IfBusy::Queue)).await.err()
    };
    let no_project = SessionError::Prepare(DetectError::NoProject.into());
    // More of them than a session keeps runs.
    for _ in 0..20 {
        assert_eq!(refused().await.as_ref(), Some(&no_project));
    }
    let running = start(&session, "a").await;
    assert_eq!(refused().await, Some(no_project));
    let status = within(session.status()).await.unwrap();
    assert_eq!((status.running, status.waiting), (Some(running.run.clone()), 0));
    assert!(within(session.run(first.run.clone())).await.unwrap().is_some(), "nothing was forgotten for them");
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&running).await, Outcome::Passed);
}

#[tokio::test]
async fn a_run_without_a_turn_on_the_host_is_accepted_and_can_be_cancelled() {
    let world = World::new();
    let all = world.occupy().await;
    let session = world.open("s");
    let waiting = start(&session, "a").await;
    assert!(within(session.cancel(waiting.run.clone())).await.unwrap());
    assert_eq!(outcome(&waiting).await, Outcome::Cancelled);
    let waiting = start(&session, "a").await;
    drop(all);
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&waiting).await, Outcome::Passed);
}

/// One file each where a tenant may keep one and a half: one session forgets, and another cannot.
#[tokio::test]
async fn what_is_kept_of_ended_runs_is_bounded_for_the_whole_tenant() {
    // More than is kept in memory.
    let said: &'static str = "ten bytes\n".repeat(1_000).leak();
    let world = World::new();
    let policy = Arc::new(world.policy());
    let session_of = |name: &str| {
        let (id, context) = (SessionId::new(name), Arc::clone(&world.context));
        open(id, context, Arc::clone(&policy), world.workspace(), Memory::default()).0
    };
    let run = async |session: &SessionHandle, request: &str| {
        let run = start(session, request).await;
        world.tell(Do::Write(said));
        world.tell(Do::Exit(0));
        assert_eq!(outcome(&run).await, Outcome::Passed);
        run
    };
    let files = || policy.retained.bytes.now() / FILE_BYTES_MIN;
    let session = session_of("first");
    let first = run(&session, "a").await;
    let one = policy.retained.bytes.now();
    assert!((FILE_BYTES_MIN + 500..FILE_BYTES_MIN + 20_000).contains(&one), "events and report count: {one}");
    // Somebody follows it and takes nothing in.
    let following = tokio::spawn({
        let handle = first.handle.clone();
        async move { handle.read(1_000).await.map(|batch| batch.len()) }
    });
    assert_eq!(within(following).await.unwrap(), Ok(0));
    let second = run(&session, "b").await;
    assert_eq!(files(), 1, "the first made room for the second, although somebody holds its handle");
    assert!(matches!(first.handle.files().await, Err(ReadError::Forgotten)), "nobody holds its files");
    assert!(matches!(first.handle.read(0).await, Err(ReadError::Forgotten)));
    assert!(within(session.run(first.run)).await.unwrap().is_none());
    assert!(within(session.run(second.run)).await.unwrap().is_some());
    let other = session_of("other");
    let last = run(&other, "a").await;
    assert_eq!(files(), 2, "the last run of each session stays");
    let refused = within(other.start(command("b"), RunKind::Tests, IfBusy::Queue)).await.err();
    let full = SessionError::Quota(QuotaExceeded::KeptBytes { max: policy.retained.bytes_max });
    assert_eq!(refused.as_ref(), Some(&full));
    // The session is gone, and its run is not, for as long as somebody may read it.
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
async fn what_a_run_said_is_read_after_its_session_was_closed() {
    let world = World::new();
    let session = world.open("s");
    let run = start(&session, "a").await;
    world.tell(Do::Write("hello\n"));
    world.tell(Do::Exit(0));
    assert_eq!(outcome(&run).await, Outcome::Passed);
    within(session.close()).await;
    let files = within(run.handle.files()).await.unwrap();
    assert_eq!(files.read_output(Stream::Stdout, 0, 10).unwrap(), b"hello\n");
    assert_eq!(events(&run, 0).await.last().unwrap().1, "finished");
}

#[tokio::test]
async fn how_every_run_ended_is_in_the_audit_log() {
    let world = World::new();
    let session = world.open("s");
    let first = start(&session, "a").await;
    let second = start(&session, "b").await;
    let third = start(&session, "c").await;
    assert!(within(session.cancel(second.run.clone())).await.unwrap());
    world.tell(Do::Exit(1));
    assert_eq!(outcome(&first).await, Outcome::Failed);
    assert!(within(session.cancel(third.run.clone())).await.unwrap());
    assert_eq!(outcome(&third).await, Outcome::Cancelled);
    let told: Vec<_> = world
        .told()
        .into_iter()
        .map(|line| (line.event, line.run.unwrap().to_string(), line.outcome.unwrap()))
        .collect();
    let line = |run: &Started, outcome: &str| (audit::AuditEvent::RunFinished, run.run.to_string(), outcome.to_owned());
    assert_eq!(told, [line(&second, "cancelled"), line(&first, "failed"), line(&third, "cancelled")]);
    let lines = world.told();
    assert!(lines.iter().all(|line| line.tenant.as_deref() == Some("acme") && line.session.as_deref() == Some("s")));
    assert!(lines.iter().all(|line| line.limits.is_some() && line.duration_ms.is_some()));
    assert_eq!((lines[0].reason.as_deref(), lines[1].reason.as_deref()), (Some("cancelled"), None));
}
