//! Monitors kernel memory that a run takes and that no memory controller counts: locks on files, and data waiting in
//! netlink sockets.
//!
//! The kernel limits neither, so they are counted, in two steps like growth on disk. The first step reads the host
//! kernel's unreclaimable memory: as long as it has not grown by what a run may have, no run has taken it, unless others
//! freed as much. Beyond that, and every [`COUNT_INTERVAL`], the second step counts the locks in the `fdinfo` of the
//! run's descriptors and the bytes in the sockets of its network namespace.
//!
//! A lock is found through a descriptor in any descriptor table of the run: a thread may have its own table and outlive
//! the first thread of its process. A lock held only by a mapping or by a message in flight is not found; the seccomp
//! filter allows only kinds of locks of which such a file can hold one.
//!
//! Measured on Linux 6.18: 120,000 POSIX locks are 22 MiB, and a netlink socket whose answers nobody reads is 8 MiB.
//! Pipes, unix sockets, epoll, eventfds, descriptors in flight, timers, inotify and dentries are charged to the run's
//! memory; the buffers of TCP and UDP have their own limit on v1.

use crate::disk::MonitoredRun;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most bytes of such memory for a run. A build or a database holds some hundred locks.
pub(crate) const KERNEL_MEMORY_BYTES_MAX: u64 = 32 << 20;

/// Bytes of one lock, with its share of what the kernel keeps for each locked file.
const LOCK_BYTES: u64 = 200;

/// Time after which a run is counted again although the host's memory has not grown.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// Longest time of one step of a count. The run's output waits that long.
const CHECK_BUDGET: Duration = Duration::from_millis(5);

/// Time after which a count freezes the run, if the host can.
const COUNT_UNFROZEN_MAX: Duration = Duration::from_millis(100);

/// Time after which a count lets the run go on, so that a slow count does not take the run's own time.
const COUNT_FROZEN_MAX: Duration = Duration::from_secs(10);

/// Most descriptors that a count looks at, which takes some 10 s. A run with more is assumed to hide its locks. A number
/// and no time, since a busy host would kill a run with a few thousand descriptors for its own slowness.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// Longest line of `fdinfo` and of `/proc/net/netlink` that is read.
const LINE_BYTES_MAX: usize = 4_096;

/// Kernel memory that a run was found to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KernelMemoryUsage {
    locks: u64,
    netlink_bytes: u64,
    /// Whether the run has more descriptors than a count looks at.
    is_aborted: bool,
}

impl KernelMemoryUsage {
    fn bytes(self) -> u64 {
        if self.is_aborted {
            u64::MAX
        } else {
            self.locks.saturating_mul(LOCK_BYTES).saturating_add(self.netlink_bytes)
        }
    }

    /// Why a run with this usage was killed.
    pub(crate) fn note(self, bytes_max: u64) -> String {
        let KernelMemoryUsage { locks, netlink_bytes, is_aborted } = self;
        let max = bytes_max >> 20;
        let what = match is_aborted {
            true => "it had so many open files that its locks could not be counted".to_owned(),
            false => format!("it had {locks} locks on files and {} MiB in netlink sockets", netlink_bytes >> 20),
        };
        format!(
            "the run was ended for its use of kernel memory, which its memory limit does not count for locks and netlink sockets: \
{what}; together they may take {max} MiB"
        )
    }
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelMemoryCheck {
    /// The run is within its bound, as far as is known.
    Within,
    /// The count continues at the next check, which should come soon.
    Counting,
    /// The run holds more than it may.
    Exceeded(KernelMemoryUsage),
}

/// Monitor of one run's uncharged kernel memory.
#[derive(Debug)]
pub(crate) struct KernelMemoryMonitor {
    bytes_max: u64,
    /// Kernel memory of the host above which the run is counted; `None` before the first check.
    threshold_bytes: Option<u64>,
    /// When the run is counted at the latest.
    due: Instant,
    count: Option<LockCount>,
}

/// A count in progress, which may take several checks.
#[derive(Debug)]
struct LockCount {
    begun: Instant,
    at_start: u64,
    usage: KernelMemoryUsage,
    /// Directories of descriptors still to be read: `/proc/PID/fdinfo`.
    dirs: VecDeque<PathBuf>,
    files: VecDeque<PathBuf>,
    /// Descriptors found so far.
    descriptors: usize,
    is_frozen: bool,
}

impl KernelMemoryMonitor {
    /// Monitor for a run that may hold `bytes_max`. What the host's kernel holds at the first check is not the run's.
    pub(crate) fn new(bytes_max: u64) -> KernelMemoryMonitor {
        KernelMemoryMonitor { bytes_max, threshold_bytes: None, due: Instant::now() + COUNT_INTERVAL, count: None }
    }

