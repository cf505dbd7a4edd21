//! Snapshots of a workspace's files: what a run saw, and what is there now.

use super::lookup::{open_regular, open_without_links};
use super::{Workspace, WorkspaceScan};
use crate::clock::Clock;
use crate::hash_prefix::hash_prefix;
use proctor_core::bounds::{SELECTION_SOURCE_BYTES_MAX, SNAPSHOT_READ_BYTES_MAX, TEXT_BYTES_MAX};
use proctor_core::selection::{ContentHash, Ecosystem, FileText, Snapshot, SnapshotFile};
use proctor_core::timestamp::Timestamp;
use rustix::fs::{OFlags, readlinkat};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// Longest file whose content is read, in bytes, unless it is a source. A longer one is compared by its metadata.
const CONTENT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How much the kernel's file times may lag behind its clock, in milliseconds: a tick of the slowest configuration.
pub const FILE_TIME_LAG_MS: u64 = 10;

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

impl Workspace {
    /// The files of `scan` with their texts. What did not change since `earlier` is not read again. A file that may have been
    /// written after `settled_before` is unsettled, unless it was written with the text that it had. Follows no links. Takes
    /// microseconds per file, and a second per GiB of what is read, so not for a tokio thread.
    #[must_use]
    pub fn snapshot(
        &self,
        scan: &WorkspaceScan,
        earlier: Option<&Snapshot>,
        settled_before: Option<Timestamp>,
    ) -> Snapshot {
        let mut reader = SnapshotReader {
            workspace: self,
            earlier,
            settled_before: settled_before.map(|at| Timestamp(at.0.saturating_sub(FILE_TIME_LAG_MS))),
            now: Clock::wall_time(),
            bytes_left: SNAPSHOT_READ_BYTES_MAX,
            snapshot: Snapshot::with_others(scan.unnamed),
        };
        if scan.tree.is_truncated() {
            reader
                .snapshot
                .set_incomplete("the workspace is too large to be scanned, or a part of it could not be read");
        }
        for path in scan.tree.files() {
            if reader.snapshot.is_full() {
                break;
            }
            if reader.add(path).is_err() {
                // As root, a file that cannot be read is one that the host failed to read.
                reader.snapshot.set_incomplete("a file could not be read");
            }
        }
        reader.snapshot
    }

    /// The text of one file now, as a snapshot has it.
    #[must_use]
    pub fn text_now(&self, path: &str) -> Option<FileText> {
        let mut bytes_left = SNAPSHOT_READ_BYTES_MAX;
        text_of(path, open_regular(self.dir(), path).ok()??, &mut bytes_left).ok()
    }

    /// The text of a source in any language, of at most [`TEXT_BYTES_MAX`], by line and as it is.
    #[must_use]
    pub fn source_text(&self, path: &str) -> Option<(FileText, String)> {
        let mut content = Vec::new();
        let file = open_regular(self.dir(), path).ok()??;
        file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut content).ok()?;
        let text = text_of_source(path, &content);
        (content.len() <= TEXT_BYTES_MAX).then_some((text, String::from_utf8(content).ok()?))
    }

    /// The text of the sources in `snapshot` by which a selection finds imports; `None` if they are too large together.
    #[must_use]
    pub fn sources(&self, snapshot: &Snapshot, ecosystem: Ecosystem) -> Option<BTreeMap<String, String>> {
        let (mut sources, mut bytes) = (BTreeMap::new(), 0);
        for path in snapshot.paths().filter(|path| ecosystem.is_read(path)) {
            let Some(text) = self.text_of(path, TEXT_BYTES_MAX as u64) else { continue };
            // Runners of JavaScript say what is loaded; bundles and archives of packages are large.
            if text.len() >= TEXT_BYTES_MAX && ecosystem == Ecosystem::JavaScript {
                continue;
            }
            bytes += text.len();
            if bytes > SELECTION_SOURCE_BYTES_MAX || text.len() >= TEXT_BYTES_MAX {
                return None;
            }
            sources.insert(path.to_owned(), text);
        }
        Some(sources)
    }
}

struct SnapshotReader<'a> {
    workspace: &'a Workspace,
    earlier: Option<&'a Snapshot>,
    settled_before: Option<Timestamp>,
    now: Timestamp,
    bytes_left: u64,
    snapshot: Snapshot,
}

impl SnapshotReader<'_> {
    fn add(&mut self, path: &str) -> io::Result<()> {
        let dir = self.workspace.dir();
        let file = match open_without_links(dir, path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(file) => file,
            // Removed since the scan.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let found = File::from(file.try_clone()?).metadata()?;
        let changed_ms = changed_at(&found).0;
        let is_old = self.settled_before.is_none_or(|at| changed_ms <= at.0);
        // A file that was written just now may be written again without another time.
        let is_racy = self.now.0.saturating_sub(changed_ms) <= 2 * FILE_TIME_LAG_MS;
        let metadata = if is_racy { 0 } else { metadata_hash(&found) };
        let before = self.earlier.and_then(|earlier| earlier.file(path));
        if found.is_symlink() {
            let target = readlinkat(&file, "", Vec::new())?.into_bytes();
            self.snapshot.add_link(path, &String::from_utf8_lossy(&target));
            let text = FileText::whole(link_hash(&target));
            let is_settled = is_old || before.is_some_and(|before| before.text == text);
            self.snapshot.add(path, SnapshotFile { metadata, text, is_settled });
            return Ok(());
        }
        let text = match before {
            Some(before) if metadata != 0 && before.metadata == metadata => before.text.clone(),
            _ if !found.is_file() => FileText::whole(hash_of(b"special", &found.mode().to_le_bytes())),
            _ => match open_regular(dir, path)? {
                Some(file) => text_of(path, file, &mut self.bytes_left)?,
                None => return Ok(()),
            },
        };
        let is_settled = is_old || before.is_some_and(|before| before.text == text);
        self.snapshot.add(path, SnapshotFile { metadata, text, is_settled });
        Ok(())
    }
}

