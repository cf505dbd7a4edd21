//! Reads what cargo and nextest write as they go: how the build went, then the results of each test binary, then doctests.
//! Must not know how a failure's text is read, or how command lines are written.
//!
//! With cargo, lines of our runner frame each test binary's, and within them only libtest's JSON counts, or its text where
//! the binary has a harness of its own. What comes after is rustdoc's text. Whatever else tests print is passed over, also
//! when it shares a line with a result. Nextest writes one stream in the same JSON, in which names carry their binary.

mod binary;
mod building;
mod harness;
mod missing;
mod record;
mod suites;

use super::build;
use super::failure::{Failure, Here};
use super::nextest;
use super::text::Text;
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::parsing::line_splitter::{LINE_BYTES_MAX, LineSplitter};
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail, strip_ansi};
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::running_tests::RunningTests;
use crate::parsing::workspace_paths::WorkspacePaths;
use binary::{Crash, Current};
use building::Building;
use harness::Silent;
use missing::missing;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::{CollectorKind, TestId, TestOutcome};
use suites::Suites;

/// Most silent tests that are held, and most binaries that are known. No project has as many.
const HELD_MAX: usize = 65_536;

/// What our runner writes before and after a binary (`runner.sh`).
const BEGAN: &str = "proctor-began ";
const PLAIN: &str = "proctor-plain ";
const ENDED: &str = "proctor-ended ";

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Cargo,
    Nextest,
}

/// What the stream is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Listing,
}

/// The parser of one run or listing.
#[derive(Debug)]
pub(super) struct RustParser {
    speaker: Speaker,
    mode: Mode,
    paths: WorkspacePaths,
    steps: Vec<Step>,
    step: usize,
    dir: String,
    lines: LineSplitter,
    stderr: OutputTail,
    building: Building,
    current: Option<Current>,
    doctests: Text,
    crashes: Vec<Crash>,
    suites: Suites,
    silent: Vec<Silent>,
    /// Whether the current step lists the ignored tests of the one before; such steps come after those of the plan.
    completes: bool,
    planned: usize,
    nothing_selected: bool,
    running: RunningTests,
    /// Failures and errors of the current step: what explains that it did not end well.
    blamed: u64,
    listed: usize,
    flaky: u64,
    proofs: ProofTracker,
    /// Tests that the harnesses of this step's whole binaries said that they have.
    announced: u64,
    summary: StreamSummary,
    notes: Notes,
}

impl RustParser {
    pub(super) fn new(speaker: Speaker, mode: Mode, plan: &Plan, request: &PlanRequest<'_>) -> RustParser {
        RustParser {
            speaker,
            mode,
            paths: WorkspacePaths::new(request.workspace),
            steps: plan.steps.clone(),
            step: 0,
            dir: String::new(),
            lines: LineSplitter::default(),
            stderr: OutputTail::default(),
            building: Building::default(),
            current: None,
            doctests: Text::default(),
            crashes: Vec::new(),
            suites: Suites::default(),
            silent: Vec::new(),
            completes: false,
            planned: plan.steps.len(),
            nothing_selected: false,
            running: RunningTests::default(),
            blamed: 0,
            listed: 0,
            flaky: 0,
            proofs: ProofTracker::default(),
            announced: 0,
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if !self.building.is_over && line.starts_with("{\"reason\":") {
            return self.building.line(line, Here { paths: &self.paths, dir: &self.dir });
        }
        if self.speaker == Speaker::Nextest {
            return if self.mode == Mode::Listing || self.completes {
                self.list_line(line, events)
            } else {
                self.harness_line(line, events)
            };
        }
        for (mark, is_plain) in [(BEGAN, false), (PLAIN, true)] {
            if let Some(binary) = line.strip_prefix(mark).filter(|_| self.current.is_none()) {
                return self.binary_began(binary, is_plain);
            }
        }
        if let Some(status) = line.strip_prefix(ENDED).filter(|_| self.current.is_some()) {
            return self.binary_ended(status.parse().unwrap_or(-1), events);
        }
        if self.current.as_ref().is_some_and(|now| !now.is_plain) {
            self.harness_line(line, events);
        } else {
            self.text_line(line, events);
        }
    }

    /// The runner failed, and nothing that was told is a reason.
    fn explain(&mut self, events: &mut Vec<RunnerEvent>) {
        let said = strip_ansi(&self.stderr.text());
        if let Some(remedy) = missing(&said) {
            self.summary.runner_missing = true;
            return self.notes.add(remedy);
        }
        let scripts = build::scripts(&said, self.here());
        if !scripts.is_empty() {
            self.blamed += scripts.len() as u64;
            return events.extend(scripts);
        }
        let kind = if self.building.has_failed { CollectorKind::Build } else { CollectorKind::Collection };
        let nodeid = if self.dir.is_empty() { "." } else { &self.dir };
        if let Some(refusal) = build::refusal(nodeid, kind, &said, self.here()) {
            self.blamed += 1;
            events.push(refusal);
        }
    }

    fn here(&self) -> Here<'_> {
        Here { paths: &self.paths, dir: &self.dir }
    }
}

