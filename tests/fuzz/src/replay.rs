//! Replays a run as a supervisor reads it: feeds the parser step by step, counts its events and derives the verdict.

use crate::input::{Run, SILENT, Stream};
use crate::subject;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::{KillReason, Outcome};
use proctor_core::report::Summary;
use proctor_core::test_case::{CollectorKind, TestId};
use proctor_core::verdict::{Facts, Verdict, judge};
use proctor_frameworks::{Parser, StreamSummary};

/// Largest number of commands of one run that are replayed.
const COMMANDS_MAX: usize = 16;

/// Result of a replayed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    pub events: Vec<RunnerEvent>,
    pub stream: StreamSummary,
    /// Tests that were running when proctor killed the run.
    pub running: Vec<TestId>,
    /// Tests that the parser still reports as running after the last step.
    pub unfinished: Vec<TestId>,
    pub killed: bool,
    pub verdict: Verdict,
}

impl Replay {
    pub fn is_green(&self) -> bool {
        self.verdict.outcome == Outcome::Passed
    }
}

/// Replays `run` for the framework called `name`. `cut` returns the position at which each piece is split in two.
pub fn replay(name: &str, run: &Run<'_>, cut: impl Fn(&[u8]) -> usize) -> Replay {
    let (plan, mut parser) = subject::parser(name, false);
    let (mut events, mut facts) = (Vec::new(), Facts { commands: plan.steps.len(), ..Facts::default() });
    let mut command = 0;
    while command < facts.commands.min(COMMANDS_MAX) {
        // A command that the input does not describe prints nothing.
        let step = run.steps.get(command).unwrap_or(&SILENT);
        parser.step_started(command);
        for (stream, piece) in &step.pieces {
            let (head, tail) = piece.split_at(cut(piece));
            feed(parser.as_mut(), *stream, head, &mut events);
            feed(parser.as_mut(), *stream, tail, &mut events);
        }
        if step.killed {
            (facts.killed, facts.running) = (Some(KillReason::Deadline), parser.running());
        }
        parser.step_ended(step.exit, step.killed, &mut events);
        facts.exits.push(step.exit);
        if parser.nothing_selected() {
            facts.nothing_selected.insert(command);
        }
        if step.killed {
            break;
        }
        facts.commands += parser.follow_up().len();
        command += 1;
    }
    parser.files(&run.files, &mut events);
    conclude(parser.as_ref(), events, facts)
}

fn feed(parser: &mut dyn Parser, stream: Stream, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
    match stream {
        Stream::Stdout => parser.stdout(bytes, events),
        Stream::Stderr => parser.stderr(bytes, events),
        Stream::Report => parser.report(bytes, events),
    }
}

fn conclude(parser: &dyn Parser, events: Vec<RunnerEvent>, mut facts: Facts) -> Replay {
    let mut summary = Summary::default();
    for event in &events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => summary.count(test.outcome),
            RunnerEvent::Collector(collector) => match collector.kind {
                CollectorKind::Build => facts.build_errors += 1,
                CollectorKind::Collection => facts.collection_errors += 1,
            },
        }
    }
    let (stream, running) = (parser.summary(), facts.running.clone());
    facts.summary = summary;
    (facts.structured, facts.proof, facts.runner_missing) = (stream.structured, stream.proof, stream.runner_missing);
    facts.unreached = stream.unreached;
    facts.notes.clone_from(&stream.notes);
    let killed = facts.killed.is_some();
    Replay { events, stream, running, unfinished: parser.running(), killed, verdict: judge(facts) }
}
