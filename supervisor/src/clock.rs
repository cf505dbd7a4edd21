//! The only place that reads the system clocks.

use proctor_core::timestamp::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A monotonic clock, anchored at the wall clock when it is created.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    anchor: Timestamp,
}

impl Clock {
    /// Reads the wall clock once.
    #[must_use]
    pub fn new() -> Self {
        Clock { started: Instant::now(), anchor: Clock::wall_time() }
    }

    /// The current monotonic time as a timestamp.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.anchor.plus_ms(self.elapsed_ms())
    }

    /// The wall clock. It can jump backwards, so it is for timestamps that people read, never for durations.
    #[must_use]
    pub fn wall_time() -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    /// Converts `moment` for a comparison with file times, which follow the wall clock wherever it is set. Returns the
    /// earlier of the wall time recorded then and the same age on today's wall clock, so that no changed file is
    /// overlooked.
    #[must_use]
    pub fn for_file_times(&self, moment: Timestamp) -> Timestamp {
        let ago = self.now().ms_since(moment);
        moment.min(Timestamp(Clock::wall_time().0.saturating_sub(ago)))
    }

    /// Milliseconds since the clock was created.
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
    fn a_file_edited_after_the_clock_was_set_back_counts_as_changed() {
        let wall = Clock::wall_time();
        let (set_back, set_forward) = (wall.plus_ms(HOUR_MS), Timestamp(wall.0 - HOUR_MS));
        for anchor in [set_back, wall, set_forward] {
            let clock = Clock { started: Instant::now(), anchor };
            let measured = clock.now();
            let edited = Clock::wall_time();
            let file_time = clock.for_file_times(measured);
            assert!(file_time <= edited && file_time <= measured, "{file_time:?} {edited:?}");
            assert!(anchor == set_forward || edited.ms_since(file_time) < HOUR_MS / 2, "{file_time:?} {edited:?}");
        }
    }
}