fn text_of(path: &str, file: File, bytes_left: &mut u64) -> io::Result<FileText> {
    let found = file.metadata()?;
    let is_source = Ecosystem::of_source(path).is_some();
    if found.len() > CONTENT_BYTES_MAX || found.len() > *bytes_left {
        return Ok(FileText::whole(hash_of(b"large", &metadata_hash(&found).to_le_bytes())));
    }
    *bytes_left -= found.len();
    let mut file = file.take(CONTENT_BYTES_MAX);
    if is_source {
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        return Ok(text_of_source(path, &content));
    }
    let (mut hasher, mut chunk) = (blake3::Hasher::new(), vec![0; CHUNK_BYTES]);
    // A script that may be executed now is another script.
    hasher.update(&[u8::from(found.mode() & 0o111 != 0)]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(FileText::whole(shortened(&hasher))),
            read => _ = hasher.update(&chunk[..read]),
        }
    }
}

/// The text of a source with this content, as a snapshot has it.
pub(super) fn text_of_source(path: &str, content: &[u8]) -> FileText {
    FileText::of_source(path, content, content_hash(content))
}

/// The hash of a link that leads to `target`.
pub(super) fn link_hash(target: &[u8]) -> ContentHash {
    hash_of(b"link", target)
}

fn content_hash(content: &[u8]) -> ContentHash {
    shortened(blake3::Hasher::new().update(content))
}

fn hash_of(kind: &[u8], what: &[u8]) -> ContentHash {
    shortened(blake3::Hasher::new().update(kind).update(b"\0").update(what))
}

fn shortened(hasher: &blake3::Hasher) -> ContentHash {
    ContentHash(hash_prefix(&hasher.finalize()))
}

/// A hash of what changes with a file. Never 0.
pub fn metadata_hash(found: &Metadata) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for number in [found.dev(), found.ino(), found.len(), u64::from(found.mode())] {
        hasher.update(&number.to_le_bytes());
    }
    for time in [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()] {
        hasher.update(&time.to_le_bytes());
    }
    u64::from_le_bytes(hash_prefix(&hasher.finalize())).max(1)
}

// The later of the two times: only the kernel can set the change time.
fn changed_at(found: &Metadata) -> Timestamp {
    let ms = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000);
    let latest = ms(found.mtime(), found.mtime_nsec()).max(ms(found.ctime(), found.ctime_nsec()));
    Timestamp(u64::try_from(latest).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::selection::HowChanged;
    use std::fs;
    use std::path::Path;

    fn snapshot(dir: &Path, earlier: Option<&Snapshot>, settled_before: Option<Timestamp>) -> Snapshot {
        let workspace = Workspace::open(dir).unwrap();
        workspace.snapshot(&workspace.scan().unwrap(), earlier, settled_before)
    }

    fn changes(before: &Snapshot, now: &Snapshot) -> Vec<(String, HowChanged)> {
        before.changes(now).into_iter().map(|change| (change.path, change.how)).collect()
    }

    #[test]
    fn sees_contents_and_not_times() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &[u8]| fs::write(dir.path().join(path), text).unwrap();
        write("a.go", b"package a\n");
        write("data.bin", b"\0\xff\x01");
        std::os::unix::fs::symlink("a.go", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        let before = snapshot(dir.path(), None, None);
        assert_eq!(before.links_outside(), 1);
        write("a.go", b"package a\n");
        assert_eq!(changes(&before, &snapshot(dir.path(), Some(&before), None)), []);
        write("data.bin", b"\0\xff\x02");
        fs::remove_file(dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("data.bin", dir.path().join("link")).unwrap();
        fs::rename(dir.path().join("a.go"), dir.path().join("b.go")).unwrap();
        let now = snapshot(dir.path(), Some(&before), None);
        let expected = [
            ("a.go", HowChanged::Removed),
            ("b.go", HowChanged::Added),
            ("data.bin", HowChanged::Edited),
            ("link", HowChanged::Edited),
        ];
        assert_eq!(changes(&before, &now), expected.map(|(path, how)| (path.to_owned(), how)));
    }

    #[test]
    fn a_file_written_during_the_run_is_unsettled_unless_it_kept_its_text() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.py"), "x = 1\n").unwrap();
        let long_ago = Some(Timestamp(1));
        let first = snapshot(dir.path(), None, long_ago);
        assert_eq!(changes(&first, &first), [("a.py".to_owned(), HowChanged::WrittenDuringRun)]);
        let second = snapshot(dir.path(), Some(&first), long_ago);
        assert_eq!(changes(&second, &second), [], "two runs left it with the same text");
        let later = Timestamp(Clock::wall_time().0 + 1_000);
        assert_eq!(changes(&snapshot(dir.path(), None, Some(later)), &second), []);
    }

    #[test]
    fn a_name_that_is_not_utf8_changes_the_hash_of_the_others() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.py"), "").unwrap();
        let before = snapshot(dir.path(), None, None);
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.bin")), "x").unwrap();
        let now = snapshot(dir.path(), None, None);
        assert_ne!(before.others, now.others);
        assert_eq!(changes(&before, &now), []);
    }
}
