//! The processes of a run, for those that look at what it takes, and who of those has it frozen: it goes on when the last of
//! them lets it. Must not know what they look at.

use crate::cgroup::Leaf;
use crate::disk::{Subject, processes_below};
use std::cell::Cell;
use std::rc::Rc;

/// A watcher that freezes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Disk = 1,
    KernelMemory = 2,
    Writes = 4,
}

/// The watchers that have a run frozen: the sum of their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holders(Rc<Cell<u8>>);

impl Holders {
    fn add(&self, holder: Holder) {
        self.0.set(self.0.get() | holder as u8);
    }

    /// Whether nobody is left.
    fn remove(&self, holder: Holder) -> bool {
        self.0.set(self.0.get() & !(holder as u8));
        self.0.get() == 0
    }
}

/// The processes of one run, as one of its watchers has them.
pub(crate) struct Processes<'a> {
    pub(crate) init: u32,
    pub(crate) leaf: Option<&'a dyn Leaf>,
    pub(crate) holder: Holder,
    pub(crate) holders: Holders,
}

impl Subject for Processes<'_> {
    fn pids(&self) -> Vec<u32> {
        processes_below(self.init)
    }

    fn freeze(&self, frozen: bool) -> bool {
        let Some(leaf) = self.leaf else { return false };
        if !frozen {
            return !self.holders.remove(self.holder) || leaf.freeze(false);
        }
        let is_done = leaf.freeze(true);
        if is_done {
            self.holders.add(self.holder);
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
    fn a_run_goes_on_when_the_last_of_its_watchers_lets_it() {
        let holders = Holders::default();
        holders.add(Holder::Writes);
        holders.add(Holder::Disk);
        holders.add(Holder::Disk);
        assert!(!holders.clone().remove(Holder::Disk), "its writes hold it");
        assert!(!holders.remove(Holder::KernelMemory));
        assert!(holders.remove(Holder::Writes));
    }
}
