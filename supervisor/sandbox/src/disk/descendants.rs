//! Lists the descendants of a process.

use std::fs;

/// Most listed processes. Without a bound, a run that forks meanwhile would keep the listing going.
const PROCESSES_MAX: usize = 65_536;

/// Pids of all descendants of `pid`. They include all processes of a run, since orphans are adopted by the run's init.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(pid) = next.pop().filter(|_| found.len() < PROCESSES_MAX) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            next.extend(children.clone());
            found.extend(children);
        }
    }
    found
}
