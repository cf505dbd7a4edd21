//! Monitors how much a run has put on disk: bytes and files by which its workspace and its writable paths have grown.
//!
//! Quotas are off on most hosts, so growth is measured, in two steps. The first step costs one `fstatfs` for each file
//! system: as long as its free space has not decreased by more than the run may use, the run cannot have used more.
//! Beyond that, the second step walks the trees and the run's open files, a few milliseconds at each check, and adds up
//! what was changed since the run started. Growth is the smaller of the two, so neither a neighbour that fills the disk
//! nor an old large file that is touched is charged to a run; only both together can be.
//!
//! A walk of many files takes long, and a run that writes meanwhile would outgrow it. So a walk that is not done within
//! [`WalkTimes::unfrozen_max`] freezes the run and starts again, and nothing grows until it is over.
//!
//! Anything that the run could do to evade the walk counts against it: a directory that it has made unreadable, or a
//! path too long to open, means that all missing space is the run's. Not detected are a deleted file that is held only
//! by a message in flight through a socket, and a directory that is moved to an already walked place at the right
//! moment of every walk.

mod baseline;
mod descendants;
#[cfg(test)]
pub(crate) mod tests;
mod usage;
mod walk;

use crate::cgroup::MissingLimit;
use crate::exhausted_resource::exhausted_resource;
use crate::spec::Jail;
use baseline::Baseline;
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use usage::{DiskUsage, growth};
use walk::Walk;

pub(crate) use descendants::descendants;

/// Fastest growth of a run: one processor writing to memory, which no file system reaches.
const GROWTH_PER_MS_MAX: DiskUsage = DiskUsage { bytes: 4 << 20, inodes: 500 };

/// Shortest and longest interval between two checks.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Interval between two checks while a walk is in progress.
const WALK_PAUSE: Duration = Duration::from_millis(5);

/// Longest time of a walk in one check: some thousand files if the kernel has them in memory, a few if it has to read
/// them. The run's output and its deadline wait that long.
const CHECK_BUDGET: Duration = Duration::from_millis(5);

/// The same when the run is over and nothing waits.
const FINAL_CHECK_BUDGET: Duration = Duration::from_millis(200);

/// Most entries that are read to find what a run has changed in its workspace, which takes some 100 ms if the kernel has them in memory,
/// and the longest time.
const CHANGE_CHECK_ENTRIES_MAX: u32 = 50_000;
const CHANGE_CHECK_BUDGET: Duration = Duration::from_secs(1);

/// The same when the run is frozen and only its kill waits.
const FROZEN_CHECK_BUDGET: Duration = Duration::from_millis(20);

/// Longest duration of a walk.
#[derive(Debug, Clone, Copy)]
struct WalkTimes {
    /// While the run is not frozen: a workspace of some ten thousand files that the kernel has in memory.
    unfrozen_max: Duration,
    /// If the run cannot be frozen. After that all missing space counts as the run's.
    unfreezable_max: Duration,
    /// While the run is frozen: a million files that the kernel has to read. After that all missing space counts as the
    /// run's.
    frozen_max: Duration,
}

const WALK_TIMES: WalkTimes = WalkTimes {
    unfrozen_max: Duration::from_millis(100),
    unfreezable_max: Duration::from_secs(2),
    frozen_max: Duration::from_secs(60),
};

/// A run as its monitors see it.
pub(crate) trait MonitoredRun {
    /// Pids of the run's processes.
    fn pids(&self) -> Vec<u32>;
    /// Freezes or thaws the whole run. False if the host cannot.
    fn freeze(&self, frozen: bool) -> bool;
    /// Whether the whole run is frozen, which takes until its system calls have returned.
    fn is_frozen(&self) -> bool;
}

/// A run without processes.
struct DeadRun;

impl MonitoredRun for DeadRun {
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

/// Whether the run is frozen for a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreezeState {
    /// The run is not frozen.
    Running,
    /// A freeze was requested and some of its processes still run.
    Freezing,
    /// All its processes are frozen.
    Frozen,
    /// The run cannot be frozen, and goes on during the walk of its files.
    Unfreezable,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskCheck {
    /// The run is within its limit, as far as is known. The next check should come after this time at the latest.
    Within(Duration),
    /// The run exceeds its limit.
    Exceeded,
}

/// Whether a run has changed and left anything in its workspace.
#[derive(Debug)]
pub(crate) struct ChangeCheck(Baseline);

impl ChangeCheck {
    /// Starts to look; fails if the file system does not report its free space.
    pub(crate) fn start(workspace: &OwnedFd) -> io::Result<ChangeCheck> {
        let mut baseline = Baseline::new();
        baseline.add(workspace.try_clone()?)?;
        Ok(ChangeCheck(baseline))
    }

