//! Combines console and reports of a run into test events, and plans a second run of the failed flows.

use super::NAME;
use super::command::{COMMAND_FLOWS_FILE, CommandFlows, report, rerun};
use super::console::{FlowLine, FlowResult, after_name, name, parse_line};
use super::flows::Flow;
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::formats::junit;
use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail, describe_exit, strip_ansi};
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

/// Separates a flow's file from its name in a node id.
pub(super) const SEPARATOR: &str = " > ";

/// Messages of a Maestro that has nothing to run.
const NO_FLOWS_MESSAGES: [&str; 5] = [
    "Include / Exclude tags did not match any Flows",
    "No flows returned from the tag filter used",
    "do not contain any Flow",
    "did not match any Flow files",
    "directories do not contain any Flows",
];

/// First line of the error about an unreadable file. A file that another one includes is named in a line below.
static UNREADABLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^Failed to parse file: (/.+?)(?::(\d+))?$").ok());

/// Marks the end of the part of such an error that is Jackson's own and useless to people.
const JACKSON_PREFIX_END: &str = "`, problem: ";

/// State of one command.
#[derive(Default)]
struct CommandState {
    suite: CommandFlows,
    /// Flows by name: a suite may have tens of thousands, and each console line names one.
    names: FlowNames,
    /// Console result of each flow of the suite.
    results: Vec<Option<FlowResult>>,
    /// All flows before this index have a console result.
    first_open: usize,
    /// Number of console results of flows outside the suite.
    unknown_flows: usize,
    /// Whether this command reruns failed flows of another one.
    again: bool,
    /// Whether the command ended by itself.
    ended: bool,
}

/// Flow indexes by name, each until it is taken, and the lengths that names have.
#[derive(Default)]
struct FlowNames {
    indexes: HashMap<String, VecDeque<usize>>,
    lengths: BTreeSet<usize>,
}

/// A failed flow whose reason may continue in the next line.
struct PendingFlow {
    flow: Result<usize, String>,
    result: FlowResult,
    duration_s: Option<f64>,
    reason: String,
}

