//! Progress notifications for a call: often enough that the client does not give up, and not more often than a person can
//! read.

use proctor_proto::v1::{Progress as ProgressEvent, TestOutcome};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Shortest time between two notifications.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Longest time between two notifications: clients treat silence as a hang.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// How long the last notification may delay the answer.
const LAST_MAX: Duration = Duration::from_millis(500);

/// Progress of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProgressState {
    /// Phase in which no test can finish: `queued, position 2`.
    pub(crate) waiting: Option<String>,
    /// Events that the supervisor did not keep.
    pub(crate) missed: u64,
    /// Tests that have finished.
    pub(crate) finished: u64,
    /// Those of them that failed.
    pub(crate) failing: u64,
    /// Memory in use, in bytes, if the host can measure it.
    pub(crate) memory_bytes: Option<u64>,
}

impl ProgressState {
    /// Progress of a run that waits.
    pub(crate) fn waiting(text: impl Into<String>) -> ProgressState {
        ProgressState { waiting: Some(text.into()), ..ProgressState::default() }
    }

    /// Counts a finished test.
    pub(crate) fn record_test(&mut self, outcome: TestOutcome) {
        self.waiting = None;
        self.finished += 1;
        self.failing += u64::from(matches!(outcome, TestOutcome::Failed | TestOutcome::Error));
    }

    /// Applies the supervisor's counts, which include events from before the stream began.
    pub(crate) fn record_counts(&mut self, event: &ProgressEvent) {
        self.waiting = None;
        self.finished = self.finished.max(event.tests_finished);
        self.failing = self.failing.max(event.tests_failed);
        self.memory_bytes = event.memory_bytes.or(self.memory_bytes);
    }

    /// Applies the counts of a run that was under way already, if it has any.
    pub(crate) fn record_counts_if_any(&mut self, event: Option<&ProgressEvent>) {
        if let Some(event) = event.filter(|event| event.tests_finished > 0) {
            self.record_counts(event);
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

/// Reports the latest progress to the client, if it asked for it. A slow client misses updates; it never delays a run.
pub(crate) struct ProgressReporter {
    state: watch::Sender<ProgressState>,
    // At most one task, which ends when this is dropped.
    task: JoinSet<()>,
}

impl ProgressReporter {
    /// Starts reporting to `client` under its progress token; without one, nothing is reported.
    pub(crate) fn start(client: Option<(Peer<RoleServer>, ProgressToken)>, initial: ProgressState) -> ProgressReporter {
        let (state, latest) = watch::channel(initial);
        let mut task = JoinSet::new();
        if let Some((peer, token)) = client {
            task.spawn(report(peer, token, latest));
        }
        ProgressReporter { state, task }
    }

    /// Updates the progress.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ProgressState)) {
        self.state.send_modify(change);
    }

    /// Stops reporting. MCP forbids progress notifications after the answer.
    pub(crate) async fn finish(self) {
        let ProgressReporter { state, mut task } = self;
        drop(state);
        if timeout(LAST_MAX, task.join_next()).await.is_err() {
            tracing::debug!("the client does not read progress notifications");
        }
    }
}

async fn report(peer: Peer<RoleServer>, token: ProgressToken, mut latest: watch::Receiver<ProgressState>) {
    let started = Instant::now();
    loop {
        let line = latest.borrow_and_update().line(started.elapsed());
        // Seconds since the call began: MCP requires a value that always rises.
        let seconds = started.elapsed().as_secs_f64();
        let param = ProgressNotificationParam::new(token.clone(), seconds).with_message(line);
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "the client refuses progress notifications");
            return;
        }
        // Both waits end when the sender is dropped, so that the answer is not delayed.
        let pause = tokio::time::sleep(INTERVAL_MIN);
        tokio::select! {
            () = pause => {}
            () = wait_closed(latest.clone()) => return,
        }
        if let Ok(Err(_)) = timeout(INTERVAL_MAX.saturating_sub(INTERVAL_MIN), latest.changed()).await {
            return;
        }
    }
}

async fn wait_closed(mut latest: watch::Receiver<ProgressState>) {
    while latest.changed().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_the_progress_line() {
        let mut state = ProgressState::waiting("queued, position 2");
        assert_eq!(state.line(Duration::from_millis(1_500)), "queued, position 2, 1.5s");
        state.record_test(TestOutcome::Passed);
        state.record_test(TestOutcome::Error);
        assert_eq!(state.line(Duration::from_secs(3)), "2 tests done, 1 failing, 3.0s");
        state.record_counts(&ProgressEvent {
            tests_finished: 12,
            tests_failed: 1,
            memory_bytes: Some(45 << 20),
            ..ProgressEvent::default()
        });
        assert_eq!(state.line(Duration::from_millis(3_210)), "12 tests done, 1 failing, 3.2s, 45 MiB");
        state.missed = 7;
        assert!(state.line(Duration::ZERO).ends_with("45 MiB, 7 events not shown"));
    }
}
