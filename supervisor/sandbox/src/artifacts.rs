//! Collects the files of a run's artefact directory: returns some in memory, and streams those that the caller stores.
//! The files were made by hostile code: links are not followed, only regular files are read, and everything is bounded.

use crate::spec::{
    ARTIFACT_BYTES_MAX, ARTIFACTS_MAX, Artifact, STREAMED_ARTIFACT_BYTES_MAX, STREAMED_ARTIFACTS_MAX, SandboxEvent,
};
use proctor_core::artifact::ARTIFACTS_DIRECTORY;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Levels of directories below the artefact directory that are read.
const DEPTH_MAX: u32 = 4;

/// Most directory entries that are read: four times the files that are returned, so that a directory full of junk costs
/// a bounded time.
const ENTRIES_MAX: usize = 4 * ARTIFACTS_MAX;

/// Nothing may lead out of the directory: no `..`, no link of any kind, no mount.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// A FIFO must not block the open, and a terminal must not become the controlling one.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Bytes of a streamed file that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Files of a run's artefact directory.
#[derive(Debug, Default)]
pub(crate) struct CollectedFiles {
    /// Regular files except those below [`ARTIFACTS_DIRECTORY`], sorted by path within each directory.
    pub(crate) artifacts: Vec<Artifact>,
    /// Files that were left out because of a bound.
    pub(crate) artifacts_left_out: u64,
    /// Files below [`ARTIFACTS_DIRECTORY`] that were not streamed.
    pub(crate) streamed_artifacts_left_out: u64,
}

/// Collects the files below `artifacts` inside `scratch`. Call it when the run is dead, so that nothing changes
/// meanwhile.
pub(crate) fn collect(
    scratch: BorrowedFd<'_>,
    artifacts: &str,
    sink: &mut dyn FnMut(SandboxEvent<'_>),
) -> CollectedFiles {
    let mut collector = Collector {
        artifacts: Vec::new(),
        left_out: 0,
        bytes: 0,
        entries: 0,
        streamed: 0,
        streamed_bytes: 0,
        streamed_artifacts_left_out: 0,
        sink,
    };
    if artifacts.is_empty() {
        return CollectedFiles::default();
    }
    match openat2(scratch, artifacts, OPEN | OFlags::DIRECTORY, Mode::empty(), RESOLVE) {
        Ok(dir) => collector.walk(dir, "", 0),
        Err(error) => tracing::debug!(%error, "a run left no artefact directory"),
    }
    let Collector { artifacts, left_out: artifacts_left_out, streamed_artifacts_left_out, .. } = collector;
    CollectedFiles { artifacts, artifacts_left_out, streamed_artifacts_left_out }
}

/// Reads a file of at most `bytes_max` bytes inside `scratch`; `None` if there is none, or it is not as [`collect`] takes it.
pub(crate) fn read_below(scratch: BorrowedFd<'_>, path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let (file, _) = open(scratch, path, bytes_max).ok()??;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= bytes_max).then_some(bytes)
}

/// Path relative to [`ARTIFACTS_DIRECTORY`]; `None` for a path that is not below it.
fn streamed_path(path: &str) -> Option<&str> {
    path.strip_prefix(ARTIFACTS_DIRECTORY)?.strip_prefix('/')
}

struct Collector<'a> {
    artifacts: Vec<Artifact>,
    left_out: u64,
    bytes: u64,
    entries: usize,
    streamed: u64,
    streamed_bytes: u64,
    streamed_artifacts_left_out: u64,
    sink: &'a mut dyn FnMut(SandboxEvent<'_>),
}

