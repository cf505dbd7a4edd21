//! How much a run has put on disk: bytes and files by which its workspace and its writable paths have grown. Must not kill
//! anything, and must not know what is done about a run that has grown too much.
//!
//! Quotas are off on most hosts, so growth is looked for, in two steps. The first costs one `fstatfs` for each file system:
//! as long as no more free space is missing than the run may use, it cannot have used more. Beyond that the second step
//! asks who took it: it walks the trees and the run's open files, a few milliseconds at each look, and adds up what was
//! changed since the run began. Growth is the smaller of the two, so neither a neighbour that fills the disk nor an old
//! large file that is touched makes a run look greedy; only both together can.
//!
//! What the run could do to be overlooked counts against it: a directory that it has made unreadable, or a path too long to
//! open, means that everything missing is its own. What remains unseen is a deleted file that nobody holds but a message on
//! its way through a socket, and a directory that is moved to where the walk has been at the right moment of every walk.

use crate::cgroup::MissingLimit;
use crate::spec::Jail;
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, StatFs, Statx, StatxAttributes, StatxFlags, fstat,
    fstatfs, openat, openat2, statx,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::iter::Sum;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// Most bytes of names of directories that are still to be walked.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// Most files with several names that are known by number, so that they count once. Further ones count for each name.
const LINKED_MAX: usize = 1 << 18;

/// Most processes that are asked for their files. A run that forks while it is looked at would keep the look going.
const PROCESSES_MAX: usize = 65_536;

/// The longest path that the kernel opens, bytes.
const PATH_BYTES_MAX: usize = 4_095;

/// What is used of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Use {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl Use {
    const ALL: Use = Use { bytes: u64::MAX, inodes: u64::MAX };

    fn each(self, other: Use, both: impl Fn(u64, u64) -> u64) -> Use {
        Use { bytes: both(self.bytes, other.bytes), inodes: both(self.inodes, other.inodes) }
    }

    fn is_beyond(self, max: Use) -> bool {
        self.bytes > max.bytes || self.inodes > max.inodes
    }
}

impl Sum for Use {
    fn sum<I: Iterator<Item = Use>>(uses: I) -> Use {
        uses.fold(Use::default(), |sum, one| sum.each(one, u64::saturating_add))
    }
}

/// The growth of a run: on each file system what is missing, and no more than what was found to be the run's.
fn growth(missing: &[Use], found: &[Use]) -> Use {
    missing.iter().zip(found).map(|(missing, found)| missing.each(*found, u64::min)).sum()
}

/// An instant of the clock that file systems stamp with: seconds and nanoseconds.
type Stamp = (i64, i64);

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
    /// When to walk again although no more is missing than at the last walk: what was written at that moment may have
    /// been stamped only afterwards.
    again: Option<Instant>,
    /// The most growth that was found, once it was looked for.
    peak: Use,
    /// Whether the limit was passed, or a file system had nothing left.
    touched: bool,
    /// Why growth cannot be watched.
    blind: Option<String>,
}

/// What the run can grow on.
#[derive(Debug)]
struct Ground {
    /// When the run began.
    since: Stamp,
    volumes: Vec<Volume>,
    roots: Vec<Root>,
}

/// A file system below the workspace or the writable paths.
#[derive(Debug)]
struct Volume {
    device: (u32, u32),
    /// The first of [`Ground::roots`] on it.
    root: usize,
    free_at_start: Use,
}

/// The workspace or a writable path.
#[derive(Debug)]
struct Root {
    dir: OwnedFd,
    /// Its place in [`Ground::volumes`].
    volume: usize,
}

