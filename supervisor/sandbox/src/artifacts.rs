//! Hands back the files of a run's artefact directory, and tells those that are for the caller to keep, which are not held
//! in memory. What lies there was made by hostile code: links are not followed, only regular files are read, and everything
//! is bounded. Must not know what the files are for.

use crate::spec::{ARTIFACT_BYTES_MAX, ARTIFACTS_MAX, Artifact, KEPT_BYTES_MAX, KEPT_MAX, SandboxEvent};
use proctor_core::artifact::ARTIFACTS_DIRECTORY;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Levels of directories below the artefact directory that are looked into.
const DEPTH_MAX: u32 = 4;

/// Most directory entries looked at: four times the files that are kept, so that a directory full of rubbish costs a
/// bounded time.
const ENTRIES_MAX: usize = 4 * ARTIFACTS_MAX;

/// Nothing may lead out of the directory: no `..`, no link of any kind, no mount.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// A FIFO must not block the open, a terminal must not become ours.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Bytes of a file that is told which are read at a time.
const PART: usize = 64 * 1024;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The regular files but for those below [`ARTIFACTS_DIRECTORY`], sorted by path within each directory.
    pub(crate) artifacts: Vec<Artifact>,
    /// Those that were left out because of a bound.
    pub(crate) artifacts_left_out: u64,
    /// Those below [`ARTIFACTS_DIRECTORY`] that were not told.
    pub(crate) kept_left_out: u64,
}

/// What is below `artifacts` inside `scratch`. Call it when the run is dead, so that nothing changes underneath.
pub(crate) fn collect(scratch: BorrowedFd<'_>, artifacts: &str, sink: &mut dyn FnMut(SandboxEvent<'_>)) -> Collected {
    let mut collection = Collection {
        found: Vec::new(),
        left_out: 0,
        bytes: 0,
        entries: 0,
        kept: 0,
        kept_bytes: 0,
        kept_left_out: 0,
        sink,
    };
    if artifacts.is_empty() {
        return Collected::default();
    }
    match openat2(scratch, artifacts, OPEN | OFlags::DIRECTORY, Mode::empty(), RESOLVE) {
        Ok(dir) => collection.walk(dir, "", 0),
        Err(error) => tracing::debug!(%error, "a run left no artefact directory"),
    }
    let Collection { found: artifacts, left_out: artifacts_left_out, kept_left_out, .. } = collection;
    Collected { artifacts, artifacts_left_out, kept_left_out }
}

/// The path below [`ARTIFACTS_DIRECTORY`] of a file or directory, if it is there.
fn within_kept(path: &str) -> Option<&str> {
    path.strip_prefix(ARTIFACTS_DIRECTORY)?.strip_prefix('/')
}

struct Collection<'a> {
    found: Vec<Artifact>,
    left_out: u64,
    bytes: u64,
    entries: usize,
    kept: u64,
    kept_bytes: u64,
    kept_left_out: u64,
    sink: &'a mut dyn FnMut(SandboxEvent<'_>),
}

