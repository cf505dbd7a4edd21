//! The one session of this shim: opened at the first call, opened again when the supervisor has forgotten it or another
//! directory has taken the workspace's place. Must not know what is asked in it.

use crate::call_error::CallError;
use crate::keepalive::{ALONE_MS_MAX, SessionKeepalive};
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

/// How long closing may hold up our end, if the supervisor is slow to answer. It closes idle sessions by itself.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Said when the supervisor no longer knew the session.
const FORGOTTEN: &str =
    "The supervisor had closed the session: a new one was opened, which knows nothing of earlier runs.";

/// Said when another directory had taken the workspace's place.
const REPLACED: &str =
    "Another directory has taken the workspace's place: a new session was opened, which knows nothing of earlier runs.";

#[derive(Default)]
struct SessionSlot {
    opened: Option<OpenedSession>,
    // At a supervisor that lives on without us.
    renewal: Option<SessionKeepalive>,
    // Sessions that were given up: a new one needs a new request id, or the supervisor could return the old one.
    given_up: u32,
}

#[derive(Clone)]
struct OpenedSession {
    session_id: String,
    // Device and inode of the workspace as we saw it then.
    directory: Option<(u64, u64)>,
}

/// A session on one workspace, and the last run this shim has seen in it. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Session {
    workspace: Arc<PathBuf>,
    // Whether its supervisor lives on without us.
    is_shared: bool,
    // Unique to this process, so that a call that is cancelled while it opens the session leaves no second one behind.
    request_id: Arc<str>,
    slot: Arc<Mutex<SessionSlot>>,
    last_run: Arc<std::sync::Mutex<Option<String>>>,
    news: Arc<std::sync::Mutex<Option<&'static str>>>,
}

