//! What one run has for itself: `/proc`, its cgroup, terminals, a private `/tmp` with what must stay visible bound back, and
//! the scratch directory. What all runs of a room share is `root`'s. Must not know why a path is kept.

use super::attributes::Attributes;
use crate::check::{SHM, TMP, is_scratch_writable};
use crate::message::{Allotment, RoomPlan, RunPlan};
use crate::plan::TERMINALS_MAX;
use crate::spec::{SCRATCH, SCRATCH_WRITABLE};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::process::fchdir;
use std::ffi::CString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Seconds from 1970 to 2004: times that are long past on any clock.
const TIMES: u64 = 1 << 30;

/// Where everybody looks for cgroups.
const CGROUP: &str = "/sys/fs/cgroup";

/// Parts of `/proc` that user 0 may write without any capability.
const OF_ROOT: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Nothing that is mounted in here reaches the host, and nothing the host mounts reaches in here.
pub(super) fn make_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

/// The processes of the run's own pid namespace and no others.
pub(super) fn own_proc() -> io::Result<()> {
    Ok(mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?)
}

/// A run that is user 0 for want of another user cannot change the host's settings.
pub(super) fn seal_proc() -> io::Result<()> {
    for path in OF_ROOT.iter().filter(|path| Path::new(path).exists()) {
        mount_bind(*path, *path)?;
        Attributes::SEALED.set(open(*path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    }
    Ok(())
}

/// The limits that the run lives under, where runtimes look for them, and nothing to change. What is above the leaf is not
/// to be seen in the run's cgroup namespace.
pub(super) fn own_cgroup() -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("cgroup", CGROUP, "cgroup2", flags, None)?)
}

/// Terminals that only this run can open, and no more of them than its share.
pub(super) fn own_terminals() -> io::Result<()> {
    let options = CString::new(format!("newinstance,ptmxmode=0666,mode=0620,max={TERMINALS_MAX}"))?;
    Ok(mount("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options.as_c_str())?)
}

/// POSIX shared memory that is gone with the run and bounded like `/tmp`.
pub(super) fn private_shm(plan: &RoomPlan, allotment: Allotment) -> io::Result<()> {
    let trees = take_trees(plan, SHM)?;
    mount_tmpfs(Path::new(SHM), allotment, 0o1777)?;
    trees.into_iter().try_for_each(|(path, tree)| attach(path, tree))
}

/// Both parts of a run's scratch directory.
pub(super) struct Scratch {
    /// Directory with those of [`SCRATCH_WRITABLE`], a part of the private `/tmp`.
    pub(super) written: OwnedFd,
    /// Root of the rest, by a mount that is nowhere and that can be written: at [`SCRATCH`] itself it cannot.
    pub(super) helpers: OwnedFd,
}

/// Hides what was in `/tmp`, binds back what must stay visible, and makes the scratch directory.
///
/// One tmpfs holds `/tmp` and, out of its sight, what the run may write of its scratch directory, so that both are under one
/// bound. Another holds the helpers.
pub(super) fn private_tmp(plan: &RoomPlan, allotment: Allotment) -> io::Result<Scratch> {
    const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);
    let trees = take_trees(plan, TMP)?;
    let tmp = Path::new(TMP);
    mount_tmpfs(tmp, allotment, 0o755)?;
    let (shown, hidden) = (tmp.join("tmp"), tmp.join("scratch"));
    fs::create_dir(&shown)?;
    fs::set_permissions(&shown, fs::Permissions::from_mode(0o1777))?;
    for dir in SCRATCH_WRITABLE {
        fs::create_dir_all(hidden.join(dir))?;
    }
    let written = open(&hidden, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let parts = SCRATCH_WRITABLE.map(|dir| Ok((dir, open_tree(CWD, hidden.join(dir), CLONE)?)));
    let shown = open_tree(CWD, &shown, CLONE)?;
    unmount(tmp, UnmountFlags::DETACH)?;
    attach(tmp, shown)?;
    let scratch = Path::new(SCRATCH);
    fs::create_dir(scratch)?;
    mount_tmpfs(scratch, allotment, 0o755)?;
    let helpers = open_tree(CWD, scratch, CLONE)?;
    for part in parts {
        let (dir, part) = part.map_err(|error: Errno| io::Error::from(error))?;
        attach(&scratch.join(dir), part)?;
    }
    trees.into_iter().try_for_each(|(path, tree)| attach(path, tree))?;
    // Without what is mounted in it.
    Attributes::SEALED.set(open(scratch, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    Ok(Scratch { written, helpers })
}

/// Takes hold of everything below `hidden` that must stay visible, while it can still be seen.
fn take_trees<'a>(plan: &'a RoomPlan, hidden: &str) -> io::Result<Vec<(&'a Path, OwnedFd)>> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mut trees = Vec::new();
    for path in plan.keep.iter().filter(|path| path.starts_with(hidden)) {
        match open_tree(CWD, path, flags) {
            Ok(tree) => trees.push((path.as_path(), tree)),
            Err(Errno::NOENT | Errno::NOTDIR) if *path != plan.workspace => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(trees)
}

fn mount_tmpfs(at: &Path, allotment: Allotment, mode: u32) -> io::Result<()> {
    let options = format!("size={},nr_inodes={},mode={mode:o}", allotment.tmp_bytes_max, allotment.tmp_inodes_max);
    let options = CString::new(options)?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Puts a tree where it belongs, and makes the place for it.
pub(super) fn attach(path: &Path, tree: OwnedFd) -> io::Result<()> {
    let is_dir = FileType::from_raw_mode(fstat(&tree)?.st_mode) == FileType::Directory;
    if is_dir {
        fs::create_dir_all(path)?;
    } else if !path.exists() {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // A mount point only; it is hidden by the mount.
        fs::File::create(path)?;
    }
    Ok(move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Pages written here are charged to the run's leaf, where this process lives.
pub(super) fn fill_scratch(plan: &RunPlan, files: &[u8], helpers: &OwnedFd) -> io::Result<()> {
    // Paths below it are relative ones for as long as this takes: there is no other way to the mount that is nowhere.
    fchdir(helpers)?;
    let filled = fill(plan, files);
    std::env::set_current_dir("/")?;
    filled
}

fn fill(plan: &RunPlan, mut files: &[u8]) -> io::Result<()> {
    let below = |path: &str| if is_scratch_writable(path) { Path::new(SCRATCH).join(path) } else { path.into() };
    for dir in &plan.scratch_dirs {
        fs::create_dir_all(below(dir))?;
    }
    for (path, target) in &plan.links {
        // What cannot be made is missed by whoever looks for it.
        _ = fs::create_dir_all(target);
        let path = below(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        symlink(target, path)?;
    }
    for file in &plan.scratch_files {
        let (bytes, rest) =
            files.split_at_checked(file.len).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        files = rest;
        let path = below(&file.path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, bytes)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        fs::File::open(&path)?.set_modified(time_of(bytes))?;
    }
    Ok(())
}

/// A time of change that stands for the content. Who keeps what it has compiled, as interpreters do, knows a file by its
/// path, size and time: the same helper of one run is the same file in the next, and another is another.
fn time_of(bytes: &[u8]) -> SystemTime {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    SystemTime::UNIX_EPOCH + Duration::from_secs(hasher.finish() % TIMES)
}
