//! The mounts that each run has for itself: `/proc`, its cgroup, terminals, a private `/tmp` with the kept paths bound
//! back, the scratch directory, and a replaced source file. `root_fs` has what all runs of a zygote share.

use super::mount_attributes::MountAttributes;
use crate::layer_plan::TERMINALS_MAX;
use crate::spec::{SCRATCH, SCRATCH_WRITABLE};
use crate::spec_validation::{SHM, TMP, is_scratch_writable};
use crate::worker_protocol::{InitLimits, RunPlan, ZygotePlan};
use crate::workspace_fd::{DirId, open_workspace};
use proctor_core::bounds::REPLACED_FILE_BYTES_MAX;
use proctor_core::request::ReplacedFile;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
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

/// Seconds from 1970 to 2004: times that are in the past on any clock.
const MTIME_SECONDS_MAX: u64 = 1 << 30;

/// The usual mount point of cgroups.
const CGROUP: &str = "/sys/fs/cgroup";

/// Parts of `/proc` that user 0 may write without any capability.
const ROOT_WRITABLE_PROC: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Makes all mounts private: mounts made inside do not reach the host, nor the host's mounts the inside.
pub(super) fn make_mounts_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

/// Mounts a `/proc` that shows only the processes of the run's pid namespace.
pub(super) fn mount_private_proc() -> io::Result<()> {
    Ok(mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?)
}

/// Makes the host's settings in `/proc` read-only, for a run as user 0.
pub(super) fn make_proc_read_only() -> io::Result<()> {
    for path in ROOT_WRITABLE_PROC.iter().filter(|path| Path::new(path).exists()) {
        mount_bind(*path, *path)?;
        MountAttributes::READ_ONLY_MOUNT.set(open(*path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    }
    Ok(())
}

/// Mounts the run's cgroup read-only, where runtimes look for their limits. The run's cgroup namespace hides everything
/// above the leaf.
pub(super) fn mount_cgroup_read_only() -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("cgroup", CGROUP, "cgroup2", flags, None)?)
}

