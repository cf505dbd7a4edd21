//! The MCP sessions of one workspace (versions before 2026-07-28): their bound, and the ids in use in each.

use crate::requests_in_flight::RequestsInFlight;
use rmcp::model::{ErrorData, RequestId};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;

/// Most sessions. An agent has one; the rest were left behind by agents that ended without closing theirs.
const SESSIONS_MAX: usize = 256;

/// After how long without a request a session is closed. An agent may think, or wait for its user, for long.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// The sessions. Clones share them.
#[derive(Clone)]
pub(super) struct HttpSessions {
    manager: Arc<LocalSessionManager>,
    uses: Arc<Mutex<HashMap<SessionId, SessionUse>>>,
    // Held from the check for room until the new session is there, so that two new ones do not take the same room.
    opening: Arc<tokio::sync::Mutex<()>>,
}

/// Room for one new session. While it is held, no other session is opened.
pub(super) struct Room(#[expect(dead_code, reason = "released on drop")] OwnedMutexGuard<()>);

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
        HttpSessions { manager: Arc::new(manager), uses: Arc::default(), opening: Arc::default() }
    }

    /// rmcp's sessions.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Makes room for another session: closes the one idle longest if there are too many. `None` if all are in use.
    pub(super) async fn make_room(&self) -> Option<Room> {
        let room = Room(self.opening.clone().lock_owned().await);
        let open: Vec<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let evicted = {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            uses.retain(|id, usage| usage.open > 0 || open.contains(id));
            if open.len() < SESSIONS_MAX {
                return Some(room);
            }
            let idle = uses.iter().filter(|(_, usage)| usage.open == 0);
            idle.min_by_key(|(_, usage)| usage.last).map(|(id, _)| id.clone())
        };
        let id = evicted?;
        tracing::info!("too many sessions: the one idle longest is closed");
        self.manager.close_session(&id).await.is_ok().then_some(room)
    }

    /// Records a new session, which takes the room.
    pub(super) fn add(&self, session: &str, _room: Room) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn two_new_sessions_do_not_take_the_same_room() {
        let sessions = HttpSessions::new();
        let room = sessions.make_room().await.unwrap();
        assert!(sessions.make_room().now_or_never().is_none(), "the first one is not there yet");
        sessions.add("first", room);
        assert!(sessions.make_room().now_or_never().flatten().is_some());
    }
}
