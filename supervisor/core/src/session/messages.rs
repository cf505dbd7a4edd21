//! What a session is told, and what it asks the actor at the edge to do.

use crate::bounds::QUEUED_RUNS_MAX;
use crate::coverage::RunCoverage;
use crate::id::RunId;
use crate::outcome::KillReason;
use crate::quota::QuotaExceeded;
use crate::report::Report;
use crate::request::{Fingerprint, IfBusy, RunKind, RunRequest};
use crate::selection::SeenFiles;
use std::sync::Arc;

/// An event in the life of a session.
#[derive(Debug, Clone)]
pub enum SessionEvent {
    /// A caller requests a run under an id that the edge has drawn.
    Requested {
        /// Id of the run if the request is accepted.
        run: RunId,
        /// The requested run.
        request: Box<RunRequest>,
        /// Purpose of the run.
        kind: RunKind,
        /// Fingerprint of the workspace now; `None` without a scan or for a workspace too large to scan, and equal to
        /// nothing.
        fingerprint: Option<Fingerprint>,
        /// What to do while another run is in progress.
        if_busy: IfBusy,
        /// The quota that keeps the run from starting now, or from waiting behind another run; `None` if neither does.
        quota_exceeded: Option<QuotaExceeded>,
    },
    /// The workspace was scanned anew for a run that had waited.
    Rescanned {
        /// The run.
        run: RunId,
        /// Fingerprint of the workspace now.
        fingerprint: Option<Fingerprint>,
    },
    /// The number of watchers of a run changed.
    Watched {
        /// The run.
        run: RunId,
        /// Number of callers that watch the run.
        watchers: usize,
    },
    /// A caller cancels a run.
    CancelRequested {
        /// The run.
        run: RunId,
    },
    /// A run ended and all its processes and files are gone.
    Ended {
        /// The run.
        run: RunId,
        /// Its report.
        report: Arc<Report>,
        /// Coverage that the run measured.
        measured: RunCoverage,
        /// What the run saw of its workspace and host, if that is known.
        seen: Option<SeenFiles>,
    },
    /// A run could not be started and has no report.
    NotStarted {
        /// The run.
        run: RunId,
    },
    /// The ended runs of the session's tenant exceed its retention quota.
    RetentionExceeded,
    /// Time has passed.
    Tick,
    /// The host accepts no new runs. Accepted runs continue.
    DrainRequested,
    /// The session is to be closed.
    CloseRequested,
}

/// An action for the actor to carry out.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Reply to the caller of `run` that it waits at `position` (0: it starts at once).
    Accept {
        /// The run.
        run: RunId,
        /// Number of runs before it, the running one included.
        position: u32,
    },
    /// Reply to the caller of `run` to watch `to` instead.
    Attach {
        /// The drawn id, which stays unused.
        run: RunId,
        /// The identical run.
        to: RunId,
        /// Milliseconds since `to` was accepted.
        age_ms: u64,
    },
    /// Reply to the caller, or the watchers, of `run` why it does not start.
    Refuse {
        /// The run.
        run: RunId,
        /// Why.
        refusal: StartRejected,
    },
    /// Start this run now.
    Start {
        /// The run.
        run: RunId,
        /// The request, with its selection resolved.
        request: Box<RunRequest>,
        /// Notes for its report about earlier failures that it leaves out.
        notes: Vec<String>,
    },
    /// Report its new queue position to the watchers of a waiting run.
    ReportPosition {
        /// The run.
        run: RunId,
        /// Number of runs before it.
        position: u32,
    },
    /// Kill this running run.
    Kill {
        /// The run.
        run: RunId,
        /// Why.
        reason: KillReason,
    },
    /// End this waiting run, which never started.
    Withdraw {
        /// The run.
        run: RunId,
        /// Why.
        reason: KillReason,
    },
    /// Delete the events of this run: no caller may read them any more.
    Forget {
        /// The run.
        run: RunId,
    },
    /// The session is over: the actor ends.
    Stop,
}

/// Why a request does not become a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartRejected {
    /// Another run is in progress and the caller does not want to wait.
    #[error("another run is going on")]
    Busy,
    /// [`QUEUED_RUNS_MAX`] runs wait already.
    #[error("{QUEUED_RUNS_MAX} runs wait already in this session")]
    QueueFull,
    /// A quota of the tenant is used up.
    #[error(transparent)]
    Quota(QuotaExceeded),
    /// A rerun was requested before any run.
    #[error("no run_tests call yet in this session")]
    NoRunYet,
    /// A rerun was requested and the last run passed.
    #[error("last run_tests had no failures — nothing to rerun ({framework})")]
    NothingToRerun {
        /// The last run's framework.
        framework: String,
    },
    /// The host accepts no new runs.
    #[error("the supervisor is shutting down and accepts no new runs")]
    Draining,
    /// The session is being closed.
    #[error("the session is being closed")]
    Closing,
}
