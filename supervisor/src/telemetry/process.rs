//! Figures of the supervisor's own process, from `/proc/self`.

use rustix::process::{Resource, getrlimit};
use std::fs;

/// Processor time, memory, descriptors and threads of this process. A figure that cannot be read is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ProcessFigures {
    pub(super) cpu_s: f64,
    pub(super) resident_bytes: u64,
    pub(super) threads: u64,
    pub(super) fds: u64,
    pub(super) fds_max: u64,
}

impl ProcessFigures {
    /// The figures now.
    pub(super) fn read() -> ProcessFigures {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fds = fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count() as u64);
        let fds_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        ProcessFigures { fds, fds_max, ..parse_stat(&stat) }
    }
}

// `man 5 proc_pid_stat`: the name, in parentheses, may hold anything, and the fields are counted after it.
fn parse_stat(stat: &str) -> ProcessFigures {
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let (user, system, threads, pages) = (number(11), number(12), number(17), number(21));
    let ticks = u32::try_from(user.saturating_add(system)).unwrap_or(u32::MAX);
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100).max(1);
    ProcessFigures {
        cpu_s: f64::from(ticks) / f64::from(per_second),
        resident_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
        threads,
        ..ProcessFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_fields_after_a_hostile_name() {
        let stat =
            "7 (a) b (c) S 1 7 7 0 -1 4194304 1 0 0 0 250 150 0 0 20 0 9 0 100 4096000 1000 18446744073709551615";
        let figures = parse_stat(stat);
        assert_eq!((figures.cpu_s, figures.threads), (4.0, 9));
        assert_eq!(figures.resident_bytes, 1_000 * rustix::param::page_size() as u64);
        assert_eq!(parse_stat("nonsense"), ProcessFigures::default());
    }

    #[test]
    fn this_process_has_threads_memory_and_descriptors() {
        let figures = ProcessFigures::read();
        assert!(figures.threads > 0 && figures.resident_bytes > 0 && figures.fds > 2 && figures.fds_max > 2);
    }
}