    /// Whether surely no file or directory is new or has another content, name or attributes, but for what was made and removed again or
    /// removed. No, if there are more than [`CHANGE_CHECK_ENTRIES_MAX`], or reading them takes longer than [`CHANGE_CHECK_BUDGET`].
    pub(crate) fn is_unchanged(&self) -> bool {
        let mut walk = Walk::new(DiskUsage::default(), &self.0);
        let (mut entries, mut is_late) = (0, deadline_after(CHANGE_CHECK_BUDGET));
        let is_over = || {
            entries += 1;
            entries > CHANGE_CHECK_ENTRIES_MAX || is_late()
        };
        walk.advance(&self.0, is_over, Vec::new) && walk.left == 0
    }
}

/// Monitor of one run's disk usage.
#[derive(Debug)]
pub(crate) struct DiskMonitor {
    max: DiskUsage,
    baseline: Baseline,
    /// Missing space beyond which the files are walked.
    walk_threshold: DiskUsage,
    walk: Option<Walk>,
    times: WalkTimes,
    freeze_state: FreezeState,
    /// When to walk again although no more space is missing than at the last walk: a write at that moment may have been
    /// stamped only afterwards.
    rewalk_at: Option<Instant>,
    /// Largest growth found by a walk.
    peak: DiskUsage,
    /// Whether the limit was exceeded, or a file system was full.
    limit_reached: bool,
    /// Why growth cannot be monitored.
    unmonitorable_reason: Option<String>,
    /// Errno of a resource that the host was short of when the monitor was started.
    exhausted: Option<Errno>,
}

impl DiskMonitor {
    /// Starts to monitor. What is on disk now is not the run's.
    pub(crate) fn start(jail: &Jail, workspace: &OwnedFd, limits: &Limits) -> DiskMonitor {
        let max = DiskUsage { bytes: limits.disk_bytes_max, inodes: limits.disk_inodes_max() };
        let mut baseline = Baseline::new();
        let (mut unmonitorable_reason, mut exhausted) = (None, None);
        let paths = || jail.writable.iter().chain([&jail.workspace]);
        for path in paths() {
            // A path within another one is walked with that one.
            if paths().any(|other| path != other && path.starts_with(other)) {
                continue;
            }
            let clone_workspace =
                || workspace.try_clone().map(Some).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            let dir = if *path == jail.workspace { clone_workspace() } else { baseline::open(path) };
            if let Err(error) = dir.and_then(|dir| dir.map_or(Ok(()), |dir| baseline.add(dir))) {
                let description = if *path == jail.workspace { "the workspace" } else { "a writable path" };
                exhausted = exhausted_resource(&error.into()).map(|_| error).or(exhausted);
                unmonitorable_reason =
                    Some(format!("the file system of {description} does not report its free space: {error}"));
            }
        }
        DiskMonitor {
            max,
            baseline,
            walk_threshold: max,
            walk: None,
            times: WALK_TIMES,
            freeze_state: FreezeState::Running,
            rewalk_at: None,
            peak: DiskUsage::default(),
            limit_reached: false,
            unmonitorable_reason,
            exhausted,
        }
    }

    /// Errno of a resource that the host was short of when the run started; it says nothing about the file systems.
    pub(crate) fn exhausted_errno(&self) -> Option<Errno> {
        self.exhausted
    }

    /// The limit in force, or why it is not.
    pub(crate) fn limit_in_force(&self) -> Result<LimitInForce, MissingLimit> {
        match &self.unmonitorable_reason {
            None => Ok(LimitInForce { limit: LimitKind::Disk, max: self.max.bytes, by: "supervisor".to_owned() }),
            Some(reason) => Err(MissingLimit {
                limit: LimitKind::Disk,
                reason: reason.clone(),
                remedy: "put the workspace and the build caches on a local file system".to_owned(),
            }),
        }
    }

    /// Checks the run, for hardly longer than [`CHECK_BUDGET`]. `run` may stay frozen until a later check or
    /// [`Self::release`].
    pub(crate) fn check(&mut self, run: &dyn MonitoredRun) -> DiskCheck {
        let budget = if self.freeze_state == FreezeState::Frozen { FROZEN_CHECK_BUDGET } else { CHECK_BUDGET };
        self.check_until(deadline_after(budget), run)
    }

    /// Whether the run is frozen for a walk, or about to be.
    pub(crate) fn has_frozen_run(&self) -> bool {
        matches!(self.freeze_state, FreezeState::Freezing | FreezeState::Frozen)
    }

