//! The two streams of the running command: read side by side, bounded, to their ends. Must not know what is written.

use proctor_core::event::Stream;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of one read: the capacity of a pipe.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Reading ends of a command's pipes, and how much all commands have written.
pub(crate) struct Streams {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    buffer: Vec<u8>,
    bytes_max: u64,
    /// Bytes read of all commands, also those that were not passed on.
    pub(crate) bytes: u64,
}

impl Streams {
    /// Nothing is open yet. At most `bytes_max` bytes are passed on.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { stdout: None, stderr: None, buffer: vec![0; READ_BYTES_MAX], bytes_max, bytes: 0 }
    }

    /// Takes the pipes of the next command.
    pub(crate) fn open(&mut self, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<()> {
        for pipe in [&stdout, &stderr] {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        (self.stdout, self.stderr) = (Some(stdout), Some(stderr));
        Ok(())
    }

    /// The stream's pipe, unless it is at its end.
    pub(crate) fn fd(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        match stream {
            Stream::Stdout => self.stdout.as_ref().map(AsFd::as_fd),
            Stream::Stderr => self.stderr.as_ref().map(AsFd::as_fd),
        }
    }

    /// Whether both are at their ends.
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

    /// Reads once and returns what may be passed on: empty at the end of the stream, when there is nothing, and when
    /// the bound is used up.
    pub(crate) fn read(&mut self, stream: Stream) -> &[u8] {
        let pipe = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(fd) = pipe.as_ref() else { return &[] };
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
        self.buffer.get(..read.min(room)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn bytes_over_the_bound_are_counted_and_not_passed_on() {
        let (stdout, mut out) = io::pipe().unwrap();
        let (stderr, err) = io::pipe().unwrap();
        let mut streams = Streams::new(5);
        streams.open(stdout.into(), stderr.into()).unwrap();
        assert_eq!(streams.read(Stream::Stdout), b"");
        assert!(!streams.is_closed(), "an empty pipe is not at its end");
        out.write_all(b"hello").unwrap();
        assert_eq!(streams.read(Stream::Stdout), b"hello");
        assert!(!streams.is_flooded());
        out.write_all(b"!").unwrap();
        assert_eq!(streams.read(Stream::Stdout), b"");
        assert!(streams.is_flooded());
        drop((out, err));
        assert_eq!(streams.read(Stream::Stdout), b"");
        assert_eq!(streams.bytes, 6);
        assert_eq!(streams.read(Stream::Stderr), b"");
        assert!(streams.is_closed());
    }
}