impl Collector<'_> {
    /// Counts a file or directory that is left out.
    fn leave_out(&mut self, path: &str) {
        *(if streamed_path(path).is_some() { &mut self.streamed_artifacts_left_out } else { &mut self.left_out }) += 1;
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
                FileType::RegularFile if streamed_path(&path).is_some() => match self.stream(&dir, &name, &path) {
                    Ok(true) => {}
                    Ok(false) => self.leave_out(&path),
                    Err(error) => tracing::warn!(%error, "a streamed artefact cannot be read"),
                },
                FileType::RegularFile => match self.read(&dir, &name) {
                    Ok(Some(bytes)) => self.artifacts.push(Artifact { path, bytes }),
                    Ok(None) => self.leave_out(&path),
                    Err(error) => tracing::warn!(%error, "an artefact cannot be read"),
                },
                _ => {}
            }
        }
    }

    /// Names and types of the entries of `dir`, sorted by name. Names that are not UTF-8 count as left out.
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

    /// Streams the whole file in chunks. Returns `false` if it exceeds a bound, is mostly holes, or has a name with
    /// control characters, which could deceive a reader.
    fn stream(&mut self, dir: &OwnedFd, name: &str, path: &str) -> io::Result<bool> {
        let path = streamed_path(path).unwrap_or(path);
        let Some((mut file, len)) = open(dir, name, STREAMED_ARTIFACT_BYTES_MAX - self.streamed_bytes)? else {
            return Ok(false);
        };
        if self.streamed >= STREAMED_ARTIFACTS_MAX || path.chars().any(char::is_control) {
            return Ok(false);
        }
        self.streamed += 1;
        self.streamed_bytes += len;
        let (mut is_first, mut left, mut chunk) = (true, len, vec![0; CHUNK_BYTES]);
        while is_first || left > 0 {
            let wanted = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let read = file.read(&mut chunk[..wanted])?;
            (self.sink)(SandboxEvent::ArtifactChunk { path, is_first, bytes: &chunk[..read] });
            is_first = false;
            left = if read == 0 { 0 } else { left - read as u64 };
        }
        Ok(true)
    }

    /// Reads the whole file; `None` if it exceeds a bound or is mostly holes.
    fn read(&mut self, dir: &OwnedFd, name: &str) -> io::Result<Option<Vec<u8>>> {
        let bytes_left = ARTIFACT_BYTES_MAX - self.bytes;
        let Some((file, len)) = open(dir, name, bytes_left)? else { return Ok(None) };
        if self.artifacts.len() >= ARTIFACTS_MAX {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        let read = file.take(bytes_left + 1).read_to_end(&mut bytes)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read > bytes_left {
            return Ok(None);
        }
        self.bytes += read;
        Ok(Some(bytes))
    }
}

