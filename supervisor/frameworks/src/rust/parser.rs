//! Reads what cargo and nextest write as they go: how the build went, then the results of each test binary, then doctests.
//! Must not know how a failure's text is read, or how command lines are written.
//!
//! With cargo, lines of our runner frame each test binary's, and within them only libtest's JSON counts, or its text where
//! the binary has a harness of its own. What comes after is rustdoc's text. Whatever else tests print is passed over, also
//! when it shares a line with a result. Nextest writes one stream in the same JSON, in which names carry their binary.

use super::build::{self, Builds};
use super::event::{CargoLine, HarnessLine, Test};
use super::failure::{self, Failure, Here};
use super::names::{Binary, node_id, package_of};
use super::nextest::{self, List, Origins};
use super::text::{Text, Told, listed};
use crate::framework::{Parser, Plan, Step, StreamSummary, Want};
use crate::lines::{LINE_BYTES_MAX, Lines};
use crate::paths::{Paths, is_within, join};
use crate::reported::{Said, plain};
use proctor_core::bound::{TEST_CASES_MAX, TEST_OUTPUT_BYTES_MAX};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most sentences in the summary.
const NOTES_MAX: usize = 32;

/// Most tests that are held as running, and most binaries that are known. No project has as many.
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

/// The test binary whose lines these are.
#[derive(Debug)]
struct Current {
    /// Its name, see `names.rs`.
    id: String,
    /// Whether it has no harness of libtest's.
    is_plain: bool,
    text: Text,
    /// The beginning of what it printed beside results.
    output: String,
    /// Tests that it told of, and how many of them failed.
    told: u64,
    failed: u64,
    /// Whether its suite began, and did not end.
    began: bool,
    open: bool,
}

/// A binary that ended with tests that had not.
#[derive(Debug)]
struct Crash {
    tests: Vec<TestId>,
    how: String,
}

/// A test that failed and did not say why. Nextest has a process for each test, and tells only people that a signal ended
/// it: one of the test's own, or proctor's, on which nextest ends all tests and calls them failed.
#[derive(Debug)]
struct Silent {
    id: TestId,
    duration_s: Option<f64>,
    output: String,
}

/// The parser of one run or listing.
#[derive(Debug)]
pub(super) struct RustParser {
    speaker: Speaker,
    mode: Mode,
    paths: Paths,
    steps: Vec<Step>,
    step: usize,
    dir: String,
    lines: Lines,
    stderr: Said,
    /// Test binaries by their file.
    binaries: HashMap<String, String>,
    /// Packages with documentation, by directory from the workspace.
    documented: BTreeMap<String, String>,
    builds: Builds,
    /// Whether the current step is still building, and whether that failed.
    building: bool,
    build_failed: bool,
    current: Option<Current>,
    doctests: Text,
    origins: Origins,
    crashes: Vec<Crash>,
    silent: Vec<Silent>,
    /// Suites that nextest began in this step and did not end; none before the first.
    suites_open: Option<u64>,
    /// Whether nextest told of a test before any suite had begun: the stream lacks a part.
    is_headless: bool,
    /// Whether nextest counted ignored tests in the current step, and those that were told as skipped.
    has_ignored: bool,
    skipped: HashSet<TestId>,
    /// Whether the current step lists the ignored tests of the one before; such steps come after those of the plan.
    completes: bool,
    planned: usize,
    nothing_selected: bool,
    /// Tests that have begun, and when; and the same the other way round.
    running: HashMap<TestId, u64>,
    began: BTreeMap<u64, TestId>,
    sequence: u64,
    /// Failures and errors of the current step: what explains that it did not end well.
    blamed: u64,
    listed: usize,
    unreadable: u64,
    flaky: u64,
    summary: StreamSummary,
}

