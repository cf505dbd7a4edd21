//! Cuts the report of `Report.java` into records with bounded memory. Must not know what is in a file.
//!
//! A test can find the report, too, and write to it. It does not know the token, a word that `Report.java` has in Maven's memory
//! alone and tells before any test runs: a record without it is [`Record::Forged`].

use memchr::memchr;

/// Longest record, in bytes. A class whose tests print more than this is told of as cut off.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest kind and path of a record, in bytes.
const NAME_BYTES_MAX: usize = 8 * 1024;

/// What our extension of Maven says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// Maven has loaded it.
    Begin,
    /// A file that was written, and what is in it.
    File(&'a str, &'a [u8]),
    /// A run of Surefire or Failsafe is over, with this count of tests and of those that failed, if it counts in Maven's log.
    Ran(Option<(u64, u64)>),
    /// The build is over and every file was told; whether Maven is content.
    End {
        /// Whether nothing failed it.
        success: bool,
    },
    /// What a listing says: its kind, a module's directory, a text.
    Listed(&'a str, &'a str, &'a [u8]),
    /// Anything else.
    Unreadable,
    /// A record that is not our extension's.
    Forged,
}

/// A splitter at NUL bytes.
#[derive(Debug, Default)]
pub(super) struct Records {
    carry: Vec<u8>,
    too_long: bool,
    /// What each record begins with, once it was told.
    token: Option<Vec<u8>>,
}

impl Records {
    /// Takes the next bytes and hands every record that they complete to `each`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Record<'_>)) {
        while let Some(end) = memchr(0, bytes) {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let record = if self.too_long { Record::Unreadable } else { read(&self.carry, &mut self.token) };
            each(record);
            (self.carry, self.too_long) = (Vec::new(), false);
        }
        self.keep(bytes);
    }

    /// Forgets what has not ended, and the token: another Maven begins.
    pub(super) fn forget(&mut self) {
        *self = Records::default();
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.too_long |= self.carry.len() + bytes.len() > RECORD_BYTES_MAX;
        if self.too_long {
            self.carry = Vec::new();
        } else {
            self.carry.extend_from_slice(bytes);
        }
    }
}

fn read<'a>(record: &'a [u8], token: &mut Option<Vec<u8>>) -> Record<'a> {
    let Some(known) = token else {
        let Some(told) = record.strip_prefix(b"begin \n").filter(|told| !told.is_empty()) else {
            return Record::Forged;
        };
        *token = Some(told.to_vec());
        return Record::Begin;
    };
    let own = record.strip_prefix(known.as_slice()).and_then(|own| own.strip_prefix(b" "));
    own.map_or(Record::Forged, |own| read_own(own).unwrap_or(Record::Unreadable))
}

fn read_own(record: &[u8]) -> Option<Record<'_>> {
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

/// The two numbers of a run, or none; nothing at all for another text.
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
        let (mut records, mut found) = (Records::default(), Vec::new());
        for chunk in chunks {
            records.feed(chunk, |record| found.push(format!("{record:?}")));
        }
        found
    }

    #[test]
    fn a_record_has_the_token_a_kind_a_path_and_a_content() {
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
    fn what_is_too_long_is_passed_over() {
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
