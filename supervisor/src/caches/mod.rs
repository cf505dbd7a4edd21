//! Bounds the build caches of a tenant. The cache directory holds one directory of caches for each workspace
//! ([`RunCache`]) and one for Go's library ([`GoLibrary`]). The directories unused longest are removed until size and
//! number are within bounds.
//!
//! Any other entry is a leftover (of an earlier version, or of a run with empty caches whose supervisor was killed) and
//! is removed once no run is active.
//!
//! Tests write there freely, so this code follows no links, holds at most two directories open and does not recurse: a
//! tree may be arbitrarily deep.
//!
//! Two siblings of the directory belong to it. `cache.used` is locked by each run while it lasts, and records the total
//! size at the last measurement and the free disk space then: while the free space has not fallen by the remaining
//! allowance, nothing needs measuring. `cache.trash` receives caches in one step while no run is active, and caches
//! that now belong to another user; the slow removal happens afterwards.

mod go_library;
mod run_cache;

pub use go_library::GoLibrary;
pub use run_cache::{RunCache, cache_dir_of_run};

use crate::host::trash::{OPEN_DIR, empty, move_up, names, open_trash, sibling};
use proctor_core::bounds::{PATH_BYTES_MAX, TENANT_CACHED_WORKSPACES_MAX};
use proctor_sandbox::{exhausted_resource, ok_unless_exhausted};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Caches are not measured again sooner, however often a tenant runs tests.
const PAUSE_MIN: Duration = Duration::from_secs(60);

/// Caches are measured again after this, since a neighbour that frees disk space hides a tenant's growth.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// No further run starts while the caches exceed this multiple of their bound. Tidying waits until no run is active,
/// and overlapping runs, each within its own disk limit, could otherwise grow them for ever.
const OVERFULL_FACTOR: u64 = 2;

/// Most bytes of names of directories that are still to be measured.
const PENDING_BYTES_MAX: usize = 64 << 20;

/// Most files with several names that are tracked by inode, so that each counts once.
const LINKED_MAX: usize = 1 << 20;

/// A run tries its lock this many times and then continues without it, which is harmless: removed caches are only
/// renamed.
const LOCK_TRIES: u32 = 10;

/// Pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Locks the caches for a run; no cache is removed while the lock is held. `None` if the cache directory does not exist
/// or another process held the lock for a second.
#[must_use]
pub fn lock_for_run(cache: &Path) -> Option<File> {
    let used = cache.is_dir().then(|| open_used(cache).and_then(lock_shared))?;
    used.inspect_err(|error| tracing::warn!(%error, cache = %cache.display(), "a cache cannot be marked as in use"))
        .ok()
}

