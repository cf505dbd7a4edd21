//! The FIFO that a command finds beside its two streams. Must not know what is written to it.

use crate::spec::REPORT;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::fs::{FileType, OFlags, fstat, open, unlink};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Both ends. As long as one of them is open, the reading end is not at its end when one writer has gone and the next has
/// not come.
pub(super) struct Report {
    reading: OwnedFd,
    _writing: OwnedFd,
}

impl Report {
    pub(super) fn open() -> io::Result<Report> {
        match unlink(REPORT) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        mkfifo(REPORT, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // This order, since a FIFO that nobody reads cannot be opened for writing without waiting.
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let end = |way| open(REPORT, way | flags, rustix::fs::Mode::empty());
        let (reading, writing) = (end(OFlags::RDONLY)?, end(OFlags::WRONLY)?);
        if FileType::from_raw_mode(fstat(&reading)?.st_mode) != FileType::Fifo {
            return Err(io::Error::other("the report is no FIFO"));
        }
        Ok(Report { reading, _writing: writing })
    }

    /// One for the next command: whoever reads late must not take what it writes for the words of the one before. Where the
    /// run has put something else in its place, this one has to do.
    pub(super) fn next(self) -> Report {
        Report::open().unwrap_or(self)
    }
}

impl AsFd for Report {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }
}
