//! A workspace as the edge sees it: where it is, what files it has, whether they changed. Must not know frameworks
//! beyond the names of the files that are read, nor who may own a workspace.
//!
//! Whoever has a workspace holds its directory open. What is read of it is read through that descriptor, so that a directory,
//! a link or a mount that takes its place in the meantime is never looked at; and as long as it is held, no other directory
//! can have its device and inode, by which a run's sandbox knows it before it is mounted.

use crate::project_file;
use proctor_core::moment::Moment;
use proctor_core::request::Fingerprint;
use proctor_frameworks::{FRAMEWORKS, FileTree};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Most files and directories that a look at a workspace takes in. A larger one is never taken to be unchanged.
const ENTRIES_MAX: usize = 200_000;

/// Deepest directory looked into. Deeper trees are generated.
const DEPTH_MAX: usize = 64;

/// Largest marker file read, in bytes. A `go.mod` of 1 MiB would name 20,000 modules.
const MARKER_BYTES_MAX: u64 = 1024 * 1024;

/// Most bytes of marker files read together. A monorepo of 1,000 modules has a few MiB of them.
const MARKERS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The file by which tools mark a directory as a cache that nobody edits (the Cache Directory Tagging specification;
/// Cargo's `target` and `.pytest_cache` have it).
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// Directories of the system: whoever may write there has the host.
const SYSTEM: [&str; 12] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr"];

/// Directories of the system below which workspaces are usual.
const OPEN: [&str; 3] = ["/dev/shm", "/usr/local/src", "/usr/src"];

/// Directories that tools fill and nobody edits: looking into them costs much and says nothing about an edit, and a run
/// that fills them must not look like an edit. A name that a project might choose itself is not here.
const PASSED_OVER: [&str; 7] = [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".gradle"];

/// How often a look-up is tried anew that something was renamed under. One that loses each time is refused.
const TRIES: usize = 16;

/// A directory that is held open, by its path without symlinks.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    /// Device and inode of the directory that was opened: another one at the same path is another workspace.
    identity: (u64, u64),
    /// The directory, wherever it is now.
    dir: Arc<OwnedFd>,
}

/// The same directory at the same path, whoever holds it.
impl PartialEq for Workspace {
    fn eq(&self, other: &Workspace) -> bool {
        (self.identity, &self.root) == (other.identity, &other.root)
    }
}

impl Eq for Workspace {}

impl Hash for Workspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.identity, &self.root).hash(state);
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
    pub fn of(named: &Path) -> Root {
        Root { named: named.to_owned(), real: named.canonicalize().unwrap_or_else(|_| named.to_owned()) }
    }

    /// Whether the workspace is below it.
    #[must_use]
    pub fn holds(&self, workspace: &Workspace) -> bool {
        workspace.root.starts_with(&self.real)
    }

    /// `path` taken from the root, when it is named as one below it. Says nothing about what is there, and looks at nothing.
    fn rest<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.named)).ok()
    }
}

/// A look at a workspace: its files, and what they looked like.
#[derive(Debug, Clone)]
pub struct Look {
    /// Names of files, with the content of those that detection reads.
    pub tree: FileTree,
    /// `None` when there is more than a look takes in.
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

impl Workspace {
    /// Opens the directory at `path`, with all symlinks resolved: for a caller who may be anywhere. A mount point is a directory
    /// like any other.
    pub fn open(path: &Path) -> Result<Workspace, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        let root = path.canonicalize().map_err(WorkspaceError::NotFound)?;
        let dir = straight_to(&root).map_err(|error| match error {
            Errno::NOTDIR => WorkspaceError::NotADirectory,
            error => WorkspaceError::NotFound(error.into()),
        })?;
        Workspace::holding(dir, root)
    }