/// Parser of a run.
pub(super) struct MaestroParser {
    paths: WorkspacePaths,
    steps: Vec<Step>,
    commands: Vec<CommandState>,
    current: usize,
    lines: LineSplitter,
    open: Option<PendingFlow>,
    /// The flow that runs now, where that is known.
    running: Option<usize>,
    stdout: OutputTail,
    stderr: OutputTail,
    follow_up: Vec<Step>,
    nothing_selected: bool,
    unknown_flows: usize,
    flaky: u64,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

impl MaestroParser {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>) -> MaestroParser {
        let suites = plan.files.iter().find(|file| file.path == COMMAND_FLOWS_FILE);
        let suites: Vec<CommandFlows> =
            suites.and_then(|file| serde_json::from_slice(&file.bytes).ok()).unwrap_or_default();
        MaestroParser {
            paths: WorkspacePaths::new(request.workspace),
            steps: plan.steps.clone(),
            commands: suites.into_iter().map(|suite| CommandState::new(suite, false)).collect(),
            current: 0,
            lines: LineSplitter::default(),
            open: None,
            running: None,
            stdout: OutputTail::default(),
            stderr: OutputTail::default(),
            follow_up: Vec::new(),
            nothing_selected: false,
            unknown_flows: 0,
            flaky: 0,
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    fn command(&mut self) -> Option<&mut CommandState> {
        self.commands.get_mut(self.current)
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = strip_ansi(&String::from_utf8_lossy(line));
        let line = line.trim_end_matches('\r');
        match parse_line(line) {
            FlowLine::Other => self.append_reason(line, events),
            FlowLine::Waiting => self.report_start(events),
            FlowLine::Total => self.report_pending(events),
            FlowLine::Ended { result, rest } => {
                self.report_pending(events);
                self.finish_flow(result, rest, events);
            }
        }
    }

    /// Records that a flow ended.
    fn finish_flow(&mut self, result: FlowResult, rest: &str, events: &mut Vec<RunnerEvent>) {
        let known = self.commands.get_mut(self.current).and_then(|command| command.names.take_from(rest));
        let (flow, name) = match known {
            Some((flow, name)) => (Ok(flow), name),
            None => (Err(name(rest).to_owned()), name(rest).len()),
        };
        let (duration_s, reason) = after_name(rest.get(name..).unwrap_or_default());
        let open = PendingFlow { flow, result, duration_s, reason: reason.trim_start().to_owned() };
        let is_whole = result == FlowResult::Passed || open.reason.is_empty() || open.reason.ends_with(')');
        self.open = Some(open);
        if is_whole {
            self.report_pending(events);
        }
    }

    /// Appends a line to the reason of the flow that ended last.
    fn append_reason(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Some(open) = &mut self.open else { return };
        if open.reason.len() < MESSAGE_BYTES_MAX {
            open.reason.push('\n');
            open.reason.push_str(line);
        }
        if line.ends_with(')') {
            self.report_pending(events);
        }
    }

    /// Reports the flow that ended last, now that its reason is complete.
    fn report_pending(&mut self, events: &mut Vec<RunnerEvent>) {
        let Some(PendingFlow { flow, result, duration_s, reason }) = self.open.take() else { return };
        let message = reason.strip_prefix('(').unwrap_or(&reason);
        let message = message.strip_suffix(')').unwrap_or(message).to_owned();
        let message = Some(message).filter(|message| !message.is_empty() && result != FlowResult::Passed);
        let Some(command) = self.commands.get_mut(self.current) else { return };
        let is_first = !command.again;
        let known = match flow {
            Ok(index) => {
                command.results.get_mut(index).into_iter().for_each(|slot| *slot = Some(result));
                command.suite.flows.get(index).cloned()
            }
            Err(name) => {
                command.unknown_flows += 1;
                self.unknown_flows += 1;
                let dir = command.suite.flows.first().map_or("", |flow| super::flows::parent(&flow.file));
                (self.unknown_flows <= TEST_CASES_MAX).then(|| Flow { file: dir.to_owned(), name })
            }
        };
        if let Some(flow) = known.filter(|_| is_first) {
            events.push(self.case(&flow, result, duration_s, message));
        }
        self.report_start(events);
    }

    /// Reports that the next flow has started: the first without a console result. Only if the flows of the command run one
    /// after the other in a known order, and once per flow; flows of a rerun are not reported.
    fn report_start(&mut self, events: &mut Vec<RunnerEvent>) {
        let Some(command) = self.commands.get_mut(self.current).filter(|command| command.suite.in_order) else {
            return;
        };
        let next = command.first_open();
        if next != self.running {
            self.running = next;
            let flow = next.and_then(|next| command.suite.flows.get(next)).filter(|_| !command.again);
            events.extend(flow.map(|flow| RunnerEvent::TestStarted(id(flow).bounded())));
        }
    }

    fn case(&self, flow: &Flow, result: FlowResult, duration_s: Option<f64>, message: Option<String>) -> RunnerEvent {
        let outcome = match result {
            FlowResult::Passed => TestOutcome::Passed,
            FlowResult::Failed => TestOutcome::Failed,
            FlowResult::Stopped => TestOutcome::Error,
        };
        let file = Some(flow.file.clone()).filter(|_| outcome.is_failure());
        let message = message.map(|message| self.paths.scrub(&message));
        let case = TestCase { duration_s, file, message, ..TestCase::new(id(flow), nodeid(flow), outcome) };
        RunnerEvent::TestFinished(Box::new(case.bounded()))
    }

    fn lose_proof(&mut self, why: String) {
        self.proofs.invalidate();
        self.notes.add(why);
    }

    /// Explains a command that ended without a result of any flow.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let raw = strip_ansi(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        if NO_FLOWS_MESSAGES.iter().any(|words| raw.contains(words)) {
            self.nothing_selected = true;
            return self.proofs.waive();
        }
        if let Some(option) = raw.lines().find(|line| line.starts_with("Unknown option")) {
            self.summary.runner_missing = true;
            self.proofs.waive();
            return self.notes.add(format!("maestro is too old, 1.39 or newer is needed: {}", option.trim()));
        }
        self.lose_proof(format!("{NAME} {} before it came to any flow", describe_exit(exit)));
        if matches!(exit, Exit::Signal(_) | Exit::NotStarted(_)) {
            return;
        }
        let dir = self.steps.get(self.current).map(|step| step.dir.clone()).unwrap_or_default();
        let unreadable_file = unreadable(&raw);
        let place = unreadable_file.as_ref().and_then(|(file, line, _)| Some((self.paths.relative(file)?, *line)));
        let output = self.paths.scrub(raw.trim());
        let first = || output.lines().next().unwrap_or_default().trim().to_owned();
        let message = unreadable_file.map_or_else(first, |(_, _, message)| self.paths.scrub(&message));
        let message = if message.is_empty() { format!("{NAME} {}", describe_exit(exit)) } else { message };
        let nodeid = place.as_ref().map_or(if dir.is_empty() { "." } else { &dir }, |(file, _)| file).to_owned();
        let (file, line) = place.map_or((None, None), |(file, line)| (Some(file), line));
        let collector = Collector { nodeid, kind: CollectorKind::Collection, file, line, message, output };
        events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
    }

