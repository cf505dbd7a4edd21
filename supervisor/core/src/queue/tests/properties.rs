//! Properties of the queue under any load: a random one that also configures and withdraws, and long ones that saturate
//! the host, on a clock of their own.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

#[derive(Debug, Clone)]
enum QueueStep {
    Enqueue { tenant: u8, demand: Amount, priority: Priority },
    Finish(usize),
    Withdraw(usize),
    Configure { tenant: u8, quota: Quota },
    Pass(u64),
}

fn any_amount(max: u64) -> impl Strategy<Value = Amount> {
    (0..=max, 0..=max).prop_map(|(memory_bytes, cpu_millis)| amount(memory_bytes, cpu_millis))
}

fn any_quota() -> impl Strategy<Value = Quota> {
    (1u32..20, 0u32..6, any_amount(150)).prop_map(|(weighs, running, in_use_max)| Quota {
        running_runs_max: running,
        in_use_max: in_use_max.plus(amount(20, 20)),
        ..weight(weighs)
    })
}

fn step() -> impl Strategy<Value = QueueStep> {
    let priority = prop::sample::select(Priority::ALL.to_vec());
    prop_oneof![
        12 => (0u8..5, any_amount(60), priority)
            .prop_map(|(tenant, demand, priority)| QueueStep::Enqueue { tenant, demand, priority }),
        8 => any::<usize>().prop_map(QueueStep::Finish),
        2 => any::<usize>().prop_map(QueueStep::Withdraw),
        1 => (0u8..5, any_quota()).prop_map(|(tenant, quota)| QueueStep::Configure { tenant, quota }),
        4 => (0u64..20_000).prop_map(QueueStep::Pass),
    ]
}

/// The test's model of the runs, derived from the queue's answers alone.
#[derive(Debug, Default)]
struct Model {
    quotas: BTreeMap<TenantId, Quota>,
    waiting: BTreeMap<Ticket, QueueEntry>,
    running: BTreeMap<Ticket, QueueEntry>,
}

impl Model {
    fn of_tenant<'a>(
        runs: &'a BTreeMap<Ticket, QueueEntry>,
        tenant: &'a TenantId,
    ) -> impl Iterator<Item = &'a QueueEntry> {
        runs.values().filter(move |entry| entry.tenant == *tenant)
    }

    fn demand<'a>(runs: impl Iterator<Item = &'a QueueEntry>) -> Amount {
        runs.fold(Amount::default(), |sum, entry| sum.plus(entry.demand))
    }

    fn start(&mut self, ticket: Ticket) -> Result<(), TestCaseError> {
        let Some(entry) = self.waiting.remove(&ticket) else {
            return Err(TestCaseError::fail(format!("{ticket:?} started and did not wait")));
        };
        let first = self.waiting.iter().all(|(other, waiting)| {
            waiting.tenant != entry.tenant || waiting.priority != entry.priority || *other > ticket
        });
        prop_assert!(first, "FIFO inside a tenant and priority");
        let tenant = entry.tenant.clone();
        self.running.insert(ticket, entry);
        let quota = self.quotas[&tenant];
        prop_assert!(Model::demand(self.running.values()).fits(BUDGET));
        prop_assert!(Model::demand(Model::of_tenant(&self.running, &tenant)).fits(quota.in_use_max));
        prop_assert!(Model::of_tenant(&self.running, &tenant).count() <= quota.running_runs_max as usize);
        Ok(())
    }

    fn evict(&mut self, evicted: Vec<EvictedRun>) -> Result<(), TestCaseError> {
        for EvictedRun { ticket, reason } in evicted {
            let Some(entry) = self.waiting.remove(&ticket) else {
                return Err(TestCaseError::fail(format!("{ticket:?} evicted and did not wait")));
            };
            prop_assert_eq!(self.quotas[&entry.tenant].check(entry.demand), Err(reason));
        }
        for entry in self.waiting.values() {
            prop_assert_eq!(self.quotas[&entry.tenant].check(entry.demand), Ok(()));
        }
        Ok(())
    }

    /// Every run that could start and did not has a run before it that does not fit and may not be passed (any more).
    fn check_no_needless_wait(&self, queue: &FairQueue, now: Timestamp) -> Result<(), TestCaseError> {
        let in_use = Model::demand(self.running.values());
        let fits = |demand: Amount| in_use.plus(demand).fits(BUDGET);
        // The competing runs: the first run of each tenant whose quota has room for it.
        let mut heads = BTreeMap::new();
        for (name, index) in &queue.names {
            let tenant = &queue.tenants[*index];
            let Some((ticket, head)) = tenant.queue.first() else { continue };
            let (quota, in_use) = (self.quotas[name], Model::demand(Model::of_tenant(&self.running, name)));
            let number = Model::of_tenant(&self.running, name).count();
            if in_use.plus(head.demand).fits(quota.in_use_max) && number < quota.running_runs_max as usize {
                heads.insert((tenant.virtual_time, ticket), (tenant, head.demand));
            }
        }
        prop_assert!(heads.keys().eq(queue.competing.keys()));
        let holds_back = |before: &CompetingKey, (owner, demand): &(&TenantState, Amount), after: &CompetingKey| {
            let since = queue.competing[before].unfit_since;
            let long = since.is_some_and(|since| now.ms_since(since) >= RESERVE_AFTER_MS);
            !fits(*demand) && (long || after.0 >= before.0 + owner.lead(demand.dominant_share(BUDGET)))
        };
        for (after, (_, demand)) in &heads {
            let is_held_back = heads.range(..*after).any(|(before, head)| holds_back(before, head, after));
            prop_assert!(is_held_back || !fits(*demand), "{after:?} fits and no run holds it back");
        }
        Ok(())
    }
}

