//! How much a run has put on disk: bytes and files by which its workspace and its writable paths have grown. Must not kill
//! anything, and must not know what is done about a run that has grown too much.
//!
//! Quotas are off on most hosts, so growth is looked for, in two steps. The first costs one `fstatfs` for each file system:
//! as long as no more free space is missing than the run may use, it cannot have used more. Beyond that the second step
//! asks who took it: it walks the trees and the run's open files, a few milliseconds at each look, and adds up what was
//! changed since the run began. Growth is the smaller of the two, so neither a neighbour that fills the disk nor an old
//! large file that is touched makes a run look greedy; only both together can.
//!
//! A walk of many files takes long, and a run that writes meanwhile would outgrow it. So a walk that is not done within
//! [`WalkTimes::free`] freezes the run and begins anew, and nothing grows until it is over.
//!
//! What the run could do to be overlooked counts against it: a directory that it has made unreadable, or a path too long to
//! open, means that everything missing is its own. What remains unseen is a deleted file that nobody holds but a message on
//! its way through a socket, and a directory that is moved to where the walk has been at the right moment of every walk.

mod ground;
mod processes;
#[cfg(test)]
pub(crate) mod tests;
mod used;
mod walk;

use crate::cgroup::MissingLimit;
use crate::lack::lack;
use crate::spec::Jail;
use ground::Ground;
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use used::{Use, growth};
use walk::Walk;

pub(crate) use processes::processes_below;

/// As fast as a run may take space: what memory can be written to by one processor, and what no file system reaches.
const FASTEST_PER_MS: Use = Use { bytes: 4 << 20, inodes: 500 };

/// The shortest and the longest pause between two looks.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The pause while files are added up.
const PAUSE_OF_A_WALK: Duration = Duration::from_millis(5);

/// How long files are added up at each look: some thousand of them when the kernel has them in memory, a few when it has
/// to read them. The run's output and its deadline wait that long.
const LOOK: Duration = Duration::from_millis(5);

/// The same when the run is over and waits for nothing.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// The same when the run is frozen and only its kill has to wait.
const LOOK_WHILE_FROZEN: Duration = Duration::from_millis(20);

/// How long a walk may take.
#[derive(Debug, Clone, Copy)]
struct WalkTimes {
    /// While the run goes on: a workspace of some ten thousand files that the kernel has in memory.
    free: Duration,
    /// Where the run cannot be frozen, until all that is missing counts as its own.
    unfreezable_max: Duration,
    /// While it is frozen, until all that is missing counts as its own: a million files that the kernel has to read.
    frozen_max: Duration,
}

const WALK_TIMES: WalkTimes = WalkTimes {
    free: Duration::from_millis(100),
    unfreezable_max: Duration::from_secs(2),
    frozen_max: Duration::from_secs(60),
};

/// The run whose files are looked at.
pub(crate) trait Subject {
    /// Its processes.
    fn pids(&self) -> Vec<u32>;
    /// Stops all of it, or lets it go on. False where the host cannot.
    fn freeze(&self, frozen: bool) -> bool;
    /// Whether all of it has stopped, which takes until its system calls have returned.
    fn is_frozen(&self) -> bool;
}

/// A run that is dead, or that nothing is known of.
struct Nobody;

impl Subject for Nobody {
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn freeze(&self, _frozen: bool) -> bool {
        false
    }

    fn is_frozen(&self) -> bool {
        false
    }
}

/// Whether the run goes on while its files are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Motion {
    /// It does.
    Free,
    /// It must not, and some of it still does.
    Stopping,
    /// It does not.
    Stopped,
    /// It does, as the host cannot stop it.
    Unstoppable,
}

/// What a look has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The run is within its limit, as far as is known. The next look should come after this time at the latest.
    Again(Duration),
    /// The run has grown beyond its limit.
    Beyond,
}

/// The eye on the disk of one run.
#[derive(Debug)]
pub(crate) struct Disk {
    max: Use,
    ground: Ground,
    /// How much must be missing for the files to be looked at.
    alarm: Use,
    walk: Option<Walk>,
    times: WalkTimes,
    motion: Motion,
    /// When to walk again although no more is missing than at the last walk: what was written at that moment may have
    /// been stamped only afterwards.
    again: Option<Instant>,
    /// The most growth that was found, once it was looked for.
    peak: Use,
    /// Whether the limit was passed, or a file system had nothing left.
    touched: bool,
    /// Why growth cannot be watched.
    blind: Option<String>,
    /// The same when the host was short of something.
    lacks: Option<Errno>,
}

impl Disk {
    /// Begins to watch. What is on disk now is not the run's.
    pub(crate) fn watch(jail: &Jail, workspace: &OwnedFd, limits: &Limits) -> Disk {
        let max = Use { bytes: limits.disk_bytes_max, inodes: limits.disk_inodes_max() };
        let mut ground = Ground::now();
        let (mut blind, mut lacks) = (None, None);
        let paths = || jail.writable.iter().chain([&jail.workspace]);
        for path in paths() {
            // What lies within another is walked with that one.
            if paths().any(|other| path != other && path.starts_with(other)) {
                continue;
            }
            let own =
                || workspace.try_clone().map(Some).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            let dir = if *path == jail.workspace { own() } else { ground::open(path) };
            if let Err(error) = dir.and_then(|dir| dir.map_or(Ok(()), |dir| ground.add(dir))) {
                let what = if *path == jail.workspace { "the workspace" } else { "a writable path" };
                lacks = lack(&error.into()).map(|_| error).or(lacks);
                blind = Some(format!("the file system of {what} does not tell how much of it is free: {error}"));
            }
        }
        Disk {
            max,
            ground,
            alarm: max,
            walk: None,
            times: WALK_TIMES,
            motion: Motion::Free,
            again: None,
            peak: Use::default(),
            touched: false,
            blind,
            lacks,
        }
    }

