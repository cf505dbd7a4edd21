//! The pipes of the running command: its two streams and the run's report, with one bound for the bytes of all
//! commands.

use proctor_core::bounds::STACK_DUMP_BYTES_MAX;
use proctor_core::event::Stream;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of one read: the capacity of a pipe.
const READ_BYTES_MAX: usize = 64 * 1024;

/// A pipe that a run writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputPipe {
    /// One of the running command's own streams.
    Stream(Stream),
    /// The FIFO of all commands.
    Report,
    /// The stdout of the program that prints stacks.
    Stacks,
}

impl OutputPipe {
    pub(crate) const ALL: [OutputPipe; 4] = [
        OutputPipe::Stream(Stream::Stdout),
        OutputPipe::Stream(Stream::Stderr),
        OutputPipe::Report,
        OutputPipe::Stacks,
    ];
}

/// Reading ends of the pipes, and the bytes that all commands have written.
pub(crate) struct OutputPipes {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    report: Option<OwnedFd>,
    stacks: Option<OwnedFd>,
    /// Bytes of stacks that may still be passed on. They count for nothing else: proctor's own program prints them.
    stack_bytes_left: usize,
    buffer: Vec<u8>,
    bytes_max: u64,
    /// Bytes read from all commands, including those beyond the bound.
    pub(crate) bytes: u64,
}

impl OutputPipes {
    /// No pipe is open yet. At most `bytes_max` bytes are passed on.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            stdout: None,
            stderr: None,
            report: None,
            stacks: None,
            stack_bytes_left: STACK_DUMP_BYTES_MAX,
            buffer: vec![0; READ_BYTES_MAX],
            bytes_max,
            bytes: 0,
        }
    }

    /// Opens the pipes of the next command, and the report if it has one.
    pub(crate) fn open(&mut self, stdout: OwnedFd, stderr: OwnedFd, report: Option<OwnedFd>) -> io::Result<()> {
        for pipe in [&stdout, &stderr].into_iter().chain(&report) {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        (self.stdout, self.stderr, self.report) = (Some(stdout), Some(stderr), report);
        Ok(())
    }

    /// Opens the pipe of the program that prints stacks.
    pub(crate) fn open_stacks(&mut self, stacks: OwnedFd) -> io::Result<()> {
        fcntl_setfl(&stacks, fcntl_getfl(&stacks)? | OFlags::NONBLOCK)?;
        self.stacks = Some(stacks);
        Ok(())
    }

    /// Reading end of a pipe; `None` if it is at its end.
    pub(crate) fn fd(&self, outlet: OutputPipe) -> Option<BorrowedFd<'_>> {
        let end = match outlet {
            OutputPipe::Stream(Stream::Stdout) => &self.stdout,
            OutputPipe::Stream(Stream::Stderr) => &self.stderr,
            OutputPipe::Report => &self.report,
            OutputPipe::Stacks => &self.stacks,
        };
        end.as_ref().map(AsFd::as_fd)
    }

    /// Whether both streams are at their ends. The report has no end while its run lives.
    pub(crate) fn is_closed(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Closes streams that are still open: a process outside of the run holds a writing end.
    pub(crate) fn close(&mut self) {
        (self.stdout, self.stderr, self.stacks) = (None, None, None);
    }

    /// Whether more bytes were written than may be passed on.
    pub(crate) fn is_flooded(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Reads once and returns how many bytes of [`OutputPipes::last_read`] may be passed on: 0 at the end of the pipe,
    /// if there is no data, and if the bound is used up.
    pub(crate) fn read(&mut self, outlet: OutputPipe) -> usize {
        let pipe = match outlet {
            OutputPipe::Stream(Stream::Stdout) => &mut self.stdout,
            OutputPipe::Stream(Stream::Stderr) => &mut self.stderr,
            OutputPipe::Report => &mut self.report,
            OutputPipe::Stacks => &mut self.stacks,
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
        if outlet == OutputPipe::Stacks {
            let kept = read.min(self.stack_bytes_left);
            self.stack_bytes_left -= kept;
            if self.stack_bytes_left == 0 {
                self.stacks = None;
            }
            return kept;
        }
        let remaining = usize::try_from(self.bytes_max.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        self.bytes = self.bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        read.min(remaining)
    }

    /// The first `bytes` of the last read.
    pub(crate) fn last_read(&self, bytes: usize) -> &[u8] {
        self.buffer.get(..bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    fn read(streams: &mut OutputPipes, stream: Stream) -> Vec<u8> {
        let last_read = streams.read(OutputPipe::Stream(stream));
        streams.last_read(last_read).to_vec()
    }

    #[test]
    fn closes_the_pipe_of_a_program_that_prints_stacks_without_end() {
        let (stacks, mut writer) = UnixStream::pair().unwrap();
        let mut pipes = OutputPipes::new(5);
        pipes.open_stacks(stacks.into()).unwrap();
        let mut kept = 0;
        let end = loop {
            if let Err(error) = writer.write_all(&[b'x'; READ_BYTES_MAX]) {
                break error.kind();
            }
            while let read @ 1.. = pipes.read(OutputPipe::Stacks) {
                kept += read;
            }
        };
        assert!(matches!(end, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{end:?}");
        assert_eq!((kept, pipes.bytes, pipes.is_flooded()), (STACK_DUMP_BYTES_MAX, 0, false));
    }

    #[test]
    fn counts_bytes_beyond_the_bound_and_does_not_pass_them_on() {
        let (stdout, mut stdout_writer) = UnixStream::pair().unwrap();
        let (stderr, stderr_writer) = UnixStream::pair().unwrap();
        let mut streams = OutputPipes::new(5);
        streams.open(stdout.into(), stderr.into(), None).unwrap();
        assert_eq!(read(&mut streams, Stream::Stdout), b"");
        assert!(!streams.is_closed(), "an empty pipe is not at its end");
        stdout_writer.write_all(b"hello").unwrap();
        assert_eq!(read(&mut streams, Stream::Stdout), b"hello");
        assert!(!streams.is_flooded());
        stdout_writer.write_all(b"!").unwrap();
        assert_eq!(read(&mut streams, Stream::Stdout), b"");
        assert!(streams.is_flooded());
        // Not by dropping: processes that other tests have forked may hold the writing ends.
        [&stdout_writer, &stderr_writer].into_iter().for_each(|end| end.shutdown(Shutdown::Write).unwrap());
        assert_eq!(read(&mut streams, Stream::Stdout), b"");
        assert_eq!(streams.bytes, 6);
        assert_eq!(read(&mut streams, Stream::Stderr), b"");
        assert!(streams.is_closed());
    }
}
