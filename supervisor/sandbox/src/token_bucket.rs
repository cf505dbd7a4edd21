//! A token bucket: a rate in bytes per second, and a burst of bytes that were not taken before. Pure arithmetic, no
//! clock.

use std::time::{Duration, Instant};

/// Faster than any disk, and small enough that no sum below overflows.
const BYTES_PER_S_CEILING: u64 = 1 << 40;

/// An allowance of bytes that refills at a fixed rate up to a capacity. Taking more than is left leaves a debt.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    bytes_per_s: i64,
    capacity: i64,
    /// Negative for a debt.
    level: i64,
    refilled_at: Instant,
}

impl TokenBucket {
    /// A full bucket with the capacity of `burst` at the rate.
    pub(crate) fn new(bytes_per_s: u64, burst: Duration, now: Instant) -> TokenBucket {
        let bytes_per_s = i64::try_from(bytes_per_s.clamp(1, BYTES_PER_S_CEILING)).unwrap_or(i64::MAX);
        let capacity = bytes_in(bytes_per_s, burst);
        TokenBucket { bytes_per_s, capacity, level: capacity, refilled_at: now }
    }

    /// Adds the bytes of the time until `now`.
    pub(crate) fn refill(&mut self, now: Instant) {
        let more = bytes_in(self.bytes_per_s, now.saturating_duration_since(self.refilled_at));
        // A fraction of a byte is not lost: it stays in the time since the last refill.
        if more > 0 {
            self.level = self.level.saturating_add(more).min(self.capacity);
            self.refilled_at = now;
        }
    }

    /// Takes `bytes`, even beyond what is available.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.level = self.level.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Drops the debt, if any.
    pub(crate) fn forgive(&mut self) {
        self.level = self.level.max(0);
    }

    /// Bytes that can be taken without a debt.
    pub(crate) fn available(&self) -> u64 {
        u64::try_from(self.level).unwrap_or(0)
    }

    /// Time until the debt is paid; `None` without one.
    pub(crate) fn debt(&self) -> Option<Duration> {
        let bytes = Some(self.level).filter(|level| *level < 0)?.unsigned_abs();
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.unsigned_abs());
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

fn bytes_in(bytes_per_s: i64, time: Duration) -> i64 {
    let bytes = u128::from(bytes_per_s.unsigned_abs()) * time.as_nanos() / 1_000_000_000;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn holds_at_most_the_bytes_of_a_burst() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(100, 2 * SECOND, begun);
        assert_eq!(bucket.available(), 200);
        bucket.refill(begun + 60 * SECOND);
        assert_eq!(bucket.available(), 200);
        bucket.take(150);
        bucket.refill(begun + 61 * SECOND);
        assert_eq!((bucket.available(), bucket.debt()), (150, None));
    }

    #[test]
    fn pays_a_debt_at_the_rate() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(100, 2 * SECOND, begun);
        bucket.take(500);
        assert_eq!((bucket.available(), bucket.debt()), (0, Some(3 * SECOND)));
        bucket.refill(begun + SECOND);
        assert_eq!(bucket.debt(), Some(2 * SECOND));
        bucket.refill(begun + 3 * SECOND);
        assert_eq!((bucket.available(), bucket.debt()), (0, None));
    }

    #[test]
    fn the_long_term_rate_holds_for_any_pattern_of_takes() {
        let begun = Instant::now();
        for (at_once, pause_ms) in [(1, 1), (40_000, 10), (1_300_000, 250)] {
            let mut bucket = TokenBucket::new(100_000, 2 * SECOND, begun);
            let (mut now, mut taken) = (begun, 0);
            while now < begun + 100 * SECOND {
                now += Duration::from_millis(pause_ms);
                bucket.refill(now);
                if bucket.debt().is_none() {
                    bucket.take(at_once);
                    taken += at_once;
                }
            }
            assert!(taken <= 10_200_000 + at_once, "{at_once} bytes every {pause_ms} ms: {taken}");
        }
    }

    #[test]
    fn frequent_refills_lose_nothing_at_a_slow_rate() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(10, SECOND, begun);
        bucket.take(10);
        for ms in 1..=1_000 {
            bucket.refill(begun + Duration::from_millis(ms));
        }
        assert_eq!(bucket.available(), 10);
    }

    #[test]
    fn forgives_a_debt_and_keeps_a_positive_level() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(100, 2 * SECOND, begun);
        bucket.take(50);
        bucket.forgive();
        assert_eq!(bucket.available(), 150);
        bucket.take(u64::MAX);
        bucket.forgive();
        assert_eq!((bucket.available(), bucket.debt()), (0, None));
    }

    #[test]
    fn accepts_the_largest_rate() {
        let mut bucket = TokenBucket::new(u64::MAX, 2 * SECOND, Instant::now());
        bucket.take(u64::MAX);
        bucket.take(u64::MAX);
        assert!(bucket.debt().is_some_and(|debt| debt > SECOND));
    }
}
