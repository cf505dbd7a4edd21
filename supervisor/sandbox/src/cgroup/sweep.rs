//! The end of the groups that killed supervisors left behind: leaves, groups of tenants, the supervisor's own. Must not touch
//! a group that proctor did not make, or one whose maker may be alive.

use super::Places;
use super::group::{groups_in, kill, try_remove};
use super::name::Maker;
use super::v1::CONTROLLERS;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a sweep waits. Most of the time there is nothing to do. A restart right after a crash meets the runs of the dead
/// supervisor while they die, which takes milliseconds, and longer on a host with much to do.
const SWEEP_WAIT: Duration = Duration::from_secs(5);

/// Pause between two attempts at the groups that are still in use.
const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// Mode of a group that a sweep has waited for in vain: the sticky bit, which means nothing else on a group. Later sweeps, of
/// other processes too, try it once and do not wait: a process that the kernel cannot end may stay until the host restarts.
const GIVEN_UP: u32 = 0o1755;

/// Kills and removes what dead supervisors left in the own groups. What cannot be removed stays for the next sweep.
///
/// Everything that is alive in a group of a dead maker is the maker's: only proctor puts processes there. The maker is
/// told by the group's name (`name`), and must be dead for certain. Groups of makers in other pid namespaces are left
/// alone, since nothing here tells whether those live; a container's go with the container's own group.
pub(crate) fn sweep(places: &Places) {
    sweep_within(places, SWEEP_WAIT);
}

pub(super) fn sweep_within(places: &Places, wait: Duration) {
    let until = Instant::now() + wait;
    let left = leftovers(places);
    // v2 comes first, where killing is one step and reaches what is in the other groups too.
    left.iter().for_each(|group| kill(group));
    let (given_up, mut left): (Vec<PathBuf>, Vec<PathBuf>) = left.into_iter().partition(|group| is_given_up(group));
    for group in given_up {
        is_in_use(&group);
    }
    loop {
        // Before the look at the clock: who has stood still meanwhile tries once all the same.
        left.retain(|group| is_in_use(group));
        if left.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
    for group in left {
        // A help only: without it the next sweep waits again.
        let marked = fs::set_permissions(&group, Permissions::from_mode(GIVEN_UP));
        let group = group.display();
        tracing::warn!(%group, ?marked, "a group of a dead supervisor cannot be removed: something in it does not die");
    }
}

/// How many groups of dead supervisors there are that a sweep has given up.
pub(crate) fn given_up(places: &Places) -> usize {
    leftovers(places).iter().filter(|group| is_given_up(group)).count()
}

fn is_given_up(group: &Path) -> bool {
    fs::symlink_metadata(group).is_ok_and(|found| found.permissions().mode() & 0o7777 == GIVEN_UP)
}

/// The groups of dead makers, in every place where groups are made; v2 first.
fn leftovers(places: &Places) -> Vec<PathBuf> {
    // Co-mounted controllers have the same own group.
    let v1: BTreeSet<&PathBuf> = CONTROLLERS.iter().filter_map(|name| places.v1.get(*name)).collect();
    let groups = places.v2.iter().chain(v1).flat_map(|own| groups_in(own));
    groups.filter(|group| maker(group).is_some_and(|maker| maker.has_ended(places.maker))).collect()
}

fn maker(group: &Path) -> Option<Maker> {
    Maker::of(group.file_name()?.to_str()?)
}

/// Tries to remove `group`; tells whether another attempt may help.
fn is_in_use(group: &Path) -> bool {
    match try_remove(group) {
        Ok(()) => tracing::info!(group = %group.display(), "removed a group of a dead supervisor"),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return true,
        Err(error) => tracing::debug!(group = %group.display(), %error, "a group of a dead supervisor stays"),
    }
    false
}
