//! Limits how fast a group writes to the host's disks: lists the disks, and writes the limit of each in the files of
//! one hierarchy.
//!
//! In v2 the limit covers all writes, since the kernel knows whose page it writes back. In v1 it covers what a process
//! waits for (fsync, O_SYNC, O_DIRECT); `buffered_writes` limits what the kernel writes back later.

use super::group::{self, GroupError};
use rustix::fs::{major, minor, stat, statfs};
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Most disks that a run is limited on. One file is written for each before every run.
const DISKS_MAX: usize = 16;

/// File systems without a disk (`linux/magic.h`).
const MEMORY_FILE_SYSTEMS: [libc::c_long; 2] = [0x0102_1994, 0x8584_58f6];

/// Prefixes in `/sys/block` that are not disks: memory, files, drives for removable media.
const NOT_DISKS: [&str; 5] = ["ram", "zram", "loop", "sr", "fd"];

/// A whole disk by its device numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockDevice {
    major: u32,
    minor: u32,
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl BlockDevice {
    fn parse(numbers: &str) -> Option<BlockDevice> {
        let (major, minor) = numbers.trim().split_once(':')?;
        Some(BlockDevice { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// The disks that hold `paths`. For a file system that does not name its disk (btrfs, overlayfs), all disks of the
/// host.
pub(crate) fn block_devices_of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<BlockDevice> {
    let (mut devices, mut found) = (HashSet::new(), Vec::new());
    for path in paths {
        // A missing path cannot be written.
        let Ok(at) = stat(path) else { continue };
        if !devices.insert(at.st_dev) {
            continue;
        }
        match whole_disk(major(at.st_dev), minor(at.st_dev)) {
            Some(disk) => found.push(disk),
            None if statfs(path).is_ok_and(|stat| MEMORY_FILE_SYSTEMS.contains(&stat.f_type)) => {}
            None => found.extend(all_block_devices()),
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(DISKS_MAX);
    found
}

/// The disk of a partition, or the disk itself.
fn whole_disk(major: u32, minor: u32) -> Option<BlockDevice> {
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let device =
        if device.join("partition").exists() { device.canonicalize().ok()?.parent()?.to_owned() } else { device };
    BlockDevice::parse(&fs::read_to_string(device.join("dev")).ok()?)
}

/// The disks of this host.
pub(crate) fn all_block_devices() -> Vec<BlockDevice> {
    let is_disk = |name: &str| !NOT_DISKS.iter().any(|none| name.starts_with(none));
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let disks = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_disk)).filter_map(|entry| {
        let has_medium = fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0");
        BlockDevice::parse(&fs::read_to_string(entry.path().join("dev")).ok()?).filter(|_| has_medium)
    });
    disks.take(DISKS_MAX).collect()
}

/// The file of one kind of hierarchy that limits writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteThrottle {
    V1,
    V2,
}

impl WriteThrottle {
    fn file(self) -> &'static str {
        match self {
            WriteThrottle::V1 => "blkio.throttle.write_bps_device",
            WriteThrottle::V2 => "io.max",
        }
    }

    fn line(self, disk: BlockDevice, bytes_per_s: Option<u64>) -> String {
        match (self, bytes_per_s) {
            (WriteThrottle::V1, max) => format!("{disk} {}", max.unwrap_or(0)),
            (WriteThrottle::V2, Some(max)) => format!("{disk} wbps={max}"),
            (WriteThrottle::V2, None) => format!("{disk} wbps=max"),
        }
    }

    /// Limits the writes of the group `dir` to each of `disks` and returns the limit that read back.
    pub(super) fn set(self, dir: &Path, disks: &[BlockDevice], bytes_per_s: u64) -> Result<u64, GroupError> {
        let file = self.file();
        for &disk in disks {
            let text = group::set(dir, file, &self.line(disk, Some(bytes_per_s)))?;
            if !self.contains(&text, disk, bytes_per_s) {
                return Err(format!("{file} does not read back the limit of a disk").into());
            }
        }
        Ok(bytes_per_s)
    }

    /// Lifts the limit, so that delayed writes of the group `dir` are done at once.
    pub(super) fn lift_throttles(self, dir: &Path, disks: &[BlockDevice]) {
        for &disk in disks {
            // Best effort: otherwise they are done in their turn.
            let _lifted = group::write(dir, self.file(), &self.line(disk, None));
        }
    }

    /// Whether `text`, the content of the file, has that limit.
    fn contains(self, text: &str, disk: BlockDevice, bytes_per_s: u64) -> bool {
        let (name, expected) = (disk.to_string(), self.line(disk, Some(bytes_per_s)));
        let value = expected.split(' ').nth(1);
        let line = text
            .lines()
            .map(str::split_ascii_whitespace)
            .find_map(|mut words| (words.next() == Some(name.as_str())).then_some(words));
        line.is_some_and(|mut words| words.any(|word| Some(word) == value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_limit_back_from_both_formats() {
        let disk = BlockDevice { major: 254, minor: 0 };
        let v2 = "259:1 rbps=max wbps=7 riops=max wiops=max\n254:0 rbps=max wbps=1048576 riops=max wiops=max\n";
        assert!(WriteThrottle::V2.contains(v2, disk, 1 << 20) && !WriteThrottle::V2.contains(v2, disk, 7));
        assert!(WriteThrottle::V1.contains("8:0 5\n254:0 1048576\n", disk, 1 << 20));
        assert!(!WriteThrottle::V1.contains("8:0 1048576\n254:16 1048576\n", disk, 1 << 20));
    }

    #[test]
    fn finds_no_disk_for_file_systems_in_memory() {
        assert_eq!(block_devices_of([Path::new("/dev/shm"), Path::new("/not/there")]), []);
        assert!(all_block_devices().len() <= DISKS_MAX);
    }
}
