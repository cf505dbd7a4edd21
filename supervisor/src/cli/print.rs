//! What a command prints: its answer on stdout, what it says beside on stderr, both fit to be shown to a person. A reader that
//! has gone away, as `head` does, is no failure and changes no exit status; a disk that is full is. Must not know what is printed.

use super::Failure;
use proctor_proto::printable::{Printable, is_hidden};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Prints `text` as lines, in colours where somebody sees them.
pub(super) fn answer(text: &str) -> Result<(), Failure> {
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let mut stdout = Printable(anstream::stdout().lock());
    written(stdout.write_all(format!("{text}{end}").as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints one JSON document on one line.
pub(super) fn document(value: &impl Serialize) -> Result<(), Failure> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    let document = value.serialize(&mut serde_json::Serializer::with_formatter(&mut stdout, Visible));
    let document = document.map_err(io::Error::from);
    written(document.and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()))
}

/// Prints `bytes` as they are: a file, which is for programs.
pub(super) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Says `text` on stderr. Whoever does not read it has the exit status.
pub(super) fn beside(text: &str) {
    _ = Printable(anstream::stderr().lock()).write_all(format!("{text}\n").as_bytes());
}

fn written(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| Failure::host(format!("standard output cannot be written: {error}"))),
    }
}

/// Escapes in JSON what a terminal would act on, beyond the control characters that every document of JSON escapes.
struct Visible;

impl Formatter for Visible {
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
    fn a_document_shows_everything_and_means_the_same() {
        let text = "a\u{9b}2J\u{202e}\x7f\u{e0041}\x1b\"é";
        let mut written = Vec::new();
        text.serialize(&mut serde_json::Serializer::with_formatter(&mut written, Visible)).unwrap();
        assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), text);
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written, r#""a\u009b2J\u202e\u007f\udb40\udc41\u001b\"é""#);
    }
}
