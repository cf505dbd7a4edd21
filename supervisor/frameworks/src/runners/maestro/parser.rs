//! Puts together what the console and the reports of a run say, and asks for the flows that failed once more. Must not know
//! what a line means or how a command is written.

use super::NAME;
use super::command::{SUITES, Suite, again, report};
use super::console::{OutputTail, Verdict, after_name, name, said};
use super::flows::Flow;
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::formats::junit;
use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail as Words, describe_exit, strip_ansi};
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::{MESSAGE_BYTES_MAX, TEST_CASES_MAX};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use regex::Regex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::LazyLock;

/// What stands between a flow's file and its name.
const BETWEEN: &str = " > ";

/// Words of a Maestro that had nothing to run.
const NOTHING: [&str; 5] = [
    "Include / Exclude tags did not match any Flows",
    "No flows returned from the tag filter used",
    "do not contain any Flow",
    "did not match any Flow files",
    "directories do not contain any Flows",
];

/// How the words about a file that cannot be read begin. A file that another one runs stands in a line below it.
static UNREADABLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^Failed to parse file: (/.+?)(?::(\d+))?$").ok());

/// What of such words is of no use to a person: Jackson's own.
const JACKSONS: &str = "`, problem: ";

/// What is known of a command.
#[derive(Default)]
struct Course {
    suite: Suite,
    /// The same by name: a suite may have tens of thousands, and each line names one.
    names: Names,
    /// What the console said of each flow of the suite.
    told: Vec<Option<Verdict>>,
    /// Flows before this one are all told.
    first_open: usize,
    /// What it said of flows that are not in it.
    strangers: usize,
    /// The command whose failures this one runs again.
    again: bool,
    /// Whether it ended by itself.
    ended: bool,
}

/// Flows by name, each until it is taken, and the lengths that names have.
#[derive(Default)]
struct Names {
    of: HashMap<String, VecDeque<usize>>,
    lengths: BTreeSet<usize>,
}

/// A flow that failed and whose reason may go on in the next line.
struct Open {
    flow: Result<usize, String>,
    verdict: Verdict,
    duration_s: Option<f64>,
    reason: String,
}

