//! Limits on all sessions of a host: their number and their idle time.

use proctor_core::bounds::{SESSION_IDLE_MAX, SESSION_IDLE_MIN, SESSIONS_MAX};
use std::time::Duration;

/// Limits on all sessions of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most sessions at a time, of all tenants together.
    pub sessions_max: usize,
    /// Idle time after which a session closes.
    pub idle_max: Duration,
}

impl SessionLimits {
    /// The idle time of a session whose client requests this one.
    #[must_use]
    pub fn idle(&self, requested: Option<Duration>) -> Duration {
        requested.map_or(self.idle_max, |requested| requested.max(SESSION_IDLE_MIN).min(self.idle_max))
    }
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { sessions_max: SESSIONS_MAX, idle_max: SESSION_IDLE_MAX }
    }
}
