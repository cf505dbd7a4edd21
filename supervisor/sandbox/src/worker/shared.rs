//! What the launcher and the inits of its runs have in common. Must not import another module of the worker.

use crate::message::MissingLayer;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;

/// The host name inside every run.
pub(super) const HOST_NAME: &str = "proctor";

/// Why the worker cannot go on.
pub(super) enum Halt {
    /// A layer without which there is no run.
    Refused(MissingLayer),
    /// Something that should not fail.
    Failed { step: &'static str, source: io::Error },
}

/// Turns what the kernel said at `step` into a [`Halt`].
pub(super) fn failed<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Halt {
    move |error| Halt::Failed { step, source: error.into() }
}

/// The signal by which a process hears that a child of its has died, as a descriptor.
pub(super) fn hear_deaths() -> io::Result<SignalFd> {
    let mut child_died = SigSet::empty();
    child_died.add(Signal::SIGCHLD);
    child_died.thread_block()?;
    Ok(SignalFd::with_flags(&child_died, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}
