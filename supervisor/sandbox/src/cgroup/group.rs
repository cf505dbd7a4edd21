//! One cgroup of one hierarchy: its files, its processes and its removal, which are alike in v1 and v2.
//!
//! Plain files, because every answer of the kernel counts: a limit is in force when it reads back, and not when a write
//! was accepted.

use crate::exhausted_resource::exhausted_resource;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the removal of a leaf may take, all its groups together. The kernel releases a group within milliseconds
/// after its last process was reaped; a group that is given up stays until the next start.
pub(crate) const REMOVE_WAIT: Duration = Duration::from_secs(30);

/// Pause between two attempts to remove a group.
const REMOVE_PAUSE: Duration = Duration::from_millis(1);

/// Levels of groups below a leaf that are removed with it. A run that is root could have made them.
const NESTING_MAX: u32 = 8;

/// Attempts to make a leaf in a tenant's group that other threads remove with their last leaf at the same time.
const NEST_ATTEMPTS: u32 = 64;

/// Rounds of killing on a kernel without `cgroup.kill`. No process can fork meanwhile, so the second round finds none.
const KILL_ROUNDS: u32 = 8;

/// Most processes that are listed.
const PIDS_LISTED_MAX: usize = 4_096;

/// Most bytes that are read of a counter file. The longest, `memory.events` and `cpu.stat`, have a few hundred.
const COUNTER_BYTES_MAX: usize = 2_048;

/// Error of an operation on a group.
#[derive(Debug)]
pub(super) enum GroupError {
    /// The kernel does not support it or a permission is missing: the reason, which contains no path.
    Denied(String),
    /// The failure says nothing about the host's abilities; the next attempt may succeed.
    Transient(TransientFailure),
}

/// A failure to make a leaf that says nothing about what this host can enforce.
#[derive(Debug)]
pub(crate) enum TransientFailure {
    /// The host is short of a resource: see [`exhausted_resource`].
    Exhausted(io::Error),
    /// The group was removed from outside.
    Removed,
}

impl GroupError {
    /// Classifies an error of an operation in the group `dir`.
    pub(super) fn from_io(dir: &Path, error: io::Error) -> GroupError {
        match TransientFailure::from_io(dir, error) {
            Ok(failure) => GroupError::Transient(failure),
            Err(error) => GroupError::Denied(plain_reason(&error)),
        }
    }

    /// Adds the failed operation to the reason.
    pub(super) fn context(self, what: &str) -> GroupError {
        match self {
            GroupError::Denied(reason) => GroupError::Denied(format!("{what}: {reason}")),
            failure @ GroupError::Transient(_) => failure,
        }
    }
}

impl TransientFailure {
    /// Classifies an error of an operation in the group `dir`; returns it if it is not transient. A missing file in an
    /// existing group is not transient. ENOSPC is: the kernel has a bounded number of groups.
    pub(super) fn from_io(dir: &Path, error: io::Error) -> Result<TransientFailure, io::Error> {
        if exhausted_resource(&error).is_some() || error.raw_os_error() == Some(libc::ENOSPC) {
            Ok(TransientFailure::Exhausted(error))
        } else if is_removed(&error) && is_removed_or_dying(dir) {
            Ok(TransientFailure::Removed)
        } else {
            Err(error)
        }
    }
}

impl fmt::Display for TransientFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransientFailure::Exhausted(error) => {
                f.write_str(exhausted_resource(error).unwrap_or("the host has no room for another group"))
            }
            TransientFailure::Removed => f.write_str("the group was removed from outside"),
        }
    }
}

impl From<String> for GroupError {
    fn from(reason: String) -> GroupError {
        GroupError::Denied(reason)
    }
}

/// Whether the group `dir` is removed or being removed: a removal deletes the files before the directory, so the
/// directory alone proves nothing. The kernel checks whether a group is alive before it parses a pid, and `-` is none.
pub(super) fn is_removed_or_dying(dir: &Path) -> bool {
    // The cheaper check first: it takes no descriptor.
    fs::symlink_metadata(dir).is_err_and(|error| is_removed(&error))
        || write(dir, "cgroup.procs", "-").is_err_and(|error| is_removed(&error))
}

/// A file of a group that is kept open, since a read is four times as fast as an open and a read.
#[derive(Default)]
pub(super) struct CounterFile(Option<File>);

