//! A workspace as the edge sees it: where it is, what files it has, whether they changed. Must not know frameworks
//! beyond the names of the files that detection reads, nor who owns the workspace.

use proctor_core::moment::Moment;
use proctor_core::request::Fingerprint;
use proctor_frameworks::{FRAMEWORKS, FileTree};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Most files that a look at a workspace takes in. A larger one is never taken to be unchanged.
const FILES_MAX: usize = 200_000;

/// Deepest directory looked into. Deeper trees are generated.
const DEPTH_MAX: usize = 64;

/// Largest marker file read, in bytes. A `go.mod` of 1 MiB would name 20,000 modules.
const MARKER_BYTES_MAX: u64 = 1024 * 1024;

/// Directories that tools fill and nobody edits: looking into them costs much and says nothing about an edit, and a run
/// that fills them must not look like an edit.
const PASSED_OVER: [&str; 10] = [
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    "target",
    "__pycache__",
    ".pytest_cache",
    ".venv",
    ".gradle",
    ".mypy_cache",
];

/// A directory that was there when it was opened, by its path without symlinks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workspace {
    root: PathBuf,
}

/// A look at a workspace: its files, and what they looked like.
#[derive(Debug, Clone)]
pub struct Look {
    /// Names of files, with the content of those that detection reads.
    pub tree: FileTree,
    /// `None` when there are more files than a look takes in.
    pub fingerprint: Option<Fingerprint>,
}

/// Why a path is refused. No variant tells where on the host anything is.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// Not an absolute path.
    #[error("must be an absolute path")]
    NotAbsolute,
    /// Not there, or not for this process to see.
    #[error("not found")]
    NotFound(#[source] std::io::Error),
    /// There, and something else.
    #[error("not a directory")]
    NotADirectory,
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
    /// Opens the directory at `path`, with all symlinks resolved.
    pub fn open(path: &Path) -> Result<Workspace, WorkspaceError> {
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute);
        }
        let root = path.canonicalize().map_err(WorkspaceError::NotFound)?;
        if !root.is_dir() {
            return Err(WorkspaceError::NotADirectory);
        }
        Ok(Workspace { root })
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
        if self.root.join(path).canonicalize().is_ok_and(|real| !real.starts_with(&self.root)) {
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

    /// Looks at all files. Takes milliseconds for thousands of files: not for a tokio thread.
    #[must_use]
    pub fn look(&self) -> Look {
        let mut walk = Walk { tree: FileTree::default(), hasher: blake3::Hasher::new(), files: 0 };
        walk.directory(&self.root, "", 0);
        let fingerprint = (!walk.tree.is_truncated()).then(|| Fingerprint(*walk.hasher.finalize().as_bytes()));
        Look { tree: walk.tree, fingerprint }
    }
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
    files: usize,
}

impl Walk {
    // Symlinks are told by what they are and never followed, so that no link leads the walk out or in a circle.
    fn directory(&mut self, path: &Path, relative: &str, depth: usize) {
        let Ok(entries) = fs::read_dir(path) else { return };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        for name in names {
            if self.files >= FILES_MAX || depth >= DEPTH_MAX {
                self.tree.set_truncated();
                return;
            }
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
        self.files += 1;
        self.hasher.update(relative.as_bytes());
        for number in [metadata.ino(), metadata.size(), u64::from(metadata.mode())] {
            self.hasher.update(&number.to_le_bytes());
        }
        for number in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
            self.hasher.update(&number.to_le_bytes());
        }
        let is_marker = FRAMEWORKS.iter().any(|framework| framework.markers().contains(&name));
        let small = is_marker && metadata.is_file() && metadata.size() <= MARKER_BYTES_MAX;
        match small.then(|| fs::read_to_string(path)) {
            Some(Ok(content)) => self.tree.add_with_content(relative, content),
            _ => self.tree.add(relative),
        }
    }
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
        for outside in ["../x", "a/../../x", "/etc/passwd", "out/passwd"] {
            let error = workspace.relative(outside).unwrap_err();
            assert!(matches!(error, WorkspaceError::Outside { .. }), "{outside}: {error}");
        }
        assert!(matches!(workspace.existing("deleted.go"), Err(WorkspaceError::NoSuchFile { .. })));
    }

    #[test]
    fn a_fingerprint_changes_with_every_edit_and_not_with_what_tools_leave() {
        let (dir, workspace) = workspace();
        let before = workspace.look();
        assert_eq!(before.tree.content("go.mod"), Some("module m"));
        assert_eq!(before.fingerprint, workspace.look().fingerprint);
        fs::create_dir(dir.path().join("node_modules")).unwrap();
        fs::write(dir.path().join("node_modules/x.js"), "1").unwrap();
        assert_eq!(before.fingerprint, workspace.look().fingerprint);
        fs::write(dir.path().join("a/b/x.go"), "package c").unwrap();
        assert_ne!(before.fingerprint, workspace.look().fingerprint);
    }

    #[test]
    fn a_workspace_is_an_absolute_directory() {
        let (dir, _) = workspace();
        assert!(matches!(Workspace::open(Path::new("x")), Err(WorkspaceError::NotAbsolute)));
        assert!(matches!(Workspace::open(&dir.path().join("none")), Err(WorkspaceError::NotFound(_))));
        assert!(matches!(Workspace::open(&dir.path().join("go.mod")), Err(WorkspaceError::NotADirectory)));
    }
}