    /// Opens the directory that `path` names below one of `roots`. A path that is not named as one below a root is refused
    /// without a look at it. Below a root the kernel resolves it and refuses every step out of the root: `..`, a link that leads
    /// out or is absolute, a link of /proc to a process's own files. A relative link on the way that stays inside will do.
    pub fn open_below(roots: &[Root], path: &Path) -> Result<Workspace, WorkspaceError> {
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

    fn holding(dir: OwnedFd, root: PathBuf) -> Result<Workspace, WorkspaceError> {
        let found = fstat(&dir).map_err(|error| WorkspaceError::NotFound(error.into()))?;
        let open = OPEN.iter().any(|open| root.starts_with(open) && root != Path::new(open));
        if root.parent().is_none() || (!open && SYSTEM.iter().any(|system| root.starts_with(system))) {
            return Err(WorkspaceError::Reserved);
        }
        Ok(Workspace { root, identity: identity_of(&found), dir: Arc::new(dir) })
    }

    /// Device and inode of its directory.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Where it is. For the sandbox and the logs, never for a message.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `file` relative to the workspace, `/`-separated. It need not exist; where it does, no symlink may lead out.
    pub fn relative(&self, file: &str) -> Result<String, WorkspaceError> {
        let outside = || WorkspaceError::Outside { file: file.to_owned() };
        let path = Path::new(file);
        let path = if path.is_absolute() { path.strip_prefix(&self.root).map_err(|_| outside())? } else { path };
        let mut parts = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(part) => parts.push(part.to_str().ok_or_else(outside)?),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        match beneath(&self.dir, path, OFlags::PATH) {
            Err(Errno::XDEV | Errno::LOOP | Errno::AGAIN) => Err(outside()),
            // What is not there stays below.
            _ => Ok(parts.join("/")),
        }
    }

    /// Like [`Workspace::relative`], for a file or directory that must be there.
    pub fn existing(&self, file: &str) -> Result<String, WorkspaceError> {
        let relative = self.relative(file)?;
        match beneath(&self.dir, Path::new(&relative), OFlags::PATH) {
            Ok(_) => Ok(relative),
            Err(_) => Err(WorkspaceError::NoSuchFile { file: file.to_owned() }),
        }
    }

    /// Whether `file` is gone or was changed after `since`.
    ///
    /// The change time counts beside the modification time, because only the kernel can set it.
    #[must_use]
    pub fn changed_since(&self, file: &str, since: Moment) -> bool {
        let found = beneath(&self.dir, Path::new(file), OFlags::PATH).and_then(fstat);
        found.map_or(true, |found| changed_at(&found) > since)
    }

    /// The user to whom it belongs, as long as it is still where it was opened.
    pub fn owner(&self) -> Result<u32, WorkspaceError> {
        let there = straight_to(&self.root).and_then(fstat).map_err(|_| WorkspaceError::Replaced)?;
        if identity_of(&there) != self.identity {
            return Err(WorkspaceError::Replaced);
        }
        fstat(&self.dir).map(|held| held.st_uid).map_err(|_| WorkspaceError::Replaced)
    }

    /// Looks at all files. Takes milliseconds for thousands of files: not for a tokio thread.
    pub fn look(&self) -> Result<Look, WorkspaceError> {
        let owner = self.owner()?;
        let mut walk = Walk { tree: FileTree::default(), hasher: blake3::Hasher::new(), entries: 0, markers_bytes: 0 };
        walk.directory(self.dir.as_fd(), c".", "", 0);
        let fingerprint = (!walk.tree.is_truncated()).then(|| Fingerprint(*walk.hasher.finalize().as_bytes()));
        Ok(Look { tree: walk.tree, fingerprint, owner })
    }
}

// The directory `rest` below the root that is now at `root`.
fn below(root: &Path, rest: &Path) -> Result<Workspace, WorkspaceError> {
    let refused = |error| match error {
        Errno::XDEV | Errno::LOOP | Errno::AGAIN => WorkspaceError::Elsewhere,
        Errno::NOTDIR => WorkspaceError::NotADirectory,
        error => WorkspaceError::NotFound(error.into()),
    };
    let base = straight_to(root).map_err(|error| WorkspaceError::NotFound(error.into()))?;
    let dir = beneath(&base, rest, OFlags::PATH | OFlags::NOFOLLOW).map_err(refused)?;
    let found = fstat(&dir).map_err(refused)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => {
            // Where it leads to is another's business when that is not below the root.
            return match beneath(&base, rest, OFlags::PATH).map_err(refused) {
                Err(WorkspaceError::Elsewhere) => Err(WorkspaceError::Elsewhere),
                _ => Err(WorkspaceError::Link),
            };
        }
        _ => return Err(WorkspaceError::NotADirectory),
    }
    // Its path as the kernel knows it; what leads there has to be what was opened.
    let path = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).map_err(WorkspaceError::NotFound)?;
    let there = straight_to(&path).and_then(fstat).map_err(|_| WorkspaceError::Replaced)?;
    if identity_of(&there) != identity_of(&found) || !path.starts_with(root) {
        return Err(WorkspaceError::Replaced);
    }
    Workspace::holding(dir, path)
}

