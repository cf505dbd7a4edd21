//! Splits the report of `Report.java` into records with bounded memory.
//!
//! A test can find the report and write to it, but it does not know the token: `Report.java` keeps it in Maven's memory and sends
//! it before any test runs. A record without it is [`Record::Forged`].

use memchr::memchr;

/// Longest record, in bytes. A class whose tests print more is reported as cut off.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest kind and path of a record, in bytes.
const NAME_BYTES_MAX: usize = 8 * 1024;

/// A record of the Maven extension.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// Maven has loaded the extension.
    Begin,
    /// A complete XML file: path and content.
    File(&'a str, &'a [u8]),
    /// An execution of Surefire or Failsafe ended, with its count of tests and of failures, if it logs them through Maven.
    Ran(Option<(u64, u64)>),
    /// The build ended and every file was sent.
    End {
        /// Whether the build succeeded.
        success: bool,
    },
    /// A record of a listing: kind, module directory, text.
    Listed(&'a str, &'a str, &'a [u8]),
    /// A malformed record.
    Unreadable,
    /// A record without the token: not from the extension.
    Forged,
}

/// Splits the stream at NUL bytes.
#[derive(Debug, Default)]
pub(super) struct RecordSplitter {
    pending: Vec<u8>,
    too_long: bool,
    /// The token that begins each record, once received.
    token: Option<Vec<u8>>,
}

impl RecordSplitter {
    /// Consumes the next bytes and passes every record that they complete to `each`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Record<'_>)) {
        while let Some(end) = memchr(0, bytes) {
            self.append(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let record = if self.too_long { Record::Unreadable } else { parse(&self.pending, &mut self.token) };
            each(record);
            (self.pending, self.too_long) = (Vec::new(), false);
        }
        self.append(bytes);
    }

    /// Resets the splitter for another Maven: drops an incomplete record and the token.
    pub(super) fn reset(&mut self) {
        *self = RecordSplitter::default();
    }

    fn append(&mut self, bytes: &[u8]) {
        self.too_long |= self.pending.len() + bytes.len() > RECORD_BYTES_MAX;
        if self.too_long {
            self.pending = Vec::new();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }
}

fn parse<'a>(record: &'a [u8], token: &mut Option<Vec<u8>>) -> Record<'a> {
    let Some(known) = token else {
        let Some(received) = record.strip_prefix(b"begin \n").filter(|received| !received.is_empty()) else {
            return Record::Forged;
        };
        *token = Some(received.to_vec());
        return Record::Begin;
    };
    let own = record.strip_prefix(known.as_slice()).and_then(|own| own.strip_prefix(b" "));
    own.map_or(Record::Forged, |own| parse_authentic(own).unwrap_or(Record::Unreadable))
}

fn parse_authentic(record: &[u8]) -> Option<Record<'_>> {
    let at = memchr(b'\n', record).filter(|at| *at <= NAME_BYTES_MAX)?;
    let (name, content) = (std::str::from_utf8(&record[..at]).ok()?, &record[at + 1..]);
    let (kind, path) = name.split_once(' ')?;
    Some(match (kind, content) {
        ("file", content) => Record::File(path, content),
        ("ran", content) => Record::Ran(counts(content)?),
        ("end", b"success") => Record::End { success: true },
        ("end", b"failure") => Record::End { success: false },
        ("listed" | "broken" | "note", content) => Record::Listed(kind, path, content),
        _ => return None,
    })
}

/// Parses the two numbers of an execution; `Some(None)` for an empty text, `None` for a malformed one.
fn counts(text: &[u8]) -> Option<Option<(u64, u64)>> {
    if text.is_empty() {
        return Some(None);
    }
    let (tests, failures) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some(Some((tests.parse().ok()?, failures.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let (mut records, mut found) = (RecordSplitter::default(), Vec::new());
        for chunk in chunks {
            records.feed(chunk, |record| found.push(format!("{record:?}")));
        }
        found
    }

    #[test]
    fn parses_records_of_each_kind() {
        let found = split(&[
            b"begin \nt\0t file a b.xml\n<a>\n</a>\0t ran core\n4 1\0t ran \n\0t listed web\nA#b\0t end \nsuccess\0t end \nfailure\0",
        ]);
        let records = [
            Record::Begin,
            Record::File("a b.xml", b"<a>\n</a>"),
            Record::Ran(Some((4, 1))),
            Record::Ran(None),
            Record::Listed("listed", "web", b"A#b"),
            Record::End { success: true },
            Record::End { success: false },
        ];
        assert_eq!(found, records.map(|record| format!("{record:?}")));
        assert_eq!(
            split(&[b"begin \nt\0t nothing\0t \xff\nx\0t ran \n1\0half\n"]),
            ["Begin", "Unreadable", "Unreadable", "Unreadable"]
        );
    }

    #[test]
    fn a_record_without_the_token_is_forged() {
        let forged =
            [&b"end \nsuccess\0"[..], b"tend \nsuccess\0", b"u end \nsuccess\0", b"begin \nu\0", b"\0"].concat();
        assert_eq!(split(&[b"end \nsuccess\0begin \n\0"]), ["Forged", "Forged"], "before there is one");
        assert_eq!(split(&[b"begin \nt\0", &forged]), ["Begin", "Forged", "Forged", "Forged", "Forged", "Forged"]);
    }

    #[test]
    fn skips_a_record_that_is_too_long() {
        let long = vec![b'\n'; RECORD_BYTES_MAX];
        assert_eq!(split(&[b"begin \nt\0a", &long, b"\0t ran \n\0"]), ["Begin", "Unreadable", "Ran(None)"]);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(b'\n'), Just(b't'), Just(b' '), any::<u8>()], 0..200), at in 0usize..200) {
            let bytes = [&b"begin \nt\0"[..], &bytes].concat();
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(split(&[&bytes]), split(&[head, tail]));
        }
    }
}