    /// Finishes the flow that was running when the command ended.
    fn finish_running(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let Some(command) = self.commands.get_mut(self.current) else { return };
        let open = self.running.take().filter(|_| !command.again);
        let Some(flow) = open.and_then(|open| command.suite.flows.get(open)).cloned() else { return };
        if let Some(slot) = open.and_then(|open| command.results.get_mut(open)) {
            *slot = Some(FlowResult::Stopped);
        }
        let message = format!("did not finish: the runner {}", describe_exit(exit));
        events.push(self.case(&flow, FlowResult::Stopped, None, Some(message)));
    }

    /// Plans a rerun of the failed flows.
    fn retry(&mut self) {
        let Some(command) = self.commands.get(self.current).filter(|command| !command.again) else { return };
        let failed = command
            .results
            .iter()
            .zip(&command.suite.flows)
            .filter(|(console, _)| **console == Some(FlowResult::Failed));
        let flows: Vec<Flow> = failed.map(|(_, flow)| flow.clone()).collect();
        let Some(step) = self.steps.get(self.current).filter(|_| !flows.is_empty()) else { return };
        let step = rerun(step, &flows, self.commands.len());
        let in_order = !step.args.iter().any(|word| word.starts_with("--shard-split"));
        self.commands.push(CommandState::new(CommandFlows { flows, in_order, is_empty: false }, true));
        self.steps.push(step.clone());
        self.follow_up.push(step);
    }

    /// Reads the report of a command, and reports flows that the console did not.
    fn read_report(&mut self, number: usize, bytes: Option<&[u8]>, events: &mut Vec<RunnerEvent>) {
        let Some(command) = self.commands.get(number).filter(|command| command.ended && command.has_results()) else {
            return;
        };
        let Some(bytes) = bytes else { return self.lose_proof("maestro left no report".to_owned()) };
        let (again, flows, mut names) = (command.again, command.results.len(), FlowNames::new(&command.suite.flows));
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
            let result = match case.outcome {
                TestOutcome::Passed => FlowResult::Passed,
                _ => FlowResult::Failed,
            };
            reported[index] = Some(result);
            let Some(command) = self.commands.get(number) else { return };
            let (flow, console) = (command.suite.flows[index].clone(), command.results[index]);
            match console {
                None if !again => events.push(self.case(&flow, result, case.duration_s, case.message)),
                Some(FlowResult::Passed) if result != FlowResult::Passed => {
                    self.lose_proof(format!("{} passed on the console and failed in the report", nodeid(&flow)));
                }
                _ => {}
            }
        }
        self.compare_with_report(number, &reported);
    }

    /// Compares console and report: notes flows that the report lacks, and those that passed in the rerun.
    fn compare_with_report(&mut self, number: usize, reported: &[Option<FlowResult>]) {
        let Some(command) = self.commands.get(number) else { return };
        let rows: Vec<(Flow, Option<FlowResult>, Option<FlowResult>)> = command
            .suite
            .flows
            .iter()
            .cloned()
            .zip(command.results.iter().copied().zip(reported.iter().copied()))
            .map(|(flow, (console, reported))| (flow, console, reported))
            .collect();
        let (again, in_order) = (command.again, command.suite.in_order);
        for (flow, console, reported) in rows {
            let passed = console == Some(FlowResult::Passed) && reported == Some(FlowResult::Passed);
            if again && passed {
                self.flaky += 1;
                self.notes.add(format!("{} is flaky: it failed, and passed when it was run again", nodeid(&flow)));
            }
            let is_lost =
                console == Some(FlowResult::Passed) || in_order && !again && console != Some(FlowResult::Stopped);
            if is_lost && reported.is_none() {
                self.lose_proof(format!("{} is not in maestro's report", nodeid(&flow)));
            }
        }
    }
}

/// File, line and message of an unreadable file: the innermost one of files that include each other.
fn unreadable(output: &str) -> Option<(String, Option<u32>, String)> {
    let pattern = UNREADABLE.as_ref()?;
    let (at, found) = output.lines().enumerate().filter_map(|(at, line)| Some((at, pattern.captures(line)?))).last()?;
    let why = output.lines().skip(at + 1).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let why = why.split_once(JACKSON_PREFIX_END).map_or(why, |(_, why)| why);
    let line = found.get(2).and_then(|line| line.as_str().parse().ok()).filter(|line| *line > 0);
    Some((found.get(1)?.as_str().to_owned(), line, why.to_owned()))
}

