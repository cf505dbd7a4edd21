//! The leaf where both kinds of hierarchies are mounted: limits in v1 or v2, wherever their controllers are; birth, kill,
//! times of the processor and pressure in v2. Must not open a file itself.

use super::favour::Favour;
use super::v1::V1Leaf;
use super::v2::V2Leaf;
use super::{Counters, Leaf};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The order of the fields is the order of their end: v2 can kill at once.
pub(super) struct HybridLeaf {
    pub(super) v2: V2Leaf,
    pub(super) v1: V1Leaf,
}

impl Leaf for HybridLeaf {
    fn is_first(&self) -> bool {
        self.v1.is_first() || self.v2.is_first()
    }

    fn birth(&self) -> Option<BorrowedFd<'_>> {
        self.v2.birth()
    }

    fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.v1.doors()
    }

    fn is_gone(&self) -> bool {
        self.v1.is_gone() || self.v2.is_gone()
    }

    #[cfg(test)]
    fn add(&self, pid: u32, born: bool) -> io::Result<()> {
        self.v2.add(pid, born)?;
        self.v1.add(pid, born)
    }

    fn pids(&self) -> Vec<u32> {
        self.v2.pids()
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.v1.memory_bytes().or_else(|| self.v2.memory_bytes())
    }

    fn unwritten_bytes(&self) -> Option<u64> {
        self.v1.unwritten_bytes()
    }

    fn oom_kills(&self) -> u64 {
        // The memory controller is in one of them only.
        self.v1.oom_kills() + self.v2.oom_kills()
    }

    fn oom_bell(&self) -> Option<BorrowedFd<'_>> {
        self.v1.oom_bell().or_else(|| self.v2.oom_bell())
    }

    fn hush(&self) -> bool {
        let (v1, v2) = (self.v1.hush(), self.v2.hush());
        v1 || v2
    }

    fn counters(&self) -> Counters {
        let (v1, v2) = (self.v1.counters(), self.v2.counters());
        Counters {
            cpu_user_s: v2.cpu_user_s.or(v1.cpu_user_s),
            cpu_system_s: v2.cpu_system_s.or(v1.cpu_system_s),
            throttled_s: v1.throttled_s.or(v2.throttled_s),
            memory_peak_bytes: v1.memory_peak_bytes.or(v2.memory_peak_bytes),
            memory_touched: v1.memory_touched + v2.memory_touched,
            oom_kills: v1.oom_kills + v2.oom_kills,
            pids_peak: v1.pids_peak.or(v2.pids_peak),
            pids_refused: v1.pids_refused + v2.pids_refused,
            ..v2
        }
    }

    fn favour(&self, favour: Favour) {
        self.v1.favour(favour);
        self.v2.favour(favour);
    }

    fn lift(&self) {
        self.v1.lift();
        self.v2.lift();
    }

    fn freeze(&self, frozen: bool) -> bool {
        self.v2.freeze(frozen)
    }

    fn is_frozen(&self) -> bool {
        self.v2.is_frozen()
    }

    fn kill(&self) {
        self.v2.kill();
    }

    fn remove(&mut self, wait: Duration) -> io::Result<()> {
        // Both are tried, whatever becomes of the first.
        let (v1, v2) = (self.v1.remove(wait), self.v2.remove(wait));
        v1.and(v2)
    }
}