impl RustParser {
    pub(super) fn new(speaker: Speaker, mode: Mode, plan: &Plan, want: &Want<'_>) -> RustParser {
        RustParser {
            speaker,
            mode,
            paths: Paths::new(want.workspace),
            steps: plan.steps.clone(),
            step: 0,
            dir: String::new(),
            lines: Lines::default(),
            stderr: Said::default(),
            binaries: HashMap::new(),
            documented: BTreeMap::new(),
            builds: Builds::default(),
            building: true,
            build_failed: false,
            current: None,
            doctests: Text::default(),
            origins: Origins::default(),
            crashes: Vec::new(),
            silent: Vec::new(),
            suites_open: None,
            is_headless: false,
            has_ignored: false,
            skipped: HashSet::new(),
            completes: false,
            planned: plan.steps.len(),
            nothing_selected: false,
            running: HashMap::new(),
            began: BTreeMap::new(),
            sequence: 0,
            blamed: 0,
            listed: 0,
            unreadable: 0,
            flaky: 0,
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if self.building && line.starts_with("{\"reason\":") {
            return self.cargo_line(line);
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

    fn cargo_line(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(CargoLine::CompilerArtifact(artifact)) => {
                let package = package_of(&artifact.package_id);
                let kind = artifact.target.kind.first().map(String::as_str).unwrap_or_default();
                let binary = Binary::of(kind, &artifact.target.name);
                let manifest = self.paths.relative(&artifact.manifest_path);
                if let (Binary::Lib, Some(manifest)) = (&binary, manifest) {
                    let dir = manifest.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
                    self.documented.insert(dir, package.to_owned());
                }
                if let Some(file) =
                    artifact.executable.filter(|_| artifact.profile.test && self.binaries.len() < HELD_MAX)
                {
                    self.binaries.insert(file, binary.id(package));
                }
            }
            Ok(CargoLine::CompilerMessage(message)) => {
                let here = Here { paths: &self.paths, dir: &self.dir };
                self.builds.message(&message, here);
            }
            Ok(CargoLine::BuildFinished { success }) => (self.building, self.build_failed) = (false, !success),
            Ok(CargoLine::Other) => {}
            Err(_) => self.unreadable += 1,
        }
    }

    fn binary_began(&mut self, file: &str, is_plain: bool) {
        let stem = || file.rsplit('/').next().unwrap_or_default().to_owned();
        let id = self.binaries.get(file).cloned().unwrap_or_else(stem);
        self.building = false;
        self.current = Some(Current {
            id,
            is_plain,
            text: Text::default(),
            output: String::new(),
            told: 0,
            failed: 0,
            began: false,
            open: false,
        });
    }

    fn harness_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        // A test may have printed before the result on the same line.
        let starts = line.match_indices('{').map(|(at, _)| at);
        let is_form = |at: &usize| ["{ \"type\":", "{\"type\":"].iter().any(|form| line[*at..].starts_with(form));
        let found = starts.filter(is_form).take(4).find_map(|at| Some((at, serde_json::from_str(&line[at..]).ok()?)));
        let before = found.as_ref().map_or(line, |(at, _)| &line[..*at]);
        if let Some(current) = self.current.as_mut().filter(|_| !before.is_empty()) {
            keep(&mut current.output, before);
        }
        match found {
            Some((_, HarnessLine::Suite(suite))) => {
                if let Some(origin) = suite.nextest.as_ref().filter(|_| suite.event == "started") {
                    self.origins.suite_began(origin);
                }
                if self.speaker == Speaker::Nextest {
                    let open = self.suites_open.unwrap_or(0);
                    self.suites_open = Some(if suite.event == "started" { open + 1 } else { open.saturating_sub(1) });
                    self.has_ignored |= suite.ignored > 0;
                }
                if let Some(current) = &mut self.current {
                    current.open = suite.event == "started";
                    current.began = true;
                }
            }
            Some((_, HarnessLine::Test(test))) => self.test_line(*test, events),
            Some((_, HarnessLine::Other)) | None => {}
        }
    }

    /// Nextest's list is one line.
    fn list_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Ok(list) = serde_json::from_str::<List>(line) else { return };
        if self.completes {
            for (package, name) in list.ignored() {
                let id = TestId { package, name };
                if !self.skipped.contains(&id) {
                    self.finished(id, TestOutcome::Skipped, None, Failure::default(), "", events);
                }
            }
        } else {
            list.tests().for_each(|(package, name)| self.list(TestId { package, name }, events));
        }
    }