impl Parser for RustParser {
    fn step_started(&mut self, step: usize) {
        self.step = step;
        self.dir = self.steps.get(step).or(self.steps.last()).map(|step| step.dir.clone()).unwrap_or_default();
        self.stderr = OutputTail::default();
        (self.blamed, self.announced) = (0, 0);
        self.proofs.start_step();
        self.building.begin();
        self.suites.begin();
        (self.current, self.doctests) = (None, Text::default());
        self.nothing_selected = false;
        self.completes = step >= self.planned;
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stderr.add(bytes);
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(line, events));
        self.lines = lines;
        self.blamed += self.building.tell(events);
        let mut told = Vec::new();
        if self.current.is_none() {
            self.doctests.finish(&mut told);
            self.tell(told, events);
        }
        self.tell_crashes(events);
        if killed {
            self.silent.clear();
        }
        self.tell_silent(events);
        let is_done = self.speaker == Speaker::Nextest && matches!(exit, Exit::Code(0 | 4 | 100)) && !killed;
        if is_done && self.suites.are_closed() {
            // What it left open are ignored tests, of which it tells the beginning.
            self.running.drain();
        }
        let is_cut =
            self.suites.lack_a_part() || self.current.is_some() || self.doctests.is_open() || !self.running.is_empty();
        if killed {
            return;
        }
        if !is_cut {
            self.proofs.record(self.announced);
        }
        let how = "did not finish: the runner ended before it";
        for id in self.running.drain() {
            let failure = Failure { message: Some(how.to_owned()), ..Failure::default() };
            self.finished(id, TestOutcome::Error, None, failure, "", events);
        }
        let is_well = matches!(exit, Exit::Code(0) | Exit::NotStarted(_));
        self.nothing_selected = self.speaker == Speaker::Nextest && exit == Exit::Code(4);
        if !is_well && self.blamed == 0 && !self.nothing_selected {
            self.explain(events);
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        let run = self
            .steps
            .get(self.step)
            .filter(|_| self.suites.has_ignored() && !self.completes && !self.nothing_selected);
        let steps: Vec<Step> = run.map(nextest::list_ignored).into_iter().collect();
        self.steps.extend(steps.iter().cloned());
        steps
    }

    fn nothing_selected(&self) -> bool {
        self.nothing_selected
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        self.running.iter().cloned().collect()
    }

    fn summary(&self) -> StreamSummary {
        let proof = self.proofs.proof();
        let mut summary = StreamSummary { proof, notes: self.notes.to_vec(), ..self.summary.clone() };
        let lost = [
            (self.building.unreadable, "line(s) of Cargo's could not be read".to_owned()),
            (self.lines.skipped_lines(), format!("line(s) of more than {LINE_BYTES_MAX} bytes were passed over")),
        ];
        for (count, what) in lost.into_iter().filter(|(count, _)| *count > 0) {
            summary.proof = Proof::Missing;
            summary.notes.push(format!("{count} {what}"));
        }
        summary
    }
}