    /// Thaws a run that was frozen for a walk.
    pub(crate) fn release(&mut self, run: &dyn MonitoredRun) {
        if self.has_frozen_run() {
            run.freeze(false);
        }
        self.freeze_state = FreezeState::Running;
    }

    /// Time until the first check.
    pub(crate) fn first_check_delay(&self) -> Duration {
        self.check_delay(DiskUsage::default())
    }

    /// Checks a dead run. Returns the bytes by which it had grown if it exceeded its limit or its disk was full.
    pub(crate) fn final_check(&mut self) -> Option<u64> {
        self.check_until(deadline_after(FINAL_CHECK_BUDGET), &DeadRun);
        // Too many files are reported as the bytes that the limit assumes for each.
        let files = if self.peak.inodes > self.max.inodes { self.peak.inodes.saturating_mul(4_096) } else { 0 };
        self.limit_reached.then_some(self.peak.bytes.max(files))
    }

    /// Time until the next check: the run cannot reach its limit sooner.
    fn check_delay(&self, missing: DiskUsage) -> Duration {
        let remaining = self.walk_threshold.zip_with(missing, u64::saturating_sub);
        let ms = (remaining.bytes / GROWTH_PER_MS_MAX.bytes).min(remaining.inodes / GROWTH_PER_MS_MAX.inodes);
        Duration::from_millis(ms).clamp(CHECK_INTERVAL.0, CHECK_INTERVAL.1)
    }

    fn check_until(&mut self, is_over: impl FnMut() -> bool, run: &dyn MonitoredRun) -> DiskCheck {
        let (missing, is_full) = self.baseline.missing();
        self.limit_reached |= is_full;
        let missing_now: DiskUsage = missing.iter().copied().sum();
        let is_rewalk_due =
            missing_now.exceeds(self.max) && self.rewalk_at.is_some_and(|rewalk_at| Instant::now() >= rewalk_at);
        if self.walk.is_none() && !missing_now.exceeds(self.walk_threshold) && !is_rewalk_due {
            return DiskCheck::Within(self.check_delay(missing_now));
        }
        if self.freeze_state == FreezeState::Freezing && run.is_frozen() {
            // What was walked before the freeze may have grown since.
            self.walk = None;
            self.freeze_state = FreezeState::Frozen;
        }
        let walk = self.walk.get_or_insert_with(|| Walk::new(missing_now, &self.baseline));
        let mut is_done = walk.advance(&self.baseline, is_over, || run.pids());
        if !is_done && walk.begun.elapsed() >= self.times.allowed(self.freeze_state) {
            match self.freeze_state {
                FreezeState::Running if run.freeze(true) => self.freeze_state = FreezeState::Freezing,
                FreezeState::Running => self.freeze_state = FreezeState::Unfreezable,
                FreezeState::Freezing | FreezeState::Frozen | FreezeState::Unfreezable => {
                    tracing::warn!(
                        "the files of a run cannot be counted in time: all missing disk space counts as its own"
                    );
                    walk.give_up();
                    is_done = true;
                }
            }
        }
        let growth_now = growth(&missing, &walk.found);
        self.peak = self.peak.zip_with(growth_now, u64::max);
        if growth_now.exceeds(self.max) {
            self.limit_reached = true;
            return DiskCheck::Exceeded;
        }
        if !is_done {
            return DiskCheck::Within(WALK_PAUSE);
        }
        // Only if more space is missing than the run has left can the run exceed its limit.
        self.walk_threshold =
            walk.missing_at_start.zip_with(self.max.zip_with(growth_now, u64::saturating_sub), u64::saturating_add);
        // A tenth of the time is enough for a walk that most likely finds space taken by others.
        self.rewalk_at = Some(Instant::now() + 10 * walk.begun.elapsed().max(CHECK_INTERVAL.0));
        self.walk = None;
        self.release(run);
        DiskCheck::Within(self.check_delay(missing_now))
    }
}

impl WalkTimes {
    /// Longest walk in this state.
    fn allowed(self, freeze_state: FreezeState) -> Duration {
        match freeze_state {
            FreezeState::Running => self.unfrozen_max,
            FreezeState::Unfreezable => self.unfreezable_max,
            FreezeState::Freezing | FreezeState::Frozen => self.frozen_max,
        }
    }
}

/// Returns a function that tells whether `time` is over, counted from its first call.
fn deadline_after(time: Duration) -> impl FnMut() -> bool {
    let mut until = None;
    move || Instant::now() >= *until.get_or_insert_with(|| Instant::now() + time)
}