impl CounterFile {
    /// Opens a file. A file that is missing in an existing group reads as nothing.
    pub(super) fn open(dir: Option<&Path>, file: &str) -> Result<CounterFile, TransientFailure> {
        let Some(dir) = dir else { return Ok(CounterFile(None)) };
        match File::open(dir.join(file)) {
            Ok(file) => Ok(CounterFile(Some(file))),
            Err(error) => TransientFailure::from_io(dir, error).map_or(Ok(CounterFile(None)), Err),
        }
    }

    pub(super) fn or_else(
        self,
        other: impl FnOnce() -> Result<CounterFile, TransientFailure>,
    ) -> Result<CounterFile, TransientFailure> {
        if self.0.is_some() { Ok(self) } else { other() }
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.0.as_ref()
    }

    /// Parses the current content with `read`.
    pub(super) fn read<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let mut bytes = [0; COUNTER_BYTES_MAX];
        let len = self.0.as_ref()?.read_at(&mut bytes, 0).ok()?;
        read(std::str::from_utf8(bytes.get(..len)?).ok()?)
    }

    pub(super) fn number(&self) -> Option<u64> {
        self.read(|text| text.trim().parse().ok())
    }

    pub(super) fn value(&self, key: &str) -> Option<u64> {
        self.read(|text| value_of(text, key))
    }

    pub(super) fn values<const N: usize>(&self, keys: [&str; N]) -> [Option<u64>; N] {
        self.read(|text| Some(keys.map(|key| value_of(text, key)))).unwrap_or([None; N])
    }
}

/// The OOM event registered at `dir`; `None` if the kernel has no such event.
pub(super) fn oom_event_or_none<B>(dir: &Path, registered: io::Result<B>) -> Result<Option<B>, TransientFailure> {
    match registered {
        Ok(event) => Ok(Some(event)),
        Err(error) => TransientFailure::from_io(dir, error).map_or(Ok(None), Err),
    }
}

/// Value of `key` in lines of `key value`.
fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

pub(super) fn write(dir: &Path, file: &str, value: &str) -> io::Result<()> {
    File::options().write(true).open(dir.join(file))?.write_at(value.as_bytes(), 0).map(drop)
}

pub(super) fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

/// Value of `key` in a file with lines of `key value`.
pub(super) fn read_value(dir: &Path, file: &str, key: &str) -> Option<u64> {
    value_of(&fs::read_to_string(dir.join(file)).ok()?, key)
}

/// Writes `value` and returns the content of the file afterwards.
pub(super) fn set(dir: &Path, file: &str, value: &str) -> Result<String, GroupError> {
    let opened = File::options().read(true).write(true).open(dir.join(file));
    let written = opened.and_then(|opened| opened.write_at(value.as_bytes(), 0).map(|_| opened));
    let opened = written.map_err(|error| GroupError::from_io(dir, error).context(&format!("writing {file}")))?;
    let mut text = [0; COUNTER_BYTES_MAX];
    let len = opened
        .read_at(&mut text, 0)
        .map_err(|error| GroupError::from_io(dir, error).context(&format!("reading {file} back")))?;
    let text = text.get(..len).and_then(|text| std::str::from_utf8(text).ok());
    text.map(|text| text.trim().to_owned()).ok_or_else(|| format!("{file} cannot be read back").into())
}

/// Content of a file that a limit was written to.
pub(super) fn read_back(dir: &Path, file: &str) -> Result<String, GroupError> {
    let text = fs::read_to_string(dir.join(file));
    let text = text.map_err(|error| GroupError::from_io(dir, error).context(&format!("reading {file} back")))?;
    Ok(text.trim().to_owned())
}

/// Writes a number that must read back exactly.
pub(super) fn set_exactly(dir: &Path, file: &str, expected: u64) -> Result<u64, GroupError> {
    check_exact(file, &set(dir, file, &expected.to_string())?, expected)
}

/// Reads back a number that must be the written one.
pub(super) fn read_back_exactly(dir: &Path, file: &str, expected: u64) -> Result<u64, GroupError> {
    check_exact(file, &read_back(dir, file)?, expected)
}

/// Reads back a number that the kernel rounds down to whole pages, of at most 64 KiB.
pub(super) fn read_back_pages(dir: &Path, file: &str, expected: u64) -> Result<u64, GroupError> {
    let text = read_back(dir, file)?;
    let rounded = text.parse().ok().filter(|value| *value <= expected && expected - value < 65_536);
    rounded.ok_or_else(|| mismatch(file, &text, expected).into())
}

