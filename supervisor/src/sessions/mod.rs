//! Sessions: the handle that sends messages to a session's actor. The decisions of a session are in
//! [`proctor_core::session`].

mod actor;
mod crashed;
pub mod limits;
mod pending_scans;
pub mod registry;
mod retention;
mod run_start;
mod shutdown;

use crate::history::History;
use crate::ops::drain::ClosedRuns;
use crate::runs::RunHandle;
use crate::runs::context::Context;
use crate::runs::prepare::PrepareError;
use crate::telemetry::failure_streak::FailureStreak;
use crate::tenants::policy::CurrentPolicy;
use crate::workspace::Workspace;
use proctor_core::bounds::SESSION_IDLE_MAX;
use proctor_core::check::CheckMemory;
use proctor_core::coverage::{CoverageCost, CoverageIndex, CoveringTests};
use proctor_core::failure::{FailureSlot, LastRun};
use proctor_core::id::{RunId, SessionId};
use proctor_core::outcome::Outcome;
use proctor_core::queue::Priority;
use proctor_core::request::{IfBusy, RunKind, RunRequest};
use proctor_core::selection::Baseline;
use proctor_core::session::{Session, SessionKnowledge, StartRejected};
use proctor_core::timestamp::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::Span;

/// Messages that may wait for one actor. It answers each without waiting, so this many only pile up when a client
/// floods; then its calls wait in gRPC, which has a bound of its own.
const MAILBOX: usize = 64;

/// A request to the actor.
enum SessionMessage {
    Start {
        request: Box<StartRequest>,
        reply: oneshot::Sender<Result<StartedRun, SessionError>>,
    },
    Run {
        run: RunId,
        reply: oneshot::Sender<Option<RunHandle>>,
    },
    Cancel {
        run: RunId,
        reply: oneshot::Sender<bool>,
    },
    LastRun {
        offset: usize,
        limit: usize,
        reply: oneshot::Sender<Option<LastRun>>,
    },
    Covering {
        file: String,
        line: Option<u32>,
        reply: oneshot::Sender<Option<CoveringTests>>,
    },
    Knowledge {
        reply: oneshot::Sender<SessionKnowledge>,
    },
    Settings {
        request: Box<RunRequest>,
        reply: oneshot::Sender<RunRequest>,
    },
    Status {
        reply: oneshot::Sender<SessionStatus>,
    },
    Touch {
        reply: oneshot::Sender<()>,
    },
    Memory {
        reply: oneshot::Sender<SessionMemory>,
    },
    Unfinished {
        reply: oneshot::Sender<Vec<(RunId, RunHandle)>>,
    },
    Drain {
        reply: oneshot::Sender<()>,
    },
    Close {
        reply: oneshot::Sender<ClosedRuns>,
    },
    #[cfg(test)]
    Panic,
}

struct StartRequest {
    request: RunRequest,
    kind: RunKind,
    options: QueueOptions,
    /// Span of the call.
    trace: Span,
}

/// How a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueOptions {
    /// Whether it waits for another run of the session. Within a session, runs start in order of arrival.
    pub if_busy: IfBusy,
    /// Priority among the tenant's runs, once it is first in its session and waits for a slot on the host.
    pub priority: Priority,
}

impl From<IfBusy> for QueueOptions {
    fn from(if_busy: IfBusy) -> QueueOptions {
        QueueOptions { if_busy, ..QueueOptions::default() }
    }
}

/// The run that a request started or attached to.
#[derive(Debug, Clone)]
pub struct StartedRun {
    /// Id of the run.
    pub run: RunId,
    /// Handle to read the run.
    pub handle: RunHandle,
    /// Milliseconds since the run was accepted, if the request attached to an existing run.
    pub attached_age_ms: Option<u64>,
}

/// The current state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStatus {
    /// The run in progress.
    pub running: Option<RunId>,
    /// Number of waiting runs.
    pub waiting: usize,
    /// The last run of tests that ended, and its outcome.
    pub last: Option<(RunId, Outcome)>,
    /// Figures of the last run; `None` if it has no report.
    pub last_result: Option<LastResult>,
    /// When the session was created.
    pub created_at: Timestamp,
    /// Last use: the last message other than a status query, or the end of the last run.
    pub used_at: Timestamp,
}

/// Figures of the last run of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastResult {
    /// Framework of the run.
    pub framework: String,
    /// All tests; `None` if the runner gives no results test by test.
    pub tests: Option<u64>,
    /// Tests among them that failed or ended with an error.
    pub failed: Option<u64>,
    /// When the run ended.
    pub ended_at: Timestamp,
}

impl SessionStatus {
    /// The status of a session created now.
    #[must_use]
    pub fn new_at(now: Timestamp) -> SessionStatus {
        SessionStatus { running: None, waiting: 0, last: None, last_result: None, created_at: now, used_at: now }
    }
}

