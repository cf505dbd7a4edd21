//! The kinds of runs in the load: request, scenario, and the outcome without injected faults.

use super::load_setup::RUN_CPU_MILLIS;
use crate::seeded_random::SeededRandom;
use proctor_proto::v1::{Limits, Outcome, RunTestsRequest};

/// Bytes that the runs with much output write.
pub(super) const OUTPUT_BYTES: u64 = 200_000;

const MIB: u64 = 1 << 20;

/// What the client does with the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Watches it to its end.
    Plain,
    /// Cancels it by CancelRun.
    Cancelled,
    /// Sends the same request twice at the same time.
    SentTwice,
    /// Sends more requests at once than a session may queue.
    Flood,
    /// Loses its connection during the run and resumes from the cursor on another one.
    Resumed,
    /// Disconnects before the answer.
    Abandoned,
    /// Replaces the workspace by another directory, before or during the run.
    WorkspaceReplaced,
    /// Closes the session during the run.
    SessionClosed,
}

/// A kind of run.
pub(super) struct RunKind {
    pub(super) name: &'static str,
    /// Percentage of runs of this kind.
    percent: usize,
    script: &'static str,
    pub(super) scenario: Scenario,
    pub(super) outcome: Outcome,
    limits: Limits,
}

const NO_LIMITS: Limits = Limits {
    memory_bytes: 64 * MIB,
    cpu_millis: RUN_CPU_MILLIS,
    pids: 64,
    wall_ms: 0,
    grace_ms: 0,
    log_bytes: 0,
    tmp_bytes: 0,
    disk_bytes: 0,
};

const fn kind(
    name: &'static str,
    percent: usize,
    scenario: Scenario,
    script: &'static str,
    outcome: Outcome,
) -> RunKind {
    RunKind { name, percent, script, scenario, outcome, limits: NO_LIMITS }
}

const fn with_limits(limits: Limits, kind: RunKind) -> RunKind {
    RunKind { limits, ..kind }
}

const WRITE_OUTPUT: &str = "head -c 200000 /dev/zero | tr '\\0' x";
const FORKS: &str = "i=0; while [ $i -lt 40 ]; do sleep 9 & i=$((i+1)); done; wait";
const WRITES: &str = "head -c 1000000 /dev/zero > scratch && rm scratch";

static KINDS: [RunKind; 16] = [
    kind("pass", 22, Scenario::Plain, "exit 0", Outcome::Passed),
    kind("fail", 8, Scenario::Plain, "exit 1", Outcome::Failed),
    kind("talk", 10, Scenario::Plain, WRITE_OUTPUT, Outcome::Passed),
    kind("write", 7, Scenario::Plain, WRITES, Outcome::Passed),
    kind("crash", 4, Scenario::Plain, "kill -SEGV $$", Outcome::Crashed),
    with_limits(
        Limits { wall_ms: 300, ..NO_LIMITS },
        kind("deadline", 6, Scenario::Plain, "sleep 60", Outcome::TimedOut),
    ),
    with_limits(
        Limits { memory_bytes: 16 * MIB, ..NO_LIMITS },
        kind("hog", 5, Scenario::Plain, "exec tail /dev/zero", Outcome::OutOfMemory),
    ),
    with_limits(Limits { pids: 16, ..NO_LIMITS }, kind("forks", 5, Scenario::Plain, FORKS, Outcome::PidsExhausted)),
    kind("cancel", 8, Scenario::Cancelled, "sleep 60", Outcome::Cancelled),
    kind("twice", 7, Scenario::SentTwice, "sleep 0.1", Outcome::Passed),
    kind("flood", 2, Scenario::Flood, "exit 0", Outcome::Passed),
    kind("resume", 5, Scenario::Resumed, "sleep 0.1; echo once; sleep 0.1; echo more", Outcome::Passed),
    kind("resume talk", 4, Scenario::Resumed, WRITE_OUTPUT, Outcome::Passed),
    kind("abandon", 2, Scenario::Abandoned, "exit 0", Outcome::Passed),
    kind("moved", 3, Scenario::WorkspaceReplaced, "sleep 0.1", Outcome::Passed),
    kind("close", 2, Scenario::SessionClosed, "sleep 60", Outcome::Cancelled),
];

impl RunKind {
    /// Draws a kind with the probability in its row.
    pub(super) fn draw(random: &mut SeededRandom) -> &'static RunKind {
        let mut rest = random.below(KINDS.iter().map(|kind| kind.percent).sum());
        KINDS
            .iter()
            .find(|kind| {
                let is_drawn = rest < kind.percent;
                rest = rest.saturating_sub(kind.percent);
                is_drawn
            })
            .unwrap_or(&KINDS[0])
    }

    /// A request; requests with different numbers are never identical.
    pub(super) fn request(&self, session_id: &str, number: usize) -> RunTestsRequest {
        let command = ["/bin/sh", "-c", self.script, &number.to_string()].map(str::to_owned).to_vec();
        let limits = Some(self.limits);
        RunTestsRequest { session_id: session_id.to_owned(), command, limits, ..RunTestsRequest::default() }
    }

    /// Expected bytes of stdout without faults, if the kind checks them.
    pub(super) fn stdout_bytes(&self) -> Option<u64> {
        (self.script == WRITE_OUTPUT).then_some(OUTPUT_BYTES)
    }
}
