//! A workspace as the edge sees it: where it is, what files it has, whether they changed. Must not know frameworks
//! beyond the names of the files that are read, nor who may own a workspace.

use crate::project_file;
use proctor_core::moment::Moment;
use proctor_core::request::Fingerprint;
use proctor_frameworks::{FRAMEWORKS, FileTree};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
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

/// A directory that was there when it was opened, by its path without symlinks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workspace {
    root: PathBuf,
    /// Device and inode of the directory that was opened: another one at the same path is another workspace.
    identity: (u64, u64),
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
    /// Opens the directory at `path`, with all symlinks resolved. A mount point is a directory like any other.
    pub fn open(path: &Path) -> Result<Workspace, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        let root = path.canonicalize().map_err(WorkspaceError::NotFound)?;
        let metadata = fs::symlink_metadata(&root).map_err(WorkspaceError::NotFound)?;
        if !metadata.is_dir() {
            return Err(WorkspaceError::NotADirectory);
        }
        let open = OPEN.iter().any(|open| root.starts_with(open) && root != Path::new(open));
        if root.parent().is_none() || (!open && SYSTEM.iter().any(|system| root.starts_with(system))) {
            return Err(WorkspaceError::Reserved);
        }
        Ok(Workspace { root, identity: (metadata.dev(), metadata.ino()) })
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
        if !stays_below(&self.root, path) {
            return Err(outside());
        }
        Ok(parts.join("/"))
    }

    /// Like [`Workspace::relative`], for a file or directory that must be there.
    pub fn existing(&self, file: &str) -> Result<String, WorkspaceError> {
        let relative = self.relative(file)?;
        if self.root.join(&relative).exists() {
            Ok(relative)
        } else {
            Err(WorkspaceError::NoSuchFile { file: file.to_owned() })
        }
    }

    /// Whether `file` is gone or was changed after `since`.
    ///
    /// The change time counts beside the modification time, because only the kernel can set it.
    #[must_use]
    pub fn changed_since(&self, file: &str, since: Moment) -> bool {
        fs::metadata(self.root.join(file)).map_or(true, |metadata| changed_at(&metadata) > since)
    }

    /// The user to whom it belongs, as long as it is still where it was opened.
    pub fn owner(&self) -> Result<u32, WorkspaceError> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat2(CWD, &self.root, how, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let now = dir.map_err(io::Error::from).and_then(|dir| File::from(dir).metadata());
        let now = now.map_err(|_| WorkspaceError::Replaced)?;
        if (now.dev(), now.ino()) == self.identity { Ok(now.uid()) } else { Err(WorkspaceError::Replaced) }
    }

    /// Looks at all files. Takes milliseconds for thousands of files: not for a tokio thread.
    pub fn look(&self) -> Result<Look, WorkspaceError> {
        let owner = self.owner()?;
        let mut walk = Walk { tree: FileTree::default(), hasher: blake3::Hasher::new(), entries: 0, markers_bytes: 0 };
        walk.directory(&self.root, "", 0);
        let fingerprint = (!walk.tree.is_truncated()).then(|| Fingerprint(*walk.hasher.finalize().as_bytes()));
        Ok(Look { tree: walk.tree, fingerprint, owner })
    }
}

/// Whether `path`, taken from `root`, stays below it through every symlink on the way. What is not there stays below; a
/// link that leads out or nowhere does not, so that the answer says nothing about what is outside.
#[must_use]
pub fn stays_below(root: &Path, path: &Path) -> bool {
    let mut here = root.to_owned();
    for component in path.components() {
        here.push(component);
        match fs::symlink_metadata(&here) {
            Err(_) => return true,
            Ok(metadata) if metadata.is_symlink() => {
                if !here.canonicalize().is_ok_and(|real| real.starts_with(root)) {
                    return false;
                }
            }
            Ok(_) => {}
        }
    }
    true
}

fn changed_at(metadata: &Metadata) -> Moment {
    let ms = |seconds: i64, nanos: i64| {
        u64::try_from(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000)).unwrap_or(0)
    };
    Moment(ms(metadata.mtime(), metadata.mtime_nsec()).max(ms(metadata.ctime(), metadata.ctime_nsec())))
}

struct Walk {
    tree: FileTree,
    hasher: blake3::Hasher,
    entries: usize,
    markers_bytes: u64,
}

impl Walk {
    // Symlinks are told by what they are and never followed, so that no link leads the walk out or in a circle.
    fn directory(&mut self, path: &Path, relative: &str, depth: usize) {
        let Ok(entries) = fs::read_dir(path) else { return };
        let room = ENTRIES_MAX - self.entries;
        let mut names: Vec<String> =
            entries.take(room + 1).flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
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
            let path = path.join(&name);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let relative = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            if metadata.is_dir() {
                if !PASSED_OVER.contains(&name.as_str()) {
                    self.directory(&path, &relative, depth + 1);
                }
            } else {
                self.file(&path, &relative, &name, &metadata);
            }
        }
    }

    fn file(&mut self, path: &Path, relative: &str, name: &str, metadata: &Metadata) {
        self.hasher.update(relative.as_bytes());
        for number in [metadata.ino(), metadata.size(), u64::from(metadata.mode())] {
            self.hasher.update(&number.to_le_bytes());
        }
        for number in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
            self.hasher.update(&number.to_le_bytes());
        }
        let is_marker = project_file::PATHS.contains(&relative)
            || FRAMEWORKS.iter().any(|framework| framework.markers().contains(&name) || framework.reads(relative));
        if is_marker && metadata.is_file() && metadata.size() <= MARKER_BYTES_MAX {
            self.markers_bytes += metadata.size();
            if self.markers_bytes > MARKERS_BYTES_MAX {
                self.tree.set_truncated();
            } else if let Ok(content) = read_marker(path) {
                self.tree.add_with_content(relative, content);
                return;
            }
        }
        self.tree.add(relative);
    }
}

// Between the look and the open a running test may have put a link or a FIFO in the file's place.
fn read_marker(path: &Path) -> io::Result<String> {
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
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
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("in")).unwrap();
        assert_eq!(workspace.relative("./a//b/x.go").unwrap(), "a/b/x.go");
        assert_eq!(workspace.relative(workspace.root().join("a/b").to_str().unwrap()).unwrap(), "a/b");
        assert_eq!(workspace.relative("deleted.go").unwrap(), "deleted.go");
        assert_eq!(workspace.existing("in/b/x.go").unwrap(), "in/b/x.go");
        std::os::unix::fs::symlink("/nowhere", dir.path().join("dangling")).unwrap();
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
        std::os::unix::fs::symlink(&there, &here).unwrap();
        assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
        // The same directory, and a link on the way to it.
        let (above, aside) = (dir.path().join("a"), dir.path().join("aside"));
        let opened = Workspace::open(&above.join("b")).unwrap();
        fs::rename(&above, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &above).unwrap();
        assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
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
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("a/go.mod")).unwrap();
        assert!(read_marker(&dir.path().join("a/go.mod")).is_err());
    }

    #[test]
    fn a_workspace_is_an_absolute_directory() {
        let (dir, _) = workspace();
        assert!(matches!(Workspace::open(Path::new("x")), Err(WorkspaceError::NotAbsolute)));
        assert!(matches!(Workspace::open(&dir.path().join("none")), Err(WorkspaceError::NotFound(_))));
        assert!(matches!(Workspace::open(&dir.path().join("go.mod")), Err(WorkspaceError::NotADirectory)));
    }
}
