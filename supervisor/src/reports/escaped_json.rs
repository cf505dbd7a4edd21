//! JSON that is safe to print: characters that a terminal would act on, or that are invisible, are escaped, which does not
//! change what a parser reads.

use proctor_proto::printable::is_hidden;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// Escapes characters in strings beyond the control characters that JSON always escapes.
#[derive(Debug)]
pub struct EscapeHidden;

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

/// Serializes a value on one line.
pub(super) fn to_vec(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut document = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut document, EscapeHidden))?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_escaped_without_changing_its_meaning() {
        let text = "a\u{9b}2J\u{202e}\x7f\u{e0041}\x1b\"é";
        let written = to_vec(&text).unwrap();
        assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), text);
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written, r#""a\u009b2J\u202e\u007f\udb40\udc41\u001b\"é""#);
    }
}
