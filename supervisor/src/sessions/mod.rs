//! A session: the handle through which everybody speaks to its actor. Must not know what the actor decides; that is
//! [`proctor_core::session`].

mod actor;
mod crashed;
pub mod limits;
mod pending_scans;
pub mod registry;
mod retention;

use crate::ops::drain::ClosedRuns;
use crate::runs::RunHandle;
use crate::runs::context::{Context, CurrentPolicy};
use crate::runs::prepare::PrepareError;
use crate::sessions::limits::IDLE_MAX;
use crate::workspace::Workspace;
use proctor_core::coverage::{CoverageIndex, Covering};
use proctor_core::failure::{FailureSlot, LastRun};
use proctor_core::id::{RunId, SessionId};
use proctor_core::outcome::Outcome;
use proctor_core::queue::Priority;
use proctor_core::quota::QuotaExceeded;
use proctor_core::request::{Fingerprint, IfBusy, RunKind, RunRequest};
use proctor_core::session::{Session, StartRejected};
use proctor_core::timestamp::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Calls of one tenant in flight in one session. The actor answers each without waiting, so this many only pile up when
/// a client floods; then its calls wait in gRPC, which has a bound of its own.
const MAILBOX: usize = 64;

/// What the actor is asked.
enum Message {
    Start {
        asked: Box<Asked>,
        reply: oneshot::Sender<Result<Started, SessionError>>,
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
        limit: usize,
        reply: oneshot::Sender<Option<LastRun>>,
    },
    Covering {
        file: String,
        line: Option<u32>,
        reply: oneshot::Sender<Option<Covering>>,
    },
    Status {
        reply: oneshot::Sender<Status>,
    },
    Touch {
        reply: oneshot::Sender<()>,
    },
    Memory {
        reply: oneshot::Sender<Memory>,
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

struct Asked {
    request: RunRequest,
    kind: RunKind,
    waiting: Waiting,
    /// What the workspace looks like, from who has looked; the fingerprint of one that is too large to look at is `None`.
    looked: Option<Option<Fingerprint>>,
}

/// How a run waits, if it has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Whether it does, while another run of the session is going on. There the order is that of arrival.
    pub if_busy: IfBusy,
    /// Which of its tenant's runs it comes before, once it is first in its session and waits for its turn on the host.
    pub priority: Priority,
}

impl From<IfBusy> for Waiting {
    fn from(if_busy: IfBusy) -> Waiting {
        Waiting { if_busy, ..Waiting::default() }
    }
}

/// A run that a request became, or joined.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its name.
    pub run: RunId,
    /// From where to read it.
    pub handle: RunHandle,
    /// Milliseconds since it was accepted, when the request joined a run that was there already.
    pub attached_age_ms: Option<u64>,
}

/// A session as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The run that is going on.
    pub running: Option<RunId>,
    /// How many wait.
    pub waiting: usize,
    /// The last one that ended, and how.
    pub last: Option<(RunId, Outcome)>,
    /// When the session was made.
    pub created_at: Timestamp,
    /// When it was last asked for anything but what it is doing, or when its last run ended.
    pub used_at: Timestamp,
}

impl Status {
    /// That of a session that was made just now.
    #[must_use]
    pub fn new_at(now: Timestamp) -> Status {
        Status { running: None, waiting: 0, last: None, created_at: now, used_at: now }
    }
}

/// What a session remembers, for whoever keeps it between processes.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Memory {
    /// The failures of the last run.
    pub slot: FailureSlot,
    /// The coverage of all runs.
    pub index: CoverageIndex,
    /// The last request.
    pub last_request: Option<RunRequest>,
}

/// Why a session did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The session is closed, or its actor broke.
    #[error("the session has ended")]
    Gone,
    /// The look at the workspace broke, or the session while it took the request in. The logs have the details.
    #[error("the host failed; its operator finds the reason in the log")]
    Host,
    /// As many requests wait for a look at the workspace as may.
    #[error("{max} requests wait for a look at this workspace already")]
    TooMany {
        /// How many may.
        max: usize,
    },
    /// The request does not become a run.
    #[error(transparent)]
    Rejected(#[from] StartRejected),
    /// The request cannot be carried out in this workspace.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// A quota of the tenant or of the host is used up.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
}

/// A session, to whoever may use it.
#[derive(Clone)]
pub struct SessionHandle {
    about: Arc<About>,
    /// What is sent is boxed: a mailbox has room for dozens from the start, and most sessions are at rest.
    mailbox: mpsc::Sender<Box<Message>>,
}

/// What does not change about a session, which its actor and all handles share, and whether it has runs.
struct About {
    id: SessionId,
    workspace: Workspace,
    context: Arc<Context>,
    policy: CurrentPolicy,
    /// How long it lives without being used.
    idle_max: Duration,
    /// Whether a run goes on or waits, as its actor last said, so that whoever looks for runs need not ask every session.
    busy: AtomicBool,
    /// Whether its actor broke, and has nothing to say any more but what became of its runs.
    broken: AtomicBool,
    /// Whether it is being closed: it takes on no more runs.
    ending: AtomicBool,
    /// How many looks at the workspace were taken for requests that found the session busy.
    #[cfg(test)]
    looks: std::sync::atomic::AtomicUsize,
}

/// What a session begins with.
pub struct Opening {
    /// Its name.
    pub id: SessionId,
    /// Shared by all sessions.
    pub context: Arc<Context>,
    /// What its runs may have.
    pub policy: CurrentPolicy,
    /// Where it works.
    pub workspace: Workspace,
    /// How long it lives without being used.
    pub idle_max: Duration,
    /// What it remembers from before.
    pub memory: Memory,
}

