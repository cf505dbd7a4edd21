//! One look at all files of a workspace: their names, what detection reads of them, a fingerprint of what they look like, and
//! what was left out. Must not know where the workspace is, nor follow a link.

use super::ignored_dirs::{is_by_name, is_cache, is_data, is_filled};
use crate::runs::project_file;
use proctor_core::bounds::PATH_BYTES_MAX;
use proctor_core::request::Fingerprint;
use proctor_frameworks::{Concerns, FRAMEWORKS, FileTree, LeftOut, Why};
use proctor_sandbox::lack;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most files and directories that a look at a workspace takes in. What is beyond them is left out.
const ENTRIES_MAX: usize = 200_000;

/// From so many on, names of data are passed over, so that masses of it leave room for what may be tests.
const ENTRIES_WITH_DATA: usize = 100_000;

/// Most names of data that are passed over: reading as many takes a second.
const DATA_MAX: usize = 2_000_000;

/// Deepest directory looked into. Deeper trees are generated.
const DEPTH_MAX: usize = 64;

/// Memory that any look may take, in bytes: of the names and settings of some 5,000 files. As many looks as there are places
/// for ([`crate::runs::context::ScanPermits`]) may have as much at once.
pub const BYTES_SMALL: usize = 1024 * 1024;

/// Memory that a look may take that has asked for more, in bytes: for as many entries as there may be 160 bytes of path each,
/// which is twice what deep trees of packages have. A long name above many files counts for each of them.
pub const BYTES_LARGE: usize = 64 * 1024 * 1024;

/// What an entry takes beside its name and its path: two strings, and its part of a node of the tree.
const ENTRY_BYTES: usize = 112;

/// Largest marker file read, in bytes. A `go.mod` of 1 MiB would name 20,000 modules.
const MARKER_BYTES_MAX: u64 = 1024 * 1024;

/// The same for lists of requirements (`test.txt`), which data is called like, too: of a larger one the beginning will do.
const LIST_BYTES_MAX: u64 = 64 * 1024;

/// Most bytes of marker files read together. A monorepo of 1,000 modules has a few MiB of them.
const MARKERS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What a look came to.
pub(super) struct Found {
    pub(super) tree: FileTree,
    /// `None` where an edit could go unseen.
    pub(super) fingerprint: Option<Fingerprint>,
}

/// Why a look came to no end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The host was short of something: what is known by half would be taken for another project.
    Host(io::Error),
    /// It takes more than [`BYTES_SMALL`], and there is no more.
    NoRoom,
}

/// All files below `dir`. `grow` is asked once for more than [`BYTES_SMALL`].
pub(super) fn all_below(dir: &OwnedFd, grow: &mut dyn FnMut() -> bool) -> Result<Found, Stopped> {
    let mut walk = Walk {
        tree: FileTree::default(),
        hasher: blake3::Hasher::new(),
        entries: 0,
        data: 0,
        bytes: 0,
        bytes_max: BYTES_SMALL,
        grow,
        markers_bytes: 0,
        is_root: rustix::process::geteuid().is_root(),
    };
    walk.directory(dir.as_fd(), c".", b"", Way { depth: 0, is_built: false })?;
    let Walk { tree, hasher, .. } = walk;
    let fingerprint = (!tree.is_truncated()).then(|| Fingerprint(*hasher.finalize().as_bytes()));
    Ok(Found { tree, fingerprint })
}

struct Walk<'a> {
    tree: FileTree,
    hasher: blake3::Hasher,
    entries: usize,
    /// Names of data that were passed over.
    data: usize,
    /// Memory taken, and how much may be.
    bytes: usize,
    bytes_max: usize,
    grow: &'a mut dyn FnMut() -> bool,
    markers_bytes: u64,
    is_root: bool,
}

/// How the walk came to a directory.
#[derive(Clone, Copy)]
struct Way {
    depth: usize,
    /// Whether through one that a build fills. What is there belongs to the workspace, and its changes are no edits.
    is_built: bool,
}

