//! Limits how many requests are accepted per second: a token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Requests per second in the long run: a hundred agents with twenty calls a second each.
const PER_SECOND: f64 = 2_000.0;

/// Requests that may come at once after a pause: fifty of each of these agents.
const BURST: f64 = 5_000.0;

/// The rate of accepted requests.
pub(super) struct RequestRate(Mutex<Bucket>);

struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

impl RequestRate {
    pub(super) fn new(now: Instant) -> RequestRate {
        RequestRate(Mutex::new(Bucket { tokens: BURST, filled_at: now }))
    }

    /// Whether a request may be accepted now.
    pub(super) fn accept(&self, now: Instant) -> bool {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * PER_SECOND).min(BURST);
        bucket.filled_at = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn accepts_a_burst_and_then_the_rate() {
        let start = Instant::now();
        let rate = RequestRate::new(start);
        let accepted = |at: Duration, of: u32| (0..of).filter(|_| rate.accept(start + at)).count();
        assert_eq!(accepted(Duration::ZERO, 6_000), 5_000);
        assert_eq!(accepted(Duration::from_millis(10), 100), 20);
        assert_eq!(accepted(Duration::from_secs(60), 6_000), 5_000, "a pause earns a burst, not more");
    }
}
