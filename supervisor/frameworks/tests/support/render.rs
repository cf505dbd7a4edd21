//! How the events of a golden stream are written into a snapshot. Must not know any framework.

use proctor_core::event::RunnerEvent;
use proctor_core::test_case::TestCase;
use std::fmt::Write as _;

/// What was told, each test as `write_test` writes it.
pub(crate) fn render(events: &[RunnerEvent], write_test: fn(&mut String, &TestCase)) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => write_test(&mut text, test),
            RunnerEvent::Collector(told) => {
                writeln!(text, "{:?} {} {:?}:{:?}", told.kind, told.nodeid, told.file, told.line).unwrap();
                writeln!(text, "    message: {:?}\n    output: {} lines", told.message, told.output.lines().count())
                    .unwrap();
            }
        }
    }
    text
}
