//! How fast a group writes to the host's disks: which disks there are, and the bound of each in the files of one hierarchy.
//! Must not know whose group it is.
//!
//! In v2 the bound holds for all that is written, since the kernel knows whose page it writes back. In v1 it holds for what a
//! process waits for (fsync, O_SYNC, O_DIRECT); what the kernel writes back behind it is nobody's there, and
//! `buffered_writes` watches it.

use super::group::{self, Obstacle};
use rustix::fs::{major, minor, stat, statfs};
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Most disks that a run is bounded on. A write for each is made before every run.
const DISKS_MAX: usize = 16;

/// File systems without a disk (`linux/magic.h`).
const IN_MEMORY: [libc::c_long; 2] = [0x0102_1994, 0x8584_58f6];

/// Disks of `/sys/block` that are none: memory, files, drives for media.
const NO_DISKS: [&str; 5] = ["ram", "zram", "loop", "sr", "fd"];

/// A whole disk by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Disk {
    major: u32,
    minor: u32,
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Disk {
    fn parse(numbers: &str) -> Option<Disk> {
        let (major, minor) = numbers.trim().split_once(':')?;
        Some(Disk { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// The disks that hold `paths`. Of a file system that does not say which disk it is on (btrfs, overlayfs), all of the host's.
pub(crate) fn disks_of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<Disk> {
    let (mut devices, mut found) = (HashSet::new(), Vec::new());
    for path in paths {
        // What is not there is not written.
        let Ok(at) = stat(path) else { continue };
        if !devices.insert(at.st_dev) {
            continue;
        }
        match whole(major(at.st_dev), minor(at.st_dev)) {
            Some(disk) => found.push(disk),
            None if statfs(path).is_ok_and(|of| IN_MEMORY.contains(&of.f_type)) => {}
            None => found.extend(all_disks()),
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(DISKS_MAX);
    found
}

/// The disk of a partition, or the disk itself.
fn whole(major: u32, minor: u32) -> Option<Disk> {
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let device =
        if device.join("partition").exists() { device.canonicalize().ok()?.parent()?.to_owned() } else { device };
    Disk::parse(&fs::read_to_string(device.join("dev")).ok()?)
}

/// The disks of this host.
pub(crate) fn all_disks() -> Vec<Disk> {
    let is_disk = |name: &str| !NO_DISKS.iter().any(|none| name.starts_with(none));
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let disks = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_disk)).filter_map(|entry| {
        let has_medium = fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0");
        Disk::parse(&fs::read_to_string(entry.path().join("dev")).ok()?).filter(|_| has_medium)
    });
    disks.take(DISKS_MAX).collect()
}

/// The file of one kind of hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Throttle {
    V1,
    V2,
}

impl Throttle {
    fn file(self) -> &'static str {
        match self {
            Throttle::V1 => "blkio.throttle.write_bps_device",
            Throttle::V2 => "io.max",
        }
    }

    fn line(self, disk: Disk, bytes_per_s: Option<u64>) -> String {
        match (self, bytes_per_s) {
            (Throttle::V1, max) => format!("{disk} {}", max.unwrap_or(0)),
            (Throttle::V2, Some(max)) => format!("{disk} wbps={max}"),
            (Throttle::V2, None) => format!("{disk} wbps=max"),
        }
    }

    /// Bounds what the group `dir` writes to each of `disks`.
    pub(super) fn bound(self, dir: &Path, disks: &[Disk], bytes_per_s: u64) -> Result<u64, Obstacle> {
        let file = self.file();
        for &disk in disks {
            let said = group::set(dir, file, &self.line(disk, Some(bytes_per_s)))?;
            if !self.has(&said, disk, bytes_per_s) {
                return Err(format!("{file} does not say what was written for a disk").into());
            }
        }
        Ok(bytes_per_s)
    }

    /// Lets what the group `dir` has waiting for its turn go at once.
    pub(super) fn lift(self, dir: &Path, disks: &[Disk]) {
        for &disk in disks {
            // A help only: it goes in its turn.
            let _lifted = group::write(dir, self.file(), &self.line(disk, None));
        }
    }

    /// Whether `said`, all of the file, has that bound.
    fn has(self, said: &str, disk: Disk, bytes_per_s: u64) -> bool {
        let (name, wanted) = (disk.to_string(), self.line(disk, Some(bytes_per_s)));
        let value = wanted.split(' ').nth(1);
        let line = said
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
    fn a_bound_is_read_out_of_each_kernels_format() {
        let disk = Disk { major: 254, minor: 0 };
        let v2 = "259:1 rbps=max wbps=7 riops=max wiops=max\n254:0 rbps=max wbps=1048576 riops=max wiops=max\n";
        assert!(Throttle::V2.has(v2, disk, 1 << 20) && !Throttle::V2.has(v2, disk, 7));
        assert!(Throttle::V1.has("8:0 5\n254:0 1048576\n", disk, 1 << 20));
        assert!(!Throttle::V1.has("8:0 1048576\n254:16 1048576\n", disk, 1 << 20));
    }

    #[test]
    fn what_lies_in_memory_is_on_no_disk() {
        assert_eq!(disks_of([Path::new("/dev/shm"), Path::new("/not/there")]), []);
        assert!(all_disks().len() <= DISKS_MAX);
    }
}