/// A session and its actor, which lives until it is closed, or until every handle is gone.
pub fn prepare_actor(opening: Opening) -> (SessionHandle, impl Future<Output = ()> + Send + use<>) {
    let Opening { id, context, policy, workspace, idle_max, memory } = opening;
    let (mailbox, messages) = mpsc::channel(MAILBOX);
    let session = Session::remembering(memory.slot, memory.index, memory.last_request);
    let about = Arc::new(About {
        id,
        workspace,
        context,
        policy,
        idle_max,
        busy: AtomicBool::new(false),
        broken: AtomicBool::new(false),
        ending: AtomicBool::new(false),
        #[cfg(test)]
        looks: std::sync::atomic::AtomicUsize::new(0),
    });
    let actor = actor::Actor::new(Arc::clone(&about), session);
    (SessionHandle { about, mailbox }, actor.serve(messages))
}

/// Opens a session that expires after [`IDLE_MAX`], with its actor as a task.
#[must_use]
pub fn open(
    id: SessionId,
    context: Arc<Context>,
    policy: impl Into<CurrentPolicy>,
    workspace: Workspace,
    memory: Memory,
) -> (SessionHandle, JoinHandle<()>) {
    let (handle, actor) =
        prepare_actor(Opening { id, context, policy: policy.into(), workspace, idle_max: IDLE_MAX, memory });
    (handle, tokio::spawn(actor))
}

impl SessionHandle {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.about.id
    }

    /// Where it works.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.about.workspace
    }

    /// How long it lives without being used.
    #[must_use]
    pub fn idle_max(&self) -> Duration {
        self.about.idle_max
    }

    /// Whether a run goes on or waits in it, as of a moment ago.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.about.busy.load(Ordering::Relaxed)
    }

    /// Asks for a run. Everything that can be refused by looking at the workspace is refused here, before any process starts;
    /// what need not wait for a look is refused without one.
    ///
    /// How it waits is no part of what it is: it may join a run that waits in another way, which goes on as it was.
    pub async fn start(
        &self,
        request: RunRequest,
        kind: RunKind,
        waiting: impl Into<Waiting>,
    ) -> Result<Started, SessionError> {
        let asked = Box::new(Asked { request, kind, waiting: waiting.into(), looked: None });
        self.ask(|reply| Message::Start { asked, reply }).await?
    }

    /// One of the session's runs, if it still knows it.
    pub async fn run(&self, run: RunId) -> Result<Option<RunHandle>, SessionError> {
        self.ask(|reply| Message::Run { run, reply }).await
    }

    /// Kills a run at once. False when the session does not know it.
    pub async fn cancel(&self, run: RunId) -> Result<bool, SessionError> {
        self.ask(|reply| Message::Cancel { run, reply }).await
    }

    /// The last run with at most `limit` of its failures.
    pub async fn last_run(&self, limit: usize) -> Result<Option<LastRun>, SessionError> {
        self.ask(|reply| Message::LastRun { limit, reply }).await
    }

    /// The tests that executed a line or file; `None` before anything was measured.
    pub async fn covering(&self, file: String, line: Option<u32>) -> Result<Option<Covering>, SessionError> {
        self.ask(|reply| Message::Covering { file, line, reply }).await
    }

    /// The session as it is now.
    pub async fn status(&self) -> Result<Status, SessionError> {
        self.ask(|reply| Message::Status { reply }).await
    }

    /// Uses the session without asking anything of it: its time begins anew.
    ///
    /// # Errors
    /// [`SessionError::Gone`], also when it is being closed.
    pub async fn touch(&self) -> Result<(), SessionError> {
        self.ask(|reply| Message::Touch { reply }).await
    }

    /// What the session remembers.
    pub async fn memory(&self) -> Result<Memory, SessionError> {
        self.ask(|reply| Message::Memory { reply }).await
    }

    /// The runs that go on or wait, in order.
    pub async fn unfinished(&self) -> Result<Vec<(RunId, RunHandle)>, SessionError> {
        self.ask(|reply| Message::Unfinished { reply }).await
    }

    /// From now on the session takes on no run. Returns when those that it has have ended.
    pub async fn drain(&self) {
        // Without an actor there are no runs.
        _ = self.ask(|reply| Message::Drain { reply }).await;
    }

    /// Ends the session and returns when nothing of it is left.
    pub async fn close(&self) -> ClosedRuns {
        // An answer that does not come means that the actor is gone, which is what was asked for.
        self.ask(|reply| Message::Close { reply }).await.unwrap_or_default()
    }

    /// Whether the actor is gone, or broken.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        !self.is_there() || self.is_broken()
    }

    /// Whether it is being closed, or its time is over: its runs are, and no other begins.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.about.ending.load(Ordering::Relaxed)
    }

    /// Whether it broke.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.about.broken.load(Ordering::Relaxed)
    }

    /// Whether it still says what became of its runs, even if it broke.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.mailbox.is_closed()
    }

    async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Box::new(message(reply))).await.map_err(|_| SessionError::Gone)?;
        answer.await.map_err(|_| SessionError::Gone)
    }

    #[cfg(test)]
    async fn panic(&self) {
        _ = self.mailbox.send(Box::new(Message::Panic)).await;
        assert_eq!(self.status().await, Err(SessionError::Gone), "nobody is there to answer");
    }
}

#[cfg(test)]
mod tests;
