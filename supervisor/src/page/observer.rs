//! What a supervisor does at one moment, asked of its actors as an operator's calls do, once for all viewers. One task does
//! it, at most once a second, only while somebody looks.

use crate::grpc::{Api, host_service};
use crate::runs::scheduler::SchedulerUsage;
use crate::runs::{Phase, RunHandle, Snapshot};
use crate::sessions::registry::TenantSessions;
use crate::sessions::{LastResult, SessionHandle};
use crate::tenants::Tenant;
use proctor_core::bounds::OBSERVED_SESSIONS_MAX;
use proctor_core::id::{RunId, SessionId, TenantId};
use proctor_core::limits::Limits;
use proctor_core::outcome::Outcome;
use proctor_core::timestamp::Timestamp;
use proctor_proto::v1;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

/// Shortest time between two observations: what a person can follow.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// The pause after an observation is this many times what it took, so that a host of many sessions spends some
/// twentieth of a processor on viewers, as long as [`PAUSE_MAX`] allows.
const PAUSE_FACTOR: u32 = 20;

/// Longest pause: what a person waits for on a host that is slow to answer.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a supervisor does at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Observation {
    pub(super) at: Timestamp,
    pub(super) started_at: Timestamp,
    /// Time until active runs are cancelled; `None` unless the supervisor drains.
    pub(super) drains_within_ms: Option<u64>,
    /// Why the host runs nothing.
    pub(super) trouble: Option<String>,
    pub(super) scheduler: SchedulerUsage,
    pub(super) tenants: Vec<TenantObservation>,
    pub(super) sessions: Vec<SessionObservation>,
    /// How many sessions a tenant has of whose idle ones only a part was asked.
    pub(super) cut: BTreeMap<TenantId, u64>,
    pub(super) runs: Vec<RunObservation>,
}

/// What a tenant may use, and what it uses beside its sessions and runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TenantObservation {
    pub(super) tenant: TenantId,
    pub(super) usage: v1::TenantUsage,
    /// Ended runs of tests by outcome, since the supervisor started; none without any.
    pub(super) outcomes: Vec<(Outcome, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionObservation {
    pub(super) tenant: TenantId,
    pub(super) session: SessionId,
    /// Name of the workspace's directory.
    pub(super) workspace: String,
    pub(super) is_running: bool,
    pub(super) waiting: usize,
    pub(super) used_at: Timestamp,
    pub(super) last: Option<EndedRun>,
}

/// The last run of tests of a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EndedRun {
    pub(super) run: RunId,
    pub(super) outcome: Outcome,
    /// Tests, failed tests, end and framework; `None` for a run without a report.
    pub(super) result: Option<LastResult>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunObservation {
    pub(super) tenant: TenantId,
    pub(super) run: RunId,
    pub(super) workspace: String,
    pub(super) accepted_at: Timestamp,
    /// Whether it waits for a turn.
    pub(super) is_queued: bool,
    pub(super) tests_finished: u64,
    pub(super) tests_total: Option<u64>,
    pub(super) tests_failed: u64,
    pub(super) memory_bytes: Option<u64>,
    /// Once its runner has started.
    pub(super) limits: Option<Limits>,
    /// One of the running tests.
    pub(super) test: Option<String>,
}

/// A handle to the task. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Observer {
    observations: Arc<watch::Sender<Option<Arc<Observation>>>>,
    wake: Arc<Notify>,
}

impl Observer {
    pub(super) fn start(api: Api) -> Observer {
        let observer = Observer { observations: Arc::new(watch::Sender::new(None)), wake: Arc::default() };
        tokio::spawn(observer.clone().serve(api));
        observer
    }

    /// The last observation, if others look already, and those from now on; `None` until the first one.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Arc<Observation>>> {
        let mut observations = self.observations.subscribe();
        observations.mark_changed();
        self.wake.notify_one();
        observations
    }

    async fn serve(self, api: Api) {
        loop {
            while self.observations.receiver_count() == 0 {
                // The next viewer gets nothing old.
                self.observations.send_replace(None);
                self.wake.notified().await;
            }
            let began = Instant::now();
            let observation = observe(&api).await;
            self.observations.send_replace(Some(Arc::new(observation)));
            sleep((began.elapsed() * PAUSE_FACTOR).clamp(PERIOD_MIN, PAUSE_MAX)).await;
        }
    }
}

