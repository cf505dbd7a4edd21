//! The index of a repository: which files git tracks, and as what content it has seen them. Versions 2 and 3; a later one is
//! taken for none, so that every file is read.

use super::GitError;
use super::objects::{ID_BYTES, ObjectId, Objects};
use crate::workspace::lookup::open_regular;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// Most bytes of an index: about a million files.
const INDEX_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Bytes of an entry before its name.
const FIXED_BYTES: usize = 62;

/// A tracked file as git has seen it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) struct IndexEntry {
    /// The content.
    pub(in crate::workspace) id: ObjectId,
    /// Seconds and nanoseconds of the last modification.
    modified: (u32, u32),
    /// The lower 32 bits of the size.
    size: u32,
}

/// The tracked files.
#[derive(Debug, Default)]
pub(in crate::workspace) struct Index {
    entries: HashMap<String, IndexEntry>,
    /// When the index was written, in seconds.
    written_at: i64,
}

impl Index {
    pub(super) fn read(objects: &mut Objects) -> Result<Index, GitError> {
        let Some(file) = open_regular(&objects.dir, "index")? else { return Ok(Index::default()) };
        let written_at = file.metadata()?.mtime();
        let mut content = Vec::new();
        file.take(INDEX_BYTES_MAX).read_to_end(&mut content)?;
        objects.budget.take(content.len() as u64)?;
        Ok(Index { entries: entries(&content).unwrap_or_default(), written_at })
    }

    /// Whether git tracks `path`.
    pub(in crate::workspace) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// The content of the file at `path` if it is as git has seen it: same size and time of modification, and not modified as late as
    /// the index was written, when a further change could have the same time.
    pub(in crate::workspace) fn content(&self, path: &str, found: &std::fs::Metadata) -> Option<ObjectId> {
        let entry = self.entries.get(path)?;
        let low = |number: i64| u32::try_from(number & 0xffff_ffff).ok();
        let is_seen = low(found.mtime()) == Some(entry.modified.0)
            && (low(found.mtime_nsec()) == Some(entry.modified.1) || entry.modified.1 == 0)
            && found.len() & 0xffff_ffff == u64::from(entry.size)
            && found.mtime() < self.written_at;
        is_seen.then_some(entry.id)
    }
}

fn entries(content: &[u8]) -> Option<HashMap<String, IndexEntry>> {
    let number = |at: usize| Some(u32::from_be_bytes(content.get(at..at + 4)?.try_into().ok()?));
    if content.get(..4)? != b"DIRC" || !(2..=3).contains(&number(4)?) {
        return None;
    }
    let mut entries = HashMap::new();
    let mut at = 12;
    for _ in 0..number(8)? {
        let id = ObjectId::from_slice(content.get(at + 40..at + 40 + ID_BYTES)?)?;
        // Version 3 has two further bytes where the second bit of the flags says so.
        let is_extended = content.get(at + 60)? & 0x40 != 0;
        let name_at = at + FIXED_BYTES + if is_extended { 2 } else { 0 };
        let length = content.get(name_at..)?.iter().position(|byte| *byte == 0)?;
        let entry = IndexEntry { id, modified: (number(at + 8)?, number(at + 12)?), size: number(at + 36)? };
        if let Ok(name) = str::from_utf8(&content[name_at..name_at + length]) {
            entries.insert(name.to_owned(), entry);
        }
        // Entries are padded with one to eight zeros to a multiple of eight bytes.
        at += (name_at - at + length) / 8 * 8 + 8;
    }
    Some(entries)
}
