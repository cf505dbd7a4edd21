//! Progress notifications for a call: often enough that the client does not give up, and not more often than a person can
//! read.

use proctor_proto::v1::{Progress as ProgressEvent, TestCase, TestId, TestOutcome};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Shortest time between two notifications.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Longest time between two notifications: clients treat silence as a hang.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// How long the last notification may delay the answer.
const LAST_MAX: Duration = Duration::from_millis(500);

/// Longest name of a running test in a progress line, in characters. Clients show one line.
const NAME_CHARS_MAX: usize = 80;

/// Progress of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProgressState {
    /// Phase in which no test can finish: `queued behind 2 other run(s)`.
    pub(crate) waiting: Option<String>,
    /// What a run does that has no tests: `checking`.
    pub(crate) work: Option<&'static str>,
    /// Events that the supervisor did not keep.
    pub(crate) missed: u64,
    /// Tests that have finished.
    pub(crate) finished: u64,
    /// Tests that will have finished at the end, if the runner has said so.
    pub(crate) total: Option<u64>,
    /// Those of them that failed.
    pub(crate) failing: u64,
    /// Memory in use, in bytes, if the host can measure it.
    pub(crate) memory_bytes: Option<u64>,
    /// A test that is running.
    pub(crate) running: Option<TestId>,
}

impl ProgressState {
    /// Progress of a run that waits.
    pub(crate) fn waiting(text: impl Into<String>) -> ProgressState {
        ProgressState { waiting: Some(text.into()), ..ProgressState::default() }
    }

    /// Progress of a check that waits.
    pub(crate) fn waiting_check() -> ProgressState {
        ProgressState { work: Some("checking"), ..ProgressState::waiting("starting") }
    }

    /// Records the position of a queued run; at 0 it starts at once.
    pub(crate) fn record_queue_position(&mut self, position: u32) {
        self.waiting = Some(match position {
            0 => "starting".to_owned(),
            position => format!("queued behind {position} other run(s)"),
        });
    }

    /// Records that a test has started.
    pub(crate) fn record_start(&mut self, test: Option<TestId>) {
        self.waiting = None;
        self.running = test.or(self.running.take());
    }

    /// Counts a finished test.
    pub(crate) fn record_test(&mut self, test: &TestCase) {
        self.waiting = None;
        self.running.take_if(|running| running.name == test.name && running.package == test.package);
        self.count_test(test.outcome());
    }

    fn count_test(&mut self, outcome: TestOutcome) {
        self.finished += 1;
        self.failing += u64::from(matches!(outcome, TestOutcome::Failed | TestOutcome::Error));
    }

    /// Applies the supervisor's counts, which include events from before the stream began.
    pub(crate) fn record_counts(&mut self, event: &ProgressEvent) {
        self.waiting = None;
        self.finished = self.finished.max(event.tests_finished);
        self.failing = self.failing.max(event.tests_failed);
        self.total = event.tests_total;
        self.memory_bytes = event.memory_bytes.or(self.memory_bytes);
        self.running = event.running.clone().or(self.running.take());
    }

    /// Applies the counts of a run that was under way already, if it has any.
    pub(crate) fn record_counts_if_any(&mut self, event: Option<&ProgressEvent>) {
        if let Some(event) = event.filter(|event| event.tests_finished > 0) {
            self.record_counts(event);
        }
    }

    /// The value of a progress notification: the finished tests. MCP requires that it rises each time, and it must not exceed
    /// the total, so that it is less by a part of a test that shrinks with the time. Before the first test it is below one half.
    fn value(&self, elapsed: Duration) -> f64 {
        let seconds = elapsed.as_secs_f64();
        // A run has fewer tests than that.
        let finished = u32::try_from(self.finished).map_or(f64::from(u32::MAX), f64::from);
        if self.finished == 0 { 0.5 * seconds / (1.0 + seconds) } else { finished - 0.5 / (1.0 + 100.0 * seconds) }
    }

    /// The total of a progress notification, which no value exceeds; `None` if it is not known.
    fn total(&self) -> Option<f64> {
        let total = self.total.filter(|total| self.waiting.is_none() && *total >= self.finished)?;
        u32::try_from(total).ok().map(f64::from)
    }

    /// One line: `12 of 40 tests done, 1 failing, 3.2s, 45 MiB, running TestParse`.
    pub(crate) fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        if let Some(waiting) = &self.waiting {
            return format!("{waiting}, {seconds:.1}s");
        }
        let memory = self.memory_bytes.map(|bytes| format!(", {} MiB", bytes >> 20)).unwrap_or_default();
        let missed = Some(self.missed).filter(|missed| *missed > 0);
        let missed = missed.map(|missed| format!(", {missed} events not shown")).unwrap_or_default();
        if let Some(work) = self.work {
            return format!("{work}, {seconds:.1}s{memory}{missed}");
        }
        let running = self.running.as_ref().map(|test| format!(", running {}", short_name(test))).unwrap_or_default();
        let total = self.total.filter(|total| *total >= self.finished);
        let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
        format!("{}{total} tests done, {} failing, {seconds:.1}s{memory}{missed}{running}", self.finished, self.failing)
    }
}

