//! A workspace: its directory, its files, and whether they have changed.
//!
//! A [`Workspace`] holds its directory open. Everything is read through that descriptor, so that a directory, link or
//! mount that later takes its place is never read. While it is open, no other directory can have its device and inode,
//! by which a run's sandbox identifies it before mounting it.

mod changed_files;
mod git;
mod ignored_dirs;
mod lookup;
mod scan;
mod snapshot;
#[cfg(test)]
mod tests;

use crate::host::resolved_path::ResolvedPath;
pub use git::{GitError, commit_name};
use lookup::{LookupMode, open_beneath};
pub(crate) use lookup::{open_regular, open_without_links};
use proctor_core::request::Fingerprint;
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::FileTree;
use proctor_sandbox::exhausted_resource;
use rustix::fs::{FileType, OFlags, readlink};
use rustix::io::Errno;
use scan::ScanError;
pub use snapshot::{FILE_TIME_LAG_MS, metadata_hash};
use std::ffi::OsString;

use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// System directories: write access there means control of the host.
const SYSTEM_DIRS: [&str; 12] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr"];

/// System directories in which workspaces are usual.
const USABLE_SYSTEM_DIRS: [&str; 3] = ["/dev/shm", "/usr/local/src", "/usr/src"];

/// Whether workspaces below this directory are forbidden because it belongs to the system.
#[must_use]
pub fn is_system_dir(root: &Path) -> bool {
    let is_below = |dirs: &[&str]| dirs.iter().any(|dir| root.starts_with(dir));
    is_below(&SYSTEM_DIRS) && !is_below(&USABLE_SYSTEM_DIRS)
}

/// An open directory with its path without symlinks. Clones share the descriptor.
#[derive(Debug, Clone)]
pub struct Workspace(Arc<OpenDir>);

#[derive(Debug)]
struct OpenDir {
    root: PathBuf,
    /// Directory that contains everything that may be read for this workspace.
    boundary: PathBuf,
    /// Device and inode of the opened directory: another directory at the same path is another workspace.
    identity: (u64, u64),
    /// The directory, wherever it has been moved.
    dir: OwnedFd,
}

/// Equal if path and directory are the same, whatever descriptor is held.
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

/// A directory below which workspaces may be, as named and as resolved when the configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    named: PathBuf,
    real: PathBuf,
}

impl Root {
    /// Resolves `named`. Its links are resolved only now, because later only other users could change them.
    #[must_use]
    pub fn new(named: &Path) -> Root {
        Root::from_resolved(&ResolvedPath::new(named))
    }

    /// A root at a resolved path. If no directory exists there yet it contains nothing, and a link created there is not
    /// followed.
    #[must_use]
    pub fn from_resolved(path: &ResolvedPath) -> Root {
        let [named, real] = path.names();
        Root { named, real }
    }

    /// Whether the workspace is below this root.
    #[must_use]
    pub fn contains(&self, workspace: &Workspace) -> bool {
        workspace.root().starts_with(&self.real)
    }

    /// `path` relative to the root if it is named as one below it. Purely textual.
    fn relative_path<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.named)).ok()
    }
}

/// The result of a workspace scan.
#[derive(Debug, Clone)]
pub struct WorkspaceScan {
    /// File names, with the contents that detection reads.
    pub tree: FileTree,
    /// `None` if the scan is incomplete, because an edit could then be overlooked.
    pub fingerprint: Option<Fingerprint>,
    /// UID of the workspace's owner.
    pub owner: u32,
    /// Hash over the metadata of files whose names are not UTF-8, which the tree does not have.
    pub unnamed: u64,
}

/// Why a path is refused. No variant reveals where on the host anything is.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// A relative path.
    #[error("must be an absolute path")]
    NotAbsolute,
    /// Missing, or invisible to this process.
    #[error("not found")]
    NotFound(#[source] io::Error),
    /// It exists and is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// A link to a directory, whose owner could redirect it at any time.
    #[error("is a symbolic link: name the directory itself")]
    Link,
    /// Not below a root, or by a path that leads out of it.
    #[error("not below a root of this tenant")]
    OutsideRoots,
    /// A directory that cannot hold workspaces.
    #[error("is a directory of the system or of the supervisor")]
    Reserved,
    /// Another directory, or none, is at its path now.
    #[error("was moved, replaced or removed")]
    Replaced,
    /// The host failed for a reason that is independent of the path; a retry may succeed.
    #[error("{}", exhausted_resource(.0).unwrap_or("the host failed to read it"))]
    Host(#[source] io::Error),
    /// A file's path leads out of the workspace.
    #[error("{file:?} is outside the workspace")]
    Outside {
        /// The path as given.
        file: String,
    },
    /// A file does not exist.
    #[error("{file:?} not found in the workspace")]
    NoSuchFile {
        /// The path as given.
        file: String,
    },
}

impl WorkspaceError {
    /// Classifies the error of a look-up: `path_error` for errors that concern the path, [`WorkspaceError::Host`] for all
    /// others.
    fn from_lookup(
        error: impl Into<io::Error>,
        path_error: impl FnOnce(io::Error) -> WorkspaceError,
    ) -> WorkspaceError {
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
            ) => path_error(error),
            _ => WorkspaceError::Host(error),
        }
    }
}

