//! Open files on a host that has few of them: `RLIMIT_NOFILE` bounds a process, and nothing in the kernel all those of a run.
//! Must not kill anything.
//!
//! Looked at in two steps. As long as the host has half of its files left, no run is in anybody's way. Beyond that a run that
//! has a quarter of all is the cause.

use crate::disk::Subject;
use crate::plan;
use std::fs;
use std::path::Path;

/// How many files are open on the host, how many of those are free again, and how many there can be.
const OF_HOST: &str = "/proc/sys/fs/file-nr";

/// The eye on one run's open files.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    /// Whether all processes of the run together could have more than half of what the host has.
    is_watched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host {
    open: u64,
    max: u64,
}

impl Host {
    fn read() -> Option<Host> {
        Host::parse(&fs::read_to_string(OF_HOST).ok()?)
    }

    fn parse(numbers: &str) -> Option<Host> {
        let mut numbers = numbers.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
        let (open, _free, max) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(Host { open, max })
    }

    /// Whether a run of `pids_max` processes could have more than half of all.
    fn is_small_for(self, pids_max: u32) -> bool {
        plan::files_max(pids_max, self.max).saturating_mul(pids_max.into()) > self.max / 2
    }

    /// Why a run is to be ended that is the cause of the host having so few left.
    fn blame(self, run: &dyn Subject) -> Option<String> {
        let Host { open, max } = self;
        if open <= max / 2 {
            return None;
        }
        let mut of_run: u64 = 0;
        for pid in run.pids() {
            of_run += descriptors(Path::new(&format!("/proc/{pid}/fd")));
            if of_run > max / 4 {
                return Some(format!(
                    "the run was ended for the host's open files: it had at least {of_run} of the {max} that there can be \
                     (sysctl fs.file-max), and more than half of those were open"
                ));
            }
        }
        None
    }
}

/// How many descriptors are in `dir`, a process's own: its size since Linux 6.2. One that is gone has none.
fn descriptors(dir: &Path) -> u64 {
    match fs::metadata(dir).map_or(0, |dir| dir.len()) {
        0 => fs::read_dir(dir).map_or(0, |entries| u64::try_from(entries.count()).unwrap_or(u64::MAX)),
        size => size,
    }
}

impl OpenFiles {
    /// For a run of `pids_max` processes.
    pub(crate) fn new(pids_max: u32) -> OpenFiles {
        OpenFiles { is_watched: Host::read().is_some_and(|host| host.is_small_for(pids_max)) }
    }

    /// Why the run is to be ended, if it is.
    pub(crate) fn look(&self, run: &dyn Subject) -> Option<String> {
        if !self.is_watched {
            return None;
        }
        Host::read()?.blame(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Freezable;

    #[test]
    fn who_has_a_quarter_of_what_a_host_has_is_to_blame_once_half_is_open() {
        let held: Vec<fs::File> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let blamed = |open, max| Host { open, max }.blame(&Freezable::own()).is_some();
        assert!(blamed(201, 400));
        assert!(!blamed(200, 400), "half is left");
        assert!(!blamed(100_000, 100_000), "somebody else has them");
        drop(held);
    }

    #[test]
    fn only_a_host_with_few_files_is_looked_at() {
        let small = |max, pids_max| Host { open: 0, max }.is_small_for(pids_max);
        assert!(small(50_000, 512) && small(2_466_174, 512));
        assert!(!small(u64::MAX / 2, 512) && !small(9_000_000, 512) && !small(50_000, 4));
        assert_eq!(Host::parse("1184\t0\t50000\n"), Some(Host { open: 1_184, max: 50_000 }));
        assert!(Host::read().is_some());
    }
}
