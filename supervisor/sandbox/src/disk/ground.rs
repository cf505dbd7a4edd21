//! What a run can grow on: the trees that it may write to, and the free space of the file systems below them. Must not
//! know who took what is missing.

use super::used::Use;
use rustix::fs::{CWD, Mode, OFlags, StatFs, fstat, fstatfs, openat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::OwnedFd;
use std::path::Path;

/// An instant of the clock that file systems stamp with: seconds and nanoseconds.
pub(super) type Stamp = (i64, i64);

/// What the run can grow on.
#[derive(Debug)]
pub(super) struct Ground {
    /// When the run began.
    pub(super) since: Stamp,
    pub(super) volumes: Vec<Volume>,
    pub(super) roots: Vec<Root>,
}

/// A file system below the workspace or the writable paths.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) device: (u32, u32),
    /// The first of [`Ground::roots`] on it.
    root: usize,
    pub(super) free_at_start: Use,
}

/// The workspace or a writable path.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) dir: OwnedFd,
    /// Its place in [`Ground::volumes`].
    pub(super) volume: usize,
}

impl Ground {
    /// Nothing yet, from now on.
    pub(super) fn now() -> Ground {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Ground { since: (now.tv_sec, now.tv_nsec), volumes: Vec::new(), roots: Vec::new() }
    }

    /// A further tree. Fails where the file system does not tell how much of it is free.
    pub(super) fn add(&mut self, dir: OwnedFd) -> Result<(), Errno> {
        let device = fstat(&dir)?.st_dev;
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        let known = self.volumes.iter().position(|volume| volume.device == device);
        let volume = match known {
            Some(volume) => volume,
            None => {
                let stat = fstatfs(&dir)?;
                if stat.f_blocks == 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                self.volumes.push(Volume { device, root: self.roots.len(), free_at_start: free(&stat) });
                self.volumes.len() - 1
            }
        };
        self.roots.push(Root { dir, volume });
        Ok(())
    }

    /// What is missing of each file system's free space since the start, and whether one has nothing left.
    pub(super) fn missing(&self) -> (Vec<Use>, bool) {
        let mut is_full = false;
        let missing = |volume: &Volume| {
            let Ok(stat) = fstatfs(&self.roots[volume.root].dir) else { return Use::default() };
            is_full |= stat.f_bavail == 0 || (stat.f_files > 0 && stat.f_ffree == 0);
            volume.free_at_start.each(free(&stat), u64::saturating_sub)
        };
        (self.volumes.iter().map(missing).collect(), is_full)
    }
}

/// A writable path; `None` for one that is not there, since it is not visible inside either.
pub(super) fn open(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn free(stat: &StatFs) -> Use {
    Use {
        bytes: stat.f_bfree.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0)),
        // A file system that makes inodes as it needs them says 0, and its files are bounded by their bytes.
        inodes: if stat.f_files == 0 { 0 } else { stat.f_ffree },
    }
}
