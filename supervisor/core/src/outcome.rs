//! What a run came to, which of several endings counts, and the exit number. Must not know how an ending is noticed;
//! `verdict` decides which ones hold.

use crate::limits::LimitKind;
use crate::test_case::TestId;
use serde::{Deserialize, Serialize};

/// What a run came to. The order of the variants is the order of precedence: when several hold, the first one is the
/// outcome and all of them are in the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Somebody stopped it, or nobody waited for it any more.
    Cancelled,
    /// It was still running at its deadline.
    TimedOut,
    /// The kernel killed a process of the leaf for memory.
    OutOfMemory,
    /// Its disk or `/tmp` was full, or it put more on disk than it may.
    DiskFull,
    /// A fork or a new thread was refused at the pids limit and the runner failed.
    PidsExhausted,
    /// It wrote more output than its log may hold.
    OutputFlood,
    /// The worker ended without saying how the run ended.
    WorkerLost,
    /// The runner was ended by a signal that proctor did not send; the signal is in the evidence.
    Crashed,
    /// The runner's program is not there.
    RunnerMissing,
    /// Something did not compile.
    BuildFailed,
    /// Something could not be loaded or collected.
    CollectionFailed,
    /// A test failed, or the runner said so by its exit code.
    Failed,
    /// The runner ended well and ran nothing.
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

    /// The name users see.
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

    /// The exit status of `proctor run`. `signal` counts for [`Outcome::Crashed`] alone.
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
            // Signals are numbered 1 to 64, so the sum fits; an unknown one is told as SIGKILL's number.
            Outcome::Crashed => 128_u8.saturating_add(signal.and_then(|number| u8::try_from(number).ok()).unwrap_or(9)),
        }
    }
}

/// Why proctor killed a run. The killer records it before it kills (invariant 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// Somebody asked for it: CancelRun, Ctrl-C, `get_run` with cancel.
    Cancelled,
    /// Nobody watched the run for the grace that a detached run has.
    Abandoned,
    /// The session was closed or the supervisor is going down.
    Closed,
    /// The deadline passed.
    Deadline,
    /// The leaf's `oom_kill` counter rose.
    OutOfMemory,
    /// Locks and sockets took more of the kernel's memory than a run may have beside its memory limit.
    KernelMemory,
    /// The workspace and the build caches grew by more than the disk limit.
    DiskFull,
    /// The log limit was reached.
    OutputFlood,
    /// The host could not keep what the run wrote.
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

    /// The name users see.
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

    /// The outcome that this reason stands for.
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

/// A limit that was touched, with the counter that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which limit.
    pub limit: LimitKind,
    /// The bound, in the unit of its [`crate::limits::Limits`] field.
    pub max: u64,
    /// The highest use seen, in the same unit.
    pub peak: u64,
    /// How often the kernel refused or killed because of it.
    pub count: u64,
}

/// What the outcome rests on, recorded when it happened.
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
    /// Limits that were touched.
    pub limit_hits: Vec<LimitHit>,
    /// Tests that had begun and not ended when the run was cut off, at most [`crate::bound::RUNNING_NAMES_MAX`].
    pub running: Vec<TestId>,
    /// Tests that were to run again and of which nothing came, as many as their
    /// report has room for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<TestId>,
    /// Whether tests may have been kept from running that nobody can name: by what did not build or load, or by an end that
    /// came before theirs.
    #[serde(default)]
    pub unreached: bool,
    /// Packages whose tests did not run because what they need was not built, at most [`crate::bound::NOT_BUILT_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_built: Vec<String>,
    /// Tests that had finished.
    pub tests_finished: u64,
    /// Sentences for a person: what was clamped, what was forged or cut off, why a green run is green.
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
