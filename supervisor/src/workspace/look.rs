//! One look at all files of a workspace: their names, what detection reads of them, and a fingerprint of what they look like.
//! Must not know where the workspace is, nor follow a link.

use crate::project_file;
use proctor_core::request::Fingerprint;
use proctor_frameworks::{FRAMEWORKS, FileTree};
use proctor_sandbox::unless_lacking;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most files and directories that a look at a workspace takes in. A larger one is never taken to be unchanged.
const ENTRIES_MAX: usize = 200_000;

/// Deepest directory looked into. Deeper trees are generated.
const DEPTH_MAX: usize = 64;

/// Most bytes of paths that a look keeps: for as many entries as there may be 160 each, which is twice what deep trees of
/// packages have. A long name above many files counts for each of them.
const NAMES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The longest path that the kernel opens, bytes. No runner could name what lies deeper.
const PATH_BYTES_MAX: usize = 4_095;

/// Largest marker file read, in bytes. A `go.mod` of 1 MiB would name 20,000 modules.
const MARKER_BYTES_MAX: u64 = 1024 * 1024;

/// Most bytes of marker files read together. A monorepo of 1,000 modules has a few MiB of them.
const MARKERS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The file by which tools mark a directory as a cache that nobody edits (the Cache Directory Tagging specification;
/// Cargo's `target` and `.pytest_cache` have it).
const CACHE_TAG: &CStr = c"CACHEDIR.TAG";

/// Directories that tools fill and nobody edits: looking into them costs much and says nothing about an edit, and a run
/// that fills them must not look like an edit. A name that a project might choose itself is not here.
const PASSED_OVER: [&str; 8] = [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".gradle", ".kotlin"];

/// All files below `dir`; no fingerprint when there are more than a look takes in. It fails where the host was short of
/// something: what is known by half would be taken for another project.
pub(super) fn all_below(dir: &OwnedFd) -> io::Result<(FileTree, Option<Fingerprint>)> {
    let mut walk =
        Walk { tree: FileTree::default(), hasher: blake3::Hasher::new(), entries: 0, names_bytes: 0, markers_bytes: 0 };
    walk.directory(dir.as_fd(), c".", b"", Way { depth: 0, is_built: false })?;
    let fingerprint = (!walk.tree.is_truncated()).then(|| Fingerprint(*walk.hasher.finalize().as_bytes()));
    Ok((walk.tree, fingerprint))
}

struct Walk {
    tree: FileTree,
    hasher: blake3::Hasher,
    entries: usize,
    names_bytes: usize,
    markers_bytes: u64,
}

/// How the walk came to a directory.
#[derive(Clone, Copy)]
struct Way {
    depth: usize,
    /// Whether through one that a build fills. What is there belongs to the workspace, and its changes are no edits.
    is_built: bool,
}

impl Walk {
    // Symlinks are told by what they are and never followed, so that no link leads the walk out or in a circle.
    fn directory(&mut self, parent: BorrowedFd<'_>, name: &CStr, relative: &[u8], way: Way) -> io::Result<()> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some(dir) = unless_lacking(openat(parent, name, how, Mode::empty()))? else { return Ok(()) };
        let Some(entries) = unless_lacking(Dir::read_from(&dir))? else { return Ok(()) };
        let room = ENTRIES_MAX - self.entries;
        let mut lacking = None;
        let entries = entries.map_while(|entry| {
            unless_lacking(entry).unwrap_or_else(|error| {
                lacking = Some(error);
                None
            })
        });
        let names = entries.map(|entry| entry.file_name().to_owned());
        let names = names.filter(|name| !matches!(name.to_bytes(), b"." | b".."));
        let mut names: Vec<CString> = names.take(room + 1).collect();
        if let Some(error) = lacking {
            return Err(error);
        }
        let below = names.iter().map(|name| relative.len() + 1 + name.count_bytes());
        let (longest, names_bytes) = below.fold((0, self.names_bytes), |(most, sum), len| (most.max(len), sum + len));
        let is_too_long = longest > PATH_BYTES_MAX || names_bytes > NAMES_BYTES_MAX;
        if names.len() > room || way.depth >= DEPTH_MAX || is_too_long {
            self.tree.set_truncated();
            return Ok(());
        }
        if names.iter().any(|name| name.as_c_str() == CACHE_TAG) {
            return Ok(());
        }
        self.entries += names.len();
        self.names_bytes = names_bytes;
        names.sort_unstable();
        for name in &names {
            let Some(found) = unless_lacking(statat(&dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW))? else {
                continue;
            };
            let path =
                if relative.is_empty() { name.to_bytes().to_vec() } else { [relative, b"/", name.to_bytes()].concat() };
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                if let Some(path) = project_file::PATHS.iter().find(|known| known.as_bytes() == path) {
                    // Nobody means a directory by that name: it is there, and cannot be read.
                    self.tree.add(*path);
                }
                if !PASSED_OVER.iter().any(|passed| passed.as_bytes() == name.to_bytes()) {
                    let is_built = way.is_built || is_filled(name, &names);
                    self.directory(dir.as_fd(), name, &path, Way { depth: way.depth + 1, is_built })?;
                }
            } else {
                if !way.is_built {
                    self.hash(&path, &found);
                }
                self.file(dir.as_fd(), &path, name, &found)?;
            }
        }
        Ok(())
    }

    fn hash(&mut self, path: &[u8], found: &Stat) {
        self.hasher.update(path);
        for number in [found.st_ino, bytes_of(found), u64::from(found.st_mode)] {
            self.hasher.update(&number.to_le_bytes());
        }
        for (seconds, nanos) in [(found.st_mtime, found.st_mtime_nsec), (found.st_ctime, found.st_ctime_nsec)] {
            self.hasher.update(&seconds.to_le_bytes());
            self.hasher.update(&nanos.to_le_bytes());
        }
    }

    fn file(&mut self, dir: BorrowedFd<'_>, path: &[u8], name: &CStr, found: &Stat) -> io::Result<()> {
        // An edit is one whatever the file is called; but no request could name this one, so it is in no list.
        let (Ok(relative), Ok(name)) = (str::from_utf8(path), name.to_str()) else { return Ok(()) };
        let size = bytes_of(found);
        let is_marker = project_file::PATHS.contains(&relative)
            || FRAMEWORKS.iter().any(|framework| framework.markers().contains(&name) || framework.reads(relative));
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if is_marker && is_file && size <= MARKER_BYTES_MAX {
            self.markers_bytes += size;
            if self.markers_bytes > MARKERS_BYTES_MAX {
                self.tree.set_truncated();
            } else if let Some(content) = unless_lacking(read_marker(dir, name))? {
                self.tree.add_with_content(relative, content);
                return Ok(());
            }
        }
        self.tree.add(relative);
        Ok(())
    }
}

