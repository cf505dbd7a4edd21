//! Keeps the session alive for as long as this process lives. The session is created with a short idle limit, so that the
//! session of a killed agent does not count against its tenant's quota for half a day, and is touched regularly.

use crate::supervisor_connection::Clients;
use proctor_proto::v1::{CloseSessionRequest, CreateSessionRequest, Session};
use std::time::Duration;
use tokio::task::AbortHandle;
use tonic::Status;

/// Idle limit requested for the session, in milliseconds; the supervisor may grant less. Long enough to survive a suspended
/// host and the replacement of the supervisor.
pub(crate) const IDLE_MS_MAX: u64 = 15 * 60 * 1_000;

/// Lower bound for the granted idle limit, in milliseconds, so that a tiny one does not cause constant requests.
const IDLE_MS_MIN: u64 = 1_000;

/// Touches per idle limit: two of them may fail.
const TOUCHES: u32 = 3;

/// Keeps a session alive until dropped.
pub(crate) struct SessionKeepalive(AbortHandle);

impl SessionKeepalive {
    /// Keeps `session` alive. `request` is the one that created it; repeating it touches the session.
    pub(crate) fn start(clients: Clients, request: CreateSessionRequest, session: Session) -> SessionKeepalive {
        SessionKeepalive(tokio::spawn(touch_regularly(clients, request, session)).abort_handle())
    }
}

impl Drop for SessionKeepalive {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn touch_regularly(mut clients: Clients, request: CreateSessionRequest, session: Session) {
    let pause = Duration::from_millis(session.idle_ms_max.max(IDLE_MS_MIN)) / TOUCHES;
    loop {
        tokio::time::sleep(pause).await;
        match touch(&mut clients, &request).await {
            Ok(id) if id == session.session_id => {}
            // The session is gone and this request created a new one, which nobody uses: close it. The next tool call
            // detects the loss, opens another session and reports that.
            Ok(session_id) => {
                _ = clients.sessions.close_session(CloseSessionRequest { session_id }).await;
                return;
            }
            Err(status) => tracing::debug!(%status, "the session could not be touched"),
        }
    }
}

// CreateSession with a known client_request_id returns the existing session and counts as a use of it.
async fn touch(clients: &mut Clients, request: &CreateSessionRequest) -> Result<String, Status> {
    let answer = clients.sessions.create_session(request.clone()).await?.into_inner();
    Ok(answer.session.unwrap_or_default().session_id)
}
