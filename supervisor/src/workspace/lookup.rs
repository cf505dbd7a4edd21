//! Look-ups of files and directories, as the kernel answers them: by a path that leads through no link, or by one that does
//! not lead out of a directory; from its memory alone, or from wherever the answer is. Must not know what a workspace is, nor
//! what a refusal means.

use proctor_core::timestamp::Timestamp;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, makedev, openat2, statx};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How far a look-up goes for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// As far as what the kernel has in its memory: the answer is there at once, on any thread. A refusal says nothing about the
    /// path but that another look has to tell.
    Memory,
    /// As far as the disk or another host, which may take any time: for a thread that may wait.
    Disk,
}

/// How often a look-up is tried anew that something was renamed under. One that loses each time is refused.
const TRIES: usize = 16;

/// What is asked of a file or directory.
const ASKED: StatxFlags =
    StatxFlags::TYPE.union(StatxFlags::UID).union(StatxFlags::INO).union(StatxFlags::MTIME).union(StatxFlags::CTIME);

/// A file or directory as it is now.
pub(super) struct Seen {
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// Its user.
    pub(super) owner: u32,
    pub(super) kind: FileType,
    /// When it was changed: the change time counts beside the modification time, because only the kernel can set it.
    pub(super) changed_at: Timestamp,
}

impl Reach {
    /// The directory at `path`, through no link.
    pub(super) fn straight_to(self, path: &Path) -> Result<OwnedFd, Errno> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A kernel before 5.12 does not know the flag and refuses it, which is a refusal like any other.
        let cached = if self == Reach::Memory { ResolveFlags::CACHED } else { ResolveFlags::empty() };
        openat2(CWD, path, how, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | cached)
    }

    /// What is open there.
    pub(super) fn seen(self, file: &OwnedFd) -> Result<Seen, Errno> {
        let how = match self {
            Reach::Memory => AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
            Reach::Disk => AtFlags::EMPTY_PATH,
        };
        let found = statx(file, c"", how, ASKED)?;
        // What a network file system would have to ask for is left out.
        let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(ASKED);
        if self == Reach::Memory && !is_known { Err(Errno::AGAIN) } else { Ok(Seen::of(&found)) }
    }
}

/// `path` below `dir`, by no way that leads out of it, wherever the answer is.
pub(super) fn beneath(dir: &OwnedFd, path: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
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

impl Seen {
    fn of(found: &Statx) -> Seen {
        let ms = |seconds: i64, nanos: u32| {
            let ms = seconds.saturating_mul(1_000).saturating_add(i64::from(nanos / 1_000_000));
            u64::try_from(ms).unwrap_or(0)
        };
        let (modified, changed) = (found.stx_mtime, found.stx_ctime);
        Seen {
            identity: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            owner: found.stx_uid,
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            changed_at: Timestamp(ms(modified.tv_sec, modified.tv_nsec).max(ms(changed.tv_sec, changed.tv_nsec))),
        }
    }
}
