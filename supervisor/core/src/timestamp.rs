//! A point in time given by the edge.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch on a clock that never runs backwards within one process.
///
/// The edge anchors the monotonic clock at the wall clock once, at start, so that timestamps order runs within a process
/// and still mean something when a later process reads them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Milliseconds from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn ms_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time `ms` milliseconds later.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }
}
