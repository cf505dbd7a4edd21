//! A workspace as the edge sees it: where it is, what files it has, whether they changed. Must not know frameworks, nor who
//! may own a workspace.
//!
//! Whoever has a workspace holds its directory open. What is read of it is read through that descriptor, so that a directory,
//! a link or a mount that takes its place in the meantime is never looked at; and as long as it is held, no other directory
//! can have its device and inode, by which a run's sandbox knows it before it is mounted.

mod ignored_dirs;
mod lookup;
mod scan;
#[cfg(test)]
mod tests;

pub use scan::{BYTES_LARGE, BYTES_SMALL};

use crate::host::resolved_path::ResolvedPath;
use lookup::{Reach, beneath};
use proctor_core::request::Fingerprint;
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::FileTree;
use proctor_sandbox::lack;
use rustix::fs::{FileType, OFlags, readlink};
use rustix::io::Errno;
use scan::Stopped;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Directories of the system: whoever may write there has the host.
const SYSTEM: [&str; 12] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr"];

/// Directories of the system below which workspaces are usual.
const OPEN: [&str; 3] = ["/dev/shm", "/usr/local/src", "/usr/src"];

/// Whether no workspace can be below this directory, because it is the system's.
#[must_use]
pub fn is_of_the_system(root: &Path) -> bool {
    let is_below = |dirs: &[&str]| dirs.iter().any(|dir| root.starts_with(dir));
    is_below(&SYSTEM) && !is_below(&OPEN)
}

/// A directory that is held open, by its path without symlinks. A clone holds it together with the first.
#[derive(Debug, Clone)]
pub struct Workspace(Arc<Held>);

#[derive(Debug)]
struct Held {
    root: PathBuf,
    /// Device and inode of the directory that was opened: another one at the same path is another workspace.
    identity: (u64, u64),
    /// The directory, wherever it is now.
    dir: OwnedFd,
}

/// The same directory at the same path, whoever holds it.
impl PartialEq for Workspace {
    fn eq(&self, other: &Workspace) -> bool {
        (self.identity(), self.root()) == (other.identity(), other.root())
    }
}

impl Eq for Workspace {}

impl Hash for Workspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.identity(), self.root()).hash(state);
    }
}

/// A directory below which workspaces are: as it is named, and where that led when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    named: PathBuf,
    real: PathBuf,
}

impl Root {
    /// The root that is called `named`. Only whoever names it decides where its links lead, and only now.
    #[must_use]
    pub fn new(named: &Path) -> Root {
        Root::at(&ResolvedPath::new(named))
    }

    /// The root at this place. While no directory is there it holds nothing, and a link that comes there is not followed.
    #[must_use]
    pub fn at(place: &ResolvedPath) -> Root {
        let [named, real] = place.names();
        Root { named, real }
    }

    /// Whether the workspace is below it.
    #[must_use]
    pub fn holds(&self, workspace: &Workspace) -> bool {
        workspace.root().starts_with(&self.real)
    }

    /// `path` taken from the root, when it is named as one below it. Says nothing about what is there, and looks at nothing.
    fn rest<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.named)).ok()
    }
}

/// A look at a workspace: its files, and what they looked like.
#[derive(Debug, Clone)]
pub struct WorkspaceScan {
    /// Names of files, with the content of those that detection reads.
    pub tree: FileTree,
    /// `None` when there is more than a look takes in: then an edit could go unseen.
    pub fingerprint: Option<Fingerprint>,
    /// The user to whom the workspace belongs.
    pub owner: u32,
}

