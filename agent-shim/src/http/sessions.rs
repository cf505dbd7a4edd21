//! The MCP sessions of one workspace (versions before 2026-07-28): their bound, and the ids in use in each.

use crate::requests_in_flight::RequestsInFlight;
use rmcp::model::{ErrorData, RequestId};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most sessions. An agent has one; the rest were left behind by agents that ended without closing theirs.
const SESSIONS_MAX: usize = 256;

/// After how long without a request a session is closed. An agent may think, or wait for its user, for long.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// The sessions. Clones share them.
#[derive(Clone)]
pub(super) struct HttpSessions {
    manager: Arc<LocalSessionManager>,
    uses: Arc<Mutex<HashMap<SessionId, SessionUse>>>,
}

/// How one session is used.
struct SessionUse {
    last: Instant,
    // Requests and streams that are open.
    open: usize,
    requests: RequestsInFlight,
}

/// An open request or stream of a session.
pub(super) struct OpenRequest {
    sessions: HttpSessions,
    session: SessionId,
    id: Option<RequestId>,
}

impl HttpSessions {
    pub(super) fn new() -> HttpSessions {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(IDLE_MAX);
        HttpSessions { manager: Arc::new(manager), uses: Arc::default() }
    }

    /// rmcp's sessions.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Closes the session idle longest if there are too many; returns whether another one has room.
    pub(super) async fn make_room(&self) -> bool {
        let open: Vec<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let evicted = {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            uses.retain(|id, usage| usage.open > 0 || open.contains(id));
            if open.len() < SESSIONS_MAX {
                return true;
            }
            let idle = uses.iter().filter(|(_, usage)| usage.open == 0);
            idle.min_by_key(|(_, usage)| usage.last).map(|(id, _)| id.clone())
        };
        let Some(id) = evicted else { return false };
        tracing::info!("too many sessions: the one idle longest is closed");
        self.manager.close_session(&id).await.is_ok()
    }

    /// Records a new session.
    pub(super) fn add(&self, session: &str) {
        let usage = SessionUse { last: Instant::now(), open: 0, requests: RequestsInFlight::default() };
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).insert(session.into(), usage);
    }

    /// Records a request or stream of a session; refuses an id that is in use there. `None` if the session is not known.
    pub(super) fn start(&self, session: &str, id: Option<RequestId>) -> Result<Option<OpenRequest>, ErrorData> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(usage) = uses.get_mut(session) else { return Ok(None) };
        if let Some(id) = &id {
            usage.requests.start(id)?;
        }
        usage.last = Instant::now();
        usage.open += 1;
        Ok(Some(OpenRequest { sessions: self.clone(), session: session.into(), id }))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut uses = self.sessions.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = uses.get_mut(&self.session) {
            usage.last = Instant::now();
            usage.open -= 1;
            self.id.iter().for_each(|id| usage.requests.finish(id));
        }
    }
}
