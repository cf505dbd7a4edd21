//! Tests of the registry: tenants, quotas, shared sessions and the end of sessions.

use super::harness::{Sink, TestRegistry, World, eventually, outcome, refused, start, tenant, within};
use crate::sessions::limits::SessionLimits;
use crate::sessions::registry::{CreateError, close_all};
use crate::sessions::*;
use proctor_core::isolation::Isolation;
use proctor_sandbox::{Ending, KillSwitch, RunSpec, Sandbox, SandboxError, SandboxEvent};
use std::sync::Barrier;

#[tokio::test]
async fn keeps_tenants_apart_and_enforces_quotas() {
    let world = World::new();
    let bounds = SessionLimits { sessions_max: 4, ..SessionLimits::default() };
    let (registry, workspace) = (TestRegistry::with(&world, bounds), world.workspace());
    let (ours, theirs) = (tenant(&world, 1, 2), tenant(&world, 2, 3));
    let (first, _) = registry.open(&ours, &workspace, "key", true).await.unwrap();
    let (same, existing) = registry.open(&ours, &workspace, "key", true).await.unwrap();
    assert_eq!((first.id(), existing), (same.id(), true));
    let (foreign, _) = registry.open(&theirs, &workspace, "key", true).await.unwrap();
    assert_ne!(first.id(), foreign.id());
    registry.separate(&ours, &workspace).await;
    let again = registry.open(&ours, &workspace, "", true).await;
    assert_eq!(refused(again), CreateError::TooMany { max: 2 });
    assert!(registry.handle.find(theirs.id.clone(), first.id().clone()).await.is_none());
    assert!(registry.handle.find(ours.id.clone(), first.id().clone()).await.is_some());
    assert_eq!(registry.handle.list(ours.id.clone(), String::new(), 10).await.len(), 2);
    first.close().await;
    assert!(registry.handle.find(ours.id.clone(), first.id().clone()).await.is_none());
    let (replaced, existing) = registry.open(&ours, &workspace, "key", true).await.unwrap();
    assert!(!existing, "the request of a closed session opens a new one");
    assert_ne!(replaced.id(), first.id());

    // The host's own bound applies to all tenants.
    registry.separate(&theirs, &workspace).await;
    assert_eq!(refused(registry.open(&theirs, &workspace, "", true).await), CreateError::HostFull);
    foreign.close().await;
    let last = registry.separate(&theirs, &workspace).await;
    let closed = within(registry.handle.drain(std::future::ready(()))).await;
    assert_eq!(closed, ClosedRuns::default());
    assert!(replaced.is_gone() && last.is_gone());
    assert_eq!(refused(registry.open(&ours, &workspace, "", false).await), CreateError::Draining);
    eventually(&registry, 0).await;
}

/// Its runs end together: each waits after its kill until all others are killed.
struct BarrierSandbox(Arc<Barrier>);

impl Sandbox for BarrierSandbox {
    fn run(&self, _spec: &RunSpec, kill: &KillSwitch, sink: Sink<'_>) -> Result<Ending, SandboxError> {
        sink(SandboxEvent::Started { isolation: Isolation::default() });
        sink(SandboxEvent::CommandStarted { index: 0 });
        let killed = kill.wait(Duration::from_secs(60));
        self.0.wait();
        Ok(Ending { killed, ..Ending::default() })
    }
}

/// Otherwise a session whose run ends slowly would keep the others open, and the next SIGHUP waiting.
#[tokio::test]
async fn closes_sessions_concurrently() {
    let world = World::with(BarrierSandbox(Arc::new(Barrier::new(2))));
    let sessions = [world.open("one"), world.open("other")];
    let runs = [start(&sessions[0], "a").await, start(&sessions[1], "a").await];
    assert_eq!(within(close_all(sessions.to_vec())).await, ClosedRuns { finished: 0, cancelled: 2 });
    for run in &runs {
        assert_eq!(outcome(run).await, Outcome::Cancelled);
    }
}

