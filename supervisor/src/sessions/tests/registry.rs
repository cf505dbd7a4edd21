//! Which session a caller gets: its tenant's, within the quotas, until the supervisor ends.

use super::harness::{Book, Sink, World, eventually, outcome, refused, start, tenant, within};
use crate::sessions::limits::SessionLimits;
use crate::sessions::registry::{CreateError, close_all};
use crate::sessions::*;
use proctor_core::isolation::Isolation;
use proctor_sandbox::{Ending, KillSwitch, RunSpec, Sandbox, SandboxError, SandboxEvent};
use std::sync::Barrier;

#[tokio::test]
async fn the_registry_keeps_tenants_apart_and_quotas() {
    let world = World::new();
    let bounds = SessionLimits { sessions_max: 4, ..SessionLimits::default() };
    let (book, place) = (Book::with(&world, bounds), world.workspace());
    let (ours, theirs) = (tenant(&world, 1, 2), tenant(&world, 2, 3));
    let (first, _) = book.open(&ours, &place, "key", true).await.unwrap();
    let (same, existing) = book.open(&ours, &place, "key", true).await.unwrap();
    assert_eq!((first.id(), existing), (same.id(), true));
    let (foreign, _) = book.open(&theirs, &place, "key", true).await.unwrap();
    assert_ne!(first.id(), foreign.id());
    book.separate(&ours, &place).await;
    let again = book.open(&ours, &place, "", true).await;
    assert_eq!(refused(again), CreateError::TooMany { max: 2 });
    let registry = &book.registry;
    assert!(registry.find(theirs.id.clone(), first.id().clone()).await.is_none());
    assert!(registry.find(ours.id.clone(), first.id().clone()).await.is_some());
    assert_eq!(registry.list(ours.id.clone(), String::new(), 10).await.len(), 2);
    first.close().await;
    assert!(registry.find(ours.id.clone(), first.id().clone()).await.is_none());
    let (replaced, existing) = book.open(&ours, &place, "key", true).await.unwrap();
    assert!(!existing, "a closed session is not found again by its request");
    assert_ne!(replaced.id(), first.id());

    // The host's own bound holds whoever asks.
    book.separate(&theirs, &place).await;
    assert_eq!(refused(book.open(&theirs, &place, "", true).await), CreateError::HostFull);
    foreign.close().await;
    let last = book.separate(&theirs, &place).await;
    let closed = within(registry.drain(std::future::ready(()))).await;
    assert_eq!(closed, ClosedRuns::default());
    assert!(replaced.is_gone() && last.is_gone());
    assert_eq!(refused(book.open(&ours, &place, "", false).await), CreateError::Draining);
    eventually(&book, 0).await;
}

/// Its runs end when all of them are killed, and whoever else waits for that is there.
struct Together(Arc<Barrier>);

impl Sandbox for Together {
    fn run(&self, _spec: &RunSpec, kill: &KillSwitch, sink: Sink<'_>) -> Result<Ending, SandboxError> {
        sink(SandboxEvent::Started { isolation: Isolation::default() });
        sink(SandboxEvent::CommandStarted { index: 0 });
        let killed = kill.wait(Duration::from_secs(60));
        self.0.wait();
        Ok(Ending { killed, ..Ending::default() })
    }
}

/// Else one whose run is slow to end would keep the others open, and the next SIGHUP waiting.
#[tokio::test]
async fn sessions_that_are_closed_together_do_not_wait_for_each_other() {
    let world = World::with(Together(Arc::new(Barrier::new(2))));
    let sessions = [world.open("one"), world.open("other")];
    let runs = [start(&sessions[0], "a").await, start(&sessions[1], "a").await];
    assert_eq!(within(close_all(sessions.to_vec())).await, ClosedRuns { finished: 0, cancelled: 2 });
    for run in &runs {
        assert_eq!(outcome(run).await, Outcome::Cancelled);
    }
}

