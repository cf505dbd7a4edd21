//! Path look-ups by the kernel: without following links, or confined to a directory; from the kernel's cache alone, or
//! from disk.

use proctor_core::timestamp::Timestamp;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, fstat, makedev, openat2, statx,
};
use rustix::io::Errno;
use rustix::path::Arg;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// How far a look-up may go for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupMode {
    /// Only the kernel's cache: never blocks, so it is for any thread. A failure means nothing but that a blocking
    /// look-up is needed.
    Cached,
    /// Disk or network, which may take any time: for a thread that may block.
    Blocking,
}

/// Tries of a look-up that races with renames. A look-up that loses each time fails.
const TRIES: usize = 16;

/// Metadata that a look-up returns.
const STAT_FIELDS: StatxFlags =
    StatxFlags::TYPE.union(StatxFlags::UID).union(StatxFlags::INO).union(StatxFlags::MTIME).union(StatxFlags::CTIME);

/// Metadata of a file or directory.
pub(super) struct FileStat {
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// UID of the owner.
    pub(super) owner: u32,
    pub(super) kind: FileType,
    /// The later of modification and change time: only the kernel can set the change time.
    pub(super) changed_at: Timestamp,
}

impl LookupMode {
    /// Opens the directory at `path` without following links.
    pub(super) fn open_dir(self, path: &Path) -> Result<OwnedFd, Errno> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A kernel before 5.12 rejects the flag, which is a failure like any other.
        let cached = if self == LookupMode::Cached { ResolveFlags::CACHED } else { ResolveFlags::empty() };
        openat2(CWD, path, how, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | cached)
    }

    /// Metadata of an open file.
    pub(super) fn stat(self, file: &OwnedFd) -> Result<FileStat, Errno> {
        let how = match self {
            LookupMode::Cached => AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
            LookupMode::Blocking => AtFlags::EMPTY_PATH,
        };
        let found = statx(file, c"", how, STAT_FIELDS)?;
        // The kernel omits fields that a network file system would have to fetch.
        let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(STAT_FIELDS);
        if self == LookupMode::Cached && !is_known { Err(Errno::AGAIN) } else { Ok(FileStat::from_statx(&found)) }
    }
}

/// Opens `path` inside `dir`; may block. Fails on any step that leads out of `dir`.
pub(super) fn open_beneath(dir: &OwnedFd, path: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut found = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        found = openat2(dir, path, how | OFlags::CLOEXEC, Mode::empty(), resolve);
        // Something was renamed while a `..` was resolved.
        if !matches!(found, Err(Errno::AGAIN)) {
            break;
        }
    }
    found
}

/// Opens `path` below `dir` without following links; never blocks on a FIFO.
pub(crate) fn open_without_links(dir: impl AsFd, path: impl Arg, how: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel refuses the flags together with PATH, which opens nothing that could block.
    let waits_for_nothing =
        if how.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    openat2(dir, path, how | waits_for_nothing | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Opens the regular file at `path` below `dir` without following links; `None` if there is none.
pub(crate) fn open_regular(dir: impl AsFd, path: impl Arg) -> Result<Option<File>, Errno> {
    match open_without_links(dir, path, OFlags::RDONLY) {
        Ok(file) if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile => {
            Ok(Some(File::from(file)))
        }
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(error),
    }
}

impl FileStat {
    fn from_statx(found: &Statx) -> FileStat {
        let ms = |seconds: i64, nanos: u32| {
            let ms = seconds.saturating_mul(1_000).saturating_add(i64::from(nanos / 1_000_000));
            u64::try_from(ms).unwrap_or(0)
        };
        let (modified, changed) = (found.stx_mtime, found.stx_ctime);
        FileStat {
            identity: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            owner: found.stx_uid,
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            changed_at: Timestamp(ms(modified.tv_sec, modified.tv_nsec).max(ms(changed.tv_sec, changed.tv_nsec))),
        }
    }
}
