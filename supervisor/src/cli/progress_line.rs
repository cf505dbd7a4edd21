//! The progress line at a terminal: tests done and expected, failures, elapsed time, memory. Cut to the terminal width;
//! hidden if stderr is no terminal.

use super::print;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::{self, RunEvent};
use proctor_core::human_units::format_bytes;
use proctor_core::test_case::{CollectorKind, TestId};
use proctor_proto::printable;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

/// The progress line, and the failing tests printed above it.
pub(super) struct ProgressLine {
    bar: ProgressBar,
    /// Number of tests expected from an earlier complete run.
    expected: Option<u64>,
    /// Activity shown before the first test ends.
    work: &'static str,
    latest: RefCell<event::Progress>,
    /// The tests that failed, so that one that fails again is counted once; at most [`TEST_CASES_MAX`].
    failed: RefCell<BTreeSet<TestId>>,
}

impl ProgressLine {
    /// A line on stderr, if `enabled` and stderr is a terminal.
    pub(super) fn new(enabled: bool, expected: Option<u64>, work: &'static str) -> ProgressLine {
        let target = if enabled { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // The template is a constant; the fallback only keeps a mistake in it from ending a run. The wide part is cut
        // to the terminal width each time the line is drawn.
        let style = ProgressStyle::with_template("{spinner} {elapsed} · {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message("starting");
        bar.enable_steady_tick(Duration::from_millis(125));
        ProgressLine { bar, expected, work, latest: RefCell::default(), failed: RefCell::default() }
    }

    /// Updates the line for an event.
    pub(super) fn show(&self, event: &RunEvent) {
        let mut latest = self.latest.borrow_mut();
        match event {
            RunEvent::Queued { position } if *position > 0 => {
                self.bar.set_message(format!("waiting behind {position}"));
                return;
            }
            RunEvent::Started { .. } => {}
            RunEvent::TestFinished(test) => {
                latest.tests_finished += 1;
                if test.is_own_failure() && self.fails_first(test.id()) {
                    latest.tests_failed += 1;
                    self.print_failure("failed", &test.nodeid);
                }
            }
            RunEvent::Collector(collector) => {
                let what = match collector.kind {
                    CollectorKind::Build => "build failed",
                    CollectorKind::Collection => "collection failed",
                };
                self.print_failure(what, &collector.nodeid);
            }
            RunEvent::Missed { events } => {
                self.print_failure("not shown:", &format!("{events} events, for which the run's log had no room"));
            }
            RunEvent::Progress(progress) => {
                latest.memory_bytes = progress.memory_bytes;
                latest.tests_total = progress.tests_total;
                latest.running.clone_from(&progress.running);
            }
            _ => return,
        }
        self.bar.set_message(line(&latest, self.expected, self.work));
    }

    /// Whether this test did not fail before in this run, by a repetition or before a retry.
    fn fails_first(&self, test: TestId) -> bool {
        let mut failed = self.failed.borrow_mut();
        failed.len() >= TEST_CASES_MAX || failed.insert(test)
    }

    /// Calls `print` while the line is hidden.
    pub(super) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    fn print_failure(&self, what: &str, name: &str) {
        if !self.bar.is_hidden() {
            self.above(|| print::message(&format!("\x1b[31m{what}\x1b[0m {}", printable::line(name))));
        }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

// The most important part comes first, because a narrow terminal cuts the end.
fn line(progress: &event::Progress, expected: Option<u64>, work: &str) -> String {
    let done = progress.tests_finished;
    let total = progress.tests_total.filter(|total| *total > 0 && done <= *total);
    let expected = expected.filter(|expected| (1..=*expected).contains(&done));
    let mut line = match (total, expected) {
        (Some(total), _) => format!("{done} of {total} tests ({}%)", done * 100 / total),
        (None, Some(expected)) => format!("{done} of ~{expected} tests ({}%)", done * 100 / expected),
        _ if done == 0 => work.to_owned(),
        _ => format!("{done} tests done"),
    };
    if progress.tests_failed > 0 {
        line.push_str(&format!(" · {} failing", progress.tests_failed));
    }
    if let Some(bytes) = progress.memory_bytes {
        line.push_str(&format!(" · {}", format_bytes(bytes)));
    }
    if let Some(test) = &progress.running {
        line.push_str(&format!(" · {}", printable::line(&test.name)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::{TestCase, TestOutcome};
    use std::sync::Arc;

    #[test]
    fn a_test_that_fails_again_is_counted_once() {
        let progress = ProgressLine::new(false, None, "building");
        let finished = |name: &str, outcome| {
            let id = TestId { package: "p".into(), name: name.into() };
            RunEvent::TestFinished(Arc::new(TestCase::new(id, format!("p/{name}"), outcome)))
        };
        for (name, outcome) in [
            ("a", TestOutcome::Failed),
            ("b", TestOutcome::Failed),
            ("c", TestOutcome::Passed),
            ("a", TestOutcome::Error),
            ("b", TestOutcome::Passed),
        ] {
            progress.show(&finished(name, outcome));
        }
        assert_eq!(progress.latest.borrow().tests_failed, 2);
    }

    #[test]
    fn shows_the_total_of_an_earlier_run() {
        let mut progress = event::Progress::default();
        assert_eq!(line(&progress, Some(400), "building"), "building");
        progress.tests_total = Some(0);
        assert_eq!(line(&progress, Some(400), "building"), "building");
        progress.tests_total = Some(5);
        assert_eq!(line(&progress, Some(400), "building"), "0 of 5 tests (0%)");
        progress.tests_total = None;
        progress.tests_finished = 100;
        assert_eq!(line(&progress, Some(400), "building"), "100 of ~400 tests (25%)");
        assert_eq!(line(&progress, None, "building"), "100 tests done");
        assert_eq!(line(&progress, Some(99), "building"), "100 tests done", "more tests than expected");
        progress.tests_total = Some(200);
        assert_eq!(line(&progress, Some(400), "building"), "100 of 200 tests (50%)", "what the runner said is exact");
        progress.tests_total = None;
        progress.tests_failed = 2;
        progress.running = Some(TestId { package: "p".into(), name: "a\nb".into() });
        assert_eq!(line(&progress, Some(100), "building"), "100 of ~100 tests (100%) · 2 failing · a\\nb");
    }
}
