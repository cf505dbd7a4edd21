//! The one session of this shim: opened by the first call, and opened again when the supervisor has closed it or the
//! workspace was replaced by another directory.

use crate::abandoned_runs::AbandonedRuns;
use crate::call_error::CallError;
use crate::keepalive::{IDLE_MS_MAX, SessionKeepalive};
use crate::reconnect;
use crate::supervisor_connection::{Clients, SupervisorConnection};
use proctor_proto::reason;
use proctor_proto::v1::{CloseSessionRequest, CreateSessionRequest, GetSessionRequest};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// How long closing the session may delay the end of the shim. The supervisor closes idle sessions by itself.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Notice after the session has ended.
const SESSION_LOST: &str = "The session with the earlier runs has ended, since it was idle too long or its supervisor was \
                            restarted: a new one was opened, which knows nothing of them.";

/// Notice after the workspace was replaced by another directory.
const WORKSPACE_REPLACED: &str =
    "Another directory has taken the workspace's place: a new session was opened, which knows nothing of earlier runs.";

#[derive(Default)]
struct SessionSlot {
    current: Option<OpenSession>,
    // With a shared supervisor, which outlives this process.
    keepalive: Option<SessionKeepalive>,
    // Part of the request id, counted up for each new session: otherwise the supervisor could return the old one.
    generation: u32,
}

#[derive(Clone)]
struct OpenSession {
    session_id: String,
    // Device and inode of the workspace when the session was opened.
    directory: Option<(u64, u64)>,
}

/// The session on the workspace, and the last run in it. Clones share the session.
#[derive(Clone)]
pub(crate) struct Session {
    workspace: Arc<PathBuf>,
    // Whether the supervisor outlives this process.
    is_shared: bool,
    // Unique to this process, so that a call cancelled while it opens the session does not leave a second one behind.
    request_id: Arc<str>,
    slot: Arc<Mutex<SessionSlot>>,
    last_run: Arc<std::sync::Mutex<Option<String>>>,
    abandoned: AbandonedRuns,
    notice: Arc<std::sync::Mutex<Option<&'static str>>>,
}

impl Session {
    /// A session on `workspace`, a canonical absolute path, not yet opened. `is_shared`: at a supervisor that others use too.
    pub(crate) fn new(workspace: PathBuf, is_shared: bool) -> Session {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Session {
            workspace: Arc::new(workspace),
            is_shared,
            request_id: format!("proctor-mcp-{}-{now}", std::process::id()).into(),
            slot: Arc::default(),
            last_run: Arc::default(),
            abandoned: AbandonedRuns::default(),
            notice: Arc::default(),
        }
    }

    pub(crate) fn workspace(&self) -> &std::path::Path {
        &self.workspace
    }

    /// Makes `call` in the session. Repeats it once in a new session if the supervisor no longer knows the session or the
    /// workspace was replaced, and once over a new connection if the connection is lost. Repeating is safe: the second call
    /// attaches to a run that the first one started.
    pub(crate) async fn call<T, F>(
        &self,
        supervisor: &SupervisorConnection,
        call: impl Fn(Clients, String) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        match self.attempt(supervisor, &call).await {
            Err(error) if reconnect::prepare_retry(supervisor, &error).await => {
                reconnect::explain_lost_connection(supervisor, self.attempt(supervisor, &call).await).await
            }
            answer => answer,
        }
    }

    async fn attempt<T, F>(
        &self,
        supervisor: &SupervisorConnection,
        call: &impl Fn(Clients, String) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let clients = supervisor.clients().await?;
        let opened = self.open(&clients).await?;
        let refusal = match call(clients.clone(), opened.session_id.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(status) => status,
        };
        let opened = if refusal.code() == Code::PermissionDenied && is_gone(&clients, &opened.session_id).await {
            tracing::warn!("the supervisor has closed the session: opening a new one");
            self.forget(&opened.session_id).await;
            self.open(&clients).await?
        } else if self.is_workspace_replaced(&refusal, &opened) {
            tracing::warn!("the workspace was replaced by another directory: opening a session on it");
            match self.replace(&clients, &opened.session_id).await {
                // No directory is there to open: the first refusal stands.
                Err(CallError::Open(status)) if status.code() == Code::InvalidArgument => return Err(refusal.into()),
                opened => opened?,
            }
        } else {
            return Err(refusal.into());
        };
        Ok(call(clients, opened.session_id).await?)
    }

    // The supervisor resolves the files of a request in the directory that the session has open. After a replacement that
    // directory may be empty, and the refusal only says that a file is missing.
    fn is_workspace_replaced(&self, refusal: &Status, opened: &OpenSession) -> bool {
        has_replaced_reason(refusal) || refusal.code() == Code::InvalidArgument && self.directory() != opened.directory
    }