/// Why a path is refused. No variant tells where on the host anything is.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// Not an absolute path.
    #[error("must be an absolute path")]
    NotAbsolute,
    /// Not there, or not for this process to see.
    #[error("not found")]
    NotFound(#[source] io::Error),
    /// There, and something else.
    #[error("not a directory")]
    NotADirectory,
    /// A link to a directory, whose target is another directory whenever its owner wants.
    #[error("is a symbolic link: name the directory itself")]
    Link,
    /// Not below a root, or by a way that leads out of it.
    #[error("not below a root of this tenant")]
    Elsewhere,
    /// A directory that is not for workspaces.
    #[error("is a directory of the system or of the supervisor")]
    Reserved,
    /// Another directory is at its path now, or none.
    #[error("was moved, replaced or removed")]
    Replaced,
    /// The host could not look at it, whatever it is: the same look may succeed in a moment.
    #[error("{}", lack(.0).unwrap_or("the host failed to look at it"))]
    Host(#[source] io::Error),
    /// A file's path leads out of the workspace.
    #[error("{file:?} is outside the workspace")]
    Outside {
        /// The path as it was given.
        file: String,
    },
    /// A file is not there.
    #[error("{file:?} not found in the workspace")]
    NoSuchFile {
        /// The path as it was given.
        file: String,
    },
}

impl WorkspaceError {
    /// What the kernel's answer to a look-up means: `of_path` for what says something about the path, and that the host has
    /// failed for everything else.
    fn of(error: impl Into<io::Error>, of_path: impl FnOnce(io::Error) -> WorkspaceError) -> WorkspaceError {
        let error = error.into();
        match Errno::from_io_error(&error) {
            Some(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::XDEV
                | Errno::ACCESS
                | Errno::PERM
                | Errno::STALE
                | Errno::NAMETOOLONG
                | Errno::INVAL,
            ) => of_path(error),
            _ => WorkspaceError::Host(error),
        }
    }
}

impl Workspace {
    /// Opens the directory at `path`, with all symlinks resolved: for a caller who may be anywhere. A mount point is a directory
    /// like any other.
    pub fn open(path: &Path) -> Result<Workspace, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        let not_found = |error| WorkspaceError::of(error, WorkspaceError::NotFound);
        let root = path.canonicalize().map_err(not_found)?;
        let dir = Reach::Disk.straight_to(&root).map_err(|error| match error {
            Errno::NOTDIR => WorkspaceError::NotADirectory,
            error => not_found(error.into()),
        })?;
        let identity = Reach::Disk.seen(&dir).map_err(|error| not_found(error.into()))?.identity;
        Workspace::holding(dir, identity, root)
    }

    /// Opens the directory that `path` names below one of `roots`. A path that is not named as one below a root is refused
    /// without a look at it. Below a root the kernel resolves it and refuses every step out of the root: `..`, a link that leads
    /// out or is absolute, a link of /proc to a process's own files. A relative link on the way that stays inside will do.
    /// Tells the user to whom it belongs, too.
    pub fn open_below(roots: &[Root], path: &Path) -> Result<(Workspace, u32), WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        // Without a slash at its end, which would lead through a link.
        let path: PathBuf = path.components().collect();
        let named = roots.iter().filter_map(|root| Some((&root.real, root.rest(&path)?)));
        let mut found = Err(WorkspaceError::Elsewhere);
        for (root, rest) in named {
            found = below(root, rest);
            if !matches!(found, Err(WorkspaceError::Elsewhere)) {
                break;
            }
        }
        found
    }

    /// Like [`Workspace::open_below`], as far as the text of the path and what the kernel has in its memory tell: for any thread,
    /// because it waits for nothing. `None` says nothing about the path but that another look has to tell.
    #[must_use]
    pub fn at_hand(roots: &[Root], path: &Path) -> Option<(Workspace, u32)> {
        if !path.is_absolute() {
            return None;
        }
        let (root, rest) = roots.iter().find_map(|root| Some((&root.real, root.rest(path)?)))?;
        // Down by names alone and through no link, which leads to nowhere else.
        if !rest.components().all(|component| matches!(component, Component::Normal(_))) {
            return None;
        }
        let path: PathBuf = root.components().chain(rest.components()).collect();
        let dir = Reach::Memory.straight_to(&path).ok()?;
        let found = Reach::Memory.seen(&dir).ok()?;
        Some((Workspace::holding(dir, found.identity, path).ok()?, found.owner))
    }

    fn holding(dir: OwnedFd, identity: (u64, u64), root: PathBuf) -> Result<Workspace, WorkspaceError> {
        let is_open = OPEN.iter().any(|open| root == Path::new(open));
        if root.parent().is_none() || is_open || is_of_the_system(&root) {
            return Err(WorkspaceError::Reserved);
        }
        Ok(Workspace(Arc::new(Held { root, identity, dir })))
    }

    /// Device and inode of its directory.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        self.0.identity
    }

    /// Where it is. For the sandbox and the logs, never for a message.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// `file` relative to the workspace, `/`-separated. It need not exist; where it does, no symlink may lead out.
    pub fn relative(&self, file: &str) -> Result<String, WorkspaceError> {
        let outside = || WorkspaceError::Outside { file: file.to_owned() };
        let path = Path::new(file);
        let path = if path.is_absolute() { path.strip_prefix(self.root()).map_err(|_| outside())? } else { path };
        let mut parts = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(part) => parts.push(part.to_str().ok_or_else(outside)?),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        match beneath(&self.0.dir, path, OFlags::PATH) {
            Err(Errno::XDEV | Errno::LOOP | Errno::AGAIN) => Err(outside()),
            // What is not there stays below; what could not be looked at may be anywhere.
            Err(error) if lack(&error.into()).is_some() => Err(WorkspaceError::Host(error.into())),
            _ => Ok(parts.join("/")),
        }
    }

    /// Like [`Workspace::relative`], for a file or directory that must be there.
    pub fn existing(&self, file: &str) -> Result<String, WorkspaceError> {
        let relative = self.relative(file)?;
        match beneath(&self.0.dir, Path::new(&relative), OFlags::PATH) {
            Ok(_) => Ok(relative),
            Err(error) => Err(WorkspaceError::of(error, |_| WorkspaceError::NoSuchFile { file: file.to_owned() })),
        }
    }

    /// Whether `file` is gone or was changed after `since`.
    #[must_use]
    pub fn changed_since(&self, file: &str, since: Timestamp) -> bool {
        let found = beneath(&self.0.dir, Path::new(file), OFlags::PATH);
        found.and_then(|file| Reach::Disk.seen(&file)).map_or(true, |found| found.changed_at > since)
    }

    /// The user to whom it belongs, as long as it is still where it was opened.
    pub fn owner(&self) -> Result<u32, WorkspaceError> {
        let replaced = |error| WorkspaceError::of(error, |_| WorkspaceError::Replaced);
        let there =
            Reach::Disk.straight_to(self.root()).and_then(|there| Reach::Disk.seen(&there)).map_err(replaced)?;
        if there.identity == self.identity() { Ok(there.owner) } else { Err(WorkspaceError::Replaced) }
    }

    /// Looks at all files. Takes milliseconds for thousands of files: not for a tokio thread. A file or directory that this
    /// process may not read is passed over, and no other: a tree that is known by half would be taken for another project.
    ///
    /// Takes at most [`BYTES_SMALL`] of memory unless `grow`, which is asked once, says that there may be [`BYTES_LARGE`]; `None`
    /// where that is needed and refused.
    pub fn look_within(&self, grow: &mut dyn FnMut() -> bool) -> Result<Option<WorkspaceScan>, WorkspaceError> {
        let owner = self.owner()?;
        match scan::all_below(&self.0.dir, grow) {
            Ok(scan::Found { tree, fingerprint }) => Ok(Some(WorkspaceScan { tree, fingerprint, owner })),
            Err(Stopped::NoRoom) => Ok(None),
            Err(Stopped::Host(error)) => Err(WorkspaceError::Host(error)),
        }
    }

    /// Looks at all files with all the memory that a look may take.
    pub fn look(&self) -> Result<WorkspaceScan, WorkspaceError> {
        let look = self.look_within(&mut || true)?;
        look.ok_or_else(|| WorkspaceError::Host(io::ErrorKind::OutOfMemory.into()))
    }
}

