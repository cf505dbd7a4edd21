//! An append-only file without a name for the output of a run: nothing can leave it behind on the disk. It is created
//! at the first append, since most streams stay empty. The caller bounds its size.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Writing end. There is one, so that offsets are never contested.
#[derive(Debug, Default)]
pub struct Spool {
    reader: SpoolReader,
}

/// Reading end; clones share the file.
#[derive(Debug, Clone, Default)]
pub struct SpoolReader {
    /// Set at the first append.
    file: Arc<OnceLock<File>>,
    /// Bytes that are completely written: a reader never sees half an append.
    len: Arc<AtomicU64>,
}

impl Spool {
    /// Wraps the caller's `file`, which is empty and has no other writer.
    #[must_use]
    pub fn from_file(file: File) -> Spool {
        let reader = SpoolReader { file: Arc::new(OnceLock::from(file)), ..SpoolReader::default() };
        Spool { reader }
    }

    /// Appends `bytes` and returns the offset of the first one. After an error nothing was appended.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let begin = self.reader.len();
        self.file()?.write_all_at(bytes, begin)?;
        let end = begin + u64::try_from(bytes.len()).map_err(io::Error::other)?;
        self.reader.len.store(end, Ordering::Release);
        Ok(begin)
    }

    /// The file, in the directory for temporary files. It has no name and is gone with the last handle.
    fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.reader.file.get() {
            return Ok(file);
        }
        let file = tempfile::tempfile()?;
        Ok(self.reader.file.get_or_init(|| file))
    }

    /// Creates another reading end.
    #[must_use]
    pub fn reader(&self) -> SpoolReader {
        self.reader.clone()
    }

    /// See [`SpoolReader::read_at`].
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.reader.read_at(offset, len)
    }

    /// See [`SpoolReader::len`].
    #[must_use]
    pub fn len(&self) -> u64 {
        self.reader.len()
    }

    /// Whether nothing was appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }
}

impl SpoolReader {
    /// Reads at most `len` bytes from `offset` on; fewer at the end, none beyond it.
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let available = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(available)];
        if let Some(file) = self.file.get() {
            file.read_exact_at(&mut bytes, offset)?;
        }
        Ok(bytes)
    }

    /// Bytes appended so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether nothing was appended yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_appended_bytes_at_their_offsets_and_nothing_beyond_the_end() {
        let mut spool = Spool::default();
        assert!(spool.is_empty());
        assert_eq!(spool.reader().read_at(0, 100).unwrap(), b"");
        assert_eq!(spool.append(b"hello ").unwrap(), 0);
        assert_eq!(spool.append(b"world").unwrap(), 6);
        let reader = spool.reader();
        assert_eq!(reader.read_at(6, 100).unwrap(), b"world");
        assert_eq!(reader.read_at(3, 4).unwrap(), b"lo w");
        assert_eq!(reader.read_at(11, 10).unwrap(), b"");
        assert_eq!(reader.read_at(u64::MAX, 10).unwrap(), b"");
        let other = std::thread::spawn(move || reader.read_at(0, 5).unwrap());
        assert_eq!(other.join().unwrap(), b"hello");
        assert_eq!(spool.len(), 11);
    }
}
