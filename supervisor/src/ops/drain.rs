//! The end of a supervisor: begun by whoever asks first, brought forward by whoever cannot wait, told when it is over. Must
//! not know who asks, nor what a run is.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

/// How long runs may go on unless a host file says otherwise: most suites end within it.
pub const DRAIN: Duration = Duration::from_secs(30);

/// Longest time that anybody may give them: a day.
pub const DRAIN_MAX: Duration = Duration::from_secs(86_400);

/// What became of the runs of a session that was closed, or of all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Closed {
    /// Those that ended between the beginning of the drain and the close.
    pub finished: usize,
    /// Those that the close ended.
    pub cancelled: usize,
}

/// The end of one supervisor. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Drain {
    /// Until when runs may go on, once it has begun.
    deadline: watch::Sender<Option<Instant>>,
    /// What became of them, once it is over.
    outcome: watch::Sender<Option<Closed>>,
    beside: TaskTracker,
    usual: Duration,
}

impl Drain {
    /// One that has not begun, in which runs may usually go on for `usual`.
    #[must_use]
    pub fn new(usual: Duration) -> Drain {
        Drain {
            deadline: watch::Sender::default(),
            outcome: watch::Sender::default(),
            beside: TaskTracker::new(),
            usual,
        }
    }

    /// Begins it, and lets runs go on for `within`, or as long as usual. Once it has begun, the earlier deadline holds.
    pub fn begin(&self, within: Option<Duration>) {
        let asked = Instant::now() + within.unwrap_or(self.usual).min(DRAIN_MAX);
        self.deadline.send_modify(|deadline| *deadline = Some(deadline.map_or(asked, |before| before.min(asked))));
    }

    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.deadline.borrow().is_some()
    }

    /// Returns when it has begun.
    pub async fn begun(&self) {
        // This value holds a sender, so the channel cannot close meanwhile.
        _ = self.deadline.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns when the deadline has passed, wherever it has been brought forward to.
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

    /// Time that runs have left; none before it has begun.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.deadline.borrow().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether the deadline passed `by` so much ago.
    #[must_use]
    pub fn is_overdue(&self, by: Duration) -> bool {
        self.deadline.borrow().is_some_and(|until| Instant::now() >= until + by)
    }

    /// What starts processes and is no run. It ends itself, and them, when this has begun.
    pub(crate) fn beside(&self) -> &TaskTracker {
        &self.beside
    }

    /// Returns when nothing of that goes on any more.
    pub(crate) async fn beside_ended(&self) {
        self.beside.close();
        self.beside.wait().await;
    }

    /// Tells everybody who waits for it that no run is left.
    pub(crate) fn finish(&self, closed: Closed) {
        self.outcome.send_replace(Some(closed));
    }

    /// What became of the runs, when none is left.
    pub async fn outcome(&self) -> Closed {
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
        assert!(timeout(Duration::from_secs(60), drain.overdue()).await.is_err(), "it has not begun");
        drain.begin(None);
        drain.begun().await;
        assert_eq!(drain.left(), Duration::from_secs(30));
        drain.begin(Some(Duration::from_secs(600)));
        assert_eq!(drain.left(), Duration::from_secs(30), "nobody prolongs it");
        let (from, waiting) = (Instant::now(), drain.clone());
        let waiting = tokio::spawn(async move { waiting.overdue().await });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!waiting.is_finished());
        drain.begin(Some(Duration::from_secs(5)));
        waiting.await.unwrap();
        assert_eq!(from.elapsed(), Duration::from_secs(15), "who waits already is told");
        assert!(drain.is_overdue(Duration::ZERO) && !drain.is_overdue(Duration::from_secs(1)));
    }
}