    /// What the host was short of when the run began, which says nothing about the file systems.
    pub(crate) fn lacks(&self) -> Option<Errno> {
        self.lacks
    }

    /// The limit as it is in force, or why it is not.
    pub(crate) fn in_force(&self) -> Result<LimitInForce, MissingLimit> {
        match &self.blind {
            None => Ok(LimitInForce { limit: LimitKind::Disk, max: self.max.bytes, by: "supervisor".to_owned() }),
            Some(reason) => Err(MissingLimit {
                limit: LimitKind::Disk,
                reason: reason.clone(),
                remedy: "put the workspace and the build caches on a local file system".to_owned(),
            }),
        }
    }

    /// Looks, for hardly longer than [`LOOK`]. `run` may be left frozen until a later look, or [`Self::release`].
    pub(crate) fn look(&mut self, run: &dyn Subject) -> Seen {
        let look = if self.motion == Motion::Stopped { LOOK_WHILE_FROZEN } else { LOOK };
        self.look_until(over_after(look), run)
    }

    /// Whether the run is frozen for a walk, or about to be.
    pub(crate) fn holds_the_run(&self) -> bool {
        matches!(self.motion, Motion::Stopping | Motion::Stopped)
    }

    /// Lets a run that was frozen go on.
    pub(crate) fn release(&mut self, run: &dyn Subject) {
        if self.holds_the_run() {
            run.freeze(false);
        }
        self.motion = Motion::Free;
    }

    /// When to look for the first time.
    pub(crate) fn first_pause(&self) -> Duration {
        self.pause(Use::default())
    }

    /// Looks when everything of the run is dead. The bytes by which it was seen to have grown, if it passed its limit or
    /// its disk was full.
    pub(crate) fn last_look(&mut self) -> Option<u64> {
        self.look_until(over_after(LAST_LOOK), &Nobody);
        // Files that are too many are told as what the limit allows for each.
        let files = if self.peak.inodes > self.max.inodes { self.peak.inodes.saturating_mul(4_096) } else { 0 };
        self.touched.then_some(self.peak.bytes.max(files))
    }

    /// How long the run can be left alone: it cannot reach its limit sooner.
    fn pause(&self, missing: Use) -> Duration {
        let left = self.alarm.each(missing, u64::saturating_sub);
        let ms = (left.bytes / FASTEST_PER_MS.bytes).min(left.inodes / FASTEST_PER_MS.inodes);
        Duration::from_millis(ms).clamp(PAUSE.0, PAUSE.1)
    }

    fn look_until(&mut self, over: impl FnMut() -> bool, run: &dyn Subject) -> Seen {
        let (missing, is_full) = self.ground.missing();
        self.touched |= is_full;
        let missing_now: Use = missing.iter().copied().sum();
        let is_due = missing_now.is_beyond(self.max) && self.again.is_some_and(|again| Instant::now() >= again);
        if self.walk.is_none() && !missing_now.is_beyond(self.alarm) && !is_due {
            return Seen::Again(self.pause(missing_now));
        }
        if self.motion == Motion::Stopping && run.is_frozen() {
            // What was walked before may have grown since.
            self.walk = None;
            self.motion = Motion::Stopped;
        }
        let walk = self.walk.get_or_insert_with(|| Walk::new(missing_now, &self.ground));
        let mut is_done = walk.go_on(&self.ground, over, || run.pids());
        if !is_done && walk.begun.elapsed() >= self.times.allowed(self.motion) {
            match self.motion {
                Motion::Free if run.freeze(true) => self.motion = Motion::Stopping,
                Motion::Free => self.motion = Motion::Unstoppable,
                Motion::Stopping | Motion::Stopped | Motion::Unstoppable => {
                    tracing::warn!(
                        "the files of a run cannot be counted in time: what is missing on its disk is its own"
                    );
                    walk.give_up();
                    is_done = true;
                }
            }
        }
        let grown = growth(&missing, &walk.found);
        self.peak = self.peak.each(grown, u64::max);
        if grown.is_beyond(self.max) {
            self.touched = true;
            return Seen::Beyond;
        }
        if !is_done {
            return Seen::Again(PAUSE_OF_A_WALK);
        }
        // What the run has not used up must be missing in addition before it can be beyond its limit.
        self.alarm = walk.missing_at_start.each(self.max.each(grown, u64::saturating_sub), u64::saturating_add);
        // A tenth of the time is enough for that which somebody else has most likely taken.
        self.again = Some(Instant::now() + 10 * walk.begun.elapsed().max(PAUSE.0));
        self.walk = None;
        self.release(run);
        Seen::Again(self.pause(missing_now))
    }
}

impl WalkTimes {
    /// How long the walk of a run in this state may take.
    fn allowed(self, motion: Motion) -> Duration {
        match motion {
            Motion::Free => self.free,
            Motion::Unstoppable => self.unfreezable_max,
            Motion::Stopping | Motion::Stopped => self.frozen_max,
        }
    }
}

/// Says when this time is over.
fn over_after(time: Duration) -> impl FnMut() -> bool {
    let mut until = None;
    move || Instant::now() >= *until.get_or_insert_with(|| Instant::now() + time)
}
