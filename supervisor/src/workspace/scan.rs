//! Scans all files of a workspace: names, contents that detection reads, a fingerprint of the metadata, and what was
//! left out. Follows no links.

use super::ignored_dirs::{is_always_ignored, is_build_output, is_cache, is_data};
use crate::hash_prefix::hash_prefix;
use crate::runs::project_file;
use proctor_core::bounds::{
    MARKER_BYTES_MAX, MARKERS_BYTES_MAX, PATH_BYTES_MAX, REQUIREMENTS_BYTES_MAX, SCAN_BYTES_LARGE, SCAN_BYTES_SMALL,
    SCAN_DEPTH_MAX, SCAN_DROPPED_DATA_MAX, SCAN_ENTRIES_MAX, SCAN_ENTRIES_WITH_DATA_MAX,
};
use proctor_core::request::Fingerprint;
use proctor_frameworks::{FRAMEWORKS, FileTree, FrameworkSet, UnscannedPath, UnscannedReason, checks};
use proctor_sandbox::exhausted_resource;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most bytes of settings read together that only checkers read. They take nothing from those that select tests.
const CHECKER_SETTINGS_BYTES_MAX: u64 = 4 << 20;

/// Memory of an entry besides its name and path: two strings and its share of a tree node.
const ENTRY_BYTES: usize = 112;

/// The result of a scan.
pub(super) struct ScanResult {
    pub(super) tree: FileTree,
    /// `None` if an edit could be overlooked.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Hash over the metadata of files that the tree cannot name.
    pub(super) unnamed: u64,
}

/// Why a scan was aborted.
#[derive(Debug)]
pub(super) enum ScanError {
    /// The host lacked a resource. An incomplete tree could be taken for another project.
    Host(io::Error),
    /// The scan needs more than [`SCAN_BYTES_SMALL`] and got no larger budget.
    OverMemory,
}

/// Scans all files below `dir`. `grow` is called at most once, to get the larger budget.
pub(super) fn scan_dir(dir: &OwnedFd, grow: &mut dyn FnMut() -> bool) -> Result<ScanResult, ScanError> {
    let mut walk = Walk {
        tree: FileTree::default(),
        hasher: blake3::Hasher::new(),
        unnamed: blake3::Hasher::new(),
        entries: 0,
        dropped_data: 0,
        bytes: 0,
        bytes_max: SCAN_BYTES_SMALL,
        grow,
        markers_bytes: 0,
        checker_settings_bytes: 0,
        is_root: rustix::process::geteuid().is_root(),
    };
    walk.directory(dir.as_fd(), c".", b"", DirContext { depth: 0, in_build_output: false })?;
    let Walk { tree, hasher, unnamed, .. } = walk;
    let fingerprint = (!tree.is_truncated()).then(|| Fingerprint(*hasher.finalize().as_bytes()));
    Ok(ScanResult { tree, fingerprint, unnamed: u64::from_le_bytes(hash_prefix(&unnamed.finalize())) })
}

struct Walk<'a> {
    tree: FileTree,
    hasher: blake3::Hasher,
    /// Of files whose names are not UTF-8.
    unnamed: blake3::Hasher,
    entries: usize,
    /// Dropped names of data files.
    dropped_data: usize,
    /// Memory used, and the budget.
    bytes: usize,
    bytes_max: usize,
    grow: &'a mut dyn FnMut() -> bool,
    markers_bytes: u64,
    checker_settings_bytes: u64,
    is_root: bool,
}

/// What a path that is left out may have.
#[derive(Clone, Copy)]
struct LeftOut {
    /// The frameworks that may have tests there.
    frameworks: FrameworkSet,
    /// Whether settings of a checker may be there.
    settings: bool,
}

impl LeftOut {
    const ANYTHING: LeftOut = LeftOut { frameworks: FrameworkSet::ALL, settings: true };
}

/// State that a directory inherits from those above it.
#[derive(Clone, Copy)]
struct DirContext {
    depth: usize,
    /// Whether a build fills this directory or one above it. Its files belong to the workspace, but their changes are
    /// not edits.
    in_build_output: bool,
}

