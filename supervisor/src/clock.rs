//! The one place that reads clocks. Must not know what a moment is used for.

use proctor_core::moment::Moment;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A clock that never runs backwards, anchored at the wall clock when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    anchor_ms: u64,
}

impl Clock {
    /// Reads the wall clock once.
    #[must_use]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::now(), anchor_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(self.anchor_ms).plus_ms(self.elapsed_ms())
    }

    /// Milliseconds since the clock was made.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
