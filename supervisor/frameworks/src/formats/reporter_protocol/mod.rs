//! The protocol of proctor's own reporters: plugins inside pytest, Jest and others, which all write the same events to the run's
//! report.
//!
//! **Events.** One JSON object a line. `event` is one of
//! - `begin`: the reporter was loaded and the runner is about to collect; `token`, a random word that precedes each of its later
//!   lines, followed by a blank;
//! - `opened` and `closed`: `package`: a file that is loaded and run, from a runner that may not report tests as they start;
//! - `total`: `tests`: how many tests the runner has collected and is about to report, if it knows before the first;
//! - `started`: `package`, `name`, and if known `file` and `line` of its declaration;
//! - `finished`: the same, `outcome` as [`TestOutcome`] names it, and as far as known `nodeid`, `duration_s`, `setup_s` (its part in
//!   fixtures and hooks), `cpu_s` (processor time of the test's process meanwhile), `file` (absolute, or relative to the step's
//!   directory), `line` (from 1), `message`, `expected`, `actual`, `stack`, `output`, `failed_attempts` (how
//!   many attempts of the same test failed before this one);
//! - `collector`: `nodeid`, `message`, and as far as known `file`, `line`, `output`: a file that could not be loaded, or, with `kind`
//!   `build`, not be compiled;
//! - `artifact`: the test's `package` and `name`, `path`, `kind`: a file that a test left among the kept ones;
//! - `listed`: `package`, `name`: a test that a listing found;
//! - `note`: `text`, a sentence for the evidence; `unreached` if it says that tests did not run, without naming them;
//! - `end`: the runner is done; `tests`, the number of `finished` or `listed` events, and `left`, the number of collected tests
//!   without one.
//!
//! `package` is the test file relative to the step's directory, and becomes relative to the workspace here. A reporter keeps each
//! line within 4 KiB where it can: the kernel writes such a line to a FIFO in one piece, also with several writers.
//!
//! **Trust.** A test in another process than the reporter's can write to the report, too. It does not know the token, which is only
//! in the reporter's memory: a line without the token is dropped, and the run is not green and says why. A test in the reporter's own
//! process can find the token if it looks for it. Nothing here makes a run green by itself: without `end`, with a count in `end`
//! that differs from the events received, or with tests left, the proof is missing, and the exit status counts as well.

use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::parsing::line_splitter::{LINE_BYTES_MAX, LineSplitter};
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail, describe_exit, strip_ansi};
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::running_tests::RunningTests;
use crate::parsing::stack_frames::is_part;
use crate::parsing::workspace_paths::{WorkspacePaths, join};
use proctor_core::artifact::{ARTIFACTS_MAX, ArtifactKind};
use proctor_core::bounds::{NAME_BYTES_MAX, RUNNING_NAMES_MAX, TEST_CASES_MAX, clip};
use proctor_core::event::RunnerEvent;
use proctor_core::human_units::first_names;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most files that one note names.
const OPEN_FILES_NAMED_MAX: usize = 8;

/// What one runner's output means when it gives up. Each function gets the text of its streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunnerProfile {
    /// The framework's name, for texts and as a fallback.
    pub(crate) name: &'static str,
    /// Separator between package and name in a node id that the reporter does not give.
    pub(crate) separator: &'static str,
    /// The remedy if the text says that the runner is not installed.
    pub(crate) missing_remedy: fn(&str) -> Option<String>,
    /// Whether the text says that no test was selected.
    pub(crate) nothing_selected: fn(&str) -> bool,
    /// Exit status that the runner reserves for an empty selection, if it has one.
    pub(crate) empty_status: Option<i32>,
    /// File and line, absolute or relative to the step's directory, that the text gives for an error that stopped the runner.
    pub(crate) error_location: fn(&str) -> Option<(String, u32)>,
    /// The part of the text that says why the runner could not start; its last line if `None`.
    pub(crate) error_reason: fn(&str) -> Option<String>,
    /// A failure besides the tests that the text reports, such as a coverage threshold of a plugin.
    pub(crate) other_failure: fn(&str) -> Option<String>,
}

