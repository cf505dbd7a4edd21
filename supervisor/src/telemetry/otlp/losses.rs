//! What a collector did not take, for a log line a minute.

use proctor_core::bounds::clip;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest time between two log lines about losses.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Longest text of an error in the log, in bytes: the collector may have written it.
const ERROR_BYTES_MAX: usize = 512;

/// Counts what was lost since the last log line.
#[derive(Debug)]
pub(in crate::telemetry) struct Losses {
    created: Instant,
    /// Milliseconds from the creation until the next line may be written.
    next_ms: AtomicU64,
    lost: AtomicU64,
}

impl Losses {
    pub(in crate::telemetry) fn new() -> Losses {
        Losses { created: Instant::now(), next_ms: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// Adds `lost`. Returns what was lost since the last line, and the text of the error for it, if another one is due.
    pub(in crate::telemetry) fn add(&self, lost: u64, error: impl Display) -> Option<(u64, String)> {
        let lost = self.add_at(lost, self.created.elapsed())?;
        Some((lost, clip(error.to_string(), ERROR_BYTES_MAX)))
    }

    fn add_at(&self, lost: u64, now: Duration) -> Option<u64> {
        let lost = self.lost.fetch_add(lost, Ordering::Relaxed) + lost;
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        if now_ms < self.next_ms.load(Ordering::Relaxed) {
            return None;
        }
        let interval_ms = u64::try_from(LOG_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        self.next_ms.store(now_ms.saturating_add(interval_ms), Ordering::Relaxed);
        self.lost.fetch_sub(lost, Ordering::Relaxed);
        Some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_a_minute_with_all_that_was_lost() {
        let losses = Losses::new();
        let lines = [0, 1, 30, 59, 60, 61, 200].map(|at| losses.add_at(10, Duration::from_secs(at)));
        assert_eq!(lines, [Some(10), None, None, None, Some(40), None, Some(20)]);
    }
}
