//! The runs of the load: what each kind asks for and how it ends when nothing is taken from it. Must not know who runs it
//! beside what.

use super::load_setup::RUN_CPU_MILLIS;
use crate::seeded_random::Dice;
use proctor_proto::v1::{Limits, Outcome, RunTestsRequest};

/// Bytes that a run says which says much.
pub(super) const TALK_BYTES: u64 = 200_000;

const MIB: u64 = 1 << 20;

/// What becomes of a run beside running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// It is left alone.
    Plain,
    /// CancelRun.
    Cancelled,
    /// The same request twice at once.
    Twice,
    /// More requests at once than a session has room for.
    Flood,
    /// Its client is gone in the middle, and another goes on from the cursor.
    Resumed,
    /// Its client is gone before the answer.
    Abandoned,
    /// Another directory takes the place of its workspace, before it or during it.
    Moved,
    /// Its session is closed.
    Closed,
}

/// A kind of run.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// How many of a hundred are of this kind.
    percent: usize,
    script: &'static str,
    pub(super) course: Course,
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

const fn kind(name: &'static str, percent: usize, course: Course, script: &'static str, outcome: Outcome) -> Kind {
    Kind { name, percent, script, course, outcome, limits: NO_LIMITS }
}

const fn within(limits: Limits, kind: Kind) -> Kind {
    Kind { limits, ..kind }
}

const TALK: &str = "head -c 200000 /dev/zero | tr '\\0' x";
const FORKS: &str = "i=0; while [ $i -lt 40 ]; do sleep 9 & i=$((i+1)); done; wait";
const WRITES: &str = "head -c 1000000 /dev/zero > scratch && rm scratch";

static KINDS: [Kind; 16] = [
    kind("pass", 22, Course::Plain, "exit 0", Outcome::Passed),
    kind("fail", 8, Course::Plain, "exit 1", Outcome::Failed),
    kind("talk", 10, Course::Plain, TALK, Outcome::Passed),
    kind("write", 7, Course::Plain, WRITES, Outcome::Passed),
    kind("crash", 4, Course::Plain, "kill -SEGV $$", Outcome::Crashed),
    within(Limits { wall_ms: 300, ..NO_LIMITS }, kind("deadline", 6, Course::Plain, "sleep 60", Outcome::TimedOut)),
    within(
        Limits { memory_bytes: 16 * MIB, ..NO_LIMITS },
        kind("hog", 5, Course::Plain, "exec tail /dev/zero", Outcome::OutOfMemory),
    ),
    within(Limits { pids: 16, ..NO_LIMITS }, kind("forks", 5, Course::Plain, FORKS, Outcome::PidsExhausted)),
    kind("cancel", 8, Course::Cancelled, "sleep 60", Outcome::Cancelled),
    kind("twice", 7, Course::Twice, "sleep 0.1", Outcome::Passed),
    kind("flood", 2, Course::Flood, "exit 0", Outcome::Passed),
    kind("resume", 5, Course::Resumed, "sleep 0.1; echo once; sleep 0.1; echo more", Outcome::Passed),
    kind("resume talk", 4, Course::Resumed, TALK, Outcome::Passed),
    kind("abandon", 2, Course::Abandoned, "exit 0", Outcome::Passed),
    kind("moved", 3, Course::Moved, "sleep 0.1", Outcome::Passed),
    kind("close", 2, Course::Closed, "sleep 60", Outcome::Cancelled),
];

impl Kind {
    /// One of them, as often as it says.
    pub(super) fn drawn(dice: &mut Dice) -> &'static Kind {
        let mut place = dice.below(KINDS.iter().map(|kind| kind.percent).sum());
        KINDS
            .iter()
            .find(|kind| {
                let is_here = place < kind.percent;
                place = place.saturating_sub(kind.percent);
                is_here
            })
            .unwrap_or(&KINDS[0])
    }

    /// A request that equals no other with another number.
    pub(super) fn request(&self, session_id: &str, number: usize) -> RunTestsRequest {
        let command = ["/bin/sh", "-c", self.script, &number.to_string()].map(str::to_owned).to_vec();
        let limits = Some(self.limits);
        RunTestsRequest { session_id: session_id.to_owned(), command, limits, ..RunTestsRequest::default() }
    }

    /// Bytes of stdout of a run that was left alone, where they say something.
    pub(super) fn stdout_bytes(&self) -> Option<u64> {
        (self.script == TALK).then_some(TALK_BYTES)
    }
}
