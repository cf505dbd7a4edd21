//! The processes of a run as its monitors see them. Several monitors can freeze a run; it thaws when the last one
//! releases it.

use crate::cgroup::Leaf;
use crate::disk::{MonitoredRun, descendants};
use std::cell::Cell;
use std::rc::Rc;

/// A monitor that freezes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreezeOwner {
    Disk = 1,
    KernelMemory = 2,
    Writes = 4,
}

/// Monitors that have a run frozen: a bit set.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreezeOwners(Rc<Cell<u8>>);

impl FreezeOwners {
    fn add(&self, owner: FreezeOwner) {
        self.0.set(self.0.get() | owner as u8);
    }

    /// Returns whether no owner is left.
    fn remove(&self, owner: FreezeOwner) -> bool {
        self.0.set(self.0.get() & !(owner as u8));
        self.0.get() == 0
    }
}

/// Processes of one run, for one of its monitors.
pub(crate) struct RunProcesses<'a> {
    pub(crate) init: u32,
    pub(crate) leaf: Option<&'a dyn Leaf>,
    pub(crate) owner: FreezeOwner,
    pub(crate) owners: FreezeOwners,
}

impl MonitoredRun for RunProcesses<'_> {
    fn pids(&self) -> Vec<u32> {
        descendants(self.init)
    }

    fn freeze(&self, frozen: bool) -> bool {
        let Some(leaf) = self.leaf else { return false };
        if !frozen {
            return !self.owners.remove(self.owner) || leaf.freeze(false);
        }
        let is_done = leaf.freeze(true);
        if is_done {
            self.owners.add(self.owner);
        }
        is_done
    }

    fn is_frozen(&self) -> bool {
        self.leaf.is_some_and(Leaf::is_frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_thaws_when_its_last_freeze_owner_releases_it() {
        let owners = FreezeOwners::default();
        owners.add(FreezeOwner::Writes);
        owners.add(FreezeOwner::Disk);
        owners.add(FreezeOwner::Disk);
        assert!(!owners.clone().remove(FreezeOwner::Disk), "the owner of writes still holds it");
        assert!(!owners.remove(FreezeOwner::KernelMemory));
        assert!(owners.remove(FreezeOwner::Writes));
    }
}
