//! State of one tenant in the queue: usage, waiting runs, and virtual time.

use super::tenant_queue::TenantQueue;
use super::{CompetingKey, EXPECTED_MS_FIRST};
use crate::bounds::RESERVE_AFTER_MS;
use crate::quota::{Amount, Quota, WHOLE_SHARE};

/// Host time over weight, in units of 2^-48 ms of the whole budget: a share has 32 binary places, and 16 more keep the
/// remainder of the division by a large weight. 128 bits outlast any host.
pub(super) type VirtualTime = u128;

#[derive(Debug)]
pub(super) struct TenantState {
    pub(super) quota: Quota,
    pub(super) queue: TenantQueue,
    pub(super) running: u32,
    pub(super) in_use: Amount,
    pub(super) virtual_time: VirtualTime,
    /// Least virtual time since the tenant last started to compete; never more than `virtual_time`.
    pub(super) floor: VirtualTime,
    /// Expected duration of the next run, in milliseconds: the moving average of the tenant's durations.
    pub(super) expected_ms: u64,
    /// CompetingKey among the competing tenants; `None` while it does not compete.
    pub(super) key: Option<CompetingKey>,
}

impl TenantState {
    /// A tenant without runs, with virtual time `begin`.
    pub(super) fn new(quota: Quota, begin: VirtualTime) -> TenantState {
        TenantState {
            quota,
            queue: TenantQueue::default(),
            running: 0,
            in_use: Amount::default(),
            virtual_time: begin,
            floor: 0,
            expected_ms: EXPECTED_MS_FIRST,
            key: None,
        }
    }

    /// Whether the tenant has no waiting and no running run.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.queue.first().is_none()
    }

    pub(super) fn quota_allows(&self, demand: Amount) -> bool {
        self.running < self.quota.running_runs_max && self.in_use.plus(demand).fits(self.quota.in_use_max)
    }

    /// Virtual time for `share` of the budget over `ms`. Never zero, so that every start moves the tenant back.
    pub(super) fn charge(&self, share: u64, ms: u64) -> VirtualTime {
        let host_time = u128::from(share) * u128::from(ms);
        (host_time.saturating_mul(1 << 16) / u128::from(self.quota.weight.get())).max(1)
    }

    /// How far ahead of this tenant a tenant may be that passes its first run: the charge for the first run, plus the
    /// whole host for [`RESERVE_AFTER_MS`], so that short runs do not drain the host one by one.
    pub(super) fn lead(&self, share: u64) -> VirtualTime {
        self.charge(share, self.expected_ms).saturating_add(self.charge(WHOLE_SHARE, RESERVE_AFTER_MS))
    }

    pub(super) fn begin_to_compete(&mut self, floor: VirtualTime) {
        self.floor = floor;
        self.virtual_time = self.virtual_time.max(floor);
    }

    /// Replaces the charge for `charged_ms` by the charge for `took_ms`, both by the current weight. A refund for time
    /// before the tenant last started to compete is no credit.
    pub(super) fn correct_charge(&mut self, share: u64, charged_ms: u64, took_ms: u64) {
        let (charged, took) = (self.charge(share, charged_ms), self.charge(share, took_ms));
        self.virtual_time = self.virtual_time.saturating_add(took).saturating_sub(charged).max(self.floor);
    }

    /// Updates the moving average. A duration counts for an eighth, so that the average follows a change within a dozen
    /// runs.
    pub(super) fn record_duration(&mut self, took_ms: u64) {
        self.expected_ms = (self.expected_ms.saturating_mul(7) / 8).saturating_add(took_ms.div_ceil(8));
    }
}
