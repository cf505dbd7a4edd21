//! What happens while a run goes on: what a parser reads out of a runner, and what subscribers see. Must not know how
//! events travel.

use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::report::Report;
use crate::test_case::{Collector, TestCase, TestId};
use std::sync::Arc;

/// What a parser reads out of a runner's output.
#[derive(Debug, Clone, PartialEq)]
pub enum RunnerEvent {
    /// A test began.
    TestStarted(TestId),
    /// A test ended.
    TestFinished(Box<TestCase>),
    /// A package or file could not be built or collected.
    Collector(Box<Collector>),
}

/// Which stream of the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// What a subscriber sees. Sequence numbers belong to the log that keeps these.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The run waits; 1 is next.
    Queued {
        /// Place in the queue, from 1.
        position: u32,
    },
    /// The runner was started.
    Started {
        /// The run's limits.
        limits: Limits,
        /// What is in force.
        isolation: Arc<Isolation>,
    },
    /// A test began.
    TestStarted(TestId),
    /// A test ended.
    TestFinished(Arc<TestCase>),
    /// A package or file could not be built or collected.
    Collector(Arc<Collector>),
    /// The runner wrote; the bytes are in the run's log at `offset`.
    Output {
        /// Which stream.
        stream: Stream,
        /// Bytes of this stream before these.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// How far it is, now and then.
    Progress(Progress),
    /// The log had no room for so many events, which nobody will see. Told once, before the end.
    Missed {
        /// How many.
        events: u64,
    },
    /// The run ended. Nothing follows.
    Finished(Arc<Report>),
}

impl RunEvent {
    /// Bytes that it takes in memory, but for the report, which is not only in the event.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let beside = match self {
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
        size_of::<RunEvent>() + beside
    }
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// Tests that have finished.
    pub tests_finished: u64,
    /// Of these, the ones that failed or could not be carried out.
    pub tests_failed: u64,
    /// Milliseconds since the runner started.
    pub elapsed_ms: u64,
    /// Memory in use by the leaf, bytes; `None` without a memory controller.
    pub memory_bytes: Option<u64>,
    /// A test that is running, for a person to look at.
    pub running: Option<TestId>,
}