impl Collection<'_> {
    /// Counts a file or directory that nobody is told of.
    fn leave_out(&mut self, path: &str) {
        *(if within_kept(path).is_some() { &mut self.kept_left_out } else { &mut self.left_out }) += 1;
    }

    fn walk(&mut self, dir: OwnedFd, prefix: &str, depth: u32) {
        for (name, kind) in self.list(&dir, prefix) {
            let path = format!("{prefix}{name}");
            match kind {
                FileType::Directory if depth < DEPTH_MAX => {
                    if let Ok(below) = openat2(&dir, name, OPEN | OFlags::DIRECTORY, Mode::empty(), RESOLVE) {
                        self.walk(below, &format!("{path}/"), depth + 1);
                    }
                }
                FileType::Directory => self.leave_out(&path),
                FileType::RegularFile if within_kept(&path).is_some() => match self.tell(&dir, &name, &path) {
                    Ok(true) => {}
                    Ok(false) => self.leave_out(&path),
                    Err(error) => tracing::warn!(%error, "a kept file cannot be read"),
                },
                FileType::RegularFile => match self.read(&dir, &name) {
                    Ok(Some(bytes)) => self.found.push(Artifact { path, bytes }),
                    Ok(None) => self.leave_out(&path),
                    Err(error) => tracing::warn!(%error, "an artefact cannot be read"),
                },
                _ => {}
            }
        }
    }

    /// Names and types of the entries of `dir`, sorted. Names that are not UTF-8 count as left out.
    fn list(&mut self, dir: &OwnedFd, prefix: &str) -> Vec<(String, FileType)> {
        let mut names = Vec::new();
        let Ok(entries) = Dir::read_from(dir) else { return names };
        for entry in entries.flatten() {
            if entry.file_name() == c"." || entry.file_name() == c".." {
                continue;
            }
            self.entries += 1;
            match entry.file_name().to_str() {
                _ if self.entries > ENTRIES_MAX => {
                    self.leave_out(prefix);
                    break;
                }
                Ok(name) => names.push((name.to_owned(), entry.file_type())),
                Err(_) => self.leave_out(prefix),
            }
        }
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        names
    }

    /// Tells the whole file part by part; `false` when a bound has no room for it, it is mostly holes, or its name is one that
    /// could play tricks on whoever reads it.
    fn tell(&mut self, dir: &OwnedFd, name: &str, path: &str) -> io::Result<bool> {
        let path = within_kept(path).unwrap_or(path);
        let Some((mut file, len)) = open(dir, name, KEPT_BYTES_MAX - self.kept_bytes)? else { return Ok(false) };
        if self.kept >= KEPT_MAX || path.chars().any(char::is_control) {
            return Ok(false);
        }
        self.kept += 1;
        self.kept_bytes += len;
        let (mut begins, mut left, mut part) = (true, len, vec![0; PART]);
        while begins || left > 0 {
            let wanted = usize::try_from(left).unwrap_or(PART).min(PART);
            let read = file.read(&mut part[..wanted])?;
            (self.sink)(SandboxEvent::Kept { path, begins, bytes: &part[..read] });
            begins = false;
            left = if read == 0 { 0 } else { left - read as u64 };
        }
        Ok(true)
    }

    /// The whole file, or `None` when a bound has no room for it or it is mostly holes.
    fn read(&mut self, dir: &OwnedFd, name: &str) -> io::Result<Option<Vec<u8>>> {
        let room = ARTIFACT_BYTES_MAX - self.bytes;
        let Some((file, len)) = open(dir, name, room)? else { return Ok(None) };
        if self.found.len() >= ARTIFACTS_MAX {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        let read = file.take(room + 1).read_to_end(&mut bytes)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read > room {
            return Ok(None);
        }
        self.bytes += read;
        Ok(Some(bytes))
    }
}

