//! Workspace scans of a session: whether requests can be carried out, and whether they equal the running run. One scan
//! at a time serves everything that arrived before it started.

use super::{SessionError, SessionShared, StartRequest, StartedRun};
use crate::caches;
use crate::history::WorkspaceKey;
use crate::runs::context::ScanPermit;
use crate::runs::prepare::{AffectedRun, PrepareError, ReadyRun, prepare};
use crate::runs::{affected_tests, changed_since, other_tool, request_for, tools_of};
use crate::telemetry::traces::run::ScanTrace;
use crate::tenants::policy::Policy;
use crate::workspace::WorkspaceScan;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proctor_core::id::RunId;
use proctor_core::quota::QuotaExceeded;
use proctor_core::request::{CoverageMode, EarlierState, Fingerprint, RequestedCheck, RunKind, RunRequest};
use proctor_core::selection::{AffectedTests, FullReason};
use proctor_core::session::SessionKnowledge;
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::PlanError;
use proctor_frameworks::checks::NoChecker;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};

/// Most requests that may wait for a scan: as many as may wait for a run.
const WAITING_MAX: usize = 1_024;

/// Sends the result of a start to its caller.
pub(super) type Reply = oneshot::Sender<Result<StartedRun, SessionError>>;

/// What a scan is for.
pub(super) enum ScanFor {
    /// A request that has not been decided.
    Request { start: Box<StartRequest>, reply: Reply },
    /// A run that has waited in its session and is the next to run.
    Run(RunId),
}

/// A request to check against the workspace.
pub(super) struct ScanRequest {
    /// `None` for a rerun whose selection is not known yet: only the fingerprint is wanted then.
    pub request: Option<Box<RunRequest>>,
    pub kind: RunKind,
    /// For a request of affected tests or of a check since an earlier state, what selects the tests or files.
    pub knowledge: Option<SessionKnowledge>,
    /// Spans of the wait for the scan, the scan and the preparation.
    pub trace: ScanTrace,
}

/// What a scan found for a request that can be carried out.
#[derive(Default)]
pub(super) struct Scanned {
    /// `None` without a scan, and for a workspace too large to scan.
    pub fingerprint: Option<Fingerprint>,
    /// `None` without a scan, for a rerun of unknown selection, and for the second of two equal requests.
    pub ready: Option<Box<ReadyRun>>,
}

type ScanResult = Result<Scanned, PrepareError>;

/// The running scan, and the requests for the next one.
#[derive(Default)]
pub(super) struct PendingScans {
    running: Option<BoxFuture<'static, Result<Vec<ScanResult>, JoinError>>>,
    /// What the running scan is for, in the order of its results.
    purposes: Vec<ScanFor>,
    next: Vec<(ScanRequest, ScanFor)>,
}

impl PendingScans {
    /// Adds a request to the next scan. Refuses a caller's when too many wait.
    pub(super) fn enqueue(&mut self, shared: &Arc<SessionShared>, request: ScanRequest, purpose: ScanFor) {
        self.drop_abandoned();
        match purpose {
            ScanFor::Request { reply, .. } if self.next.len() >= WAITING_MAX => {
                _ = reply.send(Err(SessionError::TooMany { max: WAITING_MAX }));
            }
            purpose => {
                self.next.push((request, purpose));
                self.start_next(shared);
            }
        }
    }

    /// Whether a scan is running.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    // Callers that have left free their places.
    fn drop_abandoned(&mut self) {
        self.next.retain(|(_, purpose)| !matches!(purpose, ScanFor::Request { reply, .. } if reply.is_closed()));
    }

    // Starts a scan for all waiting requests, unless one is running. A scan sees what was written to the workspace
    // before it started; so a request is never served by a scan that was running when it arrived.
    fn start_next(&mut self, shared: &Arc<SessionShared>) {
        if self.running.is_some() {
            return;
        }
        self.drop_abandoned();
        if self.next.is_empty() {
            return;
        }
        let (requests, purposes): (Vec<_>, Vec<_>) = self.next.drain(..).unzip();
        self.purposes = purposes;
        self.running = Some(scan_when_permitted(Arc::clone(shared), requests).boxed());
    }

