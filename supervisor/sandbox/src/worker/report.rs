//! The FIFO that commands find beside their two streams. Must not know what is written to it.

use crate::spec::REPORT;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::fs::{OFlags, open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Both ends. As long as one of them is open, the reading end is not at its end when one writer has gone and the next has
/// not come; and the name in the scratch directory, which the run may give to something else, is used once.
pub(super) struct Report {
    reading: OwnedFd,
    _writing: OwnedFd,
}

impl Report {
    pub(super) fn open() -> io::Result<Report> {
        mkfifo(REPORT, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // This order, since a FIFO that nobody reads cannot be opened for writing without waiting.
        let end = |flags| open(REPORT, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        Ok(Report { reading: end(OFlags::RDONLY)?, _writing: end(OFlags::WRONLY)? })
    }
}

impl AsFd for Report {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }
}