    fn test_line(&mut self, test: Test, events: &mut Vec<RunnerEvent>) {
        let (id, attempt) = match &self.current {
            Some(current) => (TestId { package: current.id.clone(), name: test.name }, 1),
            None => {
                self.is_headless |= self.speaker == Speaker::Nextest && self.suites_open.is_none();
                let Some((package, name, attempt)) = self.origins.split(&test.name, test.event == "started") else {
                    return;
                };
                (TestId { package, name: name.to_owned() }, attempt)
            }
        };
        let outcome = match test.event.as_str() {
            "started" => return self.started(id, events),
            "discovered" => return self.list(id, events),
            "ok" => TestOutcome::Passed,
            "failed" => TestOutcome::Failed,
            "ignored" => TestOutcome::Skipped,
            // That a test runs for long is no result; what later versions add is none either.
            _ => return,
        };
        if outcome == TestOutcome::Passed && attempt > 1 {
            self.flaky += 1;
            self.note(format!("{} is flaky: it passed at attempt {attempt}", node_id(&id.package, &id.name)));
        }
        let output = plain(&test.stdout.unwrap_or_default());
        let failure = match outcome {
            TestOutcome::Failed => {
                let failure = failure::of_test(&id.name, &output, test.message.as_deref(), self.here());
                if self.speaker == Speaker::Nextest && failure.message.is_none() && self.silent.len() < HELD_MAX {
                    return self.silent.push(Silent { id, duration_s: test.exec_time, output });
                }
                failure
            }
            TestOutcome::Skipped => {
                Failure { message: test.message.filter(|reason| !reason.is_empty()), ..Failure::default() }
            }
            _ => Failure::default(),
        };
        self.finished(id, outcome, test.exec_time, failure, &output, events);
    }

