//! Events of a run: those that a parser reads from a runner, and those that subscribers receive.

use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::report::Report;
use crate::test_case::{Collector, TestCase, TestId};
use std::sync::Arc;

/// An event that a parser reads from a runner's output.
#[derive(Debug, Clone, PartialEq)]
pub enum RunnerEvent {
    /// A test began.
    TestStarted(TestId),
    /// A test ended.
    TestFinished(Box<TestCase>),
    /// A package or file could not be built or collected.
    Collector(Box<Collector>),
}

/// An output stream of the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// An event for subscribers. The event log numbers them.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The run waits; position 1 starts next.
    Queued {
        /// Position in the queue, from 1.
        position: u32,
    },
    /// The runner was started.
    Started {
        /// The run's limits.
        limits: Limits,
        /// Layers and limits in force.
        isolation: Arc<Isolation>,
    },
    /// A test began.
    TestStarted(TestId),
    /// A test ended.
    TestFinished(Arc<TestCase>),
    /// A package or file could not be built or collected.
    Collector(Arc<Collector>),
    /// The runner wrote output; the bytes are in the run's log at `offset`.
    Output {
        /// Which stream.
        stream: Stream,
        /// Bytes of this stream before these.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Periodic progress of the run.
    Progress(Progress),
    /// The event log had no room for these events. Emitted at most once, before the end.
    Missed {
        /// Number of lost events.
        events: u64,
    },
    /// The run ended. No event follows.
    Finished(Arc<Report>),
}

impl RunEvent {
    /// Memory use in bytes, without the report, which the event shares with others.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let heap_bytes = match self {
            RunEvent::TestStarted(test) => test.text_bytes(),
            RunEvent::TestFinished(test) => test.memory_bytes(),
            RunEvent::Collector(collector) => collector.memory_bytes(),
            RunEvent::Progress(progress) => progress.running.as_ref().map_or(0, TestId::text_bytes),
            RunEvent::Queued { .. }
            | RunEvent::Started { .. }
            | RunEvent::Output { .. }
            | RunEvent::Missed { .. }
            | RunEvent::Finished(_) => 0,
        };
        size_of::<RunEvent>() + heap_bytes
    }
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// Tests that have finished.
    pub tests_finished: u64,
    /// Tests that the run will report in all, once the runner has said so; never an estimate.
    pub tests_total: Option<u64>,
    /// Tests among them that failed or ended with an error, and not only because a subtest did.
    pub tests_failed: u64,
    /// Milliseconds since the runner started.
    pub elapsed_ms: u64,
    /// Memory in use by the cgroup leaf, bytes; `None` without a memory controller.
    pub memory_bytes: Option<u64>,
    /// One of the running tests, to show to a person.
    pub running: Option<TestId>,
}
