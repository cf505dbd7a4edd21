//! What holds for all sessions of a host: how many there are and how long one lives. Must not know what a session is.

use std::time::Duration;

/// Sessions of all tenants together unless a host file says otherwise. At rest each takes some kilobytes.
pub const SESSIONS_MAX: usize = 100_000;

/// How long a session lives that nobody uses, unless a host file says otherwise: longer than a person's night, so that its
/// memory is there in the morning.
pub const IDLE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// The least of it that a host file may say. What it ran can be read until then, so it has to be time for another call.
pub const IDLE_MIN: Duration = Duration::from_secs(1);

/// What the sessions of a tenant may keep in memory (`kept_memory`) has to be as much as one run may, or its end keeps all others
/// out: its events and its report may take 160 MiB each.
pub const KEPT_MEMORY_MIN: u64 = 320 * 1024 * 1024;

/// What they may keep at all (`kept`) has to be as much as one run may say (`log`) and this: [`KEPT_MEMORY_MIN`], and artefacts of
/// 64 MiB.
pub const KEPT_BESIDE_LOG: u64 = 512 * 1024 * 1024;

/// What holds for all sessions of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions at the same time, of all tenants together.
    pub sessions_max: usize,
    /// How long one lives that nobody uses.
    pub idle_max: Duration,
}

impl SessionLimits {
    /// How long a session lives that nobody uses and whose client has asked for this.
    #[must_use]
    pub fn idle(&self, asked: Option<Duration>) -> Duration {
        asked.map_or(self.idle_max, |asked| asked.max(IDLE_MIN).min(self.idle_max))
    }
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { sessions_max: SESSIONS_MAX, idle_max: IDLE_MAX }
    }
}