impl Session {
    /// A session that will be opened on `workspace`, a canonical absolute path, at a supervisor of others' too or of our own.
    pub(crate) fn on(workspace: PathBuf, is_shared: bool) -> Session {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Session {
            workspace: Arc::new(workspace),
            is_shared,
            request_id: format!("proctor-mcp-{}-{now}", std::process::id()).into(),
            slot: Arc::default(),
            last_run: Arc::default(),
            news: Arc::default(),
        }
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> &std::path::Path {
        &self.workspace
    }

    /// Makes `call` in the session. When the supervisor no longer knows the session, or the workspace is another directory by
    /// now, once more in a new one; when the connection is lost, once more over a new one. Repeating does no harm: a run that
    /// had begun is attached to.
    pub(crate) async fn call<T, F>(
        &self,
        supervisor: &SupervisorConnection,
        call: impl Fn(Clients, String) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        match self.attempt(supervisor, &call).await {
            Err(error) if reconnect::is_worthwhile(supervisor, &error).await => {
                reconnect::explained(supervisor, self.attempt(supervisor, &call).await).await
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
        let opened = if refusal.code() == Code::PermissionDenied && vanished(&clients, &opened.session_id).await {
            tracing::warn!("the supervisor has forgotten the session: opening a new one");
            self.forget(&opened.session_id).await;
            self.open(&clients).await?
        } else if self.is_of_another_directory(&refusal, &opened) {
            tracing::warn!("another directory has taken the workspace's place: opening a session on it");
            match self.replace(&clients, &opened.session_id).await {
                // Nothing is there that could be opened: what was refused stays refused.
                Err(CallError::Open(status)) if status.code() == Code::InvalidArgument => return Err(refusal.into()),
                opened => opened?,
            }
        } else {
            return Err(refusal.into());
        };
        Ok(call(clients, opened.session_id).await?)
    }

    // Files that a request names are looked for in the directory of before, which may have none any more: such a refusal
    // does not say why.
    fn is_of_another_directory(&self, refusal: &Status, opened: &OpenedSession) -> bool {
        is_replaced(refusal) || refusal.code() == Code::InvalidArgument && self.directory() != opened.directory
    }

    fn directory(&self) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(&*self.workspace).ok().map(|found| (found.dev(), found.ino()))
    }

    /// What the reader of the next answer has to know about the session. It is told once.
    pub(crate) fn news(&self) -> Option<&'static str> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The last run this shim has seen.
    pub(crate) fn last_run(&self) -> Option<String> {
        self.last_run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers a run as the last one.
    pub(crate) fn saw_run(&self, run_id: &str) {
        *self.last_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run_id.to_owned());
    }

    /// Closes the session at a shared supervisor, so that it does not count against the tenant's quota until it
    /// expires. Not while a run is going on: a lost client never loses a run.
    pub(crate) async fn close_if_idle(&self, supervisor: &SupervisorConnection) {
        let closing = async {
            let mut slot = self.slot.lock().await;
            // Its next use would make another session.
            slot.renewal = None;
            let opened = slot.opened.clone()?;
            drop(slot);
            close_idle(supervisor.shared().await?, opened.session_id).await
        };
        if tokio::time::timeout(CLOSE_MAX, closing).await.is_err() {
            tracing::debug!("the session stays open until it expires");
        }
    }

    async fn open(&self, clients: &Clients) -> Result<OpenedSession, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(opened) = &slot.opened {
            return Ok(opened.clone());
        }
        let given_up = slot.given_up;
        let opened = self.create(clients, &mut slot, given_up).await?;
        if slot.given_up > 0 {
            self.tell(FORGOTTEN);
        }
        Ok(opened)
    }

    async fn create(
        &self,
        clients: &Clients,
        slot: &mut SessionSlot,
        given_up: u32,
    ) -> Result<OpenedSession, CallError> {
        let directory = self.directory();
        let request = CreateSessionRequest {
            workspace: self.workspace.to_string_lossy().into_owned(),
            client_request_id: format!("{}-{given_up}", self.request_id),
            // What its calls brought to light is an agent's own, and it closes its session when it goes.
            separate: true,
            idle_ms_max: if self.is_shared { ALONE_MS_MAX } else { 0 },
        };
        let answer = clients.clone().sessions.create_session(request.clone()).await;
        let session = answer.map_err(CallError::Open)?.into_inner().session.unwrap_or_default();
        let opened = OpenedSession { session_id: session.session_id.clone(), directory };
        (slot.opened, slot.given_up) = (Some(opened.clone()), given_up);
        slot.renewal = self.is_shared.then(|| SessionKeepalive::of(clients.clone(), request, session));
        Ok(opened)
    }

    async fn forget(&self, session_id: &str) {
        let mut slot = self.slot.lock().await;
        // Another call may have opened the new one already.
        if slot.opened.as_ref().is_some_and(|opened| opened.session_id == session_id) {
            (slot.opened, slot.renewal) = (None, None);
            slot.given_up += 1;
            self.forget_run();
        }
    }

    // The old session is kept until there is a new one, for the failures and the coverage that it knows.
    async fn replace(&self, clients: &Clients, session_id: &str) -> Result<OpenedSession, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(other) = slot.opened.as_ref().filter(|opened| opened.session_id != session_id) {
            return Ok(other.clone());
        }
        let given_up = slot.given_up + 1;
        let opened = self.create(clients, &mut slot, given_up).await?;
        self.forget_run();
        self.tell(REPLACED);
        drop(slot);
        let closing = close_idle(clients.clone(), session_id.to_owned());
        if tokio::time::timeout(CLOSE_MAX, closing).await.is_err() {
            tracing::debug!("the former session stays open until it expires");
        }
        Ok(opened)
    }

    // Of a run of the session before, the next one knows nothing.
    fn forget_run(&self) {
        *self.last_run.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn tell(&self, news: &'static str) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(news);
    }
}

fn is_replaced(status: &Status) -> bool {
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

// Something else may have been denied, and the session with its failures and coverage be well.
async fn vanished(clients: &Clients, session_id: &str) -> bool {
    let request = GetSessionRequest { session_id: session_id.to_owned() };
    let answer = clients.clone().sessions.get_session(request).await;
    answer.is_err_and(|status| status.code() == Code::PermissionDenied)
}