fn lock_shared(used: File) -> io::Result<File> {
    for _ in 0..LOCK_TRIES {
        match used.try_lock_shared() {
            Ok(()) => return Ok(used),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(Errno::WOULDBLOCK.into())
}

/// Whether the caches in `cache` far exceeded `bytes_max` at the last measurement and are in use. The end of the last
/// run tidies them; no further run should start before that.
#[must_use]
pub fn are_overfull(cache: &Path, bytes_max: u64) -> bool {
    let measurement = || Measurement::read(&mut open_used(cache).ok()?);
    let overfull =
        || measurement().is_some_and(|measurement| measurement.bytes > bytes_max.saturating_mul(OVERFULL_FACTOR));
    cache.is_dir() && overfull() && is_in_use(cache).unwrap_or(false)
}

/// Bytes of the caches in `cache` at the last measurement; `None` before the first.
#[must_use]
pub fn measured_bytes(cache: &Path) -> Option<u64> {
    let mut used = cache.is_dir().then(|| open_used(cache).ok())??;
    Measurement::read(&mut used).map(|measurement| measurement.bytes)
}

fn is_in_use(cache: &Path) -> io::Result<bool> {
    match open_used(cache)?.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether [`tidy`] is due for the caches in `cache`: the last measurement is old or may no longer hold.
#[must_use]
pub fn is_untidy(cache: &Path, bytes_max: u64) -> bool {
    // Errors are ignored here: `tidy` meets the same error and logs it.
    cache.is_dir() && open_used(cache).and_then(|mut used| is_due(&mut used, cache, bytes_max)).unwrap_or(true)
}

fn is_due(used: &mut File, cache: &Path, bytes_max: u64) -> io::Result<bool> {
    let Some(measurement) = Measurement::read(used) else { return Ok(true) };
    // Caches found too large were in use then; they can be removed once they are not.
    Ok(measurement.is_due(free_bytes(cache)?, bytes_max) || (measurement.bytes > bytes_max && !is_in_use(cache)?))
}

/// Brings the caches in `cache` within `bytes_max` if they may exceed it and no run uses them. Call it after a run,
/// never before one, and not on a tokio thread: it reads and removes whole trees.
pub fn tidy(cache: &Path, bytes_max: u64) {
    match try_tidy(cache, bytes_max) {
        Ok(Tidied { removed, bytes }) if !removed.is_empty() => {
            let names: Vec<_> = removed.iter().map(|name| name.to_string_lossy()).collect();
            tracing::info!(cache = %cache.display(), count = names.len(), ?names, bytes, "build caches were removed");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, cache = %cache.display(), "build caches could not be bounded"),
    }
}

/// The removed caches.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tidied {
    removed: Vec<CString>,
    bytes: u64,
}

fn try_tidy(cache: &Path, bytes_max: u64) -> io::Result<Tidied> {
    if !cache.is_dir() {
        return Ok(Tidied::default());
    }
    let trash = open_trash(CWD, &sibling(cache, ".trash"))?;
    match trash.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Tidied::default()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Caches of runs with empty ones, and leftovers of a killed supervisor.
    empty(&trash)?;
    let mut used = open_used(cache)?;
    if !is_due(&mut used, cache, bytes_max)? {
        return Ok(Tidied::default());
    }
    let dir = openat(CWD, cache, OPEN_DIR, Mode::empty())?;
    let mut caches = measure_all(&dir)?;
    let mut tidied = Tidied::default();
    if !is_within(&caches, bytes_max) || caches.iter().any(|cache| cache.is_leftover) {
        let lock = open_used(cache)?;
        match lock.try_lock() {
            Ok(()) => tidied = remove_all(&dir, &trash, split_off_removable(&mut caches, bytes_max))?,
            // The end of the longest of these runs is another chance.
            Err(TryLockError::WouldBlock) => {
                tracing::info!(cache = %cache.display(), total = total(&caches), "build caches are too large and in use")
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        drop(lock);
        empty(&trash)?;
    }
    Measurement::write(&mut used, total(&caches), free_bytes(cache)?)?;
    Ok(tidied)
}

/// Opens the lock file. Its mode keeps other users from locking it; a link or a FIFO planted in its place is rejected.
fn open_used(cache: &Path) -> io::Result<File> {
    let safely = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(safely);
    let used = options.open(sibling(cache, ".used"))?;
    if used.metadata()?.is_file() { Ok(used) } else { Err(io::Error::other("not a regular file")) }
}

fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statfs(dir)?;
    Ok(stat.f_bfree.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0)))
}

/// The last measurement and its age.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    bytes: u64,
    free: u64,
    age: Duration,
}

impl Measurement {
    fn is_due(self, free_now: u64, bytes_max: u64) -> bool {
        let left = bytes_max.saturating_sub(self.bytes);
        let may_be_beyond = left == 0 || self.free.saturating_sub(free_now) >= left;
        self.age >= PAUSE_MAX || (self.age >= PAUSE_MIN && may_be_beyond)
    }

    /// `None` if nothing was measured yet or the file is not understood.
    fn read(used: &mut File) -> Option<Measurement> {
        let mut text = String::new();
        Read::take(&mut *used, 64).read_to_string(&mut text).ok()?;
        let (bytes, free) = text.trim().split_once(' ')?;
        let written = used.metadata().and_then(|metadata| metadata.modified()).ok()?;
        // If the clock was set back, the measurement would look new for ever; treat it as old.
        let age = SystemTime::now().duration_since(written).unwrap_or(PAUSE_MAX);
        Some(Measurement { bytes: bytes.parse().ok()?, free: free.parse().ok()?, age })
    }

    fn write(used: &mut File, bytes: u64, free: u64) -> io::Result<()> {
        used.rewind()?;
        used.set_len(0)?;
        used.write_all(format!("{bytes} {free}\n").as_bytes())
    }
}

/// One entry of the cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cache {
    name: CString,
    /// Whether it belongs neither to a workspace nor to Go's library.
    is_leftover: bool,
    /// `u64::MAX` if it could not be measured.
    bytes: u64,
    /// When a run last used it, in seconds since the epoch.
    used: i64,
}

/// Takes the caches to remove out of `caches`: leftovers, then those too large by themselves, then those unused
/// longest, until the rest is within the bounds.
fn split_off_removable(caches: &mut Vec<Cache>, bytes_max: u64) -> Vec<Cache> {
    caches.sort_by_key(|cache| (!cache.is_leftover, cache.bytes <= bytes_max, cache.used));
    let leftovers = caches.iter().filter(|cache| cache.is_leftover).count();
    // The sum saturates, so it is recomputed instead of decremented.
    let gone = (leftovers..caches.len()).find(|gone| is_within(&caches[*gone..], bytes_max)).unwrap_or(caches.len());
    caches.drain(..gone).collect()
}