// The end of a long name tells more than its beginning.
fn short_name(test: &TestId) -> String {
    let name = if test.name.is_empty() { &test.package } else { &test.name };
    let excess = name.chars().count().saturating_sub(NAME_CHARS_MAX);
    let mark = if excess > 0 { "…" } else { "" };
    let end: String = name.chars().skip(excess).map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{mark}{end}")
}

/// A client that asked for progress.
#[derive(Clone)]
pub(crate) struct ProgressClient {
    pub(crate) peer: Peer<RoleServer>,
    pub(crate) token: ProgressToken,
    /// Cancelled when the call is answered: MCP forbids progress notifications after that.
    pub(crate) answered: CancellationToken,
}

/// Reports the latest progress to the client, if it asked for it. A slow client misses updates; it never delays a run.
pub(crate) struct ProgressReporter {
    state: watch::Sender<ProgressState>,
    // At most one task, which ends when this is dropped.
    task: JoinSet<()>,
}

impl ProgressReporter {
    /// Starts reporting to `client` under its progress token; without one, nothing is reported.
    pub(crate) fn start(client: Option<ProgressClient>, initial: ProgressState) -> ProgressReporter {
        let (state, latest) = watch::channel(initial);
        let mut task = JoinSet::new();
        if let Some(ProgressClient { peer, token, answered }) = client {
            task.spawn(async move {
                answered.run_until_cancelled(report(peer, token, latest)).await;
            });
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
        let (value, total, line) = {
            let (state, elapsed) = (latest.borrow_and_update(), started.elapsed());
            (state.value(elapsed), state.total(), state.line(elapsed))
        };
        let mut param = ProgressNotificationParam::new(token.clone(), value).with_message(line);
        param.total = total;
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
        let mut state = ProgressState::default();
        state.record_queue_position(2);
        assert_eq!(state.line(Duration::from_millis(1_500)), "queued behind 2 other run(s), 1.5s");
        let test = |outcome: TestOutcome| TestCase { outcome: outcome.into(), ..TestCase::default() };
        state.record_test(&test(TestOutcome::Passed));
        state.record_test(&test(TestOutcome::Error));
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
        let mut check = ProgressState::waiting_check();
        assert_eq!(check.line(Duration::from_secs(1)), "starting, 1.0s");
        check.waiting = None;
        assert_eq!(check.line(Duration::from_secs(2)), "checking, 2.0s");
    }

    #[test]
    fn shows_a_total_that_the_runner_announced_and_no_other() {
        let counts =
            |tests_finished, tests_total| ProgressEvent { tests_finished, tests_total, ..ProgressEvent::default() };
        let mut state = ProgressState::waiting("building");
        assert_eq!(state.total(), None);
        state.record_counts(&counts(3, Some(40)));
        assert_eq!(state.total(), Some(40.0));
        assert_eq!(state.line(Duration::ZERO), "3 of 40 tests done, 0 failing, 0.0s");
        assert!(state.value(Duration::from_secs(3_600)) < 40.0);
        state.record_counts(&counts(40, Some(40)));
        assert!(state.value(Duration::from_secs(3_600)) < 40.0);
        state.record_counts(&counts(41, Some(40)));
        assert_eq!((state.total(), state.line(Duration::ZERO).as_str()), (None, "41 tests done, 0 failing, 0.0s"));
        state.record_counts(&counts(41, None));
        assert_eq!(state.total(), None);
    }

    #[test]
    fn names_the_running_test_until_it_has_finished() {
        let id = |name: &str| Some(TestId { package: "a".into(), name: name.into() });
        let mut state = ProgressState::waiting("starting");
        state.record_start(id("TestSlow"));
        assert_eq!(state.line(Duration::ZERO), "0 tests done, 0 failing, 0.0s, running TestSlow");
        let finished = |name: &str| TestCase { package: "a".into(), name: name.into(), ..TestCase::default() };
        state.record_test(&finished("TestFast"));
        assert!(state.line(Duration::ZERO).ends_with(", running TestSlow"));
        state.record_test(&finished("TestSlow"));
        assert_eq!(state.line(Duration::ZERO), "2 tests done, 0 failing, 0.0s");
        state.record_counts(&ProgressEvent {
            running: id(&format!("{}\n>z", "y".repeat(100))),
            ..ProgressEvent::default()
        });
        let line = state.line(Duration::ZERO);
        assert!(line.ends_with("y >z") && line.contains("running …y"), "{line}");
        assert_eq!(line.chars().filter(|c| *c == 'y').count(), NAME_CHARS_MAX - 3);
    }

    #[test]
    fn the_value_counts_tests_and_always_rises() {
        let mut state = ProgressState::default();
        let mut last = -1.0;
        for step in 0..20_000_u32 {
            state.finished += u64::from(step % 100 == 99);
            let value = state.value(Duration::from_millis(250) * step);
            assert!(value > last, "{step}: {value}");
            last = value;
        }
        assert_eq!(last.round(), 200.0);
    }
}
