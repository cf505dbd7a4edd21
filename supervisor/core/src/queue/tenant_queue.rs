//! The waiting runs of one tenant in start order: by priority, then by arrival.

use super::{Priority, Ticket, WaitingRun};
use crate::bounds::PASSED_OVER_MAX;
use std::collections::{BTreeMap, btree_map};

const CLASSES: usize = Priority::ALL.len();

/// Waiting runs by priority class, the highest first. The host's queue bounds their number.
#[derive(Debug, Default)]
pub(super) struct TenantQueue {
    classes: [BTreeMap<Ticket, WaitingRun>; CLASSES],
    pass_counts: PassCounts,
}

/// How often each class has been passed over since one of its runs started.
#[derive(Debug, Clone, Copy, Default)]
struct PassCounts([u32; CLASSES]);

impl PassCounts {
    // The lowest class that has been passed over often enough, else the highest class with a waiting run.
    fn next(self, occupied: [bool; CLASSES]) -> Option<usize> {
        let due = (0..CLASSES).rev().find(|&class| occupied[class] && self.0[class] >= PASSED_OVER_MAX);
        due.or_else(|| (0..CLASSES).find(|&class| occupied[class]))
    }

    // Records a start of a run of `class`; `occupied` are the classes with waiting runs after the start.
    fn record_start(&mut self, class: usize, occupied: [bool; CLASSES]) {
        self.0[class] = 0;
        for (passed, occupied) in self.0.iter_mut().zip(occupied).skip(class + 1) {
            *passed = if occupied { *passed + 1 } else { 0 };
        }
    }
}

impl TenantQueue {
    pub(super) fn push(&mut self, ticket: Ticket, priority: Priority, waiting: WaitingRun) {
        self.classes[priority as usize].insert(ticket, waiting);
    }

    /// The run that starts next.
    pub(super) fn first(&self) -> Option<(Ticket, &WaitingRun)> {
        let class = self.pass_counts.next(self.occupied())?;
        self.classes[class].first_key_value().map(|(ticket, waiting)| (*ticket, waiting))
    }

    /// Removes and returns the run that starts next.
    pub(super) fn start_first(&mut self) -> Option<(Ticket, WaitingRun)> {
        let class = self.pass_counts.next(self.occupied())?;
        let first = self.classes[class].pop_first()?;
        self.pass_counts.record_start(class, self.occupied());
        Some(first)
    }

    /// Removes a run that will not start.
    pub(super) fn remove(&mut self, ticket: Ticket, priority: Priority) -> Option<WaitingRun> {
        self.classes[priority as usize].remove(&ticket)
    }

    /// All runs in start order, if no other run arrives.
    pub(super) fn order(&self) -> StartOrder<'_> {
        StartOrder {
            classes: self.classes.each_ref().map(|class| class.iter().peekable()),
            pass_counts: self.pass_counts,
        }
    }

    fn occupied(&self) -> [bool; CLASSES] {
        self.classes.each_ref().map(|class| !class.is_empty())
    }
}

/// See [`TenantQueue::order`].
pub(super) struct StartOrder<'a> {
    classes: [std::iter::Peekable<btree_map::Iter<'a, Ticket, WaitingRun>>; CLASSES],
    pass_counts: PassCounts,
}

impl<'a> Iterator for StartOrder<'a> {
    type Item = (Ticket, &'a WaitingRun);

    fn next(&mut self) -> Option<Self::Item> {
        let class = self.pass_counts.next(self.classes.each_mut().map(|class| class.peek().is_some()))?;
        let (ticket, waiting) = self.classes[class].next()?;
        self.pass_counts.record_start(class, self.classes.each_mut().map(|class| class.peek().is_some()));
        Some((*ticket, waiting))
    }
}