impl Disk {
    /// Begins to watch. What is on disk now is not the run's.
    pub(crate) fn watch(jail: &Jail, workspace: &OwnedFd, limits: &Limits) -> Disk {
        let max = Use { bytes: limits.disk_bytes_max, inodes: limits.disk_inodes_max() };
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let mut ground = Ground { since: (now.tv_sec, now.tv_nsec), volumes: Vec::new(), roots: Vec::new() };
        let mut blind = None;
        let paths = || jail.writable.iter().chain([&jail.workspace]);
        for path in paths() {
            // What lies within another is walked with that one.
            if paths().any(|other| path != other && path.starts_with(other)) {
                continue;
            }
            let dir = if *path == jail.workspace { Ok(workspace.try_clone().ok()) } else { open(path) };
            if let Err(error) = dir.and_then(|dir| dir.map_or(Ok(()), |dir| ground.add(dir))) {
                let what = if *path == jail.workspace { "the workspace" } else { "a writable path" };
                blind = Some(format!("the file system of {what} does not tell how much of it is free: {error}"));
            }
        }
        Disk { max, ground, alarm: max, walk: None, again: None, peak: Use::default(), touched: false, blind }
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

    /// Looks, for hardly longer than [`LOOK`]. `pids` is asked for the run's processes when a walk needs them.
    pub(crate) fn look(&mut self, pids: impl FnOnce() -> Vec<u32>) -> Seen {
        self.look_until(over_after(LOOK), pids)
    }

    /// When to look for the first time.
    pub(crate) fn first_pause(&self) -> Duration {
        self.pause(Use::default())
    }

    /// Looks when everything of the run is dead. The bytes by which it was seen to have grown, if it passed its limit or
    /// its disk was full.
    pub(crate) fn last_look(&mut self) -> Option<u64> {
        self.look_until(over_after(LAST_LOOK), Vec::new);
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

    fn look_until(&mut self, over: impl FnMut() -> bool, pids: impl FnOnce() -> Vec<u32>) -> Seen {
        let (missing, is_full) = self.ground.missing();
        self.touched |= is_full;
        let missing_now: Use = missing.iter().copied().sum();
        let is_due = missing_now.is_beyond(self.max) && self.again.is_some_and(|again| Instant::now() >= again);
        if self.walk.is_none() && !missing_now.is_beyond(self.alarm) && !is_due {
            return Seen::Again(self.pause(missing_now));
        }
        let walk = self.walk.get_or_insert_with(|| Walk::new(missing_now, &self.ground));
        let is_done = walk.go_on(&self.ground, over, pids);
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
        Seen::Again(self.pause(missing_now))
    }
}

impl Ground {
    fn add(&mut self, dir: OwnedFd) -> Result<(), Errno> {
        let device = fstat(&dir)?.st_dev;
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        let known = self.volumes.iter().position(|volume| volume.device == device);
        let volume = match known {
            Some(volume) => volume,
            None => {
                let stat = fstatfs(&dir)?;
                if stat.f_blocks == 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                self.volumes.push(Volume { device, root: self.roots.len(), free_at_start: free(&stat) });
                self.volumes.len() - 1
            }
        };
        self.roots.push(Root { dir, volume });
        Ok(())
    }

    /// What is missing of each file system's free space since the start, and whether one has nothing left.
    fn missing(&self) -> (Vec<Use>, bool) {
        let mut is_full = false;
        let missing = |volume: &Volume| {
            let Ok(stat) = fstatfs(&self.roots[volume.root].dir) else { return Use::default() };
            is_full |= stat.f_bavail == 0 || (stat.f_files > 0 && stat.f_ffree == 0);
            volume.free_at_start.each(free(&stat), u64::saturating_sub)
        };
        (self.volumes.iter().map(missing).collect(), is_full)
    }
}

/// A writable path; `None` for one that is not there, since it is not visible inside either.
fn open(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says when this time is over.
fn over_after(time: Duration) -> impl FnMut() -> bool {
    let mut until = None;
    move || Instant::now() >= *until.get_or_insert_with(|| Instant::now() + time)
}

fn free(stat: &StatFs) -> Use {
    Use {
        bytes: stat.f_bfree.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0)),
        // A file system that makes inodes as it needs them says 0, and its files are bounded by their bytes.
        inodes: if stat.f_files == 0 { 0 } else { stat.f_ffree },
    }
}

/// One way through the trees and the open files, which may take several looks.
#[derive(Debug)]
struct Walk {
    begun: Instant,
    missing_at_start: Use,
    /// What was found to be the run's, by volume.
    found: Vec<Use>,
    /// Files with several names that have been counted.
    linked: HashSet<(usize, u64)>,
    /// Directories to come, the next one last.
    pending: Vec<Place>,
    /// Those that have changed since the run began. They come first: growth is most likely there.
    fresh: Vec<Place>,
    /// Bytes of names in both.
    pending_bytes: usize,
    reading: Option<(Place, Dir)>,
    asked_for_pids: bool,
}

/// A directory that is read.
#[derive(Debug)]
enum Place {
    /// One below a root; the path is relative to it, and empty for the root itself.
    Tree { root: usize, path: Vec<u8>, is_fresh: bool },
    /// The open or mapped files of a process: `/proc/PID/fd`, `/proc/PID/map_files`.
    Held { path: String },
}

impl Walk {
    fn new(missing_at_start: Use, ground: &Ground) -> Walk {
        let root = |root| Place::Tree { root, path: Vec::new(), is_fresh: false };
        Walk {
            begun: Instant::now(),
            missing_at_start,
            found: vec![Use::default(); ground.volumes.len()],
            linked: HashSet::new(),
            // The workspace, which is the last root, comes first.
            pending: (0..ground.roots.len()).map(root).collect(),
            fresh: Vec::new(),
            pending_bytes: 0,
            reading: None,
            asked_for_pids: false,
        }
    }

