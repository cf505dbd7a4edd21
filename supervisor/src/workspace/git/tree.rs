//! The files of a commit, from its trees.

use super::GitError;
use super::objects::{ID_BYTES, ObjectId, ObjectKind, Objects, unreadable};
use super::revision::field;
use proctor_core::bounds::{PATH_BYTES_MAX, SCAN_DEPTH_MAX};
use std::collections::BTreeMap;

/// Most files of a commit: as many as the largest public repositories have.
const FILES_MAX: usize = 500_000;

/// A file of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) struct TreeEntry {
    /// The content.
    pub(in crate::workspace) id: ObjectId,
    /// Whether it is a regular file, not a link.
    pub(in crate::workspace) is_regular: bool,
}

/// The files of `commit` by their paths. Submodules, and names that are not UTF-8 or too long, are left out.
pub(super) fn files_of_commit(
    objects: &mut Objects,
    commit: ObjectId,
) -> Result<BTreeMap<String, TreeEntry>, GitError> {
    let root = field(&objects.read(commit)?.content, "tree").ok_or(unreadable("a commit"))?;
    let mut files = BTreeMap::new();
    let mut pending = vec![(String::new(), root, 0)];
    while let Some((dir, id, depth)) = pending.pop() {
        let tree = objects.read(id)?;
        if tree.kind != ObjectKind::Tree || depth > SCAN_DEPTH_MAX {
            return Err(unreadable("a tree"));
        }
        let mut rest = tree.content.as_slice();
        while !rest.is_empty() {
            let (mode, name, id) = entry(&mut rest).ok_or(unreadable("a tree"))?;
            let Ok(name) = str::from_utf8(name) else { continue };
            let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
            if path.len() > PATH_BYTES_MAX || name.contains('/') || matches!(name, "" | "." | "..") {
                continue;
            }
            match mode {
                b"40000" | b"040000" => pending.push((path, id, depth + 1)),
                b"160000" => {}
                mode => _ = files.insert(path, TreeEntry { id, is_regular: mode.starts_with(b"100") }),
            }
            if files.len() + pending.len() > FILES_MAX {
                return Err(GitError::TooLarge);
            }
        }
    }
    Ok(files)
}

// Mode, name and object: `100644 name\0` and 20 bytes.
fn entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8], ObjectId)> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let id = ObjectId::from_slice(rest.get(end + 1..end + 1 + ID_BYTES)?)?;
    let (mode, name) = (&rest[..space], rest.get(space + 1..end)?);
    *rest = &rest[end + 1 + ID_BYTES..];
    Some((mode, name, id))
}
