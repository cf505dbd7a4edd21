//! Kernel memory that a run takes and that no memory controller counts: locks on files, and what waits in netlink sockets.
//! Must not kill anything.
//!
//! The kernel bounds neither, so they are counted, in two steps like growth on disk. The first reads how much memory that
//! cannot be reclaimed the host's kernel has: as long as that has not grown by what a run may have, no run has taken it.
//! Beyond that the second step asks who did: it counts the locks in the `fdinfo` of the run's descriptors and the bytes in the
//! sockets of its network namespace.
//!
//! A lock is found by a descriptor: of every table of descriptors there is, since a thread may have one of its own and outlive
//! the first thread of its process. One that a mapping or a message holds alone is not; the filter leaves only locks of which
//! such a file has one.
//!
//! Measured on Linux 6.18: 120,000 POSIX locks are 22 MiB, a netlink socket whose answers nobody reads is 8 MiB. Charged to a
//! run's memory are pipes, unix sockets, epoll, eventfds, descriptors in flight, timers, inotify and dentries; the buffers of TCP
//! and UDP have a bound of their own on v1.

use crate::disk::Subject;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that a run may have of it. A build or a database holds some hundred locks.
pub(crate) const UNCHARGED_BYTES_MAX: u64 = 32 << 20;

/// Bytes of one lock, with its share of what the kernel keeps for each locked file.
const LOCK_BYTES: u64 = 200;

/// How long descriptors are looked at in one go. The run's output waits as long.
const LOOK: Duration = Duration::from_millis(5);

/// How long a count may take while the run goes on. Beyond that the run is frozen, where the host can.
const COUNT_FREE: Duration = Duration::from_millis(100);

/// How long it may take at all: some million descriptors. A run that has more is taken for one that hides its locks.
const COUNT_MAX: Duration = Duration::from_secs(10);

/// Longest line of `fdinfo` that is looked at, and of `/proc/net/netlink`.
const LINE_BYTES_MAX: usize = 4_096;

/// What a run was found to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Uncharged {
    locks: u64,
    netlink_bytes: u64,
    /// Whether the count was given up.
    is_cut: bool,
}

impl Uncharged {
    fn bytes(self) -> u64 {
        if self.is_cut { u64::MAX } else { self.locks.saturating_mul(LOCK_BYTES).saturating_add(self.netlink_bytes) }
    }

    /// Why a run that has it was ended.
    pub(crate) fn note(self, bytes_max: u64) -> String {
        let Uncharged { locks, netlink_bytes, is_cut } = self;
        let max = bytes_max >> 20;
        let what = match is_cut {
            true => "it has so many open files that its locks could not be counted in time".to_owned(),
            false => format!("it had {locks} locks on files and {} MiB in netlink sockets", netlink_bytes >> 20),
        };
        format!(
            "the run was ended for the kernel's memory, of which its memory limit does not count what locks and netlink sockets \
             take: {what}; together they may take {max} MiB"
        )
    }
}

/// What a look has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Nothing to worry about, as far as is known.
    Within,
    /// The count goes on at the next look, which should come soon.
    Counting,
    /// The run has more than it may have.
    Beyond(Uncharged),
}

/// The eye on one run's share of it.
#[derive(Debug)]
pub(crate) struct KernelMemory {
    bytes_max: u64,
    /// The host's kernel memory above which the run is looked at; `None` before the first look.
    alarm: Option<u64>,
    counting: Option<Counting>,
}

/// A count that may take several looks.
#[derive(Debug)]
struct Counting {
    begun: Instant,
    at_start: u64,
    found: Uncharged,
    /// Directories of descriptors to come: `/proc/PID/fdinfo`.
    dirs: VecDeque<PathBuf>,
    files: VecDeque<PathBuf>,
    is_frozen: bool,
}

impl KernelMemory {
    /// For a run that may have `bytes_max`. What the host has at the first look is nobody's.
    pub(crate) fn new(bytes_max: u64) -> KernelMemory {
        KernelMemory { bytes_max, alarm: None, counting: None }
    }

    /// Looks, for hardly longer than [`LOOK`]. `sockets` is the netlink table of the run's own network namespace, if it has one. The
    /// run may be left frozen until [`Self::release`], or a look that says anything but `Counting`.
    pub(crate) fn look(&mut self, run: &dyn Subject, sockets: Option<&str>) -> Counted {
        let Some(now) = unreclaimable_bytes() else { return Counted::Within };
        self.look_at(now, run, sockets)
    }

