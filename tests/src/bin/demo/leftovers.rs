//! Finds what a supervisor has left on this host: processes, cgroups, mounts and files.

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Wait for the kernel to release processes that have just died.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Deepest level below the cgroup root that is searched.
const GROUP_DEPTH_MAX: u32 = 8;

/// Makes this process adopt descendants that lose their parent, so that [`processes`] sees all of them.
pub(crate) fn adopt_orphans() -> Result<()> {
    nix::sys::prctl::set_child_subreaper(true).context("becoming the parent of orphans")
}

/// Whether any descendant of this process exists, running or zombie.
pub(crate) fn processes() -> Result<bool> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        // WNOWAIT inspects a dead child without reaping it: an unreaped zombie counts as left behind.
        match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT) {
            Err(Errno::ECHILD) => return Ok(false),
            Err(error) => return Err(error).context("looking for children"),
            Ok(_) if Instant::now() > deadline => return Ok(true),
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Cgroups made by the supervisor with this pid.
pub(crate) fn groups(supervisor: u32) -> Vec<PathBuf> {
    groups_below(Path::new("/sys/fs/cgroup"), &format!("proctor-{supervisor}-"), GROUP_DEPTH_MAX)
}

fn groups_below(dir: &Path, prefix: &str, depth: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            } else if depth > 0 {
                found.extend(groups_below(&entry.path(), prefix, depth - 1));
            }
        }
    }
    found
}

/// Mount points in this mount namespace that a run could have made: below the private `/tmp/proctor` or a directory of the
/// demo. Other mounts may come and go on a busy host.
pub(crate) fn mounts() -> Result<BTreeSet<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("reading the mount table")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(points.filter(|point| point.contains("proctor")).map(str::to_owned).collect())
}

/// Every file and directory below `dir`.
pub(crate) fn files(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        }
        found.insert(entry.path());
    }
    Ok(found)
}
