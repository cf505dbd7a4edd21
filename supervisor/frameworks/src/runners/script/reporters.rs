//! Parses the reports of proctor's reporters in the processes below a command. Several may run at the same time; each line starts
//! with its reporter's token.

use crate::contract::{Parser, Step, StreamSummary};
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::notes::Notes;
use crate::parsing::workspace_paths::WorkspacePaths;
use crate::runners::jest;
use crate::runners::mocha;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::TestId;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most reporters of one command.
const REPORTERS_MAX: usize = 256;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 64;

/// Separator between a file and the titles within it.
const SEPARATOR: &str = " > ";

/// The runners whose reporters can be loaded below a command.
const RUNNERS: [RunnerProfile; 2] = [mocha::PROFILE, jest::PROFILE];

/// The line with which a reporter begins.
#[derive(Debug, Deserialize)]
struct Begin {
    event: String,
    token: String,
    runner: String,
}

/// The reporters of the current command.
#[derive(Debug)]
pub(super) struct Reporters {
    paths: WorkspacePaths,
    steps: Vec<Step>,
    step: usize,
    /// Package of its tests.
    package: String,
    lines: LineSplitter,
    by_token: BTreeMap<String, ReporterParser>,
    /// Lines of unknown reporters.
    foreign: u64,
}

impl Reporters {
    pub(super) fn new(paths: WorkspacePaths, steps: Vec<Step>) -> Reporters {
        let (lines, by_token) = (LineSplitter::default(), BTreeMap::new());
        Reporters { paths, steps, step: 0, package: String::new(), lines, by_token, foreign: 0 }
    }

    pub(super) fn step_started(&mut self, step: usize, package: &str) {
        (self.step, self.package) = (step, package.to_owned());
        (self.lines, self.foreign) = (LineSplitter::default(), 0);
        self.by_token.clear();
    }

    /// Whether a reporter has begun.
    pub(super) fn are_active(&self) -> bool {
        !self.by_token.is_empty()
    }

    pub(super) fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let from = events.len();
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
        self.rename(events, from);
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let token = line.split(|byte| *byte == b' ').next().and_then(|token| std::str::from_utf8(token).ok());
        if let Some(reported) = token.and_then(|token| self.by_token.get_mut(token)) {
            [line, b"\n"].iter().for_each(|bytes| reported.report(bytes, events));
            return;
        }
        let begin = serde_json::from_slice::<Begin>(line).ok().filter(|begin| {
            let is_token = !begin.token.is_empty() && begin.token.len() <= TOKEN_BYTES_MAX;
            begin.event == "begin" && is_token && !begin.token.contains(' ') && self.by_token.len() < REPORTERS_MAX
        });
        let identify =
            |begin: Begin| Some((RUNNERS.into_iter().find(|runner| runner.name == begin.runner)?, begin.token));
        let Some((profile, token)) = begin.and_then(identify) else {
            self.foreign += u64::from(!line.is_empty());
            return;
        };
        let mut reported = ReporterParser::with_steps(profile, self.paths.clone(), self.steps.clone());
        reported.step_started(self.step);
        [line, b"\n"].iter().for_each(|bytes| reported.report(bytes, events));
        self.by_token.insert(token, reported);
    }

    /// The combined summary and the number of flaky tests. A reporter without an end leaves the command without a proof.
    pub(super) fn step_ended(
        &mut self,
        exit: Exit,
        killed: bool,
        events: &mut Vec<RunnerEvent>,
    ) -> (StreamSummary, u64) {
        let (mut summary, mut notes, from) = (StreamSummary::default(), Notes::default(), events.len());
        let (mut flaky, mut proof) = (0, Proof::Shown { tests: 0 });
        for reported in self.by_token.values_mut() {
            reported.step_ended(exit, killed, events);
            let own = reported.summary();
            proof = proof.and(own.proof);
            summary.unreached |= own.unreached;
            own.notes.into_iter().for_each(|note| notes.add(note));
            flaky += reported.flaky();
        }
        if self.foreign > 0 {
            proof = Proof::Missing;
            notes.add(format!("{} line(s) of the report came from no known reporter", self.foreign));
        }
        self.rename(events, from);
        (StreamSummary { proof, structured: true, notes: notes.to_vec(), ..summary }, flaky)
    }

    pub(super) fn running(&self) -> Vec<TestId> {
        self.by_token.values().flat_map(ReporterParser::running).map(|id| renamed(&self.package, id)).collect()
    }

    /// Gives the tests the package of the command, which is what a rerun runs.
    fn rename(&self, events: &mut [RunnerEvent], from: usize) {
        for event in events.iter_mut().skip(from) {
            match event {
                RunnerEvent::TestStarted(id) => *id = renamed(&self.package, id.clone()).bounded(),
                RunnerEvent::TestFinished(case) => {
                    let TestId { package, name } = renamed(&self.package, case.id()).bounded();
                    (case.package, case.name) = (package, name);
                }
                RunnerEvent::Collector(_) => {}
            }
        }
    }
}

fn renamed(package: &str, TestId { package: file, name }: TestId) -> TestId {
    TestId { package: package.to_owned(), name: format!("{file}{SEPARATOR}{name}") }
}
