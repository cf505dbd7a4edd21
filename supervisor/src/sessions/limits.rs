//! Limits on all sessions of a host: their number and their idle time.

use std::time::Duration;

/// Default bound on the sessions of all tenants together. An idle session takes some kilobytes.
pub const SESSIONS_MAX: usize = 100_000;

/// Default idle time after which a session closes: longer than a night, so that its failures and coverage are there in
/// the morning.
pub const IDLE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Least idle time that a host file may set. Runs are readable until then, so it has to allow for another call.
pub const IDLE_MIN: Duration = Duration::from_secs(1);

/// Least `kept_memory` of a tenant. It must cover what one run may keep, or the end of that run would reject all
/// others: the events and the report of a run may take 160 MiB each.
pub const KEPT_MEMORY_MIN: u64 = 320 * 1024 * 1024;

/// Least `kept` of a tenant beyond the `log` limit of one run: [`KEPT_MEMORY_MIN`], and artefacts of 64 MiB.
pub const KEPT_BESIDE_LOG: u64 = 512 * 1024 * 1024;

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
        requested.map_or(self.idle_max, |requested| requested.max(IDLE_MIN).min(self.idle_max))
    }
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { sessions_max: SESSIONS_MAX, idle_max: IDLE_MAX }
    }
}
