//! The FIFO for a command's report, besides its two streams.

use crate::spec::{REPORT, SCRATCH};
use rustix::fs::{AtFlags, Mode, OFlags, chmodat, mkfifoat, openat, unlinkat};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Both ends. The writing end keeps the reading end open between two writers of the run.
pub(super) struct ReportFifo {
    reading: OwnedFd,
    _writing: OwnedFd,
}

impl ReportFifo {
    /// Makes the FIFO for the next command in `scratch_root`, in place of the `previous` one: a reader that is late
    /// must not take the next command's report for the previous one's.
    pub(super) fn open(scratch_root: &OwnedFd, previous: Option<ReportFifo>) -> io::Result<ReportFifo> {
        drop(previous);
        let name = make_fifo(scratch_root)?;
        // This order, since a FIFO without a reader cannot be opened for writing without blocking.
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let end = |way| openat(scratch_root, name, way | flags, Mode::empty());
        let (reading, writing) = (end(OFlags::RDONLY)?, end(OFlags::WRONLY)?);
        // The run must not read the report; and its own user could open a file that it may read.
        chmodat(scratch_root, name, Mode::WUSR, AtFlags::empty())?;
        Ok(ReportFifo { reading, _writing: writing })
    }
}

/// Makes a new FIFO in place of the last one, and returns its path within the scratch directory.
fn make_fifo(scratch_root: &OwnedFd) -> io::Result<&'static str> {
    let name = REPORT.strip_prefix(SCRATCH).unwrap_or(REPORT).trim_start_matches('/');
    match unlinkat(scratch_root, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    mkfifoat(scratch_root, name, Mode::RUSR | Mode::WUSR)?;
    Ok(name)
}

impl AsFd for ReportFifo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }
}
