//! A run's growth on the real disk below it, and what the tests of walks share.

use super::used::growth;
use super::*;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const MIB: u64 = 1 << 20;

fn held(path: &Path) -> OwnedFd {
    crate::hold::hold(path, None).unwrap().0
}

pub(super) fn of(bytes: u64, inodes: u64) -> Use {
    Use { bytes, inodes }
}

/// A workspace whose growth is watched with a bound of `max`, made after `before` has been done to it.
pub(super) fn workspace(max: u64, before: impl FnOnce(&Path)) -> (TempDir, Disk) {
    let dir = tempfile::tempdir().unwrap();
    before(dir.path());
    // Stamps are as coarse as the kernel's tick.
    std::thread::sleep(Duration::from_millis(20));
    let limits = Limits { disk_bytes_max: max, ..Limits::DEFAULT };
    let disk = Disk::watch(&Jail::at(dir.path()), &held(dir.path()), &limits);
    (dir, disk)
}

pub(super) fn write(path: PathBuf, bytes: u64) -> File {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; usize::try_from(bytes).unwrap()]).unwrap();
    file
}

pub(super) fn over_after_steps(steps: u32) -> impl FnMut() -> bool {
    let mut steps = 0..steps;
    move || steps.next().is_none()
}

/// What is found by one walk, whatever is missing.
pub(super) fn found(disk: &Disk, pids: &[u32]) -> Use {
    let mut walk = Walk::new(Use::default(), &disk.ground);
    while !walk.go_on(&disk.ground, over_after_steps(16), || pids.to_vec()) {}
    growth(&[Use::ALL], &walk.found)
}

#[test]
fn a_walk_of_many_looks_finds_the_same() {
    let (dir, mut disk) = workspace(MIB, |_| {});
    for number in 0..300 {
        fs::create_dir(dir.path().join(format!("{number}"))).unwrap();
        write(dir.path().join(format!("{number}/file")), 8_192);
    }
    // As if a neighbour had taken a lot, whatever happens on the real disk.
    disk.ground.volumes[0].free_at_start = of(1 << 60, 1 << 40);
    // More than anybody else takes meanwhile.
    disk.max = of(1 << 40, 1 << 30);
    let mut looks = 0;
    disk.times = WalkTimes { free: Duration::MAX, ..WALK_TIMES };
    while disk.look_until(over_after_steps(50), &Nobody) == Seen::Again(PAUSE_OF_A_WALK) {
        looks += 1;
    }
    assert!(looks > 10, "{looks}");
    assert!(disk.peak.bytes >= 300 * 8_192 && disk.peak.inodes >= 600, "{:?}", disk.peak);
    // The next walk waits until more is missing than was left of the limit, or until some time is over: not here.
    disk.again = None;
    assert!(matches!(disk.look(&Nobody), Seen::Again(pause) if pause > PAUSE_OF_A_WALK));
    assert!(disk.walk.is_none());
}

#[test]
fn what_nobody_saw_while_the_run_lasted_is_told_at_its_end() {
    let (dir, mut disk) = workspace(MIB, |_| {});
    assert_eq!(disk.last_look(), None);
    disk.ground.volumes[0].free_at_start = of(1 << 60, 1 << 40);
    assert_eq!(disk.last_look(), None);
    disk.alarm = disk.max;
    write(dir.path().join("file"), 2 * MIB);
    assert!(disk.last_look().unwrap() >= 2 * MIB);
}

#[test]
fn paths_inside_others_and_missing_ones_are_no_roots() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("cache")).unwrap();
    let writable = vec![dir.path().join("cache"), dir.path().join("none"), "/proctor-no-such".into()];
    let disk = Disk::watch(&Jail { writable, ..Jail::at(dir.path()) }, &held(dir.path()), &Limits::DEFAULT);
    assert_eq!((disk.ground.roots.len(), disk.ground.volumes.len()), (1, 1));
    assert_eq!(disk.in_force().unwrap().max, Limits::DEFAULT.disk_bytes_max);
}

#[test]
fn a_run_is_left_alone_as_long_as_it_cannot_reach_its_limit() {
    let rows = [(10 << 30, 0, 250), (10 << 30, 9 << 30, 250), (1 << 30, 924 << 20, 25), (1 << 30, 1 << 30, 10)];
    for (max, missing, ms) in rows {
        let (_dir, disk) = workspace(max, |_| {});
        assert_eq!(disk.pause(of(missing, 0)), Duration::from_millis(ms), "{missing} of {max}");
    }
}

