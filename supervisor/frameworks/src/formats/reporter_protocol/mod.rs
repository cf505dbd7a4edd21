//! Reads what our reporters say: plugins of ours inside pytest, Jest and others, which all write one form to the run's report.
//! Must not know which runner it is, or how a reporter came to be there.
//!
//! **The form.** One JSON object a line. `event` is one of
//! - `begin`: the reporter was loaded and the runner is about to collect; `token`, a word of its own choice, with which and a blank
//!   each of its later lines begins;
//! - `opened` and `closed`: `package`: a file that is loaded and run, from a runner that may not tell of its tests as they begin;
//! - `started`: `package`, `name`;
//! - `finished`: the same, `outcome` in the words of [`TestOutcome`], and as far as known `nodeid`, `duration_s`, `file`
//!   (absolute, or relative to the step's directory), `line` (from 1), `message`, `expected`, `actual`, `stack`, `output`,
//!   `failed_attempts` (how many of the same test failed before this one);
//! - `collector`: `nodeid`, `message`, and as far as known `file`, `line`, `output`: a file that could not be loaded, or, with
//!   `kind` `build`, not be compiled;
//! - `artifact`: the test's `package` and `name`, `path`, `kind`: a file that a test left among those that are kept;
//! - `listed`: `package`, `name`: a test that a listing found;
//! - `note`: `text`, a sentence for the evidence; `unreached` where it says that not all tests ran, and not which;
//! - `end`: the runner is done; `tests`, how many were `finished` or `listed`, and `left`, how many tests that the runner had were
//!   not.
//!
//! `package` is the test file relative to the step's directory, and becomes relative to the workspace here. A writer keeps
//! each line within 4 KiB where it can, since lines of that size reach a FIFO in one piece whoever else writes.
//!
//! **Trust.** A test that runs beside the reporter can write to the report, too. It does not know the token, which is in the
//! reporter's memory alone: a line without it is left out, and the run is cut off and says so. A test that runs in the reporter's own
//! process can find the token there if it sets out to. And nothing here makes a run green: without `end`, where the end counts
//! other tests than came, or where tests are left, the proof is missing, and the exit status counts beside it.

use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::parsing::line_splitter::{LINE_BYTES_MAX, LineSplitter};
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail, describe_exit, strip_ansi};
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::running_tests::RunningTests;
use crate::parsing::workspace_paths::{WorkspacePaths, join};
use proctor_core::artifact::{ARTIFACTS_MAX, ArtifactKind};
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most files that one note names.
const OPEN_TOLD_MAX: usize = 8;

/// What a runner means by giving up, as far as its words show. Every field is a question about what it printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunnerProfile {
    /// The framework's name, for what has no better one.
    pub(crate) name: &'static str,
    /// What stands between a package and a name where the reporter gives no whole form.
    pub(crate) separator: &'static str,
    /// What to do when the runner is not installed, if that is what these words say.
    pub(crate) missing_remedy: fn(&str) -> Option<String>,
    /// Whether these words say that no test was selected.
    pub(crate) nothing_selected: fn(&str) -> bool,
    /// The status with which the runner says so, if it has one of its own for that.
    pub(crate) empty_status: Option<i32>,
    /// File and line, absolute or relative to the step's directory, that these words blame for a runner that could not begin.
    pub(crate) error_location: fn(&str) -> Option<(String, u32)>,
    /// Which of these words say why it could not begin; its last line, if nothing is known.
    pub(crate) error_reason: fn(&str) -> Option<String>,
    /// Which of these words say what fails a run beside its tests, such as a coverage that a plugin asks for.
    pub(crate) other_failure: fn(&str) -> Option<String>,
}

impl RunnerProfile {
    /// One that nothing is known about.
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
    Started(TestFields),
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

/// A reporter that does not count is none: both have to be there.
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
struct FinishedFields {
    package: String,
    name: String,
    outcome: TestOutcome,
    #[serde(default)]
    nodeid: Option<String>,
    #[serde(default)]
    duration_s: Option<f64>,
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

/// How far the reporter of the current step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Silent,
    Begun,
    Ended,
}

/// The parser of a run or listing through a reporter of ours.
#[derive(Debug)]
pub(crate) struct ReporterParser {
    profile: RunnerProfile,
    paths: WorkspacePaths,
    steps: Vec<Step>,
    dir: String,
    programs: Vec<String>,
    stage: Stage,
    /// What the reporter's lines begin with, once it has told it.
    token: Option<String>,
    lines: LineSplitter,
    stdout: OutputTail,
    stderr: OutputTail,
    running: RunningTests,
    /// Files that are open, as tests without a name.
    open_files: RunningTests,
    /// Files that were closed in the current step.
    closed_files: u64,
    /// Tests, collectors and listed names of the current step.
    told: u64,
    /// Those of them that the reporter's end counts, and those of these that ended.
    counted: u64,
    ended: u64,
    proofs: ProofTracker,
    listed: usize,
    unreadable: u64,
    /// Lines that were not the reporter's.
    forged: u64,
    nothing_selected: bool,
    /// What tests left, by its path.
    artifacts: BTreeMap<String, (ArtifactKind, TestId)>,
    flaky: u64,
    summary: StreamSummary,
    notes: Notes,
}

impl ReporterParser {
    pub(crate) fn new(profile: RunnerProfile, plan: &Plan, request: &PlanRequest<'_>) -> ReporterParser {
        ReporterParser::with_steps(profile, WorkspacePaths::new(request.workspace), plan.steps.clone())
    }

