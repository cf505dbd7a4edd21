//! Why a launcher or an init stops early, and its last resort to report it: stderr.

use crate::worker_protocol::MissingLayer;
use std::io::{self, Write};

/// Why the worker cannot go on.
pub(super) enum Halt {
    /// A layer without which no run may start.
    Refused(MissingLayer),
    /// A failure at a step that normally succeeds.
    Failed { step: &'static str, source: io::Error },
}

/// Turns an error of the kernel at `step` into a [`Halt`].
pub(super) fn failed<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Halt {
    move |error| Halt::Failed { step, source: error.into() }
}

/// Prints one line to stderr; a failure cannot be reported anywhere and is ignored.
pub(super) fn print_stderr(text: &str) {
    _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
