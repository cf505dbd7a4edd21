//! The fair queue of a shared host: decides which waiting run of which tenant starts next, by weighted fair queueing
//! over memory and cpu. The edge owns one [`FairQueue`], reports arrivals and ends to it, and starts the runs that
//! [`FairQueue::advance`] returns.
//!
//! **Order.** Each tenant has a virtual time: the host time of its runs divided by its weight, where the host time of a
//! run is its dominant share of the budget times its duration. The tenant with the least virtual time comes first; ties
//! go to the run that arrived first. A start charges the expected duration (a moving average of the tenant's
//! durations), the charge of a run that takes longer doubles, and the end corrects it to the real duration. Within a
//! tenant, runs start by priority and then by arrival, and no run passes the first one.
//!
//! **Idle tenants collect no credit.** A tenant competes while it has a waiting run and its quota has room for the
//! first one. When it starts to compete, its virtual time is raised to the least one among the competing tenants.
//!
//! **Backfilling and reservation.** A run fits when its demand fits into the free budget and fewer than
//! [`HOST_RUNNING_RUNS_MAX`] runs are in progress. Smaller runs may pass a run that does not fit (backfilling) while
//! two bounds hold: the waiting run has been the first that does not fit for less than [`RESERVE_AFTER_MS`], and the
//! passing tenant's virtual time is ahead by less than the cost of the waiting run plus the cost of the whole host for
//! that period. Beyond either bound the host drains for the waiting run (a reservation). So a run starts within that
//! period plus the rest of the longest run after it becomes first, whatever its size, and no tenant loses its share
//! because its runs are large. The price is budget that stays free while the host drains: a tenth where runs are alike
//! and take up to half of the host, up to a third where short runs of the whole host alternate with small ones that
//! last for a minute.
//!
//! **Evicting idle tenants.** With [`TENANTS_MAX`] tenants in the queue, a new one replaces the idle tenant with the
//! least virtual time and starts at no less than that virtual time: no tenant gains by being evicted, and a new tenant
//! comes no later than any idle tenant that is still in the queue.
//!
//! **Cost.** An enqueue, finish or withdrawal is O(log n) in tenants and runs. `configure` visits each waiting run of
//! its tenant, and each tenant when it has to evict one. `advance` walks the competing tenants once, until one holds
//! the rest back, O(log n) for each, for each start and for each charge that is due. `position_changes` is O(tenants + P log
//! tenants) for at most P reported positions.

mod positions;
mod tenant_queue;
mod tenant_state;
#[cfg(test)]
mod tests;

pub use positions::PositionChange;

use crate::bounds::{HOST_QUEUED_RUNS_MAX, HOST_RUNNING_RUNS_MAX, RESERVE_AFTER_MS, TENANTS_MAX};
use crate::id::TenantId;
use crate::quota::{Amount, Quota, QuotaExceeded};
use crate::timestamp::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tenant_state::{TenantState, VirtualTime};

/// Expected duration of a tenant's run until its first run has ended, in milliseconds.
pub const EXPECTED_MS_FIRST: u64 = 10_000;

/// A run in the queue, waiting or running. Later arrivals have greater tickets; tickets are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Order of a tenant's own runs. It has no effect on other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// After all others, but at most [`PASSED_OVER_MAX`](crate::bounds::PASSED_OVER_MAX) of them in a row.
    Low,
}

impl Priority {
    /// All priorities, the highest first.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
}

/// A run to enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// TenantState of the run.
    pub tenant: TenantId,
    /// What the run may use; the whole demand counts as used while it runs.
    pub demand: Amount,
    /// Priority among the tenant's runs.
    pub priority: Priority,
}

/// A run that was removed from the queue because a new quota no longer allows it to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictedRun {
    /// The run.
    pub ticket: Ticket,
    /// The exceeded quota.
    pub reason: QuotaExceeded,
}

/// Order of competing tenants: virtual time, then arrival of the first run.
type CompetingKey = (VirtualTime, Ticket);