    /// Of these steps of a plan.
    pub(crate) fn with_steps(profile: RunnerProfile, paths: WorkspacePaths, steps: Vec<Step>) -> ReporterParser {
        ReporterParser {
            profile,
            paths,
            steps,
            dir: String::new(),
            programs: Vec::new(),
            stage: Stage::Silent,
            token: None,
            lines: LineSplitter::default(),
            stdout: OutputTail::default(),
            stderr: OutputTail::default(),
            running: RunningTests::default(),
            open_files: RunningTests::default(),
            closed_files: 0,
            told: 0,
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

    /// How many files were closed in the current step.
    pub(crate) fn closed_files(&self) -> u64 {
        self.closed_files
    }

    /// Takes the proof away, for a reason that a parser around this one knows.
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
            (Ok(line), None) if !self.is_credible(&line) => self.forged += 1,
            (Ok(line), _) => self.take_in(line, events),
        }
    }

    /// Whether a line without the token may be the reporter's: before it has told one, and where it begins once more.
    fn is_credible(&self, line: &Event) -> bool {
        let begins_again = |token: &Option<String>| self.token == *token;
        self.token.is_none() || matches!(line, Event::Begin { token } if begins_again(token))
    }

    fn take_in(&mut self, line: Event, events: &mut Vec<RunnerEvent>) {
        match line {
            Event::Begin { token } => (self.stage, self.token) = (Stage::Begun, token),
            Event::End(end) => self.compare(&end),
            Event::Note { text, unreached } => {
                self.summary.unreached |= unreached;
                // The runner's own words, where a reporter has them from it.
                self.stdout.add(format!("\n{text}\n").as_bytes());
                self.notes.add(text);
            }
            Event::Opened(file) => drop(self.open_files.start(&self.whole_file(&file))),
            Event::Closed(file) => {
                self.closed_files += 1;
                self.open_files.finish(&self.whole_file(&file));
            }
            Event::Started(test) => self.started(test, events),
            Event::Finished(test) => self.finished(*test, events),
            Event::Listed(test) if self.listed < TEST_CASES_MAX => {
                self.told += 1;
                self.counted += 1;
                self.listed += 1;
                let id = TestId { package: join(&self.dir, &test.package), name: test.name };
                events.push(RunnerEvent::TestStarted(id.bounded()));
            }
            Event::Listed(_) => self.counted += 1,
            Event::Artifact(file) => self.left(*file),
            Event::Collector(blame) => {
                self.told += 1;
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

    /// The reporter has told everything. What it says is compared with what came.
    fn compare(&mut self, end: &EndFields) {
        self.stage = Stage::Ended;
        if end.tests != self.counted {
            self.proofs.invalidate();
            let (name, came) = (self.profile.name, self.counted);
            self.notes.add(format!("the reporter of {name} told {} test(s), and {came} came", end.tests));
        }
        // A reporter that knows why has said so.
        if end.left > 0 && !self.summary.unreached {
            self.summary.unreached = true;
            self.notes.add(format!("{} test(s) of {} were not told of", end.left, self.profile.name));
        }
    }

    fn whole_file(&self, file: &FileFields) -> TestId {
        TestId { package: join(&self.dir, &file.package), name: String::new() }
    }

    /// The files that were open when the runner was killed, where it is not known which of their tests ran.
    fn tell_open(&mut self) {
        let files: Vec<String> = self.open_files.drain().into_iter().map(|file| file.package).collect();
        if files.is_empty() || !self.running.is_empty() {
            return;
        }
        let more = files.len().saturating_sub(OPEN_TOLD_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let told = files.iter().take(OPEN_TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        self.notes.add(format!("{} had begun and not ended: {told}{more}", self.profile.name));
    }

    fn started(&mut self, test: TestFields, events: &mut Vec<RunnerEvent>) {
        let id = TestId { package: join(&self.dir, &test.package), name: test.name };
        if self.running.start(&id) {
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn finished(&mut self, test: FinishedFields, events: &mut Vec<RunnerEvent>) {
        self.told += 1;
        self.counted += 1;
        self.ended += 1;
        let id = TestId { package: join(&self.dir, &test.package), name: test.name };
        self.running.finish(&id);
        if test.failed_attempts > 0 && test.outcome == TestOutcome::Passed {
            self.flaky += 1;
            self.notes.add(format!("{} is flaky: it passed at attempt {}", self.whole(&id), test.failed_attempts + 1));
        }
        let (file, line) = self.place(test.file, test.line);
        let text = |text: Option<String>| text.map(|text| self.text(&text));
        let nodeid = test.nodeid.unwrap_or_else(|| self.whole(&id));
        let case = TestCase {
            duration_s: test.duration_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0),
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

    fn left(&mut self, file: ArtifactFields) {
        if self.artifacts.len() < ARTIFACTS_MAX {
            let test = TestId { package: join(&self.dir, &file.package), name: file.name };
            self.artifacts.insert(file.path, (file.kind, test));
        }
    }

    fn whole(&self, id: &TestId) -> String {
        format!("{}{}{}", id.package, self.profile.separator, id.name)
    }

    /// A place inside of the workspace, or none.
    fn place(&self, file: Option<String>, line: Option<u32>) -> (Option<String>, Option<u32>) {
        (file.and_then(|file| self.paths.relative_to(&self.dir, &file)), line)
    }

    /// What a person reads: without colours, and without where the workspace is.
    fn text(&self, text: &str) -> String {
        self.paths.scrub(&strip_ansi(text))
    }

    /// Tests without an end in a step that ended by itself.
    fn close(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        for id in self.running.drain() {
            self.told += 1;
            let nodeid = self.whole(&id);
            let message = format!("did not finish: the runner {}", describe_exit(exit));
            let case = TestCase { message: Some(message), ..TestCase::new(id, nodeid, TestOutcome::Error) };
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }

    /// Whether a runner that told nothing ended as it does when there was nothing to tell: any other status has a reason.
    fn says_nothing_selected(&self, exit: Exit) -> bool {
        let said = || strip_ansi(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        match exit {
            Exit::Code(0) => true,
            Exit::Code(status) => self.profile.empty_status == Some(status) || (self.profile.nothing_selected)(&said()),
            Exit::Signal(_) | Exit::NotStarted(_) => false,
        }
    }

    /// Why a program that is there was not started. One of the project's own, such as an interpreter, can be a link.
    fn unstarted(&self, errno: i32) -> String {
        let (name, why) = (self.profile.name, std::io::Error::from_raw_os_error(errno));
        let own: Vec<&str> = self.programs.iter().map(String::as_str).filter(|program| program.contains('/')).collect();
        let link = "what a link leads to has to be within the workspace, or where PATH leads";
        match own.as_slice() {
            [] => format!("{name} was not started: {why}"),
            own => format!("{name} was not started: a run cannot execute {}: {why}; {link}", own.join(" or ")),
        }
    }

    /// The runner ended without our reporter having told everything.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let raw = strip_ansi(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        let said = self.paths.scrub(&raw);
        if let Some(remedy) = (self.profile.missing_remedy)(&said) {
            self.summary.runner_missing = true;
            self.proofs.waive();
            return self.notes.add(remedy);
        }
        if self.told == 0 && (self.profile.nothing_selected)(&said) {
            self.nothing_selected = true;
            self.proofs.waive();
            return;
        }
        let what = if self.stage == Stage::Silent { "before it came to any test" } else { "before it was done" };
        let message = match exit {
            Exit::NotStarted(errno) => self.unstarted(errno),
            _ => format!("{} {} {what}", self.profile.name, describe_exit(exit)),
        };
        self.notes.add(message.clone());
        if self.told == 0 && !matches!(exit, Exit::Signal(_) | Exit::NotStarted(_)) {
            let (file, line) = (self.profile.error_location)(&raw)
                .map_or((None, None), |(file, line)| self.place(Some(file), Some(line)));
            let nodeid = if self.dir.is_empty() { ".".to_owned() } else { self.dir.clone() };
            let last = || said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(&message).trim().to_owned();
            let message = (self.profile.error_reason)(&said).unwrap_or_else(last);
            let kind = CollectorKind::Collection;
            let collector = Collector { nodeid, kind, file, line, message, output: said };
            events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        }
    }
}

impl Parser for ReporterParser {
    fn step_started(&mut self, step: usize) {
        if let Some(step) = self.steps.get(step).or(self.steps.last()) {
            (self.dir, self.programs) = (step.dir.clone(), step.programs.clone());
        }
        (self.stage, self.token) = (Stage::Silent, None);
        (self.told, self.counted, self.ended) = (0, 0, 0);
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
        // Who was killed in the middle of a line has not said it, and what still ran was asked for before.
        lines.finish(|line| {
            if !killed {
                self.line(line, events)
            }
        });
        self.lines = lines;
        if killed {
            return self.tell_open();
        }
        self.close(exit, events);
        if self.stage == Stage::Ended {
            self.proofs.record(self.ended);
            self.nothing_selected = self.told == 0 && self.says_nothing_selected(exit);
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

#[cfg(test)]
mod tests;