impl Walk<'_> {
    // Symlinks are told by what they are and never followed, so that no link leads the walk out or in a circle.
    fn directory(&mut self, parent: BorrowedFd<'_>, name: &CStr, relative: &[u8], way: Way) -> Result<(), Stopped> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some(dir) = self.seen(openat(parent, name, how, Mode::empty()), relative)? else { return Ok(()) };
        let names = match self.names(&dir, relative)? {
            Ok(names) if names.is_empty() => return Ok(()),
            Ok(_) if way.depth >= DEPTH_MAX => Err(Why::TooDeep),
            names => names,
        };
        let has = |entry: &CStr| match &names {
            Ok(names) => names.binary_search_by(|found| found.as_c_str().cmp(entry)).is_ok(),
            Err(_) => statat(&dir, entry, AtFlags::SYMLINK_NOFOLLOW).is_ok(),
        };
        if is_cache(dir.as_fd(), name, has) {
            return Ok(());
        }
        match names {
            Ok(names) => names.iter().try_for_each(|name| self.entry(&dir, name, &names, relative, way)),
            Err(why) => {
                self.leave_out(relative, why, Concerns::ALL);
                self.project_files(&dir, relative, way)
            }
        }
    }

    /// The names in a directory, sorted, or why there are more than this look takes in. What they take is counted where they
    /// are taken in.
    fn names(&mut self, dir: &OwnedFd, relative: &[u8]) -> Result<Result<Vec<CString>, Why>, Stopped> {
        let Some(entries) = self.seen(Dir::read_from(dir), relative)? else { return Ok(Ok(Vec::new())) };
        let (mut names, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            let Some(entry) = self.seen(entry, relative)? else { break };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let taken = self.entries + names.len();
            if taken >= ENTRIES_WITH_DATA && entry.file_type() == FileType::RegularFile && is_data(name) {
                self.data += 1;
                self.tree.set_truncated();
                if self.data > DATA_MAX {
                    return Ok(Err(Why::TooMany));
                }
                continue;
            }
            if taken >= ENTRIES_MAX {
                return Ok(Err(Why::TooMany));
            }
            if relative.len() + 1 + name.count_bytes() > PATH_BYTES_MAX {
                return Ok(Err(Why::PathTooLong));
            }
            bytes += relative.len() + 2 * name.count_bytes() + ENTRY_BYTES;
            if !self.has_room(bytes)? {
                return Ok(Err(Why::TooLarge));
            }
            names.push(name.to_owned());
        }
        self.entries += names.len();
        self.bytes += bytes;
        names.sort_unstable();
        Ok(Ok(names))
    }

    /// Whether so many more bytes may be taken.
    fn has_room(&mut self, bytes: usize) -> Result<bool, Stopped> {
        if self.bytes + bytes > self.bytes_max && self.bytes_max == BYTES_SMALL {
            if !(self.grow)() {
                return Err(Stopped::NoRoom);
            }
            self.bytes_max = BYTES_LARGE;
        }
        Ok(self.bytes + bytes <= self.bytes_max)
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &CStr,
        beside: &[CString],
        relative: &[u8],
        way: Way,
    ) -> Result<(), Stopped> {
        let path =
            if relative.is_empty() { name.to_bytes().to_vec() } else { [relative, b"/", name.to_bytes()].concat() };
        let Some(found) = self.seen(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW), &path)? else { return Ok(()) };
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            if let Some(path) = project_file::PATHS.iter().find(|known| known.as_bytes() == path) {
                // Nobody means a directory by that name: it is there, and cannot be read.
                self.tree.add(*path);
            }
            if is_by_name(name) {
                return Ok(());
            }
            let is_built = way.is_built || is_filled(name, beside);
            return self.directory(dir.as_fd(), name, &path, Way { depth: way.depth + 1, is_built });
        }
        if !way.is_built {
            self.hash(&path, &found);
        }
        self.file(dir.as_fd(), &path, name, &found)
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

    fn file(&mut self, dir: BorrowedFd<'_>, path: &[u8], name: &CStr, found: &Stat) -> Result<(), Stopped> {
        // An edit is one whatever the file is called; but no request could name this one, so it is in no list.
        let (Ok(relative), Ok(name)) = (str::from_utf8(path), name.to_str()) else {
            let concerns = Concerns::of(&String::from_utf8_lossy(path));
            if !concerns.is_empty() {
                self.leave_out(not_utf8_in(path), Why::NotUtf8, concerns);
            }
            return Ok(());
        };
        let is_marker = project_file::PATHS.contains(&relative)
            || FRAMEWORKS.iter().any(|framework| framework.markers().contains(&name) || framework.reads(relative));
        if is_marker && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
            return self.marker(dir, relative, name, bytes_of(found));
        }
        self.tree.add(relative);
        Ok(())
    }

    fn marker(&mut self, dir: BorrowedFd<'_>, relative: &str, name: &str, size: u64) -> Result<(), Stopped> {
        self.tree.add(relative);
        let is_list = name.ends_with(".txt") && name != "CMakeLists.txt";
        let bytes_max = if is_list { LIST_BYTES_MAX } else { MARKER_BYTES_MAX };
        let taken = size.min(bytes_max);
        let is_whole = is_list || size <= MARKER_BYTES_MAX;
        let memory = usize::try_from(taken).unwrap_or(usize::MAX);
        if !is_whole || self.markers_bytes + taken > MARKERS_BYTES_MAX || !self.has_room(memory)? {
            self.leave_out(relative.as_bytes(), Why::SettingsTooLarge, Concerns::ALL);
        } else if let Some(content) = self.seen(read_marker(dir, name, bytes_max), relative.as_bytes())? {
            self.markers_bytes += taken;
            self.bytes += memory;
            match String::from_utf8(content) {
                Ok(content) => self.tree.add_with_content(relative, content),
                // Nobody guesses at what bounds a run.
                Err(_) if project_file::PATHS.contains(&relative) => {}
                // It is in a comment, or in somebody's name.
                Err(error) => self.tree.add_with_content(relative, String::from_utf8_lossy(error.as_bytes())),
            }
        }
        Ok(())
    }

    /// Of a directory that is left out, the project file of the workspace: it bounds what runs may have.
    fn project_files(&mut self, dir: &OwnedFd, relative: &[u8], way: Way) -> Result<(), Stopped> {
        for path in project_file::PATHS {
            let below = Path::new(path).strip_prefix(OsStr::from_bytes(relative));
            let name = below.ok().and_then(|below| CString::new(below.iter().next()?.as_bytes()).ok());
            if let Some(name) = name {
                self.entry(dir, &name, &[], relative, way)?;
            }
        }
        Ok(())
    }

    /// What was found. `None` where there is nothing any more, and where nobody of this user's may look, a run no more than this.
    /// What another user's run may see all the same is left out.
    fn seen<T>(&mut self, found: Result<T, impl Into<io::Error>>, path: &[u8]) -> Result<Option<T>, Stopped> {
        let error = match found.map_err(Into::into) {
            Ok(found) => return Ok(Some(found)),
            Err(error) => error,
        };
        if lack(&error).is_some() {
            return Err(Stopped::Host(error));
        }
        match Errno::from_io_error(&error) {
            // A link in the place of a directory, or nothing.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Some(Errno::ACCESS | Errno::PERM) if !self.is_root => {}
            _ => self.leave_out(path, Why::Unreadable, Concerns::ALL),
        }
        Ok(None)
    }

    fn leave_out(&mut self, path: &[u8], why: Why, concerns: Concerns) {
        // Of a name that is no text an edit is seen, and no request could name what is not in the tree.
        if why != Why::NotUtf8 {
            self.tree.set_truncated();
        }
        let path = String::from_utf8_lossy(path).into_owned();
        self.tree.leave_out(LeftOut { path, why, concerns });
    }
}

