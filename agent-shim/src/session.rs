//! The one session of this shim: opened at the first call, opened again when the supervisor has forgotten it. Must not know
//! what is asked in it.

use crate::call_error::CallError;
use crate::supervisor::{Clients, Supervisor};
use proctor_proto::v1::{CloseSessionRequest, CreateSessionRequest, GetSessionRequest};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;
use tonic::{Code, Status};

/// How long closing may hold up our end. The supervisor closes idle sessions by itself.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// Pause before a lost connection is made anew: a private supervisor that has crashed is reaped meanwhile.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Slot {
    session_id: Option<String>,
    // Sessions that vanished: a new one needs a new request id, or the supervisor could return the old one.
    vanished: u32,
}

/// A session on one workspace, and the last run this shim has seen in it. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Session {
    workspace: Arc<PathBuf>,
    // Unique to this process, so that a call that is cancelled while it opens the session leaves no second one behind.
    request_id: Arc<str>,
    slot: Arc<Mutex<Slot>>,
    last_run: Arc<std::sync::Mutex<Option<String>>>,
}

impl Session {
    /// A session that will be opened on `workspace`, a canonical absolute path.
    pub(crate) fn on(workspace: PathBuf) -> Session {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Session {
            workspace: Arc::new(workspace),
            request_id: format!("proctor-mcp-{}-{now}", std::process::id()).into(),
            slot: Arc::default(),
            last_run: Arc::default(),
        }
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> &std::path::Path {
        &self.workspace
    }

    /// Makes `call` in the session. When the supervisor no longer knows the session, once more in a new one; when the
    /// connection is lost, once more over a new one. Repeating does no harm: a run that had begun is attached to.
    pub(crate) async fn call<T, F>(
        &self,
        supervisor: &Supervisor,
        call: impl Fn(Clients, String) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        match self.attempt(supervisor, &call).await {
            Err(error) if error.is_lost_connection() => {
                tracing::warn!(?error, "the connection to the supervisor is lost: trying again");
                tokio::time::sleep(RECONNECT_PAUSE).await;
                self.attempt(supervisor, &call).await
            }
            answer => answer,
        }
    }

    async fn attempt<T, F>(&self, supervisor: &Supervisor, call: &impl Fn(Clients, String) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let clients = supervisor.clients().await?;
        let session_id = self.open(&clients).await?;
        match call(clients.clone(), session_id.clone()).await {
            Err(status) if status.code() == Code::PermissionDenied && vanished(&clients, &session_id).await => {
                tracing::warn!("the supervisor has forgotten the session: opening a new one");
                self.forget(&session_id).await;
                let session_id = self.open(&clients).await?;
                Ok(call(clients, session_id).await?)
            }
            answer => Ok(answer?),
        }
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
    pub(crate) async fn close_if_idle(&self, supervisor: &Supervisor) {
        let closing = async {
            let session_id = self.slot.lock().await.session_id.clone()?;
            let mut sessions = supervisor.shared().await?.sessions;
            let answer = sessions.get_session(GetSessionRequest { session_id: session_id.clone() }).await.ok()?;
            let session = answer.into_inner().session?;
            if session.running_run_id.is_empty() && session.queued_runs == 0 {
                sessions.close_session(CloseSessionRequest { session_id }).await.ok()?;
            }
            Some(())
        };
        if tokio::time::timeout(CLOSE_MAX, closing).await.is_err() {
            tracing::debug!("the session stays open until it expires");
        }
    }

    async fn open(&self, clients: &Clients) -> Result<String, CallError> {
        let mut slot = self.slot.lock().await;
        if let Some(session_id) = &slot.session_id {
            return Ok(session_id.clone());
        }
        let request = CreateSessionRequest {
            workspace: self.workspace.to_string_lossy().into_owned(),
            client_request_id: format!("{}-{}", self.request_id, slot.vanished),
            // What its calls brought to light is an agent's own, and it closes its session when it goes.
            separate: true,
        };
        let answer = clients.clone().sessions.create_session(request).await;
        let session = answer.map_err(CallError::Open)?.into_inner().session;
        let session_id = session.unwrap_or_default().session_id;
        slot.session_id = Some(session_id.clone());
        Ok(session_id)
    }

    async fn forget(&self, session_id: &str) {
        let mut slot = self.slot.lock().await;
        // Another call may have opened the new one already.
        if slot.session_id.as_deref() == Some(session_id) {
            slot.session_id = None;
            slot.vanished += 1;
        }
    }
}

// Something else may have been denied, and the session with its failures and coverage be well.
async fn vanished(clients: &Clients, session_id: &str) -> bool {
    let request = GetSessionRequest { session_id: session_id.to_owned() };
    let answer = clients.clone().sessions.get_session(request).await;
    answer.is_err_and(|status| status.code() == Code::PermissionDenied)
}