#[test]
fn a_file_system_that_tells_nothing_cannot_be_watched() {
    let disk = Disk::watch(&Jail::at("/proc"), &held(Path::new("/proc")), &Limits::DEFAULT);
    let missing = disk.in_force().unwrap_err();
    assert!(missing.limit == LimitKind::Disk && missing.reason.contains("the workspace"), "{missing:?}");
}

/// A run that writes down whether it is frozen, and stops at once or never.
pub(crate) struct Freezable {
    pids: Vec<u32>,
    stops: bool,
    pub(crate) frozen: Cell<Option<bool>>,
}

impl Freezable {
    /// One without processes.
    pub(crate) fn empty(stops: bool) -> Freezable {
        Freezable { pids: Vec::new(), stops, frozen: Cell::new(None) }
    }

    /// This process.
    pub(crate) fn own() -> Freezable {
        Freezable { pids: vec![std::process::id()], ..Freezable::empty(true) }
    }
}

impl Subject for Freezable {
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

/// A workspace of 300 files and `grown` bytes more than before, on a disk on which much more is missing.
fn large_workspace(grown: u64, times: WalkTimes) -> (TempDir, Disk) {
    let (dir, mut disk) = workspace(MIB, |dir| {
        for number in 0..300 {
            File::create(dir.join(format!("{number}"))).unwrap();
        }
    });
    write(dir.path().join("grown"), grown);
    disk.ground.volumes[0].free_at_start = of(1 << 60, 1 << 40);
    disk.times = times;
    (dir, disk)
}

const AT_ONCE: WalkTimes =
    WalkTimes { free: Duration::ZERO, unfreezable_max: Duration::MAX, frozen_max: Duration::MAX };

#[test]
fn a_walk_that_takes_long_freezes_the_run_begins_anew_and_releases_it() {
    let (dir, mut disk) = large_workspace(0, AT_ONCE);
    let run = Freezable::empty(true);
    assert_eq!(disk.look_until(over_after_steps(200), &run), Seen::Again(PAUSE_OF_A_WALK));
    assert_eq!((run.frozen.get(), disk.motion), (Some(true), Motion::Stopping));
    // Written by a system call that had begun, into a directory that was walked before.
    write(dir.path().join("late"), MIB / 2);
    while disk.look_until(over_after_steps(200), &run) == Seen::Again(PAUSE_OF_A_WALK) {
        assert_eq!((run.frozen.get(), disk.motion), (Some(true), Motion::Stopped));
    }
    assert!(disk.peak.bytes >= MIB / 2, "{:?}", disk.peak);
    assert_eq!((run.frozen.get(), disk.motion), (Some(false), Motion::Free));
}

#[test]
fn a_run_beyond_its_limit_stays_frozen_until_it_is_released() {
    let (_dir, mut disk) = large_workspace(2 * MIB, AT_ONCE);
    let run = Freezable::empty(true);
    assert_eq!(disk.look_until(over_after_steps(2), &run), Seen::Again(PAUSE_OF_A_WALK));
    let mut seen = Seen::Again(PAUSE_OF_A_WALK);
    while seen == Seen::Again(PAUSE_OF_A_WALK) {
        seen = disk.look_until(over_after_steps(200), &run);
    }
    assert_eq!((seen, run.frozen.get()), (Seen::Beyond, Some(true)));
    disk.release(&run);
    assert_eq!(run.frozen.get(), Some(false));
}

#[test]
fn files_that_cannot_be_counted_in_time_are_all_that_is_missing() {
    let never = WalkTimes { free: Duration::ZERO, unfreezable_max: Duration::ZERO, frozen_max: Duration::ZERO };
    let runs: [&dyn Subject; 2] = [&Freezable::empty(false), &Nobody];
    for run in runs {
        let (_dir, mut disk) = large_workspace(0, never);
        assert_eq!(disk.look_until(over_after_steps(2), run), Seen::Again(PAUSE_OF_A_WALK));
        assert_eq!(disk.look_until(over_after_steps(2), run), Seen::Beyond);
    }
}
