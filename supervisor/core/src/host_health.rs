//! Decides whether a host is fit to run anything: a state machine over worker starts and failures that schedules
//! trials.
//!
//! A tenant's own workspace may keep its workers from starting, so failed runs alone never take the host out of
//! service: they only schedule a trial, which starts a worker of the supervisor's own in an empty directory. The trial
//! decides.

use crate::timestamp::Timestamp;

/// Worker failures in a row that schedule a trial.
const FAILURES_IN_A_ROW: u32 = 3;

/// Workers alive after their kill above which the host is out of service whatever a trial says: each holds a cgroup
/// leaf, memory and the resource that it is stuck on.
const UNKILLABLE_MAX: u64 = 16;

/// Least pause between two trials in milliseconds, so that a tenant whose runs all fail costs one worker a second.
const TRIAL_EVERY_MS: u64 = 1_000;

/// Longest pause between two trials of a faulty host in milliseconds. The pause starts at one second and doubles.
const TRIAL_EVERY_MS_MAX: u64 = 30_000;

/// Why the host refuses runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFault {
    /// When the fault was found.
    pub since: Timestamp,
    /// Description of the fault without host paths, as a sentence without its full stop.
    pub problem: String,
}

/// Health of one host.
#[derive(Debug, Clone, Default)]
pub struct HostHealth {
    failures_in_a_row: u32,
    unkillable: u64,
    fault: Option<HostFault>,
    /// When the next trial is due; `None` when none is scheduled.
    trial_at: Option<Timestamp>,
    last_trial: Option<Timestamp>,
    /// Trials in a row that failed.
    trials_failed: u32,
}

impl HostHealth {
    /// The fault because of which runs are refused now.
    #[must_use]
    pub fn fault(&self) -> Option<&HostFault> {
        self.fault.as_ref()
    }

    /// When the next trial is due.
    #[must_use]
    pub fn trial_at(&self) -> Option<Timestamp> {
        self.trial_at
    }

    /// Workers that were alive after their kill at the last count.
    #[must_use]
    pub fn unkillable(&self) -> u64 {
        self.unkillable
    }

    /// Records a run whose worker started.
    pub fn record_worker_started(&mut self) {
        self.failures_in_a_row = 0;
        if self.fault.is_none() {
            self.trial_at = None;
        }
    }

