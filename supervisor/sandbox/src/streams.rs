//! What the running command writes: its two streams and the run's report, read side by side and bounded. Must not know what
//! is written.

use proctor_core::event::Stream;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of one read: the capacity of a pipe.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Where a run writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlet {
    /// One of the running command's own streams.
    Stream(Stream),
    /// The FIFO of all commands.
    Report,
}

impl Outlet {
    pub(crate) const ALL: [Outlet; 3] =
        [Outlet::Stream(Stream::Stdout), Outlet::Stream(Stream::Stderr), Outlet::Report];
}

/// Reading ends, and how much all commands have written.
pub(crate) struct Streams {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    report: Option<OwnedFd>,
    buffer: Vec<u8>,
    bytes_max: u64,
    /// Bytes read of all commands, also those that were not passed on.
    pub(crate) bytes: u64,
}

impl Streams {
    /// Nothing is open yet. At most `bytes_max` bytes are passed on.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { stdout: None, stderr: None, report: None, buffer: vec![0; READ_BYTES_MAX], bytes_max, bytes: 0 }
    }

    /// Takes the pipes of the next command, and the report if there is one.
    pub(crate) fn open(&mut self, stdout: OwnedFd, stderr: OwnedFd, report: Option<OwnedFd>) -> io::Result<()> {
        for pipe in [&stdout, &stderr].into_iter().chain(&report) {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        (self.stdout, self.stderr, self.report) = (Some(stdout), Some(stderr), report);
        Ok(())
    }

    /// The outlet's reading end, unless it is at its end.
    pub(crate) fn fd(&self, outlet: Outlet) -> Option<BorrowedFd<'_>> {
        let end = match outlet {
            Outlet::Stream(Stream::Stdout) => &self.stdout,
            Outlet::Stream(Stream::Stderr) => &self.stderr,
            Outlet::Report => &self.report,
        };
        end.as_ref().map(AsFd::as_fd)
    }

    /// Whether both streams are at their ends. The report has none while its run lives.
    pub(crate) fn is_closed(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Gives up what is still open: somebody outside of the run holds a writing end.
    pub(crate) fn close(&mut self) {
        (self.stdout, self.stderr) = (None, None);
    }

    /// Whether more was written than may be passed on.
    pub(crate) fn is_flooded(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Reads once and returns how much of [`Streams::taken`] may be passed on: nothing at the end of the outlet, when
    /// there is nothing, and when the bound is used up.
    pub(crate) fn read(&mut self, outlet: Outlet) -> usize {
        let pipe = match outlet {
            Outlet::Stream(Stream::Stdout) => &mut self.stdout,
            Outlet::Stream(Stream::Stderr) => &mut self.stderr,
            Outlet::Report => &mut self.report,
        };
        let Some(fd) = pipe.as_ref() else { return 0 };
        let read = match rustix::io::read(fd, &mut self.buffer) {
            Ok(0) => {
                *pipe = None;
                0
            }
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Err(error) => {
                tracing::warn!(%error, "a stream of a run cannot be read");
                *pipe = None;
                0
            }
        };
        let room = usize::try_from(self.bytes_max.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        self.bytes = self.bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        read.min(room)
    }

    /// The first bytes of what was read last.
    pub(crate) fn taken(&self, bytes: usize) -> &[u8] {
        self.buffer.get(..bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    fn read(streams: &mut Streams, stream: Stream) -> Vec<u8> {
        let taken = streams.read(Outlet::Stream(stream));
        streams.taken(taken).to_vec()
    }

    #[test]
    fn bytes_over_the_bound_are_counted_and_not_passed_on() {
        let (stdout, mut out) = UnixStream::pair().unwrap();
        let (stderr, err) = UnixStream::pair().unwrap();
        let mut streams = Streams::new(5);
        streams.open(stdout.into(), stderr.into(), None).unwrap();
        assert_eq!(read(&mut streams, Stream::Stdout), b"");
        assert!(!streams.is_closed(), "an empty pipe is not at its end");
        out.write_all(b"hello").unwrap();
        assert_eq!(read(&mut streams, Stream::Stdout), b"hello");
        assert!(!streams.is_flooded());
        out.write_all(b"!").unwrap();
        assert_eq!(read(&mut streams, Stream::Stdout), b"");
        assert!(streams.is_flooded());
        // Whoever else has the writing ends: processes that other tests have forked.
        [&out, &err].into_iter().for_each(|end| end.shutdown(Shutdown::Write).unwrap());
        assert_eq!(read(&mut streams, Stream::Stdout), b"");
        assert_eq!(streams.bytes, 6);
        assert_eq!(read(&mut streams, Stream::Stderr), b"");
        assert!(streams.is_closed());
    }
}