impl Walk<'_> {
    // Symlinks are recorded as such and never followed, so that no link leads out of the workspace or in a circle.
    fn directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        relative: &[u8],
        context: DirContext,
    ) -> Result<(), ScanError> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some(dir) = self.check(openat(parent, name, how, Mode::empty()), relative)? else { return Ok(()) };
        let names = match self.names(&dir, relative)? {
            Ok(names) if names.is_empty() => return Ok(()),
            Ok(_) if context.depth >= SCAN_DEPTH_MAX => Err(UnscannedReason::TooDeep),
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
            Ok(names) => names.iter().try_for_each(|name| self.entry(&dir, name, &names, relative, context)),
            Err(why) => {
                self.leave_out(relative, why, LeftOut::ANYTHING);
                self.project_files(&dir, relative, context)
            }
        }
    }

    /// The sorted names in a directory, or why the scan cannot record them. Memory is counted only for recorded names.
    fn names(&mut self, dir: &OwnedFd, relative: &[u8]) -> Result<Result<Vec<CString>, UnscannedReason>, ScanError> {
        let Some(entries) = self.check(Dir::read_from(dir), relative)? else { return Ok(Ok(Vec::new())) };
        let (mut names, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            let Some(entry) = self.check(entry, relative)? else { break };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let used = self.entries + names.len();
            if used >= SCAN_ENTRIES_WITH_DATA_MAX && entry.file_type() == FileType::RegularFile && is_data(name) {
                self.dropped_data += 1;
                self.tree.set_truncated();
                if self.dropped_data > SCAN_DROPPED_DATA_MAX {
                    return Ok(Err(UnscannedReason::TooMany));
                }
                continue;
            }
            if used >= SCAN_ENTRIES_MAX {
                return Ok(Err(UnscannedReason::TooMany));
            }
            if relative.len() + 1 + name.count_bytes() > PATH_BYTES_MAX {
                return Ok(Err(UnscannedReason::PathTooLong));
            }
            bytes += relative.len() + 2 * name.count_bytes() + ENTRY_BYTES;
            if !self.fits(bytes)? {
                return Ok(Err(UnscannedReason::TooLarge));
            }
            names.push(name.to_owned());
        }
        self.entries += names.len();
        self.bytes += bytes;
        names.sort_unstable();
        Ok(Ok(names))
    }

    /// Whether `bytes` more fit into the budget.
    fn fits(&mut self, bytes: usize) -> Result<bool, ScanError> {
        if self.bytes + bytes > self.bytes_max && self.bytes_max == SCAN_BYTES_SMALL {
            if !(self.grow)() {
                return Err(ScanError::OverMemory);
            }
            self.bytes_max = SCAN_BYTES_LARGE;
        }
        Ok(self.bytes + bytes <= self.bytes_max)
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &CStr,
        siblings: &[CString],
        relative: &[u8],
        context: DirContext,
    ) -> Result<(), ScanError> {
        let path =
            if relative.is_empty() { name.to_bytes().to_vec() } else { [relative, b"/", name.to_bytes()].concat() };
        let Some(found) = self.check(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW), &path)? else { return Ok(()) };
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            if let Some(path) =
                project_file::PATHS.iter().find(|project_file_path| project_file_path.as_bytes() == path)
            {
                // A directory with the project file's name is recorded as a file that cannot be read.
                self.tree.add(*path);
            }
            if is_always_ignored(name) {
                return Ok(());
            }
            let in_build_output = context.in_build_output || is_build_output(name, siblings);
            return self.directory(dir.as_fd(), name, &path, DirContext { depth: context.depth + 1, in_build_output });
        }
        if !context.in_build_output {
            self.hash(&path, &found);
        }
        self.file(dir.as_fd(), &path, name, &found)
    }

    fn hash(&mut self, path: &[u8], found: &Stat) {
        let is_named = str::from_utf8(path).is_ok();
        for hasher in [Some(&mut self.hasher), (!is_named).then_some(&mut self.unnamed)].into_iter().flatten() {
            hasher.update(path);
            for number in [found.st_ino, bytes_of(found), u64::from(found.st_mode)] {
                hasher.update(&number.to_le_bytes());
            }
            for (seconds, nanos) in [(found.st_mtime, found.st_mtime_nsec), (found.st_ctime, found.st_ctime_nsec)] {
                hasher.update(&seconds.to_le_bytes());
                hasher.update(&nanos.to_le_bytes());
            }
        }
    }

    fn file(&mut self, dir: BorrowedFd<'_>, path: &[u8], name: &CStr, found: &Stat) -> Result<(), ScanError> {
        // Every edit counts for the fingerprint, but a request cannot name this file, so it is not in the tree.
        let (Ok(relative), Ok(name)) = (str::from_utf8(path), name.to_str()) else {
            let shown = String::from_utf8_lossy(path);
            let left_out =
                LeftOut { frameworks: FrameworkSet::for_path(&shown), settings: checks::is_settings_path(&shown) };
            if left_out.settings || !left_out.frameworks.is_empty() {
                self.leave_out(not_utf8_in(path), UnscannedReason::NotUtf8, left_out);
            }
            return Ok(());
        };
        let selects_tests = project_file::PATHS.contains(&relative)
            || FRAMEWORKS
                .iter()
                .any(|framework| framework.manifest().markers.contains(&name) || framework.is_marker_path(relative));
        let settings = checks::is_marker_path(relative);
        if (selects_tests || settings) && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
            let frameworks = if selects_tests { FrameworkSet::ALL } else { FrameworkSet::NONE };
            return self.marker(dir, relative, name, bytes_of(found), LeftOut { frameworks, settings });
        }
        self.tree.add(relative);
        Ok(())
    }

    /// Reads a file that selects tests or checkers; `if_left_out` is what is unknown without it.
    fn marker(
        &mut self,
        dir: BorrowedFd<'_>,
        relative: &str,
        name: &str,
        size: u64,
        if_left_out: LeftOut,
    ) -> Result<(), ScanError> {
        self.tree.add(relative);
        let is_list = name.ends_with(".txt") && name != "CMakeLists.txt";
        let bytes_max = if is_list { REQUIREMENTS_BYTES_MAX } else { MARKER_BYTES_MAX };
        let used = size.min(bytes_max);
        let is_whole = is_list || size <= MARKER_BYTES_MAX;
        let memory = usize::try_from(used).unwrap_or(usize::MAX);
        let (sum, sum_max) = if if_left_out.frameworks.is_empty() {
            (&mut self.checker_settings_bytes, CHECKER_SETTINGS_BYTES_MAX)
        } else {
            (&mut self.markers_bytes, MARKERS_BYTES_MAX)
        };
        let is_within_sum = *sum + used <= sum_max;
        if is_whole && is_within_sum {
            *sum += used;
        }
        if !is_whole || !is_within_sum || !self.fits(memory)? {
            self.leave_out(relative.as_bytes(), UnscannedReason::SettingsTooLarge, if_left_out);
        } else if let Some(content) =
            self.check_for(read_marker(dir, name, bytes_max), relative.as_bytes(), if_left_out)?
        {
            self.bytes += memory;
            match String::from_utf8(content) {
                Ok(content) => self.tree.add_with_content(relative, content),
                // The project file sets limits, so its contents are never guessed.
                Err(_) if project_file::PATHS.contains(&relative) => {}
                // The invalid bytes are usually in a comment or a person's name.
                Err(error) => self.tree.add_with_content(relative, String::from_utf8_lossy(error.as_bytes())),
            }
        }
        Ok(())
    }

    /// Records the workspace's project file even in a directory that is left out, because it bounds runs.
    fn project_files(&mut self, dir: &OwnedFd, relative: &[u8], context: DirContext) -> Result<(), ScanError> {
        for path in project_file::PATHS {
            let relative_to_dir = Path::new(path).strip_prefix(OsStr::from_bytes(relative));
            let name = relative_to_dir
                .ok()
                .and_then(|relative_to_dir| CString::new(relative_to_dir.iter().next()?.as_bytes()).ok());
            if let Some(name) = name {
                self.entry(dir, &name, &[], relative, context)?;
            }
        }
        Ok(())
    }

    /// Unwraps the result of a system call. `None` for entries that have vanished or that this user may not read, as
    /// runs then cannot either. As root, unreadable entries are left out of the scan, because runs of other users may
    /// be able to read them.
    fn check<T>(&mut self, found: Result<T, impl Into<io::Error>>, path: &[u8]) -> Result<Option<T>, ScanError> {
        self.check_for(found, path, LeftOut::ANYTHING)
    }

    /// The same for a path of which it is known what is unknown without it.
    fn check_for<T>(
        &mut self,
        found: Result<T, impl Into<io::Error>>,
        path: &[u8],
        if_left_out: LeftOut,
    ) -> Result<Option<T>, ScanError> {
        let error = match found.map_err(Into::into) {
            Ok(found) => return Ok(Some(found)),
            Err(error) => error,
        };
        if exhausted_resource(&error).is_some() {
            return Err(ScanError::Host(error));
        }
        match Errno::from_io_error(&error) {
            // A link in place of a directory, or a vanished entry.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Some(Errno::ACCESS | Errno::PERM) if !self.is_root => {}
            _ => self.leave_out(path, UnscannedReason::Unreadable, if_left_out),
        }
        Ok(None)
    }

    fn leave_out(&mut self, path: &[u8], reason: UnscannedReason, LeftOut { frameworks, settings }: LeftOut) {
        // The fingerprint covers a name that is not UTF-8, and no request could name it. The tree has the names of
        // settings that only checkers read, and the fingerprint their metadata.
        if reason != UnscannedReason::NotUtf8 && !frameworks.is_empty() {
            self.tree.set_truncated();
        }
        let path = String::from_utf8_lossy(path).into_owned();
        self.tree.add_unscanned(UnscannedPath { path, reason, frameworks, settings });
    }
}

