//! The bounds of a tenant's build caches. The cache directory has one directory for the caches of each workspace ([`RunCache`])
//! and one for Go's library ([`GoLibrary`]): those unused for the longest time are removed until the rest is within the bounds of
//! bytes and of directories. Must not know what is in one.
//!
//! Whatever else lies in the cache directory is left over (by an earlier version, or by a run with empty caches whose
//! supervisor was killed) and is removed as soon as no run is on.
//!
//! A tenant's tests write there as they like, so nothing here follows a link, holds more than two directories open or
//! calls itself: a tree may be as deep as a disk.
//!
//! Two siblings of the directory belong to it. `cache.used` is locked by each run for as long as it lasts, and says how
//! large the caches were when they were last added up, with how much of the disk free: as long as the free space has not
//! fallen by what was left then, there is nothing to do. `cache.trash` is where a cache goes in one step, while no run is
//! there to miss it, and where all go that became another user's; what takes long happens after that.

mod go_library;
mod run_cache;

pub use go_library::GoLibrary;
pub use run_cache::{RunCache, of_run};

use crate::host::trash::{OPEN_DIR, empty, move_up, names, open_trash, sibling};
use proctor_core::bounds::PATH_BYTES_MAX;
use proctor_sandbox::{lack, unless_lacking};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, ResolveFlags, Statx, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The bound of the caches of a tenant whose table says nothing, and of a user's own: 20 GiB.
pub const BYTES_MAX: u64 = 20 << 30;

/// Caches are not added up again sooner, however often a tenant runs tests.
const PAUSE_MIN: Duration = Duration::from_secs(60);

/// They are added up again after this, since a neighbour that frees space hides what a tenant takes.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// No further run adds to caches that are beyond so many times their bound. They are tidied only when no run is on, and runs
/// that overlap, each within its own limit of disk, could go on like that for ever.
const OVERFULL: u64 = 2;

/// Most bytes of names of directories that are still to be added up.
const PENDING_BYTES_MAX: usize = 64 << 20;

/// Most workspaces of one tenant that have caches, so that agents who make a clone for each task leave no more directories.
const WORKSPACES_MAX: usize = 4_096;

/// Most files with several names that are known by number, so that they count once.
const LINKED_MAX: usize = 1 << 20;

/// A run waits for its lock in this many steps and then goes on without: caches that are taken out are only renamed.
const LOCK_TRIES: u32 = 10;

/// One step of that wait.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Held by a run for as long as it lasts: no cache goes in between. `None` when there is no cache directory, or somebody
/// else held the lock for a second.
#[must_use]
pub fn in_use(cache: &Path) -> Option<File> {
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

/// Whether the caches below `cache` were last seen far beyond `bytes_max`, and a run uses them: the end of the last one tidies
/// them, so no further one should begin before that.
#[must_use]
pub fn are_overfull(cache: &Path, bytes_max: u64) -> bool {
    let seen = || Seen::read(&mut open_used(cache).ok()?);
    let overfull = || seen().is_some_and(|seen| seen.bytes > bytes_max.saturating_mul(OVERFULL));
    cache.is_dir() && overfull() && is_in_use(cache).unwrap_or(false)
}

fn is_in_use(cache: &Path) -> io::Result<bool> {
    match open_used(cache)?.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether it is time to [`tidy`] the caches below `cache`: what the last time found is long ago, or no longer holds.
#[must_use]
pub fn is_untidy(cache: &Path, bytes_max: u64) -> bool {
    // What goes wrong here goes wrong for who tidies, too, and is told there.
    cache.is_dir() && open_used(cache).and_then(|mut used| is_due(&mut used, cache, bytes_max)).unwrap_or(true)
}

fn is_due(used: &mut File, cache: &Path, bytes_max: u64) -> io::Result<bool> {
    let Some(seen) = Seen::read(used) else { return Ok(true) };
    // What was seen to be too much was in use then: it goes as soon as it is not.
    Ok(seen.is_due(free_bytes(cache)?, bytes_max) || (seen.bytes > bytes_max && !is_in_use(cache)?))
}

/// Brings the caches below `cache` within `bytes_max` if they may be beyond it and no run uses them. After a run, never
/// before one, and not on a tokio thread: it reads and removes whole trees.
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

/// What went.
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
    // Caches of runs with empty ones, and what a supervisor that was killed has left.
    empty(&trash)?;
    let mut used = open_used(cache)?;
    if !is_due(&mut used, cache, bytes_max)? {
        return Ok(Tidied::default());
    }
    let dir = openat(CWD, cache, OPEN_DIR, Mode::empty())?;
    let mut caches = add_up(&dir)?;
    let mut tidied = Tidied::default();
    if !is_within(&caches, bytes_max) || caches.iter().any(|cache| cache.is_left_over) {
        let lock = open_used(cache)?;
        match lock.try_lock() {
            Ok(()) => tidied = take_out(&dir, &trash, condemned(&mut caches, bytes_max))?,
            // The end of the run that lasts longest is another chance.
            Err(TryLockError::WouldBlock) => {
                tracing::info!(cache = %cache.display(), total = total(&caches), "caches are too large and in use")
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        drop(lock);
        empty(&trash)?;
    }
    Seen::write(&mut used, total(&caches), free_bytes(cache)?)?;
    Ok(tidied)
}

/// Only its owner can open it, since whoever can may lock it; and it is never a link or a FIFO that somebody put there.
fn open_used(cache: &Path) -> io::Result<File> {
    let safely = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(safely);
    let used = options.open(sibling(cache, ".used"))?;
    if used.metadata()?.is_file() { Ok(used) } else { Err(io::Error::other("not a regular file")) }
}

fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statfs(dir)?;
    Ok(stat.f_bfree.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0)))
}

