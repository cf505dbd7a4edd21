//! Listings: the first line of an input names the framework, the rest is the output of its runner.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_fuzz::input::{Run, SILENT, Stream};
use proctor_fuzz::subject;

/// Largest number of commands of one listing that are replayed.
const COMMANDS_MAX: usize = 8;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let (name, rest) = (&bytes[..end], &bytes[end + 1..]);
    let Some(framework) = std::str::from_utf8(name).ok().and_then(subject::framework) else { return };
    let run = Run::parse(rest);
    let at = rest.len() / 3;
    assert_eq!(list(framework.name(), &run, 0), list(framework.name(), &run, at), "the listing depends on the split");
});

fn list(name: &str, run: &Run<'_>, at: usize) -> Vec<RunnerEvent> {
    let (plan, mut parser) = subject::parser(name, true);
    let (mut events, mut commands, mut command) = (Vec::new(), plan.steps.len(), 0);
    while command < commands.min(COMMANDS_MAX) {
        let step = run.steps.get(command).unwrap_or(&SILENT);
        parser.step_started(command);
        for (stream, piece) in &step.pieces {
            let (head, tail) = piece.split_at(at.min(piece.len()));
            for bytes in [head, tail] {
                match stream {
                    Stream::Stdout => parser.stdout(bytes, &mut events),
                    Stream::Stderr => parser.stderr(bytes, &mut events),
                    Stream::Report => parser.report(bytes, &mut events),
                }
            }
        }
        parser.step_ended(step.exit, step.killed, &mut events);
        commands += parser.follow_up().len();
        command += 1;
    }
    assert!(events.len() <= TEST_CASES_MAX + commands);
    for event in &events {
        match event {
            RunnerEvent::TestStarted(id) => assert_eq!(*id, id.clone().bounded()),
            RunnerEvent::Collector(collector) => assert_eq!(**collector, collector.as_ref().clone().bounded()),
            RunnerEvent::TestFinished(test) => assert_eq!(**test, test.as_ref().clone().bounded()),
        }
    }
    _ = parser.summary();
    events
}
