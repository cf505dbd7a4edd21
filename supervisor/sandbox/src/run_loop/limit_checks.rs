//! The checks of the run loop: which limits the run has exceeded, by the leaf's counters and by what the monitors find.

use super::{RunLoop, TICK, TICK_AFTER_OOM_EVENT};
use crate::cgroup::Leaf;
use crate::disk::DiskCheck;
use crate::ending::is_full;
use crate::kernel_memory::{KERNEL_MEMORY_BYTES_MAX, KernelMemoryCheck};
use crate::run_processes::FreezeOwner;
use crate::zygote;
use proctor_core::isolation::Network;
use proctor_core::outcome::KillReason;
use std::time::{Duration, Instant};

/// How long the short interval is kept after an out-of-memory event.
const OOM_EVENT_WAIT: Duration = Duration::from_secs(2);

/// Interval between two steps of a count of locks.
const COUNT_INTERVAL: Duration = Duration::from_millis(5);

impl<'a> RunLoop<'a> {
    /// Freezes a run that makes buffered writes faster than its limit until the time for them has passed.
    pub(super) fn check_writes(&mut self, now: Instant) {
        if now < self.next_writes_check || self.first_start.is_none() || !self.limits_buffered_writes() {
            return;
        }
        let (run, leaf) = (self.processes(FreezeOwner::Writes), self.leaf());
        let writes = self.writes.get_or_insert_with(|| zygote::buffered_writes(self.spec, now));
        let dirty_bytes = || leaf.and_then(Leaf::dirty_bytes);
        self.next_writes_check = now + writes.check(now, &run, run.init, dirty_bytes);
    }

    pub(super) fn limits_buffered_writes(&self) -> bool {
        self.worker.enforcement.writes_are_limited_by_v1()
    }

    /// Lifts the freeze of a run that writes too fast: a frozen run could not handle a signal.
    pub(super) fn thaw_writes(&mut self) {
        let run = self.processes(FreezeOwner::Writes);
        if let Some(writes) = &mut self.writes {
            writes.release(Instant::now(), &run);
        }
    }

    pub(super) fn handle_oom_event(&mut self) {
        let now = Instant::now();
        if self.leaf().is_some_and(Leaf::clear_oom_event) {
            self.quick_ticks_until = now + OOM_EVENT_WAIT;
            self.next_tick = now + TICK_AFTER_OOM_EVENT;
        }
        if now >= self.quick_ticks_until {
            return;
        }
        // The output just read may be the runner's report of the kill.
        self.handle_worker_then_check_leaf();
    }

    /// Handles a waiting message first: if this thread was not scheduled for a while, the run may already have ended
    /// well.
    pub(super) fn handle_worker_then_check_leaf(&mut self) {
        if self.first_start.is_some() && self.has_worker_message() {
            // Cannot fail after the first command: the worker can refuse a run only before it.
            _ = self.handle_worker_message();
        }
        self.check_oom_kills();
    }

    /// Kills the run if the kernel has killed one of its processes for memory. On v1 the kernel kills one process at a
    /// time; the rest of the run must not go on without it.
    ///
    /// A kill that is first seen after the last command has exited with 0 becomes a limit hit and leaves the outcome
    /// alone. So a runner that survives the kill of one of its children is killed as out of memory unless it exits with
    /// 0 within the milliseconds until this check: until the event wakes this thread, or [`TICK_AFTER_OOM_EVENT`], or
    /// [`TICK`] where there is no event. Between two commands the run is not over, whatever the first of them exited
    /// with.
    pub(super) fn check_oom_kills(&mut self) {
        if !self.is_decided() && self.leaf().is_some_and(|leaf| leaf.oom_kills() > 0) {
            self.kill(KillReason::OutOfMemory);
        }
    }

    pub(super) fn check_tmp(&mut self) {
        if let Some(scratch) = &self.worker.scratch {
            self.observations.tmp_full |= is_full(scratch);
        }
    }

    /// Kills a run that has put too much on disk, also in the grace period after its deadline.
    pub(super) fn check_disk(&mut self) {
        let run = self.processes(FreezeOwner::Disk);
        match self.disk.check(&run) {
            DiskCheck::Within(pause) => self.next_tick = self.next_tick.min(Instant::now() + pause),
            DiskCheck::Exceeded => {
                if !self.succeeded {
                    self.kill(KillReason::DiskFull);
                }
                // After the kill, before which it would go on writing.
                self.disk.release(&run);
            }
        }
    }

    /// Kills a run that holds more kernel memory, of the kinds that no controller counts, than it may.
    pub(super) fn check_kernel_memory(&mut self, now: Instant) {
        // A disk walk has the run frozen and relies on it.
        if now < self.next_memory_check || self.disk.has_frozen_run() || self.first_start.is_none() {
            return;
        }
        let run = self.processes(FreezeOwner::KernelMemory);
        let has_own_network = self.spec.jail.network == Network::None;
        let sockets = has_own_network.then(|| format!("/proc/{}/net/netlink", run.init));
        self.next_memory_check = now + TICK;
        match self.kernel_memory.check(&run, sockets.as_deref()) {
            KernelMemoryCheck::Within => {}
            KernelMemoryCheck::Counting => {
                self.next_memory_check = now + COUNT_INTERVAL;
                self.next_tick = self.next_tick.min(self.next_memory_check);
            }
            KernelMemoryCheck::Exceeded(found) => {
                if !self.is_decided() {
                    self.kill_for_kernel_resource(found.note(KERNEL_MEMORY_BYTES_MAX));
                }
                self.kernel_memory.release(&run);
            }
        }
    }

    /// Kills a run that leaves the host's other users few files to open.
    pub(super) fn check_open_files(&mut self) {
        if !self.is_decided()
            && let Some(note) = self.open_files.check(&self.processes(FreezeOwner::KernelMemory))
        {
            self.kill_for_kernel_resource(note);
        }
    }

    /// Whether the outcome no longer depends on the run's resource use.
    fn is_decided(&self) -> bool {
        self.observations.killed.is_some() || self.succeeded
    }

    /// Kills a run for its use of a kernel resource, which `note` explains.
    fn kill_for_kernel_resource(&mut self, note: String) {
        self.observations.host_notes.push(note);
        self.kill(KillReason::KernelMemory);
    }
}
