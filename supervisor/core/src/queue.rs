//! Which waiting run of which tenant starts next on a shared host: weighted fair queueing over memory and cpu. The edge
//! owns one [`FairQueue`], tells it what happens, and starts what [`FairQueue::advance`] says. Must not know tasks, channels
//! or clocks, nor what a run does.
//!
//! **Order.** Each tenant has a virtual time: the host time that its runs took, a run's being its dominant share of the
//! budget times its duration, divided by the tenant's weight. The tenant with the least virtual time comes first; ties go
//! to the run that arrived first. A start charges what the run is expected to take (a moving average of its tenant's
//! durations), the charge of a run that goes on for longer doubles, and the end corrects it to what the run took. Inside a
//! tenant runs start by priority and then by arrival, and nothing of the same tenant passes the first one.
//!
//! **Idle tenants collect nothing.** A tenant competes while a run of it waits and its quota has room for the first one.
//! When it begins to, its virtual time is raised to that of the competing tenant with the least.
//!
//! **Room.** A run has room when what it demands fits into the free budget and fewer than [`HOST_RUNNING_RUNS_MAX`] go on. What does not fit into it may be passed by what does (backfilling), within two bounds, after
//! which the host drains for it (a reservation): the waiting run has been the first that does not fit for less than
//! [`RESERVE_AFTER_MS`], and the passing tenant is ahead of it by less than the waiting run and the whole host for that time
//! are worth. So a run starts within that time and the rest of the longest run while it is first, whatever its size, and no
//! tenant falls behind its part of the host because its runs are large. The price is the room that stays free while the
//! host drains: a tenth where runs are alike and take up to half of the host, up to a third where short runs of the whole
//! host alternate with small ones that last for a minute.
//!
//! **Forgetting.** Where there are [`TENANTS_MAX`] tenants, a new one takes the place of the one with the least virtual time
//! of those that have nothing here, and begins no sooner than that one would have: nobody gains by being forgotten, and who is
//! new comes no later than anybody who is still known and idle.
//!
//! **Cost.** An enqueue, finish or withdrawal is O(log n) of tenants and runs, `configure` looks at each waiting
//! run of its tenant, and for a new one beyond the bound at each tenant; `advance` walks the competing tenants once, until one holds the rest back, O(log n) for each, for
//! each start and for each charge that is due; `moved` is O(tenants + P log tenants) for at most P positions
//! told.

mod backlog;
mod positions;
mod tenant;
#[cfg(test)]
mod tests;

pub use backlog::PASSED_OVER_MAX;
pub use positions::Moved;

use crate::bound::{HOST_QUEUED_RUNS_MAX, HOST_RUNNING_RUNS_MAX, TENANTS_MAX};
use crate::id::TenantId;
use crate::quota::{Amount, Quota, QuotaExceeded};
use crate::timestamp::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tenant::{Tenant, VirtualTime};

/// How long the first run that does not fit lets others pass, in milliseconds. Test runs take seconds to minutes: room
/// that stays free costs more the more often the host drains, and who waits for a large run waits for minutes anyway.
pub const RESERVE_AFTER_MS: u64 = 30_000;

/// How long a run is expected to take while none of its tenant has ended, in milliseconds.
pub const EXPECTED_MS_FIRST: u64 = 10_000;

/// A run in the queue, waiting or running. Later arrivals have greater tickets; none is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Which of a tenant's own runs it wants first. It counts for nothing against other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Before all others.
    High,
    /// Unless said otherwise.
    #[default]
    Normal,
    /// When nothing else waits, or [`PASSED_OVER_MAX`] others have passed it.
    Low,
}

impl Priority {
    /// All priorities, the highest first.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
}

/// A run that wants its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose run it is.
    pub tenant: TenantId,
    /// What it may use, and is counted as using for as long as it runs.
    pub demand: Amount,
    /// Its place among its tenant's runs.
    pub priority: Priority,
}

/// A waiting run that can no longer start. It is no longer in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted {
    /// The run.
    pub ticket: Ticket,
    /// Why.
    pub refused: QuotaExceeded,
}

/// The order of competing tenants: virtual time, then arrival of the first run.
type Key = (VirtualTime, Ticket);

#[derive(Debug, Clone)]
struct Waiting {
    demand: Amount,
}

#[derive(Debug)]
struct Running {
    tenant: usize,
    demand: Amount,
    /// Of the budget at its start.
    share: u64,
    since: Timestamp,
    /// The duration that its tenant has been charged for, in milliseconds.
    charged_ms: u64,
}

