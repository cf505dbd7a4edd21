//! The waiting runs of one tenant, in the order in which they start: by priority, then by arrival. Must not know other
//! tenants, room or time.

use super::{Priority, Ticket, Waiting};
use std::collections::{BTreeMap, btree_map};

/// How many runs of higher priority may start in a row before a waiting run of a lower one. Eight runs are a team's worth,
/// and a nightly job that gets every ninth or tenth turn still ends.
pub const PASSED_OVER_MAX: u32 = 8;

const CLASSES: usize = Priority::ALL.len();

/// Waiting runs by class, the highest priority first. Bounded by the queue that holds it.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    classes: [BTreeMap<Ticket, Waiting>; CLASSES],
    turns: Turns,
}

/// How often each class has been passed over since a run of it started.
#[derive(Debug, Clone, Copy, Default)]
struct Turns([u32; CLASSES]);

impl Turns {
    // The lowest class that has been passed over often enough, else the highest in which something waits.
    fn next(self, waits: [bool; CLASSES]) -> Option<usize> {
        let due = (0..CLASSES).rev().find(|&class| waits[class] && self.0[class] >= PASSED_OVER_MAX);
        due.or_else(|| (0..CLASSES).find(|&class| waits[class]))
    }

    // `waits` after the start of a run of `class`.
    fn started(&mut self, class: usize, waits: [bool; CLASSES]) {
        self.0[class] = 0;
        for (passed, waits) in self.0.iter_mut().zip(waits).skip(class + 1) {
            *passed = if waits { *passed + 1 } else { 0 };
        }
    }
}

impl Backlog {
    pub(super) fn push(&mut self, ticket: Ticket, priority: Priority, waiting: Waiting) {
        self.classes[priority as usize].insert(ticket, waiting);
    }

    /// The run that starts next.
    pub(super) fn first(&self) -> Option<(Ticket, &Waiting)> {
        let class = self.turns.next(self.waits())?;
        self.classes[class].first_key_value().map(|(ticket, waiting)| (*ticket, waiting))
    }

    /// Takes the run that starts next, because it starts.
    pub(super) fn start_first(&mut self) -> Option<(Ticket, Waiting)> {
        let class = self.turns.next(self.waits())?;
        let first = self.classes[class].pop_first()?;
        self.turns.started(class, self.waits());
        Some(first)
    }

    /// Takes a run that will not start.
    pub(super) fn remove(&mut self, ticket: Ticket, priority: Priority) -> Option<Waiting> {
        self.classes[priority as usize].remove(&ticket)
    }

    /// All runs, in the order in which they start if nothing else arrives.
    pub(super) fn order(&self) -> Order<'_> {
        Order { classes: self.classes.each_ref().map(|class| class.iter().peekable()), turns: self.turns }
    }

    fn waits(&self) -> [bool; CLASSES] {
        self.classes.each_ref().map(|class| !class.is_empty())
    }
}

/// See [`Backlog::order`].
pub(super) struct Order<'a> {
    classes: [std::iter::Peekable<btree_map::Iter<'a, Ticket, Waiting>>; CLASSES],
    turns: Turns,
}

impl<'a> Iterator for Order<'a> {
    type Item = (Ticket, &'a Waiting);

    fn next(&mut self) -> Option<Self::Item> {
        let class = self.turns.next(self.classes.each_mut().map(|class| class.peek().is_some()))?;
        let (ticket, waiting) = self.classes[class].next()?;
        self.turns.started(class, self.classes.each_mut().map(|class| class.peek().is_some()));
        Some((*ticket, waiting))
    }
}
