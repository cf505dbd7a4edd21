//! A walk over everything that a run can grow on: the files that its processes hold open, its trees, and the open files
//! once more. Adds up what was changed since the run started.

use super::baseline::{Baseline, Root, Timestamp};
use super::usage::DiskUsage;
use proctor_core::bounds::PATH_BYTES_MAX;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp,
    openat, openat2, statx,
};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::time::Instant;

/// Most bytes of names of directories that are still to be walked.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// Most hard-linked files whose inode numbers are remembered, so that each counts once. Further ones count once per
/// name.
const LINKED_MAX: usize = 1 << 18;

/// A walk through the trees and the open files, which may take several checks.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) begun: Instant,
    pub(super) missing_at_start: DiskUsage,
    /// Usage found to be the run's, by volume.
    pub(super) found: Vec<DiskUsage>,
    /// Number of files and directories that the run has changed and left, so that a later one could find what it kept in them.
    pub(super) left: u64,
    /// Hard-linked files that were counted: volume and inode number.
    linked: HashSet<(usize, u64)>,
    /// Directories still to be read, the next one last.
    pending: Vec<PendingDir>,
    /// Directories that have changed since the run started. They come first: growth is most likely there.
    changed_dirs: Vec<PendingDir>,
    /// Bytes of names in both.
    pending_bytes: usize,
    reading: Option<(PendingDir, Dir)>,
    /// Remaining stages, each started when nothing is pending.
    stages: std::array::IntoIter<WalkStage, 3>,
}

/// Stages of a walk. Open files come first: there are few of them, and one is enough to fill a disk, while the trees
/// may have a million files. They also come last, for a file that lost its name while its tree was walked.
const STAGES: [WalkStage; 3] = [WalkStage::OpenFiles, WalkStage::Trees, WalkStage::OpenFiles];

#[derive(Debug, Clone, Copy)]
enum WalkStage {
    OpenFiles,
    Trees,
}

/// A directory that is still to be read.
#[derive(Debug)]
enum PendingDir {
    /// A directory below a root; the path is relative to the root, and empty for the root itself.
    Tree { root: usize, path: Vec<u8>, is_changed: bool },
    /// Open or mapped files of a process: `/proc/PID/fd`, `/proc/PID/map_files`.
    OpenFiles { path: String },
}

impl Walk {
    /// A walk that has not started.
    pub(super) fn new(missing_at_start: DiskUsage, baseline: &Baseline) -> Walk {
        Walk {
            begun: Instant::now(),
            missing_at_start,
            found: vec![DiskUsage::default(); baseline.volumes.len()],
            left: 0,
            linked: HashSet::new(),
            pending: Vec::new(),
            changed_dirs: Vec::new(),
            pending_bytes: 0,
            reading: None,
            stages: STAGES.into_iter(),
        }
    }

    /// Continues until `is_over`, which is called before each entry; returns whether the walk is complete.
    pub(super) fn advance(
        &mut self,
        baseline: &Baseline,
        mut is_over: impl FnMut() -> bool,
        pids: impl Fn() -> Vec<u32>,
    ) -> bool {
        while !is_over() {
            let Some((dir_ref, mut dir)) = self.reading.take() else {
                match self.changed_dirs.pop().or_else(|| self.pending.pop()) {
                    Some(dir_ref) => {
                        if let Err(dir_ref) = self.open(dir_ref, &baseline.roots) {
                            self.changed_dirs.push(dir_ref);
                            return false;
                        }
                    }
                    None => match self.stages.next() {
                        Some(WalkStage::OpenFiles) => {
                            self.pending = pids().into_iter().flat_map(open_file_dirs).collect()
                        }
                        Some(WalkStage::Trees) => self.pending = root_dirs(baseline),
                        None => return true,
                    },
                }
                continue;
            };
            if let Some(Ok(entry)) = dir.read() {
                match &dir_ref {
                    PendingDir::Tree { root, path, is_changed } => {
                        if ![c".", c".."].contains(&entry.file_name()) {
                            self.visit_entry(entry.file_name(), &dir, (*root, path, *is_changed), baseline);
                        }
                    }
                    PendingDir::OpenFiles { .. } => self.visit_open_file(entry.file_name(), &dir, baseline),
                }
                self.reading = Some((dir_ref, dir));
            }
        }
        false
    }

