//! What the queue keeps of one tenant: what it has in use and how much of the host it has had, its virtual time. Must not
//! know other tenants.

use super::backlog::Backlog;
use super::{EXPECTED_MS_FIRST, Key, RESERVE_AFTER_MS};
use crate::quota::{Amount, Quota, WHOLE_SHARE};

/// Host time over weight, in units of 2^-48 ms of the whole budget: a share has 32 binary places, and 16 more keep what the
/// division by a large weight leaves. 128 bits hold it for longer than a host lasts.
pub(super) type VirtualTime = u128;

#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) quota: Quota,
    pub(super) backlog: Backlog,
    pub(super) running: u32,
    pub(super) in_use: Amount,
    pub(super) virtual_time: VirtualTime,
    /// Where it was allowed to begin when it last began to compete, and never more than its virtual time.
    pub(super) floor: VirtualTime,
    /// How long its next run is expected to take, in milliseconds: the moving average of its runs' durations.
    pub(super) expected_ms: u64,
    /// Its place among the competing tenants.
    pub(super) key: Option<Key>,
}

impl Tenant {
    /// One that has nothing here, and begins no sooner than `begin`.
    pub(super) fn new(quota: Quota, begin: VirtualTime) -> Tenant {
        Tenant {
            quota,
            backlog: Backlog::default(),
            running: 0,
            in_use: Amount::default(),
            virtual_time: begin,
            floor: 0,
            expected_ms: EXPECTED_MS_FIRST,
            key: None,
        }
    }

    /// Whether nothing of it waits or goes on.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.backlog.first().is_none()
    }

    pub(super) fn has_room(&self, demand: Amount) -> bool {
        self.running < self.quota.running_runs_max && self.in_use.plus(demand).fits(self.quota.in_use_max)
    }

    /// What `share` of the budget costs for `ms`. Never nothing, so that every start moves the tenant back.
    pub(super) fn charge(&self, share: u64, ms: u64) -> VirtualTime {
        let host_time = u128::from(share) * u128::from(ms);
        (host_time.saturating_mul(1 << 16) / u128::from(self.quota.weight.get())).max(1)
    }

    /// How far ahead of its first run those may be who pass it: what its start will charge, and the whole host for
    /// [`RESERVE_AFTER_MS`], so that short runs do not drain the host one by one.
    pub(super) fn lead(&self, share: u64) -> VirtualTime {
        self.charge(share, self.expected_ms).saturating_add(self.charge(WHOLE_SHARE, RESERVE_AFTER_MS))
    }

    pub(super) fn begin_to_compete(&mut self, floor: VirtualTime) {
        self.floor = floor;
        self.virtual_time = self.virtual_time.max(floor);
    }

    /// What was charged for `charged_ms` becomes what `took_ms` costs, both by the weight of now. What that gives back from
    /// before the tenant last began to compete is no credit.
    pub(super) fn correct(&mut self, share: u64, charged_ms: u64, took_ms: u64) {
        let (charged, took) = (self.charge(share, charged_ms), self.charge(share, took_ms));
        self.virtual_time = self.virtual_time.saturating_add(took).saturating_sub(charged).max(self.floor);
    }

    /// An eighth of each duration: a tenant whose runs change is followed within a dozen of them.
    pub(super) fn expect(&mut self, took_ms: u64) {
        self.expected_ms = (self.expected_ms.saturating_mul(7) / 8).saturating_add(took_ms.div_ceil(8));
    }
}