/// Its run is slow to end: until then it is there, and takes on nothing.
#[tokio::test]
async fn a_session_that_is_being_closed_is_nobodys_next_one() {
    let barrier = Arc::new(Barrier::new(2));
    let world = World::with(Together(Arc::clone(&barrier)));
    let (book, place, ours) = (Book::with(&world, SessionLimits::default()), world.workspace(), tenant(&world, 1, 9));
    let (first, _) = book.open(&ours, &place, "key", false).await.unwrap();
    let run = start(&first, "a").await;
    let closing = tokio::spawn({
        let first = first.clone();
        async move { first.close().await }
    });
    within(async {
        while !first.is_ending() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(first.is_there());
    let (next, existing) = book.open(&ours, &place, "key", false).await.unwrap();
    assert!(!existing && next.id() != first.id());
    tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
    assert_eq!(within(closing).await.unwrap(), ClosedRuns { finished: 0, cancelled: 1 });
    assert_eq!(outcome(&run).await, Outcome::Cancelled);
    let (again, existing) = book.open(&ours, &place, "key", false).await.unwrap();
    assert_eq!((again.id(), existing), (next.id(), true), "the end of the first takes nothing of the next along");
}

#[tokio::test]
async fn a_request_whose_session_has_ended_finds_the_one_that_all_share() {
    let world = World::new();
    let (book, place, ours) = (Book::with(&world, SessionLimits::default()), world.workspace(), tenant(&world, 1, 9));
    let (broken, _) = book.open(&ours, &place, "key", false).await.unwrap();
    // It stays for what it says of its runs.
    within(broken.panic()).await;
    let (shared, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert!(!existing && shared.id() != broken.id());
    let (again, existing) = book.open(&ours, &place, "key", false).await.unwrap();
    assert_eq!((again.id(), existing), (shared.id(), true));
    let (own, existing) = book.open(&ours, &place, "key", true).await.unwrap();
    assert!(!existing && own.id() != shared.id(), "whoever wants one of their own does not get that");
}

#[tokio::test]
async fn callers_of_a_tenant_share_the_session_of_a_workspace_unless_they_want_their_own() {
    let world = World::new();
    let (book, place) = (Book::with(&world, SessionLimits::default()), world.workspace());
    let (ours, theirs) = (tenant(&world, 1, 9), tenant(&world, 2, 9));
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = Workspace::open(elsewhere.path()).unwrap();
    let own = book.separate(&ours, &place).await;
    let (shared, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert!(!existing && shared.id() != own.id(), "a separate one is nobody else's");
    for key in ["", "a", "b"] {
        let (again, existing) = book.open(&ours, &place, key, false).await.unwrap();
        assert_eq!((again.id(), existing), (shared.id(), true), "{key}");
    }
    let others = [book.open(&theirs, &place, "", false).await, book.open(&ours, &elsewhere, "", false).await];
    for other in others {
        let (other, existing) = other.unwrap();
        assert!(!existing && other.id() != shared.id());
    }
    // Its end makes room for the next, whichever is taken in first.
    shared.close().await;
    let (next, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert!(!existing && next.id() != shared.id());
    eventually(&book, 4).await;
    let (again, existing) = book.open(&ours, &place, "", false).await.unwrap();
    assert_eq!((again.id(), existing), (next.id(), true));
}

#[tokio::test]
async fn the_sessions_of_a_workspace_take_one_descriptor() {
    let world = World::new();
    let (book, place) = (Book::with(&world, SessionLimits::default()), tempfile::tempdir().unwrap());
    let (ours, there) = (tenant(&world, 1, 9), place.path().canonicalize().unwrap());
    let descriptors = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == there)).count()
    };
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(book.separate(&ours, &Workspace::open(place.path()).unwrap()).await);
    }
    assert_eq!(descriptors(), 1);
    for session in sessions.drain(..) {
        session.close().await;
    }
    eventually(&book, 0).await;
    assert_eq!(descriptors(), 0);
}
