//! Tests of a run's growth on a real disk, and helpers for the tests of walks and monitors.

use super::usage::growth;
use super::*;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const MIB: u64 = 1 << 20;

fn open_dir(path: &Path) -> OwnedFd {
    crate::workspace_fd::open_workspace(path, None).unwrap().0
}

pub(super) fn usage(bytes: u64, inodes: u64) -> DiskUsage {
    DiskUsage { bytes, inodes }
}

/// A workspace that is monitored with a bound of `max`, started after `before` was applied to it.
pub(super) fn workspace(max: u64, before: impl FnOnce(&Path)) -> (TempDir, DiskMonitor) {
    let dir = tempfile::tempdir().unwrap();
    before(dir.path());
    // Timestamps are as coarse as the kernel's tick.
    std::thread::sleep(Duration::from_millis(20));
    let limits = Limits { disk_bytes_max: max, ..Limits::DEFAULT };
    let disk = DiskMonitor::start(&Jail::new(dir.path()), &open_dir(dir.path()), &limits);
    (dir, disk)
}

pub(super) fn write(path: PathBuf, bytes: u64) -> File {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; usize::try_from(bytes).unwrap()]).unwrap();
    file
}

pub(super) fn stop_after_steps(steps: u32) -> impl FnMut() -> bool {
    let mut steps = 0..steps;
    move || steps.next().is_none()
}

/// Usage found by one complete walk, whatever space is missing.
pub(super) fn walked_usage(disk: &DiskMonitor, pids: &[u32]) -> DiskUsage {
    let mut walk = Walk::new(DiskUsage::default(), &disk.baseline);
    while !walk.advance(&disk.baseline, stop_after_steps(16), || pids.to_vec()) {}
    growth(&[DiskUsage::ALL], &walk.found)
}

#[test]
fn a_walk_over_many_checks_finds_all_files() {
    let (dir, mut disk) = workspace(MIB, |_| {});
    for number in 0..300 {
        fs::create_dir(dir.path().join(format!("{number}"))).unwrap();
        write(dir.path().join(format!("{number}/file")), 8_192);
    }
    // As if a neighbour had taken a lot, whatever happens on the real disk.
    disk.baseline.volumes[0].free_at_start = usage(1 << 60, 1 << 40);
    // More than any other process takes meanwhile.
    disk.max = usage(1 << 40, 1 << 30);
    let mut checks = 0;
    disk.times = WalkTimes { unfrozen_max: Duration::MAX, ..WALK_TIMES };
    while disk.check_until(stop_after_steps(50), &DeadRun) == DiskCheck::Within(WALK_PAUSE) {
        checks += 1;
    }
    assert!(checks > 10, "{checks}");
    assert!(disk.peak.bytes >= 300 * 8_192 && disk.peak.inodes >= 600, "{:?}", disk.peak);
    // The next walk waits until more is missing than was left of the limit, or until some time has passed: not here.
    disk.rewalk_at = None;
    assert!(matches!(disk.check(&DeadRun), DiskCheck::Within(pause) if pause > WALK_PAUSE));
    assert!(disk.walk.is_none());
}

#[test]
fn the_final_check_reports_growth_that_no_earlier_check_has_seen() {
    let (dir, mut disk) = workspace(MIB, |_| {});
    assert_eq!(disk.final_check(), None);
    disk.baseline.volumes[0].free_at_start = usage(1 << 60, 1 << 40);
    assert_eq!(disk.final_check(), None);
    disk.walk_threshold = disk.max;
    write(dir.path().join("file"), 2 * MIB);
    assert!(disk.final_check().unwrap() >= 2 * MIB);
}

#[test]
fn ignores_nested_and_missing_writable_paths() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("cache")).unwrap();
    let writable = vec![dir.path().join("cache"), dir.path().join("none"), "/proctor-no-such".into()];
    let disk = DiskMonitor::start(&Jail { writable, ..Jail::new(dir.path()) }, &open_dir(dir.path()), &Limits::DEFAULT);
    assert_eq!((disk.baseline.roots.len(), disk.baseline.volumes.len()), (1, 1));
    assert_eq!(disk.limit_in_force().unwrap().max, Limits::DEFAULT.disk_bytes_max);
}

#[test]
fn the_next_check_comes_before_the_run_can_reach_its_limit() {
    let rows = [(10 << 30, 0, 250), (10 << 30, 9 << 30, 250), (1 << 30, 924 << 20, 25), (1 << 30, 1 << 30, 10)];
    for (max, missing, ms) in rows {
        let (_dir, disk) = workspace(max, |_| {});
        assert_eq!(disk.check_delay(usage(missing, 0)), Duration::from_millis(ms), "{missing} of {max}");
    }
}

