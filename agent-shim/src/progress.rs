//! Telling the client how a call is getting on, often enough that it does not give up and not more often than a person can
//! read. Must not know where the news comes from.

use proctor_proto::v1::{Progress as ProgressEvent, TestOutcome};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Shortest time between two notifications.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Longest time between two notifications: clients count silence as a hang.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// How long the last notification may take before the answer goes out without it.
const LAST_MAX: Duration = Duration::from_millis(500);

/// How a run is getting on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProgressState {
    /// What is going on while no test can finish: `queued, position 2`.
    pub(crate) waiting: Option<String>,
    /// Events that nobody will see.
    pub(crate) missed: u64,
    /// Tests that have finished.
    pub(crate) finished: u64,
    /// Those of them that failed.
    pub(crate) failing: u64,
    /// Memory in use, in bytes, where it can be measured.
    pub(crate) memory_bytes: Option<u64>,
}

impl ProgressState {
    /// One that waits for something.
    pub(crate) fn waiting(text: impl Into<String>) -> ProgressState {
        ProgressState { waiting: Some(text.into()), ..ProgressState::default() }
    }

    /// Counts a finished test.
    pub(crate) fn test_finished(&mut self, outcome: TestOutcome) {
        self.waiting = None;
        self.finished += 1;
        self.failing += u64::from(matches!(outcome, TestOutcome::Failed | TestOutcome::Error));
    }

    /// Takes over the supervisor's own count, which also knows what was before we looked.
    pub(crate) fn counted(&mut self, event: &ProgressEvent) {
        self.waiting = None;
        self.finished = self.finished.max(event.tests_finished);
        self.failing = self.failing.max(event.tests_failed);
        self.memory_bytes = event.memory_bytes.or(self.memory_bytes);
    }

    /// Takes over the count of a run that was there before, if it has one.
    pub(crate) fn counted_at(&mut self, event: Option<&ProgressEvent>) {
        if let Some(event) = event.filter(|event| event.tests_finished > 0) {
            self.counted(event);
        }
    }

    /// One line: `12 tests done, 1 failing, 3.2s, 45 MiB`.
    pub(crate) fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        if let Some(waiting) = &self.waiting {
            return format!("{waiting}, {seconds:.1}s");
        }
        let memory = self.memory_bytes.map(|bytes| format!(", {} MiB", bytes >> 20)).unwrap_or_default();
        let missed = Some(self.missed).filter(|missed| *missed > 0);
        let missed = missed.map(|missed| format!(", {missed} events not shown")).unwrap_or_default();
        format!("{} tests done, {} failing, {seconds:.1}s{memory}{missed}", self.finished, self.failing)
    }
}

/// Reports the latest standing to the client, if it asked for reports. Slow clients skip news, they do not hold up a run.
pub(crate) struct ProgressReporter {
    news: watch::Sender<ProgressState>,
    // At most one task, which ends with this.
    task: JoinSet<()>,
}

impl ProgressReporter {
    /// Starts reporting to `client`, with the token that it gave, if it did.
    pub(crate) fn start(
        client: Option<(Peer<RoleServer>, ProgressToken)>,
        standing: ProgressState,
    ) -> ProgressReporter {
        let (news, latest) = watch::channel(standing);
        let mut task = JoinSet::new();
        if let Some((peer, token)) = client {
            task.spawn(report(peer, token, latest));
        }
        ProgressReporter { news, task }
    }

    /// Changes the standing.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ProgressState)) {
        self.news.send_modify(change);
    }

    /// Stops. No report follows the answer, as the protocol wants it.
    pub(crate) async fn finish(self) {
        let ProgressReporter { news, mut task } = self;
        drop(news);
        if timeout(LAST_MAX, task.join_next()).await.is_err() {
            tracing::debug!("the client does not read its progress");
        }
    }
}

async fn report(peer: Peer<RoleServer>, token: ProgressToken, mut latest: watch::Receiver<ProgressState>) {
    let started = Instant::now();
    loop {
        let line = latest.borrow_and_update().line(started.elapsed());
        // Seconds since the call began: the one measure that always rises, as the protocol wants it.
        let seconds = started.elapsed().as_secs_f64();
        let param = ProgressNotificationParam::new(token.clone(), seconds).with_message(line);
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "the client takes no progress");
            return;
        }
        // The sender's end is noticed in both waits, so that the answer is not held up.
        let pause = tokio::time::sleep(INTERVAL_MIN);
        tokio::select! {
            () = pause => {}
            () = closed(latest.clone()) => return,
        }
        if let Ok(Err(_)) = timeout(INTERVAL_MAX.saturating_sub(INTERVAL_MIN), latest.changed()).await {
            return;
        }
    }
}

async fn closed(mut latest: watch::Receiver<ProgressState>) {
    while latest.changed().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_counts() {
        let mut standing = ProgressState::waiting("queued, position 2");
        assert_eq!(standing.line(Duration::from_millis(1_500)), "queued, position 2, 1.5s");
        standing.test_finished(TestOutcome::Passed);
        standing.test_finished(TestOutcome::Error);
        assert_eq!(standing.line(Duration::from_secs(3)), "2 tests done, 1 failing, 3.0s");
        standing.counted(&ProgressEvent {
            tests_finished: 12,
            tests_failed: 1,
            memory_bytes: Some(45 << 20),
            ..ProgressEvent::default()
        });
        assert_eq!(standing.line(Duration::from_millis(3_210)), "12 tests done, 1 failing, 3.2s, 45 MiB");
        standing.missed = 7;
        assert!(standing.line(Duration::ZERO).ends_with("45 MiB, 7 events not shown"));
    }
}
