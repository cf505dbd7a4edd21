//! Collects the output of every command of a check and makes the report.

use super::command_output::listed;
use super::{Checker, CheckerOutput};
use crate::contract::{Parser, StreamSummary};
use proctor_core::bounds::CHECK_OUTPUT_BYTES_MAX;
use proctor_core::check::{CheckReport, CheckReportBuilder, CheckRequest, CheckerStatus, Finding};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::TestId;

/// A command of the plan.
#[derive(Clone)]
pub(super) struct PlannedCommand {
    pub(super) checker: &'static dyn Checker,
    /// The project's directory.
    pub(super) dir: String,
    /// Files of the request in the project, relative to its directory; empty for all.
    pub(super) files: Vec<String>,
    /// Whether it is the first command of the checker in this project.
    pub(super) is_first: bool,
    /// Whether it is the last one.
    pub(super) is_last: bool,
}

/// Reads the output of the commands of a [`CheckChoice::plan`](super::CheckChoice::plan), in their order.
///
/// It is fed as any [`Parser`] and emits no events: [`Parser::check_report`] has the result, also of a check that was
/// cut off.
#[derive(Clone)]
pub struct CheckParser {
    workspace: String,
    commands: Vec<PlannedCommand>,
    /// Number of commands that ended.
    ended: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Whether the running command printed more than is read.
    is_cut: bool,
    /// Files that none of the checker's commands in this project has read until now.
    unread: Vec<String>,
    builder: CheckReportBuilder,
}

impl CheckParser {
    pub(super) fn new(request: CheckRequest, workspace: &str, notes: &[String]) -> CheckParser {
        let mut builder = CheckReportBuilder::new(request);
        notes.iter().for_each(|note| builder.note(note.clone()));
        CheckParser {
            workspace: workspace.to_owned(),
            commands: Vec::new(),
            ended: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            is_cut: false,
            unread: Vec::new(),
            builder,
        }
    }

    /// Adds a command of the plan.
    pub(super) fn expect(&mut self, command: PlannedCommand) {
        self.commands.push(command);
    }

    /// Records that a checker is not installed.
    pub(super) fn missing(&mut self, checker: &'static dyn Checker, dir: &str) {
        self.not_run(checker, dir, CheckerStatus::Missing { remedy: checker.manifest().remedy.to_owned() });
    }

    /// Records a checker without a command.
    pub(super) fn not_run(&mut self, checker: &'static dyn Checker, dir: &str, status: CheckerStatus) {
        let manifest = checker.manifest();
        self.builder.add(manifest.name, manifest.kind, dir, status, Vec::new());
    }

    /// Adds a sentence to the report.
    pub fn note(&mut self, note: String) {
        self.builder.note(note);
    }

    /// The report of what ran until now. A command that did not end has failed.
    #[must_use]
    pub fn report(&self) -> CheckReport {
        let mut builder = self.builder.clone();
        for command in self.commands.iter().skip(self.ended) {
            let manifest = command.checker.manifest();
            let reason = "it did not run to its end: the check was cut off before".to_owned();
            builder.add(manifest.name, manifest.kind, &command.dir, CheckerStatus::Failed { reason }, Vec::new());
        }
        builder.build()
    }

    /// Whether every command ran and every checker came to its end.
    fn is_complete(&self) -> bool {
        self.ended >= self.commands.len() && self.builder.is_complete()
    }

    fn keep(stream: &mut Vec<u8>, bytes: &[u8], is_cut: &mut bool) {
        let room = CHECK_OUTPUT_BYTES_MAX.saturating_sub(stream.len());
        *is_cut |= bytes.len() > room;
        stream.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    /// Findings and status of the command that just ended.
    fn read(&mut self, command: &PlannedCommand, exit: Exit, killed: bool) -> (Vec<Finding>, CheckerStatus) {
        let failed = |reason: String| CheckerStatus::Failed { reason };
        let status = match exit {
            Exit::NotStarted(_) => {
                let remedy = command.checker.manifest().remedy.to_owned();
                return (Vec::new(), CheckerStatus::Missing { remedy });
            }
            Exit::Code(status) => status,
            Exit::Signal(_) => -1,
        };
        let output = CheckerOutput {
            stdout: &self.stdout,
            stderr: &self.stderr,
            status,
            files: &command.files,
            dir: &command.dir,
            workspace: &self.workspace,
        };
        let (findings, read) = command.checker.read(&output);
        let unread = if command.files.is_empty() { Vec::new() } else { command.checker.unread(&output) };
        self.unread.retain(|file| unread.contains(file));
        if command.is_first {
            self.unread = unread;
        }
        let reason = format!("{} {}", command.checker.manifest().leaves_out, listed(&self.unread));
        let read = output.partial_if(command.is_last && !self.unread.is_empty(), &reason, read);
        let status = match exit {
            _ if killed => failed("it did not run to its end: proctor ended it".to_owned()),
            Exit::Signal(signal) => failed(format!("signal {signal} ended it")),
            _ if self.is_cut => failed(format!(
                "it printed more than {} MiB, and the rest was not read: name the files or directories to check",
                CHECK_OUTPUT_BYTES_MAX >> 20
            )),
            _ => read,
        };
        (findings, status)
    }
}

impl Parser for CheckParser {
    fn step_started(&mut self, _step: usize) {
        self.stdout.clear();
        self.stderr.clear();
        self.is_cut = false;
    }

    fn stdout(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        CheckParser::keep(&mut self.stdout, bytes, &mut self.is_cut);
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        CheckParser::keep(&mut self.stderr, bytes, &mut self.is_cut);
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, _events: &mut Vec<RunnerEvent>) {
        let Some(command) = self.commands.get(self.ended).cloned() else { return };
        self.ended += 1;
        let (findings, status) = self.read(&command, exit, killed);
        self.stdout = Vec::new();
        self.stderr = Vec::new();
        let manifest = command.checker.manifest();
        self.builder.add(manifest.name, manifest.kind, &command.dir, status, findings);
    }

    fn running(&self) -> Vec<TestId> {
        Vec::new()
    }

    /// The proof of a check is in its report; that of tests has no meaning here.
    fn summary(&self) -> StreamSummary {
        let proof = if self.is_complete() { Proof::Shown { tests: 0 } } else { Proof::Missing };
        StreamSummary { structured: true, proof, ..StreamSummary::default() }
    }

    fn check_report(&self) -> Option<CheckReport> {
        Some(self.report())
    }
}