impl Workspace {
    /// Opens the directory at `path` with all symlinks resolved, for callers that may use any directory. Mount points
    /// are allowed.
    pub fn open(path: &Path) -> Result<Workspace, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        let not_found = |error| WorkspaceError::from_lookup(error, WorkspaceError::NotFound);
        let root = path.canonicalize().map_err(not_found)?;
        let dir = LookupMode::Blocking.open_dir(&root).map_err(|error| match error {
            Errno::NOTDIR => WorkspaceError::NotADirectory,
            error => not_found(error.into()),
        })?;
        let identity = LookupMode::Blocking.stat(&dir).map_err(|error| not_found(error.into()))?.identity;
        Workspace::from_open_dir(dir, identity, root, PathBuf::from("/"))
    }

    /// Opens the directory `path` below one of `roots` and returns its owner too. A path outside all roots by name is
    /// refused without touching the file system. Below a root, the kernel resolves the path and refuses every step out
    /// of the root: `..`, a link that leads out or is absolute, a magic link of /proc. Relative links that stay inside
    /// are allowed.
    pub fn open_below(roots: &[Root], path: &Path) -> Result<(Workspace, u32), WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        // Without a trailing slash, which would follow a link.
        let path: PathBuf = path.components().collect();
        let named = roots.iter().filter_map(|root| Some((&root.real, root.relative_path(&path)?)));
        let mut found = Err(WorkspaceError::OutsideRoots);
        for (root, rest) in named {
            found = open_in_root(root, rest);
            if !matches!(found, Err(WorkspaceError::OutsideRoots)) {
                break;
            }
        }
        found
    }

    /// Like [`Workspace::open_below`], but uses only the kernel's cache, so it never blocks. `None` means only that a
    /// blocking look-up is needed.
    #[must_use]
    pub fn open_cached(roots: &[Root], path: &Path) -> Option<(Workspace, u32)> {
        if !path.is_absolute() {
            return None;
        }
        let (root, rest) = roots.iter().find_map(|root| Some((&root.real, root.relative_path(path)?)))?;
        let boundary = root.clone();
        // Only plain names and no links, so the path cannot lead elsewhere.
        if !rest.components().all(|component| matches!(component, Component::Normal(_))) {
            return None;
        }
        let path: PathBuf = root.components().chain(rest.components()).collect();
        let dir = LookupMode::Cached.open_dir(&path).ok()?;
        let found = LookupMode::Cached.stat(&dir).ok()?;
        Some((Workspace::from_open_dir(dir, found.identity, path, boundary).ok()?, found.owner))
    }

    fn from_open_dir(
        dir: OwnedFd,
        identity: (u64, u64),
        root: PathBuf,
        boundary: PathBuf,
    ) -> Result<Workspace, WorkspaceError> {
        let is_usable_dir = USABLE_SYSTEM_DIRS.iter().any(|open| root == Path::new(open));
        if root.parent().is_none() || is_usable_dir || is_system_dir(&root) {
            return Err(WorkspaceError::Reserved);
        }
        Ok(Workspace(Arc::new(OpenDir { root, boundary, identity, dir })))
    }

    /// Device and inode of the directory.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        self.0.identity
    }

    /// Its path, for the sandbox and the logs, never for messages to clients.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// The tenant's root that the workspace was found below: nothing above it is read for the tenant. `/` for callers that
    /// may use any directory.
    #[must_use]
    pub fn boundary(&self) -> &Path {
        &self.0.boundary
    }

    /// `file` relative to the workspace, with `/` as separator. The file need not exist; if it does, no symlink may
    /// lead out.
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
        match open_beneath(&self.0.dir, path, OFlags::PATH) {
            Err(Errno::XDEV | Errno::LOOP | Errno::AGAIN) => Err(outside()),
            // A missing file is inside; a file that could not be looked up might be anywhere.
            Err(error) if exhausted_resource(&error.into()).is_some() => Err(WorkspaceError::Host(error.into())),
            _ => Ok(parts.join("/")),
        }
    }

    /// Like [`Workspace::relative`], for a file or directory that must exist.
    pub fn existing(&self, file: &str) -> Result<String, WorkspaceError> {
        let relative = self.relative(file)?;
        match open_beneath(&self.0.dir, Path::new(&relative), OFlags::PATH) {
            Ok(_) => Ok(relative),
            Err(error) => {
                Err(WorkspaceError::from_lookup(error, |_| WorkspaceError::NoSuchFile { file: file.to_owned() }))
            }
        }
    }

    /// The open directory.
    fn dir(&self) -> &OwnedFd {
        &self.0.dir
    }

    /// Up to `bytes_max` of the text of the file at `path`; `None` if it is not a regular file without links on its way.
    #[must_use]
    pub fn text_of(&self, path: &str, bytes_max: u64) -> Option<String> {
        let mut content = Vec::new();
        open_regular(self.dir(), path).ok()??.take(bytes_max).read_to_end(&mut content).ok()?;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// Whether `file` is missing or was changed after `since`.
    #[must_use]
    pub fn changed_since(&self, file: &str, since: Timestamp) -> bool {
        let found = open_beneath(&self.0.dir, Path::new(file), OFlags::PATH);
        found.and_then(|file| LookupMode::Blocking.stat(&file)).map_or(true, |found| found.changed_at > since)
    }

    /// The content of a file, if it is a regular one of at most `bytes_max` that everybody or the workspace's owner may read,
    /// below the workspace on a path without links. Reads from the disk, so not for a tokio thread.
    #[must_use]
    pub fn read_source(&self, file: &str, bytes_max: u64) -> Option<Vec<u8>> {
        let relative = self.relative(file).ok()?;
        let file = open_regular(self.dir(), relative.as_str()).ok()??;
        let found = file.metadata().ok()?;
        // A hard link to a file of somebody else proves nothing.
        let is_readable = found.mode() & 0o004 != 0 || self.owner().ok()? == found.uid();
        if !is_readable || found.len() > bytes_max {
            return None;
        }
        let mut content = Vec::new();
        file.take(bytes_max).read_to_end(&mut content).ok()?;
        Some(content)
    }

    /// UID of the owner, provided the directory is still at its path.
    pub fn owner(&self) -> Result<u32, WorkspaceError> {
        let replaced = |error| WorkspaceError::from_lookup(error, |_| WorkspaceError::Replaced);
        let current = LookupMode::Blocking
            .open_dir(self.root())
            .and_then(|current| LookupMode::Blocking.stat(&current))
            .map_err(replaced)?;
        if current.identity == self.identity() { Ok(current.owner) } else { Err(WorkspaceError::Replaced) }
    }

    /// Scans all files. Takes milliseconds for thousands of files, so not for a tokio thread. Only files and
    /// directories that this process may not read are skipped; any other error fails the scan, since an incomplete tree
    /// could be taken for another project.
    ///
    /// Uses at most [`SCAN_BYTES_SMALL`](proctor_core::bounds::SCAN_BYTES_SMALL) of memory unless `grow`, which is called once, allows [`SCAN_BYTES_LARGE`](proctor_core::bounds::SCAN_BYTES_LARGE). Returns
    /// `None` if more is needed and not allowed.
    pub fn scan_within(&self, grow: &mut dyn FnMut() -> bool) -> Result<Option<WorkspaceScan>, WorkspaceError> {
        let owner = self.owner()?;
        match scan::scan_dir(&self.0.dir, grow) {
            Ok(scan::ScanResult { tree, fingerprint, unnamed }) => {
                Ok(Some(WorkspaceScan { tree, fingerprint, owner, unnamed }))
            }
            Err(ScanError::OverMemory) => Ok(None),
            Err(ScanError::Host(error)) => Err(WorkspaceError::Host(error)),
        }
    }

    /// Scans all files with the larger memory budget.
    pub fn scan(&self) -> Result<WorkspaceScan, WorkspaceError> {
        let scan = self.scan_within(&mut || true)?;
        scan.ok_or_else(|| WorkspaceError::Host(io::ErrorKind::OutOfMemory.into()))
    }
}

