//! Counts of what happened under load (runs by end, refusals, faults and their times) and the list of violations.

use super::event_checker::End;
use crate::targets::quantile;
use proctor_proto::v1::Outcome;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Violations that are printed in full; further ones are only counted.
const VIOLATIONS_MAX: usize = 20;

/// Effect of a fault on runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultEffect {
    /// Processes of runs were killed.
    ProcessesKilled,
    /// The host lacks resources for runs.
    HostLacksResources,
    /// The supervisor itself gets no descriptors.
    NoDescriptors,
}

/// A fault and its end, `None` while it lasts.
struct Window {
    effect: FaultEffect,
    until: Option<Instant>,
}

#[derive(Default)]
pub(super) struct LoadTally {
    pub(super) sessions: u64,
    pub(super) watchers: u64,
    pub(super) resumed: u64,
    pub(super) attached: u64,
    /// Runs with a lost worker that only a kill explains.
    pub(super) lost: u64,
    /// End of each run and its number of events.
    pub(super) ends: HashMap<String, (End, u64)>,
    by_kind: BTreeMap<&'static str, BTreeMap<String, u64>>,
    refusals: BTreeMap<String, u64>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    windows: Vec<Window>,
    /// Milliseconds from each request to its acceptance.
    accepted_ms: Vec<f64>,
    /// Seconds of run time per tenant.
    ran_s: Vec<f64>,
    violations: Vec<String>,
    pub(super) violation_count: u64,
}

/// The tally, shared by clients, watchers and fault injection.
pub(super) struct SharedTally(Mutex<LoadTally>);

impl SharedTally {
    pub(super) fn new(tenants: usize) -> SharedTally {
        SharedTally(Mutex::new(LoadTally { ran_s: vec![0.0; tenants], ..LoadTally::default() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LoadTally> {
        // A panic while the lock was held lost at most one count.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets all counts except the ends of runs and the violations.
    pub(super) fn reset_counts(&self) {
        let mut tally = self.lock();
        let old = std::mem::take(&mut *tally);
        let ran_s = vec![0.0; old.ran_s.len()];
        let LoadTally { ends, violations, violation_count, .. } = old;
        *tally = LoadTally { ends, violations, violation_count, ran_s, ..LoadTally::default() };
    }

    pub(super) fn record_violation(&self, what: impl Into<String>) {
        let mut tally = self.lock();
        tally.violation_count += 1;
        if tally.violations.len() < VIOLATIONS_MAX {
            tally.violations.push(what.into());
        }
    }

    pub(super) fn count_refusal(&self, what: &str) {
        *self.lock().refusals.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn count_fault(&self, name: &'static str) {
        *self.lock().faults.entry(name).or_default() += 1;
    }

    /// Records the start of a fault; [`SharedTally::end_fault`] records its end.
    pub(super) fn begin_fault(&self, effect: FaultEffect) -> usize {
        let mut tally = self.lock();
        tally.windows.push(Window { effect, until: None });
        tally.windows.len() - 1
    }

    pub(super) fn end_fault(&self, window: usize) {
        if let Some(window) = self.lock().windows.get_mut(window) {
            window.until = Some(Instant::now());
        }
    }

    /// Whether a fault with this effect was active at any time between `since` and now.
    pub(super) fn had_effect_since(&self, effect: FaultEffect, since: Instant) -> bool {
        let tally = self.lock();
        // The newest faults are last, and most queries concern the last seconds.
        tally
            .windows
            .iter()
            .rev()
            .any(|window| window.effect == effect && window.until.is_none_or(|until| until >= since))
    }

    pub(super) fn record_acceptance(&self, took: Duration) {
        self.lock().accepted_ms.push(took.as_secs_f64() * 1e3);
    }

    /// Records how a run ended for a watcher and after how many events. All watchers of a run must agree.
    pub(super) fn record_end(&self, run: &str, end: &End, events: u64) {
        let seen = (end.clone(), events);
        let known = self.lock().ends.entry(run.to_owned()).or_insert_with(|| seen.clone()).clone();
        if known != seen {
            self.record_violation(format!("{run} ended as {known:?} for one watcher and as {seen:?} for another"));
        }
    }

    pub(super) fn count_run(&self, kind: &'static str, tenant: usize, end: &End, ran: Option<Duration>) {
        let mut tally = self.lock();
        *tally.by_kind.entry(kind).or_default().entry(name(end)).or_default() += 1;
        if let (Some(sum), Some(ran)) = (tally.ran_s.get_mut(tenant), ran) {
            *sum += ran.as_secs_f64();
        }
    }
}

/// Name of an end in the audit log.
pub(super) fn name(end: &End) -> String {
    match end {
        End::Finished(outcome) => outcome_name(*outcome),
        End::Refused(_) => "not_started".to_owned(),
    }
}

fn outcome_name(outcome: Outcome) -> String {
    outcome.as_str_name().trim_start_matches("OUTCOME_").to_lowercase()
}

impl LoadTally {
    /// Number of injected kills, the most runs that may have lost their worker.
    pub(super) fn kills(&self) -> u64 {
        self.windows.iter().filter(|window| window.effect == FaultEffect::ProcessesKilled).map(|_| 1).sum()
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
        for what in &self.violations {
            anstream::println!("  VIOLATION: {what}");
        }
    }

    /// Prints the run time of each weight class per unit of weight, relative to all tenants, and returns the least of these
    /// shares.
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