// The directory at `path`, through no link.
fn straight_to(path: &Path) -> Result<OwnedFd, Errno> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, how, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

// `path` below `dir`, by no way that leads out of it.
fn beneath(dir: &OwnedFd, path: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut found = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        found = openat2(dir, path, how | OFlags::CLOEXEC, Mode::empty(), resolve);
        // Something was renamed while a `..` was resolved.
        if !matches!(found, Err(Errno::AGAIN)) {
            break;
        }
    }
    found
}

fn identity_of(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

fn changed_at(found: &Stat) -> Moment {
    let ms = |seconds: i64, nanos: u64| {
        let nanos = i64::try_from(nanos).unwrap_or(0);
        u64::try_from(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000)).unwrap_or(0)
    };
    Moment(ms(found.st_mtime, found.st_mtime_nsec).max(ms(found.st_ctime, found.st_ctime_nsec)))
}

struct Walk {
    tree: FileTree,
    hasher: blake3::Hasher,
    entries: usize,
    markers_bytes: u64,
}

impl Walk {
    // Symlinks are told by what they are and never followed, so that no link leads the walk out or in a circle.
    fn directory(&mut self, parent: BorrowedFd<'_>, name: &CStr, relative: &str, depth: usize) {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(dir) = openat(parent, name, how, Mode::empty()) else { return };
        let Ok(entries) = Dir::read_from(&dir) else { return };
        let room = ENTRIES_MAX - self.entries;
        let names = entries.flatten().map(|entry| entry.file_name().to_owned());
        let names = names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).take(room + 1);
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        if names.len() > room || depth >= DEPTH_MAX {
            self.tree.set_truncated();
            return;
        }
        if names.iter().any(|name| name == CACHE_TAG) {
            return;
        }
        self.entries += names.len();
        names.sort_unstable();
        for name in names {
            let Ok(path) = CString::new(name.as_str()) else { continue };
            let Ok(found) = statat(&dir, &*path, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let relative = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                if !PASSED_OVER.contains(&name.as_str()) {
                    self.directory(dir.as_fd(), &path, &relative, depth + 1);
                }
            } else {
                self.file(dir.as_fd(), &relative, &name, &found);
            }
        }
    }

    fn file(&mut self, dir: BorrowedFd<'_>, relative: &str, name: &str, found: &Stat) {
        self.hasher.update(relative.as_bytes());
        let size = u64::try_from(found.st_size).unwrap_or(0);
        for number in [found.st_ino, size, u64::from(found.st_mode)] {
            self.hasher.update(&number.to_le_bytes());
        }
        for (seconds, nanos) in [(found.st_mtime, found.st_mtime_nsec), (found.st_ctime, found.st_ctime_nsec)] {
            self.hasher.update(&seconds.to_le_bytes());
            self.hasher.update(&nanos.to_le_bytes());
        }
        let is_marker = project_file::PATHS.contains(&relative)
            || FRAMEWORKS.iter().any(|framework| framework.markers().contains(&name) || framework.reads(relative));
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if is_marker && is_file && size <= MARKER_BYTES_MAX {
            self.markers_bytes += size;
            if self.markers_bytes > MARKERS_BYTES_MAX {
                self.tree.set_truncated();
            } else if let Ok(content) = read_marker(dir, name) {
                self.tree.add_with_content(relative, content);
                return;
            }
        }
        self.tree.add(relative);
    }
}

