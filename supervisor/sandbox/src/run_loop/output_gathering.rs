//! When output gathers before it is read.

use std::time::{Duration, Instant};

/// How long output gathers before it is read. A runner that reports each test would otherwise wake this thread for
/// each, and on a host with few processors its tests would wait for this thread.
const GATHER_TIME: Duration = Duration::from_millis(3);

/// A read of this many bytes shows a run that would soon wait for space in its pipe.
const BUSY_BYTES: usize = 16 * 1024;

/// How long output does not gather after such a read, so that gathering costs the run at most a thirtieth of its speed.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// Until when output gathers. A run that would soon wait for space in its pipe is read at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputGathering {
    until: Instant,
    busy_until: Instant,
}

impl OutputGathering {
    /// Output does not gather before the first read.
    pub(super) fn new(started_at: Instant) -> OutputGathering {
        OutputGathering { until: started_at, busy_until: started_at }
    }

    /// The end of the gathering, if output gathers now.
    pub(super) fn end(&self, now: Instant) -> Option<Instant> {
        (now < self.until).then_some(self.until)
    }

    /// Output gathers after a read of so many bytes.
    pub(super) fn record_read(&mut self, bytes: usize, now: Instant) {
        if bytes >= BUSY_BYTES {
            self.busy_until = now + BUSY_FOR;
        } else if now >= self.busy_until {
            self.until = now + GATHER_TIME;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_after_small_reads_of_a_run_that_is_not_busy() {
        let start = Instant::now();
        let mut gathering = OutputGathering::new(start);
        assert_eq!(gathering.end(start), None, "nothing was read");
        gathering.record_read(BUSY_BYTES - 1, start);
        assert_eq!(gathering.end(start), Some(start + GATHER_TIME));
        assert_eq!(gathering.end(start + GATHER_TIME), None);
        gathering.record_read(BUSY_BYTES, start + GATHER_TIME);
        gathering.record_read(1, start + 2 * GATHER_TIME);
        assert_eq!(gathering.end(start + 2 * GATHER_TIME), None, "the run is busy");
        gathering.record_read(1, start + GATHER_TIME + BUSY_FOR);
        assert!(gathering.end(start + GATHER_TIME + BUSY_FOR).is_some());
    }
}