fn check_exact(file: &str, text: &str, expected: u64) -> Result<u64, GroupError> {
    if text.parse() == Ok(expected) { Ok(expected) } else { Err(mismatch(file, text, expected).into()) }
}

fn mismatch(file: &str, text: &str, expected: u64) -> String {
    format!("{file} reads {text} after {expected} was written")
}

/// The kernel's reason, in words without a path.
fn plain_reason(error: &io::Error) -> String {
    error.kind().to_string()
}

/// A leaf in its tenant's group.
pub(super) struct NestedGroup {
    pub(super) dir: PathBuf,
    /// Whether the tenant's group was made with it.
    pub(super) is_tenant_group_new: bool,
}

/// Makes the group `leaf` in the group `tenant` of `own`, and the tenant's group if it does not exist.
///
/// Another thread may remove the tenant's group with its last leaf between the two steps, and then they are repeated.
/// If all attempts fail, somebody else removes the groups.
pub(super) fn create_nested(own: &Path, tenant: &str, leaf: &str) -> Result<NestedGroup, GroupError> {
    let tenant = own.join(tenant);
    let dir = tenant.join(leaf);
    let mut is_tenant_group_new = false;
    for _ in 0..NEST_ATTEMPTS {
        match fs::create_dir(&dir) {
            Ok(()) => {
                // Both, since another thread may have made the tenant's group just now.
                return match open_to_runs(&tenant).and_then(|()| open_to_runs(&dir)) {
                    Ok(()) => Ok(NestedGroup { dir, is_tenant_group_new }),
                    Err(error) => {
                        _ = fs::remove_dir(&dir);
                        remove_empty_tenant_group(&dir);
                        Err(GroupError::from_io(own, error))
                    }
                };
            }
            Err(error) if is_removed(&error) => {}
            Err(error) => {
                remove_empty_tenant_group(&dir);
                return Err(GroupError::from_io(own, error));
            }
        }
        match fs::create_dir(&tenant) {
            Ok(()) => is_tenant_group_new = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(GroupError::from_io(own, error)),
        }
    }
    Err(GroupError::Transient(TransientFailure::Removed))
}

/// Lets the users of runs search a group. A run mounts its leaf under its own user, for which the kernel searches the groups on
/// the way, and a service's umask may keep other users out of what it makes.
fn open_to_runs(dir: &Path) -> io::Result<()> {
    let mode = fs::metadata(dir)?.mode();
    if mode & 0o055 == 0o055 { Ok(()) } else { fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o055)) }
}

/// Removes the tenant's group around the removed leaf `dir`, unless it holds another leaf.
pub(super) fn remove_empty_tenant_group(dir: &Path) {
    let Some(tenant) = dir.parent() else { return };
    // This check is cheap, while an attempt to remove would hold up all threads that make or remove groups. The link
    // count of a group is two and one for each group in it.
    if fs::metadata(tenant).is_ok_and(|tenant| tenant.nlink() > 2) {
        return;
    }
    match fs::remove_dir(tenant) {
        Err(error) if error.kind() != io::ErrorKind::ResourceBusy && !is_removed(&error) => {
            tracing::error!(%error, "a tenant's cgroup could not be removed");
        }
        _ => {}
    }
}

/// Whether an error means that the group went away, before the path was resolved or after.
fn is_removed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// Processes in `dir` itself, at most [`PIDS_LISTED_MAX`]. Those outside of this pid namespace are left out.
pub(super) fn pids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 0).take(PIDS_LISTED_MAX).collect()
}

/// Kills everything in `dir` and below, at once if the kernel has `cgroup.kill`.
///
/// Else process by process, while new ones are forbidden if `dir` has the pids controller. A process is killed only if
/// its pid is seen in the group after its pidfd was opened, so that the pid cannot have been reused by a process
/// outside.
pub(super) fn kill(dir: &Path) {
    if write(dir, "cgroup.kill", "1").is_ok() {
        return;
    }
    // Best effort: groups of other controllers have no such file.
    let _frozen = write(dir, "pids.max", "0");
    for _ in 0..KILL_ROUNDS {
        let killed = kill_once(dir, NESTING_MAX);
        if killed == 0 {
            return;
        }
    }
}