    /// Checks the run, for hardly longer than [`CHECK_BUDGET`]. `sockets` is the netlink table of the run's own network
    /// namespace, if it has one. The run may stay frozen until [`Self::release`], or a check with another result than
    /// `Counting`.
    pub(crate) fn check(&mut self, run: &dyn MonitoredRun, sockets: Option<&str>) -> KernelMemoryCheck {
        let Some(now) = unreclaimable_bytes() else { return KernelMemoryCheck::Within };
        self.check_with(now, run, sockets)
    }

    fn check_with(&mut self, now: u64, run: &dyn MonitoredRun, sockets: Option<&str>) -> KernelMemoryCheck {
        // Half, since the run may have taken some before the first check. Memory that others free does not raise the
        // threshold.
        let fresh = now.saturating_add(self.bytes_max / 2);
        let threshold_bytes = *self.threshold_bytes.insert(
            self.threshold_bytes
                .map_or(fresh, |threshold_bytes| threshold_bytes.min(fresh.saturating_add(self.bytes_max))),
        );
        if self.count.is_none() && now <= threshold_bytes && Instant::now() < self.due {
            return KernelMemoryCheck::Within;
        }
        let bytes_max = self.bytes_max;
        let count = self.count.get_or_insert_with(|| LockCount::new(now, run, sockets, bytes_max));
        let is_done = count.advance(bytes_max, Instant::now() + CHECK_BUDGET);
        if !is_done {
            let is_to_freeze = (COUNT_UNFROZEN_MAX..COUNT_FROZEN_MAX).contains(&count.begun.elapsed());
            if is_to_freeze && !count.is_frozen {
                count.is_frozen = run.freeze(true);
            } else if !is_to_freeze && count.is_frozen {
                count.is_frozen = false;
                run.freeze(false);
            }
            return KernelMemoryCheck::Counting;
        }
        let (usage, at_start) = (count.usage, count.at_start);
        if usage.bytes() > bytes_max {
            // Stays frozen until it is killed.
            return KernelMemoryCheck::Exceeded(usage);
        }
        self.release(run);
        self.threshold_bytes = Some(at_start.saturating_add(bytes_max - usage.bytes()));
        self.due = Instant::now() + COUNT_INTERVAL;
        KernelMemoryCheck::Within
    }

    /// Ends a count and thaws a run that was frozen for it.
    pub(crate) fn release(&mut self, run: &dyn MonitoredRun) {
        if self.count.take().is_some_and(|count| count.is_frozen) {
            run.freeze(false);
        }
    }
}

impl LockCount {
    fn new(at_start: u64, run: &dyn MonitoredRun, sockets: Option<&str>, bytes_max: u64) -> LockCount {
        let netlink_bytes = sockets.map_or(0, |table| netlink_bytes(table, bytes_max));
        let dirs =
            descriptor_tables(run.pids()).into_iter().map(|task| format!("/proc/{task}/fdinfo").into()).collect();
        let usage = KernelMemoryUsage { netlink_bytes, ..KernelMemoryUsage::default() };
        LockCount {
            begun: Instant::now(),
            at_start,
            usage,
            dirs,
            files: VecDeque::new(),
            descriptors: 0,
            is_frozen: false,
        }
    }