fn is_within(caches: &[Cache], bytes_max: u64) -> bool {
    caches.len() <= TENANT_CACHED_WORKSPACES_MAX && total(caches) <= bytes_max
}

fn total(caches: &[Cache]) -> u64 {
    caches.iter().fold(0, |sum, cache| sum.saturating_add(cache.bytes))
}

fn remove_all(dir: &OwnedFd, trash: &File, split_off_removable: Vec<Cache>) -> io::Result<Tidied> {
    let mut tidied = Tidied::default();
    let mut number = 0;
    for Cache { name, bytes, .. } in split_off_removable {
        move_up(dir, &name, trash, &mut number)?;
        tidied.bytes = tidied.bytes.saturating_add(bytes);
        tidied.removed.push(name);
    }
    Ok(tidied)
}

fn measure_all(dir: &OwnedFd) -> io::Result<Vec<Cache>> {
    let mut linked = HashSet::new();
    names(dir)?.filter_map(|name| measure(dir, name, &mut linked).transpose()).collect()
}

/// Measures the cache `name` in `dir`; `None` if it is gone. Fails if the host lacks a resource, because an unmeasured
/// cache must not count as too large.
fn measure(dir: &OwnedFd, name: CString, linked: &mut HashSet<u64>) -> io::Result<Option<Cache>> {
    let Some(top) = metadata(dir, &name)? else { return Ok(None) };
    let is_leftover = !run_cache::is_workspace_name(&name) && !go_library::is_name(&name);
    let mut cache = Cache { bytes: bytes(&top), used: used(&top), name, is_leftover };
    let mut pending = if is_dir(&top) { vec![cache.name.as_bytes().to_vec()] } else { Vec::new() };
    let mut pending_bytes = cache.name.as_bytes().len();
    while let Some(path) = pending.pop() {
        pending_bytes -= path.len();
        let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let mut entries = match openat2(dir, path.as_slice(), OPEN_DIR, Mode::empty(), below).and_then(Dir::new) {
            Ok(entries) => entries,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN) => continue,
            Err(error) if exhausted_resource(&error.into()).is_some() => return Err(error.into()),
            Err(_) => return Ok(Some(Cache { bytes: u64::MAX, ..cache })),
        };
        while let Some(entry) = entries.read() {
            let Some(entry) = ok_unless_exhausted(entry)? else { break };
            if [c".", c".."].contains(&entry.file_name()) {
                continue;
            }
            let Some(found) = metadata(entries.fd()?, entry.file_name())? else { continue };
            let is_new =
                is_dir(&found) || found.stx_nlink == 1 || linked.len() >= LINKED_MAX || linked.insert(found.stx_ino);
            if is_new {
                cache.bytes = cache.bytes.saturating_add(bytes(&found));
            }
            if is_dir(&found) {
                let path = [&path, b"/".as_slice(), entry.file_name().to_bytes()].concat();
                pending_bytes += path.len();
                if path.len() > PATH_BYTES_MAX || pending_bytes > PENDING_BYTES_MAX {
                    return Ok(Some(Cache { bytes: u64::MAX, ..cache }));
                }
                pending.push(path);
            }
        }
    }
    Ok(Some(cache))
}

/// The entry's metadata; `None` if it is gone or inaccessible.
fn metadata(dir: impl AsFd, name: &CStr) -> io::Result<Option<Statx>> {
    let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    ok_unless_exhausted(statx(dir, name, at, StatxFlags::BASIC_STATS))
}

/// When a run last used a cache: the directory's modification time, which proctor sets. Runs can set it too, so a time
/// in the future counts as 0.
fn used(top: &Statx) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let secs = top.stx_mtime.tv_sec;
    if u64::try_from(secs).is_ok_and(|secs| secs <= now) { secs } else { 0 }
}

/// Marks the directory `cache` as used now.
fn mark_used(cache: &Path) -> io::Result<File> {
    let dir = File::from(openat(CWD, cache, OPEN_DIR, Mode::empty())?);
    dir.set_modified(SystemTime::now())?;
    Ok(dir)
}

fn is_dir(found: &Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory
}

fn bytes(found: &Statx) -> u64 {
    // `stx_blocks` counts units of 512 bytes, whatever the file system's block size.
    found.stx_blocks.saturating_mul(512)
}

#[cfg(test)]
mod tests;