proptest! {
    /// No run is lost, started twice, over the budget or over a quota; arrival order holds inside a tenant and
    /// priority; and no run waits without need.
    #[test]
    fn every_run_waits_and_runs_once_within_all_bounds(steps in prop::collection::vec(step(), 0..120)) {
        let (mut queue, mut model) = (FairQueue::new(BUDGET), Model::default());
        let mut now = Timestamp(0);
        for number in 0..4 {
            model.quotas.insert(tenant(number), weight(number + 1));
            prop_assert_eq!(queue.configure(&tenant(number), weight(number + 1)), Ok(Vec::new()));
        }
        for step in steps {
            match step {
                QueueStep::Enqueue { tenant: number, demand, priority } => {
                    let entry = QueueEntry { tenant: tenant(number), demand, priority };
                    let expected = match model.quotas.get(&entry.tenant) {
                        None => Err(QuotaExceeded::UnknownTenant),
                        Some(quota) => quota.check(demand),
                    };
                    let answer = queue.enqueue(entry.clone());
                    prop_assert_eq!(answer.clone().map(|_| ()), expected);
                    if let Ok(ticket) = answer {
                        prop_assert!(model.waiting.keys().chain(model.running.keys()).all(|earlier| *earlier < ticket));
                        model.waiting.insert(ticket, entry);
                    }
                }
                QueueStep::Finish(which) => if !model.running.is_empty() {
                    let ticket = *model.running.keys().nth(which % model.running.len()).unwrap();
                    model.running.remove(&ticket);
                    prop_assert!(!queue.withdraw(ticket));
                    prop_assert!(queue.finish(now, ticket));
                }
                QueueStep::Withdraw(which) => if !model.waiting.is_empty() {
                    let ticket = *model.waiting.keys().nth(which % model.waiting.len()).unwrap();
                    model.waiting.remove(&ticket);
                    prop_assert!(!queue.finish(now, ticket));
                    prop_assert!(queue.withdraw(ticket));
                }
                QueueStep::Configure { tenant: number, quota } => {
                    model.quotas.insert(tenant(number), quota);
                    model.evict(queue.configure(&tenant(number), quota).unwrap())?;
                }
                QueueStep::Pass(ms) => now = now.plus_ms(ms),
            }
            for ticket in queue.advance(now) {
                model.start(ticket)?;
            }
            prop_assert_eq!((queue.waiting(), queue.running()), (model.waiting.len(), model.running.len()));
            prop_assert_eq!(queue.overdue.len(), model.running.len());
            prop_assert_eq!(queue.in_use, Model::demand(model.running.values()));
            model.check_no_needless_wait(&queue, now)?;
            prop_assert_eq!(queue.advance(now), []);
            prop_assert!(queue.next_charge_due().is_none_or(|due| due > now), "a caller that waits until then makes progress");
        }
        // Every remaining run starts as soon as the budget allows.
        while let Some(ticket) = model.running.pop_first().map(|(ticket, _)| ticket) {
            prop_assert!(queue.finish(now, ticket));
            for ticket in queue.advance(now) {
                model.start(ticket)?;
            }
        }
        prop_assert_eq!(queue.waiting(), 0);
        prop_assert_eq!((queue.competing.len(), queue.overdue.len(), queue.in_use), (0, 0, Amount::default()));
    }

    /// An evicted tenant that returns starts at no less than its old virtual time, and at no more than an idle tenant
    /// that was never evicted: it gains nothing, and loses no more than an idle tenant with the same usage.
    #[test]
    fn no_tenant_gains_by_being_evicted(
        steps in prop::collection::vec((0u8..9, any::<bool>(), 1u64..100_000), 1..200),
    ) {
        let mut queue = FairQueue::new(BUDGET);
        queue.tenants_max = 4;
        let (mut now, mut evicted) = (0, BTreeMap::new());
        for (number, runs, ms) in steps {
            let name = tenant(number);
            let before: BTreeMap<TenantId, VirtualTime> =
                queue.names.iter().map(|(name, index)| (name.clone(), queue.tenants[*index].virtual_time)).collect();
            let idle = before.iter().filter(|(name, _)| queue.tenants[queue.names[*name]].is_idle());
            let least_idle = idle.map(|(_, time)| *time).min();
            if queue.configure(&name, weight(1)).is_err() {
                prop_assert!(least_idle.is_none() && before.len() == 4, "all tenants in the queue have runs");
            } else if !before.contains_key(&name) {
                let begins = queue.tenants[queue.names[&name]].virtual_time;
                prop_assert!(evicted.get(&name).is_none_or(|before| begins >= *before), "{begins} after {evicted:?}");
                prop_assert!(begins <= queue.evicted_time_max && queue.tenants.len() <= 4);
                let idle = queue.names.values().map(|index| &queue.tenants[*index]).filter(|tenant| tenant.is_idle());
                prop_assert!(before.len() < 4 || idle.into_iter().all(|idle| idle.virtual_time >= least_idle.unwrap()));
                evicted.extend(before.into_iter().filter(|(name, _)| !queue.names.contains_key(name)));
            }
            if runs && queue.names.contains_key(&name) {
                queue.enqueue(QueueEntry { tenant: name, demand: amount(40, 40), priority: Priority::Normal }).unwrap();
            }
            let _ = queue.advance(Timestamp(now));
            now += ms;
            if let Some(ticket) = queue.running.keys().next().copied() {
                prop_assert!(queue.finish(Timestamp(now), ticket));
            }
        }
    }

    /// The reported positions, applied change by change, are the order in which runs start.
    #[test]
    fn positions_are_the_order_of_starts(
        weights in prop::collection::vec(1u32..10, 1..6),
        runs in prop::collection::vec((any::<prop::sample::Index>(), 0usize..3, any::<bool>()), 1..60),
    ) {
        let mut queue = FairQueue::new(BUDGET);
        for (number, weighs) in weights.iter().enumerate() {
            let _ = queue.configure(&tenant(number), weight(*weighs));
        }
        let mut positions = BTreeMap::new();
        for (owner, priority, report) in runs {
            let priority = Priority::ALL[priority];
            let entry = QueueEntry { tenant: tenant(owner.index(weights.len())), demand: BUDGET, priority };
            queue.enqueue(entry).unwrap();
            let moved = if report { queue.position_changes() } else { Vec::new() };
            for PositionChange { ticket, position } in moved {
                prop_assert_ne!(positions.insert(ticket, position), Some(position), "reported without a change");
            }
        }
        positions.extend(queue.position_changes().into_iter().map(|PositionChange { ticket, position }| (ticket, position)));
        let mut reported: Vec<(u32, Ticket)> = positions.into_iter().map(|(ticket, position)| (position, ticket)).collect();
        reported.sort_unstable();
        let started = one_by_one(&mut queue, 0, EXPECTED_MS_FIRST);
        prop_assert_eq!(reported, (0..).zip(started).collect::<Vec<_>>());
    }
}