    /// Records a run whose worker did not start and whose run was not the cause.
    pub fn record_worker_failed(&mut self, now: Timestamp) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        if self.failures_in_a_row >= FAILURES_IN_A_ROW {
            self.schedule_trial(now);
        }
    }

    /// Records how many workers are alive after their kill.
    pub fn record_unkillable(&mut self, unkillable: u64, now: Timestamp) {
        if unkillable > self.unkillable {
            self.schedule_trial(now);
        }
        self.unkillable = unkillable;
    }

    /// Records the result of a trial: the error says why its worker did not start or did not die.
    pub fn record_trial(&mut self, outcome: Result<(), String>, now: Timestamp) {
        self.last_trial = Some(now);
        let outcome = outcome.and(if self.unkillable > UNKILLABLE_MAX {
            Err(format!("{} workers do not die", self.unkillable))
        } else {
            Ok(())
        });
        match outcome {
            Ok(()) => {
                (self.fault, self.trial_at) = (None, None);
                (self.failures_in_a_row, self.trials_failed) = (0, 0);
            }
            Err(problem) => {
                let since = self.fault.as_ref().map_or(now, |fault| fault.since);
                self.fault = Some(HostFault { since, problem });
                let pause = TRIAL_EVERY_MS.saturating_mul(1 << self.trials_failed.min(16)).min(TRIAL_EVERY_MS_MAX);
                self.trials_failed = self.trials_failed.saturating_add(1);
                self.trial_at = Some(now.plus_ms(pause));
            }
        }
    }

    // A faulty host has its next trial already.
    fn schedule_trial(&mut self, now: Timestamp) {
        let earliest = self.last_trial.map_or(now, |last| last.plus_ms(TRIAL_EVERY_MS));
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
        (0..times).for_each(|_| health.record_worker_failed(NOW));
        health
    }

    #[test]
    fn schedules_a_trial_after_failures_in_a_row_and_refuses_no_run_before_it() {
        assert_eq!(failed_times(FAILURES_IN_A_ROW - 1).trial_at(), None);
        let mut health = failed_times(FAILURES_IN_A_ROW - 1);
        health.record_worker_started();
        health.record_worker_failed(NOW);
        assert_eq!(health.trial_at(), None, "a worker started in between");
        let health = failed_times(FAILURES_IN_A_ROW);
        assert_eq!((health.trial_at(), health.fault()), (Some(NOW), None));
    }

    #[test]
    fn a_failed_trial_sets_the_fault_and_a_successful_one_clears_it() {
        let mut health = failed_times(FAILURES_IN_A_ROW);
        health.record_trial(Err("no worker".to_owned()), NOW);
        let fault = HostFault { since: NOW, problem: "no worker".to_owned() };
        assert_eq!(health.fault(), Some(&fault));
        let later = NOW.plus_ms(TRIAL_EVERY_MS);
        assert_eq!(health.trial_at(), Some(later));
        health.record_trial(Err("still no worker".to_owned()), later);
        assert_eq!(health.fault().unwrap().since, NOW);
        assert_eq!(health.trial_at(), Some(later.plus_ms(2 * TRIAL_EVERY_MS)));
        health.record_trial(Ok(()), later);
        assert_eq!((health.fault(), health.trial_at()), (None, None));
    }

    #[test]
    fn a_tenant_whose_runs_all_fail_costs_one_trial_a_second() {
        let mut health = failed_times(FAILURES_IN_A_ROW);
        health.record_trial(Ok(()), NOW);
        (0..FAILURES_IN_A_ROW).for_each(|_| health.record_worker_failed(NOW.plus_ms(10)));
        assert_eq!(health.trial_at(), Some(NOW.plus_ms(TRIAL_EVERY_MS)));
    }

    #[test]
    fn each_further_unkillable_worker_schedules_a_trial_and_too_many_are_a_fault_until_they_die() {
        let mut health = HostHealth::default();
        health.record_unkillable(1, NOW);
        assert_eq!(health.trial_at(), Some(NOW));
        health.record_trial(Ok(()), NOW);
        health.record_unkillable(1, NOW);
        assert_eq!(health.trial_at(), None, "the count did not rise");
        health.record_unkillable(UNKILLABLE_MAX + 1, NOW);
        health.record_trial(Ok(()), NOW);
        assert_eq!(health.fault().unwrap().problem, "17 workers do not die");
        health.record_unkillable(0, NOW);
        health.record_trial(Ok(()), NOW);
        assert_eq!(health.fault(), None);
    }

    proptest! {
        /// After any sequence of events: a faulty host is tried again within the longest pause, and one successful
        /// trial clears it.
        #[test]
        fn a_faulty_host_is_always_tried_again(steps in prop::collection::vec((0_u8..5, 0_u64..40_000), 0..60)) {
            let (mut health, mut now) = (HostHealth::default(), NOW);
            for (step, ms) in steps {
                now = now.plus_ms(ms);
                match step {
                    0 => health.record_worker_started(),
                    1 => health.record_worker_failed(now),
                    2 => health.record_unkillable(ms % 40, now),
                    3 => health.record_trial(Ok(()), now),
                    _ => health.record_trial(Err("no".to_owned()), now),
                }
                if health.fault().is_some() {
                    prop_assert!(health.trial_at().is_some_and(|at| at <= now.plus_ms(TRIAL_EVERY_MS_MAX)));
                }
            }
            health.record_unkillable(0, now);
            health.record_trial(Ok(()), now);
            prop_assert_eq!((health.fault(), health.trial_at()), (None, None));
        }
    }
}