    fn look_at(&mut self, now: u64, run: &dyn Subject, sockets: Option<&str>) -> Counted {
        // Half, since some may have been taken before the first look. Memory that others free is no room for more.
        let fresh = now.saturating_add(self.bytes_max / 2);
        let alarm =
            *self.alarm.insert(self.alarm.map_or(fresh, |alarm| alarm.min(fresh.saturating_add(self.bytes_max))));
        if self.counting.is_none() && now <= alarm {
            return Counted::Within;
        }
        let bytes_max = self.bytes_max;
        let counting = self.counting.get_or_insert_with(|| Counting::new(now, run, sockets, bytes_max));
        let is_done = counting.go_on(bytes_max, Instant::now() + LOOK);
        if !is_done && counting.begun.elapsed() < COUNT_MAX {
            if counting.begun.elapsed() > COUNT_FREE && !counting.is_frozen {
                counting.is_frozen = run.freeze(true);
            }
            return Counted::Counting;
        }
        counting.found.is_cut = !is_done;
        let (found, at_start) = (counting.found, counting.at_start);
        if found.bytes() > bytes_max {
            // Left frozen until it is killed.
            return Counted::Beyond(found);
        }
        self.release(run);
        self.alarm = Some(at_start.saturating_add(bytes_max - found.bytes()));
        Counted::Within
    }

    /// Ends a count, and lets a run that was frozen for it go on.
    pub(crate) fn release(&mut self, run: &dyn Subject) {
        if self.counting.take().is_some_and(|counting| counting.is_frozen) {
            run.freeze(false);
        }
    }
}

impl Counting {
    fn new(at_start: u64, run: &dyn Subject, sockets: Option<&str>, bytes_max: u64) -> Counting {
        let netlink_bytes = sockets.map_or(0, |table| netlink_bytes(table, bytes_max));
        let dirs = tables(run.pids()).into_iter().map(|task| format!("/proc/{task}/fdinfo").into()).collect();
        let found = Uncharged { netlink_bytes, ..Uncharged::default() };
        Counting { begun: Instant::now(), at_start, found, dirs, files: VecDeque::new(), is_frozen: false }
    }

