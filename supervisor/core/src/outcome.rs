//! Outcomes of a run, their precedence, and their exit numbers.

use crate::hung_test::HungTest;
use crate::limits::LimitKind;
use crate::test_case::TestId;
use serde::{Deserialize, Serialize};

/// Outcome of a run. The variants are in order of precedence: when several hold, the first one is the outcome and all
/// of them are in the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A caller cancelled the run, or no caller watched it any more.
    Cancelled,
    /// The run reached its deadline.
    TimedOut,
    /// The kernel killed a process of the leaf for lack of memory.
    OutOfMemory,
    /// A disk or `/tmp` was full, or the run exceeded its disk limit.
    DiskFull,
    /// The kernel refused a fork or a new thread at the pids limit and the runner failed.
    PidsExhausted,
    /// The run exceeded its output limit.
    OutputFlood,
    /// The worker ended without reporting how the run ended.
    WorkerLost,
    /// A signal that proctor did not send ended the runner; the signal is in the evidence.
    Crashed,
    /// The runner's program does not exist.
    RunnerMissing,
    /// Something did not compile.
    BuildFailed,
    /// Something could not be loaded or collected.
    CollectionFailed,
    /// A test failed, or the runner reported failure by its exit code.
    Failed,
    /// The runner succeeded and ran no test.
    NoTests,
    /// The runner exited 0, at least one test ran, everything built, nothing failed, nothing was cut off.
    Passed,
}

impl Outcome {
    /// All outcomes in order of precedence.
    pub const ALL: [Outcome; 14] = [
        Outcome::Cancelled,
        Outcome::TimedOut,
        Outcome::OutOfMemory,
        Outcome::DiskFull,
        Outcome::PidsExhausted,
        Outcome::OutputFlood,
        Outcome::WorkerLost,
        Outcome::Crashed,
        Outcome::RunnerMissing,
        Outcome::BuildFailed,
        Outcome::CollectionFailed,
        Outcome::Failed,
        Outcome::NoTests,
        Outcome::Passed,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Cancelled => "cancelled",
            Outcome::TimedOut => "timed_out",
            Outcome::OutOfMemory => "out_of_memory",
            Outcome::DiskFull => "disk_full",
            Outcome::PidsExhausted => "pids_exhausted",
            Outcome::OutputFlood => "output_flood",
            Outcome::WorkerLost => "worker_lost",
            Outcome::Crashed => "crashed",
            Outcome::RunnerMissing => "runner_missing",
            Outcome::BuildFailed => "build_failed",
            Outcome::CollectionFailed => "collection_failed",
            Outcome::Failed => "failed",
            Outcome::NoTests => "no_tests",
            Outcome::Passed => "passed",
        }
    }

    /// Exit status of `proctor run`. Only [`Outcome::Crashed`] uses `signal`.
    #[must_use]
    pub fn exit_code(self, signal: Option<i32>) -> u8 {
        match self {
            Outcome::Passed => 0,
            Outcome::Failed => 1,
            Outcome::BuildFailed | Outcome::CollectionFailed => 3,
            Outcome::NoTests => 4,
            Outcome::RunnerMissing | Outcome::WorkerLost => 5,
            Outcome::TimedOut => 124,
            Outcome::Cancelled => 130,
            Outcome::OutOfMemory | Outcome::DiskFull | Outcome::PidsExhausted | Outcome::OutputFlood => 137,
            // Signals are numbered 1 to 64, so the sum fits; an unknown one counts as SIGKILL.
            Outcome::Crashed => 128_u8.saturating_add(signal.and_then(|number| u8::try_from(number).ok()).unwrap_or(9)),
        }
    }
}

