//! Limits how many requests are accepted per second: a token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many requests may come.
pub(super) struct RateBounds {
    /// Requests per second in the long run.
    per_second: f64,
    /// Requests at once after a pause.
    burst: f64,
}

impl RateBounds {
    /// A hundred agents with twenty calls a second each, and fifty at once.
    pub(super) const AGENTS: RateBounds = RateBounds { per_second: 2_000.0, burst: 5_000.0 };

    /// On connections that no agent is known to have: each of a hundred agents may open some, and the signatures of tokens
    /// from strangers, of a tenth of a millisecond each, take one percent of a processor.
    pub(super) const STRANGERS: RateBounds = RateBounds { per_second: 100.0, burst: 1_000.0 };
}

/// The rate of accepted requests.
pub(super) struct RequestRate {
    bounds: RateBounds,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

impl RequestRate {
    pub(super) fn new(bounds: RateBounds, now: Instant) -> RequestRate {
        RequestRate { bucket: Mutex::new(Bucket { tokens: bounds.burst, filled_at: now }), bounds }
    }

    /// Whether a request may be accepted now.
    pub(super) fn accept(&self, now: Instant) -> bool {
        let RateBounds { per_second, burst } = self.bounds;
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * per_second).min(burst);
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
        let rate = RequestRate::new(RateBounds::AGENTS, start);
        let accepted = |at: Duration, of: u32| (0..of).filter(|_| rate.accept(start + at)).count();
        assert_eq!(accepted(Duration::ZERO, 6_000), 5_000);
        assert_eq!(accepted(Duration::from_millis(10), 100), 20);
        assert_eq!(accepted(Duration::from_secs(60), 6_000), 5_000, "a pause earns a burst, not more");
        let strangers = RequestRate::new(RateBounds::STRANGERS, start);
        assert_eq!((0..6_000).filter(|_| strangers.accept(start)).count(), 1_000);
    }
}
