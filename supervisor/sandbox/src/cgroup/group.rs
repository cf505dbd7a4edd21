//! One group of one hierarchy: its files, its processes and its end, which are alike in v1 and v2. Must not know what a
//! controller does.
//!
//! Plain files, because every answer of the kernel counts: a limit is in force when it reads back, and not when a write
//! was accepted.

use crate::lack::lack;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the removal of a leaf may take, all its groups together. The kernel lets go of a group within milliseconds
/// after its last process was reaped; a group that is given up stays until the next start.
pub(crate) const REMOVE_WAIT: Duration = Duration::from_secs(30);

/// Pause between two attempts to remove a group.
const REMOVE_PAUSE: Duration = Duration::from_millis(1);

/// Levels of groups below a leaf that are removed with it. A run that owned root could have made them.
const NESTING_MAX: u32 = 8;

/// Attempts to make a leaf in a tenant's group that others remove with their last leaf at the same time.
const NEST_ATTEMPTS: u32 = 64;

/// Rounds of killing where the kernel has no `cgroup.kill`. No process can fork meanwhile, so the second one finds none.
const KILL_ROUNDS: u32 = 8;

/// Processes listed at most.
const PIDS_LISTED_MAX: usize = 4_096;

/// Bytes of a file of counters that are read. The longest, `memory.events` and `cpu.stat`, have a few hundred.
const COUNTER_BYTES_MAX: usize = 2_048;

/// Why something could not be had of a group.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The kernel or a permission says so: the reason, which holds no path.
    Denied(String),
    /// Nobody says so. The host was short of something, or the group is gone, and the next one may have it.
    Passing(Passing),
}

/// What keeps a leaf from being made now, and says nothing about what can be had on this host.
#[derive(Debug)]
pub(crate) enum Passing {
    /// See [`lack`].
    Lacking(io::Error),
    /// Somebody has removed the group.
    Gone,
}

impl Obstacle {
    /// What `error` means that came of something in the group `dir`.
    pub(super) fn met(dir: &Path, error: io::Error) -> Obstacle {
        match Passing::met(dir, error) {
            Ok(passing) => Obstacle::Passing(passing),
            Err(error) => Obstacle::Denied(plain(&error)),
        }
    }

    /// The same obstacle, met at `what`.
    pub(super) fn at(self, what: &str) -> Obstacle {
        match self {
            Obstacle::Denied(reason) => Obstacle::Denied(format!("{what}: {reason}")),
            passing @ Obstacle::Passing(_) => passing,
        }
    }
}

impl Passing {
    /// What `error` means that came of something in the group `dir`, or the error when it is not of this kind. A file that
    /// is not there is no news about a group that is. The kernel has a bounded number of groups, and ENOSPC for the next.
    pub(super) fn met(dir: &Path, error: io::Error) -> Result<Passing, io::Error> {
        if lack(&error).is_some() || error.raw_os_error() == Some(libc::ENOSPC) {
            Ok(Passing::Lacking(error))
        } else if is_gone(&error) && is_missing(dir) {
            Ok(Passing::Gone)
        } else {
            Err(error)
        }
    }
}

impl fmt::Display for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Passing::Lacking(error) => f.write_str(lack(error).unwrap_or("the host has no room for another group")),
            Passing::Gone => f.write_str("the group was removed from outside"),
        }
    }
}

impl From<String> for Obstacle {
    fn from(reason: String) -> Obstacle {
        Obstacle::Denied(reason)
    }
}

/// Whether there is no group `dir`, or none any more in a moment: a removal takes away the files before the group, so that a
/// look could come too early. The kernel asks whether a group is alive before it looks at what it is told of a process, and
/// no process is called `-`.
pub(super) fn is_missing(dir: &Path) -> bool {
    // The look first, as it takes no descriptor.
    fs::symlink_metadata(dir).is_err_and(|error| is_gone(&error))
        || write(dir, "cgroup.procs", "-").is_err_and(|error| is_gone(&error))
}

/// A file of a group that stays open, since a read is four times as fast as an open and a read.
#[derive(Default)]
pub(super) struct Gauge(Option<File>);

impl Gauge {
    /// A file that is not there reads as nothing, if the group is.
    pub(super) fn open(dir: Option<&Path>, file: &str) -> Result<Gauge, Passing> {
        let Some(dir) = dir else { return Ok(Gauge(None)) };
        match File::open(dir.join(file)) {
            Ok(file) => Ok(Gauge(Some(file))),
            Err(error) => Passing::met(dir, error).map_or(Ok(Gauge(None)), Err),
        }
    }

    pub(super) fn or_else(self, other: impl FnOnce() -> Result<Gauge, Passing>) -> Result<Gauge, Passing> {
        if self.0.is_some() { Ok(self) } else { other() }
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.0.as_ref()
    }