/// Why proctor killed a run. The killer records it before it kills (invariant 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// A caller requested it: CancelRun, Ctrl-C, `get_run` with cancel.
    Cancelled,
    /// No caller watched the run for the grace period of a detached run.
    Abandoned,
    /// The session was closed or the supervisor is shutting down.
    Closed,
    /// The deadline passed.
    Deadline,
    /// The leaf's `oom_kill` counter rose.
    OutOfMemory,
    /// Locks and sockets took more kernel memory than a run may have beside its memory limit.
    KernelMemory,
    /// The workspace and the build caches grew by more than the disk limit.
    DiskFull,
    /// The log limit was reached.
    OutputFlood,
    /// The host could not store the run's output.
    HostFailed,
}

impl KillReason {
    /// All reasons.
    pub const ALL: [KillReason; 9] = [
        KillReason::Cancelled,
        KillReason::Abandoned,
        KillReason::Closed,
        KillReason::Deadline,
        KillReason::OutOfMemory,
        KillReason::KernelMemory,
        KillReason::DiskFull,
        KillReason::OutputFlood,
        KillReason::HostFailed,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KillReason::Cancelled => "cancelled",
            KillReason::Abandoned => "abandoned",
            KillReason::Closed => "closed",
            KillReason::Deadline => "deadline",
            KillReason::OutOfMemory => "out_of_memory",
            KillReason::KernelMemory => "kernel_memory",
            KillReason::DiskFull => "disk_full",
            KillReason::OutputFlood => "output_flood",
            KillReason::HostFailed => "host_failed",
        }
    }

    /// The outcome for this reason.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            KillReason::Cancelled | KillReason::Abandoned | KillReason::Closed => Outcome::Cancelled,
            KillReason::Deadline => Outcome::TimedOut,
            KillReason::OutOfMemory | KillReason::KernelMemory => Outcome::OutOfMemory,
            KillReason::DiskFull => Outcome::DiskFull,
            KillReason::OutputFlood => Outcome::OutputFlood,
            KillReason::HostFailed => Outcome::WorkerLost,
        }
    }
}

/// How one command of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited by itself with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// The program could not be executed; the number is the kernel's `errno`.
    NotStarted(i32),
}

/// A limit that was hit, with its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which limit.
    pub limit: LimitKind,
    /// The bound, in the unit of its [`crate::limits::Limits`] field.
    pub max: u64,
    /// The highest use seen, in the same unit.
    pub peak: u64,
    /// How often the kernel refused or killed because of the limit.
    pub count: u64,
}

/// Facts behind the outcome, recorded when they happened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Every outcome that held, in order of precedence; the first one is the outcome.
    pub held: Vec<Outcome>,
    /// The status of the last command that exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended a command.
    pub signal: Option<i32>,
    /// Why proctor killed the run, if it did.
    pub killed: Option<KillReason>,
    /// Limits that were hit.
    pub limit_hits: Vec<LimitHit>,
    /// Tests that had started and not ended when the run was cut off, at most [`crate::bounds::RUNNING_NAMES_MAX`].
    pub running: Vec<TestId>,
    /// Where the running tests hang, of those whose runner printed a stack at the deadline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung: Vec<HungTest>,
    /// Tests that were selected by name and gave no result, as many as the report has room for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<TestId>,
    /// Whether further tests, whose names are not known, possibly did not run: something did not build or load, or the run
    /// ended before them.
    #[serde(default)]
    pub unreached: bool,
    /// Packages whose tests did not run because a dependency was not built, at most [`crate::bounds::NOT_BUILT_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_built: Vec<String>,
    /// Tests that had finished.
    pub tests_finished: u64,
    /// Notes for a person: what was clamped, forged or cut off, and why a green run is green.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_name_and_only_passed_exits_zero() {
        let names: std::collections::BTreeSet<_> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
        assert_eq!(names.len(), Outcome::ALL.len());
        for outcome in Outcome::ALL {
            assert_eq!(outcome.exit_code(Some(11)) == 0, outcome == Outcome::Passed, "{}", outcome.name());
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
        assert_eq!(Outcome::Crashed.exit_code(Some(11)), 139);
    }

    #[test]
    fn precedence_is_the_order_of_the_variants() {
        let mut sorted = Outcome::ALL;
        sorted.sort_unstable();
        assert_eq!(sorted, Outcome::ALL);
    }
}
