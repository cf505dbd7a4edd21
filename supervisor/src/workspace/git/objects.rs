//! Objects of a repository: loose ones and those in packs.

use super::pack::Pack;
use super::{GitError, OBJECT_BYTES_MAX, WorkBudget, read_file};
use crate::workspace::lookup::open_without_links;
use flate2::read::ZlibDecoder;
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::io::Read;
use std::os::fd::OwnedFd;

/// Bytes of an object's name.
pub(super) const ID_BYTES: usize = 20;

/// Most packs. `git gc` keeps fewer than 50.
const PACKS_MAX: usize = 256;

/// Most names in one directory of loose objects; `git gc` packs them from about 7,000 in all 256 directories.
const LOOSE_MAX: usize = 100_000;

/// Deltas between an object and what it is based on; git makes chains of at most 4,095.
const DELTAS_MAX: usize = 4_096;

/// The SHA-1 of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::workspace) struct ObjectId(pub(in crate::workspace) [u8; ID_BYTES]);

impl ObjectId {
    /// The name of 40 hexadecimal digits.
    pub(super) fn from_hex(text: &str) -> Option<ObjectId> {
        let digits = text.as_bytes();
        let digit = |at: usize| char::from(digits[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut id = [0; ID_BYTES];
        if digits.len() != 2 * ID_BYTES {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = digit(2 * at)? << 4 | digit(2 * at + 1)?;
        }
        Some(ObjectId(id))
    }

    pub(super) fn from_slice(bytes: &[u8]) -> Option<ObjectId> {
        bytes.try_into().ok().map(ObjectId)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// An object with its content.
pub(super) struct Object {
    pub(super) kind: ObjectKind,
    pub(super) content: Vec<u8>,
}

/// The content of an object in a pack.
pub(super) enum Packed {
    Whole(Object),
    /// Changes to an object in the same pack or anywhere.
    Delta {
        base: DeltaBase,
        delta: Vec<u8>,
    },
}

pub(super) enum DeltaBase {
    Offset(u64),
    Id(ObjectId),
}

/// All objects of a repository.
pub(super) struct Objects {
    pub(super) dir: OwnedFd,
    packs: Vec<Pack>,
    pub(super) budget: WorkBudget,
}

impl Objects {
    /// Opens the packs of the repository in `dir`.
    pub(super) fn open(dir: OwnedFd, budget: WorkBudget) -> Result<Objects, GitError> {
        let mut packs = Vec::new();
        for name in names(&dir, "objects/pack", 4 * PACKS_MAX)? {
            let Some(stem) = name.strip_suffix(".idx") else { continue };
            if packs.len() == PACKS_MAX {
                return Err(GitError::TooLarge);
            }
            packs.extend(Pack::open(&dir, &format!("objects/pack/{stem}"))?);
        }
        Ok(Objects { dir, packs, budget })
    }

    /// The object `id`.
    pub(super) fn read(&mut self, id: ObjectId) -> Result<Object, GitError> {
        let mut deltas = Vec::new();
        let mut at = DeltaBase::Id(id);
        let mut pack = 0;
        let mut object = loop {
            let offset = match at {
                DeltaBase::Offset(offset) => offset,
                DeltaBase::Id(id) => match self.find_packed(id)? {
                    Some((found, offset)) => {
                        pack = found;
                        offset
                    }
                    None => break self.read_loose(id)?.ok_or(GitError::MissingObject)?,
                },
            };
            match self.packs[pack].read(offset, &mut self.budget)? {
                Packed::Whole(object) => break object,
                Packed::Delta { .. } if deltas.len() == DELTAS_MAX => return Err(unreadable("a chain of deltas")),
                Packed::Delta { base, delta } => {
                    deltas.push(delta);
                    at = base;
                }
            }
        };
        while let Some(delta) = deltas.pop() {
            object.content = apply(&object.content, &delta).ok_or(unreadable("a delta"))?;
            self.budget.take(object.content.len() as u64)?;
        }
        Ok(object)
    }

    fn find_packed(&self, id: ObjectId) -> Result<Option<(usize, u64)>, GitError> {
        for (at, pack) in self.packs.iter().enumerate() {
            if let Some(offset) = pack.find(id)? {
                return Ok(Some((at, offset)));
            }
        }
        Ok(None)
    }

    fn read_loose(&mut self, id: ObjectId) -> Result<Option<Object>, GitError> {
        let name = id.to_string();
        let path = format!("objects/{}/{}", &name[..2], &name[2..]);
        let Some(compressed) = read_file(&self.dir, &path, OBJECT_BYTES_MAX as u64)? else { return Ok(None) };
        let mut content = Vec::new();
        ZlibDecoder::new(compressed.as_slice())
            .take(OBJECT_BYTES_MAX as u64)
            .read_to_end(&mut content)
            .map_err(|_| unreadable("an object"))?;
        self.budget.take(content.len() as u64)?;
        let end = content.iter().position(|byte| *byte == 0).ok_or(unreadable("an object"))?;
        let kind = match content[..end].split(|byte| *byte == b' ').next() {
            Some(b"commit") => ObjectKind::Commit,
            Some(b"tree") => ObjectKind::Tree,
            Some(b"blob") => ObjectKind::Blob,
            Some(b"tag") => ObjectKind::Tag,
            _ => return Err(unreadable("an object")),
        };
        content.drain(..=end);
        Ok(Some(Object { kind, content }))
    }

    /// Objects whose names begin with the hexadecimal digits `prefix`, at most two: a third tells nothing more.
    pub(super) fn beginning_with(&self, prefix: &str) -> Result<Vec<ObjectId>, GitError> {
        let mut found = Vec::new();
        for pack in &self.packs {
            found.extend(pack.beginning_with(prefix)?);
        }
        let (dir, rest) = prefix.split_at(2);
        for name in names(&self.dir, &format!("objects/{dir}"), LOOSE_MAX)? {
            let id = name.starts_with(rest).then(|| ObjectId::from_hex(&format!("{dir}{name}"))).flatten();
            found.extend(id);
        }
        found.sort_unstable();
        found.dedup();
        found.truncate(2);
        Ok(found)
    }
}

/// The names in the directory `path` of the repository, sorted; none if it is missing.
pub(super) fn names(dir: &OwnedFd, path: &str, most: usize) -> Result<Vec<String>, GitError> {
    let dir = match open_without_links(dir, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir)? {
        names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        if names.len() > most {
            return Err(GitError::TooLarge);
        }
    }
    names.sort_unstable();
    Ok(names)
}

pub(super) fn unreadable(what: &'static str) -> GitError {
    GitError::Unreadable { what }
}

/// Applies a delta: sizes of base and result, then copies from the base and insertions.
fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    if size(&mut rest)? != base.len() {
        return None;
    }
    let length = size(&mut rest).filter(|length| *length <= OBJECT_BYTES_MAX)?;
    let mut result = Vec::with_capacity(length);
    while let Some((&command, after)) = rest.split_first() {
        rest = after;
        let piece = if command & 0x80 == 0 {
            let (inserted, after) = rest.split_at_checked(usize::from(command)).filter(|_| command > 0)?;
            rest = after;
            inserted
        } else {
            let mut number = |bits: std::ops::Range<u8>| {
                let mut value = 0_usize;
                for (position, bit) in bits.enumerate() {
                    if command & (1 << bit) != 0 {
                        let (&byte, after) = rest.split_first()?;
                        rest = after;
                        value |= usize::from(byte) << (8 * position);
                    }
                }
                Some(value)
            };
            let (offset, copied) = (number(0..4)?, number(4..7)?);
            let copied = if copied == 0 { 0x1_0000 } else { copied };
            base.get(offset..offset.checked_add(copied)?)?
        };
        if result.len() + piece.len() > length {
            return None;
        }
        result.extend_from_slice(piece);
    }
    (result.len() == length).then_some(result)
}

// A number in groups of seven bits, the lowest first.
fn size(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_copies_and_inserts() {
        // Base of 5 bytes, result of 6: copy 3 bytes from 1, insert "xyz".
        assert_eq!(apply(b"abcde", &[5, 6, 0x91, 1, 3, 3, b'x', b'y', b'z']).unwrap(), b"bcdxyz");
        for damaged in
            [&[][..], &[4, 6], &[5, 6, 0x91, 4, 3], &[5, 6, 0], &[5, 2, 3, b'x', b'y', b'z'], &[5, 9, 1, b'x']]
        {
            assert_eq!(apply(b"abcde", damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn an_id_has_forty_digits() {
        let hex = "00ff0123456789abcdef00112233445566778899";
        assert_eq!(ObjectId::from_hex(hex).unwrap().to_string(), hex);
        assert_eq!(ObjectId::from_hex(&hex[1..]), None);
        assert_eq!(ObjectId::from_hex(&hex.replace('f', "g")), None);
        assert_eq!(ObjectId::from_hex(&"é".repeat(20)), None);
    }
}
