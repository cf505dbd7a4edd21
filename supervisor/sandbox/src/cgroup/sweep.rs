//! Removes the groups that killed supervisors left behind: leaves, groups of tenants, the supervisor's own. Never
//! touches a group that proctor did not make, or one whose supervisor may be alive.

use super::group::{groups_in, kill, try_remove};
use super::group_name::SupervisorId;
use super::hierarchy::Hierarchies;
use super::v1::CONTROLLERS;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a sweep waits. Normally there is nothing to do. After a crash, a restart finds the runs of the dead
/// supervisor while they die, which takes milliseconds, and longer on a busy host.
const SWEEP_WAIT: Duration = Duration::from_secs(5);

/// Pause between two attempts at the groups that are still in use.
const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// Mode of a group that a sweep has abandoned: the sticky bit, which has no other meaning on a group. Later sweeps,
/// also of other processes, try it once and do not wait: a process that the kernel cannot end may stay until the host
/// restarts.
const ABANDONED_MODE: u32 = 0o1755;

/// Kills and removes what dead supervisors left in the own groups. What cannot be removed stays for the next sweep.
///
/// Every process in a group of a dead supervisor belongs to it: only proctor puts processes there. The supervisor is
/// identified by the group's name (`group_name`) and must certainly be dead. Groups of supervisors in other pid
/// namespaces are left alone, since this process cannot tell whether those are alive; a container's groups are removed
/// with the container's own group.
pub(crate) fn sweep(hierarchies: &Hierarchies) {
    sweep_within(hierarchies, SWEEP_WAIT);
}

pub(super) fn sweep_within(hierarchies: &Hierarchies, wait: Duration) {
    let until = Instant::now() + wait;
    let leftovers = find_leftovers(hierarchies);
    // v2 comes first, where killing is one step and reaches the processes in the other groups too.
    leftovers.iter().for_each(|group| kill(group));
    let (count_abandoned, mut leftovers): (Vec<PathBuf>, Vec<PathBuf>) =
        leftovers.into_iter().partition(|group| is_abandoned(group));
    for group in count_abandoned {
        try_remove_leftover(&group);
    }
    loop {
        // Before the clock is read, so that a thread that was not scheduled for a while still tries once.
        leftovers.retain(|group| try_remove_leftover(group));
        if leftovers.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
    for group in leftovers {
        // Best effort: without the mark the next sweep waits again.
        let marked = fs::set_permissions(&group, Permissions::from_mode(ABANDONED_MODE));
        let group = group.display();
        tracing::warn!(%group, ?marked, "a group of a dead supervisor cannot be removed: something in it does not die");
    }
}

/// Number of groups of dead supervisors that a sweep has abandoned.
pub(crate) fn count_abandoned(hierarchies: &Hierarchies) -> usize {
    find_leftovers(hierarchies).iter().filter(|group| is_abandoned(group)).count()
}

fn is_abandoned(group: &Path) -> bool {
    fs::symlink_metadata(group).is_ok_and(|found| found.permissions().mode() & 0o7777 == ABANDONED_MODE)
}

/// Groups of dead supervisors in all hierarchies; v2 first.
fn find_leftovers(hierarchies: &Hierarchies) -> Vec<PathBuf> {
    // Co-mounted controllers have the same own group.
    let v1: BTreeSet<&PathBuf> = CONTROLLERS.iter().filter_map(|name| hierarchies.v1.get(*name)).collect();
    let groups = hierarchies.v2.iter().chain(v1).flat_map(|own| groups_in(own));
    groups
        .filter(|group| supervisor(group).is_some_and(|supervisor| supervisor.has_ended(hierarchies.supervisor)))
        .collect()
}

fn supervisor(group: &Path) -> Option<SupervisorId> {
    SupervisorId::from_group_name(group.file_name()?.to_str()?)
}

/// Tries to remove `group`; returns whether another attempt may help.
fn try_remove_leftover(group: &Path) -> bool {
    match try_remove(group) {
        Ok(()) => tracing::info!(group = %group.display(), "removed a group of a dead supervisor"),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return true,
        Err(error) => tracing::debug!(group = %group.display(), %error, "a group of a dead supervisor stays"),
    }
    false
}
