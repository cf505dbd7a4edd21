//! The run's view of the file system: private propagation, its own `/proc`, a private `/tmp` with what must stay visible
//! bound back, and the scratch directory. `pivot_root` will find its place here. Must not know why a path is kept.

use crate::check::{SHM, TMP};
use crate::message::Plan;
use crate::spec::SCRATCH;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount, open_tree,
};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory that every run finds below its scratch directory, for `HOME`.
const HOME: &str = "home";

/// Nothing that is mounted in here reaches the host, and nothing the host mounts reaches in here.
pub(super) fn make_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

/// The processes of the run's own pid namespace and no others.
pub(super) fn own_proc() -> io::Result<()> {
    Ok(mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?)
}

/// POSIX shared memory that is gone with the run and bounded like `/tmp`.
pub(super) fn private_shm(plan: &Plan) -> io::Result<()> {
    let trees = take_trees(plan, SHM)?;
    mount_tmpfs(Path::new(SHM), plan)?;
    trees.into_iter().try_for_each(|(path, tree)| bind_back(path, tree))
}

/// Hides the host's `/tmp`, writes the scratch files, binds back what must stay visible, and returns the scratch
/// directory.
pub(super) fn private_tmp(plan: &Plan, files: &[u8]) -> io::Result<OwnedFd> {
    let trees = take_trees(plan, TMP)?;
    mount_tmpfs(Path::new(TMP), plan)?;
    // Before the trees are bound back, so that no path can lead out of the new file system.
    fill_scratch(plan, files)?;
    let scratch = open(SCRATCH, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    trees.into_iter().try_for_each(|(path, tree)| bind_back(path, tree))?;
    Ok(scratch)
}

/// Takes hold of everything below `hidden` that must stay visible, while it can still be seen.
fn take_trees<'a>(plan: &'a Plan, hidden: &str) -> io::Result<Vec<(&'a Path, OwnedFd)>> {
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

fn mount_tmpfs(at: &Path, plan: &Plan) -> io::Result<()> {
    let options = format!("size={},nr_inodes={},mode=1777", plan.tmp_bytes_max, plan.tmp_inodes_max);
    let options = CString::new(options)?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

fn bind_back(path: &Path, tree: OwnedFd) -> io::Result<()> {
    let is_dir = FileType::from_raw_mode(fstat(&tree)?.st_mode) == FileType::Directory;
    if is_dir {
        fs::create_dir_all(path)?;
    } else {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        // A mount point only; it is hidden by the mount.
        fs::File::create(path)?;
    }
    Ok(move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Pages written here are charged to the run's leaf, where this process lives.
fn fill_scratch(plan: &Plan, mut files: &[u8]) -> io::Result<()> {
    let below = |path: &str| PathBuf::from(SCRATCH).join(path);
    fs::create_dir_all(below(HOME))?;
    for dir in &plan.scratch_dirs {
        fs::create_dir_all(below(dir))?;
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
    }
    Ok(())
}