    /// Counts until `until`; returns whether the count is complete.
    fn advance(&mut self, bytes_max: u64, until: Instant) -> bool {
        while self.usage.bytes() <= bytes_max {
            if let Some(file) = self.files.pop_front() {
                self.usage.locks += locks(&file, bytes_max / LOCK_BYTES);
            } else if let Some(dir) = self.dirs.pop_front() {
                let entries = fs::read_dir(dir).into_iter().flatten().flatten();
                self.files.extend(entries.take(DESCRIPTORS_MAX).map(|entry| entry.path()));
                self.descriptors += self.files.len();
                self.usage.is_aborted = self.descriptors > DESCRIPTORS_MAX;
            } else {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
        }
        true
    }
}

/// One task for each distinct descriptor table of the processes `pids`. A thread shares the table of its process unless
/// the kernel says otherwise through `kcmp` (`CONFIG_KCMP`).
fn descriptor_tables(pids: Vec<u32>) -> Vec<u32> {
    let mut tables: Vec<u32> = Vec::new();
    for pid in pids {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok());
        let has_own = |thread: &u32| compare_tables(pid, *thread).is_some_and(Ordering::is_ne);
        let own: Vec<u32> = threads.filter(has_own).collect();
        for task in [pid].into_iter().chain(own) {
            // Sorted by the kernel's order, which may differ at the next check.
            let position = tables.binary_search_by(|table| compare_tables(*table, task).unwrap_or(table.cmp(&task)));
            if let Err(position) = position {
                tables.insert(position, task);
            }
        }
    }
    tables
}

/// Compares the descriptor tables of two tasks in the kernel's own order; `None` if the kernel cannot tell.
fn compare_tables(one: u32, other: u32) -> Option<Ordering> {
    const KCMP_FILES: libc::c_int = 2;
    if one == other {
        return Some(Ordering::Equal);
    }
    // SAFETY: the call takes five numbers and writes nothing.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) } {
        0 => Some(Ordering::Equal),
        1 => Some(Ordering::Less),
        2 => Some(Ordering::Greater),
        _ => None,
    }
}

/// Number of `lock:` lines of a descriptor (`proc_pid_fdinfo(5)`), counted to little more than `max`. 0 if it is
/// closed.
fn locks(fdinfo: &Path, max: u64) -> u64 {
    let Ok(file) = File::open(fdinfo) else { return 0 };
    let mut locks = 0;
    each_line(file, |line| {
        locks += u64::from(line.starts_with(b"lock:"));
        locks <= max
    });
    locks
}

/// Bytes waiting in the sockets of `table`, in the format of `/proc/net/netlink`, counted to little more than `max`.
fn netlink_bytes(table: &str, max: u64) -> u64 {
    let Ok(file) = File::open(table) else { return 0 };
    let mut sum: u64 = 0;
    each_line(file, |line| {
        // sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
        let words = std::str::from_utf8(line).unwrap_or_default().split_ascii_whitespace();
        let bytes = words.skip(4).take(2).filter_map(|word| word.parse::<u64>().ok());
        sum = bytes.fold(sum, u64::saturating_add);
        sum <= max
    });
    sum
}

/// Passes each line to `wants_more` until it returns false.
fn each_line(file: File, mut wants_more: impl FnMut(&[u8]) -> bool) {
    let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) && wants_more(&line) {
        line.clear();
    }
}

