//! Reads `go test -json` as it streams: lines to events, events to the tracker and to builds, and what to make of a package
//! or a command that ended. Must not know how a failure's text is read.

use super::buffer::OutputLine;
use super::build::{self, Builds};
use super::event::{Event, OutputKind, unescape};
use super::listing::is_test_name;
use super::tracker::{Ending, PackageEnd, Tracker};
use super::{cover, failure};
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
use std::collections::BTreeSet;

/// Most bytes kept of a command's stderr. The go tool says little there: downloads, warnings, why it gave up.
const STDERR_BYTES_MAX: usize = 64 * 1024;

/// Most packages named in one command of ours; past this all of the module run.
const PACKAGES_NAMED_MAX: usize = 4_096;

/// What the stream is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Results.
    Running,
    /// Names of tests.
    Listing,
}

/// The parser of one run or listing.
#[derive(Debug)]
pub(super) struct GoParser {
    mode: Mode,
    steps: Vec<Step>,
    current: usize,
    /// Steps that coverage made necessary, see [`Parser::follow_up`].
    plain_again: Vec<Step>,
    /// Packages of the current step that failed because of another one.
    dragged_down: BTreeSet<String>,
    lines: LineSplitter,
    stderr_lines: LineSplitter,
    stderr: Vec<String>,
    stderr_bytes: usize,
    paths: WorkspacePaths,
    tracker: Tracker,
    builds: Builds,
    /// Whether the current step has shown any package or build.
    saw_anything: bool,
    /// Packages of the current step that were not built, without a word on which build failed (before Go 1.24).
    unbuilt: BTreeSet<String>,
    listed: usize,
    proofs: ProofTracker,
    /// Whether tests did not run that nobody can name: behind the end of their process.
    unreached: bool,
    /// Packages that others took along which do not compile.
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
            plain_again: Vec::new(),
            dragged_down: BTreeSet::new(),
            lines: LineSplitter::default(),
            stderr_lines: LineSplitter::default(),
            stderr: Vec::new(),
            stderr_bytes: 0,
            tracker: Tracker::new(paths.clone()),
            builds: Builds::new(paths.clone()),
            paths,
            saw_anything: false,
            unbuilt: BTreeSet::new(),
            listed: 0,
            proofs: ProofTracker::default(),
            unreached: false,
            not_built: Vec::new(),
            notes: Notes::default(),
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        // Everything else on this stream is not the go tool's: a line that begins otherwise is passed over.
        if line.first() != Some(&b'{') {
            return;
        }
        match std::str::from_utf8(line) {
            Ok(text) => self.text_line(text, events),
            Err(_) => self.text_line(&String::from_utf8_lossy(line), events),
        }
    }

    fn text_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Some(event) = Event::read(line) else { return };
        self.saw_anything = true;
        match (&*event.action, event.test.is_empty()) {
            ("output", true) if self.mode == Mode::Listing => self.listed_line(&event, events),
            ("output", _) => {
                let kind = OutputKind::of(&event.output_type);
                self.tracker.output(&event.package, &event.test, kind, event.raw_output(), events);
            }
            ("build-output", _) => self.builds.output(&event.import_path, event.raw_output()),
            ("build-fail", _) => self.builds.failed(&event.import_path, &self.steps[self.current].dir, events),
            ("start", _) => self.tracker.package_started(&event.package),
            ("run", false) => self.tracker.test_started(&event.package, &event.test, events),
            ("pause", false) => self.tracker.test_paused(&event.package, &event.test, true),
            ("cont", false) => self.tracker.test_paused(&event.package, &event.test, false),
            ("pass" | "fail" | "skip", is_package) => {
                let ending = match &*event.action {
                    "pass" => Ending::Pass,
                    "fail" => Ending::Fail,
                    _ => Ending::Skip,
                };
                if is_package {
                    self.package_ended(&event, ending, events);
                } else {
                    self.tracker.test_ended(&event.package, &event.test, ending, event.elapsed, events);
                }
            }
            // `bench`, `attr`, `artifacts` and what later versions add say nothing about an outcome.
            _ => {}
        }
    }

    /// A name that `-list` printed, or a line that belongs to an error.
    fn listed_line(&mut self, event: &Event<'_>, events: &mut Vec<RunnerEvent>) {
        let text = unescape(event.raw_output());
        let name = text.trim_end_matches('\n');
        if !is_test_name(name) {
            self.tracker.output(&event.package, "", OutputKind::Plain, event.raw_output(), events);
        } else if self.listed < TEST_CASES_MAX {
            self.listed += 1;
            let id = TestId { package: event.package.clone().into_owned(), name: name.to_owned() };
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn package_ended(&mut self, event: &Event<'_>, ending: Ending, events: &mut Vec<RunnerEvent>) {
        let package = &*event.package;
        let end = self.tracker.package_ended(package, events);
        if end.broke {
            self.unreached = true;
            self.notes
                .add(format!("{package}: its test process ended early, and tests that had not begun did not run"));
        }
        let dir = self.steps[self.current].dir.clone();
        if !event.failed_build.is_empty() {
            let culprit = self.builds.blamed(package, &event.failed_build, &dir, events);
            if culprit != package {
                remember(&mut self.dragged_down, package);
            }
        } else if ending == Ending::Fail && says_build_failed(&end.output, package) {
            remember(&mut self.unbuilt, package);
        } else if ending == Ending::Fail && end.failed == 0 {
            events.push(failure::of_package(package, end.began, &end.output, &self.paths));
        } else if ending == Ending::Pass && self.mode == Mode::Running && !end.broke && !is_done(package, &end) {
            events.push(never_done(package, end.began));
        }
        if end.inner_failures > 0 {
            self.notes.add(format!(
                "{package}: {} test(s) failed that a passing test ran by itself: they count as expected failures",
                end.inner_failures
            ));
        }
    }

    /// Packages without an end in a step that ended by itself: their tests are errors.
    fn close_packages(&mut self, events: &mut Vec<RunnerEvent>) {
        for package in self.tracker.open_packages() {
            self.proofs.invalidate();
            self.notes.add(format!("the runner ended before it said what became of {package}"));
            self.tracker.package_ended(&package, events);
        }
    }

    /// The go tool gave up before it came to any package.
    fn tell_refusal(&mut self, events: &mut Vec<RunnerEvent>) {
        let dir = self.steps[self.current].dir.clone();
        let text: Vec<String> = self
            .stderr
            .iter()
            .filter(|line| !line.starts_with("go: downloading"))
            .map(|line| line.strip_prefix("go: ").unwrap_or(line).to_owned())
            .collect();
        let name = if dir.is_empty() { "." } else { &dir };
        self.unreached = true;
        events.push(build::collector(name, CollectorKind::Collection, &text, &dir, &self.paths));
    }

    /// The same packages once more without coverage.
    ///
    /// `-coverpkg=./...` makes every test binary depend on every package of the module, so one that does not compile takes
    /// all others down with it. Instrumentation must not change a verdict.
    fn plan_plain_again(&mut self) {
        let packages = std::mem::take(&mut self.dragged_down);
        let step = &self.steps[self.current];
        if packages.is_empty() || !cover::is_measured(step) {
            let room = PACKAGES_NAMED_MAX.saturating_sub(self.not_built.len());
            self.unreached |= packages.len() > room;
            self.not_built.extend(packages.into_iter().take(room));
            return;
        }
        let mut plain = cover::without_coverage(step);
        plain.args.retain(|argument| !argument.starts_with('.'));
        if packages.len() < PACKAGES_NAMED_MAX {
            plain.args.extend(packages);
        } else {
            plain.args.push("./...".to_owned());
        }
        self.plain_again.push(plain);
        self.notes
            .add("some packages were run without coverage, because a package beside them does not compile".to_owned());
    }
}

/// Whether the tests of a package that passed are known to be done: `m.Run` said so, or there are none.
///
/// A process that exits with 0 by itself, in its `TestMain`, an `init` or between two tests, is `ok` for the go tool.
fn is_done(package: &str, end: &PackageEnd) -> bool {
    let says_no_tests = |line: &OutputLine| {
        let unmeasured = line.text.strip_prefix('\t').and_then(|text| text.trim_start().strip_prefix(package));
        line.text.contains("[no test files]") || unmeasured.is_some_and(|rest| rest.contains("coverage: 0.0%"))
    };
    end.said_pass || (end.began == 0 && end.output.iter().any(says_no_tests))
}

/// What stands for the tests of a package whose process did not say that they are done.
fn never_done(package: &str, began: u64) -> RunnerEvent {
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

/// Keeps a package's name, unless it could be read as an option.
fn remember(packages: &mut BTreeSet<String>, package: &str) {
    if packages.len() < PACKAGES_NAMED_MAX && !package.starts_with('-') {
        packages.insert(package.to_owned());
    }
}

fn says_build_failed(output: &[OutputLine], package: &str) -> bool {
    let is_verdict = |line: &OutputLine| {
        line.text.starts_with("FAIL\t")
            && line.text.contains(package)
            && (line.text.ends_with("[build failed]") || line.text.ends_with("[setup failed]"))
    };
    output.iter().any(is_verdict)
}

impl Parser for GoParser {
    fn step_started(&mut self, step: usize) {
        // An unknown step would have no directory; the last one known is the best guess, and a plan without steps has none.
        self.current = step.min(self.steps.len().saturating_sub(1));
        self.proofs.start_step();
        self.saw_anything = false;
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
            self.builds.failed_on_stderr(&self.stderr, &dir, events);
            let unbuilt = std::mem::take(&mut self.unbuilt);
            self.dragged_down.extend(unbuilt.into_iter().filter(|package| !self.builds.is_told(package)));
        }
        match exit {
            Exit::Code(0) | Exit::NotStarted(_) => self.proofs.waive(),
            Exit::Code(_) => {
                if !self.saw_anything {
                    self.tell_refusal(events);
                }
                // What each package lacks is told of the package.
                self.proofs.waive();
            }
            Exit::Signal(_) => {}
        }
        self.plan_plain_again();
    }

    fn follow_up(&mut self) -> Vec<Step> {
        let steps = std::mem::take(&mut self.plain_again);
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
