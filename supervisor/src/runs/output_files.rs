//! Stores the output and artifacts of a run while it is running, and reads them back afterwards.

use proctor_core::bounds::RETAINED_FILE_BYTES_MIN;
use proctor_core::event::Stream;
use proctor_sandbox::{Spool, SpoolReader};
use std::io;
use std::sync::Arc;

/// Most bytes of a stream kept in memory once its run has ended. Most runs print a few lines, and a file takes a
/// descriptor and a page of the disk.
const IN_MEMORY_MAX: u64 = 8 * 1024;

/// Receives the output and artifacts of a run.
#[derive(Debug, Default)]
pub struct Spools {
    /// The runner's stdout.
    pub stdout: Spool,
    /// The runner's stderr.
    pub stderr: Spool,
    /// Contents of the report's artifacts, in its order.
    pub artifacts: Spool,
}

impl Spools {
    /// Readers of everything stored now and later.
    #[must_use]
    pub fn files(&self) -> OutputFiles {
        let bytes = |spool: &Spool| Bytes::File(spool.reader());
        OutputFiles { stdout: bytes(&self.stdout), stderr: bytes(&self.stderr), artifacts: bytes(&self.artifacts) }
    }

    /// The final form, once nothing more is written: small contents move to memory. Reads files, so not for a tokio
    /// thread.
    #[must_use]
    pub fn settled(&self) -> OutputFiles {
        let bytes = |spool: &Spool| Bytes::settled(spool.reader());
        OutputFiles { stdout: bytes(&self.stdout), stderr: bytes(&self.stderr), artifacts: bytes(&self.artifacts) }
    }
}

/// Output and artifacts of a run.
#[derive(Debug, Clone)]
pub struct OutputFiles {
    stdout: Bytes,
    stderr: Bytes,
    artifacts: Bytes,
}

impl OutputFiles {
    /// Reads at most `len` bytes of a stream from `offset` on. Reads a file, so not for a tokio thread.
    pub fn read_output(&self, stream: Stream, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.stream(stream).read_at(offset, len)
    }

    /// Bytes of a stream so far.
    #[must_use]
    pub fn output_len(&self, stream: Stream) -> u64 {
        self.stream(stream).len()
    }

    /// Reads at most `len` bytes of the joined artifacts from `offset` on. Reads a file, so not for a tokio thread.
    pub fn read_artifacts(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.artifacts.read_at(offset, len)
    }

    /// Bytes counted against the quota: at least [`RETAINED_FILE_BYTES_MIN`] for each file, since it also takes a descriptor.
    #[must_use]
    pub fn quota_bytes(&self) -> u64 {
        [&self.stdout, &self.stderr, &self.artifacts].into_iter().map(Bytes::quota_bytes).sum()
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
            // The next reader gets the error.
            Err(_) => Bytes::File(spool),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Bytes::File(spool) => spool.len(),
            Bytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    fn quota_bytes(&self) -> u64 {
        match self {
            Bytes::File(spool) if !spool.is_empty() => spool.len().max(RETAINED_FILE_BYTES_MIN),
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
    fn small_contents_move_to_memory_and_read_the_same() {
        let limit = usize::try_from(IN_MEMORY_MAX).unwrap();
        for (len, counted) in [(0, 0), (3, 3), (limit, IN_MEMORY_MAX), (limit + 1, RETAINED_FILE_BYTES_MIN)] {
            let mut spools = Spools::default();
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
            spools.stdout.append(&bytes).unwrap();
            let (before, after) = (spools.files(), spools.settled());
            assert_eq!(matches!(after.stdout, Bytes::Memory(_)), len <= limit, "{len}");
            assert_eq!(after.quota_bytes(), counted, "{len}");
            assert_eq!(after.output_len(Stream::Stdout), len as u64);
            for (offset, some) in [(0, 2), (1, len), (len as u64, 1), (u64::MAX, 1), (0, usize::MAX)] {
                let read = |files: &OutputFiles| files.read_output(Stream::Stdout, offset, some).unwrap();
                assert_eq!(read(&before), read(&after), "{len}: {some} from {offset}");
            }
        }
    }
}
