//! Prints results on stdout and messages on stderr, safe for a terminal. A reader that has closed the pipe, as `head`
//! does, is no failure; a full disk is.

use super::CommandError;
use proctor_proto::printable::{Printable, is_hidden};
use serde::Serialize;
use serde_json::ser::Formatter;
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

/// Escapes characters in JSON that a terminal would act on, beyond the control characters that JSON always escapes.
struct EscapeHidden;

impl Formatter for EscapeHidden {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_escaped_without_changing_its_meaning() {
        let text = "a\u{9b}2J\u{202e}\x7f\u{e0041}\x1b\"é";
        let mut written = Vec::new();
        text.serialize(&mut serde_json::Serializer::with_formatter(&mut written, EscapeHidden)).unwrap();
        assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), text);
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written, r#""a\u009b2J\u202e\u007f\udb40\udc41\u001b\"é""#);
    }
}