/// The parser of a run.
pub(super) struct MaestroParser {
    paths: WorkspacePaths,
    steps: Vec<Step>,
    courses: Vec<Course>,
    current: usize,
    lines: LineSplitter,
    open: Option<Open>,
    /// The flow that runs now, where that is known.
    running: Option<usize>,
    stdout: Words,
    stderr: Words,
    follow_up: Vec<Step>,
    nothing_selected: bool,
    strangers: usize,
    flaky: u64,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

impl MaestroParser {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>) -> MaestroParser {
        let suites = plan.files.iter().find(|file| file.path == SUITES);
        let suites: Vec<Suite> = suites.and_then(|file| serde_json::from_slice(&file.bytes).ok()).unwrap_or_default();
        MaestroParser {
            paths: WorkspacePaths::new(request.workspace),
            steps: plan.steps.clone(),
            courses: suites.into_iter().map(|suite| Course::of(suite, false)).collect(),
            current: 0,
            lines: LineSplitter::default(),
            open: None,
            running: None,
            stdout: Words::default(),
            stderr: Words::default(),
            follow_up: Vec::new(),
            nothing_selected: false,
            strangers: 0,
            flaky: 0,
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    fn course(&mut self) -> Option<&mut Course> {
        self.courses.get_mut(self.current)
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = strip_ansi(&String::from_utf8_lossy(line));
        let line = line.trim_end_matches('\r');
        match said(line) {
            OutputTail::Other => self.more(line, events),
            OutputTail::Waiting => self.next(events),
            OutputTail::Total => self.close(events),
            OutputTail::Ended { verdict, rest } => {
                self.close(events);
                self.ended(verdict, rest, events);
            }
        }
    }

    /// A flow ended.
    fn ended(&mut self, verdict: Verdict, rest: &str, events: &mut Vec<RunnerEvent>) {
        let known = self.courses.get_mut(self.current).and_then(|course| course.names.take_from(rest));
        let (flow, name) = match known {
            Some((flow, name)) => (Ok(flow), name),
            None => (Err(name(rest).to_owned()), name(rest).len()),
        };
        let (duration_s, reason) = after_name(rest.get(name..).unwrap_or_default());
        let open = Open { flow, verdict, duration_s, reason: reason.trim_start().to_owned() };
        let is_whole = verdict == Verdict::Passed || open.reason.is_empty() || open.reason.ends_with(')');
        self.open = Some(open);
        if is_whole {
            self.close(events);
        }
    }

    /// A further line of a reason.
    fn more(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Some(open) = &mut self.open else { return };
        if open.reason.len() < MESSAGE_BYTES_MAX {
            open.reason.push('\n');
            open.reason.push_str(line);
        }
        if line.ends_with(')') {
            self.close(events);
        }
    }

    /// All is said about the flow that ended last.
    fn close(&mut self, events: &mut Vec<RunnerEvent>) {
        let Some(Open { flow, verdict, duration_s, reason }) = self.open.take() else { return };
        let message = reason.strip_prefix('(').unwrap_or(&reason);
        let message = message.strip_suffix(')').unwrap_or(message).to_owned();
        let message = Some(message).filter(|message| !message.is_empty() && verdict != Verdict::Passed);
        let Some(course) = self.courses.get_mut(self.current) else { return };
        let is_first = !course.again;
        let known = match flow {
            Ok(index) => {
                course.told.get_mut(index).into_iter().for_each(|told| *told = Some(verdict));
                course.suite.flows.get(index).cloned()
            }
            Err(name) => {
                course.strangers += 1;
                self.strangers += 1;
                let dir = course.suite.flows.first().map_or("", |flow| super::flows::parent(&flow.file));
                (self.strangers <= TEST_CASES_MAX).then(|| Flow { file: dir.to_owned(), name })
            }
        };
        if let Some(flow) = known.filter(|_| is_first) {
            events.push(self.case(&flow, verdict, duration_s, message));
        }
        self.next(events);
    }

    /// The flow after those that ended begins.
    fn next(&mut self, events: &mut Vec<RunnerEvent>) {
        let Some(course) = self.courses.get_mut(self.current).filter(|course| course.suite.in_order) else { return };
        let next = course.first_open();
        if next != self.running {
            self.running = next;
            let flow = next.and_then(|next| course.suite.flows.get(next)).filter(|_| !course.again);
            events.extend(flow.map(|flow| RunnerEvent::TestStarted(id(flow).bounded())));
        }
    }

    fn case(&self, flow: &Flow, verdict: Verdict, duration_s: Option<f64>, message: Option<String>) -> RunnerEvent {
        let outcome = match verdict {
            Verdict::Passed => TestOutcome::Passed,
            Verdict::Failed => TestOutcome::Failed,
            Verdict::Stopped => TestOutcome::Error,
        };
        let file = Some(flow.file.clone()).filter(|_| outcome.is_failure());
        let message = message.map(|message| self.paths.scrub(&message));
        let case = TestCase { duration_s, file, message, ..TestCase::new(id(flow), nodeid(flow), outcome) };
        RunnerEvent::TestFinished(Box::new(case.bounded()))
    }

    fn cut_off(&mut self, why: String) {
        self.proofs.invalidate();
        self.notes.add(why);
    }

    /// The command ended without a word about any flow.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let raw = strip_ansi(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        if NOTHING.iter().any(|words| raw.contains(words)) {
            self.nothing_selected = true;
            return self.proofs.waive();
        }
        if let Some(option) = raw.lines().find(|line| line.starts_with("Unknown option")) {
            self.summary.runner_missing = true;
            self.proofs.waive();
            return self.notes.add(format!("maestro is too old, 1.39 or newer is needed: {}", option.trim()));
        }
        self.cut_off(format!("{NAME} {} before it came to any flow", describe_exit(exit)));
        if matches!(exit, Exit::Signal(_) | Exit::NotStarted(_)) {
            return;
        }
        let dir = self.steps.get(self.current).map(|step| step.dir.clone()).unwrap_or_default();
        let blamed = unreadable(&raw);
        let place = blamed.as_ref().and_then(|(file, line, _)| Some((self.paths.relative(file)?, *line)));
        let output = self.paths.scrub(raw.trim());
        let first = || output.lines().next().unwrap_or_default().trim().to_owned();
        let message = blamed.map_or_else(first, |(_, _, message)| self.paths.scrub(&message));
        let message = if message.is_empty() { format!("{NAME} {}", describe_exit(exit)) } else { message };
        let nodeid = place.as_ref().map_or(if dir.is_empty() { "." } else { &dir }, |(file, _)| file).to_owned();
        let (file, line) = place.map_or((None, None), |(file, line)| (Some(file), line));
        let collector = Collector { nodeid, kind: CollectorKind::Collection, file, line, message, output };
        events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
    }

