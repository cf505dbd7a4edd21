//! The state at the start of a run: the trees that it may write to, and the free space of their file systems.

use super::usage::DiskUsage;
use rustix::fs::{CWD, Mode, OFlags, StatFs, fstat, fstatfs, openat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A time of the clock that file systems stamp with: seconds and nanoseconds.
pub(super) type Timestamp = (i64, i64);

/// The trees of a run and their file systems at its start.
#[derive(Debug)]
pub(super) struct Baseline {
    /// Start of the run.
    pub(super) since: Timestamp,
    pub(super) volumes: Vec<Volume>,
    pub(super) roots: Vec<Root>,
}

/// A file system that holds the workspace or a writable path.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) device: (u32, u32),
    /// Index in [`Baseline::roots`] of the first root on it.
    root: usize,
    pub(super) free_at_start: DiskUsage,
}

/// The workspace or a writable path.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) dir: OwnedFd,
    /// Index in [`Baseline::volumes`] of its file system.
    pub(super) volume: usize,
}

impl Baseline {
    /// A baseline without trees, as of now.
    pub(super) fn new() -> Baseline {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Baseline { since: (now.tv_sec, now.tv_nsec), volumes: Vec::new(), roots: Vec::new() }
    }

    /// Adds a tree. Fails if its file system does not report its free space.
    pub(super) fn add(&mut self, dir: OwnedFd) -> Result<(), Errno> {
        let device = fstat(&dir)?.st_dev;
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        let existing = self.volumes.iter().position(|volume| volume.device == device);
        let volume = match existing {
            Some(volume) => volume,
            None => {
                let stat = fstatfs(&dir)?;
                if stat.f_blocks == 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                self.volumes.push(Volume { device, root: self.roots.len(), free_at_start: free_usage(&stat) });
                self.volumes.len() - 1
            }
        };
        self.roots.push(Root { dir, volume });
        Ok(())
    }

    /// Decrease of each file system's free space since the start, and whether one is full.
    pub(super) fn missing(&self) -> (Vec<DiskUsage>, bool) {
        let mut is_full = false;
        let missing = |volume: &Volume| {
            let Ok(stat) = fstatfs(&self.roots[volume.root].dir) else { return DiskUsage::default() };
            is_full |= stat.f_bavail == 0 || (stat.f_files > 0 && stat.f_ffree == 0);
            volume.free_at_start.zip_with(free_usage(&stat), u64::saturating_sub)
        };
        (self.volumes.iter().map(missing).collect(), is_full)
    }
}

/// Opens a writable path; `None` if it does not exist, since it is not visible inside either.
pub(super) fn open(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn free_usage(stat: &StatFs) -> DiskUsage {
    DiskUsage {
        bytes: stat.f_bfree.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0)),
        // A file system that allocates inodes on demand reports 0, and its bytes limit its files.
        inodes: if stat.f_files == 0 { 0 } else { stat.f_ffree },
    }
}