async fn observe(api: &Api) -> Observation {
    let clock = api.context.clock;
    let scheduler = api.context.scheduler.usage().await.unwrap_or_default();
    let tenants = api.access.borrow().tenants.all().iter().map(|tenant| observe_tenant(tenant)).collect();
    let (mut sessions, mut runs, mut cut) = (Vec::new(), Vec::new(), BTreeMap::new());
    let open = api.registry.sessions_by_tenant().await;
    let shares = fair_shares(&open.iter().map(|tenant| tenant.sessions).collect::<Vec<_>>(), OBSERVED_SESSIONS_MAX);
    for (TenantSessions { tenant, sessions: total, busy }, share) in open.into_iter().zip(shares) {
        let some = api.registry.list(tenant.clone(), String::new(), share).await;
        for session in busy_and_some(busy, some, share) {
            if session.is_busy() {
                runs.extend(observe_runs(&tenant, &session).await);
            }
            // A session that has ended in the meantime is left out.
            sessions.extend(observe_session(tenant.clone(), &session).await);
        }
        if share < total {
            cut.insert(tenant, total as u64);
        }
    }
    let at = clock.now();
    Observation {
        at,
        started_at: Timestamp(at.0.saturating_sub(clock.elapsed_ms())),
        drains_within_ms: api
            .drain
            .has_begun()
            .then(|| u64::try_from(api.drain.remaining().as_millis()).unwrap_or(u64::MAX)),
        trouble: api.context.host.trouble().0.map(|(why, _)| why),
        scheduler,
        tenants,
        sessions,
        cut,
        runs,
    }
}

// How many of its sessions each tenant has among `max`: all of them, or else the same number as others with many.
fn fair_shares(sessions: &[usize], max: usize) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..sessions.len()).collect();
    by_size.sort_unstable_by_key(|index| sessions[*index]);
    let (mut shares, mut left) = (vec![0; sessions.len()], max);
    for (place, index) in by_size.into_iter().enumerate() {
        shares[index] = sessions[index].min(left / (sessions.len() - place));
        left -= shares[index];
    }
    shares
}

// All busy sessions, also where they are more than the share, and others up to it.
fn busy_and_some(busy: Vec<SessionHandle>, some: Vec<SessionHandle>, share: usize) -> Vec<SessionHandle> {
    let known: HashSet<SessionId> = busy.iter().map(|session| session.id().clone()).collect();
    let others = share.saturating_sub(busy.len());
    busy.into_iter().chain(some.into_iter().filter(|session| !known.contains(session.id())).take(others)).collect()
}

fn observe_tenant(tenant: &Tenant) -> TenantObservation {
    TenantObservation {
        tenant: tenant.id.clone(),
        usage: host_service::usage(tenant),
        outcomes: tenant.usage.runs.counts().filter(|(_, count)| *count > 0).collect(),
    }
}

async fn observe_session(tenant: TenantId, session: &SessionHandle) -> Option<SessionObservation> {
    let status = session.status().await.ok()?;
    Some(SessionObservation {
        tenant,
        session: session.id().clone(),
        workspace: workspace_name(session),
        is_running: status.running.is_some(),
        waiting: status.waiting,
        used_at: status.used_at,
        last: status.last.map(|(run, outcome)| EndedRun { run, outcome, result: status.last_result }),
    })
}

async fn observe_runs(tenant: &TenantId, session: &SessionHandle) -> Vec<RunObservation> {
    let mut runs = Vec::new();
    for (run, handle) in session.unfinished().await.unwrap_or_default() {
        runs.extend(observe_run(tenant, session, run, &handle).await);
    }
    runs
}

// A run without a snapshot has ended since its session was asked.
async fn observe_run(
    tenant: &TenantId,
    session: &SessionHandle,
    run: RunId,
    handle: &RunHandle,
) -> Option<RunObservation> {
    let Snapshot { phase, progress, limits, .. } = handle.snapshot().await.ok()?;
    (phase != Phase::Finished).then(|| RunObservation {
        tenant: tenant.clone(),
        run,
        workspace: workspace_name(session),
        accepted_at: handle.accepted_at,
        is_queued: matches!(phase, Phase::Queued { .. }),
        tests_finished: progress.tests_finished,
        tests_total: progress.tests_total,
        tests_failed: progress.tests_failed,
        memory_bytes: progress.memory_bytes,
        limits,
        test: progress.running.map(|test| test.full_name()),
    })
}

// The last part of the path: the rest is the host's, and the same for all workspaces of a tenant.
fn workspace_name(session: &SessionHandle) -> String {
    session.workspace().root().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_a_share_whatever_its_name_and_the_sessions_of_others() {
        assert!(fair_shares(&[], 10).is_empty());
        assert_eq!(fair_shares(&[3, 2, 1], 10), [3, 2, 1], "all, where there is room");
        assert_eq!(fair_shares(&[100_000, 5, 0], 20), [15, 5, 0]);
        assert_eq!(fair_shares(&[50, 4, 50, 50], 34), [10, 4, 10, 10]);
        let many = fair_shares(&[1_000; 100], 20_000);
        assert!(many.iter().all(|share| *share == 200), "{many:?}");
        assert_eq!(fair_shares(&[9, 9, 9], 2).iter().sum::<usize>(), 2);
    }
}