fn kill_once(dir: &Path, depth: u32) -> usize {
    let opened = pids(dir).into_iter().filter_map(|pid| {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some((pid, pidfd_open(raw, PidfdFlags::empty()).ok()?))
    });
    let opened: Vec<_> = opened.collect();
    let current_pids = pids(dir);
    let in_group = opened.iter().filter(|(pid, _)| current_pids.contains(pid));
    let killed = in_group.filter(|(_, process)| pidfd_send_signal(process, Signal::KILL).is_ok()).count();
    let children = if depth > 0 { groups_in(dir) } else { Vec::new() };
    killed + children.iter().map(|child| kill_once(child, depth - 1)).sum::<usize>()
}

/// Groups directly in `dir`.
pub(super) fn groups_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Removes `dir` and the groups below it. Waits until the kernel releases them, at most `until`, and kills what lives
/// there: nothing should, but other processes can be put into any group.
pub(super) fn remove(dir: &Path, until: Instant) -> io::Result<()> {
    let mut is_first_attempt = true;
    loop {
        match try_remove(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                // The kernel has mostly released the dead by the second attempt.
                if !is_first_attempt {
                    kill(dir);
                }
                is_first_attempt = false;
                std::thread::sleep(REMOVE_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// One attempt of [`remove`]; `ResourceBusy` while anything is in use.
pub(super) fn try_remove(dir: &Path) -> io::Result<()> {
    remove_nested(dir, NESTING_MAX)
}

fn remove_nested(dir: &Path, depth: u32) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(error) if is_removed(&error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && depth > 0 => {
            let children = groups_in(dir);
            if children.is_empty() {
                return Err(error);
            }
            children.iter().try_for_each(|child| remove_nested(child, depth - 1))?;
            match fs::remove_dir(dir) {
                Err(error) if is_removed(&error) => Ok(()),
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
    fn matches_a_key_as_a_whole_word() {
        let events = "low 0\noom 1\noom_kill 2\noom_group_kill 3\n";
        assert_eq!(value_of(events, "oom"), Some(1));
        assert_eq!(value_of(events, "oom_kill"), Some(2));
        assert_eq!(value_of(events, "kill"), None);
    }

    #[test]
    fn accepts_a_limit_only_if_it_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &str| fs::write(dir.path().join("limit"), text).unwrap();
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        file("");
        let denied = |outcome: Result<u64, GroupError>| match outcome {
            Err(GroupError::Denied(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(set_exactly(dir.path(), "limit", 7).unwrap(), 7);
        // The longer content stays behind the number, as in a file that accepts a write and keeps another value.
        file("1234");
        assert_eq!(denied(set_exactly(dir.path(), "limit", 7)), "limit reads 7234 after 7 was written");
        file("4096\n");
        assert_eq!(read_back_exactly(dir.path(), "limit", 4_096).unwrap(), 4_096);
        assert_eq!(read_back_pages(dir.path(), "limit", 5_000).unwrap(), 4_096);
        assert_eq!(denied(read_back_exactly(dir.path(), "limit", 5_000)), "limit reads 4096 after 5000 was written");
        assert_eq!(denied(read_back_pages(dir.path(), "limit", 4_095)), "limit reads 4096 after 4095 was written");
        assert_eq!(denied(set_exactly(dir.path(), "none", 7)), "writing none: entity not found");
    }

    #[test]
    fn opens_a_group_that_a_umask_has_closed() {
        let dir = tempfile::tempdir().unwrap();
        for (before, after) in [(0o700, 0o755), (0o755, 0o755), (0o775, 0o775)] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(before)).unwrap();
            open_to_runs(dir.path()).unwrap();
            assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, after);
        }
    }

    #[test]
    fn an_error_in_a_removed_group_is_transient() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("group");
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        assert!(matches!(set_exactly(&gone, "limit", 7), Err(GroupError::Transient(TransientFailure::Removed))));
        assert!(matches!(CounterFile::open(Some(&gone), "limit"), Err(TransientFailure::Removed)));
        assert!(CounterFile::open(Some(dir.path()), "limit").is_ok_and(|counter| counter.file().is_none()));
        // A half-removed group still has its directory.
        fs::remove_file(dir.path().join("cgroup.procs")).unwrap();
        assert!(matches!(CounterFile::open(Some(dir.path()), "limit"), Err(TransientFailure::Removed)));
    }
}