/// What was seen the last time, and how long ago that was.
#[derive(Debug, Clone, Copy)]
struct Seen {
    bytes: u64,
    free: u64,
    age: Duration,
}

impl Seen {
    fn is_due(self, free_now: u64, bytes_max: u64) -> bool {
        let left = bytes_max.saturating_sub(self.bytes);
        let may_be_beyond = left == 0 || self.free.saturating_sub(free_now) >= left;
        self.age >= PAUSE_MAX || (self.age >= PAUSE_MIN && may_be_beyond)
    }

    /// `None` when nothing was seen yet, or is not understood.
    fn read(used: &mut File) -> Option<Seen> {
        let mut text = String::new();
        Read::take(&mut *used, 64).read_to_string(&mut text).ok()?;
        let (bytes, free) = text.trim().split_once(' ')?;
        let written = used.metadata().and_then(|metadata| metadata.modified()).ok()?;
        // A clock that was set back makes it look new for ever; then it is old.
        let age = SystemTime::now().duration_since(written).unwrap_or(PAUSE_MAX);
        Some(Seen { bytes: bytes.parse().ok()?, free: free.parse().ok()?, age })
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
    /// Whether it is neither a workspace's nor Go's library.
    is_left_over: bool,
    /// `u64::MAX` for one that cannot be added up.
    bytes: u64,
    /// When a run last used it, seconds of the epoch.
    used: i64,
}

/// Takes out those that have to go: what is left over, each that is too large by itself, then the longest unused until the
/// rest is within its bounds.
fn condemned(caches: &mut Vec<Cache>, bytes_max: u64) -> Vec<Cache> {
    caches.sort_by_key(|cache| (!cache.is_left_over, cache.bytes <= bytes_max, cache.used));
    let left_over = caches.iter().filter(|cache| cache.is_left_over).count();
    // A sum that is beyond all numbers cannot be taken from, so it is made anew.
    let gone = (left_over..caches.len()).find(|gone| is_within(&caches[*gone..], bytes_max)).unwrap_or(caches.len());
    caches.drain(..gone).collect()
}

fn is_within(caches: &[Cache], bytes_max: u64) -> bool {
    caches.len() <= WORKSPACES_MAX && total(caches) <= bytes_max
}

fn total(caches: &[Cache]) -> u64 {
    caches.iter().fold(0, |sum, cache| sum.saturating_add(cache.bytes))
}

fn take_out(dir: &OwnedFd, trash: &File, condemned: Vec<Cache>) -> io::Result<Tidied> {
    let mut tidied = Tidied::default();
    let mut number = 0;
    for Cache { name, bytes, .. } in condemned {
        move_up(dir, &name, trash, &mut number)?;
        tidied.bytes = tidied.bytes.saturating_add(bytes);
        tidied.removed.push(name);
    }
    Ok(tidied)
}

fn add_up(dir: &OwnedFd) -> io::Result<Vec<Cache>> {
    let mut linked = HashSet::new();
    names(dir)?.filter_map(|name| cache(dir, name, &mut linked).transpose()).collect()
}

/// The cache `name` of `dir`; `None` when it is gone. It fails where the host was short of something: what was not seen is not
/// too large.
fn cache(dir: &OwnedFd, name: CString, linked: &mut HashSet<u64>) -> io::Result<Option<Cache>> {
    let Some(top) = look_at(dir, &name)? else { return Ok(None) };
    let is_left_over = !run_cache::is_of_workspace(&name) && !go_library::is_name(&name);
    let mut cache = Cache { bytes: bytes(&top), used: used(&top), name, is_left_over };
    let mut pending = if is_dir(&top) { vec![cache.name.as_bytes().to_vec()] } else { Vec::new() };
    let mut pending_bytes = cache.name.as_bytes().len();
    while let Some(path) = pending.pop() {
        pending_bytes -= path.len();
        let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let mut entries = match openat2(dir, path.as_slice(), OPEN_DIR, Mode::empty(), below).and_then(Dir::new) {
            Ok(entries) => entries,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN) => continue,
            Err(error) if lack(&error.into()).is_some() => return Err(error.into()),
            Err(_) => return Ok(Some(Cache { bytes: u64::MAX, ..cache })),
        };
        while let Some(entry) = entries.read() {
            let Some(entry) = unless_lacking(entry)? else { break };
            if [c".", c".."].contains(&entry.file_name()) {
                continue;
            }
            let Some(found) = look_at(entries.fd()?, entry.file_name())? else { continue };
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

/// What is there; `None` where it is gone or cannot be looked at.
fn look_at(dir: impl AsFd, name: &CStr) -> io::Result<Option<Statx>> {
    let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    unless_lacking(statx(dir, name, at, StatxFlags::BASIC_STATS))
}

/// When a run last used a cache: proctor sets the directory's time of change. Runs can set it too, and one that is to come says
/// nothing.
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
    // Blocks are of 512 bytes, whatever the file system's own are.
    found.stx_blocks.saturating_mul(512)
}

#[cfg(test)]
mod tests;