    /// Goes on until it is `over`, which is asked before each entry; tells whether that was the end.
    fn go_on(&mut self, ground: &Ground, mut over: impl FnMut() -> bool, pids: impl FnOnce() -> Vec<u32>) -> bool {
        let mut pids = Some(pids);
        while !over() {
            let Some((place, mut dir)) = self.reading.take() else {
                match self.fresh.pop().or_else(|| self.pending.pop()) {
                    Some(place) => self.open(place, &ground.roots),
                    None if self.asked_for_pids => return true,
                    None => {
                        self.asked_for_pids = true;
                        let pids = pids.take().map(|pids| pids()).unwrap_or_default();
                        self.pending = pids.into_iter().flat_map(held_by).collect();
                    }
                }
                continue;
            };
            if let Some(Ok(entry)) = dir.read() {
                match &place {
                    Place::Tree { root, path, is_fresh } => {
                        if ![c".", c".."].contains(&entry.file_name()) {
                            self.meet(entry.file_name(), &dir, (*root, path, *is_fresh), ground);
                        }
                    }
                    Place::Held { .. } => self.meet_held(entry.file_name(), &dir, ground),
                }
                self.reading = Some((place, dir));
            }
        }
        false
    }

    fn open(&mut self, place: Place, roots: &[Root]) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match &place {
            Place::Tree { root, path, .. } => {
                self.pending_bytes -= path.len();
                let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                let path = if path.is_empty() { b"." } else { path.as_slice() };
                openat2(&roots[*root].dir, path, flags, Mode::empty(), below)
            }
            Place::Held { path } => openat(CWD, path.as_str(), flags, Mode::empty()),
        };
        match (opened.and_then(Dir::new), &place) {
            (Ok(dir), _) => self.reading = Some((place, dir)),
            (Err(Errno::ACCESS), Place::Tree { root, is_fresh: true, .. }) => self.all_of(roots[*root].volume),
            // Unreadable before the run began, gone, replaced by a link, or another file system.
            (Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN), _) => {}
            (Err(_), Place::Tree { root, .. }) => self.all_of(roots[*root].volume),
            // The process is gone, or mapped files are not for this supervisor to see.
            (Err(_), Place::Held { .. }) => {}
        }
    }

    /// The run hides something: all that is missing there is its own.
    fn all_of(&mut self, volume: usize) {
        self.found[volume] = Use::ALL;
    }

    fn meet(&mut self, name: &CStr, dir: &Dir, (root, path, is_fresh): (usize, &[u8], bool), ground: &Ground) {
        let volume = ground.roots[root].volume;
        let found = match look_at(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::ACCESS) if is_fresh => return self.all_of(volume),
            Err(_) => return,
        };
        if device(&found) != ground.volumes[volume].device || found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        {
            return;
        }
        let entry = Entry::of(&found);
        self.count(volume, &entry, ground.since);
        if entry.is_dir {
            let joined: Vec<u8> =
                if path.is_empty() { name.to_bytes().to_vec() } else { [path, b"/", name.to_bytes()].concat() };
            if joined.len() > PATH_BYTES_MAX || self.pending_bytes + joined.len() > PENDING_BYTES_MAX {
                return self.all_of(volume);
            }
            self.pending_bytes += joined.len();
            let is_fresh = entry.changed >= ground.since;
            let to_come = if is_fresh { &mut self.fresh } else { &mut self.pending };
            to_come.push(Place::Tree { root, path: joined, is_fresh });
        }
    }

    /// A file that has no name any more and is held by a process. One with a name is met in its tree.
    fn meet_held(&mut self, name: &CStr, dir: &Dir, ground: &Ground) {
        let Ok(found) = look_at(dir, name, AtFlags::empty()) else { return };
        let volume = ground.volumes.iter().position(|volume| volume.device == device(&found));
        if let Some(volume) = volume.filter(|_| found.stx_nlink == 0) {
            self.count(volume, &Entry::of(&found), ground.since);
        }
    }

    fn count(&mut self, volume: usize, entry: &Entry, since: Stamp) {
        if entry.changed < since {
            return;
        }
        let has_one_way = entry.is_dir || entry.links == 1;
        if !has_one_way && self.linked.len() < LINKED_MAX && !self.linked.insert((volume, entry.number)) {
            return;
        }
        let one = Use { bytes: entry.bytes, inodes: 1 };
        self.found[volume] = self.found[volume].each(one, u64::saturating_add);
    }
}