/// Mounts a devpts whose terminals only this run can open, with a limit on their number.
pub(super) fn mount_private_pts() -> io::Result<()> {
    let options = CString::new(format!("newinstance,ptmxmode=0666,mode=0620,max={TERMINALS_MAX}"))?;
    Ok(mount("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options.as_c_str())?)
}

/// Mounts a private `/dev/shm`, which has the size of `/tmp` and is gone with the run.
pub(super) fn mount_private_shm(plan: &ZygotePlan, init_limits: InitLimits) -> io::Result<()> {
    let trees = clone_kept_trees(plan, SHM)?;
    mount_tmpfs(Path::new(SHM), init_limits, 0o1777)?;
    trees.into_iter().try_for_each(|(path, tree)| attach(path, tree))
}

/// Both parts of a run's scratch directory.
pub(super) struct ScratchDirs {
    /// Directory with those of [`SCRATCH_WRITABLE`], a part of the private `/tmp`.
    pub(super) writable: OwnedFd,
    /// Root of the rest, by a detached mount that is writable; the mount at [`SCRATCH`] itself is read-only.
    pub(super) root: OwnedFd,
}

/// Hides the host's `/tmp`, binds the kept paths back, and makes the scratch directory.
///
/// One tmpfs holds `/tmp` and, hidden, the writable part of the scratch directory, so that both share one limit.
/// Another holds the helper files.
pub(super) fn mount_private_tmp(plan: &ZygotePlan, init_limits: InitLimits) -> io::Result<ScratchDirs> {
    const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);
    let trees = clone_kept_trees(plan, TMP)?;
    let tmp = Path::new(TMP);
    mount_tmpfs(tmp, init_limits, 0o755)?;
    let (shown, hidden) = (tmp.join("tmp"), tmp.join("scratch"));
    fs::create_dir(&shown)?;
    fs::set_permissions(&shown, fs::Permissions::from_mode(0o1777))?;
    for dir in SCRATCH_WRITABLE {
        fs::create_dir_all(hidden.join(dir))?;
    }
    let writable = open(&hidden, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let part_mounts = SCRATCH_WRITABLE.map(|dir| Ok((dir, open_tree(CWD, hidden.join(dir), CLONE)?)));
    let shown = open_tree(CWD, &shown, CLONE)?;
    unmount(tmp, UnmountFlags::DETACH)?;
    attach(tmp, shown)?;
    let scratch = Path::new(SCRATCH);
    fs::create_dir(scratch)?;
    mount_tmpfs(scratch, init_limits, 0o755)?;
    let root = open_tree(CWD, scratch, CLONE)?;
    for part in part_mounts {
        let (dir, part) = part.map_err(|error: Errno| io::Error::from(error))?;
        attach(&scratch.join(dir), part)?;
    }
    trees.into_iter().try_for_each(|(path, tree)| attach(path, tree))?;
    // Without the mounts inside it.
    MountAttributes::READ_ONLY_MOUNT.set(open(scratch, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    Ok(ScratchDirs { writable, root })
}

/// Clones the kept paths below `hidden`, while they are still visible.
fn clone_kept_trees<'a>(plan: &'a ZygotePlan, hidden: &str) -> io::Result<Vec<(&'a Path, OwnedFd)>> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mut trees = Vec::new();
    for path in plan.kept_paths.iter().filter(|path| path.starts_with(hidden)) {
        match open_tree(CWD, path, flags) {
            Ok(tree) => trees.push((path.as_path(), tree)),
            Err(Errno::NOENT | Errno::NOTDIR) if *path != plan.workspace => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(trees)
}

/// Mounts the other content of a file of the workspace over it, read-only. The file is opened below the workspace's checked
/// descriptor and without following links, so that no file outside can be covered.
pub(super) fn mount_replaced_file((workspace, id): (&Path, DirId), replaced: &ReplacedFile) -> io::Result<()> {
    let (dir, _) = open_workspace(workspace, Some(id))?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let original = openat2(&dir, &*replaced.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    let found = fstat(&original)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    // A file system of its own above `/tmp`, which is uncovered again: a mount can only be cloned where it is attached.
    let tmp = Path::new(TMP);
    let options = CString::new(format!("size={},nr_inodes=4,mode=755", 2 * REPLACED_FILE_BYTES_MAX))?;
    mount("replaced", tmp, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    let tree = write_replaced_file(&tmp.join("file"), replaced, (found.st_mode & 0o777, found.st_mtime));
    unmount(tmp, UnmountFlags::DETACH)?;
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree?, "", original, "", how)?)
}

/// Writes the content and returns a clone of its mount. Its modification time is never that of the original file: caches of
/// compiled code recognise a file by path, size and time.
fn write_replaced_file(path: &Path, replaced: &ReplacedFile, (mode, mtime): (u32, i64)) -> io::Result<OwnedFd> {
    fs::write(path, &replaced.text)?;
    let time = mtime_for_content(replaced.text.as_bytes());
    let is_same =
        time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| i64::try_from(since.as_secs()) == Ok(mtime));
    fs::File::open(path)?.set_modified(if is_same { time + Duration::from_secs(1) } else { time })?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    let tree = open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    MountAttributes::READ_ONLY_MOUNT.set(tree.try_clone()?)?;
    Ok(tree)
}

fn mount_tmpfs(at: &Path, init_limits: InitLimits, mode: u32) -> io::Result<()> {
    let options = format!("size={},nr_inodes={},mode={mode:o}", init_limits.tmp_bytes_max, init_limits.tmp_inodes_max);
    let options = CString::new(options)?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Attaches a tree at `path`, and makes the mount point.
pub(super) fn attach(path: &Path, tree: OwnedFd) -> io::Result<()> {
    let is_dir = FileType::from_raw_mode(fstat(&tree)?.st_mode) == FileType::Directory;
    if is_dir {
        fs::create_dir_all(path)?;
    } else if !path.exists() {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // Only a mount point, hidden by the mount.
        fs::File::create(path)?;
    }
    Ok(move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Writes the scratch files. Their pages are charged to the run's leaf, since this process is in it.
pub(super) fn fill_scratch(plan: &RunPlan, files: &[u8], root: &OwnedFd) -> io::Result<()> {
    // Relative paths lead below `root` meanwhile: there is no other way to a detached mount.
    fchdir(root)?;
    let filled = fill(plan, files);
    std::env::set_current_dir("/")?;
    filled
}

fn fill(plan: &RunPlan, mut files: &[u8]) -> io::Result<()> {
    let target_path = |path: &str| if is_scratch_writable(path) { Path::new(SCRATCH).join(path) } else { path.into() };
    for dir in &plan.scratch_dirs {
        fs::create_dir_all(target_path(dir))?;
    }
    for (path, target) in &plan.links {
        // A program that needs a directory that could not be made reports it itself.
        _ = fs::create_dir_all(target);
        let path = target_path(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        symlink(target, path)?;
    }
    for file in &plan.scratch_files {
        let (bytes, rest) =
            files.split_at_checked(file.len).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        files = rest;
        let path = target_path(&file.path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, bytes)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        fs::File::open(&path)?.set_modified(mtime_for_content(bytes))?;
    }
    Ok(())
}

/// Modification time derived from the content. Interpreters recognise a file by its path, size and time when they cache
/// compiled code: the same helper of one run is the same file in the next run, and a changed helper is another file.
fn mtime_for_content(bytes: &[u8]) -> SystemTime {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    SystemTime::UNIX_EPOCH + Duration::from_secs(hasher.finish() % MTIME_SECONDS_MAX)
}
