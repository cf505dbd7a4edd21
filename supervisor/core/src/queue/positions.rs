//! Queue positions of waiting runs, reported when they change.

use super::{FairQueue, Ticket};
use crate::bounds::POSITION_MAX;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The new position of a waiting run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionChange {
    /// The run.
    pub ticket: Ticket,
    /// Number of runs that start before it, see [`FairQueue::position_changes`].
    pub position: u32,
}

impl FairQueue {
    /// The waiting runs whose position differs from the last reported one. The position is the number of runs that
    /// start before, from 0, assuming that no run arrives or is withdrawn, one runs at a time, and each takes its
    /// tenant's expected duration. It is capped at [`POSITION_MAX`], which stands for that or more; a new run without a
    /// report has that position.
    #[must_use]
    pub fn position_changes(&mut self) -> Vec<PositionChange> {
        let positions: BTreeMap<Ticket, u32> =
            (0..).zip(self.order()).map(|(position, ticket)| (ticket, position)).collect();
        let reported = std::mem::replace(&mut self.reported, positions);
        let changed = self.reported.iter().filter(|(ticket, position)| reported.get(ticket) != Some(position));
        let fell_back =
            reported.keys().filter(|ticket| !self.reported.contains_key(ticket) && self.waiting.contains_key(ticket));
        changed
            .map(|(ticket, position)| (ticket, *position))
            .chain(fell_back.map(|ticket| (ticket, POSITION_MAX)))
            .map(|(ticket, position)| PositionChange { ticket: *ticket, position })
            .collect()
    }

    // WaitingRun runs in the order of virtual time alone, at most `POSITION_MAX`.
    fn order(&self) -> impl Iterator<Item = Ticket> {
        let mut orders: Vec<_> = self.tenants.iter().map(|tenant| tenant.queue.order()).collect();
        let mut next_run = move |index: usize, virtual_time| {
            let (ticket, waiting) = orders[index].next()?;
            Some(Reverse((virtual_time, ticket, index, waiting.demand.dominant_share(self.budget))))
        };
        let begin = self.system_virtual_time();
        let mut heads: BinaryHeap<_> = (0..)
            .zip(&self.tenants)
            .filter_map(|(index, tenant)| {
                // A tenant that waits for room in its own quota starts to compete where the others are.
                let least = if tenant.key.is_some() { 0 } else { begin };
                next_run(index, tenant.virtual_time.max(least))
            })
            .collect();
        std::iter::from_fn(move || {
            let Reverse((virtual_time, ticket, index, share)) = heads.pop()?;
            let tenant = &self.tenants[index];
            heads.extend(next_run(index, virtual_time.saturating_add(tenant.charge(share, tenant.expected_ms))));
            Some(ticket)
        })
        .take(POSITION_MAX as usize)
    }
}
