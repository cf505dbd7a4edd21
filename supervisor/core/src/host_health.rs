//! Whether a host can run anything: a state machine fed with what became of workers, which asks for a trial when it doubts.
//! Must not know how a worker is made.
//!
//! A tenant's own workspace may keep its workers from coming up, so failed runs alone never take the host out of service:
//! they only ask for a trial, which is a worker of the supervisor's own in an empty directory. The trial decides.

use crate::timestamp::Timestamp;

/// Workers that fail one after the other before a trial.
const FAILURES_IN_A_ROW: u32 = 3;

/// Workers alive after their kill above which the host is in trouble whatever a trial says: each holds a leaf, memory and
/// what it was stuck on.
const UNDEAD_MAX: u64 = 16;

/// Milliseconds between two trials at least, so that a tenant whose runs all fail costs one worker a second.
const TRIAL_EVERY_MS: u64 = 1_000;

/// Milliseconds between two trials of a host in trouble at most. They begin a second apart, and each waits twice as long.
const TRIAL_EVERY_MS_MAX: u64 = 30_000;

/// Why nothing is run on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// When it was found.
    pub since: Timestamp,
    /// What is wrong, without host paths: a sentence without its end.
    pub what: String,
}

/// What is known of a host.
#[derive(Debug, Clone, Default)]
pub struct HostHealth {
    failures_in_a_row: u32,
    undead: u64,
    trouble: Option<Trouble>,
    /// When the next trial is due; `None` when nothing is in doubt.
    trial_at: Option<Timestamp>,
    trial_last: Option<Timestamp>,
    /// Trials in a row that failed.
    trials_failed: u32,
}

impl HostHealth {
    /// Why nothing is run at the moment.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// When to try a worker, if anything is in doubt.
    #[must_use]
    pub fn trial_at(&self) -> Option<Timestamp> {
        self.trial_at
    }

    /// Workers that were alive after their kill when somebody last counted.
    #[must_use]
    pub fn undead(&self) -> u64 {
        self.undead
    }

    /// Records a run whose worker came up.
    pub fn worker_came_up(&mut self) {
        self.failures_in_a_row = 0;
        if self.trouble.is_none() {
            self.trial_at = None;
        }
    }

