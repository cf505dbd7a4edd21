//! How the processes of a framework print their stacks at the deadline, and who reads them.

use proctor_core::hung_test::{HungTest, StackSignal};
use proctor_core::test_case::TestId;

/// What a framework declares about the stacks of its processes.
#[derive(Debug, Clone, Copy)]
pub struct StackDump {
    /// Signal on which its processes print their stacks.
    pub signal: StackSignal,
    /// Reads the stacks of the running tests. A test whose stack cannot be told from others' has no entry.
    pub read: fn(&StackOutput<'_>) -> Vec<HungTest>,
}

/// What a run wrote after its processes were asked for their stacks, bounded by
/// [`STACK_DUMP_BYTES_MAX`](proctor_core::bounds::STACK_DUMP_BYTES_MAX) for each stream.
#[derive(Debug, Clone, Copy)]
pub struct StackOutput<'a> {
    /// From stdout.
    pub stdout: &'a str,
    /// From stderr.
    pub stderr: &'a str,
    /// Tests that were running at the deadline.
    pub running: &'a [TestId],
    /// Absolute path of the workspace inside the sandbox.
    pub workspace: &'a str,
}