    /// The flow that ran when the command ended.
    fn left_open(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let Some(course) = self.courses.get_mut(self.current) else { return };
        let open = self.running.take().filter(|_| !course.again);
        let Some(flow) = open.and_then(|open| course.suite.flows.get(open)).cloned() else { return };
        if let Some(told) = open.and_then(|open| course.told.get_mut(open)) {
            *told = Some(Verdict::Stopped);
        }
        let message = format!("did not finish: the runner {}", describe_exit(exit));
        events.push(self.case(&flow, Verdict::Stopped, None, Some(message)));
    }

    /// Asks for the flows that failed once more.
    fn retry(&mut self) {
        let Some(course) = self.courses.get(self.current).filter(|course| !course.again) else { return };
        let failed = course.told.iter().zip(&course.suite.flows).filter(|(told, _)| **told == Some(Verdict::Failed));
        let flows: Vec<Flow> = failed.map(|(_, flow)| flow.clone()).collect();
        let Some(step) = self.steps.get(self.current).filter(|_| !flows.is_empty()) else { return };
        let step = again(step, &flows, self.courses.len());
        let in_order = !step.args.iter().any(|word| word.starts_with("--shard-split"));
        self.courses.push(Course::of(Suite { flows, in_order, is_empty: false }, true));
        self.steps.push(step.clone());
        self.follow_up.push(step);
    }

    /// What the report of a command says of its flows, by their places in it.
    fn check(&mut self, number: usize, bytes: Option<&[u8]>, events: &mut Vec<RunnerEvent>) {
        let Some(course) = self.courses.get(number).filter(|course| course.ended && course.has_told()) else { return };
        let Some(bytes) = bytes else { return self.cut_off("maestro left no report".to_owned()) };
        let (again, flows, mut names) = (course.again, course.told.len(), Names::of(&course.suite.flows));
        let dir = self.steps.get(number).map(|step| step.dir.clone()).unwrap_or_default();
        let mut found = Vec::new();
        let read = junit::parse_report(&report(number), bytes, &self.paths, &dir, &mut found);
        if read.is_incomplete {
            self.proofs.invalidate();
        }
        self.notes.extend(read.notes);
        let mut reported = vec![None; flows];
        for event in found {
            let RunnerEvent::TestFinished(case) = event else { continue };
            let Some(index) = names.take(&case.name) else { continue };
            let verdict = match case.outcome {
                TestOutcome::Passed => Verdict::Passed,
                _ => Verdict::Failed,
            };
            reported[index] = Some(verdict);
            let Some(course) = self.courses.get(number) else { return };
            let (flow, told) = (course.suite.flows[index].clone(), course.told[index]);
            match told {
                None if !again => events.push(self.case(&flow, verdict, case.duration_s, case.message)),
                Some(Verdict::Passed) if verdict != Verdict::Passed => {
                    self.cut_off(format!("{} passed on the console and failed in the report", nodeid(&flow)));
                }
                _ => {}
            }
        }
        self.compare(number, &reported);
    }