/// Tenants that always have runs waiting, on a clock of their own.
struct Load {
    queue: FairQueue,
    now: u64,
    random: TestRng,
    /// End time of each run.
    ends: BTreeSet<(u64, Ticket)>,
    in_use: Amount,
    /// Per run: its tenant, its demand, its duration, and when it became its tenant's first.
    runs: BTreeMap<Ticket, (usize, Amount, u64, Option<u64>)>,
    /// Per tenant: waiting runs in order.
    queued: Vec<std::collections::VecDeque<Ticket>>,
    /// Per tenant: dominant share times milliseconds.
    served: Vec<f64>,
    /// Longest time that a run waited as its tenant's first.
    waited_ms_max: u64,
}

impl Load {
    fn new(weights: &[u32], seed: u64) -> Load {
        let mut queue = FairQueue::new(BUDGET);
        for (number, weighs) in weights.iter().enumerate() {
            assert_eq!(queue.configure(&tenant(number), weight(*weighs)), Ok(Vec::new()));
        }
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Load {
            queue,
            now: 0,
            random: TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
            ends: BTreeSet::new(),
            in_use: Amount::default(),
            runs: BTreeMap::new(),
            queued: vec![std::collections::VecDeque::new(); weights.len()],
            served: vec![0.0; weights.len()],
            waited_ms_max: 0,
        }
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + u64::from(self.random.next_u32()) % (most - least + 1)
    }

