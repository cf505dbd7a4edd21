//! The leaf on a host with both kinds of hierarchies: limits in v1 or v2, wherever their controllers are; clone target,
//! kill, processor times and pressure in v2.

use super::leaf::{Counters, CpuBoost, Leaf};
use super::v1::V1Leaf;
use super::v2::V2Leaf;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The parts are dropped in the order of the fields: v2 can kill at once.
pub(super) struct HybridLeaf {
    pub(super) v2: V2Leaf,
    pub(super) v1: V1Leaf,
}

impl Leaf for HybridLeaf {
    fn is_tenant_group_new(&self) -> bool {
        self.v1.is_tenant_group_new() || self.v2.is_tenant_group_new()
    }

    fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        self.v2.clone_target()
    }

    fn join_files(&self) -> io::Result<Vec<OwnedFd>> {
        self.v1.join_files()
    }

    fn is_removed(&self) -> bool {
        self.v1.is_removed() || self.v2.is_removed()
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

    fn dirty_bytes(&self) -> Option<u64> {
        self.v1.dirty_bytes()
    }

    fn oom_kills(&self) -> u64 {
        // The memory controller is in one of them only.
        self.v1.oom_kills() + self.v2.oom_kills()
    }

    fn oom_event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.v1.oom_event_fd().or_else(|| self.v2.oom_event_fd())
    }

    fn clear_oom_event(&self) -> bool {
        let (v1, v2) = (self.v1.clear_oom_event(), self.v2.clear_oom_event());
        v1 || v2
    }

    fn counters(&self) -> Counters {
        let (v1, v2) = (self.v1.counters(), self.v2.counters());
        Counters {
            cpu_user_s: v2.cpu_user_s.or(v1.cpu_user_s),
            cpu_system_s: v2.cpu_system_s.or(v1.cpu_system_s),
            throttled_s: v1.throttled_s.or(v2.throttled_s),
            memory_peak_bytes: v1.memory_peak_bytes.or(v2.memory_peak_bytes),
            memory_limit_reached: v1.memory_limit_reached + v2.memory_limit_reached,
            oom_kills: v1.oom_kills + v2.oom_kills,
            pids_peak: v1.pids_peak.or(v2.pids_peak),
            pids_refused: v1.pids_refused + v2.pids_refused,
            ..v2
        }
    }

    fn set_cpu_boost(&self, boost: CpuBoost) {
        self.v1.set_cpu_boost(boost);
        self.v2.set_cpu_boost(boost);
    }

    fn lift_throttles(&self) {
        self.v1.lift_throttles();
        self.v2.lift_throttles();
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
        // Both are tried, even if the first fails.
        let (v1, v2) = (self.v1.remove(wait), self.v2.remove(wait));
        v1.and(v2)
    }
}