/// A path up to its first name that is no UTF-8.
fn not_utf8_in(path: &[u8]) -> &[u8] {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).chain([path.len()]);
    let end = ends.into_iter().find(|end| str::from_utf8(&path[..*end]).is_err());
    &path[..end.unwrap_or(path.len())]
}

fn bytes_of(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

// Between the look and the open a running test may have put a link or a FIFO in the file's place.
fn read_marker(dir: BorrowedFd<'_>, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, how, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(Errno::NOENT.into());
    }
    let mut content = Vec::new();
    file.take(bytes_max).read_to_end(&mut content)?;
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
    fn deep_below(dir: &Path, parts: usize) -> File {
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
        for number in 0..BYTES_LARGE / (15 * 251 + ENTRY_BYTES) + 1 {
            openat(&deep, number.to_string(), OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        }
        fs::write(dir.path().join("go.mod"), "module m").unwrap();
        let look = workspace.look().unwrap();
        assert!(look.tree.is_truncated() && look.fingerprint.is_none());
        assert_eq!(look.tree.files().collect::<Vec<_>>(), ["go.mod"]);
        assert_eq!(look.tree.left_out().iter().map(|left_out| left_out.why).collect::<Vec<_>>(), [Why::TooLarge]);
        // What takes more than a small look may have is asked for once, and nothing is kept where it is refused.
        let mut asked = 0;
        let refused = workspace.look_within(&mut || {
            asked += 1;
            false
        });
        assert!(refused.unwrap().is_none() && asked == 1);
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
        assert!(read_marker(a.as_fd(), "go.mod", MARKER_BYTES_MAX).is_err());
    }
}