#[derive(Debug, Clone)]
struct WaitingRun {
    demand: Amount,
}

#[derive(Debug)]
struct RunningRun {
    tenant: usize,
    demand: Amount,
    /// Dominant share of the budget at its start.
    share: u64,
    since: Timestamp,
    /// Duration charged to its tenant so far, in milliseconds.
    charged_ms: u64,
}

/// The first run of a competing tenant.
#[derive(Debug)]
struct Candidate {
    tenant: usize,
    demand: Amount,
    /// See [`TenantState::lead`].
    lead: VirtualTime,
    /// When the run was first found to be the first that does not fit.
    unfit_since: Option<Timestamp>,
}

/// The queue of one host. At most [`TENANTS_MAX`] tenants, [`HOST_QUEUED_RUNS_MAX`] waiting runs, and
/// [`HOST_RUNNING_RUNS_MAX`] running ones, within the budget and the tenants' quotas.
#[derive(Debug)]
pub struct FairQueue {
    budget: Amount,
    in_use: Amount,
    tenants: Vec<TenantState>,
    /// [`TENANTS_MAX`], smaller in tests.
    tenants_max: usize,
    names: BTreeMap<TenantId, usize>,
    waiting: BTreeMap<Ticket, (usize, Priority)>,
    running: BTreeMap<Ticket, RunningRun>,
    /// When each running run exceeds its charged duration.
    overdue: BTreeSet<(Timestamp, Ticket)>,
    /// The competing tenants, in order.
    competing: BTreeMap<CompetingKey, Candidate>,
    /// Greatest virtual time at which a run has started.
    latest_start: VirtualTime,
    /// Greatest virtual time of an evicted tenant: the virtual time of new tenants.
    evicted_time_max: VirtualTime,
    /// Positions as last reported, as many as [`FairQueue::position_changes`] reports.
    reported: BTreeMap<Ticket, u32>,
    tickets: u64,
}