/// The path up to and including its first component that is not UTF-8.
fn not_utf8_in(path: &[u8]) -> &[u8] {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).chain([path.len()]);
    let end = ends.into_iter().find(|end| str::from_utf8(&path[..*end]).is_err());
    &path[..end.unwrap_or(path.len())]
}

fn bytes_of(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

// Between `stat` and `open`, a running test may have replaced the file by a link or a FIFO.
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

    /// A directory below `dir` whose relative path has `parts` components of 250 bytes.
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
    fn long_directory_names_stay_within_the_memory_budget() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let deep = deep_below(dir.path(), 15);
        for number in 0..SCAN_BYTES_LARGE / (15 * 251 + ENTRY_BYTES) + 1 {
            openat(&deep, number.to_string(), OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        }
        fs::write(dir.path().join("go.mod"), "module m").unwrap();
        let scan = workspace.scan().unwrap();
        assert!(scan.tree.is_truncated() && scan.fingerprint.is_none());
        assert_eq!(scan.tree.files().collect::<Vec<_>>(), ["go.mod"]);
        assert_eq!(
            scan.tree.unscanned().iter().map(|left_out| left_out.reason).collect::<Vec<_>>(),
            [UnscannedReason::TooLarge]
        );
        // A scan that needs more memory asks once, and stores nothing if refused.
        let mut calls = 0;
        let refused = workspace.scan_within(&mut || {
            calls += 1;
            false
        });
        assert!(refused.unwrap().is_none() && calls == 1);
    }

    #[test]
    fn paths_longer_than_the_limit_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let deep = deep_below(dir.path(), 16);
        assert!(workspace.scan().unwrap().fingerprint.is_some());
        mkdirat(&deep, "d".repeat(80), Mode::RWXU).unwrap();
        assert!(workspace.scan().unwrap().fingerprint.is_none());
    }

    #[test]
    fn settings_that_only_checkers_read_take_nothing_from_tests_and_hide_none() {
        let dir = tempfile::tempdir().unwrap();
        for number in 10..30 {
            let project = dir.path().join(number.to_string());
            fs::create_dir(&project).unwrap();
            File::create(project.join("tsconfig.json")).unwrap().set_len(MARKER_BYTES_MAX).unwrap();
        }
        File::create(dir.path().join("mypy.ini")).unwrap().set_len(MARKER_BYTES_MAX + 1).unwrap();
        fs::create_dir(dir.path().join("z")).unwrap();
        File::create(dir.path().join("z/go.mod")).unwrap().set_len(MARKER_BYTES_MAX).unwrap();
        let scan = Workspace::open(dir.path()).unwrap().scan().unwrap();
        assert!(!scan.tree.is_truncated() && scan.fingerprint.is_some());
        assert!(scan.tree.contains("mypy.ini") && scan.tree.content("mypy.ini").is_none());
        assert!(scan.tree.content("10/tsconfig.json").is_some() && scan.tree.content("29/tsconfig.json").is_none());
        assert!(scan.tree.content("z/go.mod").is_some());
        let left_out = scan.tree.unscanned();
        assert_eq!(left_out.len(), 17, "16 that are past the sum, and one that is too large");
        for path in left_out {
            assert!(path.frameworks.is_empty() && path.settings, "{path:?}");
            assert_eq!(path.reason, UnscannedReason::SettingsTooLarge);
        }
    }

    #[test]
    fn markers_are_read_within_a_budget_and_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        for number in 0..20 {
            let module = dir.path().join(number.to_string());
            fs::create_dir(&module).unwrap();
            File::create(module.join("go.mod")).unwrap().set_len(MARKER_BYTES_MAX).unwrap();
        }
        let scan = workspace.scan().unwrap();
        assert!(scan.tree.is_truncated() && scan.fingerprint.is_none());
        fs::create_dir(dir.path().join(project_file::PATHS[0])).unwrap();
        assert!(
            workspace.scan().unwrap().tree.contains(project_file::PATHS[0]),
            "a directory in its place is recorded"
        );
        symlink("/etc/passwd", dir.path().join("a/go.mod")).unwrap();
        let a = File::open(dir.path().join("a")).unwrap();
        assert!(read_marker(a.as_fd(), "go.mod", MARKER_BYTES_MAX).is_err());
    }
}