/// The first run of a tenant that competes.
#[derive(Debug)]
struct Candidate {
    tenant: usize,
    demand: Amount,
    /// See [`Tenant::lead`].
    lead: VirtualTime,
    /// When it was first found to be the first that does not fit.
    unfit_since: Option<Timestamp>,
}

/// The queue of one host. At most [`TENANTS_MAX`] tenants, [`HOST_QUEUED_RUNS_MAX`] waiting runs, and
/// [`HOST_RUNNING_RUNS_MAX`] running ones, within the budget and the tenants' quotas.
#[derive(Debug)]
pub struct FairQueue {
    budget: Amount,
    in_use: Amount,
    tenants: Vec<Tenant>,
    /// [`TENANTS_MAX`], but in tests.
    tenants_max: usize,
    names: BTreeMap<TenantId, usize>,
    waiting: BTreeMap<Ticket, (usize, Priority)>,
    running: BTreeMap<Ticket, Running>,
    /// When each running run will have taken longer than was charged.
    overdue: BTreeSet<(Timestamp, Ticket)>,
    /// The tenants that compete, by order.
    competing: BTreeMap<Key, Candidate>,
    /// The greatest virtual time at which a run has started.
    latest_start: VirtualTime,
    /// The greatest virtual time of a tenant that was forgotten: where new ones begin.
    forgotten: VirtualTime,
    /// Positions as they were last told, as many as [`FairQueue::moved`] tells.
    told: BTreeMap<Ticket, u32>,
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
            forgotten: 0,
            told: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Adds a tenant or changes its quota, and returns the runs that can no longer start. What runs already goes on, and what
    /// waits already goes on waiting, whatever the new bounds on their numbers. What is configured already changes nothing.
    ///
    /// # Errors
    /// [`QuotaExceeded::HostTenants`], for a new tenant.
    pub fn configure(&mut self, tenant: &TenantId, quota: Quota) -> Result<Vec<Evicted>, QuotaExceeded> {
        if let Some(index) = self.names.get(tenant).copied() {
            if self.tenants[index].quota == quota {
                return Ok(Vec::new());
            }
            self.tenants[index].quota = quota;
            return Ok(self.evict(index));
        }
        let known = self.tenants.len();
        let index = if known < self.tenants_max { known } else { self.forget_one()? };
        let new = Tenant::new(quota, self.forgotten);
        match self.tenants.get_mut(index) {
            Some(place) => *place = new,
            None => self.tenants.push(new),
        }
        self.names.insert(tenant.clone(), index);
        Ok(Vec::new())
    }

    // The place of the tenant whom it costs the least.
    fn forget_one(&mut self) -> Result<usize, QuotaExceeded> {
        let idle = self.names.iter().filter(|(_, index)| self.tenants[**index].is_idle());
        let (name, index) =
            idle.min_by_key(|(_, index)| self.tenants[**index].virtual_time).ok_or(QuotaExceeded::HostTenants)?;
        let (name, index) = (name.clone(), *index);
        self.names.remove(&name);
        self.forgotten = self.forgotten.max(self.tenants[index].virtual_time);
        Ok(index)
    }

    /// Puts a run into the queue. It starts no sooner than the next [`FairQueue::advance`]. How many of its tenant's runs wait
    /// is not looked at: see [`Quota::queued_runs_max`].
    ///
    /// # Errors
    /// [`QuotaExceeded`], which names the quota.
    pub fn enqueue(&mut self, entry: Entry) -> Result<Ticket, QuotaExceeded> {
        let Entry { tenant, demand, priority } = entry;
        let index = *self.names.get(&tenant).ok_or(QuotaExceeded::UnknownTenant)?;
        let Tenant { quota, backlog, .. } = &mut self.tenants[index];
        quota.check(demand)?;
        if self.waiting.len() >= HOST_QUEUED_RUNS_MAX {
            return Err(QuotaExceeded::HostQueuedRuns);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        backlog.push(ticket, priority, Waiting { demand });
        self.waiting.insert(ticket, (index, priority));
        self.settle(index);
        Ok(ticket)
    }

    /// Takes a waiting run out. False when it does not wait: it has started, so that it has to be finished, or it is gone.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some((tenant, priority)) = self.waiting.remove(&ticket) else { return false };
        self.tenants[tenant].backlog.remove(ticket, priority);
        self.settle(tenant);
        true
    }

    /// Gives back what a running run had. False when it does not run.
    pub fn finish(&mut self, now: Timestamp, ticket: Ticket) -> bool {
        let Some(Running { tenant: index, demand, share, since, charged_ms }) = self.running.remove(&ticket) else {
            return false;
        };
        self.overdue.remove(&(since.plus_ms(charged_ms), ticket));
        self.in_use = self.in_use.minus(demand);
        let took_ms = now.ms_since(since).max(1);
        let tenant = &mut self.tenants[index];
        tenant.running = tenant.running.saturating_sub(1);
        tenant.in_use = tenant.in_use.minus(demand);
        tenant.expect(took_ms);
        tenant.correct(share, charged_ms, took_ms);
        self.settle(index);
        true
    }