impl RunnerProfile {
    /// A profile without knowledge of the runner's output.
    pub(crate) const fn new(name: &'static str) -> RunnerProfile {
        RunnerProfile {
            name,
            separator: "::",
            missing_remedy: |_| None,
            nothing_selected: |_| false,
            empty_status: None,
            error_location: |_| None,
            error_reason: |_| None,
            other_failure: |_| None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Begin {
        #[serde(default)]
        token: Option<String>,
    },
    Opened(FileFields),
    Closed(FileFields),
    Total {
        tests: u64,
    },
    Started(StartedFields),
    Finished(Box<FinishedFields>),
    Collector(Box<CollectorFields>),
    Artifact(Box<ArtifactFields>),
    Listed(TestFields),
    Note {
        text: String,
        #[serde(default)]
        unreached: bool,
    },
    End(EndFields),
}

/// Fields of `end`. Both are required: a reporter that does not count proves nothing.
#[derive(Debug, Deserialize)]
struct EndFields {
    tests: u64,
    left: u64,
}

#[derive(Debug, Deserialize)]
struct FileFields {
    package: String,
}

#[derive(Debug, Deserialize)]
struct TestFields {
    package: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct StartedFields {
    package: String,
    name: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct FinishedFields {
    package: String,
    name: String,
    outcome: TestOutcome,
    #[serde(default)]
    nodeid: Option<String>,
    #[serde(default)]
    duration_s: Option<f64>,
    #[serde(default)]
    setup_s: Option<f64>,
    #[serde(default)]
    cpu_s: Option<f64>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    expected: Option<String>,
    #[serde(default)]
    actual: Option<String>,
    #[serde(default)]
    stack: Option<String>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    failed_attempts: u32,
}

#[derive(Debug, Deserialize)]
struct ArtifactFields {
    package: String,
    name: String,
    path: String,
    kind: ArtifactKind,
}

#[derive(Debug, Deserialize)]
struct CollectorFields {
    #[serde(default)]
    kind: Option<CollectorKind>,
    nodeid: String,
    message: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    output: Option<String>,
}

/// Progress of the reporter in the current step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    NotStarted,
    Started,
    Ended,
}

/// Parses a run or listing that one of proctor's reporters reports.
#[derive(Debug)]
pub(crate) struct ReporterParser {
    profile: RunnerProfile,
    paths: WorkspacePaths,
    steps: Vec<Step>,
    dir: String,
    programs: Vec<String>,
    stage: Stage,
    /// The word that precedes the reporter's lines, once it has sent it.
    token: Option<String>,
    lines: LineSplitter,
    stdout: OutputTail,
    stderr: OutputTail,
    /// Index of the current step.
    step: usize,
    /// Number of tests by step, of those whose runner has announced it.
    totals: BTreeMap<usize, u64>,
    /// Whether parts of tests are reported as tests, which no runner announces.
    reports_parts: bool,
    running: RunningTests,
    /// Where running tests are declared, of those whose reporter knows.
    declared: BTreeMap<TestId, (String, u32)>,
    /// Open files, as tests without a name.
    open_files: RunningTests,
    /// Files closed in the current step.
    closed_files: u64,
    /// Tests, collectors and listed names reported in the current step.
    reported: u64,
    /// The part of `reported` that the reporter's `end` counts, and the finished part of that.
    counted: u64,
    ended: u64,
    proofs: ProofTracker,
    listed: usize,
    unreadable: u64,
    /// Lines without the reporter's token.
    forged: u64,
    nothing_selected: bool,
    /// Kind and test of each artifact, by its path.
    artifacts: BTreeMap<String, (ArtifactKind, TestId)>,
    flaky: u64,
    summary: StreamSummary,
    notes: Notes,
}

impl ReporterParser {
    pub(crate) fn new(profile: RunnerProfile, plan: &Plan, request: &PlanRequest<'_>) -> ReporterParser {
        ReporterParser::with_steps(profile, WorkspacePaths::new(request.workspace), plan.steps.clone())
    }

    /// A parser for these steps.
    pub(crate) fn with_steps(profile: RunnerProfile, paths: WorkspacePaths, steps: Vec<Step>) -> ReporterParser {
        ReporterParser {
            profile,
            paths,
            steps,
            dir: String::new(),
            programs: Vec::new(),
            stage: Stage::NotStarted,
            token: None,
            lines: LineSplitter::default(),
            stdout: OutputTail::default(),
            stderr: OutputTail::default(),
            step: 0,
            totals: BTreeMap::new(),
            reports_parts: false,
            running: RunningTests::default(),
            declared: BTreeMap::new(),
            open_files: RunningTests::default(),
            closed_files: 0,
            reported: 0,
            counted: 0,
            ended: 0,
            proofs: ProofTracker::default(),
            listed: 0,
            unreadable: 0,
            forged: 0,
            nothing_selected: false,
            artifacts: BTreeMap::new(),
            flaky: 0,
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    /// Number of files closed in the current step.
    pub(crate) fn closed_files(&self) -> u64 {
        self.closed_files
    }

    /// Invalidates the proof, for a reason that a wrapping parser knows.
    pub(crate) fn invalidate_proof(&mut self, why: String) {
        self.proofs.invalidate();
        self.notes.add(why);
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        if line.is_empty() {
            return;
        }
        let own = self.token.as_ref().and_then(|token| line.strip_prefix(token.as_bytes())?.strip_prefix(b" "));
        match (serde_json::from_slice::<Event>(own.unwrap_or(line)), own) {
            (Err(_), _) => self.unreadable += 1,
            (Ok(line), None) if !self.is_own_line(&line) => self.forged += 1,
            (Ok(line), _) => self.handle(line, events),
        }
    }

    /// Whether a line without the token may be the reporter's: before it has sent one, and where it repeats `begin`.
    fn is_own_line(&self, line: &Event) -> bool {
        let begins_again = |token: &Option<String>| self.token == *token;
        self.token.is_none() || matches!(line, Event::Begin { token } if begins_again(token))
    }

    fn handle(&mut self, line: Event, events: &mut Vec<RunnerEvent>) {
        match line {
            Event::Begin { token } => (self.stage, self.token) = (Stage::Started, token),
            Event::End(end) => self.compare_counts(&end),
            Event::Note { text, unreached } => {
                self.summary.unreached |= unreached;
                // For the profile's functions, which read the streams: the runner may give its own words to the reporter only.
                self.stdout.add(format!("\n{text}\n").as_bytes());
                self.notes.add(text);
            }
            Event::Opened(file) => drop(self.open_files.start(&self.file_id(&file))),
            Event::Closed(file) => {
                self.closed_files += 1;
                self.open_files.finish(&self.file_id(&file));
            }
            Event::Total { tests } => drop(self.totals.insert(self.step, tests)),
            Event::Started(test) => self.started(test, events),
            Event::Finished(test) => self.finished(*test, events),
            Event::Listed(test) if self.listed < TEST_CASES_MAX => {
                self.reported += 1;
                self.counted += 1;
                self.listed += 1;
                let id = TestId { package: join(&self.dir, &test.package), name: test.name };
                events.push(RunnerEvent::TestStarted(id.bounded()));
            }
            Event::Listed(_) => self.counted += 1,
            Event::Artifact(file) => self.record_artifact(*file),
            Event::Collector(blame) => {
                self.reported += 1;
                let CollectorFields { kind, nodeid, message, file, line, output } = *blame;
                let (file, line) = self.place(file, line);
                let collector = Collector {
                    nodeid: self.paths.scrub(&nodeid),
                    kind: kind.unwrap_or(CollectorKind::Collection),
                    file,
                    line,
                    message: self.text(&message),
                    output: output.map(|output| self.text(&output)).unwrap_or_default(),
                };
                events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
            }
        }
    }

    /// Compares the counts of the reporter with the events received.
    fn compare_counts(&mut self, end: &EndFields) {
        self.stage = Stage::Ended;
        if end.tests != self.counted {
            self.proofs.invalidate();
            let (name, arrived) = (self.profile.name, self.counted);
            self.notes.add(format!("the reporter of {name} counted {} test(s), and {arrived} arrived", end.tests));
        }
        // A reporter that knows why tests are left has sent a note.
        if end.left > 0 && !self.summary.unreached {
            self.summary.unreached = true;
            self.notes.add(format!("{} test(s) of {} were not reported", end.left, self.profile.name));
        }
    }

    fn file_id(&self, file: &FileFields) -> TestId {
        TestId { package: join(&self.dir, &file.package), name: String::new() }
    }

    /// Notes the files that were open when the runner was killed, if it is not known which of their tests ran.
    fn note_open_files(&mut self) {
        let files: Vec<String> = self.open_files.drain().into_iter().map(|file| file.package).collect();
        if files.is_empty() || !self.running.is_empty() {
            return;
        }
        let names = first_names(&files, OPEN_FILES_NAMED_MAX);
        self.notes.add(format!("{} had started and not finished: {names}", self.profile.name));
    }

    fn started(&mut self, test: StartedFields, events: &mut Vec<RunnerEvent>) {
        let id = TestId { package: join(&self.dir, &test.package), name: test.name };
        if self.running.start(&id) {
            if let (Some(file), Some(line)) = self.place(test.file, test.line)
                && self.declared.len() < RUNNING_NAMES_MAX
            {
                self.declared.insert(id.clone().bounded(), (clip(file, NAME_BYTES_MAX), line));
            }
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn finished(&mut self, test: FinishedFields, events: &mut Vec<RunnerEvent>) {
        self.reported += 1;
        self.counted += 1;
        self.ended += 1;
        let id = TestId { package: join(&self.dir, &test.package), name: test.name };
        self.reports_parts = self.reports_parts || self.running.iter().any(|running| is_part(&id, running));
        self.running.finish(&id);
        if !self.declared.is_empty() {
            self.declared.remove(&id.clone().bounded());
        }
        if test.failed_attempts > 0 && test.outcome == TestOutcome::Passed {
            self.flaky += 1;
            self.notes.add(format!(
                "{} is flaky: it passed at attempt {}",
                self.default_nodeid(&id),
                test.failed_attempts + 1
            ));
        }
        let (file, line) = self.place(test.file, test.line);
        let text = |text: Option<String>| text.map(|text| self.text(&text));
        let nodeid = test.nodeid.unwrap_or_else(|| self.default_nodeid(&id));
        let duration_s = valid_time(test.duration_s);
        let case = TestCase {
            duration_s,
            setup_s: valid_time(test.setup_s).zip(duration_s).map(|(setup_s, whole_s)| setup_s.min(whole_s)),
            cpu_s: valid_time(test.cpu_s),
            file,
            line,
            message: text(test.message),
            expected: text(test.expected),
            actual: text(test.actual),
            stack: text(test.stack),
            output: text(test.output),
            ..TestCase::new(id, nodeid, test.outcome)
        };
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }

    fn record_artifact(&mut self, file: ArtifactFields) {
        if self.artifacts.len() < ARTIFACTS_MAX {
            let test = TestId { package: join(&self.dir, &file.package), name: file.name };
            self.artifacts.insert(file.path, (file.kind, test));
        }
    }

    fn default_nodeid(&self, id: &TestId) -> String {
        format!("{}{}{}", id.package, self.profile.separator, id.name)
    }

    /// A place inside the workspace; `None` for one outside.
    fn place(&self, file: Option<String>, line: Option<u32>) -> (Option<String>, Option<u32>) {
        (file.and_then(|file| self.paths.relative_to(&self.dir, &file)), line)
    }

    /// A text for people: without colours, and with paths relative to the workspace.
    fn text(&self, text: &str) -> String {
        self.paths.scrub(&strip_ansi(text))
    }

    /// Reports an error for each test without an end in a step that was not killed.
    fn fail_unfinished(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        for id in self.running.drain() {
            self.reported += 1;
            let nodeid = self.default_nodeid(&id);
            let message = format!("did not finish: the runner {}", describe_exit(exit));
            let case = TestCase { message: Some(message), ..TestCase::new(id, nodeid, TestOutcome::Error) };
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }

    /// Whether a runner that reported nothing exited as it does with nothing to run: any other status has another reason.
    fn exited_without_tests(&self, exit: Exit) -> bool {
        let output = || strip_ansi(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        match exit {
            Exit::Code(0) => true,
            Exit::Code(status) => {
                self.profile.empty_status == Some(status) || (self.profile.nothing_selected)(&output())
            }
            Exit::Signal(_) | Exit::NotStarted(_) => false,
        }
    }

    /// Why an existing program was not started. One of the project's own, such as an interpreter, can be a link.
    fn not_started_message(&self, errno: i32) -> String {
        let (name, why) = (self.profile.name, std::io::Error::from_raw_os_error(errno));
        let own: Vec<&str> = self.programs.iter().map(String::as_str).filter(|program| program.contains('/')).collect();
        let link = "what a link leads to has to be within the workspace, or where PATH leads";
        match own.as_slice() {
            [] => format!("{name} was not started: {why}"),
            own => format!("{name} was not started: a run cannot execute {}: {why}; {link}", own.join(" or ")),
        }
    }

    /// Explains why the runner ended before the reporter did.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let raw = strip_ansi(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        let output = self.paths.scrub(&raw);
        if let Some(remedy) = (self.profile.missing_remedy)(&output) {
            self.summary.runner_missing = true;
            self.proofs.waive();
            return self.notes.add(remedy);
        }
        if self.reported == 0 && (self.profile.nothing_selected)(&output) {
            self.nothing_selected = true;
            self.proofs.waive();
            return;
        }
        let what = if self.stage == Stage::NotStarted { "before it came to any test" } else { "before it was done" };
        let message = match exit {
            Exit::NotStarted(errno) => self.not_started_message(errno),
            _ => format!("{} {} {what}", self.profile.name, describe_exit(exit)),
        };
        self.notes.add(message.clone());
        if self.reported == 0 && !matches!(exit, Exit::Signal(_) | Exit::NotStarted(_)) {
            let (file, line) = (self.profile.error_location)(&raw)
                .map_or((None, None), |(file, line)| self.place(Some(file), Some(line)));
            let nodeid = if self.dir.is_empty() { ".".to_owned() } else { self.dir.clone() };
            let last_line =
                || output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(&message).trim().to_owned();
            let message = (self.profile.error_reason)(&output).unwrap_or_else(last_line);
            let kind = CollectorKind::Collection;
            let collector = Collector { nodeid, kind, file, line, message, output };
            events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        }
    }
}

impl Parser for ReporterParser {
    fn step_started(&mut self, step: usize) {
        self.step = step;
        if let Some(step) = self.steps.get(step).or(self.steps.last()) {
            (self.dir, self.programs) = (step.dir.clone(), step.programs.clone());
        }
        (self.stage, self.token) = (Stage::NotStarted, None);
        (self.reported, self.counted, self.ended) = (0, 0, 0);
        self.proofs.start_step();
        self.nothing_selected = false;
        (self.open_files, self.closed_files) = (RunningTests::default(), 0);
        (self.stdout, self.stderr) = (OutputTail::default(), OutputTail::default());
    }

    fn stdout(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stdout.add(bytes);
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stderr.add(bytes);
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        // A kill may cut a line in the middle; the tests that still run are known from earlier lines.
        lines.finish(|line| {
            if !killed {
                self.line(line, events)
            }
        });
        self.lines = lines;
        if killed {
            return self.note_open_files();
        }
        self.fail_unfinished(exit, events);
        if self.stage == Stage::Ended {
            self.proofs.record(self.ended);
            self.nothing_selected = self.reported == 0 && self.exited_without_tests(exit);
            if matches!(exit, Exit::Code(status) if status != 0) {
                self.notes.extend((self.profile.other_failure)(&strip_ansi(&self.stdout.text())));
            }
        } else {
            self.explain(exit, events);
        }
    }

    fn nothing_selected(&self) -> bool {
        self.nothing_selected
    }

    fn artifact_source(&self, path: &str) -> Option<(ArtifactKind, TestId)> {
        self.artifacts.get(path).cloned()
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        self.running.iter().cloned().collect()
    }

    // A shell line may start several runners, each of which announces its own tests.
    fn total(&self) -> Option<u64> {
        let is_whole = self.totals.len() == self.steps.len() && !self.steps.iter().any(is_shell_line);
        let sum = || self.totals.values().try_fold(0_u64, |sum, tests| sum.checked_add(*tests));
        if is_whole && !self.reports_parts { sum() } else { None }
    }

    fn declared_at(&self, test: &TestId) -> Option<(String, u32)> {
        self.declared.get(test).cloned()
    }

    fn summary(&self) -> StreamSummary {
        let proof = self.proofs.proof();
        let mut summary = StreamSummary { proof, notes: self.notes.to_vec(), ..self.summary.clone() };
        let lost = [
            (self.unreadable, "line(s) of the report could not be read".to_owned()),
            (
                self.forged,
                "line(s) of the report were not the reporter's own: something that the tests ran wrote there"
                    .to_owned(),
            ),
            (self.lines.skipped_lines(), format!("line(s) of the report had more than {LINE_BYTES_MAX} bytes")),
        ];
        for (count, what) in lost.into_iter().filter(|(count, _)| *count > 0) {
            summary.proof = Proof::Missing;
            summary.notes.push(format!("{count} {what}"));
        }
        summary
    }
}

/// A time that a clock can have measured.
fn valid_time(seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

/// Whether a step runs a project's test script in a shell.
fn is_shell_line(step: &Step) -> bool {
    step.programs.iter().any(|program| program == "sh")
}

#[cfg(test)]
mod tests;
