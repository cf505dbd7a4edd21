//! The live line of a terminal: tests done of how many, failing so far, elapsed, memory. Cut to the terminal, never wrapped;
//! silent when stderr is no terminal. Must not know how a run ends.

use super::print;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use proctor_core::event::{self, RunEvent};
use proctor_core::human_units::format_bytes;
use proctor_core::test_case::CollectorKind;
use proctor_proto::printable;
use std::cell::RefCell;
use std::time::Duration;

/// The line, and the names of failing tests above it.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Tests that the run is expected to have, by an earlier run of the same.
    expected: Option<u64>,
    /// What is going on before the first test ends.
    work: &'static str,
    latest: RefCell<event::Progress>,
}

impl Progress {
    /// A line on stderr if `wanted` and it is a terminal.
    pub(super) fn new(wanted: bool, expected: Option<u64>, work: &'static str) -> Progress {
        let target = if wanted { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // The template is a constant; the fallback only keeps a mistake in it from ending a run. What is wide is cut to the
        // terminal as it is when the line is drawn.
        let style = ProgressStyle::with_template("{spinner} {elapsed} · {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message("starting");
        bar.enable_steady_tick(Duration::from_millis(125));
        Progress { bar, expected, work, latest: RefCell::default() }
    }

    /// Shows what an event changes.
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
                if test.outcome.is_failure() {
                    latest.tests_failed += 1;
                    self.failed("failed", &test.nodeid);
                }
            }
            RunEvent::Collector(collector) => {
                let what = match collector.kind {
                    CollectorKind::Build => "build failed",
                    CollectorKind::Collection => "collection failed",
                };
                self.failed(what, &collector.nodeid);
            }
            RunEvent::Missed { events } => {
                self.failed("not shown:", &format!("{events} events, for which the run's log had no room"));
            }
            RunEvent::Progress(progress) => {
                latest.memory_bytes = progress.memory_bytes;
                latest.running.clone_from(&progress.running);
            }
            _ => return,
        }
        self.bar.set_message(line(&latest, self.expected, self.work));
    }

    /// Has `print` print while the line is away.
    pub(super) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    fn failed(&self, what: &str, name: &str) {
        if !self.bar.is_hidden() {
            self.above(|| print::beside(&format!("\x1b[31m{what}\x1b[0m {}", printable::line(name))));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

// What matters comes first, since the end is what a narrow terminal cuts.
fn line(progress: &event::Progress, expected: Option<u64>, work: &str) -> String {
    let done = progress.tests_finished;
    let mut line = match expected.filter(|expected| (1..=*expected).contains(&done)) {
        Some(expected) => format!("{done} of ~{expected} tests ({}%)", done * 100 / expected),
        None if done == 0 => work.to_owned(),
        None => format!("{done} tests done"),
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
    use proctor_core::test_case::TestId;

    #[test]
    fn the_line_has_the_total_where_an_earlier_run_had_one() {
        let mut progress = event::Progress::default();
        assert_eq!(line(&progress, Some(400), "building"), "building");
        progress.tests_finished = 100;
        assert_eq!(line(&progress, Some(400), "building"), "100 of ~400 tests (25%)");
        assert_eq!(line(&progress, None, "building"), "100 tests done");
        assert_eq!(line(&progress, Some(99), "building"), "100 tests done", "there are more than there were");
        progress.tests_failed = 2;
        progress.running = Some(TestId { package: "p".into(), name: "a\nb".into() });
        assert_eq!(line(&progress, Some(100), "building"), "100 of ~100 tests (100%) · 2 failing · a\\nb");
    }
}
