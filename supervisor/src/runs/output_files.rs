//! Where the bytes of a run go while it goes on, and where they are read from afterwards. Must not know what they mean, or who
//! reads them.

use proctor_core::event::Stream;
use proctor_sandbox::{Spool, SpoolReader};
use std::io;
use std::sync::Arc;

/// Most bytes of a stream that lie in memory once its run has ended: most runs say a few lines, and a file takes a descriptor
/// and a page of the disk.
const IN_MEMORY_MAX: u64 = 8 * 1024;

/// What a file counts for at least, in bytes: a tenant that keeps 20 GiB holds no more than 20,480 of the supervisor's
/// descriptors for it.
pub const FILE_BYTES_MIN: u64 = 1024 * 1024;

/// Where the bytes of a run go: what it writes, and what it leaves.
#[derive(Debug, Default)]
pub struct Spools {
    /// The runner's stdout.
    pub stdout: Spool,
    /// The runner's stderr.
    pub stderr: Spool,
    /// The contents of the report's artefacts, in its order.
    pub artifacts: Spool,
}

impl Spools {
    /// All that is in them, and will be.
    #[must_use]
    pub fn files(&self) -> OutputFiles {
        let of = |spool: &Spool| Bytes::File(spool.reader());
        OutputFiles { stdout: of(&self.stdout), stderr: of(&self.stderr), artifacts: of(&self.artifacts) }
    }

    /// The same once nothing is added any more: what is small needs no file. Reads files: not for a tokio thread.
    #[must_use]
    pub fn settled(&self) -> OutputFiles {
        let of = |spool: &Spool| Bytes::settled(spool.reader());
        OutputFiles { stdout: of(&self.stdout), stderr: of(&self.stderr), artifacts: of(&self.artifacts) }
    }
}

/// What a run has written and left.
#[derive(Debug, Clone)]
pub struct OutputFiles {
    stdout: Bytes,
    stderr: Bytes,
    artifacts: Bytes,
}

impl OutputFiles {
    /// At most `len` bytes of a stream from `offset` on. Reads a file: not for a tokio thread.
    pub fn read_output(&self, stream: Stream, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.stream(stream).read_at(offset, len)
    }

    /// Bytes of a stream so far.
    #[must_use]
    pub fn output_len(&self, stream: Stream) -> u64 {
        self.stream(stream).len()
    }

    /// At most `len` bytes from `offset` on, of the contents of all artefacts. Reads a file: not for a tokio thread.
    pub fn read_artifacts(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.artifacts.read_at(offset, len)
    }

    /// Bytes that they count for: on the disk at least [`FILE_BYTES_MIN`] for each file, since it also takes a descriptor.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        [&self.stdout, &self.stderr, &self.artifacts].into_iter().map(Bytes::counted).sum()
    }

    fn stream(&self, stream: Stream) -> &Bytes {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

#[derive(Debug, Clone)]
enum Bytes {
    File(SpoolReader),
    Memory(Arc<[u8]>),
}

impl Bytes {
    fn settled(spool: SpoolReader) -> Bytes {
        if spool.len() > IN_MEMORY_MAX {
            return Bytes::File(spool);
        }
        let len = usize::try_from(spool.len()).unwrap_or(0);
        match spool.read_at(0, len) {
            Ok(bytes) => Bytes::Memory(bytes.into()),
            // Whoever reads it is told.
            Err(_) => Bytes::File(spool),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Bytes::File(spool) => spool.len(),
            Bytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    fn counted(&self) -> u64 {
        match self {
            Bytes::File(spool) if !spool.is_empty() => spool.len().max(FILE_BYTES_MIN),
            _ => self.len(),
        }
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        match self {
            Bytes::File(spool) => spool.read_at(offset, len),
            Bytes::Memory(bytes) => {
                let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let end = begin.saturating_add(len).min(bytes.len());
                Ok(bytes[begin..end].to_vec())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_is_in_memory_and_read_alike() {
        let limit = usize::try_from(IN_MEMORY_MAX).unwrap();
        for (len, counted) in [(0, 0), (3, 3), (limit, IN_MEMORY_MAX), (limit + 1, FILE_BYTES_MIN)] {
            let mut spools = Spools::default();
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
            spools.stdout.append(&bytes).unwrap();
            let (before, after) = (spools.files(), spools.settled());
            assert_eq!(matches!(after.stdout, Bytes::Memory(_)), len <= limit, "{len}");
            assert_eq!(after.kept_bytes(), counted, "{len}");
            assert_eq!(after.output_len(Stream::Stdout), len as u64);
            for (offset, some) in [(0, 2), (1, len), (len as u64, 1), (u64::MAX, 1), (0, usize::MAX)] {
                let read = |files: &OutputFiles| files.read_output(Stream::Stdout, offset, some).unwrap();
                assert_eq!(read(&before), read(&after), "{len}: {some} from {offset}");
            }
        }
    }
}
