//! The orderly end of a supervisor: any caller begins it or brings its deadline forward, and any caller can wait for
//! its result.

use proctor_core::bounds::DRAIN_GRACE_MAX;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

/// Counts of the runs of a closed session, or of all sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClosedRuns {
    /// Runs that ended between the beginning of the drain and the close.
    pub finished: usize,
    /// Runs that the close ended.
    pub cancelled: usize,
}

/// The drain of one supervisor. Clones share it.
#[derive(Debug, Clone)]
pub struct Drain {
    /// When runs are ended; `None` before the drain begins.
    deadline: watch::Sender<Option<Instant>>,
    /// Set once no run is left.
    outcome: watch::Sender<Option<ClosedRuns>>,
    side_tasks: TaskTracker,
    default_grace: Duration,
}

impl Drain {
    /// A drain that has not begun, with a default grace period of `default_grace`.
    #[must_use]
    pub fn new(default_grace: Duration) -> Drain {
        Drain {
            deadline: watch::Sender::default(),
            outcome: watch::Sender::default(),
            side_tasks: TaskTracker::new(),
            default_grace,
        }
    }

    /// Begins the drain with a grace period of `within`, or the default. Once it has begun, the earliest deadline
    /// holds.
    pub fn begin(&self, within: Option<Duration>) {
        let requested = Instant::now() + within.unwrap_or(self.default_grace).min(DRAIN_GRACE_MAX);
        self.deadline
            .send_modify(|deadline| *deadline = Some(deadline.map_or(requested, |current| current.min(requested))));
    }

    /// Whether the drain has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.deadline.borrow().is_some()
    }

    /// Waits until the drain begins.
    pub async fn begun(&self) {
        // `self` holds a sender, so the channel cannot close meanwhile.
        _ = self.deadline.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until the deadline, as brought forward, has passed.
    pub async fn overdue(&self) {
        let mut deadline = self.deadline.subscribe();
        loop {
            let until = *deadline.borrow_and_update();
            let passed = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = passed => return,
                _ = deadline.changed() => {}
            }
        }
    }

    /// Time until the deadline; zero before the drain begins.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.borrow().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether the deadline passed at least `by` ago.
    #[must_use]
    pub fn is_overdue(&self, by: Duration) -> bool {
        self.deadline.borrow().is_some_and(|until| Instant::now() >= until + by)
    }

    /// Tasks that start processes and are not runs. They must end themselves and their processes when the drain begins.
    pub(crate) fn side_tasks(&self) -> &TaskTracker {
        &self.side_tasks
    }

    /// Waits until all of these tasks have ended.
    pub(crate) async fn side_tasks_ended(&self) {
        self.side_tasks.close();
        self.side_tasks.wait().await;
    }

    /// Publishes the result once no run is left.
    pub(crate) fn finish(&self, closed: ClosedRuns) {
        self.outcome.send_replace(Some(closed));
    }

    /// Waits for the result.
    pub async fn outcome(&self) -> ClosedRuns {
        self.outcome.subscribe().wait_for(Option::is_some).await.ok().and_then(|closed| *closed).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn the_earlier_deadline_holds() {
        let drain = Drain::new(Duration::from_secs(30));
        assert!(timeout(Duration::from_secs(60), drain.begun()).await.is_err());
        assert!(timeout(Duration::from_secs(60), drain.overdue()).await.is_err(), "the drain has not begun");
        drain.begin(None);
        drain.begun().await;
        assert_eq!(drain.remaining(), Duration::from_secs(30));
        drain.begin(Some(Duration::from_secs(600)));
        assert_eq!(drain.remaining(), Duration::from_secs(30), "a later deadline has no effect");
        let (from, waiting) = (Instant::now(), drain.clone());
        let waiting = tokio::spawn(async move { waiting.overdue().await });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!waiting.is_finished());
        drain.begin(Some(Duration::from_secs(5)));
        waiting.await.unwrap();
        assert_eq!(from.elapsed(), Duration::from_secs(15), "current waiters see the new deadline");
        assert!(drain.is_overdue(Duration::ZERO) && !drain.is_overdue(Duration::from_secs(1)));
    }
}
