//! A histogram of durations that many threads fill without waiting.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of durations by upper bound, their number and their sum. Every field only grows.
#[derive(Debug)]
pub struct Histogram {
    bounds_s: &'static [f64],
    /// One count for each bound, and one for durations beyond the last.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

/// The counts of a histogram at one moment. Durations that are recorded meanwhile may be in some fields only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistogramCounts {
    /// Upper bound in seconds, infinite for the last, and the durations up to it that exceed the bound before.
    pub buckets: Vec<(f64, u64)>,
    /// Number of durations.
    pub count: u64,
    /// Sum of the durations, in seconds.
    pub sum_s: f64,
}

impl Histogram {
    /// An empty histogram with these ascending upper bounds in seconds.
    #[must_use]
    pub fn new(bounds_s: &'static [f64]) -> Histogram {
        let counts = (0..=bounds_s.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds_s, counts, sum_us: AtomicU64::new(0) }
    }

    /// Counts a duration of `us` microseconds.
    pub fn record_us(&self, us: u64) {
        let seconds = seconds(us);
        let index = self.bounds_s.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(index) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Counts a duration in seconds; one that is negative or no number counts as zero.
    pub fn record_s(&self, seconds: f64) {
        self.record_us(std::time::Duration::try_from_secs_f64(seconds).map_or(0, micros));
    }

    /// The counts now.
    #[must_use]
    pub fn counts(&self) -> HistogramCounts {
        let bounds = self.bounds_s.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        HistogramCounts { buckets, count, sum_s: seconds(self.sum_us.load(Ordering::Relaxed)) }
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn seconds(us: u64) -> f64 {
    std::time::Duration::from_micros(us).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_duration_up_to_its_bound() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for seconds in [0.0, 0.1, 0.5, 1.5, -1.0, f64::NAN] {
            histogram.record_s(seconds);
        }
        let counts = histogram.counts();
        assert_eq!(counts.buckets, [(0.1, 4), (1.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((counts.count, counts.sum_s), (6, 2.1));
    }

    #[test]
    fn threads_together_lose_no_duration() {
        let histogram = Histogram::new(&[1.0]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| histogram.record_us(1_000)));
            }
        });
        assert_eq!((histogram.counts().count, histogram.counts().sum_s), (4_000, 4.0));
    }
}
