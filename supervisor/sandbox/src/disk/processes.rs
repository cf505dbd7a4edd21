//! Who runs below a process. Must not know what they are asked for.

use std::fs;

/// Most processes that are asked for their files. A run that forks while it is looked at would keep the look going.
const PROCESSES_MAX: usize = 65_536;

/// The processes below `pid`, itself left out. All of a run are below its worker, since orphans go to the run's init.
pub(crate) fn processes_below(pid: u32) -> Vec<u32> {
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