    /// Opens the directory that is read next, or skips it. Returns it if the supervisor can open nothing at the moment.
    fn open(&mut self, dir_ref: PendingDir, roots: &[Root]) -> Result<(), PendingDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match &dir_ref {
            PendingDir::Tree { root, path, .. } => {
                let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                let path = if path.is_empty() { b"." } else { path.as_slice() };
                openat2(&roots[*root].dir, path, flags, Mode::empty(), below)
            }
            PendingDir::OpenFiles { path } => openat(CWD, path.as_str(), flags, Mode::empty()),
        };
        let opened = opened.and_then(Dir::new);
        if matches!(opened, Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) {
            return Err(dir_ref);
        }
        if let PendingDir::Tree { path, .. } = &dir_ref {
            self.pending_bytes -= path.len();
        }
        match (opened, &dir_ref) {
            (Ok(dir), _) => self.reading = Some((dir_ref, dir)),
            (Err(Errno::ACCESS), PendingDir::Tree { root, is_changed: true, .. }) => {
                self.attribute_all(roots[*root].volume)
            }
            // Unreadable before the run started, gone, replaced by a link, or another file system.
            (Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN), _) => {}
            (Err(_), PendingDir::Tree { root, .. }) => self.attribute_all(roots[*root].volume),
            // The process is gone, or this supervisor may not see mapped files.
            (Err(_), PendingDir::OpenFiles { .. }) => {}
        }
        Ok(())
    }

    /// Ends a walk that cannot finish in time: all missing space counts as the run's.
    pub(super) fn give_up(&mut self) {
        self.found.fill(DiskUsage::ALL);
    }

    /// The run hides something: all missing space of the volume counts as the run's.
    fn attribute_all(&mut self, volume: usize) {
        self.found[volume] = DiskUsage::ALL;
        self.left += 1;
    }

    fn visit_entry(
        &mut self,
        name: &CStr,
        dir: &Dir,
        (root, path, is_changed): (usize, &[u8], bool),
        baseline: &Baseline,
    ) {
        let volume = baseline.roots[root].volume;
        let stat = match stat_entry(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ACCESS) if is_changed => return self.attribute_all(volume),
            Err(_) => return,
        };
        if device(&stat) != baseline.volumes[volume].device || stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        {
            return;
        }
        let entry = Entry::from_statx(&stat);
        self.count(volume, &entry, baseline.since);
        self.left += u64::from(entry.is_left_since(baseline.since));
        if entry.is_dir {
            let joined: Vec<u8> =
                if path.is_empty() { name.to_bytes().to_vec() } else { [path, b"/", name.to_bytes()].concat() };
            if joined.len() > PATH_BYTES_MAX || self.pending_bytes + joined.len() > PENDING_BYTES_MAX {
                return self.attribute_all(volume);
            }
            self.pending_bytes += joined.len();
            let is_changed = entry.changed >= baseline.since;
            let to_come = if is_changed { &mut self.changed_dirs } else { &mut self.pending };
            to_come.push(PendingDir::Tree { root, path: joined, is_changed });
        }
    }

    /// Counts a file that has no name any more and is held by a process. A file with a name is counted in its tree.
    fn visit_open_file(&mut self, name: &CStr, dir: &Dir, baseline: &Baseline) {
        let Ok(stat) = stat_entry(dir, name, AtFlags::empty()) else { return };
        let volume = baseline.volumes.iter().position(|volume| volume.device == device(&stat));
        if let Some(volume) = volume.filter(|_| stat.stx_nlink == 0) {
            self.count(volume, &Entry::from_statx(&stat), baseline.since);
        }
    }

    fn count(&mut self, volume: usize, entry: &Entry, since: Timestamp) {
        if entry.changed < since {
            return;
        }
        let is_unlinked_once = entry.is_dir || entry.links == 1;
        if !is_unlinked_once && self.linked.len() < LINKED_MAX && !self.linked.insert((volume, entry.number)) {
            return;
        }
        let one = DiskUsage { bytes: entry.bytes, inodes: 1 };
        self.found[volume] = self.found[volume].zip_with(one, u64::saturating_add);
    }
}

