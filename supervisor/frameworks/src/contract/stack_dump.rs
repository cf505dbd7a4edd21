//! How the processes of a framework are asked for their stacks at the deadline, and who reads what is printed.

use super::{InjectedFile, PlanRequest, Step};
use proctor_core::hung_test::{HungTest, StackSignal};
use proctor_core::isolation::Network;
use proctor_core::test_case::TestId;
use std::collections::BTreeMap;

/// What a framework declares about the stacks of its processes.
#[derive(Debug, Clone, Copy)]
pub struct StackDump {
    /// How its processes are asked.
    pub source: StackSource,
    /// Reads the stacks of the running tests. A test whose stack cannot be told from others' has no entry.
    pub read: fn(&StackOutput<'_>) -> Vec<HungTest>,
    /// For a test without a stack, what the place is that the runner reported for it: shown below that place. `None` if the
    /// runner reports no places, or they say nothing about a hang.
    pub declared_note: Option<&'static str>,
}

/// How the processes of a framework are asked for their stacks.
#[derive(Debug, Clone, Copy)]
pub enum StackSource {
    /// By a signal, on which they print their stacks to their own streams.
    Signal(StackSignal),
    /// By an injected program that runs beside them.
    Printer(StackPrinter),
}

/// An injected program that asks the processes of a run for their stacks and prints them.
#[derive(Debug, Clone, Copy)]
pub struct StackPrinter {
    /// Interpreter, looked up on PATH.
    pub interpreter: &'static str,
    /// Path of the program below the scratch directory.
    pub path: &'static str,
    /// The program. Its argument is the absolute path of the workspace.
    pub source: &'static str,
    /// Whether it connects to processes over the loopback interface, which must be the run's own.
    pub needs_own_network: bool,
}

/// A planned request for the stacks of a command's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackRequest {
    /// See [`StackSource::Signal`].
    Signal(StackSignal),
    /// The program of [`StackSource::Printer`].
    Program(Step),
}

impl StackSource {
    /// The request for a run, and the file that it needs; `None` if the run's processes cannot be asked.
    pub(crate) fn plan(self, request: &PlanRequest<'_>) -> Option<(StackRequest, Option<InjectedFile>)> {
        let printer = match self {
            StackSource::Signal(signal) => return Some((StackRequest::Signal(signal), None)),
            StackSource::Printer(printer) if printer.needs_own_network && request.network != Network::None => {
                return None;
            }
            StackSource::Printer(printer) => printer,
        };
        let step = Step {
            programs: vec![printer.interpreter.to_owned()],
            args: vec![format!("{}/{}", request.scratch, printer.path), request.workspace.to_owned()],
            dir: String::new(),
            env: BTreeMap::new(),
        };
        let bytes = printer.source.as_bytes().to_vec();
        let file = InjectedFile { path: printer.path.to_owned(), bytes, executable: false };
        Some((StackRequest::Program(step), Some(file)))
    }
}

/// What was printed after the processes of a run were asked for their stacks, bounded by
/// [`STACK_DUMP_BYTES_MAX`](proctor_core::bounds::STACK_DUMP_BYTES_MAX) for each stream. All of it is data of the run: a test
/// may forge it.
#[derive(Debug, Clone, Copy, Default)]
pub struct StackOutput<'a> {
    /// From stdout.
    pub stdout: &'a str,
    /// From stderr.
    pub stderr: &'a str,
    /// From the program of a [`StackPrinter`].
    pub printed: &'a str,
    /// Tests that were running at the deadline.
    pub running: &'a [TestId],
    /// Where those tests are declared, if their runner reported it: file relative to the workspace, and line.
    pub declared: &'a [(TestId, String, u32)],
    /// Absolute path of the workspace inside the sandbox.
    pub workspace: &'a str,
}