    fn enqueue(&mut self, owner: usize, demand: Amount, ms: u64) {
        let entry = QueueEntry { tenant: tenant(owner), demand, priority: Priority::Normal };
        let ticket = self.queue.enqueue(entry).unwrap();
        let first = self.queued[owner].is_empty().then_some(self.now);
        self.queued[owner].push_back(ticket);
        self.runs.insert(ticket, (owner, demand, ms, first));
    }

    fn advance(&mut self) {
        for ticket in self.queue.advance(Timestamp(self.now)) {
            let (owner, demand, ms, first) = self.runs[&ticket];
            self.in_use = self.in_use.plus(demand);
            assert!(self.in_use.fits(BUDGET), "{:?} in use", self.in_use);
            self.waited_ms_max = self.waited_ms_max.max(self.now - first.unwrap());
            assert_eq!(self.queued[owner].pop_front(), Some(ticket));
            if let Some(run) = self.queued[owner].front().and_then(|next| self.runs.get_mut(next)) {
                run.3 = Some(self.now);
            }
            self.ends.insert((self.now + ms, ticket));
        }
    }

    fn end_next(&mut self) {
        let (at, ticket) = self.ends.pop_first().unwrap();
        self.now = at;
        assert!(self.queue.finish(Timestamp(at), ticket));
        let (owner, demand, ms, _) = self.runs.remove(&ticket).unwrap();
        self.in_use = self.in_use.minus(demand);
        #[expect(clippy::cast_precision_loss, reason = "a share within 5 % needs no more")]
        let served = (demand.dominant_share(BUDGET) as f64 / WHOLE_SHARE as f64) * ms as f64;
        self.served[owner] += served;
    }
}

