//! Counts of the workers of a sandbox: how long their set-up took, and how often the pool had one ready.

use proctor_core::histogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of set-up times in seconds: a prepared worker takes about a millisecond, a new one tens of them.
const SETUP_BOUNDS_S: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Counts of workers since the sandbox was created.
#[derive(Debug)]
pub struct WorkerCounts {
    /// From the request for a run to its first command, if the pool had a worker.
    pub setup_prepared: Histogram,
    /// The same, if the run had to make a worker.
    pub setup_new: Histogram,
    pool_hits: AtomicU64,
    pool_misses: AtomicU64,
}

impl Default for WorkerCounts {
    fn default() -> WorkerCounts {
        WorkerCounts {
            setup_prepared: Histogram::new(SETUP_BOUNDS_S),
            setup_new: Histogram::new(SETUP_BOUNDS_S),
            pool_hits: AtomicU64::new(0),
            pool_misses: AtomicU64::new(0),
        }
    }
}

impl WorkerCounts {
    /// Runs that found a worker in the pool.
    #[must_use]
    pub fn pool_hits(&self) -> u64 {
        self.pool_hits.load(Ordering::Relaxed)
    }

    /// Runs that found none.
    #[must_use]
    pub fn pool_misses(&self) -> u64 {
        self.pool_misses.load(Ordering::Relaxed)
    }

    pub(crate) fn record_request(&self, is_hit: bool) {
        let counter = if is_hit { &self.pool_hits } else { &self.pool_misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_setup(&self, was_prepared: bool, seconds: f64) {
        let times = if was_prepared { &self.setup_prepared } else { &self.setup_new };
        times.record_s(seconds);
    }
}