/// What counts of a file.
#[derive(Debug, Clone, Copy)]
struct Entry {
    number: u64,
    links: u32,
    bytes: u64,
    is_dir: bool,
    /// The change of the inode itself, which no process can set back.
    changed: Stamp,
}

impl Entry {
    fn of(found: &Statx) -> Entry {
        Entry {
            number: found.stx_ino,
            links: found.stx_nlink,
            // Blocks are of 512 bytes, whatever the file system's own are.
            bytes: found.stx_blocks.saturating_mul(512),
            is_dir: FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory,
            changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec.into()),
        }
    }
}

/// What the kernel knows of a file without asking a server on a network.
fn look_at(dir: &Dir, name: &CStr, follow: AtFlags) -> Result<Statx, Errno> {
    let at = follow | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    statx(dir.fd()?, name, at, StatxFlags::BASIC_STATS)
}

fn device(found: &Statx) -> (u32, u32) {
    (found.stx_dev_major, found.stx_dev_minor)
}

/// Where the files are that a process holds. Threads may have open files of their own.
fn held_by(pid: u32) -> Vec<Place> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let open = tasks.map(|task| format!("/proc/{}/fd", task.file_name().display()));
    open.chain([format!("/proc/{pid}/map_files")]).map(|path| Place::Held { path }).collect()
}