    /// Waits for the running scan, for ever without one; returns its results and starts the next.
    pub(super) async fn finished(
        &mut self,
        shared: &Arc<SessionShared>,
    ) -> Vec<(ScanFor, Result<Scanned, SessionError>)> {
        let results = match &mut self.running {
            Some(running) => running.await,
            None => std::future::pending().await,
        };
        self.running = None;
        let purposes = std::mem::take(&mut self.purposes);
        self.start_next(shared);
        match results {
            Ok(results) => {
                let results = results.into_iter().map(|result| result.map_err(SessionError::from));
                purposes.into_iter().zip(results).collect()
            }
            Err(error) => {
                tracing::error!(%error, "a workspace scan panicked");
                purposes.into_iter().map(|purpose| (purpose, Err(SessionError::Host))).collect()
            }
        }
    }
}

/// Scans the workspace for these requests as soon as a permit is available.
async fn scan_when_permitted(
    shared: Arc<SessionShared>,
    requests: Vec<ScanRequest>,
) -> Result<Vec<ScanResult>, JoinError> {
    let mut permit = ScanPermit::acquire(&shared.policy.usage.scan_permits, &shared.context.scan_permits).await;
    let requests = Arc::new(requests);
    loop {
        let (shared, requests) = (Arc::clone(&shared), Arc::clone(&requests));
        let task = spawn_blocking(move || {
            let results = scan(&shared, &requests, &mut permit);
            (results, permit)
        });
        match task.await? {
            (Some(results), _) => return Ok(results),
            (None, small) => permit = small.enlarge().await,
        }
    }
}

/// The results in the order of the requests; `None` if the scan needs a larger permit.
fn scan(shared: &SessionShared, requests: &[ScanRequest], permit: &mut ScanPermit) -> Option<Vec<ScanResult>> {
    #[cfg(test)]
    shared.scans.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    shared.context.counters.record_scan();
    let refused = |why: PrepareError| Some(requests.iter().map(|_| Err(why.clone())).collect());
    if let Some(text) = shared.context.host.refusal() {
        return refused(PrepareError::HostFailed { text });
    }
    let scanned_at = shared.context.clock.now();
    let scan = match shared.workspace.scan_within(&mut || permit.try_enlarge()) {
        Ok(scan) => scan?,
        Err(error) => return refused(error.into()),
    };
    requests.iter().for_each(|request| request.trace.scanned());
    let policy = shared.policy.now();
    let workspace_key = policy.history.as_ref().map(|_| WorkspaceKey::for_workspace(&shared.workspace));
    let preparation = Preparation { shared, policy, scan: &scan, scanned_at, workspace_key };
    let ready = |wanted: &RunRequest, scanned: &ScanRequest| match (wanted.compared_with(), &scanned.knowledge) {
        (Some(since), Some(knowledge)) if scanned.kind == RunKind::Check => {
            preparation.ready_check(since, wanted, knowledge)
        }
        (Some(since), Some(knowledge)) => preparation.ready_affected(since, wanted, knowledge),
        _ => preparation.ready(wanted, scanned.kind),
    };
    let mut results: Vec<ScanResult> = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        // Requests that repeat or arrive together are mostly equal, so each distinct one is prepared once.
        let equal = |earlier: &ScanRequest| earlier.kind == request.kind && earlier.request == request.request;
        let earlier = requests.iter().take(index).position(equal).and_then(|earlier| results.get(earlier));
        results.push(
            match (earlier, &request.request) {
                (Some(Err(why)), _) => Err(why.clone()),
                (Some(Ok(_)), _) | (None, None) => Ok(None),
                (None, Some(wanted)) => {
                    request.trace.prepare(|| ready(wanted, request)).map(|ready| Some(Box::new(ready)))
                }
            }
            .map(|ready| Scanned { fingerprint: scan.fingerprint, ready }),
        );
    }
    Some(results)
}

/// What the requests of one scan are prepared from.
struct Preparation<'a> {
    shared: &'a SessionShared,
    policy: Arc<Policy>,
    scan: &'a WorkspaceScan,
    scanned_at: Timestamp,
    workspace_key: Option<WorkspaceKey>,
}

