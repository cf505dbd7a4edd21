//! The end of the groups that killed supervisors left behind: leaves, groups of tenants, the supervisor's own. Must not touch
//! a group that proctor did not make, or one whose maker may be alive.

use super::Places;
use super::group::{groups_in, kill, try_remove};
use super::name::Maker;
use super::v1::CONTROLLERS;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a sweep waits. Most of the time there is nothing to do. A restart right after a crash meets the runs of the dead
/// supervisor while they die, which takes milliseconds, and longer on a host with much to do.
const SWEEP_WAIT: Duration = Duration::from_secs(5);

/// Pause between two attempts at the groups that are still in use.
const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// Kills and removes what dead supervisors left in the own groups. What cannot be removed stays for the next sweep.
///
/// Everything that is alive in a group of a dead maker is the maker's: only proctor puts processes there. The maker is
/// told by the group's name (`name`), and must be dead for certain. Groups of makers in other pid namespaces are left
/// alone, since nothing here tells whether those live; a container's go with the container's own group.
pub(crate) fn sweep(places: &Places) {
    let until = Instant::now() + SWEEP_WAIT;
    let mut left = leftovers(places);
    // v2 comes first, where killing is one step and reaches what is in the other groups too.
    left.iter().for_each(|group| kill(group));
    loop {
        // Before the look at the clock: who has stood still meanwhile tries once all the same.
        left.retain(|group| is_in_use(group));
        if left.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
    for group in left {
        tracing::debug!(group = %group.display(), "a group of a dead supervisor is still in use");
    }
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