    /// Starts what may start now, and says what in order. Wants to be called after everything that happens, and when [`FairQueue::due`]
    /// says so.
    #[must_use]
    pub fn advance(&mut self, now: Timestamp) -> Vec<Ticket> {
        self.charge_overdue(now);
        let mut started = Vec::new();
        let mut from = Bound::Unbounded;
        let mut held_back = VirtualTime::MAX;
        while let Some(key) = self.next(now, from, &mut held_back) {
            started.extend(self.start(now, key));
            // Whoever came before does not fit, and there is not more room now.
            from = Bound::Excluded(key);
        }
        started
    }

    /// When to call [`FairQueue::advance`] although nothing happens: the charge of a run doubles then, and who was behind its
    /// tenant may come before it.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.overdue.first().map(|(due, _)| *due)
    }

    /// The tenants that it knows.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantId> {
        self.names.keys()
    }

    /// How many runs wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many runs are going on.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    // The first of those after `from` that fits and that nobody holds back. `held_back` is the virtual time from which on
    // nothing starts, the least that those allow who do not fit.
    fn next(&mut self, now: Timestamp, from: Bound<Key>, held_back: &mut VirtualTime) -> Option<Key> {
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

    fn start(&mut self, now: Timestamp, key: Key) -> Option<Ticket> {
        let index = self.competing.get(&key)?.tenant;
        let tenant = &mut self.tenants[index];
        let (ticket, Waiting { demand }) = tenant.backlog.start_first()?;
        self.latest_start = self.latest_start.max(tenant.virtual_time);
        let (share, charged_ms) = (demand.dominant_share(self.budget), tenant.expected_ms);
        tenant.virtual_time = tenant.virtual_time.saturating_add(tenant.charge(share, charged_ms));
        tenant.running += 1;
        tenant.in_use = tenant.in_use.plus(demand);
        self.in_use = self.in_use.plus(demand);
        self.waiting.remove(&ticket);
        self.overdue.insert((now.plus_ms(charged_ms), ticket));
        self.running.insert(ticket, Running { tenant: index, demand, share, since: now, charged_ms });
        self.settle(index);
        Some(ticket)
    }

    // Without it a tenant of many short runs would have its few long ones almost for nothing until they end.
    fn charge_overdue(&mut self, now: Timestamp) {
        while let Some(&(due, ticket)) = self.overdue.first()
            && due <= now
        {
            self.overdue.pop_first();
            let Some(run) = self.running.get_mut(&ticket) else { continue };
            let charged_ms = now.ms_since(run.since).max(run.charged_ms).saturating_mul(2);
            let tenant = &mut self.tenants[run.tenant];
            tenant.correct(run.share, run.charged_ms, charged_ms);
            run.charged_ms = charged_ms;
            let (again, index) = (run.since.plus_ms(charged_ms), run.tenant);
            // At the end of time nothing is charged any more.
            if again > now {
                self.overdue.insert((again, ticket));
            }
            self.settle(index);
        }
    }

    // Where a tenant begins to compete: at the first that does, else where the last one was.
    fn system_virtual_time(&self) -> VirtualTime {
        self.competing.first_key_value().map_or(self.latest_start, |(key, _)| key.0)
    }

    // Puts a tenant where it belongs among those that compete, after anything of it has changed.
    fn settle(&mut self, index: usize) {
        let before = self.tenants[index].key.take().and_then(|key| Some((key.1, self.competing.remove(&key)?)));
        let begin = self.system_virtual_time();
        let tenant = &mut self.tenants[index];
        let Some((ticket, Waiting { demand })) = tenant.backlog.first() else { return };
        let demand = *demand;
        if !tenant.has_room(demand) {
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

    fn evict(&mut self, index: usize) -> Vec<Evicted> {
        let Tenant { quota, backlog, .. } = &mut self.tenants[index];
        let refused = |(ticket, waiting): (Ticket, &Waiting)| {
            quota.check(waiting.demand).err().map(|refused| Evicted { ticket, refused })
        };
        let evicted: Vec<Evicted> = backlog.order().filter_map(refused).collect();
        for Evicted { ticket, .. } in &evicted {
            if let Some((_, priority)) = self.waiting.remove(ticket) {
                backlog.remove(*ticket, priority);
            }
        }
        self.settle(index);
        evicted
    }
}
