//! Keeps a session for as long as this process lives. It asks for one that a supervisor closes soon when nobody uses it, so that
//! what a killed agent leaves does not count against its tenant for half a day, and uses it now and then. Must not know what is
//! done in the session.

use crate::supervisor_connection::Clients;
use proctor_proto::v1::{CloseSessionRequest, CreateSessionRequest, Session};
use std::time::Duration;
use tokio::task::AbortHandle;
use tonic::Status;

/// How long a session lives without us, in milliseconds, unless the supervisor says less: time enough for a host that stands
/// still, and for a supervisor that is replaced.
pub(crate) const ALONE_MS_MAX: u64 = 15 * 60 * 1_000;

/// The least that a supervisor says, in milliseconds. One that says less is no reason to ask it all the time.
const ALONE_MS_MIN: u64 = 1_000;

/// How often it is used in that time: one use may fail, and another.
const USES: u32 = 3;

/// A session that is kept until this is dropped.
pub(crate) struct SessionKeepalive(AbortHandle);

impl SessionKeepalive {
    /// Keeps `session`, which `request` has made and therefore names.
    pub(crate) fn of(clients: Clients, request: CreateSessionRequest, session: Session) -> SessionKeepalive {
        SessionKeepalive(tokio::spawn(keep(clients, request, session)).abort_handle())
    }
}

impl Drop for SessionKeepalive {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(mut clients: Clients, request: CreateSessionRequest, session: Session) {
    let pause = Duration::from_millis(session.idle_ms_max.max(ALONE_MS_MIN)) / USES;
    loop {
        tokio::time::sleep(pause).await;
        match named(&mut clients, &request).await {
            Ok(found) if found == session.session_id => {}
            // It is gone. The next call finds that out, opens another and says so; this one nobody knows.
            Ok(another) => {
                _ = clients.sessions.close_session(CloseSessionRequest { session_id: another }).await;
                return;
            }
            Err(status) => tracing::debug!(%status, "the session could not be used"),
        }
    }
}

// Naming the request that made a session is a use of it.
async fn named(clients: &mut Clients, request: &CreateSessionRequest) -> Result<String, Status> {
    let answer = clients.sessions.create_session(request.clone()).await?.into_inner();
    Ok(answer.session.unwrap_or_default().session_id)
}
