//! Parses `go test -json` as it streams: dispatches events to the tracker and to the build errors, and judges packages and
//! commands that ended.

use super::build_errors::{self, BuildErrors};
use super::event::{OutputKind, TestEvent, unescape};
use super::output_buffer::OutputLine;
use super::scope;
use super::test_names::is_test_name;
use super::tracker::{EndAction, PackageEnd, Tracker};
use super::{coverage, failure};
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::parsing::line_splitter::{LINE_BYTES_MAX, LineSplitter};
use crate::parsing::notes::Notes;
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::{CollectorKind, TestCase, TestId, TestOutcome};
use regex::Regex;
use std::collections::BTreeSet;

/// Most bytes kept of a command's stderr. The go tool prints little there: downloads, warnings, fatal errors.
const STDERR_BYTES_MAX: usize = 64 * 1024;

/// Most packages named in one follow-up command; beyond that all packages of the module run.
const PACKAGES_NAMED_MAX: usize = 4_096;

/// What a stream is parsed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Test results.
    Running,
    /// Test names.
    Listing,
}

/// Parser of a run or a listing.
#[derive(Debug)]
pub(super) struct GoParser {
    mode: Mode,
    steps: Vec<Step>,
    current: usize,
    /// Steps to repeat without coverage, see [`Parser::follow_up`].
    uncovered_reruns: Vec<Step>,
    /// Packages of the current step that failed because another package does not compile.
    broken_by_others: BTreeSet<String>,
    lines: LineSplitter,
    stderr_lines: LineSplitter,
    stderr: Vec<String>,
    stderr_bytes: usize,
    paths: WorkspacePaths,
    tracker: Tracker,
    build_errors: BuildErrors,
    /// Whether the current step has reported any package or build.
    has_reported: bool,
    /// Packages of the current step that were not built, without naming the failed build (before Go 1.24).
    unbuilt: BTreeSet<String>,
    listed: usize,
    /// Names that a listing leaves out.
    unlisted: Option<Regex>,
    proofs: ProofTracker,
    /// Whether proctor asked the test processes for their stacks, which ends them.
    is_ended_by_proctor: bool,
    /// Whether unknown tests did not run because their process ended early.
    unreached: bool,
    /// Packages that did not run because another package does not compile.
    not_built: Vec<String>,
    notes: Notes,
}

impl GoParser {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>, mode: Mode) -> GoParser {
        let paths = WorkspacePaths::new(request.workspace);
        GoParser {
            mode,
            steps: plan.steps.clone(),
            current: 0,
            uncovered_reruns: Vec::new(),
            broken_by_others: BTreeSet::new(),
            lines: LineSplitter::default(),
            stderr_lines: LineSplitter::default(),
            stderr: Vec::new(),
            stderr_bytes: 0,
            tracker: Tracker::new(paths.clone()),
            build_errors: BuildErrors::new(paths.clone()),
            paths,
            has_reported: false,
            unbuilt: BTreeSet::new(),
            listed: 0,
            unlisted: scope::skip_expression(request.scope).and_then(|names| Regex::new(&names).ok()),
            proofs: ProofTracker::default(),
            is_ended_by_proctor: false,
            unreached: false,
            not_built: Vec::new(),
            notes: Notes::default(),
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        // The go tool writes JSON objects only: other lines are not its own and are skipped.
        if line.first() != Some(&b'{') {
            return;
        }
        match std::str::from_utf8(line) {
            Ok(text) => self.handle_event_line(text, events),
            Err(_) => self.handle_event_line(&String::from_utf8_lossy(line), events),
        }
    }