    /// Counts until `until`; whether that was the end.
    fn go_on(&mut self, bytes_max: u64, until: Instant) -> bool {
        while self.found.bytes() <= bytes_max {
            if let Some(file) = self.files.pop_front() {
                self.found.locks += locks(&file, bytes_max / LOCK_BYTES);
            } else if let Some(dir) = self.dirs.pop_front() {
                let entries = fs::read_dir(dir).into_iter().flatten().flatten();
                self.files.extend(entries.map(|entry| entry.path()));
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

/// One task for each table of descriptors that the processes `pids` have. A thread has that of its process unless the kernel says
/// otherwise, which it does by `kcmp` (`CONFIG_KCMP`).
fn tables(pids: Vec<u32>) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    for pid in pids {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok());
        let has_own = |thread: &u32| compare_tables(pid, *thread).is_some_and(Ordering::is_ne);
        let own: Vec<u32> = threads.filter(has_own).collect();
        for task in [pid].into_iter().chain(own) {
            // By the kernel's order, which may be another at the next look.
            let place = found.binary_search_by(|known| compare_tables(*known, task).unwrap_or(known.cmp(&task)));
            if let Err(place) = place {
                found.insert(place, task);
            }
        }
    }
    found
}

/// How the tables of descriptors of two tasks compare in the kernel's own order; `None` where it does not say.
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

/// The lines `lock:` of a descriptor (`proc_pid_fdinfo(5)`), and little more than `max`. A descriptor that is gone has none.
fn locks(fdinfo: &Path, max: u64) -> u64 {
    let Ok(file) = File::open(fdinfo) else { return 0 };
    let mut found = 0;
    each_line(file, |line| {
        found += u64::from(line.starts_with(b"lock:"));
        found <= max
    });
    found
}

/// The bytes that wait in the sockets of `table`, in the format of `/proc/net/netlink`, and little more than `max`.
fn netlink_bytes(table: &str, max: u64) -> u64 {
    let Ok(file) = File::open(table) else { return 0 };
    let mut found: u64 = 0;
    each_line(file, |line| {
        // sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
        let words = std::str::from_utf8(line).unwrap_or_default().split_ascii_whitespace();
        let bytes = words.skip(4).take(2).filter_map(|word| word.parse::<u64>().ok());
        found = bytes.fold(found, u64::saturating_add);
        found <= max
    });
    found
}

/// Hands over line by line until `wants_more` does not.
fn each_line(file: File, mut wants_more: impl FnMut(&[u8]) -> bool) {
    let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) && wants_more(&line) {
        line.clear();
    }
}

/// What the host's kernel has allocated and cannot give back, bytes.
fn unreclaimable_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("SUnreclaim:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Freezable;
    use rustix::fs::{FlockOperation, flock};

    const MIB: u64 = 1 << 20;

    fn looked(memory: &mut KernelMemory, now: u64, run: &dyn Subject) -> Counted {
        let mut counted = Counted::Counting;
        while counted == Counted::Counting {
            counted = memory.look_at(now, run, None);
        }
        counted
    }

    #[test]
    fn locks_beyond_the_bound_are_found_once_the_host_has_more_memory_in_use() {
        let (dir, run) = (tempfile::tempdir().unwrap(), Freezable::own());
        // Each descriptor of its own has a lock; beyond the bound of 50,000 bytes are 250.
        let held: Vec<File> = (0..300).map(|_| File::create(dir.path().join("file")).unwrap()).collect();
        held.iter().for_each(|file| flock(file, FlockOperation::LockShared).unwrap());
        let mut memory = KernelMemory::new(50_000);
        assert_eq!(looked(&mut memory, 100 * MIB, &run), Counted::Within, "nobody has taken anything");
        let Counted::Beyond(found) = looked(&mut memory, 101 * MIB, &run) else { panic!("it was not found") };
        assert!(found.locks > 250, "{found:?}");
        assert!(found.note(50_000).contains("locks on files"), "{}", found.note(50_000));
        memory.release(&run);
        drop(held);
        // Descriptors of this process are other tests' too.
        let empty = Freezable::empty(true);
        assert_eq!(looked(&mut memory, 102 * MIB, &empty), Counted::Within, "somebody else has taken it");
        assert_eq!(empty.frozen.get(), None, "a run that has no locks is not frozen");
    }

    /// Locks in a table that a thread alone has, in one whose first thread is gone too.
    #[test]
    fn locks_of_a_thread_with_a_table_of_its_own_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (ready, go_on) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the thread has nothing open that others need.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                let held: Vec<File> = (0..300).map(|_| File::create(&path).unwrap()).collect();
                held.iter().for_each(|file| flock(file, FlockOperation::LockShared).unwrap());
                ready.wait();
                go_on.wait();
            });
            ready.wait();
            let mut memory = KernelMemory::new(50_000);
            let run = Freezable::own();
            looked(&mut memory, 100 * MIB, &run);
            let counted = looked(&mut memory, 101 * MIB, &run);
            go_on.wait();
            assert!(matches!(counted, Counted::Beyond(found) if found.locks > 250), "{counted:?}");
        });
    }

    /// A lock that all threads of a process share counts once.
    #[test]
    fn a_table_that_many_threads_share_is_one() {
        let barrier = std::sync::Barrier::new(9);
        std::thread::scope(|scope| {
            (0..8).for_each(|_| _ = scope.spawn(|| barrier.wait()));
            let tables = tables(vec![std::process::id()]);
            barrier.wait();
            // The other test's thread may have one.
            assert!((1..=2).contains(&tables.len()), "{tables:?}");
        });
    }

    #[test]
    fn memory_that_others_free_is_no_room_for_more() {
        let mut memory = KernelMemory::new(10 * MIB);
        let run = Freezable::own();
        looked(&mut memory, 100 * MIB, &run);
        looked(&mut memory, 50 * MIB, &run);
        assert!(memory.alarm.is_some_and(|alarm| alarm <= 65 * MIB), "{memory:?}");
    }

    #[test]
    fn bytes_in_netlink_sockets_are_those_of_both_queues() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("netlink");
        let text = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
                    000000004bc7e83c 0   3904640778 00000000 8386560  10       0     2        72720    44216   \n\
                    000000005bc7e83c 0   0          00000000 5        0        0     2        0        2   \n";
        fs::write(&table, text).unwrap();
        assert_eq!(netlink_bytes(table.to_str().unwrap(), u64::MAX), 8_386_575);
    }

    #[test]
    fn the_host_says_how_much_memory_its_kernel_has() {
        assert!(unreclaimable_bytes().is_some_and(|bytes| bytes > MIB));
    }
}
