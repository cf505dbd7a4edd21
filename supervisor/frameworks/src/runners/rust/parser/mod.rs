//! Parses the output of cargo and nextest as it streams: the build, the results of each test binary, doctests.
//!
//! With cargo, lines of the wrapper frame the output of each test binary. Within a frame only libtest's JSON counts, or its
//! text format where the binary has a harness of its own. After the frames comes rustdoc's text. Any other output of tests is
//! skipped, also when it shares a line with a result. Nextest writes one stream in the same JSON, with the binary in the names.

mod build_output;
mod libtest_json;
mod missing_toolchain;
mod nextest_suites;
mod nextest_totals;
mod test_binary;
mod test_records;

use super::build_errors;
use super::failure::{FailureReason, PathContext};
use super::libtest_text::LibtestTextParser;
use super::nextest;
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::parsing::line_splitter::{LINE_BYTES_MAX, LineSplitter};
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail, strip_ansi};
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::running_tests::RunningTests;
use crate::parsing::workspace_paths::WorkspacePaths;
use build_output::BuildOutput;
use libtest_json::UnexplainedFailure;
use missing_toolchain::missing_remedy;
use nextest_suites::NextestSuites;
use nextest_totals::NextestTotals;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::request::Selection;
use proctor_core::test_case::{CollectorKind, TestId, TestOutcome};
use test_binary::{BinaryCrash, CurrentBinary};

/// Most unexplained failures that are held, and most binaries that are known. No project has as many.
const HELD_MAX: usize = 65_536;

/// Lines that the wrapper (`runner.sh`) writes before and after a binary.
const BEGAN: &str = "proctor-began ";
const PLAIN: &str = "proctor-plain ";
const ENDED: &str = "proctor-ended ";

/// The runner that writes the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunnerKind {
    Cargo,
    Nextest,
}

/// What a stream is parsed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Listing,
}

/// Parser of a run or a listing.
#[derive(Debug)]
pub(super) struct RustParser {
    runner: RunnerKind,
    mode: Mode,
    paths: WorkspacePaths,
    steps: Vec<Step>,
    step: usize,
    dir: String,
    lines: LineSplitter,
    stderr: OutputTail,
    build_output: BuildOutput,
    current: Option<CurrentBinary>,
    doctests: LibtestTextParser,
    crashes: Vec<BinaryCrash>,
    suites: NextestSuites,
    unexplained: Vec<UnexplainedFailure>,
    /// Whether the current step lists the ignored tests of the one before; such steps come after those of the plan.
    lists_ignored: bool,
    planned: usize,
    nothing_selected: bool,
    running: RunningTests,
    /// Failures and errors reported in the current step: they explain a bad exit status.
    reported_failures: u64,
    listed: usize,
    flaky: u64,
    proofs: ProofTracker,
    /// Tests that the harnesses of this step's complete binaries announced.
    announced: u64,
    /// Tests that nextest announced.
    totals: NextestTotals,
    summary: StreamSummary,
    notes: Notes,
}