// Between the look and the open a running test may have put a link or a FIFO in the file's place.
fn read_marker(dir: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, how, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut content = String::new();
    file.take(MARKER_BYTES_MAX).read_to_string(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::CloneFlags;
    use rustix::mount::{MountFlags, MountPropagationFlags};
    use std::os::unix::fs::{MetadataExt, symlink};

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/x.go"), "package b").unwrap();
        fs::write(dir.path().join("go.mod"), "module m").unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        (dir, workspace)
    }

    #[test]
    fn paths_stay_inside_also_through_symlinks() {
        let (dir, workspace) = workspace();
        symlink("/etc", dir.path().join("out")).unwrap();
        symlink("a", dir.path().join("in")).unwrap();
        assert_eq!(workspace.relative("./a//b/x.go").unwrap(), "a/b/x.go");
        assert_eq!(workspace.relative(workspace.root().join("a/b").to_str().unwrap()).unwrap(), "a/b");
        assert_eq!(workspace.relative("deleted.go").unwrap(), "deleted.go");
        assert_eq!(workspace.existing("in/b/x.go").unwrap(), "in/b/x.go");
        symlink("/nowhere", dir.path().join("dangling")).unwrap();
        // What is outside is not said to be there or not.
        for outside in ["../x", "a/../../x", "/etc/passwd", "out/passwd", "out/no-such-file", "dangling"] {
            let error = workspace.relative(outside).unwrap_err();
            assert!(matches!(error, WorkspaceError::Outside { .. }), "{outside}: {error}");
        }
        assert!(matches!(workspace.existing("deleted.go"), Err(WorkspaceError::NoSuchFile { .. })));
    }

    #[test]
    fn a_fingerprint_changes_with_every_edit_and_not_with_what_tools_leave() {
        let (dir, workspace) = workspace();
        let before = workspace.look().unwrap();
        assert_eq!(before.tree.content("go.mod"), Some("module m"));
        assert_eq!(before.fingerprint, workspace.look().unwrap().fingerprint);
        fs::create_dir(dir.path().join("node_modules")).unwrap();
        fs::write(dir.path().join("node_modules/x.js"), "1").unwrap();
        assert_eq!(before.fingerprint, workspace.look().unwrap().fingerprint);
        fs::create_dir_all(dir.path().join("target/debug")).unwrap();
        fs::write(dir.path().join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
        fs::write(dir.path().join("target/debug/x"), "1").unwrap();
        assert_eq!(before.fingerprint, workspace.look().unwrap().fingerprint);
        fs::write(dir.path().join("a/b/x.go"), "package c").unwrap();
        assert_ne!(before.fingerprint, workspace.look().unwrap().fingerprint);
    }

    #[test]
    fn a_directory_that_only_sounds_like_a_cache_is_looked_at() {
        let (dir, workspace) = workspace();
        fs::create_dir(dir.path().join("target")).unwrap();
        fs::write(dir.path().join("target/x.go"), "package target").unwrap();
        assert!(workspace.look().unwrap().tree.contains("target/x.go"));
    }

    #[test]
    fn another_directory_at_the_same_path_is_another_workspace() {
        let (dir, workspace) = workspace();
        let (here, there) = (dir.path().join("ws"), dir.path().join("old"));
        fs::create_dir(&here).unwrap();
        let opened = Workspace::open(&here).unwrap();
        assert!(opened.look().is_ok() && workspace.look().is_ok());
        fs::rename(&here, &there).unwrap();
        assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
        symlink(&there, &here).unwrap();
        assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
        // The same directory, and a link on the way to it.
        let (above, aside) = (dir.path().join("a"), dir.path().join("aside"));
        let opened = Workspace::open(&above.join("b")).unwrap();
        fs::rename(&above, &aside).unwrap();
        symlink(&aside, &above).unwrap();
        assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
    }

    #[test]
    fn what_takes_its_place_is_never_looked_at() {
        let (dir, _) = workspace();
        let (here, theirs) = (dir.path().join("ws"), dir.path().join("theirs"));
        fs::create_dir(&here).unwrap();
        fs::create_dir(&theirs).unwrap();
        fs::write(here.join("own.txt"), "").unwrap();
        fs::write(theirs.join("secret.txt"), "").unwrap();
        let opened = Workspace::open(&here).unwrap();
        fs::rename(&here, dir.path().join("aside")).unwrap();
        symlink(&theirs, &here).unwrap();
        assert_eq!(opened.existing("own.txt").unwrap(), "own.txt");
        assert!(matches!(opened.existing("secret.txt"), Err(WorkspaceError::NoSuchFile { .. })));
        assert!(opened.changed_since("secret.txt", Moment(u64::MAX)), "it is not there");
        assert!(!opened.changed_since("own.txt", Moment(u64::MAX)));
        assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
    }

    #[test]
    fn no_other_directory_gets_the_identity_of_one_that_is_held() {
        let (dir, _) = workspace();
        let here = dir.path().join("ws");
        fs::create_dir(&here).unwrap();
        let opened = Workspace::open(&here).unwrap();
        // File systems give the number of a directory that is gone to the next one that is made.
        for _ in 0..64 {
            fs::remove_dir(&here).unwrap();
            fs::create_dir(&here).unwrap();
            assert_ne!(Workspace::open(&here).unwrap().identity(), opened.identity());
            assert!(matches!(opened.owner(), Err(WorkspaceError::Replaced)));
        }
    }

    #[test]
    fn below_a_root_nothing_leads_out() {
        let (dir, _) = workspace();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("roots/own/shop/inner")).unwrap();
        fs::create_dir_all(top.join("roots/other/shop")).unwrap();
        fs::write(top.join("roots/own/file"), "").unwrap();
        symlink("roots/own", top.join("by-name")).unwrap();
        for (link, target) in [
            ("here", "."),
            ("alias", "shop"),
            ("nowhere", "gone"),
            ("up", ".."),
            ("theirs", "../other/shop"),
            ("circle", "circle"),
        ] {
            symlink(target, top.join("roots/own").join(link)).unwrap();
        }
        symlink(top.join("roots/other/shop"), top.join("roots/own/absolute-theirs")).unwrap();
        symlink(top.join("roots/own/shop"), top.join("roots/own/absolute-own")).unwrap();
        symlink(format!("/proc/{}/root/etc", std::process::id()), top.join("roots/own/magic")).unwrap();
        let roots = [Root::of(&top.join("by-name"))];
        let open = |tail: &str| Workspace::open_below(&roots, &top.join(tail));
        for (inside, at) in [
            ("roots/own/shop", "roots/own/shop"),
            ("by-name/shop", "roots/own/shop"),
            ("roots/own/here/shop/", "roots/own/shop"),
            ("roots/own/shop/inner/..", "roots/own/shop"),
            ("roots/own", "roots/own"),
        ] {
            assert_eq!(open(inside).unwrap().root(), top.join(at), "{inside}");
        }
        for outside in [
            "roots/other/shop",
            "roots/other/gone",
            "roots/ownx",
            "roots/own/../other/shop",
            "roots/own/..",
            "roots/own/up/other/shop",
            "roots/own/theirs",
            "roots/own/theirs/gone",
            "roots/own/absolute-theirs",
            "roots/own/absolute-own/inner",
            "roots/own/circle/x",
            "roots/own/magic",
            "",
        ] {
            let refused = open(outside).unwrap_err();
            assert!(matches!(refused, WorkspaceError::Elsewhere), "{outside}: {refused}");
        }
        assert!(matches!(open("roots/own/gone"), Err(WorkspaceError::NotFound(_))));
        assert!(matches!(open("roots/own/file"), Err(WorkspaceError::NotADirectory)));
        for link in ["alias", "alias/", "nowhere", "here"] {
            assert!(matches!(open(&format!("roots/own/{link}")), Err(WorkspaceError::Link)), "{link}");
        }
        assert!(matches!(Workspace::open_below(&roots, Path::new("shop")), Err(WorkspaceError::NotAbsolute)));

        // Links of /proc to what a process has open, where a root would hold them.
        let all = [Root::of(Path::new("/"))];
        for magic in ["/proc/self/root/etc", "/proc/self/cwd"] {
            let refused = Workspace::open_below(&all, Path::new(magic)).unwrap_err();
            assert!(matches!(refused, WorkspaceError::Elsewhere), "{magic}: {refused}");
        }
        // A root that was made a link since it was read leads nowhere.
        fs::rename(top.join("roots/own"), top.join("roots/moved")).unwrap();
        symlink("other", top.join("roots/own")).unwrap();
        assert!(matches!(open("roots/own/shop"), Err(WorkspaceError::NotFound(_))));
    }

    #[test]
    fn a_mount_that_covers_a_workspace_is_another_directory() {
        let (dir, _) = workspace();
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return; // nobody but root can mount
        }
        let here = dir.path().join("ws");
        fs::create_dir(&here).unwrap();
        let opened = Workspace::open(&here).unwrap();
        fs::write(here.join("own.txt"), "").unwrap();
        let covered = std::thread::scope(|scope| {
            // Mounts of one thread's own, which no other sees.
            let covered = scope.spawn(|| {
                nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
                rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
                rustix::mount::mount("none", &here, "tmpfs", MountFlags::empty(), None).unwrap();
                (opened.existing("own.txt").is_ok(), matches!(opened.look(), Err(WorkspaceError::Replaced)))
            });
            covered.join().unwrap()
        });
        assert_eq!(covered, (true, true));
    }

    #[test]
    fn a_directory_of_the_system_is_no_workspace() {
        for path in ["/", "/etc", "/usr/lib", "/proc/self", "/dev", "/dev/shm", "/bin", "/sys/fs/cgroup"] {
            assert!(matches!(Workspace::open(Path::new(path)), Err(WorkspaceError::Reserved)), "{path}");
        }
        if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
            assert!(Workspace::open(dir.path()).is_ok());
        }
    }

    #[test]
    fn a_look_says_whose_the_workspace_is() {
        let (dir, workspace) = workspace();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        assert_eq!(workspace.look().unwrap().owner, uid);
        if uid == 0 {
            std::os::unix::fs::chown(dir.path(), Some(4_000), None).unwrap();
            assert_eq!(workspace.look().unwrap().owner, 4_000);
        }
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(matches!(workspace.owner(), Err(WorkspaceError::Replaced)));
    }

    #[test]
    fn markers_are_read_within_a_budget_and_never_through_a_link() {
        let (dir, workspace) = workspace();
        for number in 0..20 {
            let module = dir.path().join(number.to_string());
            fs::create_dir(&module).unwrap();
            File::create(module.join("go.mod")).unwrap().set_len(MARKER_BYTES_MAX).unwrap();
        }
        let look = workspace.look().unwrap();
        assert!(look.tree.is_truncated() && look.fingerprint.is_none());
        symlink("/etc/passwd", dir.path().join("a/go.mod")).unwrap();
        let a = File::open(dir.path().join("a")).unwrap();
        assert!(read_marker(a.as_fd(), "go.mod").is_err());
    }

    #[test]
    fn a_workspace_is_an_absolute_directory() {
        let (dir, _) = workspace();
        assert!(matches!(Workspace::open(Path::new("x")), Err(WorkspaceError::NotAbsolute)));
        assert!(matches!(Workspace::open(&dir.path().join("none")), Err(WorkspaceError::NotFound(_))));
        assert!(matches!(Workspace::open(&dir.path().join("go.mod")), Err(WorkspaceError::NotADirectory)));
    }
}
