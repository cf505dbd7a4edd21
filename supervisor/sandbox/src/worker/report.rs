//! The FIFO that a command finds beside its two streams. Must not know what is written to it.

use crate::spec::{REPORT, SCRATCH};
use nix::sys::stat::Mode;
use nix::unistd::mkfifoat;
use rustix::fs::{AtFlags, OFlags, chmodat, openat, unlinkat};
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
    /// One for the next command, in `helpers`, the scratch directory: whoever reads late must not take what it writes for the
    /// words of the one `before`.
    pub(super) fn open(helpers: &OwnedFd, before: Option<Report>) -> io::Result<Report> {
        drop(before);
        let name = fifo(helpers)?;
        // This order, since a FIFO that nobody reads cannot be opened for writing without waiting.
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let end = |way| openat(helpers, name, way | flags, rustix::fs::Mode::empty());
        let (reading, writing) = (end(OFlags::RDONLY)?, end(OFlags::WRONLY)?);
        // What is on its way to be read is nobody's in the run to take; and its own user could open what it may read.
        chmodat(helpers, name, rustix::fs::Mode::WUSR, AtFlags::empty())?;
        Ok(Report { reading, _writing: writing })
    }
}

/// Makes a new FIFO in the place of the last one, and gives its path within the scratch directory.
fn fifo(helpers: &OwnedFd) -> io::Result<&'static str> {
    let name = REPORT.strip_prefix(SCRATCH).unwrap_or(REPORT).trim_start_matches('/');
    match unlinkat(helpers, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    mkfifoat(helpers, name, Mode::S_IRUSR | Mode::S_IWUSR)?;
    Ok(name)
}

impl AsFd for Report {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }
}
