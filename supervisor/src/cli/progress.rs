//! The live line of a terminal: tests done, failing so far, elapsed, memory. Silent when stderr is no terminal. Must not
//! know how a run ends.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use proctor_core::event::{self, RunEvent};
use proctor_core::quantity::show_bytes;
use proctor_core::test_case::CollectorKind;
use proctor_proto::text::clean;
use std::cell::RefCell;
use std::time::Duration;

/// The line, and the names of failing tests above it.
pub(super) struct Progress {
    bar: ProgressBar,
    latest: RefCell<event::Progress>,
}

impl Progress {
    /// A line on stderr if `wanted` and it is a terminal.
    pub(super) fn new(wanted: bool) -> Progress {
        let target = if wanted { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // The template is a constant; the fallback only keeps a mistake in it from ending a run.
        let style = ProgressStyle::with_template("{spinner} {msg} · {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message("starting");
        bar.enable_steady_tick(Duration::from_millis(125));
        Progress { bar, latest: RefCell::default() }
    }

    /// Shows what an event changes.
    pub(super) fn show(&self, event: &RunEvent) {
        let mut latest = self.latest.borrow_mut();
        match event {
            RunEvent::Queued { position } if *position > 0 => {
                self.bar.set_message(format!("waiting behind {position}"));
                return;
            }
            RunEvent::Started { .. } => {
                self.bar.set_message("building");
                return;
            }
            RunEvent::TestFinished(test) => {
                latest.tests_finished += 1;
                if test.outcome.is_failure() {
                    latest.tests_failed += 1;
                    self.above("failed", &test.nodeid);
                }
            }
            RunEvent::Collector(collector) => {
                let what = match collector.kind {
                    CollectorKind::Build => "build failed",
                    CollectorKind::Collection => "collection failed",
                };
                self.above(what, &collector.nodeid);
            }
            RunEvent::Missed { events } => {
                self.above("not shown:", &format!("{events} events, for which the run's log had no room"));
            }
            RunEvent::Progress(progress) => {
                latest.memory_bytes = progress.memory_bytes;
                latest.running.clone_from(&progress.running);
            }
            _ => return,
        }
        self.bar.set_message(line(&latest));
    }

    fn above(&self, what: &str, name: &str) {
        if !self.bar.is_hidden() {
            let name = clean(name);
            self.bar.suspend(|| anstream::eprintln!("{} {name}", red(what)));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(progress: &event::Progress) -> String {
    let mut line = format!("{} tests done", progress.tests_finished);
    if progress.tests_failed > 0 {
        line.push_str(&format!(" · {} failing", progress.tests_failed));
    }
    if let Some(bytes) = progress.memory_bytes {
        line.push_str(&format!(" · {}", show_bytes(bytes)));
    }
    if let Some(test) = &progress.running {
        line.push_str(&format!(" · {}", clean(&test.name)));
    }
    line
}

fn red(text: &str) -> String {
    format!("\x1b[31m{text}\x1b[0m")
}
