//! Hands back the files of a run's artefact directory. What lies there was made by hostile code: links are not followed,
//! only regular files are read, and everything is bounded. Must not know what the files are for.

use crate::spec::{ARTIFACT_BYTES_MAX, ARTIFACTS_MAX, Artifact};
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

/// The regular files below `artifacts` inside `scratch`, sorted by path within each directory, and how many were left
/// out because of a bound. Call it when the run is dead, so that nothing changes underneath.
pub(crate) fn collect(scratch: BorrowedFd<'_>, artifacts: &str) -> (Vec<Artifact>, u64) {
    let mut collection = Collection { found: Vec::new(), left_out: 0, bytes: 0, entries: 0 };
    if artifacts.is_empty() {
        return (Vec::new(), 0);
    }
    match openat2(scratch, artifacts, OPEN | OFlags::DIRECTORY, Mode::empty(), RESOLVE) {
        Ok(dir) => collection.walk(dir, "", 0),
        Err(error) => tracing::debug!(%error, "a run left no artefact directory"),
    }
    (collection.found, collection.left_out)
}

struct Collection {
    found: Vec<Artifact>,
    left_out: u64,
    bytes: u64,
    entries: usize,
}

impl Collection {
    fn walk(&mut self, dir: OwnedFd, prefix: &str, depth: u32) {
        for (name, kind) in self.list(&dir) {
            let path = format!("{prefix}{name}");
            match kind {
                FileType::Directory if depth < DEPTH_MAX => {
                    if let Ok(below) = openat2(&dir, name, OPEN | OFlags::DIRECTORY, Mode::empty(), RESOLVE) {
                        self.walk(below, &format!("{path}/"), depth + 1);
                    }
                }
                FileType::Directory => self.left_out += 1,
                FileType::RegularFile => match self.read(&dir, &name) {
                    Ok(Some(bytes)) => self.found.push(Artifact { path, bytes }),
                    Ok(None) => self.left_out += 1,
                    Err(error) => tracing::warn!(%error, "an artefact cannot be read"),
                },
                _ => {}
            }
        }
    }

    /// Names and types of the entries of `dir`, sorted. Names that are not UTF-8 count as left out.
    fn list(&mut self, dir: &OwnedFd) -> Vec<(String, FileType)> {
        let mut names = Vec::new();
        let Ok(entries) = Dir::read_from(dir) else { return names };
        for entry in entries.flatten() {
            if entry.file_name() == c"." || entry.file_name() == c".." {
                continue;
            }
            self.entries += 1;
            match entry.file_name().to_str() {
                _ if self.entries > ENTRIES_MAX => {
                    self.left_out += 1;
                    break;
                }
                Ok(name) => names.push((name.to_owned(), entry.file_type())),
                Err(_) => self.left_out += 1,
            }
        }
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        names
    }

    /// The whole file, or `None` when a bound has no room for it or it is mostly holes: these would cost its run nothing and
    /// this process their whole size.
    fn read(&mut self, dir: &OwnedFd, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = openat2(dir, name, OPEN, Mode::empty(), RESOLVE)?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let room = ARTIFACT_BYTES_MAX - self.bytes;
        let len = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        // Blocks are of 512 bytes, whatever the file system's own are.
        let held = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        if self.found.len() >= ARTIFACTS_MAX || len > room || held < len / 2 {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        let read = File::from(file).take(room + 1).read_to_end(&mut bytes)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read > room {
            return Ok(None);
        }
        self.bytes += read;
        Ok(Some(bytes))
    }
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
        collect(dir.as_fd(), "out")
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
