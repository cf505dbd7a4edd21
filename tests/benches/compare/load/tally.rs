//! What happened under load, counted: runs by how they ended, refusals, faults and when they were, and every promise that
//! was broken. Must not know how any of it came about.

use super::event_checker::End;
use crate::targets::quantile;
use proctor_proto::v1::Outcome;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Broken promises that are told word by word; the rest is counted.
const BROKEN_TOLD_MAX: usize = 20;

/// What a fault may do to runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// Processes of runs die.
    Kill,
    /// The host cannot give what a run needs.
    Host,
    /// It cannot give the supervisor itself a descriptor.
    Descriptors,
}

/// A fault, and its end if it has one yet. Whoever asks began before it.
struct Window {
    harm: Harm,
    until: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) sessions: u64,
    pub(super) watchers: u64,
    pub(super) resumed: u64,
    pub(super) attached: u64,
    /// Workers of runs that nothing but a kill explains.
    pub(super) lost: u64,
    /// How each run ended, and how many events it had.
    pub(super) ends: HashMap<String, (End, u64)>,
    by_kind: BTreeMap<&'static str, BTreeMap<String, u64>>,
    refusals: BTreeMap<String, u64>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    windows: Vec<Window>,
    /// Milliseconds from a request to its acceptance.
    accepted_ms: Vec<f64>,
    /// Seconds of runs that went on, tenant by tenant.
    ran_s: Vec<f64>,
    broken: Vec<String>,
    pub(super) broken_count: u64,
}

/// Shared by everybody who runs, watches and breaks things.
pub(super) struct Ledger(Mutex<Tally>);

impl Ledger {
    pub(super) fn of(tenants: usize) -> Ledger {
        Ledger(Mutex::new(Tally { ran_s: vec![0.0; tenants], ..Tally::default() }))
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        // Whoever panicked has counted at most one thing too few.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was counted, and neither how runs ended nor what was broken.
    pub(super) fn begin_anew(&self) {
        let mut tally = self.tally();
        let old = std::mem::take(&mut *tally);
        let ran_s = vec![0.0; old.ran_s.len()];
        let Tally { ends, broken, broken_count, .. } = old;
        *tally = Tally { ends, broken, broken_count, ran_s, ..Tally::default() };
    }

    pub(super) fn broken(&self, what: impl Into<String>) {
        let mut tally = self.tally();
        tally.broken_count += 1;
        if tally.broken.len() < BROKEN_TOLD_MAX {
            tally.broken.push(what.into());
        }
    }

    pub(super) fn refused(&self, what: &str) {
        *self.tally().refusals.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn fault(&self, name: &'static str) {
        *self.tally().faults.entry(name).or_default() += 1;
    }

    /// A fault that has come and gone, or that begins and lasts until [`Ledger::over`].
    pub(super) fn begins(&self, harm: Harm) -> usize {
        let mut tally = self.tally();
        tally.windows.push(Window { harm, until: None });
        tally.windows.len() - 1
    }

    pub(super) fn over(&self, window: usize) {
        if let Some(window) = self.tally().windows.get_mut(window) {
            window.until = Some(Instant::now());
        }
    }

    /// Whether such a fault was there at any time between `since` and now.
    pub(super) fn harmed(&self, harm: Harm, since: Instant) -> bool {
        let tally = self.tally();
        // The newest are last, and most questions are about the last seconds.
        tally.windows.iter().rev().any(|window| window.harm == harm && window.until.is_none_or(|until| until >= since))
    }

    pub(super) fn accepted(&self, took: Duration) {
        self.tally().accepted_ms.push(took.as_secs_f64() * 1e3);
    }

    /// Every watcher of a run says here how it ended after how many events, and all of them have to say the same.
    pub(super) fn ended(&self, run: &str, end: &End, events: u64) {
        let said = (end.clone(), events);
        let known = self.tally().ends.entry(run.to_owned()).or_insert_with(|| said.clone()).clone();
        if known != said {
            self.broken(format!("{run} ended as {known:?} for one watcher and as {said:?} for another"));
        }
    }

    pub(super) fn counted(&self, kind: &'static str, tenant: usize, end: &End, ran: Option<Duration>) {
        let mut tally = self.tally();
        *tally.by_kind.entry(kind).or_default().entry(name(end)).or_default() += 1;
        if let (Some(sum), Some(ran)) = (tally.ran_s.get_mut(tenant), ran) {
            *sum += ran.as_secs_f64();
        }
    }
}

/// As the audit log calls it.
pub(super) fn name(end: &End) -> String {
    match end {
        End::Finished(outcome) => of_outcome(*outcome),
        End::Told(_) => "not_started".to_owned(),
    }
}

fn of_outcome(outcome: Outcome) -> String {
    outcome.as_str_name().trim_start_matches("OUTCOME_").to_lowercase()
}

impl Tally {
    /// Times that a process of a run was killed, and so the most runs that may have been lost by it.
    pub(super) fn kills(&self) -> u64 {
        self.windows.iter().filter(|window| window.harm == Harm::Kill).map(|_| 1).sum()
    }

    pub(super) fn print(&self) {
        let runs: u64 = self.by_kind.values().flat_map(BTreeMap::values).sum();
        anstream::println!(
            "{runs} ends of runs were watched in {} sessions by {} watchers more; {} streams were resumed, {} attached",
            self.sessions,
            self.watchers,
            self.resumed,
            self.attached
        );
        for (kind, ends) in &self.by_kind {
            anstream::println!("  {kind:<12}{}", line(ends.iter()));
        }
        anstream::println!("  refused     {}", line(self.refusals.iter()));
        anstream::println!("  faults      {}", line(self.faults.iter()));
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(&self.accepted_ms, share));
        anstream::println!("  request to acceptance: p50 {p50:.1} ms, p99 {p99:.1} ms");
        for what in &self.broken {
            anstream::println!("  BROKEN: {what}");
        }
    }

    /// Prints what tenants of each weight had of the host, for each unit of their weight, beside what all had; the least
    /// of these.
    pub(super) fn print_shares(&self, tenants: usize, weight: fn(usize) -> u32) -> f64 {
        let mut classes: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (tenant, ran) in self.ran_s.iter().enumerate().take(tenants) {
            let class = classes.entry(weight(tenant)).or_default();
            *class = (class.0 + ran, class.1 + f64::from(weight(tenant)));
        }
        let (ran, weights) = classes.values().fold((0.0, 0.0), |(ran, all), class| (ran + class.0, all + class.1));
        let share = |class: &(f64, f64)| (class.0 / class.1) / (ran / weights);
        let shares: Vec<String> =
            classes.iter().map(|(weight, class)| format!("weight {weight}: {:.2}", share(class))).collect();
        anstream::println!("  shares of the time of runs, over what the weight promises: {}", shares.join(", "));
        classes.values().map(share).fold(f64::INFINITY, f64::min)
    }
}

fn line<'a>(counts: impl Iterator<Item = (impl AsRef<str> + 'a, &'a u64)>) -> String {
    counts.map(|(name, count)| format!("{} {count}", name.as_ref())).collect::<Vec<_>>().join(", ")
}