fn bytes_of(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

/// Whether a directory is filled by the tool whose marker stands beside it, in a sorted listing: Maven and Gradle compile into
/// the workspace, and a run that does so must not look like an edit, or the same request would never join it. That tool
/// empties the directory whole when it is told to clean, so nobody keeps there what they edit. Elsewhere the same name is a
/// directory like any other.
fn is_filled(name: &CStr, beside: &[CString]) -> bool {
    let is_there = |marker: &&str| beside.binary_search_by(|found| found.to_bytes().cmp(marker.as_bytes())).is_ok();
    let is_it = |filled: &&str| filled.as_bytes() == name.to_bytes();
    FRAMEWORKS.iter().any(|framework| framework.fills().iter().any(is_it) && framework.markers().iter().any(is_there))
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
    use crate::workspace::Workspace;
    use rustix::fs::mkdirat;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A directory below `dir` whose path relative to it has so many parts of 250 bytes.
    fn deep_below(dir: &std::path::Path, parts: usize) -> File {
        let name = "d".repeat(250);
        let mut at = File::open(dir).unwrap();
        for _ in 0..parts {
            mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
            at = openat(&at, name.as_str(), OFlags::DIRECTORY, Mode::empty()).unwrap().into();
        }
        at
    }

    #[test]
    fn long_names_above_many_files_cost_no_more_memory_than_usual_ones() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let deep = deep_below(dir.path(), 15);
        for number in 0..NAMES_BYTES_MAX / (15 * 251) {
            openat(&deep, number.to_string(), OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        }
        fs::write(dir.path().join("go.mod"), "module m").unwrap();
        let look = workspace.look().unwrap();
        assert!(look.tree.is_truncated() && look.fingerprint.is_none());
        assert_eq!(look.tree.files().collect::<Vec<_>>(), ["go.mod"]);
    }

    #[test]
    fn what_is_deeper_than_a_path_can_say_is_not_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let deep = deep_below(dir.path(), 16);
        assert!(workspace.look().unwrap().fingerprint.is_some());
        mkdirat(&deep, "d".repeat(80), Mode::RWXU).unwrap();
        assert!(workspace.look().unwrap().fingerprint.is_none());
    }

    #[test]
    fn markers_are_read_within_a_budget_and_never_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        for number in 0..20 {
            let module = dir.path().join(number.to_string());
            fs::create_dir(&module).unwrap();
            File::create(module.join("go.mod")).unwrap().set_len(MARKER_BYTES_MAX).unwrap();
        }
        let look = workspace.look().unwrap();
        assert!(look.tree.is_truncated() && look.fingerprint.is_none());
        fs::create_dir(dir.path().join(project_file::PATHS[0])).unwrap();
        assert!(workspace.look().unwrap().tree.contains(project_file::PATHS[0]), "a directory in its place is seen");
        symlink("/etc/passwd", dir.path().join("a/go.mod")).unwrap();
        let a = File::open(dir.path().join("a")).unwrap();
        assert!(read_marker(a.as_fd(), "go.mod").is_err());
    }
}
