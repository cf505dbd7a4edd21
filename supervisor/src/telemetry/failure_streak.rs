//! How long a session has failed: the number of its failed runs in a row, and when it passed last. Its actor writes it,
//! and a scrape reads it without asking the actor.

use proctor_core::outcome::Outcome;
use proctor_core::timestamp::Timestamp;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The streak of one session.
#[derive(Debug)]
pub struct FailureStreak {
    failures: AtomicU32,
    /// Milliseconds of the last passed run, or of the creation.
    green_ms: AtomicU64,
}

/// Numbers of failed runs in a row from which sessions are counted.
pub const STREAKS: [u32; 2] = [3, 10];

/// Streaks of all sessions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreakSummary {
    /// Sessions whose streak is at least that of [`STREAKS`] at the same place.
    pub sessions: [u64; STREAKS.len()],
    /// The longest streak.
    pub longest: u32,
    /// Of the sessions counted first, the longest time since all was green, in milliseconds.
    pub since_green_ms_max: u64,
}

impl FailureStreak {
    /// The streak of a session created now.
    #[must_use]
    pub fn new(now: Timestamp) -> FailureStreak {
        FailureStreak { failures: AtomicU32::new(0), green_ms: AtomicU64::new(now.0) }
    }

    /// Records a run of tests. One that was cancelled or lost says nothing about the tests.
    pub fn record(&self, outcome: Outcome, now: Timestamp) {
        match outcome {
            Outcome::Cancelled | Outcome::WorkerLost => {}
            Outcome::Passed => {
                self.failures.store(0, Ordering::Relaxed);
                self.green_ms.store(now.0, Ordering::Relaxed);
            }
            _ => self.failures.store(self.failures.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed),
        }
    }
}

impl StreakSummary {
    /// Adds a session.
    pub fn add(&mut self, streak: &FailureStreak, now: Timestamp) {
        let failures = streak.failures.load(Ordering::Relaxed);
        for (sessions, from) in self.sessions.iter_mut().zip(STREAKS) {
            *sessions += u64::from(failures >= from);
        }
        self.longest = self.longest.max(failures);
        if failures >= STREAKS[0] {
            let now_ms = now.0;
            let since_ms = now_ms.saturating_sub(streak.green_ms.load(Ordering::Relaxed));
            self.since_green_ms_max = self.since_green_ms_max.max(since_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_ends_with_a_passed_run_and_ignores_what_says_nothing() {
        let at = Timestamp;
        let (streak, other) = (FailureStreak::new(at(1_000)), FailureStreak::new(at(0)));
        for outcome in [Outcome::Failed, Outcome::BuildFailed, Outcome::Cancelled, Outcome::WorkerLost] {
            streak.record(outcome, at(2_000));
        }
        other.record(Outcome::Failed, at(2_000));
        let summary = || {
            let mut summary = StreakSummary::default();
            [&streak, &other].into_iter().for_each(|streak| summary.add(streak, at(9_000)));
            summary
        };
        assert_eq!(summary(), StreakSummary { longest: 2, ..StreakSummary::default() });
        streak.record(Outcome::TimedOut, at(3_000));
        assert_eq!(summary(), StreakSummary { sessions: [1, 0], longest: 3, since_green_ms_max: 8_000 });
        (0..7).for_each(|_| streak.record(Outcome::Failed, at(4_000)));
        assert_eq!(summary().sessions, [1, 1]);
        streak.record(Outcome::Passed, at(5_000));
        assert_eq!(summary(), StreakSummary { longest: 1, ..StreakSummary::default() });
    }
}