fn id(flow: &Flow) -> TestId {
    TestId { package: flow.file.clone(), name: flow.name.clone() }
}

fn nodeid(flow: &Flow) -> String {
    format!("{}{SEPARATOR}{}", flow.file, flow.name)
}

impl CommandState {
    fn new(suite: CommandFlows, again: bool) -> CommandState {
        CommandState {
            results: vec![None; suite.flows.len()],
            names: FlowNames::new(&suite.flows),
            suite,
            again,
            ..CommandState::default()
        }
    }

    fn has_results(&self) -> bool {
        self.unknown_flows > 0 || self.results.iter().any(Option::is_some)
    }

    /// The first flow without a console result.
    fn first_open(&mut self) -> Option<usize> {
        let console = self.results.get(self.first_open..).unwrap_or_default();
        self.first_open += console.iter().position(Option::is_none).unwrap_or(console.len());
        (self.first_open < self.results.len()).then_some(self.first_open)
    }
}

impl FlowNames {
    fn new(flows: &[Flow]) -> FlowNames {
        let mut names = FlowNames::default();
        for (index, flow) in flows.iter().enumerate() {
            names.indexes.entry(flow.name.clone()).or_default().push_back(index);
            names.lengths.insert(flow.name.len());
        }
        names
    }

    /// Removes and returns the first flow with this name.
    fn take(&mut self, name: &str) -> Option<usize> {
        self.indexes.get_mut(name)?.pop_front()
    }

    /// Removes and returns the flow whose name `rest` begins with, and the name's length. The longest matching name of the
    /// remaining flows wins.
    fn take_from(&mut self, rest: &str) -> Option<(usize, usize)> {
        let is_end =
            |length: usize| rest.get(length..).is_some_and(|after| after.is_empty() || after.starts_with(" ("));
        let lengths = self.lengths.range(..=rest.len()).rev().copied().filter(|length| is_end(*length));
        let indexes = &mut self.indexes;
        lengths.into_iter().find_map(|length| Some((indexes.get_mut(rest.get(..length)?)?.pop_front()?, length)))
    }
}

impl Parser for MaestroParser {
    fn step_started(&mut self, step: usize) {
        self.current = step;
        self.proofs.start_step();
        self.nothing_selected = false;
        self.running = None;
        (self.stdout, self.stderr) = (OutputTail::default(), OutputTail::default());
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
        // A line that a kill cut off is not reliable.
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
        self.report_pending(events);
        let Some(command) = self.command().filter(|command| !command.suite.is_empty) else {
            return self.proofs.waive();
        };
        command.ended = true;
        if command.has_results() || self.running.is_some() {
            // The report file is compared with the console when it is available (`files`).
            self.proofs.record(0);
            self.finish_running(exit, events);
            self.retry();
        } else {
            self.explain(exit, events);
        }
    }

    fn files(&mut self, files: &[(String, Vec<u8>)], events: &mut Vec<RunnerEvent>) {
        for number in 0..self.commands.len() {
            let name = format!("{NAME}/{}", report(number));
            let is_own = |path: &str| path == name || path.ends_with(&format!("/{name}"));
            let bytes = files.iter().find(|(path, _)| is_own(path)).map(|(_, bytes)| bytes.as_slice());
            self.read_report(number, bytes, events);
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
        let Some(command) = self.commands.get(self.current) else { return Vec::new() };
        let left: Vec<usize> = (0..command.results.len()).filter(|index| command.results[*index].is_none()).collect();
        let only = || left.first().copied().filter(|_| left.len() == 1 && command.has_results());
        let running = self.running.or_else(only).filter(|_| !command.ended);
        running.and_then(|running| command.suite.flows.get(running)).map(id).into_iter().collect()
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

/// Parser of a listing: each line is a flow.
pub(super) struct ListingParser {
    lines: LineSplitter,
    listed: usize,
    proofs: ProofTracker,
}

impl ListingParser {
    pub(super) fn new(_: &Plan, _: &PlanRequest<'_>) -> ListingParser {
        ListingParser { lines: LineSplitter::default(), listed: 0, proofs: ProofTracker::default() }
    }
}

impl Parser for ListingParser {
    fn step_started(&mut self, _step: usize) {
        self.proofs.start_step();
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let ListingParser { lines, listed, proofs } = self;
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
