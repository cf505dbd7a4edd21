//! Runs whose call was cut off. Over HTTP many agents share one session of the supervisor, which ends a run without a caller
//! when another run is requested. An agent may end its own run that way, but not that of another agent, which may still
//! attach to it: so the shim watches the runs of the others while it starts one.

use crate::call_context::CallContext;
use futures_util::future::join_all;
use proctor_proto::v1::{GetRunRequest, RunEvent, RunState, WatchRunRequest};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tonic::Streaming;

/// How long the supervisor lets a run go on without a caller. The end of a watch begins this time anew.
const GRACE: Duration = Duration::from_secs(30);

/// How long the watches may delay a start. Each is two short requests.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Most such runs: as many as wait in a session.
const ABANDONED_MAX: usize = 64;

/// The agent that makes a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// The only one, over stdio.
    Only,
    /// One with this MCP session.
    Session(String),
    /// One over HTTP without a session: any of several.
    Unknown,
}

impl Caller {
    // Two callers over HTTP without a session may be two agents.
    fn is_same_agent(&self, other: &Caller) -> bool {
        self == other && *self != Caller::Unknown
    }
}

/// The abandoned runs of one session. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct AbandonedRuns {
    runs: Arc<Mutex<Vec<AbandonedRun>>>,
    // Held while a run is started: between the look at the abandoned runs and the start, no other start ends one of them.
    starting: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Clone, PartialEq)]
struct AbandonedRun {
    run_id: String,
    caller: Caller,
    until: Instant,
}

impl AbandonedRuns {
    fn record(&self, run_id: String, caller: Caller, now: Instant) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.until > now && (&run.run_id, &run.caller) != (&run_id, &caller));
        if runs.len() < ABANDONED_MAX {
            runs.push(AbandonedRun { run_id, caller, until: now + GRACE });
        }
    }

    // Ids of the runs of other agents than `caller` whose time is not over.
    fn runs_of_others(&self, caller: &Caller, now: Instant) -> BTreeSet<String> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let others = runs.iter().filter(|run| run.until > now && !run.caller.is_same_agent(caller));
        others.map(|run| run.run_id.clone()).collect()
    }
}

/// Watches the runs that other agents abandoned, which the start of a run would end. Dropped once the supervisor has
/// answered the start.
pub(crate) struct WatchedRuns {
    _starting: OwnedMutexGuard<()>,
    _events: Vec<Streaming<RunEvent>>,
}

/// Begins to watch the abandoned runs of other agents.
pub(crate) async fn watch_runs_of_others(call: &CallContext<'_>) -> WatchedRuns {
    let abandoned = call.session().abandoned();
    let starting = abandoned.starting.clone().lock_owned().await;
    let runs = abandoned.runs_of_others(&call.caller, Instant::now());
    let watches = join_all(runs.iter().map(|run_id| watch(call, run_id)));
    let events = tokio::time::timeout(WATCH_TIMEOUT, watches).await.unwrap_or_default();
    WatchedRuns { _starting: starting, _events: events.into_iter().flatten().collect() }
}

// `None` if the run has ended, is not there any more, or the supervisor is not: its start then fails too.
async fn watch(call: &CallContext<'_>, run_id: &str) -> Option<Streaming<RunEvent>> {
    let mut clients = call.clients().await.ok()?;
    let request = GetRunRequest { run_id: run_id.to_owned(), ..GetRunRequest::default() };
    let status = clients.runs.get_run(request).await.ok()?.into_inner();
    if status.state() == RunState::Finished {
        return None;
    }
    let request = WatchRunRequest { run_id: run_id.to_owned(), cursor: status.next_sequence };
    Some(clients.runs.watch_run(request).await.ok()?.into_inner())
}

/// Records the run of a call as abandoned if it is dropped before the run has ended.
pub(crate) struct CallGuard<'a, 'b> {
    call: &'a CallContext<'b>,
    has_ended: bool,
}

impl<'a, 'b> CallGuard<'a, 'b> {
    pub(crate) fn new(call: &'a CallContext<'b>) -> CallGuard<'a, 'b> {
        CallGuard { call, has_ended: false }
    }

    /// The call has its result.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for CallGuard<'_, '_> {
    fn drop(&mut self) {
        let run_id = self.call.run_id.borrow().clone();
        if let Some(run_id) = run_id.filter(|_| !self.has_ended) {
            self.call.session().abandoned().record(run_id, self.call.caller.clone(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_runs_of_other_agents() {
        let (runs, now) = (AbandonedRuns::default(), Instant::now());
        let session = |id: &str| Caller::Session(id.to_owned());
        let callers = [session("a"), session("b"), Caller::Unknown, Caller::Only];
        for of in callers.iter().chain(&callers) {
            runs.record(format!("{of:?}"), of.clone(), now);
        }
        let of_others = |caller: &Caller, at: Instant| runs.runs_of_others(caller, at).len();
        assert_eq!(of_others(&session("a"), now), 3);
        assert_eq!(of_others(&Caller::Unknown, now), 4, "it may be another one");
        assert_eq!(of_others(&session("a"), now + GRACE), 0, "their time is over");
        assert_eq!(runs.runs.lock().unwrap().len(), 4, "each once");
    }
}