/// Memory that the host's kernel has allocated and cannot reclaim, bytes.
fn unreclaimable_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("SUnreclaim:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::FakeRun;
    use rustix::fs::{FlockOperation, flock};

    const MIB: u64 = 1 << 20;

    fn check_until_done(memory: &mut KernelMemoryMonitor, now: u64, run: &dyn MonitoredRun) -> KernelMemoryCheck {
        let mut outcome = KernelMemoryCheck::Counting;
        while outcome == KernelMemoryCheck::Counting {
            outcome = memory.check_with(now, run, None);
        }
        outcome
    }

    #[test]
    fn finds_locks_beyond_the_bound_once_the_hosts_kernel_memory_has_grown() {
        let (dir, run) = (tempfile::tempdir().unwrap(), FakeRun::own());
        // Each descriptor has its own lock; the bound of 50,000 bytes is 250 locks.
        let files: Vec<File> = (0..300).map(|_| File::create(dir.path().join("file")).unwrap()).collect();
        files.iter().for_each(|file| flock(file, FlockOperation::LockShared).unwrap());
        let mut memory = KernelMemoryMonitor::new(50_000);
        assert_eq!(check_until_done(&mut memory, 100 * MIB, &run), KernelMemoryCheck::Within, "nothing was taken yet");
        let KernelMemoryCheck::Exceeded(usage) = check_until_done(&mut memory, 101 * MIB, &run) else {
            panic!("the locks were not found")
        };
        assert!(usage.locks > 250, "{usage:?}");
        assert!(usage.note(50_000).contains("locks on files"), "{}", usage.note(50_000));
        memory.release(&run);
        drop(files);
        // Other tests open descriptors in this process too.
        let empty = FakeRun::empty(true);
        assert_eq!(
            check_until_done(&mut memory, 102 * MIB, &empty),
            KernelMemoryCheck::Within,
            "another process has taken it"
        );
        assert_eq!(empty.frozen.get(), None, "a run that has no locks is not frozen");
    }

    #[test]
    fn finds_locks_while_others_free_as_much_memory() {
        let (dir, run) = (tempfile::tempdir().unwrap(), FakeRun::own());
        let files: Vec<File> = (0..300).map(|_| File::create(dir.path().join("file")).unwrap()).collect();
        files.iter().for_each(|file| flock(file, FlockOperation::LockShared).unwrap());
        let mut memory = KernelMemoryMonitor::new(50_000);
        assert_eq!(check_until_done(&mut memory, 100 * MIB, &run), KernelMemoryCheck::Within);
        memory.due = Instant::now();
        let outcome = check_until_done(&mut memory, 100 * MIB, &run);
        assert!(matches!(outcome, KernelMemoryCheck::Exceeded(usage) if usage.locks > 250), "{outcome:?}");
        memory.release(&run);
    }

    #[test]
    fn a_run_with_more_descriptors_than_a_count_looks_at_exceeds_its_bound() {
        let run = FakeRun::own();
        let mut memory = KernelMemoryMonitor::new(MIB);
        let count = LockCount { descriptors: DESCRIPTORS_MAX, ..LockCount::new(0, &run, None, MIB) };
        memory.count = Some(count);
        let KernelMemoryCheck::Exceeded(usage) = check_until_done(&mut memory, 100 * MIB, &run) else {
            panic!("a run that hides its locks is within its bound")
        };
        assert!(usage.note(MIB).contains("could not be counted"), "{}", usage.note(MIB));
        memory.release(&run);
    }

    /// Locks in a descriptor table that only one thread has.
    #[test]
    fn finds_locks_in_a_descriptor_table_of_one_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (ready, advance) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).unwrap();
                let files: Vec<File> = (0..300).map(|_| File::create(&path).unwrap()).collect();
                files.iter().for_each(|file| flock(file, FlockOperation::LockShared).unwrap());
                ready.wait();
                advance.wait();
            });
            ready.wait();
            let mut memory = KernelMemoryMonitor::new(50_000);
            let run = FakeRun::own();
            check_until_done(&mut memory, 100 * MIB, &run);
            let outcome = check_until_done(&mut memory, 101 * MIB, &run);
            advance.wait();
            assert!(matches!(outcome, KernelMemoryCheck::Exceeded(usage) if usage.locks > 250), "{outcome:?}");
        });
    }

    /// A lock that all threads of a process share counts once.
    #[test]
    fn counts_a_shared_descriptor_table_once() {
        let barrier = std::sync::Barrier::new(9);
        std::thread::scope(|scope| {
            (0..8).for_each(|_| _ = scope.spawn(|| barrier.wait()));
            let descriptor_tables = descriptor_tables(vec![std::process::id()]);
            barrier.wait();
            // The thread of the other test may have one.
            assert!((1..=2).contains(&descriptor_tables.len()), "{descriptor_tables:?}");
        });
    }

    #[test]
    fn memory_freed_by_others_does_not_raise_the_threshold() {
        let mut memory = KernelMemoryMonitor::new(10 * MIB);
        let run = FakeRun::own();
        check_until_done(&mut memory, 100 * MIB, &run);
        check_until_done(&mut memory, 50 * MIB, &run);
        assert!(memory.threshold_bytes.is_some_and(|threshold_bytes| threshold_bytes <= 65 * MIB), "{memory:?}");
    }

    #[test]
    fn counts_both_queues_of_netlink_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("netlink");
        let text = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
                    000000004bc7e83c 0   3904640778 00000000 8386560  10       0     2        72720    44216   \n\
                    000000005bc7e83c 0   0          00000000 5        0        0     2        0        2   \n";
        fs::write(&table, text).unwrap();
        assert_eq!(netlink_bytes(table.to_str().unwrap(), u64::MAX), 8_386_575);
    }

    #[test]
    fn reads_the_hosts_unreclaimable_memory() {
        assert!(unreclaimable_bytes().is_some_and(|bytes| bytes > MIB));
    }
}