    /// What it says now, as `read` understands it.
    pub(super) fn read<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let mut bytes = [0; COUNTER_BYTES_MAX];
        let len = self.0.as_ref()?.read_at(&mut bytes, 0).ok()?;
        read(std::str::from_utf8(bytes.get(..len)?).ok()?)
    }

    pub(super) fn number(&self) -> Option<u64> {
        self.read(|text| text.trim().parse().ok())
    }

    pub(super) fn keyed(&self, key: &str) -> Option<u64> {
        self.read(|text| keyed(text, key))
    }

    pub(super) fn all_keyed<const N: usize>(&self, keys: [&str; N]) -> [Option<u64>; N] {
        self.read(|text| Some(keys.map(|key| keyed(text, key)))).unwrap_or([None; N])
    }
}

/// A bell that was hung at `dir`, or none where the kernel has none to hang.
pub(super) fn bell<B>(dir: &Path, hung: io::Result<B>) -> Result<Option<B>, Passing> {
    match hung {
        Ok(bell) => Ok(Some(bell)),
        Err(error) => Passing::met(dir, error).map_or(Ok(None), Err),
    }
}

/// The value of `key` in lines of `key value`.
fn keyed(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

pub(super) fn write(dir: &Path, file: &str, value: &str) -> io::Result<()> {
    File::options().write(true).open(dir.join(file))?.write_at(value.as_bytes(), 0).map(drop)
}

pub(super) fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

/// The value of `key` in a file of lines of `key value`.
pub(super) fn keyed_in(dir: &Path, file: &str, key: &str) -> Option<u64> {
    keyed(&fs::read_to_string(dir.join(file)).ok()?, key)
}

/// Writes `value` and returns what the file says then.
pub(super) fn set(dir: &Path, file: &str, value: &str) -> Result<String, Obstacle> {
    let opened = File::options().read(true).write(true).open(dir.join(file));
    let written = opened.and_then(|opened| opened.write_at(value.as_bytes(), 0).map(|_| opened));
    let opened = written.map_err(|error| Obstacle::met(dir, error).at(&format!("writing {file}")))?;
    let mut said = [0; COUNTER_BYTES_MAX];
    let len =
        opened.read_at(&mut said, 0).map_err(|error| Obstacle::met(dir, error).at(&format!("reading {file} back")))?;
    let said = said.get(..len).and_then(|said| std::str::from_utf8(said).ok());
    said.map(|said| said.trim().to_owned()).ok_or_else(|| format!("{file} cannot be read back").into())
}

/// Writes a number that has to read back as it is.
pub(super) fn set_exactly(dir: &Path, file: &str, wanted: u64) -> Result<u64, Obstacle> {
    let said = set(dir, file, &wanted.to_string())?;
    if said.parse() == Ok(wanted) { Ok(wanted) } else { Err(unlike(file, &said, wanted).into()) }
}

/// Like [`set_exactly`] for a number that the kernel rounds down to whole pages, of at most 64 KiB.
pub(super) fn set_pages(dir: &Path, file: &str, wanted: u64) -> Result<u64, Obstacle> {
    let said = set(dir, file, &wanted.to_string())?;
    let rounded = said.parse().ok().filter(|value| *value <= wanted && wanted - value < 65_536);
    rounded.ok_or_else(|| unlike(file, &said, wanted).into())
}

fn unlike(file: &str, said: &str, wanted: u64) -> String {
    format!("{file} reads {said} after {wanted} was written")
}

/// The kernel's reason, in words that hold no path.
fn plain(error: &io::Error) -> String {
    error.kind().to_string()
}

/// A leaf in its tenant's group.
pub(super) struct Nested {
    pub(super) dir: PathBuf,
    /// Whether the tenant's group was made for it.
    pub(super) is_first: bool,
}

/// Makes the group `leaf` in the group `tenant` of `own`, and that one when it is not there.
///
/// Another thread may remove the tenant's group with its last leaf between the two steps, which begins them anew. Whoever
/// loses that race each time has met somebody who removes groups.
pub(super) fn make_nested(own: &Path, tenant: &str, leaf: &str) -> Result<Nested, Obstacle> {
    let tenant = own.join(tenant);
    let dir = tenant.join(leaf);
    let mut is_first = false;
    for _ in 0..NEST_ATTEMPTS {
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(Nested { dir, is_first }),
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                leave_tenant(&dir);
                return Err(Obstacle::met(own, error));
            }
        }
        match fs::create_dir(&tenant) {
            Ok(()) => is_first = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Obstacle::met(own, error)),
        }
    }
    Err(Obstacle::Passing(Passing::Gone))
}