    fn text_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let text = plain(line);
        if self.mode == Mode::Listing {
            if let Some(name) = listed(&text) {
                let package = self.current.as_ref().map_or_else(|| self.documented_by(&name), |now| now.id.clone());
                self.list(TestId { package, name }, events);
            }
            return;
        }
        let mut told = Vec::new();
        match &mut self.current {
            Some(current) => {
                current.text.line(&text, &mut told);
                keep(&mut current.output, &text);
            }
            None => self.doctests.line(&text, &mut told),
        }
        self.tell(told, events);
    }

    /// Tests that were told as text: of the current binary, or doctests.
    fn tell(&mut self, told: Vec<Told>, events: &mut Vec<RunnerEvent>) {
        for Told { name, outcome, reason, output } in told {
            let current = self.current.as_ref().map(|current| current.id.clone());
            let failure = match (outcome, &current) {
                (TestOutcome::Failed, Some(_)) => failure::of_words(&name, &output, self.here()),
                (TestOutcome::Failed, None) => failure::of_doctest(&name, &output, self.here()),
                _ => Failure { message: reason, ..Failure::default() },
            };
            let package = current.unwrap_or_else(|| self.documented_by(&name));
            self.finished(TestId { package, name }, outcome, None, failure, &output, events);
        }
    }

    /// The package in whose directory a doctest's file is.
    fn documented_by(&self, name: &str) -> String {
        let file = join(&self.dir, name.split(" - ").next().unwrap_or_default());
        let owners = self.documented.iter().filter(|(dir, _)| is_within(&file, dir));
        let owner = owners.max_by_key(|(dir, _)| dir.len()).map(|(_, package)| package.as_str());
        Binary::Doctests.id(owner.unwrap_or_default())
    }

    fn binary_ended(&mut self, status: i32, events: &mut Vec<RunnerEvent>) {
        let Some(text) = self.current.as_mut().map(|current| std::mem::take(&mut current.text)) else { return };
        let mut told = Vec::new();
        let (is_open, speaks) = (text.is_open(), text.speaks());
        let began = { text }.finish(&mut told);
        self.tell(told, events);
        let Some(current) = self.current.take() else { return };
        let how = if status > 128 {
            format!("was ended by signal {}", signal_name(status - 128))
        } else {
            format!("exited with {status}")
        };
        let began = began.map(|name| TestId { package: current.id.clone(), name });
        let tests: Vec<TestId> =
            self.began.values().filter(|id| id.package == current.id).cloned().chain(began).collect();
        let output = self.paths.scrub(plain(&current.output).trim());
        if !tests.is_empty() {
            self.crashes.push(Crash { tests, how });
        } else if self.mode == Mode::Listing && status == 0 {
            if current.is_plain && current.told == 0 {
                self.list(whole(&current.id), events);
            }
        } else if current.is_plain && !speaks && self.mode == Mode::Running {
            let outcome = if status == 0 { TestOutcome::Passed } else { TestOutcome::Failed };
            let failure = failure::of_test("main", &output, None, self.here());
            let message = failure.message.clone().unwrap_or_else(|| format!("the test program {how}"));
            let failure = Failure { message: (status != 0).then_some(message), ..failure };
            let failure = if status == 0 { Failure::default() } else { failure };
            self.finished(whole(&current.id), outcome, None, failure, &output, events);
        } else if current.open || is_open || (!current.is_plain && !current.began) {
            self.broke(&current.id, &format!("the test program {how} before it had told its tests"), output, events);
        } else if status != 0 && current.failed == 0 {
            self.broke(&current.id, &format!("the test program {how} outside of its tests"), output, events);
        }
    }

    /// A binary that failed without a test to blame.
    fn broke(&mut self, id: &str, message: &str, output: String, events: &mut Vec<RunnerEvent>) {
        self.blamed += 1;
        let (nodeid, message) = (id.to_owned(), message.to_owned());
        let collector = Collector { nodeid, kind: CollectorKind::Collection, file: None, line: None, message, output };
        events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
    }

    fn started(&mut self, id: TestId, events: &mut Vec<RunnerEvent>) {
        if self.running.len() < HELD_MAX && !self.running.contains_key(&id) {
            self.sequence += 1;
            self.running.insert(id.clone(), self.sequence);
            self.began.insert(self.sequence, id.clone());
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn list(&mut self, id: TestId, events: &mut Vec<RunnerEvent>) {
        if let Some(current) = &mut self.current {
            current.told += 1;
        }
        if self.listed < TEST_CASES_MAX {
            self.listed += 1;
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn finished(
        &mut self,
        id: TestId,
        outcome: TestOutcome,
        duration_s: Option<f64>,
        failure: Failure,
        output: &str,
        events: &mut Vec<RunnerEvent>,
    ) {
        if let Some(sequence) = self.running.remove(&id) {
            self.began.remove(&sequence);
        }
        if self.speaker == Speaker::Nextest && outcome == TestOutcome::Skipped && self.skipped.len() < TEST_CASES_MAX {
            self.skipped.insert(id.clone());
        }
        let failed = u64::from(outcome.is_failure());
        self.blamed += failed;
        if let Some(current) = &mut self.current {
            current.told += 1;
            current.failed += failed;
        }
        let Failure { message, place, expected, actual, stack } = failure;
        let (file, line) = place.unzip();
        let scrub = |text: Option<String>| text.map(|text| self.paths.scrub(&text));
        let output = Some(output.trim()).filter(|output| !output.is_empty() && outcome != TestOutcome::Passed);
        let nodeid = node_id(&id.package, &id.name);
        let case = TestCase {
            duration_s: duration_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0),
            file,
            line,
            message: scrub(message),
            expected: scrub(expected),
            actual: scrub(actual),
            stack: scrub(stack),
            output: scrub(output.map(str::to_owned)),
            ..TestCase::new(id, nodeid, outcome)
        };
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }

    /// Tests that a binary left open. Why is on stderr, which may be read later than the binary's end.
    fn tell_crashes(&mut self, events: &mut Vec<RunnerEvent>) {
        if self.crashes.is_empty() {
            return;
        }
        let said = self.stderr.text();
        // Looked for once and not for each test: a binary may leave tens of thousands open.
        let named = |line: &str| Some(line.split_once("thread '")?.1.rsplit_once('\'')?.0.to_owned());
        let overflowed: HashSet<String> =
            said.lines().filter(|line| line.contains("overflowed its stack")).filter_map(named).collect();
        for Crash { tests, how } in std::mem::take(&mut self.crashes) {
            for id in tests {
                let message = if overflowed.contains(&id.name) {
                    "the test overflowed its stack".to_owned()
                } else {
                    format!("did not finish: the test program {how}")
                };
                let failure = Failure { message: Some(message), ..Failure::default() };
                self.finished(id, TestOutcome::Error, None, failure, "", events);
            }
        }
    }

    /// The runner failed, and nothing that was told is a reason.
    fn explain(&mut self, events: &mut Vec<RunnerEvent>) {
        let said = plain(&self.stderr.text());
        if let Some(remedy) = missing(&said) {
            self.summary.runner_missing = true;
            return self.note(remedy);
        }
        let kind = if self.build_failed { CollectorKind::Build } else { CollectorKind::Collection };
        let nodeid = if self.dir.is_empty() { "." } else { &self.dir };
        if let Some(refusal) = build::refusal(nodeid, kind, &said, self.here()) {
            self.blamed += 1;
            events.push(refusal);
        }
    }

    fn here(&self) -> Here<'_> {
        Here { paths: &self.paths, dir: &self.dir }
    }

    fn note(&mut self, note: String) {
        if self.summary.notes.len() < NOTES_MAX && !self.summary.notes.contains(&note) {
            self.summary.notes.push(note);
        }
    }
}

/// A program that is one test as a whole: it is called as the program is.
fn whole(id: &str) -> TestId {
    let name = id.rsplit(['/', ':']).next().unwrap_or_default();
    TestId { package: id.to_owned(), name: name.to_owned() }
}

fn keep(output: &mut String, line: &str) {
    if output.len() + line.len() < TEST_OUTPUT_BYTES_MAX {
        output.push_str(line);
        output.push('\n');
    }
}

fn signal_name(number: i32) -> String {
    let known =
        [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")];
    known.iter().find(|(known, _)| *known == number).map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// What to do when the runner or the compiler is not installed, if that is what these words say.
fn missing(said: &str) -> Option<String> {
    if said.contains("no such command: `nextest`") {
        return Some(
            "cargo-nextest is not installed: cargo install cargo-nextest --locked, or pass framework `cargo`"
                .to_owned(),
        );
    }
    let line = said.lines().find(|line| line.starts_with("error: toolchain '") && line.contains("is not installed"))?;
    Some(line.trim_start_matches("error: ").to_owned())
}

impl Parser for RustParser {
    fn step_started(&mut self, step: usize) {
        self.step = step;
        self.dir = self.steps.get(step).or(self.steps.last()).map(|step| step.dir.clone()).unwrap_or_default();
        self.stderr = Said::default();
        (self.building, self.build_failed, self.blamed) = (true, false, 0);
        (self.current, self.doctests) = (None, Text::default());
        self.nothing_selected = false;
        self.suites_open = None;
        self.completes = step >= self.planned;
        self.has_ignored = false;
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
        self.blamed += self.builds.tell(events);
        let mut told = Vec::new();
        if self.current.is_none() {
            self.doctests.finish(&mut told);
            self.tell(told, events);
        }
        self.tell_crashes(events);
        for Silent { id, duration_s, output } in std::mem::take(&mut self.silent).into_iter().filter(|_| !killed) {
            let message = Some("the test's process ended without a panic".to_owned());
            let failure = Failure { message, ..Failure::default() };
            self.finished(id, TestOutcome::Failed, duration_s, failure, &output, events);
        }
        if self.speaker == Speaker::Nextest && matches!(exit, Exit::Code(0 | 4 | 100)) && !killed {
            // It was done. What it left open are ignored tests, of which it tells the beginning.
            if self.suites_open.is_none_or(|open| open == 0) {
                self.began.clear();
            }
        }
        let is_cut = self.is_headless
            || self.suites_open.is_some_and(|open| open > 0)
            || self.current.is_some()
            || self.doctests.is_open()
            || !self.began.is_empty();
        self.summary.cut_off |= killed || is_cut;
        if killed {
            return;
        }
        let how = "did not finish: the runner ended before it";
        for id in std::mem::take(&mut self.began).into_values() {
            let failure = Failure { message: Some(how.to_owned()), ..Failure::default() };
            self.finished(id, TestOutcome::Error, None, failure, "", events);
        }
        self.running.clear();
        let is_well = matches!(exit, Exit::Code(0) | Exit::NotStarted(_));
        self.nothing_selected = self.speaker == Speaker::Nextest && exit == Exit::Code(4);
        if !is_well && self.blamed == 0 && !self.nothing_selected {
            self.explain(events);
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        let run = self.steps.get(self.step).filter(|_| self.has_ignored && !self.completes && !self.nothing_selected);
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
        self.began.values().cloned().collect()
    }

    fn summary(&self) -> StreamSummary {
        let mut summary = self.summary.clone();
        let lost = [
            (self.unreadable, "line(s) of Cargo's could not be read".to_owned()),
            (self.lines.skipped(), format!("line(s) of more than {LINE_BYTES_MAX} bytes were passed over")),
        ];
        for (count, what) in lost.into_iter().filter(|(count, _)| *count > 0) {
            summary.cut_off = true;
            summary.notes.push(format!("{count} {what}"));
        }
        summary
    }
}