    /// Flows that the report does not name, and those that passed when they were run again.
    fn compare(&mut self, number: usize, reported: &[Option<Verdict>]) {
        let Some(course) = self.courses.get(number) else { return };
        let rows: Vec<(Flow, Option<Verdict>, Option<Verdict>)> = course
            .suite
            .flows
            .iter()
            .cloned()
            .zip(course.told.iter().copied().zip(reported.iter().copied()))
            .map(|(flow, (told, reported))| (flow, told, reported))
            .collect();
        let (again, in_order) = (course.again, course.suite.in_order);
        for (flow, told, reported) in rows {
            let passed = told == Some(Verdict::Passed) && reported == Some(Verdict::Passed);
            if again && passed {
                self.flaky += 1;
                self.notes.add(format!("{} is flaky: it failed, and passed when it was run again", nodeid(&flow)));
            }
            let is_lost = told == Some(Verdict::Passed) || in_order && !again && told != Some(Verdict::Stopped);
            if is_lost && reported.is_none() {
                self.cut_off(format!("{} is not in maestro's report", nodeid(&flow)));
            }
        }
    }
}

/// The file, the line and the words about what cannot be read: of the innermost of files that run each other.
fn unreadable(said: &str) -> Option<(String, Option<u32>, String)> {
    let shape = UNREADABLE.as_ref()?;
    let (at, found) = said.lines().enumerate().filter_map(|(at, line)| Some((at, shape.captures(line)?))).last()?;
    let why = said.lines().skip(at + 1).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let why = why.split_once(JACKSONS).map_or(why, |(_, why)| why);
    let line = found.get(2).and_then(|line| line.as_str().parse().ok()).filter(|line| *line > 0);
    Some((found.get(1)?.as_str().to_owned(), line, why.to_owned()))
}

fn id(flow: &Flow) -> TestId {
    TestId { package: flow.file.clone(), name: flow.name.clone() }
}

fn nodeid(flow: &Flow) -> String {
    format!("{}{BETWEEN}{}", flow.file, flow.name)
}

impl Course {
    fn of(suite: Suite, again: bool) -> Course {
        Course {
            told: vec![None; suite.flows.len()],
            names: Names::of(&suite.flows),
            suite,
            again,
            ..Course::default()
        }
    }

    fn has_told(&self) -> bool {
        self.strangers > 0 || self.told.iter().any(Option::is_some)
    }

    /// The first flow of which nothing is told.
    fn first_open(&mut self) -> Option<usize> {
        let told = self.told.get(self.first_open..).unwrap_or_default();
        self.first_open += told.iter().position(Option::is_none).unwrap_or(told.len());
        (self.first_open < self.told.len()).then_some(self.first_open)
    }
}

impl Names {
    fn of(flows: &[Flow]) -> Names {
        let mut names = Names::default();
        for (index, flow) in flows.iter().enumerate() {
            names.of.entry(flow.name.clone()).or_default().push_back(index);
            names.lengths.insert(flow.name.len());
        }
        names
    }

    /// The flow of that name, the first of several.
    fn take(&mut self, name: &str) -> Option<usize> {
        self.of.get_mut(name)?.pop_front()
    }

    /// The flow that what follows a status begins with the name of, and that name's length: of those that are left the one
    /// with the longest name.
    fn take_from(&mut self, rest: &str) -> Option<(usize, usize)> {
        let is_end =
            |length: usize| rest.get(length..).is_some_and(|after| after.is_empty() || after.starts_with(" ("));
        let lengths = self.lengths.range(..=rest.len()).rev().copied().filter(|length| is_end(*length));
        let of = &mut self.of;
        lengths.into_iter().find_map(|length| Some((of.get_mut(rest.get(..length)?)?.pop_front()?, length)))
    }
}