/// Ranges of size and duration of a tenant's runs.
type Character = ((u64, u64), (u64, u64));

const LONGEST_MS: u64 = 20_000;

fn characters() -> impl Strategy<Value = Vec<(u32, Character)>> {
    let sizes = prop::sample::select(vec![(5, 25), (10, 60), (20, 50), (10, 100), (100, 100)]);
    let durations =
        prop::sample::select(vec![(500, 5_000), (1_000, 10_000), (1, LONGEST_MS), (LONGEST_MS, LONGEST_MS)]);
    prop::collection::vec((1u32..=4, (sizes, durations)), 2..6)
}

impl Load {
    /// Keeps more runs of each tenant waiting than an empty host can take and ends one run at a time, until `enough`.
    fn saturate(&mut self, characters: &[(u32, Character)], enough: impl Fn(&Load) -> bool) {
        while !enough(self) {
            for (owner, (_, ((small, large), (short, long)))) in characters.iter().enumerate() {
                while self.queued[owner].len() < 25 {
                    let demand = amount(self.between(*small, *large), self.between(*small, *large));
                    let ms = self.between(*short, *long);
                    self.enqueue(owner, demand, ms);
                }
            }
            self.advance();
            self.end_next();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Over a long load every tenant gets its share of the served host time, and no first run waits longer than the
    /// others take to use up the lead, at worst one run after another.
    #[test]
    fn shares_follow_the_weights_and_no_tenant_starves(characters in characters(), seed: u64) {
        let weights: Vec<u32> = characters.iter().map(|(weight, _)| *weight).collect();
        let sum = f64::from(weights.iter().sum::<u32>());
        // As much host time as makes the least tenant's share 75 of the longest runs.
        let least = f64::from(*weights.iter().min().unwrap()) / sum;
        let mut load = Load::new(&weights, seed);
        load.saturate(&characters, |load| load.served.iter().sum::<f64>() * least > 1_500_000.0);
        let served: f64 = load.served.iter().sum();
        for (owner, weight) in weights.iter().enumerate() {
            let (part, due) = (load.served[owner] / served, f64::from(*weight) / sum);
            prop_assert!((part / due - 1.0).abs() < 0.05, "tenant {owner} got {part:.4} instead of {due:.4}");
        }
        let bound = f64::from(u32::try_from(RESERVE_AFTER_MS + 2 * LONGEST_MS).unwrap()) / least;
        let waited = f64::from(u32::try_from(load.waited_ms_max).unwrap());
        prop_assert!(waited < 2.0 * bound, "{waited} of {bound} ms");
    }

    /// A run of the whole host competes with any number of small ones.
    #[test]
    fn a_run_of_the_whole_host_starts_within_its_bound(
        weights in prop::collection::vec(1u32..=10, 1..12),
        own in 1u32..=10,
        seed: u64,
    ) {
        let small: Vec<(u32, Character)> = weights.iter().map(|weight| (*weight, ((1, 5), (1, LONGEST_MS)))).collect();
        let whole = weights.len();
        let mut load = Load::new(&[&weights[..], &[own]].concat(), seed);
        load.saturate(&small, |load| load.now > 10 * LONGEST_MS);
        load.waited_ms_max = 0;
        load.enqueue(whole, BUDGET, 1);
        let enqueued_at = load.now;
        let bound = RESERVE_AFTER_MS + 2 * LONGEST_MS;
        load.saturate(&small, |load| load.queued[whole].is_empty() || load.now - enqueued_at > bound);
        // It starts at the least virtual time of the others, and is first as soon as those before it have started.
        prop_assert!(load.now - enqueued_at <= bound, "it waits for {} ms", load.now - enqueued_at);
    }
}
