//! Prints results on stdout and messages on stderr, safe for a terminal. A reader that has closed the pipe, as `head`
//! does, is no failure; a full disk is.

use super::CommandError;
use crate::reports::EscapeHidden;
use proctor_proto::printable::Printable;
use serde::Serialize;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Prints `text` as lines, with colours if stdout is a terminal.
pub(super) fn text(text: &str) -> Result<(), CommandError> {
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let mut stdout = Printable(anstream::stdout().lock());
    check_written(stdout.write_all(format!("{text}{end}").as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints one JSON document on one line.
pub(super) fn document(value: &impl Serialize) -> Result<(), CommandError> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    let document = value.serialize(&mut serde_json::Serializer::with_formatter(&mut stdout, EscapeHidden));
    let document = document.map_err(io::Error::from);
    check_written(document.and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()))
}

/// Prints `bytes` unchanged: file contents for other programs.
pub(super) fn bytes(bytes: &[u8]) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    check_written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints a message on stderr. If it is not read, the exit status remains.
pub(super) fn message(text: &str) {
    _ = Printable(anstream::stderr().lock()).write_all(format!("{text}\n").as_bytes());
}

fn check_written(result: io::Result<()>) -> Result<(), CommandError> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| CommandError::host(format!("standard output cannot be written: {error}"))),
    }
}