/// A regular file and its length, if there is room for it. One that is mostly holes would cost its run nothing and this
/// process its whole size.
fn open(dir: &OwnedFd, name: &str, room: u64) -> io::Result<Option<(File, u64)>> {
    let file = openat2(dir, name, OPEN, Mode::empty(), RESOLVE)?;
    let stat = fstat(&file)?;
    let len = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    // Blocks are of 512 bytes, whatever the file system's own are.
    let held = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let is_fit = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && len <= room && held >= len / 2;
    Ok(is_fit.then(|| (File::from(file), len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileExt, symlink};

    fn collected(build: impl FnOnce(&std::path::Path)) -> (Vec<Artifact>, u64) {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("out")).unwrap();
        build(&scratch.path().join("out"));
        let dir = File::open(scratch.path()).unwrap();
        let found = collect(dir.as_fd(), "out", &mut |event| panic!("{event:?}"));
        (found.artifacts, found.artifacts_left_out)
    }

    /// The files that are told, by path and content, and how many are not.
    fn told(build: impl FnOnce(&std::path::Path)) -> (Vec<(String, Vec<u8>)>, u64) {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("out/kept/0")).unwrap();
        build(&scratch.path().join("out/kept/0"));
        let dir = File::open(scratch.path()).unwrap();
        let mut told: Vec<(String, Vec<u8>)> = Vec::new();
        let found = collect(dir.as_fd(), "out", &mut |event| {
            let SandboxEvent::Kept { path, begins, bytes } = event else { panic!("{event:?}") };
            if begins {
                told.push((path.to_owned(), Vec::new()));
            }
            let (last, content) = told.last_mut().unwrap();
            assert_eq!(last, path);
            content.extend(bytes);
        });
        assert_eq!((found.artifacts.len(), found.artifacts_left_out), (0, 0));
        (told, found.kept_left_out)
    }

    #[test]
    fn what_is_kept_is_told_and_not_held() {
        let large = vec![7; 3 * PART + 1];
        let (told, left_out) = told(|dir| {
            fs::write(dir.join("trace.zip"), &large).unwrap();
            fs::write(dir.join("empty"), "").unwrap();
            fs::write(dir.join("red\x1b[31m"), "x").unwrap();
            symlink("/etc/passwd", dir.join("link")).unwrap();
            nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        });
        assert_eq!(told, [("0/empty".to_owned(), Vec::new()), ("0/trace.zip".to_owned(), large)]);
        assert_eq!(left_out, 1);
    }

    #[test]
    fn more_than_is_kept_is_counted() {
        let (told, left_out) = told(|dir| {
            let huge = File::create(dir.join("huge")).unwrap();
            fallocate(&huge, FallocateFlags::empty(), 0, KEPT_BYTES_MAX + 1).unwrap();
            (0..KEPT_MAX + 2).for_each(|number| fs::write(dir.join(format!("{number:05}")), "x").unwrap());
        });
        assert_eq!((told.len() as u64, left_out), (KEPT_MAX, 3));
    }

    fn paths(artifacts: &[Artifact]) -> Vec<&str> {
        artifacts.iter().map(|artifact| artifact.path.as_str()).collect()
    }

    #[test]
    fn regular_files_come_back_and_links_and_fifos_do_not() {
        let (found, left_out) = collected(|out| {
            fs::write(out.join("b.txt"), "bee").unwrap();
            fs::create_dir_all(out.join("a/deep")).unwrap();
            fs::write(out.join("a/deep/c"), "sea").unwrap();
            symlink("/etc/passwd", out.join("link")).unwrap();
            symlink("/etc", out.join("linked-dir")).unwrap();
            nix::unistd::mkfifo(&out.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        });
        assert_eq!(paths(&found), ["a/deep/c", "b.txt"]);
        assert_eq!((found[0].bytes.as_slice(), left_out), (&b"sea"[..], 0));
    }

    #[test]
    fn an_artefact_directory_that_became_a_link_gives_nothing() {
        let (found, left_out) = collected(|out| {
            fs::remove_dir(out).unwrap();
            symlink("/etc", out).unwrap();
        });
        assert_eq!((found.len(), left_out), (0, 0));
    }

    #[test]
    fn more_files_than_the_bound_and_too_deep_ones_are_counted() {
        let (found, left_out) = collected(|out| {
            for number in 0..ARTIFACTS_MAX + 3 {
                fs::write(out.join(format!("{number:05}")), "").unwrap();
            }
        });
        assert_eq!((found.len(), left_out), (ARTIFACTS_MAX, 3));
        let (found, left_out) = collected(|out| fs::create_dir_all(out.join("1/2/3/4/5")).unwrap());
        assert_eq!((found.len(), left_out), (0, 1));
    }

    #[test]
    fn a_file_larger_than_the_room_is_left_out_whole() {
        let (found, left_out) = collected(|out| {
            let huge = File::create(out.join("huge")).unwrap();
            fallocate(&huge, FallocateFlags::empty(), 0, ARTIFACT_BYTES_MAX + 1).unwrap();
            fs::write(out.join("small"), "x").unwrap();
        });
        assert_eq!((paths(&found), left_out), (vec!["small"], 1));
    }

    #[test]
    fn a_file_of_holes_is_left_out() {
        let (found, left_out) = collected(|out| {
            let holes = File::create(out.join("holes")).unwrap();
            holes.set_len(ARTIFACT_BYTES_MAX / 2).unwrap();
            holes.write_all_at(b"x", 0).unwrap();
            fs::write(out.join("whole"), vec![0; 1 << 20]).unwrap();
        });
        assert_eq!((paths(&found), left_out), (vec!["whole"], 1));
    }
}