// The directory `rest` below the root that is now at `root`.
fn below(root: &Path, rest: &Path) -> Result<(Workspace, u32), WorkspaceError> {
    let not_found = |error: Errno| WorkspaceError::of(error, WorkspaceError::NotFound);
    let refused = |error| match error {
        Errno::XDEV | Errno::LOOP | Errno::AGAIN => WorkspaceError::Elsewhere,
        Errno::NOTDIR => WorkspaceError::NotADirectory,
        error => not_found(error),
    };
    let base = Reach::Disk.straight_to(root).map_err(not_found)?;
    let dir = beneath(&base, rest, OFlags::PATH | OFlags::NOFOLLOW).map_err(refused)?;
    let found = Reach::Disk.seen(&dir).map_err(refused)?;
    match found.kind {
        FileType::Directory => {}
        FileType::Symlink => {
            // Where it leads to is another's business when that is not below the root.
            return match beneath(&base, rest, OFlags::PATH).map_err(refused) {
                Err(error @ (WorkspaceError::Elsewhere | WorkspaceError::Host(_))) => Err(error),
                _ => Err(WorkspaceError::Link),
            };
        }
        _ => return Err(WorkspaceError::NotADirectory),
    }
    // Its path as the kernel knows it; what leads there has to be what was opened.
    let path = readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new()).map_err(not_found)?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    if !path.starts_with(root) {
        return Err(WorkspaceError::Replaced);
    }
    let workspace = Workspace::holding(dir, found.identity, path)?;
    let owner = workspace.owner()?;
    Ok((workspace, owner))
}
