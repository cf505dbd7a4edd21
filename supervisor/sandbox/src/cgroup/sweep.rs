//! Removal of the groups that killed supervisors left behind: their runs die with them, their cgroups do not. Must not
//! touch a group that proctor did not make, one with processes in it, or one whose maker may be alive.

use super::name::{Maker, maker, own_namespace};
use super::v1::{CONTROLLERS, NESTING_MAX, try_remove_group};
use super::{Mode, Places};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a sweep may take. Most of the time there is nothing to do. A restart right after a crash meets the runs of
/// the dead supervisor while they die, which takes milliseconds.
const SWEEP_WAIT: Duration = Duration::from_secs(1);

/// Pause between two attempts at the groups that are still in use.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// Removes what dead supervisors left in the own groups. What cannot be removed stays for the next sweep.
///
/// Only empty groups can be removed, so nothing is killed. But a living supervisor's leaf is empty for two moments:
/// before its worker is put in, and after the run, while its counters are read. So the maker must have ended. That is
/// certain, since the name holds the pid and the namespace of that pid: a pid of this namespace that no process has is
/// that of a dead maker, and a dead maker never comes back to its leaf. A pid that is in use again keeps the leaf until
/// a later sweep. Leaves of other pid namespaces are left alone, since nothing here tells whether their makers live; a
/// container's go with the container's own group.
pub(crate) fn sweep(places: &Places) {
    let Some(namespace) = own_namespace() else { return };
    let until = Instant::now() + SWEEP_WAIT;
    let mut left = leftovers(places, namespace);
    while !left.is_empty() && Instant::now() < until {
        left.retain(|group| Instant::now() >= until || is_in_use(group));
        if !left.is_empty() {
            std::thread::sleep(SWEEP_PAUSE);
        }
    }
    for group in left {
        tracing::debug!(group = %group.display(), "a group of a dead supervisor is still in use");
    }
}

/// The leaves of dead makers, in every place where leaves are made.
fn leftovers(places: &Places, namespace: u64) -> Vec<PathBuf> {
    if !matches!(places.mode, Mode::V1 | Mode::Hybrid) {
        return Vec::new();
    }
    // Co-mounted controllers have the same own group.
    let owns: BTreeSet<&PathBuf> =
        CONTROLLERS.iter().filter_map(|name| places.v1.get(*name)).chain(&places.v2).collect();
    let entries = owns.into_iter().flat_map(|own| fs::read_dir(own).into_iter().flatten().flatten());
    entries
        .filter(|entry| {
            let maker = entry.file_name().to_str().and_then(maker);
            maker.is_some_and(|maker| maker.namespace == namespace && has_ended(maker))
        })
        .map(|entry| entry.path())
        .collect()
}

/// Asks the kernel and not `/proc`, which may hide the processes of others.
fn has_ended(maker: Maker) -> bool {
    match pidfd_open(maker.pid, PidfdFlags::empty()) {
        // Readable when all threads have ended, also while nobody has reaped it.
        Ok(process) => {
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|readable| readable > 0)
        }
        Err(error) => error == Errno::SRCH,
    }
}

/// Tries to remove `group`; tells whether another attempt may help.
fn is_in_use(group: &Path) -> bool {
    match try_remove_group(group, NESTING_MAX) {
        Ok(()) => tracing::info!(group = %group.display(), "removed a group of a dead supervisor"),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return true,
        Err(error) => tracing::debug!(group = %group.display(), %error, "a group of a dead supervisor stays"),
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Larger than any pid that the kernel gives out.
    const NO_PID: i32 = i32::MAX;

    #[test]
    fn only_leaves_of_ended_makers_of_this_namespace_go() {
        let own = tempfile::tempdir().unwrap();
        let namespace = own_namespace().unwrap();
        let leaf = |pid: i32, namespace: u64| format!("proctor-{pid}-{namespace:08x}0123456789abcdef");
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let gone = leaf(NO_PID, namespace);
        let mut stay =
            [leaf(me, namespace), leaf(1, namespace), leaf(NO_PID, namespace ^ 1), format!("{gone}.service")];
        for name in stay.iter().chain([&gone]) {
            fs::create_dir(own.path().join(name)).unwrap();
        }
        let v1 = BTreeMap::from([("memory".to_owned(), own.path().to_owned())]);
        sweep(&Places { mode: Mode::V1, v1, v2: None });
        let mut left: Vec<String> =
            fs::read_dir(own.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort_unstable();
        stay.sort_unstable();
        assert_eq!(left, stay);
    }
}