impl FairQueue {
    /// An empty queue over `budget`, without tenants.
    #[must_use]
    pub fn new(budget: Amount) -> Self {
        FairQueue {
            budget,
            in_use: Amount::default(),
            tenants: Vec::new(),
            tenants_max: TENANTS_MAX,
            names: BTreeMap::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            overdue: BTreeSet::new(),
            competing: BTreeMap::new(),
            latest_start: 0,
            evicted_time_max: 0,
            reported: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Adds a tenant or changes its quota, and returns the waiting runs that can no longer start. RunningRun runs
    /// continue, and waiting ones stay queued even above a new bound on their number. An unchanged quota has no effect.
    ///
    /// # Errors
    /// [`QuotaExceeded::HostTenants`], for a new tenant.
    pub fn configure(&mut self, tenant: &TenantId, quota: Quota) -> Result<Vec<EvictedRun>, QuotaExceeded> {
        if let Some(index) = self.names.get(tenant).copied() {
            if self.tenants[index].quota == quota {
                return Ok(Vec::new());
            }
            self.tenants[index].quota = quota;
            return Ok(self.evict(index));
        }
        let count = self.tenants.len();
        let index = if count < self.tenants_max { count } else { self.evict_idle_tenant()? };
        let new = TenantState::new(quota, self.evicted_time_max);
        match self.tenants.get_mut(index) {
            Some(slot) => *slot = new,
            None => self.tenants.push(new),
        }
        self.names.insert(tenant.clone(), index);
        Ok(Vec::new())
    }

    // Removes the idle tenant with the least virtual time and returns its slot.
    fn evict_idle_tenant(&mut self) -> Result<usize, QuotaExceeded> {
        let idle = self.names.iter().filter(|(_, index)| self.tenants[**index].is_idle());
        let (name, index) =
            idle.min_by_key(|(_, index)| self.tenants[**index].virtual_time).ok_or(QuotaExceeded::HostTenants)?;
        let (name, index) = (name.clone(), *index);
        self.names.remove(&name);
        self.evicted_time_max = self.evicted_time_max.max(self.tenants[index].virtual_time);
        Ok(index)
    }

    /// Enqueues a run. It starts no sooner than the next [`FairQueue::advance`]. The number of the tenant's waiting
    /// runs is not checked: see [`Quota::queued_runs_max`].
    ///
    /// # Errors
    /// The exceeded quota.
    pub fn enqueue(&mut self, entry: QueueEntry) -> Result<Ticket, QuotaExceeded> {
        let QueueEntry { tenant, demand, priority } = entry;
        let index = *self.names.get(&tenant).ok_or(QuotaExceeded::UnknownTenant)?;
        let TenantState { quota, queue, .. } = &mut self.tenants[index];
        quota.check(demand)?;
        if self.waiting.len() >= HOST_QUEUED_RUNS_MAX {
            return Err(QuotaExceeded::HostQueuedRuns);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        queue.push(ticket, priority, WaitingRun { demand });
        self.waiting.insert(ticket, (index, priority));
        self.update_competing(index);
        Ok(ticket)
    }

    /// Removes a waiting run. False when it does not wait: it has started, so that it has to be finished, or it is
    /// gone.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some((tenant, priority)) = self.waiting.remove(&ticket) else { return false };
        self.tenants[tenant].queue.remove(ticket, priority);
        self.update_competing(tenant);
        true
    }

    /// Releases the resources of a run that ended. False when it is not running.
    pub fn finish(&mut self, now: Timestamp, ticket: Ticket) -> bool {
        let Some(RunningRun { tenant: index, demand, share, since, charged_ms }) = self.running.remove(&ticket) else {
            return false;
        };
        self.overdue.remove(&(since.plus_ms(charged_ms), ticket));
        self.in_use = self.in_use.minus(demand);
        let took_ms = now.ms_since(since).max(1);
        let tenant = &mut self.tenants[index];
        tenant.running = tenant.running.saturating_sub(1);
        tenant.in_use = tenant.in_use.minus(demand);
        tenant.record_duration(took_ms);
        tenant.correct_charge(share, charged_ms, took_ms);
        self.update_competing(index);
        true
    }

    /// Starts the runs that may start now and returns them in order. To be called after every change and at
    /// [`FairQueue::next_charge_due`].
    #[must_use]
    pub fn advance(&mut self, now: Timestamp) -> Vec<Ticket> {
        self.charge_overdue(now);
        let mut started = Vec::new();
        let mut from = Bound::Unbounded;
        let mut held_back = VirtualTime::MAX;
        while let Some(key) = self.next(now, from, &mut held_back) {
            started.extend(self.start(now, key));
            // The candidates before it do not fit, and a start frees no budget.
            from = Bound::Excluded(key);
        }
        started
    }

    /// When to call [`FairQueue::advance`] without any other change: the charge of a run doubles then, and a tenant
    /// behind its owner may come first.
    #[must_use]
    pub fn next_charge_due(&self) -> Option<Timestamp> {
        self.overdue.first().map(|(due, _)| *due)
    }

    /// The tenants in the queue.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantId> {
        self.names.keys()
    }

    /// Number of waiting runs.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The sum of the demands of the running runs.
    #[must_use]
    pub fn in_use(&self) -> Amount {
        self.in_use
    }

    /// Number of running runs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    // The first candidate after `from` that fits and is not held back. `held_back` is the virtual time from which on
    // nothing starts: the least that the candidates that do not fit allow.
    fn next(&mut self, now: Timestamp, from: Bound<CompetingKey>, held_back: &mut VirtualTime) -> Option<CompetingKey> {
        let is_full = self.running.len() >= HOST_RUNNING_RUNS_MAX;
        for (key, candidate) in self.competing.range_mut((from, Bound::Unbounded)) {
            if key.0 >= *held_back {
                return None;
            }
            if !is_full && self.in_use.plus(candidate.demand).fits(self.budget) {
                return Some(*key);
            }
            if *held_back == VirtualTime::MAX {
                candidate.unfit_since.get_or_insert(now);
            }
            if candidate.unfit_since.is_some_and(|since| now.ms_since(since) >= RESERVE_AFTER_MS) {
                *held_back = 0;
            }
            *held_back = (*held_back).min(key.0.saturating_add(candidate.lead));
        }
        None
    }

    fn start(&mut self, now: Timestamp, key: CompetingKey) -> Option<Ticket> {
        let index = self.competing.get(&key)?.tenant;
        let tenant = &mut self.tenants[index];
        let (ticket, WaitingRun { demand }) = tenant.queue.start_first()?;
        self.latest_start = self.latest_start.max(tenant.virtual_time);
        let (share, charged_ms) = (demand.dominant_share(self.budget), tenant.expected_ms);
        tenant.virtual_time = tenant.virtual_time.saturating_add(tenant.charge(share, charged_ms));
        tenant.running += 1;
        tenant.in_use = tenant.in_use.plus(demand);
        self.in_use = self.in_use.plus(demand);
        self.waiting.remove(&ticket);
        self.overdue.insert((now.plus_ms(charged_ms), ticket));
        self.running.insert(ticket, RunningRun { tenant: index, demand, share, since: now, charged_ms });
        self.update_competing(index);
        Some(ticket)
    }

    // Without this, a tenant of many short runs would have its few long ones almost for free until they end.
    fn charge_overdue(&mut self, now: Timestamp) {
        while let Some(&(due, ticket)) = self.overdue.first()
            && due <= now
        {
            self.overdue.pop_first();
            let Some(run) = self.running.get_mut(&ticket) else { continue };
            let charged_ms = now.ms_since(run.since).max(run.charged_ms).saturating_mul(2);
            let tenant = &mut self.tenants[run.tenant];
            tenant.correct_charge(run.share, run.charged_ms, charged_ms);
            run.charged_ms = charged_ms;
            let (next_due, index) = (run.since.plus_ms(charged_ms), run.tenant);
            // At the end of time nothing more is charged.
            if next_due > now {
                self.overdue.insert((next_due, ticket));
            }
            self.update_competing(index);
        }
    }

    // The virtual time of a tenant that starts to compete: that of the first competing tenant, else that of the latest
    // start.
    fn system_virtual_time(&self) -> VirtualTime {
        self.competing.first_key_value().map_or(self.latest_start, |(key, _)| key.0)
    }

    // Updates the place of a tenant among the competing ones after a change to the tenant.
    fn update_competing(&mut self, index: usize) {
        let before = self.tenants[index].key.take().and_then(|key| Some((key.1, self.competing.remove(&key)?)));
        let begin = self.system_virtual_time();
        let tenant = &mut self.tenants[index];
        let Some((ticket, WaitingRun { demand })) = tenant.queue.first() else { return };
        let demand = *demand;
        if !tenant.quota_allows(demand) {
            return;
        }
        if before.is_none() {
            tenant.begin_to_compete(begin);
        }
        let lead = tenant.lead(demand.dominant_share(self.budget));
        let unfit_since = before.filter(|(first, _)| *first == ticket).and_then(|(_, before)| before.unfit_since);
        let key = (tenant.virtual_time, ticket);
        tenant.key = Some(key);
        self.competing.insert(key, Candidate { tenant: index, demand, lead, unfit_since });
    }

    fn evict(&mut self, index: usize) -> Vec<EvictedRun> {
        let TenantState { quota, queue, .. } = &mut self.tenants[index];
        let above_quota = |(ticket, waiting): (Ticket, &WaitingRun)| {
            quota.check(waiting.demand).err().map(|reason| EvictedRun { ticket, reason })
        };
        let evicted: Vec<EvictedRun> = queue.order().filter_map(above_quota).collect();
        for EvictedRun { ticket, .. } in &evicted {
            if let Some((_, priority)) = self.waiting.remove(ticket) {
                queue.remove(*ticket, priority);
            }
        }
        self.update_competing(index);
        evicted
    }
}