/// Its run ends slowly: until then the session exists and accepts nothing.
#[tokio::test]
async fn does_not_return_a_session_that_is_being_closed() {
    let barrier = Arc::new(Barrier::new(2));
    let world = World::with(BarrierSandbox(Arc::clone(&barrier)));
    let (registry, workspace, ours) =
        (TestRegistry::with(&world, SessionLimits::default()), world.workspace(), tenant(&world, 1, 9));
    let (first, _) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    let run = start(&first, "a").await;
    let closing = tokio::spawn({
        let first = first.clone();
        async move { first.close().await }
    });
    within(async {
        while !first.is_closing() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(first.is_answering());
    let (next, existing) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    assert!(!existing && next.id() != first.id());
    tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
    assert_eq!(within(closing).await.unwrap(), ClosedRuns { finished: 0, cancelled: 1 });
    assert_eq!(outcome(&run).await, Outcome::Cancelled);
    let (again, existing) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    assert_eq!((again.id(), existing), (next.id(), true), "the end of the first session does not affect the next");
}

#[tokio::test]
async fn the_request_of_an_ended_session_finds_the_shared_one() {
    let world = World::new();
    let (registry, workspace, ours) =
        (TestRegistry::with(&world, SessionLimits::default()), world.workspace(), tenant(&world, 1, 9));
    let (broken, _) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    // A crashed session stays for its answers about its runs.
    within(broken.panic()).await;
    let (shared, existing) = registry.open(&ours, &workspace, "", false).await.unwrap();
    assert!(!existing && shared.id() != broken.id());
    let (again, existing) = registry.open(&ours, &workspace, "key", false).await.unwrap();
    assert_eq!((again.id(), existing), (shared.id(), true));
    let (own, existing) = registry.open(&ours, &workspace, "key", true).await.unwrap();
    assert!(!existing && own.id() != shared.id(), "a request for a separate session does not get the shared one");
}

#[tokio::test]
async fn callers_of_a_tenant_share_a_session_per_workspace_unless_separate() {
    let world = World::new();
    let (registry, workspace) = (TestRegistry::with(&world, SessionLimits::default()), world.workspace());
    let (ours, theirs) = (tenant(&world, 1, 9), tenant(&world, 2, 9));
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = Workspace::open(elsewhere.path()).unwrap();
    let own = registry.separate(&ours, &workspace).await;
    let (shared, existing) = registry.open(&ours, &workspace, "", false).await.unwrap();
    assert!(!existing && shared.id() != own.id(), "a separate session is not shared");
    for key in ["", "a", "b"] {
        let (again, existing) = registry.open(&ours, &workspace, key, false).await.unwrap();
        assert_eq!((again.id(), existing), (shared.id(), true), "{key}");
    }
    let others =
        [registry.open(&theirs, &workspace, "", false).await, registry.open(&ours, &elsewhere, "", false).await];
    for other in others {
        let (other, existing) = other.unwrap();
        assert!(!existing && other.id() != shared.id());
    }
    // Its end frees the workspace for the next, whichever message is handled first.
    shared.close().await;
    let (next, existing) = registry.open(&ours, &workspace, "", false).await.unwrap();
    assert!(!existing && next.id() != shared.id());
    eventually(&registry, 4).await;
    let (again, existing) = registry.open(&ours, &workspace, "", false).await.unwrap();
    assert_eq!((again.id(), existing), (next.id(), true));
}

#[tokio::test]
async fn the_sessions_of_a_workspace_share_one_descriptor() {
    let world = World::new();
    let (registry, workspace) = (TestRegistry::with(&world, SessionLimits::default()), tempfile::tempdir().unwrap());
    let (ours, there) = (tenant(&world, 1, 9), workspace.path().canonicalize().unwrap());
    let descriptors = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == there)).count()
    };
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(registry.separate(&ours, &Workspace::open(workspace.path()).unwrap()).await);
    }
    assert_eq!(descriptors(), 1);
    for session in sessions.drain(..) {
        session.close().await;
    }
    eventually(&registry, 0).await;
    assert_eq!(descriptors(), 0);
}