/// The processes below `pid`, itself left out. All of a run are below its worker, since orphans go to the run's init.
pub(crate) fn processes_below(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(pid) = next.pop().filter(|_| found.len() < PROCESSES_MAX) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            next.extend(children.clone());
            found.extend(children);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, linkat, unlinkat};
    use std::fs::File;
    use std::io::Write;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const MIB: u64 = 1 << 20;

    fn held(path: &Path) -> OwnedFd {
        crate::hold::hold(path, None).unwrap().0
    }

    fn of(bytes: u64, inodes: u64) -> Use {
        Use { bytes, inodes }
    }

    #[test]
    fn growth_is_what_is_missing_and_the_runs_own() {
        let rows = [
            // missing, found, growth
            (vec![of(9, 2)], vec![of(5, 3)], of(5, 2)),
            (vec![of(0, 0)], vec![Use::ALL], of(0, 0)),
            (vec![of(9, 2)], vec![Use::ALL], of(9, 2)),
            (vec![of(9, 2), of(1, 1)], vec![of(4, 1), of(7, 7)], of(5, 2)),
        ];
        for (missing, found, grown) in rows {
            assert_eq!(growth(&missing, &found), grown, "{missing:?} {found:?}");
        }
        assert!(of(2, 0).is_beyond(of(1, 1)) && of(0, 2).is_beyond(of(1, 1)) && !of(1, 1).is_beyond(of(1, 1)));
    }

    fn walk() -> Walk {
        Walk {
            begun: Instant::now(),
            missing_at_start: Use::default(),
            found: vec![Use::default(); 2],
            linked: HashSet::new(),
            pending: Vec::new(),
            fresh: Vec::new(),
            pending_bytes: 0,
            reading: None,
            asked_for_pids: false,
        }
    }

    #[test]
    fn only_what_was_changed_since_counts_and_a_file_with_two_names_once() {
        let entry = Entry { number: 7, links: 1, bytes: 100, is_dir: false, changed: (5, 0) };
        let mut walk = walk();
        walk.count(0, &entry, (5, 0));
        walk.count(0, &entry, (5, 1));
        assert_eq!(walk.found[0], of(100, 1));
        let linked = Entry { links: 2, ..entry };
        (0..2).for_each(|_| walk.count(0, &linked, (5, 0)));
        assert_eq!(walk.found[0], of(200, 2));
        walk.count(1, &linked, (5, 0));
        let dir = Entry { links: 9, is_dir: true, ..entry };
        (0..2).for_each(|_| walk.count(1, &dir, (5, 0)));
        assert_eq!(walk.found[1], of(300, 3));
    }

    /// A workspace whose growth is watched with a bound of `max`, made after `before` has been done to it.
    fn workspace(max: u64, before: impl FnOnce(&Path)) -> (TempDir, Disk) {
        let dir = tempfile::tempdir().unwrap();
        before(dir.path());
        // Stamps are as coarse as the kernel's tick.
        std::thread::sleep(Duration::from_millis(20));
        let limits = Limits { disk_bytes_max: max, ..Limits::DEFAULT };
        let disk = Disk::watch(&Jail::at(dir.path()), &held(dir.path()), &limits);
        (dir, disk)
    }

    fn write(path: PathBuf, bytes: u64) -> File {
        let mut file = File::create(path).unwrap();
        file.write_all(&vec![7; usize::try_from(bytes).unwrap()]).unwrap();
        file
    }

    fn over_after_steps(steps: u32) -> impl FnMut() -> bool {
        let mut steps = 0..steps;
        move || steps.next().is_none()
    }

    /// What is found by one walk, whatever is missing.
    fn found(disk: &Disk, pids: &[u32]) -> Use {
        let mut walk = Walk::new(Use::default(), &disk.ground);
        while !walk.go_on(&disk.ground, over_after_steps(16), || pids.to_vec()) {}
        growth(&[Use::ALL], &walk.found)
    }

    #[test]
    fn what_was_there_before_is_not_the_runs() {
        let (dir, disk) = workspace(MIB, |dir| {
            fs::create_dir(dir.join("old")).unwrap();
            write(dir.join("old/file"), 4 * MIB);
        });
        assert_eq!(found(&disk, &[]), of(0, 0));
        fs::create_dir(dir.path().join("new")).unwrap();
        write(dir.path().join("new/file"), 2 * MIB);
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let found = found(&disk, &[]);
        assert!((2 * MIB..2 * MIB + 65_536).contains(&found.bytes), "{found:?}");
        assert_eq!(found.inodes, 3);
    }

    #[test]
    fn a_file_that_was_written_and_told_to_be_old_is_the_runs() {
        let (dir, disk) = workspace(MIB, |_| {});
        let file = write(dir.path().join("file"), 2 * MIB);
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(found(&disk, &[]).bytes >= 2 * MIB);
    }

    #[test]
    fn a_deleted_file_that_a_process_holds_or_maps_is_the_runs() {
        let (dir, disk) = workspace(MIB, |_| {});
        let file = write(dir.path().join("file"), 2 * MIB);
        unlinkat(CWD, dir.path().join("file"), AtFlags::empty()).unwrap();
        assert_eq!(found(&disk, &[]).bytes, 0);
        assert!(found(&disk, &[std::process::id()]).bytes >= 2 * MIB);
        drop(file);
        assert_eq!(found(&disk, &[std::process::id()]).bytes, 0);
    }

    #[test]
    fn two_names_of_a_file_are_one_file() {
        let (dir, disk) = workspace(MIB, |_| {});
        write(dir.path().join("file"), 2 * MIB);
        linkat(CWD, dir.path().join("file"), CWD, dir.path().join("again"), AtFlags::empty()).unwrap();
        let found = found(&disk, &[]);
        assert!(found.bytes < 3 * MIB && found.inodes == 1, "{found:?}");
    }

    #[test]
    fn a_tree_too_deep_to_open_counts_as_all_that_is_missing() {
        let (dir, disk) = workspace(MIB, |_| {});
        let name = "d".repeat(200);
        let mut at = File::open(dir.path()).unwrap();
        for _ in 0..30 {
            rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
            at = openat(&at, name.as_str(), OFlags::DIRECTORY, Mode::empty()).unwrap().into();
        }
        assert_eq!(found(&disk, &[]), Use::ALL);
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
        disk.max = of(100 * MIB, 10_000);
        let mut looks = 0;
        while disk.look_until(over_after_steps(50), Vec::new) == Seen::Again(PAUSE_OF_A_WALK) {
            looks += 1;
        }
        assert!(looks > 10, "{looks}");
        assert!(disk.peak.bytes >= 300 * 8_192 && disk.peak.inodes >= 600, "{:?}", disk.peak);
        // The next walk waits until more is missing than was left of the limit.
        assert!(matches!(disk.look(Vec::new), Seen::Again(pause) if pause > PAUSE_OF_A_WALK));
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
}