// Opens the directory `rest` below the root at `root`.
fn open_in_root(root: &Path, rest: &Path) -> Result<(Workspace, u32), WorkspaceError> {
    let not_found = |error: Errno| WorkspaceError::from_lookup(error, WorkspaceError::NotFound);
    let refused = |error| match error {
        Errno::XDEV | Errno::LOOP | Errno::AGAIN => WorkspaceError::OutsideRoots,
        Errno::NOTDIR => WorkspaceError::NotADirectory,
        error => not_found(error),
    };
    let base = LookupMode::Blocking.open_dir(root).map_err(not_found)?;
    let dir = open_beneath(&base, rest, OFlags::PATH | OFlags::NOFOLLOW).map_err(refused)?;
    let found = LookupMode::Blocking.stat(&dir).map_err(refused)?;
    match found.kind {
        FileType::Directory => {}
        FileType::Symlink => {
            // The target is not revealed if it is outside the root.
            return match open_beneath(&base, rest, OFlags::PATH).map_err(refused) {
                Err(error @ (WorkspaceError::OutsideRoots | WorkspaceError::Host(_))) => Err(error),
                _ => Err(WorkspaceError::Link),
            };
        }
        _ => return Err(WorkspaceError::NotADirectory),
    }
    // The kernel's path of the directory; that path must still lead to the opened directory.
    let path = readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new()).map_err(not_found)?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    if !path.starts_with(root) {
        return Err(WorkspaceError::Replaced);
    }
    let workspace = Workspace::from_open_dir(dir, found.identity, path, root.to_owned())?;
    let owner = workspace.owner()?;
    Ok((workspace, owner))
}