impl RustParser {
    pub(super) fn new(runner: RunnerKind, mode: Mode, plan: &Plan, request: &PlanRequest<'_>) -> RustParser {
        RustParser {
            runner,
            mode,
            paths: WorkspacePaths::new(request.workspace),
            steps: plan.steps.clone(),
            step: 0,
            dir: String::new(),
            lines: LineSplitter::default(),
            stderr: OutputTail::default(),
            build_output: BuildOutput::default(),
            current: None,
            doctests: LibtestTextParser::default(),
            crashes: Vec::new(),
            suites: NextestSuites::default(),
            unexplained: Vec::new(),
            lists_ignored: false,
            planned: plan.steps.len(),
            nothing_selected: false,
            running: RunningTests::default(),
            reported_failures: 0,
            listed: 0,
            flaky: 0,
            proofs: ProofTracker::default(),
            announced: 0,
            totals: NextestTotals::new(*request.selection == Selection::All),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if !self.build_output.is_finished && line.starts_with("{\"reason\":") {
            return self.build_output.line(line, PathContext { paths: &self.paths, dir: &self.dir });
        }
        if self.runner == RunnerKind::Nextest {
            return if self.mode == Mode::Listing || self.lists_ignored {
                self.list_line(line, events)
            } else {
                self.harness_line(line, events)
            };
        }
        for (mark, is_plain) in [(BEGAN, false), (PLAIN, true)] {
            if let Some(binary) = line.strip_prefix(mark).filter(|_| self.current.is_none()) {
                return self.start_binary(binary, is_plain);
            }
        }
        if let Some(status) = line.strip_prefix(ENDED).filter(|_| self.current.is_some()) {
            return self.finish_binary(status.parse().unwrap_or(-1), events);
        }
        if self.current.as_ref().is_some_and(|now| !now.is_plain) {
            self.harness_line(line, events);
        } else {
            self.text_line(line, events);
        }
    }

    /// Reports why the runner failed, when nothing reported so far explains it.
    fn explain(&mut self, events: &mut Vec<RunnerEvent>) {
        let output = strip_ansi(&self.stderr.text());
        if let Some(remedy) = missing_remedy(&output) {
            self.summary.runner_missing = true;
            return self.notes.add(remedy);
        }
        let scripts = build_errors::failed_build_scripts(&output, self.here());
        if !scripts.is_empty() {
            self.reported_failures += scripts.len() as u64;
            return events.extend(scripts);
        }
        let kind = if self.build_output.has_failed { CollectorKind::Build } else { CollectorKind::Collection };
        let nodeid = if self.dir.is_empty() { "." } else { &self.dir };
        if let Some(collector) = build_errors::cargo_error_collector(nodeid, kind, &output, self.here()) {
            self.reported_failures += 1;
            events.push(collector);
        }
    }

    fn here(&self) -> PathContext<'_> {
        PathContext { paths: &self.paths, dir: &self.dir }
    }
}

impl Parser for RustParser {
    fn step_started(&mut self, step: usize) {
        self.step = step;
        self.dir = self.steps.get(step).or(self.steps.last()).map(|step| step.dir.clone()).unwrap_or_default();
        self.stderr = OutputTail::default();
        (self.reported_failures, self.announced) = (0, 0);
        self.proofs.start_step();
        self.build_output.begin();
        self.suites.begin();
        (self.current, self.doctests) = (None, LibtestTextParser::default());
        self.nothing_selected = false;
        self.lists_ignored = step >= self.planned;
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stderr.add(bytes);
        if self.runner == RunnerKind::Nextest && self.mode == Mode::Running && !self.lists_ignored {
            self.totals.feed(self.step, bytes);
        }
    }

    fn total(&self) -> Option<u64> {
        self.totals.sum(self.planned)
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(line, events));
        self.lines = lines;
        self.reported_failures += self.build_output.emit_collectors(events);
        let mut results = Vec::new();
        if self.current.is_none() {
            self.doctests.finish(&mut results);
            self.report_text_results(results, events);
        }
        self.report_crashes(events);
        if killed {
            self.unexplained.clear();
        }
        self.report_unexplained_failures(events);
        let is_done = self.runner == RunnerKind::Nextest && matches!(exit, Exit::Code(0 | 4 | 100)) && !killed;
        if is_done && self.suites.are_all_closed() {
            // Open tests are ignored ones, of which nextest reports only the start.
            self.running.drain();
        }
        let is_cut = self.suites.are_incomplete()
            || self.current.is_some()
            || self.doctests.is_open()
            || !self.running.is_empty();
        if killed {
            return;
        }
        if !is_cut {
            self.proofs.record(self.announced);
        }
        let how = "did not finish: the runner ended before it";
        for id in self.running.drain() {
            let failure = FailureReason { message: Some(how.to_owned()), ..FailureReason::default() };
            self.finish_test(id, TestOutcome::Error, None, failure, "", events);
        }
        let is_well = matches!(exit, Exit::Code(0) | Exit::NotStarted(_));
        self.nothing_selected = self.runner == RunnerKind::Nextest && exit == Exit::Code(4);
        if !is_well && self.reported_failures == 0 && !self.nothing_selected {
            self.explain(events);
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        let run = self
            .steps
            .get(self.step)
            .filter(|_| self.suites.has_ignored() && !self.lists_ignored && !self.nothing_selected);
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
            (self.build_output.unreadable, "line(s) of Cargo's could not be read".to_owned()),
            (self.lines.skipped_lines(), format!("line(s) of more than {LINE_BYTES_MAX} bytes were passed over")),
        ];
        for (count, what) in lost.into_iter().filter(|(count, _)| *count > 0) {
            summary.proof = Proof::Missing;
            summary.notes.push(format!("{count} {what}"));
        }
        summary
    }
}