    fn handle_event_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Some(event) = TestEvent::parse(line) else { return };
        self.has_reported = true;
        match (&*event.action, event.test.is_empty()) {
            ("output", true) if self.mode == Mode::Listing => self.handle_listed_line(&event, events),
            ("output", _) => {
                let kind = OutputKind::parse(&event.output_type);
                self.tracker.record_output(&event.package, &event.test, kind, event.raw_output(), events);
            }
            ("build-output", _) => self.build_errors.record_output(&event.import_path, event.raw_output()),
            ("build-fail", _) => {
                self.build_errors.report_failure(&event.import_path, &self.steps[self.current].dir, events)
            }
            ("start", _) => self.tracker.package_started(&event.package),
            ("run", false) => self.tracker.test_started(&event.package, &event.test, events),
            ("pause", false) => self.tracker.test_paused(&event.package, &event.test, true),
            ("cont", false) => self.tracker.test_paused(&event.package, &event.test, false),
            ("pass" | "fail" | "skip", is_package) => {
                let action = match &*event.action {
                    "pass" => EndAction::Pass,
                    "fail" => EndAction::Fail,
                    _ => EndAction::Skip,
                };
                if is_package {
                    self.package_ended(&event, action, events);
                } else {
                    self.tracker.test_ended(&event.package, &event.test, action, event.elapsed, events);
                }
            }
            // `bench`, `attr`, `artifacts` and actions of later versions say nothing about an outcome.
            _ => {}
        }
    }

    /// Handles a line of a listing: a test name that `-list` printed, or a line of an error.
    fn handle_listed_line(&mut self, event: &TestEvent<'_>, events: &mut Vec<RunnerEvent>) {
        let text = unescape(event.raw_output());
        let name = text.trim_end_matches('\n');
        if !is_test_name(name) {
            self.tracker.record_output(&event.package, "", OutputKind::Plain, event.raw_output(), events);
        } else if self.unlisted.as_ref().is_some_and(|names| names.is_match(name)) {
            // The project file excludes it.
        } else if self.listed < TEST_CASES_MAX {
            self.listed += 1;
            let id = TestId { package: event.package.clone().into_owned(), name: name.to_owned() };
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn package_ended(&mut self, event: &TestEvent<'_>, action: EndAction, events: &mut Vec<RunnerEvent>) {
        let package = &*event.package;
        let end = self.tracker.package_ended(package, events);
        if self.is_ended_by_proctor && action == EndAction::Fail {
            // The signal failed it. Its unfinished tests are known to be running.
            return;
        }
        if end.ended_early {
            self.unreached = true;
            self.notes
                .add(format!("{package}: its test process ended early, and tests that had not begun did not run"));
        }
        let dir = self.steps[self.current].dir.clone();
        if !event.failed_build.is_empty() {
            let culprit = self.build_errors.report_culprit(package, &event.failed_build, &dir, events);
            if culprit != package {
                insert_bounded(&mut self.broken_by_others, package);
            }
        } else if action == EndAction::Fail && reports_failed_build(&end.output, package) {
            insert_bounded(&mut self.unbuilt, package);
        } else if action == EndAction::Fail && end.failed == 0 {
            events.push(failure::from_package(package, end.began, &end.output, &self.paths));
        } else if action == EndAction::Pass
            && self.mode == Mode::Running
            && !end.ended_early
            && !all_tests_ran(package, &end)
        {
            events.push(missing_pass_error(package, end.began));
        }
        if end.inner_failures > 0 {
            self.notes.add(format!(
                "{package}: {} test(s) failed that a passing test ran by itself: they count as expected failures",
                end.inner_failures
            ));
        }
    }

    /// Finishes packages that did not end in a step that ended by itself: their tests become errors.
    fn close_packages(&mut self, events: &mut Vec<RunnerEvent>) {
        for package in self.tracker.open_packages() {
            self.proofs.invalidate();
            self.notes.add(format!("the runner ended without a result for {package}"));
            self.tracker.package_ended(&package, events);
        }
    }

    /// Reports that the go tool failed before it tested any package.
    fn report_step_failure(&mut self, events: &mut Vec<RunnerEvent>) {
        let dir = self.steps[self.current].dir.clone();
        let text: Vec<String> = self
            .stderr
            .iter()
            .filter(|line| !line.starts_with("go: downloading"))
            .map(|line| line.strip_prefix("go: ").unwrap_or(line).to_owned())
            .collect();
        let name = if dir.is_empty() { "." } else { &dir };
        self.unreached = true;
        events.push(build_errors::collector(name, CollectorKind::Collection, &text, &dir, &self.paths));
    }

    /// Plans the same packages once more without coverage.
    ///
    /// `-coverpkg=./...` makes every test binary depend on every package of the module, so one that does not compile breaks
    /// all others too. Instrumentation must not change a verdict.
    fn plan_uncovered_rerun(&mut self) {
        let packages = std::mem::take(&mut self.broken_by_others);
        let step = &self.steps[self.current];
        if packages.is_empty() || !coverage::is_measured(step) {
            let room = PACKAGES_NAMED_MAX.saturating_sub(self.not_built.len());
            self.unreached |= packages.len() > room;
            self.not_built.extend(packages.into_iter().take(room));
            return;
        }
        let mut plain = coverage::without_coverage(step);
        plain.args.retain(|argument| !argument.starts_with('.'));
        if packages.len() < PACKAGES_NAMED_MAX {
            plain.args.extend(packages);
        } else {
            plain.args.push("./...".to_owned());
        }
        self.uncovered_reruns.push(plain);
        self.notes
            .add("some packages were run without coverage, because a package beside them does not compile".to_owned());
    }
}

/// Whether all tests of a passed package ran: `m.Run` printed `PASS`, or the package has no tests.
///
/// A process that exits with 0 by itself, in its `TestMain`, an `init` or between two tests, is `ok` for the go tool.
fn all_tests_ran(package: &str, end: &PackageEnd) -> bool {
    let says_no_tests = |line: &OutputLine| {
        let unmeasured = line.text.strip_prefix('\t').and_then(|text| text.trim_start().strip_prefix(package));
        // Without statements there is no number.
        let is_unmeasured = |rest: &str| rest.trim().is_empty() || rest.contains("coverage: 0.0%");
        line.text.contains("[no test files]") || unmeasured.is_some_and(is_unmeasured)
    };
    // What the go tool says of a process; its tests could print the rest.
    let is_of_process = |line: &OutputLine| line.text.starts_with("ok  \t");
    let has_no_tests = || end.output.iter().any(says_no_tests) && !end.output.iter().any(is_of_process);
    end.printed_pass || (end.began == 0 && has_no_tests())
}

/// The error that stands for the tests of a package whose process did not print `PASS`.
fn missing_pass_error(package: &str, began: u64) -> RunnerEvent {
    let id = TestId { package: package.to_owned(), name: "TestMain".to_owned() };
    let case = TestCase::new(id, format!("{package}/TestMain"), TestOutcome::Error);
    let what =
        if began == 0 { "no test of the package ran" } else { "not all tests of the package are known to have run" };
    let message = format!(
        "{what}: its process exited with 0 without the PASS that m.Run prints. TestMain or an init ended the process, or standard \
         output was closed or replaced; call os.Exit(m.Run()) and skip tests with t.Skip"
    );
    RunnerEvent::TestFinished(Box::new(TestCase { message: Some(message), ..case }.bounded()))
}

/// Inserts a package's name within the bound, unless the go tool could read it as an option.
fn insert_bounded(packages: &mut BTreeSet<String>, package: &str) {
    if packages.len() < PACKAGES_NAMED_MAX && !package.starts_with('-') {
        packages.insert(package.to_owned());
    }
}

fn reports_failed_build(output: &[OutputLine], package: &str) -> bool {
    let is_verdict = |line: &OutputLine| {
        line.text.starts_with("FAIL\t")
            && line.text.contains(package)
            && (line.text.ends_with("[build failed]") || line.text.ends_with("[setup failed]"))
    };
    output.iter().any(is_verdict)
}

impl Parser for GoParser {
    fn step_started(&mut self, step: usize) {
        // An unknown step has no directory; the last known one is the best guess, and a plan without steps has none.
        self.current = step.min(self.steps.len().saturating_sub(1));
        self.proofs.start_step();
        self.has_reported = false;
        self.unbuilt.clear();
        self.stderr.clear();
        self.stderr_bytes = 0;
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        if self.steps.is_empty() {
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        let (kept, size) = (&mut self.stderr, &mut self.stderr_bytes);
        self.stderr_lines.feed(bytes, |line| keep_line(kept, size, line));
    }

    fn stacks_requested(&mut self) {
        self.is_ended_by_proctor = true;
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        if self.steps.is_empty() {
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(line, events));
        self.lines = lines;
        let (kept, size) = (&mut self.stderr, &mut self.stderr_bytes);
        self.stderr_lines.finish(|line| keep_line(kept, size, line));
        self.tracker.release_all(events);
        if killed {
            return;
        }
        self.close_packages(events);
        if !self.unbuilt.is_empty() {
            let dir = self.steps[self.current].dir.clone();
            self.build_errors.report_failures_on_stderr(&self.stderr, &dir, events);
            let unbuilt = std::mem::take(&mut self.unbuilt);
            self.broken_by_others.extend(unbuilt.into_iter().filter(|package| !self.build_errors.is_reported(package)));
        }
        match exit {
            Exit::Code(0) | Exit::NotStarted(_) => self.proofs.waive(),
            Exit::Code(_) => {
                if !self.has_reported {
                    self.report_step_failure(events);
                }
                // Failures of the packages were reported with the packages.
                self.proofs.waive();
            }
            Exit::Signal(_) => {}
        }
        self.plan_uncovered_rerun();
    }

    fn follow_up(&mut self) -> Vec<Step> {
        let steps = std::mem::take(&mut self.uncovered_reruns);
        self.steps.extend(steps.iter().cloned());
        steps
    }

    fn running(&self) -> Vec<TestId> {
        self.tracker.running()
    }

    fn summary(&self) -> StreamSummary {
        let mut notes = self.notes.to_vec();
        let skipped = self.lines.skipped_lines();
        if skipped > 0 {
            notes.push(format!("{skipped} line(s) of more than {LINE_BYTES_MAX} bytes were passed over"));
        }
        if self.tracker.overflowed() {
            notes.push("too many tests ran at a time to keep the output of all of them".to_owned());
        }
        StreamSummary {
            structured: true,
            proof: if skipped > 0 { Proof::Missing } else { self.proofs.proof() },
            unreached: self.unreached,
            not_built: self.not_built.clone(),
            notes,
            ..StreamSummary::default()
        }
    }
}

fn keep_line(kept: &mut Vec<String>, size: &mut usize, line: &[u8]) {
    if *size + line.len() < STDERR_BYTES_MAX {
        *size += line.len() + 1;
        kept.push(String::from_utf8_lossy(line).into_owned());
    }
}
