//! What may be TAP: a stream that begins with a point, or with comments, whose plan would come last. Anything may print
//! `ok 1`, so nothing of it is told before the plan is there; without one it was not TAP. Must not know what else it may be.

use super::{POINT, TapParser, strip_ansi};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::event::RunnerEvent;

/// Most tests that are held back, and most bytes of their texts. So many points, each with the next number, are TAP whatever
/// comes then.
const HELD_MAX: usize = 10_000;
const HELD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What is known after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recognition {
    Unknown,
    Tap,
    NotTap,
}

#[derive(Debug)]
pub(crate) struct TapCandidate {
    tap: TapParser,
    held: Vec<RunnerEvent>,
    held_bytes: usize,
    /// Whether a point came.
    begun: bool,
}

/// Whether the first line of a stream that may be TAP may be this one.
pub(crate) fn may_start_stream(line: &str) -> bool {
    line.starts_with('#') || is_test_point(line)
}

/// A point with its number; that of a subtest is indented.
pub(crate) fn is_test_point(line: &str) -> bool {
    let found = POINT.as_ref().and_then(|point| point.captures(line.trim_start_matches(' ')));
    found.is_some_and(|found| found.name("number").is_some())
}

impl TapCandidate {
    pub(crate) fn new(package: &str, paths: &WorkspacePaths) -> TapCandidate {
        TapCandidate { tap: TapParser::new(package, paths), held: Vec::new(), held_bytes: 0, begun: false }
    }

    /// The next line.
    pub(crate) fn line(&mut self, line: &str) -> Recognition {
        let line = strip_ansi(line);
        let told = self.held.len();
        self.tap.line(&line, &mut self.held);
        self.held_bytes += self.held.iter().skip(told).map(bytes).sum::<usize>();
        self.begun |= is_test_point(&line);
        let many = self.held.len() >= HELD_MAX || self.held_bytes >= HELD_BYTES_MAX;
        if self.tap.is_certain() || many && !self.tap.cut_off {
            return Recognition::Tap;
        }
        let foreign = !self.begun && !line.trim().is_empty() && !line.starts_with('#');
        if foreign || many { Recognition::NotTap } else { Recognition::Unknown }
    }

    /// It is TAP: the tests so far, and what reads on.
    pub(crate) fn into_tap(self) -> (TapParser, Vec<RunnerEvent>) {
        (self.tap, self.held)
    }

    /// It ended and was not TAP: how many of its points failed.
    pub(crate) fn failed(mut self) -> usize {
        self.tap.finish(&mut self.held);
        let failed =
            |event: &&RunnerEvent| matches!(event, RunnerEvent::TestFinished(test) if test.outcome.is_failure());
        self.held.iter().filter(failed).count()
    }
}

fn bytes(event: &RunnerEvent) -> usize {
    let RunnerEvent::TestFinished(test) = event else { return 0 };
    let texts = [&test.file, &test.message, &test.expected, &test.actual, &test.stack, &test.output];
    test.nodeid.len() + test.name.len() + texts.into_iter().flatten().map(String::len).sum::<usize>()
}