/// State of a session that outlives its process.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct SessionMemory {
    /// The failure slot.
    pub slot: FailureSlot,
    /// The coverage index. An earlier version stored it as `index`, which does not say of each test whether it is outdated.
    #[serde(rename = "coverage", default)]
    pub index: CoverageIndex,
    /// The last request that ran tests.
    pub last_request: Option<RunRequest>,
    /// What a selection of affected tests builds on.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// The findings of earlier checks.
    #[serde(default)]
    pub checks: CheckMemory,
    /// What measuring coverage costs.
    #[serde(default)]
    pub coverage_cost: CoverageCost,
}

/// Why a session did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The session is closed, or its actor crashed.
    #[error("the session has ended")]
    Gone,
    /// The workspace scan failed, or the actor crashed while it handled the request. The logs have the details.
    #[error("the host failed; its operator finds the reason in the log")]
    Host,
    /// Too many requests wait for a workspace scan.
    #[error("{max} requests wait for a scan of this workspace already")]
    TooMany {
        /// The bound.
        max: usize,
    },
    /// The request does not become a run.
    #[error(transparent)]
    Rejected(#[from] StartRejected),
    /// The request cannot be carried out in this workspace.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
}

/// A handle to a session.
#[derive(Clone)]
pub struct SessionHandle {
    shared: Arc<SessionShared>,
    /// Messages are boxed: a mailbox allocates its slots in advance, and most sessions are idle.
    mailbox: mpsc::Sender<Box<SessionMessage>>,
}

/// Fixed properties and flags of a session, shared by its actor and all handles.
struct SessionShared {
    id: SessionId,
    workspace: Workspace,
    context: Arc<Context>,
    policy: CurrentPolicy,
    /// How long it stays open without being used.
    idle_max: Duration,
    /// Whether it has runs, as last set by its actor, so that a search for runs need not ask every session.
    busy: AtomicBool,
    /// Whether its actor crashed. It then only answers how its runs ended.
    crashed: AtomicBool,
    /// Whether it is being closed: it accepts no more runs.
    closing: AtomicBool,
    /// How long its tests have failed.
    streak: FailureStreak,
    /// Number of workspace scans.
    #[cfg(test)]
    scans: std::sync::atomic::AtomicUsize,
}

/// Parameters of a new session.
pub struct SessionOptions {
    /// Id of the session.
    pub id: SessionId,
    /// Shared by all sessions.
    pub context: Arc<Context>,
    /// Policy of its runs.
    pub policy: CurrentPolicy,
    /// Its workspace.
    pub workspace: Workspace,
    /// How long it stays open without being used.
    pub idle_max: Duration,
    /// Its state from an earlier process.
    pub memory: SessionMemory,
}

/// Creates a session and the future of its actor, which runs until the session is closed or every handle is dropped.
pub fn prepare_actor(options: SessionOptions) -> (SessionHandle, impl Future<Output = ()> + Send + use<>) {
    let SessionOptions { id, context, policy, workspace, idle_max, memory } = options;
    let (mailbox, messages) = mpsc::channel(MAILBOX);
    let session = Session::restore(memory.slot, memory.index, memory.last_request, memory.baseline)
        .with_checks(memory.checks)
        .with_coverage_cost(memory.coverage_cost);
    let streak = FailureStreak::new(context.clock.now());
    let shared = Arc::new(SessionShared {
        id,
        workspace,
        context,
        policy,
        idle_max,
        busy: AtomicBool::new(false),
        crashed: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        streak,
        #[cfg(test)]
        scans: std::sync::atomic::AtomicUsize::new(0),
    });
    let actor = actor::Actor::new(Arc::clone(&shared), session);
    (SessionHandle { shared, mailbox }, actor.serve(messages))
}

/// Opens a session with [`SESSION_IDLE_MAX`], its actor as a task.
#[must_use]
pub fn open(
    id: SessionId,
    context: Arc<Context>,
    policy: impl Into<CurrentPolicy>,
    workspace: Workspace,
    memory: SessionMemory,
) -> (SessionHandle, JoinHandle<()>) {
    let (handle, actor) = prepare_actor(SessionOptions {
        id,
        context,
        policy: policy.into(),
        workspace,
        idle_max: SESSION_IDLE_MAX,
        memory,
    });
    (handle, tokio::spawn(actor))
}

