//! Renders the events of a recorded stream for a snapshot.

use proctor_core::event::RunnerEvent;
use proctor_core::test_case::TestCase;
use std::fmt::Write as _;

/// Renders events, each test with `write_test`.
pub(crate) fn render(events: &[RunnerEvent], write_test: fn(&mut String, &TestCase)) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => write_test(&mut text, test),
            RunnerEvent::Collector(collector) => {
                writeln!(text, "{:?} {} {:?}:{:?}", collector.kind, collector.nodeid, collector.file, collector.line)
                    .unwrap();
                writeln!(
                    text,
                    "    message: {:?}\n    output: {} lines",
                    collector.message,
                    collector.output.lines().count()
                )
                .unwrap();
            }
        }
    }
    text
}
