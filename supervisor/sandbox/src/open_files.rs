//! Monitors open files on a host that allows few of them: `RLIMIT_NOFILE` limits a process, and nothing in the kernel
//! limits all processes of a run together.
//!
//! Checked in two steps. As long as half of the host's files are free, no run is in anybody's way. Beyond that, a run
//! with a quarter of all files is the cause.

use crate::disk::MonitoredRun;
use crate::layer_plan;
use std::fs;
use std::path::Path;

/// Files allocated on the host, free ones among them, and the most there can be.
const FILE_NR: &str = "/proc/sys/fs/file-nr";

/// Monitor of one run's open files.
#[derive(Debug)]
pub(crate) struct OpenFileMonitor {
    /// Whether all processes of the run together could open more than half of the host's files.
    is_enabled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostFileCount {
    open: u64,
    max: u64,
}

impl HostFileCount {
    fn read() -> Option<HostFileCount> {
        HostFileCount::parse(&fs::read_to_string(FILE_NR).ok()?)
    }

    fn parse(numbers: &str) -> Option<HostFileCount> {
        let mut numbers = numbers.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
        let (open, _free, max) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(HostFileCount { open, max })
    }

    /// Whether a run of `pids_max` processes could open more than half of all files.
    fn is_small_for(self, pids_max: u32) -> bool {
        layer_plan::files_max(pids_max, self.max).saturating_mul(pids_max.into()) > self.max / 2
    }

    /// Why the run is to be killed: it is the cause of the host having few files left.
    fn check_run(self, run: &dyn MonitoredRun) -> Option<String> {
        let HostFileCount { open, max } = self;
        if open <= max / 2 {
            return None;
        }
        let mut run_files: u64 = 0;
        for pid in run.pids() {
            run_files += descriptor_count(Path::new(&format!("/proc/{pid}/fd")));
            if run_files > max / 4 {
                return Some(format!(
                    "the run was ended for the host's open files: it had at least {run_files} of the {max} that there can be \
                     (sysctl fs.file-max), and more than half of those were open"
                ));
            }
        }
        None
    }
}

/// Number of descriptors in `dir`, a process's `fd` directory: its size since Linux 6.2. 0 for a process that is gone.
fn descriptor_count(dir: &Path) -> u64 {
    match fs::metadata(dir).map_or(0, |dir| dir.len()) {
        0 => fs::read_dir(dir).map_or(0, |entries| u64::try_from(entries.count()).unwrap_or(u64::MAX)),
        size => size,
    }
}

impl OpenFileMonitor {
    /// Monitor for a run of `pids_max` processes.
    pub(crate) fn new(pids_max: u32) -> OpenFileMonitor {
        OpenFileMonitor { is_enabled: HostFileCount::read().is_some_and(|host| host.is_small_for(pids_max)) }
    }

    /// Why the run is to be killed; `None` if it is not.
    pub(crate) fn check(&self, run: &dyn MonitoredRun) -> Option<String> {
        if !self.is_enabled {
            return None;
        }
        HostFileCount::read()?.check_run(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::FakeRun;

    #[test]
    fn blames_a_run_with_a_quarter_of_all_files_once_half_are_open() {
        let files: Vec<fs::File> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let is_blamed = |open, max| HostFileCount { open, max }.check_run(&FakeRun::own()).is_some();
        assert!(is_blamed(201, 400));
        assert!(!is_blamed(200, 400), "half is left");
        assert!(!is_blamed(100_000, 100_000), "other processes have them");
        drop(files);
    }

    #[test]
    fn monitors_only_a_host_with_few_files() {
        let is_small = |max, pids_max| HostFileCount { open: 0, max }.is_small_for(pids_max);
        assert!(is_small(50_000, 512) && is_small(2_466_174, 512));
        assert!(!is_small(u64::MAX / 2, 512) && !is_small(9_000_000, 512) && !is_small(50_000, 4));
        assert_eq!(HostFileCount::parse("1184\t0\t50000\n"), Some(HostFileCount { open: 1_184, max: 50_000 }));
        assert!(HostFileCount::read().is_some());
    }
}
