//! Workspace scans for requests that find their session busy: whether they can be carried out, and whether they equal
//! the running run. One scan at a time serves all requests that arrived before it started.

use super::{SessionError, SessionShared, StartRequest, StartedRun};
use crate::runs::context::ScanPermit;
use crate::runs::prepare::{PrepareError, prepare};
use proctor_core::request::{Fingerprint, RunKind, RunRequest, Selection};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, spawn, spawn_blocking};

/// Most requests that may wait for a scan: as many as may wait for a run.
const WAITING_MAX: usize = 1_024;

/// Sends the result of a start to its caller.
pub(super) type Reply = oneshot::Sender<Result<StartedRun, SessionError>>;

/// A scanned request: the fingerprint of the workspace, or why the request cannot be carried out.
pub(super) type ScanOutcome = (StartRequest, Result<Option<Fingerprint>, SessionError>);

/// The running scan, and the requests for the next one.
#[derive(Default)]
pub(super) struct PendingScans {
    running: Option<JoinHandle<Result<Vec<ScanOutcome>, JoinError>>>,
    /// Callers of the requests in the running scan, in the order of its outcomes.
    replies: Vec<Reply>,
    next: Vec<(StartRequest, Reply)>,
}

impl PendingScans {
    /// Adds a request to the next scan.
    pub(super) fn enqueue(&mut self, shared: &Arc<SessionShared>, request: Box<StartRequest>, reply: Reply) {
        // Callers that have left free their places.
        self.next.retain(|(_, reply)| !reply.is_closed());
        if self.next.len() >= WAITING_MAX {
            _ = reply.send(Err(SessionError::TooMany { max: WAITING_MAX }));
            return;
        }
        self.next.push((*request, reply));
        self.start_next(shared);
    }

    /// Whether a scan is running.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    // Starts a scan for all waiting requests, unless one is running. A scan sees what was written to the workspace
    // before it started; so a request is never served by a scan that was running when it arrived.
    fn start_next(&mut self, shared: &Arc<SessionShared>) {
        if self.running.is_some() {
            return;
        }
        self.next.retain(|(_, reply)| !reply.is_closed());
        if self.next.is_empty() {
            return;
        }
        let (requests, replies): (Vec<_>, Vec<_>) = self.next.drain(..).unzip();
        self.replies = replies;
        let shared = Arc::clone(shared);
        self.running = Some(spawn(scan_when_permitted(shared, requests)));
    }

    /// Waits for the running scan, for ever without one; returns its outcomes and starts the next.
    pub(super) async fn finished(&mut self, shared: &Arc<SessionShared>) -> Vec<(ScanOutcome, Reply)> {
        let outcomes = match &mut self.running {
            Some(running) => running.await,
            None => std::future::pending().await,
        };
        self.running = None;
        let replies = std::mem::take(&mut self.replies);
        self.start_next(shared);
        match outcomes.flatten() {
            Ok(outcomes) => outcomes.into_iter().zip(replies).collect(),
            Err(error) => {
                tracing::error!(%error, "a workspace scan panicked");
                replies.into_iter().for_each(|reply| _ = reply.send(Err(SessionError::Host)));
                Vec::new()
            }
        }
    }
}

/// Scans the workspace for these requests as soon as a permit is available.
async fn scan_when_permitted(
    shared: Arc<SessionShared>,
    mut requests: Vec<StartRequest>,
) -> Result<Vec<ScanOutcome>, JoinError> {
    let mut permit = ScanPermit::acquire(&shared.policy.usage.scan_permits, &shared.context.scan_permits).await;
    loop {
        let thread_shared = Arc::clone(&shared);
        let task = spawn_blocking(move || {
            let result = scan(&thread_shared, requests, &mut permit);
            (result, permit)
        });
        match task.await? {
            (Ok(outcomes), _) => return Ok(outcomes),
            (Err(returned), small) => (requests, permit) = (returned, small.enlarge().await),
        }
    }
}

/// The outcomes, or the requests back if the scan needs a larger permit.
fn scan(
    shared: &SessionShared,
    requests: Vec<StartRequest>,
    permit: &mut ScanPermit,
) -> Result<Vec<ScanOutcome>, Vec<StartRequest>> {
    #[cfg(test)]
    shared.scans.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let scan = match shared.workspace.scan_within(&mut || permit.try_enlarge()).map_err(PrepareError::from) {
        Ok(Some(scan)) => scan,
        Ok(None) => return Err(requests),
        Err(why) => return Ok(requests.into_iter().map(|request| (request, Err(why.clone().into()))).collect()),
    };
    let policy = shared.policy.now();
    let check = |start: &StartRequest| match &start.request.selection {
        // The selection of a rerun is known only when it starts.
        Selection::LastFailed { .. } => Ok(()),
        _ => prepare(&shared.context, &policy, &shared.id, &shared.workspace, &scan, &start.request, start.kind)
            .map(|_| ()),
    };
    // Requests that repeat or arrive together are mostly equal, so each distinct one is checked once.
    let mut checked: Vec<(RunRequest, RunKind, Result<(), PrepareError>)> = Vec::new();
    let mut outcomes = Vec::with_capacity(requests.len());
    for start in requests {
        let earlier = checked.iter().find(|(request, kind, _)| *kind == start.kind && *request == start.request);
        let result = match earlier {
            Some((_, _, result)) => result.clone(),
            None => {
                let result = check(&start);
                checked.push((start.request.clone(), start.kind, result.clone()));
                result
            }
        };
        outcomes.push((start, result.map(|()| scan.fingerprint).map_err(SessionError::from)));
    }
    Ok(outcomes)
}