impl Parser for MaestroParser {
    fn step_started(&mut self, step: usize) {
        self.current = step;
        self.proofs.start_step();
        self.nothing_selected = false;
        self.running = None;
        (self.stdout, self.stderr) = (Words::default(), Words::default());
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.stdout.add(bytes);
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stderr.add(bytes);
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        // A line that a kill cut says nothing sure.
        lines.finish(|line| {
            if !killed {
                self.line(line, events)
            }
        });
        self.lines = lines;
        if killed {
            self.open = None;
            return;
        }
        self.close(events);
        let Some(course) = self.course().filter(|course| !course.suite.is_empty) else { return self.proofs.waive() };
        course.ended = true;
        if course.has_told() || self.running.is_some() {
            // Its report is compared with what was told when it is there.
            self.proofs.record(0);
            self.left_open(exit, events);
            self.retry();
        } else {
            self.explain(exit, events);
        }
    }

    fn files(&mut self, files: &[(String, Vec<u8>)], events: &mut Vec<RunnerEvent>) {
        for number in 0..self.courses.len() {
            let name = format!("{NAME}/{}", report(number));
            let is_own = |path: &str| path == name || path.ends_with(&format!("/{name}"));
            let bytes = files.iter().find(|(path, _)| is_own(path)).map(|(_, bytes)| bytes.as_slice());
            self.check(number, bytes, events);
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.follow_up)
    }

    fn nothing_selected(&self) -> bool {
        self.nothing_selected
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        let Some(course) = self.courses.get(self.current) else { return Vec::new() };
        let left: Vec<usize> = (0..course.told.len()).filter(|index| course.told[*index].is_none()).collect();
        let only = || left.first().copied().filter(|_| left.len() == 1 && course.has_told());
        let running = self.running.or_else(only).filter(|_| !course.ended);
        running.and_then(|running| course.suite.flows.get(running)).map(id).into_iter().collect()
    }

    fn summary(&self) -> StreamSummary {
        let proof = self.proofs.proof();
        let mut summary = StreamSummary { proof, notes: self.notes.to_vec(), ..self.summary.clone() };
        if self.lines.skipped_lines() > 0 {
            summary.proof = Proof::Missing;
            summary.notes.push("lines of maestro's were too long to be read".to_owned());
        }
        summary
    }
}

/// The parser of a listing: each line is a flow.
pub(super) struct Listing {
    lines: LineSplitter,
    listed: usize,
    proofs: ProofTracker,
}

impl Listing {
    pub(super) fn new(_: &Plan, _: &PlanRequest<'_>) -> Listing {
        Listing { lines: LineSplitter::default(), listed: 0, proofs: ProofTracker::default() }
    }
}

impl Parser for Listing {
    fn step_started(&mut self, _step: usize) {
        self.proofs.start_step();
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let Listing { lines, listed, proofs } = self;
        lines.feed(bytes, |line| match serde_json::from_slice::<Flow>(line) {
            Ok(flow) if *listed < TEST_CASES_MAX => {
                *listed += 1;
                events.push(RunnerEvent::TestStarted(id(&flow).bounded()));
            }
            Ok(_) => {}
            Err(_) => proofs.invalidate(),
        });
    }

    fn stderr(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn step_ended(&mut self, _exit: Exit, killed: bool, _events: &mut Vec<RunnerEvent>) {
        if !killed {
            self.proofs.record(0);
        }
    }

    fn running(&self) -> Vec<TestId> {
        Vec::new()
    }

    fn summary(&self) -> StreamSummary {
        StreamSummary { structured: true, proof: self.proofs.proof(), ..StreamSummary::default() }
    }
}