/// The roots as directories to read. The workspace, which is the last root, is read first.
fn root_dirs(baseline: &Baseline) -> Vec<PendingDir> {
    (0..baseline.roots.len()).map(|root| PendingDir::Tree { root, path: Vec::new(), is_changed: false }).collect()
}

/// Attributes of a file that matter for counting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    number: u64,
    links: u32,
    bytes: u64,
    is_dir: bool,
    /// Change time of the inode, which no process can set back.
    changed: Timestamp,
    /// Change time of the content.
    modified: Timestamp,
    /// `None` if the file system does not know it.
    made: Option<Timestamp>,
}

impl Entry {
    /// Whether it was changed since then. A directory in which something was made and removed again is as it was; its content changed at
    /// the same time as its inode.
    pub(super) fn is_left_since(&self, since: Timestamp) -> bool {
        let is_as_it_was = self.is_dir && self.changed == self.modified && self.made.is_some_and(|made| made < since);
        self.changed >= since && !is_as_it_was
    }

    pub(super) fn from_statx(stat: &Statx) -> Entry {
        Entry {
            number: stat.stx_ino,
            links: stat.stx_nlink,
            // Blocks are of 512 bytes, whatever the file system's own block size.
            bytes: stat.stx_blocks.saturating_mul(512),
            is_dir: FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory,
            changed: timestamp(stat.stx_ctime),
            modified: timestamp(stat.stx_mtime),
            made: StatxFlags::from_bits_retain(stat.stx_mask)
                .contains(StatxFlags::BTIME)
                .then(|| timestamp(stat.stx_btime)),
        }
    }
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    (time.tv_sec, time.tv_nsec.into())
}

