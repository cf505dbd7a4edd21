//! At which position each waiting run stands, and whose has changed since it was last told. Must not know what fits.

use super::{FairQueue, Ticket};
use crate::bound::POSITION_MAX;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The new position of a waiting run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The run.
    pub ticket: Ticket,
    /// See [`FairQueue::moved`].
    pub position: u32,
}

impl FairQueue {
    /// The waiting runs whose position is not what was last told. The position is how many runs start before it, from 0, if
    /// nothing else arrives or is withdrawn, one runs at a time and each takes as long as its tenant's are expected to. It
    /// ends at [`POSITION_MAX`], which stands for that or more and is where every run begins without being told.
    #[must_use]
    pub fn moved(&mut self) -> Vec<Moved> {
        let positions: BTreeMap<Ticket, u32> =
            (0..).zip(self.order()).map(|(position, ticket)| (ticket, position)).collect();
        let told = std::mem::replace(&mut self.told, positions);
        let changed = self.told.iter().filter(|(ticket, position)| told.get(ticket) != Some(position));
        let fell_back =
            told.keys().filter(|ticket| !self.told.contains_key(ticket) && self.waiting.contains_key(ticket));
        changed
            .map(|(ticket, position)| (ticket, *position))
            .chain(fell_back.map(|ticket| (ticket, POSITION_MAX)))
            .map(|(ticket, position)| Moved { ticket: *ticket, position })
            .collect()
    }

    // Waiting runs in the order of virtual time alone, at most `POSITION_MAX`.
    fn order(&self) -> impl Iterator<Item = Ticket> {
        let mut orders: Vec<_> = self.tenants.iter().map(|tenant| tenant.backlog.order()).collect();
        let mut next_of = move |index: usize, virtual_time| {
            let (ticket, waiting) = orders[index].next()?;
            Some(Reverse((virtual_time, ticket, index, waiting.demand.dominant_share(self.budget))))
        };
        let begin = self.system_virtual_time();
        let mut heads: BinaryHeap<_> = (0..)
            .zip(&self.tenants)
            .filter_map(|(index, tenant)| {
                // Who waits for room in its own quota will begin where the others are.
                let least = if tenant.key.is_some() { 0 } else { begin };
                next_of(index, tenant.virtual_time.max(least))
            })
            .collect();
        std::iter::from_fn(move || {
            let Reverse((virtual_time, ticket, index, share)) = heads.pop()?;
            let tenant = &self.tenants[index];
            heads.extend(next_of(index, virtual_time.saturating_add(tenant.charge(share, tenant.expected_ms))));
            Some(ticket)
        })
        .take(POSITION_MAX as usize)
    }
}
