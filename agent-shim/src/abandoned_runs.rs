//! Runs whose call was cut off, as over HTTP many agents share one session of the supervisor. There the start of a run ends one
//! without a caller: right for the agent that gave up its own run, and wrong for the run of another agent, which may still
//! come back for it. So before a start the shim itself follows the runs of the others, until their time is over.

use crate::call_context::CallContext;
use proctor_proto::v1::{RunState, WatchRunRequest};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a run goes on without a caller.
const GRACE: Duration = Duration::from_secs(30);

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
    fn is_surely(&self, other: &Caller) -> bool {
        self == other && *self != Caller::Unknown
    }
}

/// The abandoned runs of one session. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct AbandonedRuns(Arc<Mutex<Vec<AbandonedRun>>>);

#[derive(Debug, Clone, PartialEq)]
struct AbandonedRun {
    run_id: String,
    caller: Caller,
    until: Instant,
}

impl AbandonedRuns {
    fn record(&self, run_id: String, caller: Caller, now: Instant) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.until > now);
        if runs.len() < ABANDONED_MAX {
            runs.push(AbandonedRun { run_id, caller, until: now + GRACE });
        }
    }

    // Removes all, and returns those of other callers than `caller` whose time is not over.
    fn take_of_others(&self, caller: &Caller, now: Instant) -> Vec<AbandonedRun> {
        let runs = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        runs.into_iter().filter(|run| run.until > now && !run.caller.is_surely(caller)).collect()
    }
}

/// Follows the abandoned runs of other agents, which the start of a run would end.
pub(crate) async fn keep_those_of_others(call: &CallContext<'_>) {
    for run in call.session().abandoned().take_of_others(&call.caller, Instant::now()) {
        // A run that is not there any more needs nothing.
        if let Err(error) = keep(call, &run).await {
            tracing::debug!(?error, run = run.run_id, "an abandoned run cannot be followed");
        }
    }
}

async fn keep(call: &CallContext<'_>, run: &AbandonedRun) -> Result<(), crate::call_error::CallError> {
    let status = crate::tools::get_run::status(call, &run.run_id, 0).await?;
    if status.state() == RunState::Finished {
        return Ok(());
    }
    let request = WatchRunRequest { run_id: run.run_id.clone(), cursor: status.next_sequence };
    let mut events = call.clients().await?.runs.watch_run(request).await?.into_inner();
    let until = run.until;
    tokio::spawn(async move {
        let ended = async { while let Ok(Some(_)) = events.message().await {} };
        _ = tokio::time::timeout_at(until, ended).await;
    });
    Ok(())
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

    #[tokio::test]
    async fn keeps_the_runs_of_other_agents_only() {
        let (runs, now) = (AbandonedRuns::default(), Instant::now());
        let session = |id: &str| Caller::Session(id.to_owned());
        let kept = |caller: &Caller, at: Instant| {
            let callers = [session("a"), session("b"), Caller::Unknown, Caller::Only];
            callers.iter().for_each(|of| runs.record(format!("{of:?}"), of.clone(), now));
            runs.take_of_others(caller, at).len()
        };
        assert_eq!(kept(&session("a"), now), 3);
        assert_eq!(kept(&Caller::Unknown, now), 4, "it may be another one");
        assert_eq!(kept(&session("a"), now + GRACE), 0, "their time is over");
        assert!(runs.take_of_others(&Caller::Unknown, now).is_empty(), "taken");
    }
}