/// Attributes that the kernel knows without asking a server on a network.
fn stat_entry(dir: &Dir, name: &CStr, follow: AtFlags) -> Result<Statx, Errno> {
    let at = follow | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    statx(dir.fd()?, name, at, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

fn device(stat: &Statx) -> (u32, u32) {
    (stat.stx_dev_major, stat.stx_dev_minor)
}

/// Directories that list the files a process holds. Each thread may have open files of its own.
fn open_file_dirs(pid: u32) -> Vec<PendingDir> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let open = tasks.map(|task| format!("/proc/{}/fd", task.file_name().display()));
    open.chain([format!("/proc/{pid}/map_files")]).map(|path| PendingDir::OpenFiles { path }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::{MIB, stop_after_steps, usage, walked_usage, workspace, write};
    use crate::disk::usage::growth;
    use rustix::fs::{linkat, unlinkat};
    use std::fs::File;
    use std::process::Command;

    fn walk() -> Walk {
        Walk {
            begun: Instant::now(),
            missing_at_start: DiskUsage::default(),
            found: vec![DiskUsage::default(); 2],
            left: 0,
            linked: HashSet::new(),
            pending: Vec::new(),
            changed_dirs: Vec::new(),
            pending_bytes: 0,
            reading: None,
            stages: STAGES.into_iter(),
        }
    }

    #[test]
    fn counts_a_deleted_open_file_before_it_walks_the_trees() {
        let (dir, disk) = workspace(MIB, |dir| {
            for number in 0..2_000 {
                File::create(dir.join(format!("{number}"))).unwrap();
            }
        });
        let _file = write(dir.path().join("file"), 2 * MIB);
        unlinkat(CWD, dir.path().join("file"), AtFlags::empty()).unwrap();
        let mut walk = Walk::new(DiskUsage::default(), &disk.baseline);
        // A fraction of the workspace's files; this process has some dozens of descriptors and mapped files.
        let is_done = walk.advance(&disk.baseline, stop_after_steps(1_500), || vec![std::process::id()]);
        let found = growth(&[DiskUsage::ALL], &walk.found);
        assert!(!is_done && found.bytes >= 2 * MIB, "{found:?}");
    }

    #[test]
    fn counts_only_changes_since_the_start_and_a_hard_linked_file_once() {
        let time = (5, 0);
        let entry =
            Entry { number: 7, links: 1, bytes: 100, is_dir: false, changed: time, modified: time, made: Some(time) };
        let mut walk = walk();
        walk.count(0, &entry, (5, 0));
        walk.count(0, &entry, (5, 1));
        assert_eq!(walk.found[0], usage(100, 1));
        let linked = Entry { links: 2, ..entry };
        (0..2).for_each(|_| walk.count(0, &linked, (5, 0)));
        assert_eq!(walk.found[0], usage(200, 2));
        walk.count(1, &linked, (5, 0));
        let dir = Entry { links: 9, is_dir: true, ..entry };
        (0..2).for_each(|_| walk.count(1, &dir, (5, 0)));
        assert_eq!(walk.found[1], usage(300, 3));
    }

    #[test]
    fn a_directory_in_which_something_was_made_and_removed_is_as_it_was() {
        let (before, start, later) = ((4, 0), (5, 0), (6, 0));
        let dir =
            Entry { number: 7, links: 2, bytes: 0, is_dir: true, changed: later, modified: later, made: Some(before) };
        let file = Entry { is_dir: false, ..dir };
        let unchanged = Entry { changed: before, ..file };
        assert!(!dir.is_left_since(start) && !unchanged.is_left_since(start) && file.is_left_since(start));
        let attributes = Entry { modified: before, ..dir };
        let new = Entry { made: Some(later), ..dir };
        let unknown = Entry { made: None, ..dir };
        assert!([attributes, new, unknown].iter().all(|dir| dir.is_left_since(start)));
    }

    #[test]
    fn does_not_count_files_from_before_the_start() {
        let (dir, disk) = workspace(MIB, |dir| {
            fs::create_dir(dir.join("old")).unwrap();
            write(dir.join("old/file"), 4 * MIB);
        });
        assert_eq!(walked_usage(&disk, &[]), usage(0, 0));
        fs::create_dir(dir.path().join("new")).unwrap();
        write(dir.path().join("new/file"), 2 * MIB);
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let found = walked_usage(&disk, &[]);
        assert!((2 * MIB..2 * MIB + 65_536).contains(&found.bytes), "{found:?}");
        assert_eq!(found.inodes, 3);
    }

    #[test]
    fn counts_a_written_file_with_an_old_modification_time() {
        let (dir, disk) = workspace(MIB, |_| {});
        let file = write(dir.path().join("file"), 2 * MIB);
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(walked_usage(&disk, &[]).bytes >= 2 * MIB);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "another test of this process may hold a deleted file as large")]
    fn counts_a_deleted_file_that_a_process_holds_open() {
        let (dir, disk) = workspace(MIB, |_| {});
        let file = write(dir.path().join("file"), 2 * MIB);
        let mut holder = Command::new("/bin/sleep").arg("600").stdin(file).spawn().unwrap();
        unlinkat(CWD, dir.path().join("file"), AtFlags::empty()).unwrap();
        assert_eq!(walked_usage(&disk, &[]).bytes, 0);
        assert!(walked_usage(&disk, &[holder.id()]).bytes >= 2 * MIB);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(walked_usage(&disk, &[holder.id()]).bytes, 0);
    }

    #[test]
    fn counts_two_names_of_a_file_once() {
        let (dir, disk) = workspace(MIB, |_| {});
        write(dir.path().join("file"), 2 * MIB);
        linkat(CWD, dir.path().join("file"), CWD, dir.path().join("again"), AtFlags::empty()).unwrap();
        let found = walked_usage(&disk, &[]);
        assert!(found.bytes < 3 * MIB && found.inodes == 1, "{found:?}");
    }

    #[test]
    fn attributes_all_missing_space_for_a_tree_too_deep_to_open() {
        let (dir, disk) = workspace(MIB, |_| {});
        let name = "d".repeat(200);
        let mut at = File::open(dir.path()).unwrap();
        for _ in 0..30 {
            rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
            at = openat(&at, name.as_str(), OFlags::DIRECTORY, Mode::empty()).unwrap().into();
        }
        assert_eq!(walked_usage(&disk, &[]), DiskUsage::ALL);
    }
}
