//! A pack with its index of version 2, read by position.

use super::objects::{DeltaBase, ID_BYTES, Object, ObjectId, ObjectKind, Packed, unreadable};
use super::{GitError, OBJECT_BYTES_MAX, WorkBudget};
use crate::workspace::lookup::open_regular;
use flate2::read::ZlibDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Where the table of object names begins: behind the signature, the version and 256 counts.
const NAMES_AT: u64 = 8 + 256 * 4;

/// The first bytes of an index of version 2.
const SIGNATURE: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

/// Bytes of the header of an object in a pack at most: its size and the distance or name of its base.
const HEADER_BYTES: usize = 40;

/// A pack and its index.
pub(super) struct Pack {
    index: File,
    pack: File,
    /// Number of objects whose name begins with a byte up to this one.
    counts: [u32; 256],
}

impl Pack {
    /// Opens the pack `stem.pack` with `stem.idx`; `None` if one is missing, as while git repacks.
    pub(super) fn open(dir: &OwnedFd, stem: &str) -> Result<Option<Pack>, GitError> {
        let (Some(index), Some(pack)) =
            (open_regular(dir, format!("{stem}.idx"))?, open_regular(dir, format!("{stem}.pack"))?)
        else {
            return Ok(None);
        };
        let mut header = vec![0; usize::try_from(NAMES_AT).unwrap_or_default()];
        index.read_exact_at(&mut header, 0).map_err(|_| unreadable("the index of a pack"))?;
        if header[..8] != SIGNATURE {
            return Err(unreadable("the version of a pack's index"));
        }
        let mut counts = [0; 256];
        for (count, bytes) in counts.iter_mut().zip(header[8..].chunks_exact(4)) {
            *count = u32::from_be_bytes(bytes.try_into().unwrap_or_default());
        }
        if !counts.is_sorted() {
            return Err(unreadable("the index of a pack"));
        }
        Ok(Some(Pack { index, pack, counts }))
    }

    /// The position of the object `id` in the pack.
    pub(super) fn find(&self, id: ObjectId) -> Result<Option<u64>, GitError> {
        let at = self.first_not_below(id)?;
        if at < self.counts[255] && self.name(at)? == id { self.offset(at).map(Some) } else { Ok(None) }
    }

    /// Up to two objects whose names begin with the hexadecimal digits `prefix`.
    pub(super) fn beginning_with(&self, prefix: &str) -> Result<Vec<ObjectId>, GitError> {
        let Some(least) = ObjectId::from_hex(&format!("{prefix:0<40}")) else { return Ok(Vec::new()) };
        let from = self.first_not_below(least)?;
        let mut found = Vec::new();
        for at in from..self.counts[255].min(from.saturating_add(2)) {
            let name = self.name(at)?;
            found.extend(name.to_string().starts_with(prefix).then_some(name));
        }
        Ok(found)
    }

    // The number of objects whose names are less than `id`.
    fn first_not_below(&self, id: ObjectId) -> Result<u32, GitError> {
        let first = usize::from(id.0[0]);
        let (mut low, mut high) = (if first == 0 { 0 } else { self.counts[first - 1] }, self.counts[first]);
        while low < high {
            let middle = low.midpoint(high);
            if self.name(middle)? < id { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    fn name(&self, at: u32) -> Result<ObjectId, GitError> {
        let mut name = [0; ID_BYTES];
        self.read_index(&mut name, NAMES_AT + u64::from(at) * ID_BYTES as u64)?;
        Ok(ObjectId(name))
    }

    // Behind the names are checksums of 4 bytes, offsets of 4 bytes, and those offsets of 8 bytes to which the former point.
    fn offset(&self, at: u32) -> Result<u64, GitError> {
        let count = u64::from(self.counts[255]);
        let offsets_at = NAMES_AT + count * (ID_BYTES as u64 + 4);
        let mut offset = [0; 4];
        self.read_index(&mut offset, offsets_at + u64::from(at) * 4)?;
        let offset = u32::from_be_bytes(offset);
        if offset & 0x8000_0000 == 0 {
            return Ok(u64::from(offset));
        }
        let mut large = [0; 8];
        self.read_index(&mut large, offsets_at + count * 4 + u64::from(offset & 0x7fff_ffff) * 8)?;
        Ok(u64::from_be_bytes(large))
    }

    fn read_index(&self, into: &mut [u8], at: u64) -> Result<(), GitError> {
        self.index.read_exact_at(into, at).map_err(|_| unreadable("the index of a pack"))
    }

    /// The object at `offset`.
    pub(super) fn read(&self, offset: u64, budget: &mut WorkBudget) -> Result<Packed, GitError> {
        let damaged = || unreadable("an object of a pack");
        let mut header = [0; HEADER_BYTES];
        let length = self.read_at_most(&mut header, offset)?;
        let mut bytes = header[..length].iter().copied();
        let mut next = || bytes.next().ok_or_else(damaged);
        let mut byte = next()?;
        let kind = byte >> 4 & 7;
        let (mut size, mut shift) = (usize::from(byte & 15), 4);
        while byte & 0x80 != 0 && shift < 32 {
            byte = next()?;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
        }
        if size > OBJECT_BYTES_MAX {
            return Err(GitError::TooLarge);
        }
        let base = match kind {
            6 => {
                let mut byte = next()?;
                let mut back = u64::from(byte & 0x7f);
                while byte & 0x80 != 0 {
                    byte = next()?;
                    back = (back + 1).checked_mul(128).ok_or_else(damaged)? | u64::from(byte & 0x7f);
                }
                Some(DeltaBase::Offset(offset.checked_sub(back).filter(|_| back > 0).ok_or_else(damaged)?))
            }
            7 => {
                let mut id = [0; ID_BYTES];
                for byte in &mut id {
                    *byte = next()?;
                }
                Some(DeltaBase::Id(ObjectId(id)))
            }
            _ => None,
        };
        let data_at = offset + (length - bytes.count()) as u64;
        budget.take(size as u64)?;
        let content = self.inflate(data_at, size)?;
        let kind = match (kind, base) {
            (_, Some(base)) => return Ok(Packed::Delta { base, delta: content }),
            (1, _) => ObjectKind::Commit,
            (2, _) => ObjectKind::Tree,
            (3, _) => ObjectKind::Blob,
            (4, _) => ObjectKind::Tag,
            _ => return Err(damaged()),
        };
        Ok(Packed::Whole(Object { kind, content }))
    }

    fn read_at_most(&self, into: &mut [u8], at: u64) -> Result<usize, GitError> {
        let mut length = 0;
        while length < into.len() {
            match self.pack.read_at(&mut into[length..], at + length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        Ok(length)
    }

    fn inflate(&self, at: u64, size: usize) -> Result<Vec<u8>, GitError> {
        let from = ReadFrom { file: &self.pack, at };
        let mut content = Vec::new();
        let mut reader = ZlibDecoder::new(BufReader::with_capacity(4096, from)).take(size as u64 + 1);
        reader.read_to_end(&mut content).map_err(|_| unreadable("an object of a pack"))?;
        if content.len() == size { Ok(content) } else { Err(unreadable("an object of a pack")) }
    }
}

/// Reads a file from a position on.
struct ReadFrom<'a> {
    file: &'a File,
    at: u64,
}

impl Read for ReadFrom<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
