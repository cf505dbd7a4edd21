//! The one place that reads clocks. Must not know what a moment is used for.

use proctor_core::timestamp::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A clock that never runs backwards, anchored at the wall clock when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    anchor: Timestamp,
}

impl Clock {
    /// Reads the wall clock once.
    #[must_use]
    pub fn new() -> Self {
        Clock { started: Instant::now(), anchor: Clock::on_the_wall() }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.anchor.plus_ms(self.elapsed_ms())
    }

    /// Now, as everybody on the host would say it. It may be earlier than the last time: this one is for writing down, not for
    /// reckoning.
    #[must_use]
    pub fn on_the_wall() -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    /// `moment` for a comparison with the times of files, which follow the wall clock wherever it is set: the earlier of what
    /// that said then and what it would say now, so that no change goes unseen.
    #[must_use]
    pub fn among_files(&self, moment: Timestamp) -> Timestamp {
        let ago = self.now().ms_since(moment);
        moment.min(Timestamp(Clock::on_the_wall().0.saturating_sub(ago)))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn a_file_that_was_changed_after_the_clock_was_set_back_is_seen_to_be() {
        let wall = Clock::on_the_wall();
        let (set_back, set_forward) = (wall.plus_ms(HOUR_MS), Timestamp(wall.0 - HOUR_MS));
        for anchor in [set_back, wall, set_forward] {
            let clock = Clock { started: Instant::now(), anchor };
            let measured = clock.now();
            let edited = Clock::on_the_wall();
            let among = clock.among_files(measured);
            assert!(among <= edited && among <= measured, "{among:?} {edited:?}");
            assert!(anchor == set_forward || edited.ms_since(among) < HOUR_MS / 2, "{among:?} {edited:?}");
        }
    }
}
