//! How many spans were sent, lost or are on their way, for the metrics. The counts are of the process, as its
//! recording is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The counts of this process.
pub(super) static COUNTS: SpanCounts = SpanCounts::new();

/// Counts of ended spans.
#[derive(Debug)]
pub struct SpanCounts {
    sent: AtomicU64,
    queue_full: AtomicU64,
    not_sent: AtomicU64,
    waiting: AtomicUsize,
}

impl SpanCounts {
    /// Counts that begin at zero.
    #[must_use]
    pub const fn new() -> SpanCounts {
        SpanCounts {
            sent: AtomicU64::new(0),
            queue_full: AtomicU64::new(0),
            not_sent: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Takes a place for a span among `max`; counts the span as dropped if there is none.
    pub(super) fn enqueue(&self, max: usize) -> bool {
        let has_place = self.waiting.fetch_add(1, Ordering::Relaxed) < max;
        if !has_place {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.queue_full.fetch_add(1, Ordering::Relaxed);
        }
        has_place
    }

    /// Frees the places of `spans` spans, which the collector took or did not.
    pub(super) fn record_export(&self, spans: usize, is_sent: bool) {
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let count = if is_sent { &self.sent } else { &self.not_sent };
        count.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Spans that the collector took.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Spans that were dropped, with the reason.
    #[must_use]
    pub fn dropped(&self) -> [(&'static str, u64); 2] {
        [("queue_full", &self.queue_full), ("not_sent", &self.not_sent)]
            .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }
}

impl Default for SpanCounts {
    fn default() -> SpanCounts {
        SpanCounts::new()
    }
}

/// The counts of this process.
#[must_use]
pub fn span_counts() -> &'static SpanCounts {
    &COUNTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_without_a_place_are_counted_and_places_return_with_their_export() {
        let counts = SpanCounts::new();
        let places: Vec<bool> = (0..4).map(|_| counts.enqueue(2)).collect();
        assert_eq!(places, [true, true, false, false]);
        counts.record_export(1, true);
        counts.record_export(1, false);
        assert_eq!((counts.sent(), counts.dropped()), (1, [("queue_full", 2), ("not_sent", 1)]));
        assert!(counts.enqueue(1));
    }
}
