//! Renders replayed runs for snapshots: the facts that a reviewer would check, without durations.

use crate::recording::Replay;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, TestCase};
use std::fmt::Write as _;

/// How much of a text is rendered.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Detail {
    Omitted,
    /// The number of lines; of a stack also the first one.
    Brief,
    Whole,
}

/// What is rendered of the events.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// What follows the node id of a test.
    pub(crate) suffix: fn(&TestCase) -> String,
    /// Whether the file of a test is rendered although its line is unknown.
    pub(crate) shows_file_alone: bool,
    /// Whether started tests are rendered.
    pub(crate) shows_started: bool,
    pub(crate) stack: Detail,
    pub(crate) output: Detail,
    pub(crate) collector_output: Detail,
}

/// Long stacks and outputs as numbers of lines.
pub(crate) const BRIEF: Style = Style {
    suffix: |_| String::new(),
    shows_file_alone: false,
    shows_started: false,
    stack: Detail::Brief,
    output: Detail::Brief,
    collector_output: Detail::Brief,
};

/// Everything about a test, with its name and package.
const WHOLE: Style = Style {
    suffix: |test| format!(" ({} in {})", test.name, test.package),
    stack: Detail::Whole,
    output: Detail::Whole,
    ..BRIEF
};

/// A run with everything about its tests.
pub(crate) fn whole(replay: &Replay) -> String {
    format!("{}{:?}\n", WHOLE.render(&replay.events), replay.summary)
}

/// A run with long texts as numbers of lines.
pub(crate) fn brief(replay: &Replay) -> String {
    format!("{}{:?}\n", BRIEF.render(&replay.events), replay.summary)
}

/// A listing: its tests, its errors and its conclusions.
pub(crate) fn listing(replay: &Replay) -> String {
    let style = Style { shows_started: true, collector_output: Detail::Whole, ..BRIEF };
    style.render(&replay.events) + &conclusions(replay)
}

/// What the parser concluded from the whole run.
pub(crate) fn conclusions(replay: &Replay) -> String {
    format!("nothing selected: {}\n{:#?}\n", replay.nothing_selected, replay.summary)
}

impl Style {
    /// Renders tests and errors.
    pub(crate) fn render(self, events: &[RunnerEvent]) -> String {
        let mut text = String::new();
        for event in events {
            match event {
                RunnerEvent::TestStarted(id) if self.shows_started => writeln!(text, "started {id:?}").unwrap(),
                RunnerEvent::TestStarted(_) => {}
                RunnerEvent::TestFinished(test) => self.render_test(&mut text, test),
                RunnerEvent::Collector(collector) => self.render_collector(&mut text, collector),
            }
        }
        text
    }

    fn render_test(self, text: &mut String, test: &TestCase) {
        writeln!(text, "{} {}{}", test.outcome.name(), test.nodeid, (self.suffix)(test)).unwrap();
        if let Some(file) = test.file.as_ref().filter(|_| self.shows_file_alone || test.line.is_some()) {
            writeln!(text, "    at {file}:{}", test.line.unwrap_or_default()).unwrap();
        }
        for (label, value) in [("message", &test.message), ("expected", &test.expected), ("actual", &test.actual)] {
            if let Some(value) = value {
                writeln!(text, "    {label}: {value:?}").unwrap();
            }
        }
        let first_line =
            |stack: &str| format!("{:?} +{}", stack.lines().next().unwrap_or_default(), stack.lines().count());
        write_detail(text, "stack", self.stack, test.stack.as_deref().filter(|stack| !stack.is_empty()), first_line);
        write_detail(text, "output", self.output, test.output.as_deref(), number_of_lines);
    }

    fn render_collector(self, text: &mut String, collector: &Collector) {
        writeln!(text, "{:?} {} {:?}:{:?}", collector.kind, collector.nodeid, collector.file, collector.line).unwrap();
        writeln!(text, "    message: {:?}", collector.message).unwrap();
        write_detail(text, "output", self.collector_output, Some(&collector.output), number_of_lines);
    }
}

fn number_of_lines(text: &str) -> String {
    format!("{} lines", text.lines().count())
}

fn write_detail(text: &mut String, label: &str, detail: Detail, value: Option<&str>, brief: fn(&str) -> String) {
    match (detail, value) {
        (Detail::Omitted, _) | (_, None) => {}
        (Detail::Brief, Some(value)) => writeln!(text, "    {label}: {}", brief(value)).unwrap(),
        (Detail::Whole, Some(value)) => writeln!(text, "    {label}: {value:?}").unwrap(),
    }
}
