//! The interface of a leaf, the cgroup of one run, and the counters that it returns.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The cgroup of one run. Its limits are written and read back when it is made; `remove` or drop removes it.
pub(crate) trait Leaf: Send {
    /// Whether the group of its tenant was made together with this leaf, so that the tenant's CPU boost is not set yet.
    fn is_tenant_group_new(&self) -> bool;
    /// Directory of the leaf in the v2 hierarchy, for a process that is born in it (`CLONE_INTO_CGROUP`).
    ///
    /// On a hybrid host it holds only a part of the limits; `None` on v1.
    fn clone_target(&self) -> Option<BorrowedFd<'_>>;
    /// One file for each group of the leaf besides [`Leaf::clone_target`].
    ///
    /// A single-threaded process writes [`JOIN_THIS_THREAD`] to each to move itself into the leaf. Moving another
    /// process would delay every fork and exit on the host by some milliseconds.
    fn join_files(&self) -> io::Result<Vec<OwnedFd>>;
    /// Whether a group of the leaf was removed from outside.
    fn is_removed(&self) -> bool;
    /// Moves another process into the leaf, where its children are born.
    ///
    /// A process that was `born` at [`Leaf::clone_target`] is moved only into the other groups.
    #[cfg(test)]
    fn add(&self, pid: u32, born: bool) -> io::Result<()>;
    /// Processes in the leaf now, at most 4,096.
    fn pids(&self) -> Vec<u32>;
    /// Memory in use, bytes.
    fn memory_bytes(&self) -> Option<u64>;
    /// Dirty page-cache bytes of the leaf that are not on a disk yet; `None` where v1 does not count them.
    fn dirty_bytes(&self) -> Option<u64>;
    /// Processes that the kernel has killed for lack of memory.
    fn oom_kills(&self) -> u64;
    /// Readable from the moment the leaf reaches its memory limit until [`Leaf::clear_oom_event`].
    ///
    /// The kill counter may rise a little later, or never if the kernel could reclaim memory.
    fn oom_event_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Resets the out-of-memory event and returns whether it was set.
    fn clear_oom_event(&self) -> bool;
    /// All counters of the leaf. Complete only when every process in it is dead, and available only before `remove`.
    fn counters(&self) -> Counters;
    /// Sets the processor weight of the tenant's group. Best effort: no error, and no effect without a cpu controller.
    fn set_cpu_boost(&self, boost: CpuBoost);
    /// Lifts the processor and write limits, which would slow the death of a killed run.
    fn lift_throttles(&self);
    /// Freezes or thaws everything in the leaf. A kill reaches frozen processes.
    ///
    /// False on a host without a v2 hierarchy: the v1 freezer would hold up kills as well.
    fn freeze(&self, frozen: bool) -> bool;
    /// Whether everything in the leaf is frozen, which takes until system calls in progress have returned.
    fn is_frozen(&self) -> bool;
    /// Kills everything in the leaf: at once by `cgroup.kill`, else process by process while new ones are forbidden.
    ///
    /// The last resort: normally the death of init ends the run.
    fn kill(&self);
    /// Removes the leaf, the groups that the run has made below it, and the tenant's group if this was its last leaf.
    ///
    /// Waits at most `wait` for the kernel to release the groups.
    fn remove(&mut self, wait: Duration) -> io::Result<()>;
}

/// Text that a thread writes to a file of [`Leaf::join_files`] to move itself into that group.
pub(crate) const JOIN_THIS_THREAD: &[u8] = b"0";

/// Processor weight of a tenant's group in comparison with the groups of other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuBoost {
    /// Ten times the default weight.
    On,
    /// The weight with which the kernel makes groups.
    Off,
}

impl CpuBoost {
    /// Value for v1's `cpu.shares`.
    pub(super) const fn shares(self) -> &'static str {
        match self {
            CpuBoost::On => "10240",
            CpuBoost::Off => "1024",
        }
    }

    /// Value for v2's `cpu.weight`.
    pub(super) const fn weight(self) -> &'static str {
        match self {
            CpuBoost::On => "1000",
            CpuBoost::Off => "100",
        }
    }
}

/// Counters of a leaf; `None` where the kernel or the mounted controllers do not count.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counters {
    pub(crate) cpu_user_s: Option<f64>,
    pub(crate) cpu_system_s: Option<f64>,
    pub(crate) throttled_s: Option<f64>,
    pub(crate) memory_peak_bytes: Option<u64>,
    /// Times the memory limit was reached; the kernel may have reclaimed memory each time without a kill.
    pub(crate) memory_limit_reached: u64,
    pub(crate) oom_kills: u64,
    pub(crate) pids_peak: Option<u64>,
    /// Forks and new threads that the kernel refused.
    pub(crate) pids_refused: u64,
    pub(crate) read_bytes: Option<u64>,
    pub(crate) written_bytes: Option<u64>,
    /// Time in which at least one process of the leaf waited for a processor.
    pub(crate) cpu_pressure_s: Option<f64>,
    /// Time in which at least one process of the leaf waited for memory.
    pub(crate) memory_pressure_s: Option<f64>,
    /// Time in which at least one process of the leaf waited for a disk.
    pub(crate) io_pressure_s: Option<f64>,
}

impl Counters {
    /// These counters, with those of memory and processes as they were at an earlier time.
    pub(crate) fn with_occupancy_of(self, before: Counters) -> Counters {
        Counters {
            memory_peak_bytes: before.memory_peak_bytes,
            memory_limit_reached: before.memory_limit_reached,
            oom_kills: before.oom_kills,
            pids_peak: before.pids_peak,
            pids_refused: before.pids_refused,
            ..self
        }
    }
}
