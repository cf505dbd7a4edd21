//! A stream that may be TAP: it begins with a test point or a comment, and its plan would come last. Any program may print `ok 1`, so
//! tests are held back until the plan; a stream without one is not TAP.

use super::{POINT, TapParser, strip_ansi};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::event::RunnerEvent;

/// Most tests that are held back, and most bytes of their texts. A stream with so many consecutively numbered points is TAP even
/// without a plan.
const HELD_MAX: usize = 10_000;
const HELD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a stream is, as far as known after a line.
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
    /// Whether a point has been read.
    has_point: bool,
}

/// Whether a stream that may be TAP can start with this line.
pub(crate) fn may_start_stream(line: &str) -> bool {
    line.starts_with('#') || is_test_point(line)
}

/// Whether the line is a test point with its number; one of a subtest is indented.
pub(crate) fn is_test_point(line: &str) -> bool {
    let found = POINT.as_ref().and_then(|point| point.captures(line.trim_start_matches(' ')));
    found.is_some_and(|found| found.name("number").is_some())
}

impl TapCandidate {
    pub(crate) fn new(package: &str, paths: &WorkspacePaths) -> TapCandidate {
        TapCandidate { tap: TapParser::new(package, paths), held: Vec::new(), held_bytes: 0, has_point: false }
    }

    /// Reads the next line.
    pub(crate) fn line(&mut self, line: &str) -> Recognition {
        let line = strip_ansi(line);
        let known = self.held.len();
        self.tap.line(&line, &mut self.held);
        self.held_bytes += self.held.iter().skip(known).map(text_bytes).sum::<usize>();
        self.has_point |= is_test_point(&line);
        let many = self.held.len() >= HELD_MAX || self.held_bytes >= HELD_BYTES_MAX;
        if self.tap.is_certain() || many && !self.tap.is_incomplete {
            return Recognition::Tap;
        }
        let foreign = !self.has_point && !line.trim().is_empty() && !line.starts_with('#');
        if foreign || many { Recognition::NotTap } else { Recognition::Unknown }
    }

    /// The tests so far and the parser that continues, for a stream recognised as TAP.
    pub(crate) fn into_tap(self) -> (TapParser, Vec<RunnerEvent>) {
        (self.tap, self.held)
    }

    /// The number of failed points, for a stream that ended and was not TAP.
    pub(crate) fn count_failed(mut self) -> usize {
        self.tap.finish(&mut self.held);
        let failed =
            |event: &&RunnerEvent| matches!(event, RunnerEvent::TestFinished(test) if test.outcome.is_failure());
        self.held.iter().filter(failed).count()
    }
}

fn text_bytes(event: &RunnerEvent) -> usize {
    let RunnerEvent::TestFinished(test) = event else { return 0 };
    let texts = [&test.file, &test.message, &test.expected, &test.actual, &test.stack, &test.output];
    test.nodeid.len() + test.name.len() + texts.into_iter().flatten().map(String::len).sum::<usize>()
}