impl Preparation<'_> {
    fn ready(&self, request: &RunRequest, kind: RunKind) -> Result<ReadyRun, PrepareError> {
        let (shared, policy) = (self.shared, Arc::clone(&self.policy));
        let prepared = prepare(&shared.context, &policy, &shared.id, &shared.workspace, self.scan, request, kind)?;
        let overfull = policy.cache.as_deref().is_some_and(|cache| caches::are_overfull(cache, policy.cache_bytes_max));
        let cache_exceeded = overfull.then_some(QuotaExceeded::Cache { max: policy.cache_bytes_max });
        let tools = tools_of(&prepared.framework, &prepared.spec.commands);
        Ok(ReadyRun {
            request: request.clone(),
            policy,
            prepared,
            fingerprint: self.scan.fingerprint,
            affected: None,
            known_runs: None,
            tools,
            workspace_key: self.workspace_key,
            cache_exceeded,
        })
    }

    /// Selects the tests that are affected, and prepares their run. A selection that the runner cannot execute, or that runs
    /// with another program than all tests did, becomes a run of all tests.
    fn ready_affected(
        &self,
        since: &EarlierState,
        asked: &RunRequest,
        knowledge: &SessionKnowledge,
    ) -> Result<ReadyRun, PrepareError> {
        let affected = affected_tests(&self.shared.workspace, self.scan, since, asked, knowledge)?;
        if affected.is_nothing() {
            return Err(PrepareError::NothingAffected(Box::new(affected.summary())));
        }
        let baseline = knowledge.baseline.as_deref();
        let run = |affected: &AffectedTests| {
            let mut request = request_for(affected, asked, baseline);
            let may_skip = affected.full_reason.as_ref().is_some_and(|reason| !reason.lacks_coverage());
            let skipped = knowledge.coverage_cost.skip(&request).filter(|_| may_skip);
            if skipped.is_some() {
                request.coverage = CoverageMode::Off;
            }
            let mut ready = self.ready(&request, RunKind::Tests)?;
            ready.prepared.notes.extend(skipped);
            Ok(ready)
        };
        let full = |reason| AffectedTests::full(affected.since.clone(), reason, affected.known);
        let instead = match run(&affected) {
            Ok(ready) => {
                let tools = baseline.map(|baseline| &baseline.seen.tools);
                let other =
                    tools.filter(|_| affected.full_reason.is_none()).and_then(|tools| other_tool(tools, &ready.tools));
                match other {
                    Some(what) => full(FullReason::Tools { what }),
                    None => return Ok(self.with_selection(ready, &affected, asked, knowledge)),
                }
            }
            Err(PrepareError::Plan(PlanError::TooManySteps { .. })) if affected.full_reason.is_none() => {
                full(FullReason::TooManyCommands)
            }
            Err(why) => return Err(why),
        };
        Ok(self.with_selection(run(&instead)?, &instead, asked, knowledge))
    }

    /// Prepares a check of the files that changed.
    fn ready_check(
        &self,
        since: &EarlierState,
        asked: &RunRequest,
        knowledge: &SessionKnowledge,
    ) -> Result<ReadyRun, PrepareError> {
        let Some(check) = &asked.check else { return self.ready(asked, RunKind::Check) };
        let workspace = &self.shared.workspace;
        let scope = changed_since(workspace, self.scan, since, knowledge.baseline.as_deref(), &check.request)?;
        let on_changed = RequestedCheck { request: scope.request, since: None };
        let request = RunRequest { check: Some(Box::new(on_changed)), ..asked.clone() };
        let ready = self.ready(&request, RunKind::Check).map_err(|error| match (error, &scope.since) {
            (PrepareError::NoChecker(NoChecker::NotForFiles { .. }), Some(since)) => {
                PrepareError::NothingToCheck { since: since.clone() }
            }
            (error, _) => error,
        });
        let mut ready = ready?;
        ready.request = asked.clone();
        ready.known_runs = Some(knowledge.ended_runs);
        ready.prepared.notes.extend(scope.note);
        ready.prepared.checked_since = scope.since;
        Ok(ready)
    }

    fn with_selection(
        &self,
        mut ready: ReadyRun,
        affected: &AffectedTests,
        asked: &RunRequest,
        knowledge: &SessionKnowledge,
    ) -> ReadyRun {
        ready.prepared.notes.extend(affected.notes.iter().cloned());
        ready.affected =
            Some(AffectedRun { asked: asked.clone(), summary: affected.summary(), selected_at: self.scanned_at });
        ready.known_runs = Some(knowledge.ended_runs);
        ready
    }
}