impl SessionHandle {
    /// Id of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Its workspace.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.shared.workspace
    }

    /// The history in which its runs are recorded.
    #[must_use]
    pub fn history(&self) -> History {
        self.shared.context.history.clone()
    }

    /// How long it stays open without being used.
    #[must_use]
    pub fn idle_max(&self) -> Duration {
        self.shared.idle_max
    }

    /// How long its tests have failed.
    #[must_use]
    pub(crate) fn streak(&self) -> &FailureStreak {
        &self.shared.streak
    }

    /// Whether a run is in progress or waits, as of a moment ago.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.shared.busy.load(Ordering::Relaxed)
    }

    /// Starts a run or attaches to one. The actor has the workspace scanned once and then answers once: everything that
    /// the scan can reject is rejected before the request is a run; what needs no scan is rejected without one. A run
    /// that waits in the session is prepared anew when its turn comes.
    ///
    /// Queue options are no part of the request: it may attach to a run that waits with others, which keeps its own.
    pub async fn start(
        &self,
        request: RunRequest,
        kind: RunKind,
        options: impl Into<QueueOptions>,
    ) -> Result<StartedRun, SessionError> {
        let request = Box::new(StartRequest { request, kind, options: options.into(), trace: Span::current() });
        self.request(|reply| SessionMessage::Start { request, reply }).await?
    }

    /// One of the session's runs; `None` if unknown or forgotten.
    pub async fn run(&self, run: RunId) -> Result<Option<RunHandle>, SessionError> {
        self.request(|reply| SessionMessage::Run { run, reply }).await
    }

    /// Kills a run at once. False for an unknown run.
    pub async fn cancel(&self, run: RunId) -> Result<bool, SessionError> {
        self.request(|reply| SessionMessage::Cancel { run, reply }).await
    }

    /// The last run with at most `limit` of its failures, without the first `offset` ones.
    pub async fn last_run(&self, offset: usize, limit: usize) -> Result<Option<LastRun>, SessionError> {
        self.request(|reply| SessionMessage::LastRun { offset, limit, reply }).await
    }

    /// The tests that executed a line or file; `None` before any coverage was measured.
    pub async fn covering(&self, file: String, line: Option<u32>) -> Result<Option<CoveringTests>, SessionError> {
        self.request(|reply| SessionMessage::Covering { file, line, reply }).await
    }

    /// What the session knows for a selection of affected tests.
    pub async fn knowledge(&self) -> Result<SessionKnowledge, SessionError> {
        self.request(|reply| SessionMessage::Knowledge { reply }).await
    }

    /// `request` with the settings of the last request, as a run of affected tests would have them.
    pub async fn settings_for(&self, request: RunRequest) -> Result<RunRequest, SessionError> {
        let request = Box::new(request);
        self.request(|reply| SessionMessage::Settings { request, reply }).await
    }

    /// The current state of the session.
    pub async fn status(&self) -> Result<SessionStatus, SessionError> {
        self.request(|reply| SessionMessage::Status { reply }).await
    }

    /// Uses the session without any other effect: its idle time restarts.
    ///
    /// # Errors
    /// [`SessionError::Gone`], also while it is being closed.
    pub async fn touch(&self) -> Result<(), SessionError> {
        self.request(|reply| SessionMessage::Touch { reply }).await
    }

    /// The state that outlives the process.
    pub async fn memory(&self) -> Result<SessionMemory, SessionError> {
        self.request(|reply| SessionMessage::Memory { reply }).await
    }

    /// The running and waiting runs, in order.
    pub async fn unfinished(&self) -> Result<Vec<(RunId, RunHandle)>, SessionError> {
        self.request(|reply| SessionMessage::Unfinished { reply }).await
    }

    /// Makes the session reject new runs, and returns when its accepted runs have ended.
    pub async fn drain(&self) {
        // Without an actor there are no runs.
        _ = self.request(|reply| SessionMessage::Drain { reply }).await;
    }

    /// Closes the session and returns when nothing of it is left.
    pub async fn close(&self) -> ClosedRuns {
        // Without an answer the actor is gone, which is the goal.
        self.request(|reply| SessionMessage::Close { reply }).await.unwrap_or_default()
    }

    /// Whether the actor has ended or crashed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        !self.is_answering() || self.is_crashed()
    }

    /// Whether it is being closed or has expired: its runs end, and it accepts no others.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Relaxed)
    }

    /// Whether the actor crashed.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        self.shared.crashed.load(Ordering::Relaxed)
    }

    /// Whether it still answers how its runs ended, even after a crash.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        !self.mailbox.is_closed()
    }

    async fn request<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> SessionMessage) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Box::new(message(reply))).await.map_err(|_| SessionError::Gone)?;
        answer.await.map_err(|_| SessionError::Gone)
    }

    #[cfg(test)]
    async fn panic(&self) {
        _ = self.mailbox.send(Box::new(SessionMessage::Panic)).await;
        assert_eq!(self.status().await, Err(SessionError::Gone), "the actor gives no answer");
    }
}

#[cfg(test)]
mod tests;