    /// Records a run whose worker did not come up, for no reason that the run gave.
    pub fn worker_failed(&mut self, now: Timestamp) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        if self.failures_in_a_row >= FAILURES_IN_A_ROW {
            self.doubt(now);
        }
    }

    /// Records how many workers are alive after their kill.
    pub fn counted_undead(&mut self, undead: u64, now: Timestamp) {
        if undead > self.undead {
            self.doubt(now);
        }
        self.undead = undead;
    }

    /// Records what became of a trial: why its worker did not come up, or did not die.
    pub fn tried(&mut self, outcome: Result<(), String>, now: Timestamp) {
        self.trial_last = Some(now);
        let outcome = outcome.and(if self.undead > UNDEAD_MAX {
            Err(format!("{} workers do not die", self.undead))
        } else {
            Ok(())
        });
        match outcome {
            Ok(()) => {
                (self.trouble, self.trial_at) = (None, None);
                (self.failures_in_a_row, self.trials_failed) = (0, 0);
            }
            Err(what) => {
                let since = self.trouble.as_ref().map_or(now, |trouble| trouble.since);
                self.trouble = Some(Trouble { since, what });
                let pause = TRIAL_EVERY_MS.saturating_mul(1 << self.trials_failed.min(16)).min(TRIAL_EVERY_MS_MAX);
                self.trials_failed = self.trials_failed.saturating_add(1);
                self.trial_at = Some(now.plus_ms(pause));
            }
        }
    }

    // A host in trouble has its next trial already.
    fn doubt(&mut self, now: Timestamp) {
        let earliest = self.trial_last.map_or(now, |last| last.plus_ms(TRIAL_EVERY_MS));
        self.trial_at = self.trial_at.or(Some(earliest.max(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn failed_times(times: u32) -> HostHealth {
        let mut health = HostHealth::default();
        (0..times).for_each(|_| health.worker_failed(NOW));
        health
    }

    #[test]
    fn asks_for_a_trial_after_failures_in_a_row_and_refuses_nothing_before_it() {
        assert_eq!(failed_times(FAILURES_IN_A_ROW - 1).trial_at(), None);
        let mut health = failed_times(FAILURES_IN_A_ROW - 1);
        health.worker_came_up();
        health.worker_failed(NOW);
        assert_eq!(health.trial_at(), None, "one came up in between");
        let health = failed_times(FAILURES_IN_A_ROW);
        assert_eq!((health.trial_at(), health.trouble()), (Some(NOW), None));
    }

    #[test]
    fn a_trial_decides_and_a_good_one_ends_the_trouble() {
        let mut health = failed_times(FAILURES_IN_A_ROW);
        health.tried(Err("no worker".to_owned()), NOW);
        let trouble = Trouble { since: NOW, what: "no worker".to_owned() };
        assert_eq!(health.trouble(), Some(&trouble));
        let later = NOW.plus_ms(TRIAL_EVERY_MS);
        assert_eq!(health.trial_at(), Some(later));
        health.tried(Err("still no worker".to_owned()), later);
        assert_eq!(health.trouble().unwrap().since, NOW);
        assert_eq!(health.trial_at(), Some(later.plus_ms(2 * TRIAL_EVERY_MS)));
        health.tried(Ok(()), later);
        assert_eq!((health.trouble(), health.trial_at()), (None, None));
    }

    #[test]
    fn a_tenant_whose_runs_all_fail_costs_one_trial_a_second() {
        let mut health = failed_times(FAILURES_IN_A_ROW);
        health.tried(Ok(()), NOW);
        (0..FAILURES_IN_A_ROW).for_each(|_| health.worker_failed(NOW.plus_ms(10)));
        assert_eq!(health.trial_at(), Some(NOW.plus_ms(TRIAL_EVERY_MS)));
    }

    #[test]
    fn each_further_undead_worker_asks_for_a_trial_and_too_many_are_trouble_until_they_die() {
        let mut health = HostHealth::default();
        health.counted_undead(1, NOW);
        assert_eq!(health.trial_at(), Some(NOW));
        health.tried(Ok(()), NOW);
        health.counted_undead(1, NOW);
        assert_eq!(health.trial_at(), None, "it is known");
        health.counted_undead(UNDEAD_MAX + 1, NOW);
        health.tried(Ok(()), NOW);
        assert_eq!(health.trouble().unwrap().what, "17 workers do not die");
        health.counted_undead(0, NOW);
        health.tried(Ok(()), NOW);
        assert_eq!(health.trouble(), None);
    }

    proptest! {
        /// Whatever happens: a host in trouble is tried again within the longest pause, and one good trial ends it.
        #[test]
        fn a_host_in_trouble_is_always_tried_again(steps in prop::collection::vec((0_u8..5, 0_u64..40_000), 0..60)) {
            let (mut health, mut now) = (HostHealth::default(), NOW);
            for (step, ms) in steps {
                now = now.plus_ms(ms);
                match step {
                    0 => health.worker_came_up(),
                    1 => health.worker_failed(now),
                    2 => health.counted_undead(ms % 40, now),
                    3 => health.tried(Ok(()), now),
                    _ => health.tried(Err("no".to_owned()), now),
                }
                if health.trouble().is_some() {
                    prop_assert!(health.trial_at().is_some_and(|at| at <= now.plus_ms(TRIAL_EVERY_MS_MAX)));
                }
            }
            health.counted_undead(0, now);
            health.tried(Ok(()), now);
            prop_assert_eq!((health.trouble(), health.trial_at()), (None, None));
        }
    }
}