/// Removes the tenant's group around the removed leaf `dir`, unless another leaf is in it.
pub(super) fn leave_tenant(dir: &Path) {
    let Some(tenant) = dir.parent() else { return };
    // A look is cheap, and the attempt would hold up everybody who makes or removes a group. A group's links are two and one
    // for each group in it.
    if fs::metadata(tenant).is_ok_and(|tenant| tenant.nlink() > 2) {
        return;
    }
    match fs::remove_dir(tenant) {
        Err(error) if error.kind() != io::ErrorKind::ResourceBusy && !is_gone(&error) => {
            tracing::error!(%error, "a tenant's cgroup could not be removed");
        }
        _ => {}
    }
}

/// Whether a group went away in the middle of an operation: before a path was walked, or after.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// The processes in `dir` itself, at most [`PIDS_LISTED_MAX`]. Those that this pid namespace does not show are left out.
pub(super) fn pids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 0).take(PIDS_LISTED_MAX).collect()
}

/// Kills everything in `dir` and below, at once where the kernel can.
///
/// Elsewhere process by process, with no new ones meanwhile if `dir` has the pids controller. A pid is only killed while
/// it is seen in the group through a pidfd that was opened before, so that it cannot have become another process's.
pub(super) fn kill(dir: &Path) {
    if write(dir, "cgroup.kill", "1").is_ok() {
        return;
    }
    // A help only: groups of other controllers have no such file.
    let _frozen = write(dir, "pids.max", "0");
    for _ in 0..KILL_ROUNDS {
        let killed = kill_each(dir, NESTING_MAX);
        if killed == 0 {
            return;
        }
    }
}

fn kill_each(dir: &Path, depth: u32) -> usize {
    let opened = pids(dir).into_iter().filter_map(|pid| {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some((pid, pidfd_open(raw, PidfdFlags::empty()).ok()?))
    });
    let opened: Vec<_> = opened.collect();
    let still_there = pids(dir);
    let in_group = opened.iter().filter(|(pid, _)| still_there.contains(pid));
    let killed = in_group.filter(|(_, process)| pidfd_send_signal(process, Signal::KILL).is_ok()).count();
    let below = if depth > 0 { groups_in(dir) } else { Vec::new() };
    killed + below.iter().map(|below| kill_each(below, depth - 1)).sum::<usize>()
}

/// The groups directly in `dir`.
pub(super) fn groups_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Removes `dir` and the groups below it. Waits until the kernel lets go of them, at most `until`, and kills what lives there:
/// nothing should, but others can put a process into any group.
pub(super) fn remove(dir: &Path, until: Instant) -> io::Result<()> {
    let mut is_first = true;
    loop {
        match try_remove(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                // Of what is dead the kernel has mostly let go by the second attempt.
                if !is_first {
                    kill(dir);
                }
                is_first = false;
                std::thread::sleep(REMOVE_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// One attempt at the same. `ResourceBusy` while anything is in use.
pub(super) fn try_remove(dir: &Path) -> io::Result<()> {
    remove_down_to(dir, NESTING_MAX)
}

fn remove_down_to(dir: &Path, depth: u32) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && depth > 0 => {
            let below = groups_in(dir);
            if below.is_empty() {
                return Err(error);
            }
            below.iter().try_for_each(|below| remove_down_to(below, depth - 1))?;
            match fs::remove_dir(dir) {
                Err(error) if is_gone(&error) => Ok(()),
                outcome => outcome,
            }
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_whole_word() {
        let events = "low 0\noom 1\noom_kill 2\noom_group_kill 3\n";
        assert_eq!(keyed(events, "oom"), Some(1));
        assert_eq!(keyed(events, "oom_kill"), Some(2));
        assert_eq!(keyed(events, "kill"), None);
    }

    #[test]
    fn a_limit_counts_only_as_it_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &str| fs::write(dir.path().join("limit"), text).unwrap();
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        file("");
        let denied = |outcome: Result<u64, Obstacle>| match outcome {
            Err(Obstacle::Denied(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(set_exactly(dir.path(), "limit", 7).unwrap(), 7);
        // What is longer than the number stays behind it, as in a file that takes a write and keeps its own mind.
        file("1234");
        assert_eq!(denied(set_exactly(dir.path(), "limit", 7)), "limit reads 7234 after 7 was written");
        file("");
        assert_eq!(set_pages(dir.path(), "limit", 4_096).unwrap(), 4_096);
        assert_eq!(denied(set_exactly(dir.path(), "none", 7)), "writing none: entity not found");
    }

    #[test]
    fn a_group_that_is_gone_has_no_say_in_what_can_be_had() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("group");
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        assert!(matches!(set_exactly(&gone, "limit", 7), Err(Obstacle::Passing(Passing::Gone))));
        assert!(matches!(Gauge::open(Some(&gone), "limit"), Err(Passing::Gone)));
        assert!(Gauge::open(Some(dir.path()), "limit").is_ok_and(|gauge| gauge.file().is_none()));
        // What is half removed has its directory still.
        fs::remove_file(dir.path().join("cgroup.procs")).unwrap();
        assert!(matches!(Gauge::open(Some(dir.path()), "limit"), Err(Passing::Gone)));
    }
}