    fn directory(&self) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(&*self.workspace).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Takes the notice about the session for the next answer, if there is one.
    pub(crate) fn take_notice(&self) -> Option<&'static str> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The runs whose call was cut off.
    pub(crate) fn abandoned(&self) -> &AbandonedRuns {
        &self.abandoned
    }

    /// The last run that this shim has seen.
    pub(crate) fn last_run(&self) -> Option<String> {
        self.last_run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the last run.
    pub(crate) fn set_last_run(&self, run_id: &str) {
        *self.last_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run_id.to_owned());
    }

    /// Closes the session at a shared supervisor, so that it does not count against the tenant's quota until it expires.
    /// Keeps it open while a run is in progress: a run survives the loss of its client.
    pub(crate) async fn close_if_idle(&self, supervisor: &SupervisorConnection) {
        let closing = async {
            let mut slot = self.slot.lock().await;
            // The keepalive would otherwise create another session.
            slot.keepalive = None;
            let opened = slot.current.clone()?;
            drop(slot);
            close_idle(supervisor.shared().await?, opened.session_id).await
        };
        if tokio::time::timeout(CLOSE_MAX, closing).await.is_err() {
            tracing::debug!("the session stays open until it expires");
        }
    }

    async fn open(&self, clients: &Clients) -> Result<OpenSession, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(opened) = &slot.current {
            return Ok(opened.clone());
        }
        let generation = slot.generation;
        let opened = self.create(clients, &mut slot, generation).await?;
        if slot.generation > 0 {
            self.set_notice(SESSION_LOST);
        }
        Ok(opened)
    }

    async fn create(
        &self,
        clients: &Clients,
        slot: &mut SessionSlot,
        generation: u32,
    ) -> Result<OpenSession, CallError> {
        let directory = self.directory();
        let request = CreateSessionRequest {
            workspace: self.workspace.to_string_lossy().into_owned(),
            client_request_id: format!("{}-{generation}", self.request_id),
            // Failures and coverage belong to one agent, which closes its session when it ends.
            separate: true,
            idle_ms_max: if self.is_shared { IDLE_MS_MAX } else { 0 },
        };
        let answer = clients.clone().sessions.create_session(request.clone()).await;
        let session = answer.map_err(CallError::Open)?.into_inner().session.unwrap_or_default();
        let opened = OpenSession { session_id: session.session_id.clone(), directory };
        (slot.current, slot.generation) = (Some(opened.clone()), generation);
        slot.keepalive = self.is_shared.then(|| SessionKeepalive::start(clients.clone(), request, session));
        Ok(opened)
    }

    async fn forget(&self, session_id: &str) {
        let mut slot = self.slot.lock().await;
        // Another call may have opened the new one already.
        if slot.current.as_ref().is_some_and(|opened| opened.session_id == session_id) {
            (slot.current, slot.keepalive) = (None, None);
            slot.generation += 1;
            self.forget_run();
        }
    }

    // The old session stays open until there is a new one: it has the failures and the coverage.
    async fn replace(&self, clients: &Clients, session_id: &str) -> Result<OpenSession, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(other) = slot.current.as_ref().filter(|opened| opened.session_id != session_id) {
            return Ok(other.clone());
        }
        let generation = slot.generation + 1;
        let opened = self.create(clients, &mut slot, generation).await?;
        self.forget_run();
        self.set_notice(WORKSPACE_REPLACED);
        drop(slot);
        let closing = close_idle(clients.clone(), session_id.to_owned());
        if tokio::time::timeout(CLOSE_MAX, closing).await.is_err() {
            tracing::debug!("the old session stays open until it expires");
        }
        Ok(opened)
    }

    // The new session does not know the runs of the old one.
    fn forget_run(&self) {
        *self.last_run.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn set_notice(&self, notice: &'static str) {
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
    }
}

fn has_replaced_reason(status: &Status) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == reason::WORKSPACE_REPLACED)
}

async fn close_idle(clients: Clients, session_id: String) -> Option<()> {
    let mut sessions = clients.sessions;
    let answer = sessions.get_session(GetSessionRequest { session_id: session_id.clone() }).await.ok()?;
    let session = answer.into_inner().session?;
    if session.running_run_id.is_empty() && session.queued_runs == 0 {
        sessions.close_session(CloseSessionRequest { session_id }).await.ok()?;
    }
    Some(())
}

// PERMISSION_DENIED may concern something else while the session still exists.
async fn is_gone(clients: &Clients, session_id: &str) -> bool {
    let request = GetSessionRequest { session_id: session_id.to_owned() };
    let answer = clients.clone().sessions.get_session(request).await;
    answer.is_err_and(|status| status.code() == Code::PermissionDenied)
}