/// Opens a regular file of at most `bytes_left` bytes and returns its length. A file that is mostly holes would cost
/// its run nothing and this process its whole size.
fn open(dir: impl AsFd, name: &str, bytes_left: u64) -> io::Result<Option<(File, u64)>> {
    let file = openat2(dir, name, OPEN, Mode::empty(), RESOLVE)?;
    let stat = fstat(&file)?;
    let len = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    // Blocks are of 512 bytes, whatever the file system's own block size.
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let fits =
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && len <= bytes_left && allocated >= len / 2;
    Ok(fits.then(|| (File::from(file), len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FallocateFlags, fallocate, mkfifoat};
    use std::fs;
    use std::os::unix::fs::{FileExt, symlink};

    fn collected(build: impl FnOnce(&std::path::Path)) -> (Vec<Artifact>, u64) {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("out")).unwrap();
        build(&scratch.path().join("out"));
        let dir = File::open(scratch.path()).unwrap();
        let files = collect(dir.as_fd(), "out", &mut |event| panic!("{event:?}"));
        (files.artifacts, files.artifacts_left_out)
    }

    /// Streamed files by path and content, and the number of those left out.
    fn streamed_files(build: impl FnOnce(&std::path::Path)) -> (Vec<(String, Vec<u8>)>, u64) {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("out/kept/0")).unwrap();
        build(&scratch.path().join("out/kept/0"));
        let dir = File::open(scratch.path()).unwrap();
        let mut streamed_files: Vec<(String, Vec<u8>)> = Vec::new();
        let files = collect(dir.as_fd(), "out", &mut |event| {
            let SandboxEvent::ArtifactChunk { path, is_first, bytes } = event else { panic!("{event:?}") };
            if is_first {
                streamed_files.push((path.to_owned(), Vec::new()));
            }
            let (last, content) = streamed_files.last_mut().unwrap();
            assert_eq!(last, path);
            content.extend(bytes);
        });
        assert_eq!((files.artifacts.len(), files.artifacts_left_out), (0, 0));
        (streamed_files, files.streamed_artifacts_left_out)
    }

    #[test]
    fn streams_stored_artefacts_instead_of_returning_them() {
        let large = vec![7; 3 * CHUNK_BYTES + 1];
        let (streamed_files, left_out) = streamed_files(|dir| {
            fs::write(dir.join("trace.zip"), &large).unwrap();
            fs::write(dir.join("empty"), "").unwrap();
            fs::write(dir.join("red\x1b[31m"), "x").unwrap();
            symlink("/etc/passwd", dir.join("link")).unwrap();
            mkfifoat(CWD, dir.join("fifo"), Mode::RWXU).unwrap();
        });
        assert_eq!(streamed_files, [("0/empty".to_owned(), Vec::new()), ("0/trace.zip".to_owned(), large)]);
        assert_eq!(left_out, 1);
    }

    #[test]
    fn counts_streamed_artefacts_beyond_the_bound() {
        let (streamed_files, left_out) = streamed_files(|dir| {
            let huge = File::create(dir.join("huge")).unwrap();
            fallocate(&huge, FallocateFlags::empty(), 0, STREAMED_ARTIFACT_BYTES_MAX + 1).unwrap();
            (0..STREAMED_ARTIFACTS_MAX + 2)
                .for_each(|number| fs::write(dir.join(format!("{number:05}")), "x").unwrap());
        });
        assert_eq!((streamed_files.len() as u64, left_out), (STREAMED_ARTIFACTS_MAX, 3));
    }

    fn paths(artifacts: &[Artifact]) -> Vec<&str> {
        artifacts.iter().map(|artifact| artifact.path.as_str()).collect()
    }

    #[test]
    fn returns_regular_files_and_no_links_or_fifos() {
        let (artifacts, left_out) = collected(|out| {
            fs::write(out.join("b.txt"), "bee").unwrap();
            fs::create_dir_all(out.join("a/deep")).unwrap();
            fs::write(out.join("a/deep/c"), "sea").unwrap();
            symlink("/etc/passwd", out.join("link")).unwrap();
            symlink("/etc", out.join("linked-dir")).unwrap();
            mkfifoat(CWD, out.join("fifo"), Mode::RWXU).unwrap();
        });
        assert_eq!(paths(&artifacts), ["a/deep/c", "b.txt"]);
        assert_eq!((artifacts[0].bytes.as_slice(), left_out), (&b"sea"[..], 0));
    }

    #[test]
    fn returns_nothing_if_the_artefact_directory_became_a_link() {
        let (artifacts, left_out) = collected(|out| {
            fs::remove_dir(out).unwrap();
            symlink("/etc", out).unwrap();
        });
        assert_eq!((artifacts.len(), left_out), (0, 0));
    }

    #[test]
    fn counts_files_beyond_the_bound_and_too_deep_ones() {
        let (artifacts, left_out) = collected(|out| {
            for number in 0..ARTIFACTS_MAX + 3 {
                fs::write(out.join(format!("{number:05}")), "").unwrap();
            }
        });
        assert_eq!((artifacts.len(), left_out), (ARTIFACTS_MAX, 3));
        let (artifacts, left_out) = collected(|out| fs::create_dir_all(out.join("1/2/3/4/5")).unwrap());
        assert_eq!((artifacts.len(), left_out), (0, 1));
    }

    #[test]
    fn leaves_out_a_file_that_exceeds_the_bytes_left() {
        let (artifacts, left_out) = collected(|out| {
            let huge = File::create(out.join("huge")).unwrap();
            fallocate(&huge, FallocateFlags::empty(), 0, ARTIFACT_BYTES_MAX + 1).unwrap();
            fs::write(out.join("small"), "x").unwrap();
        });
        assert_eq!((paths(&artifacts), left_out), (vec!["small"], 1));
    }

    #[test]
    fn leaves_out_a_file_of_holes() {
        let (artifacts, left_out) = collected(|out| {
            let holes = File::create(out.join("holes")).unwrap();
            holes.set_len(ARTIFACT_BYTES_MAX / 2).unwrap();
            holes.write_all_at(b"x", 0).unwrap();
            fs::write(out.join("whole"), vec![0; 1 << 20]).unwrap();
        });
        assert_eq!((paths(&artifacts), left_out), (vec!["whole"], 1));
    }
}