#[test]
fn a_file_system_without_free_space_figures_cannot_be_monitored() {
    let disk = DiskMonitor::start(&Jail::new("/proc"), &open_dir(Path::new("/proc")), &Limits::DEFAULT);
    let missing = disk.limit_in_force().unwrap_err();
    assert!(missing.limit == LimitKind::Disk && missing.reason.contains("the workspace"), "{missing:?}");
}

/// A run that records whether it is frozen, and freezes at once or never.
pub(crate) struct FakeRun {
    pids: Vec<u32>,
    stops: bool,
    pub(crate) frozen: Cell<Option<bool>>,
}

impl FakeRun {
    /// A run without processes.
    pub(crate) fn empty(stops: bool) -> FakeRun {
        FakeRun { pids: Vec::new(), stops, frozen: Cell::new(None) }
    }

    /// A run that consists of this process.
    pub(crate) fn own() -> FakeRun {
        FakeRun { pids: vec![std::process::id()], ..FakeRun::empty(true) }
    }
}

impl MonitoredRun for FakeRun {
    fn pids(&self) -> Vec<u32> {
        self.pids.clone()
    }

    fn freeze(&self, frozen: bool) -> bool {
        self.frozen.set(Some(frozen));
        true
    }

    fn is_frozen(&self) -> bool {
        self.stops && self.frozen.get() == Some(true)
    }
}

/// A workspace of 300 files and `growth_now` new bytes, on a disk on which much more is missing.
fn large_workspace(growth_now: u64, times: WalkTimes) -> (TempDir, DiskMonitor) {
    let (dir, mut disk) = workspace(MIB, |dir| {
        for number in 0..300 {
            File::create(dir.join(format!("{number}"))).unwrap();
        }
    });
    write(dir.path().join("grown"), growth_now);
    disk.baseline.volumes[0].free_at_start = usage(1 << 60, 1 << 40);
    disk.times = times;
    (dir, disk)
}

const FREEZE_AT_ONCE: WalkTimes =
    WalkTimes { unfrozen_max: Duration::ZERO, unfreezable_max: Duration::MAX, frozen_max: Duration::MAX };

#[test]
fn a_long_walk_freezes_the_run_starts_again_and_thaws_it() {
    let (dir, mut disk) = large_workspace(0, FREEZE_AT_ONCE);
    let run = FakeRun::empty(true);
    assert_eq!(disk.check_until(stop_after_steps(200), &run), DiskCheck::Within(WALK_PAUSE));
    assert_eq!((run.frozen.get(), disk.freeze_state), (Some(true), FreezeState::Freezing));
    // Written by a system call in progress, into a directory that was walked before.
    write(dir.path().join("late"), MIB / 2);
    while disk.check_until(stop_after_steps(200), &run) == DiskCheck::Within(WALK_PAUSE) {
        assert_eq!((run.frozen.get(), disk.freeze_state), (Some(true), FreezeState::Frozen));
    }
    assert!(disk.peak.bytes >= MIB / 2, "{:?}", disk.peak);
    assert_eq!((run.frozen.get(), disk.freeze_state), (Some(false), FreezeState::Running));
}

#[test]
fn a_run_that_exceeds_its_limit_stays_frozen_until_it_is_released() {
    let (_dir, mut disk) = large_workspace(2 * MIB, FREEZE_AT_ONCE);
    let run = FakeRun::empty(true);
    assert_eq!(disk.check_until(stop_after_steps(2), &run), DiskCheck::Within(WALK_PAUSE));
    let mut outcome = DiskCheck::Within(WALK_PAUSE);
    while outcome == DiskCheck::Within(WALK_PAUSE) {
        outcome = disk.check_until(stop_after_steps(200), &run);
    }
    assert_eq!((outcome, run.frozen.get()), (DiskCheck::Exceeded, Some(true)));
    disk.release(&run);
    assert_eq!(run.frozen.get(), Some(false));
}

#[test]
fn attributes_all_missing_space_if_files_cannot_be_counted_in_time() {
    let no_time =
        WalkTimes { unfrozen_max: Duration::ZERO, unfreezable_max: Duration::ZERO, frozen_max: Duration::ZERO };
    let runs: [&dyn MonitoredRun; 2] = [&FakeRun::empty(false), &DeadRun];
    for run in runs {
        let (_dir, mut disk) = large_workspace(0, no_time);
        assert_eq!(disk.check_until(stop_after_steps(2), run), DiskCheck::Within(WALK_PAUSE));
        assert_eq!(disk.check_until(stop_after_steps(2), run), DiskCheck::Exceeded);
    }
}
