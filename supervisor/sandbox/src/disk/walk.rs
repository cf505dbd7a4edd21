//! One way through what a run can grow on: the files that its processes hold, its trees, and once more what they hold.
//! Adds up what was changed since the run began. Must not know how much a run may use, or how long a look may last.

use super::ground::{Ground, Root, Stamp};
use super::used::Use;
use proctor_core::bounds::PATH_BYTES_MAX;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags, openat, openat2, statx,
};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::time::Instant;

/// Most bytes of names of directories that are still to be walked.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// Most files with several names that are known by number, so that they count once. Further ones count for each name.
const LINKED_MAX: usize = 1 << 18;

/// One way through the trees and the open files, which may take several looks.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) begun: Instant,
    pub(super) missing_at_start: Use,
    /// What was found to be the run's, by volume.
    pub(super) found: Vec<Use>,
    /// Files with several names that have been counted.
    linked: HashSet<(usize, u64)>,
    /// Directories to come, the next one last.
    pending: Vec<Place>,
    /// Those that have changed since the run began. They come first: growth is most likely there.
    fresh: Vec<Place>,
    /// Bytes of names in both.
    pending_bytes: usize,
    reading: Option<(Place, Dir)>,
    /// What comes when nothing is pending.
    stages: std::array::IntoIter<Stage, 3>,
}

/// The order of a walk. Held files come first: there are few of them, and one is all that it takes to fill a disk, while
/// the trees may have a million files. They come last as well, for a file that lost its name while its tree was walked.
const STAGES: [Stage; 3] = [Stage::HeldFiles, Stage::Trees, Stage::HeldFiles];

#[derive(Debug, Clone, Copy)]
enum Stage {
    HeldFiles,
    Trees,
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
    /// A walk that has not begun.
    pub(super) fn new(missing_at_start: Use, ground: &Ground) -> Walk {
        Walk {
            begun: Instant::now(),
            missing_at_start,
            found: vec![Use::default(); ground.volumes.len()],
            linked: HashSet::new(),
            pending: Vec::new(),
            fresh: Vec::new(),
            pending_bytes: 0,
            reading: None,
            stages: STAGES.into_iter(),
        }
    }

    /// Goes on until it is `over`, which is asked before each entry; tells whether that was the end.
    pub(super) fn go_on(
        &mut self,
        ground: &Ground,
        mut over: impl FnMut() -> bool,
        pids: impl Fn() -> Vec<u32>,
    ) -> bool {
        while !over() {
            let Some((place, mut dir)) = self.reading.take() else {
                match self.fresh.pop().or_else(|| self.pending.pop()) {
                    Some(place) => {
                        if let Err(place) = self.open(place, &ground.roots) {
                            self.fresh.push(place);
                            return false;
                        }
                    }
                    None => match self.stages.next() {
                        Some(Stage::HeldFiles) => self.pending = pids().into_iter().flat_map(held_by).collect(),
                        Some(Stage::Trees) => self.pending = roots_of(ground),
                        None => return true,
                    },
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

    /// Opens what is read next, or passes it over. The place comes back when the supervisor cannot look at anything now.
    fn open(&mut self, place: Place, roots: &[Root]) -> Result<(), Place> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match &place {
            Place::Tree { root, path, .. } => {
                let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                let path = if path.is_empty() { b"." } else { path.as_slice() };
                openat2(&roots[*root].dir, path, flags, Mode::empty(), below)
            }
            Place::Held { path } => openat(CWD, path.as_str(), flags, Mode::empty()),
        };
        let opened = opened.and_then(Dir::new);
        if matches!(opened, Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) {
            return Err(place);
        }
        if let Place::Tree { path, .. } = &place {
            self.pending_bytes -= path.len();
        }
        match (opened, &place) {
            (Ok(dir), _) => self.reading = Some((place, dir)),
            (Err(Errno::ACCESS), Place::Tree { root, is_fresh: true, .. }) => self.all_of(roots[*root].volume),
            // Unreadable before the run began, gone, replaced by a link, or another file system.
            (Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN), _) => {}
            (Err(_), Place::Tree { root, .. }) => self.all_of(roots[*root].volume),
            // The process is gone, or mapped files are not for this supervisor to see.
            (Err(_), Place::Held { .. }) => {}
        }
        Ok(())
    }

    /// Ends the walk of a run whose files nobody can count in time: all that is missing is its own.
    pub(super) fn give_up(&mut self) {
        self.found.fill(Use::ALL);
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

/// The roots as places to read. The workspace, which is the last root, comes first.
fn roots_of(ground: &Ground) -> Vec<Place> {
    (0..ground.roots.len()).map(|root| Place::Tree { root, path: Vec::new(), is_fresh: false }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::{MIB, found, of, over_after_steps, workspace, write};
    use crate::disk::used::growth;
    use rustix::fs::{linkat, unlinkat};
    use std::fs::File;

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
            stages: STAGES.into_iter(),
        }
    }

    #[test]
    fn counts_a_deleted_file_held_open_before_it_walks_the_trees() {
        let (dir, disk) = workspace(MIB, |dir| {
            for number in 0..2_000 {
                File::create(dir.join(format!("{number}"))).unwrap();
            }
        });
        let _held = write(dir.path().join("file"), 2 * MIB);
        unlinkat(CWD, dir.path().join("file"), AtFlags::empty()).unwrap();
        let mut walk = Walk::new(Use::default(), &disk.ground);
        // A fraction of the workspace's files; this process has some dozens of descriptors and mapped files.
        let is_done = walk.go_on(&disk.ground, over_after_steps(1_500), || vec![std::process::id()]);
        let found = growth(&[Use::ALL], &walk.found);
        assert!(!is_done && found.bytes >= 2 * MIB, "{found:?}");
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
        // Other tests of this process hold deleted files too, which are small.
        assert!(found(&disk, &[std::process::id()]).bytes < 2 * MIB);
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
}
