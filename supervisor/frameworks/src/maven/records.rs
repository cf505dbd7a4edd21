//! Cuts the report of `watch.sh` into records with bounded memory. Must not know what is in a file.

use memchr::memchr;

/// Longest record, in bytes. A class whose tests print more than this is told of as cut off.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 8 * 1024;

/// What `watch.sh` says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// A file that was written, and what is in it.
    File(&'a str, &'a [u8]),
    /// Maven has ended and every file was told.
    End,
    /// Anything else.
    Unreadable,
}

/// A splitter at NUL bytes.
#[derive(Debug, Default)]
pub(super) struct Records {
    carry: Vec<u8>,
    too_long: bool,
}

impl Records {
    /// Takes the next bytes and hands every record that they complete to `each`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Record<'_>)) {
        while let Some(end) = memchr(0, bytes) {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            each(if self.too_long { Record::Unreadable } else { read(&self.carry) });
            self.forget();
        }
        self.keep(bytes);
    }

    /// Forgets what has not ended.
    pub(super) fn forget(&mut self) {
        self.carry = Vec::new();
        self.too_long = false;
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

fn read(record: &[u8]) -> Record<'_> {
    if record == b"end\n" {
        return Record::End;
    }
    let Some(at) = memchr(b'\n', record).filter(|at| *at <= NAME_BYTES_MAX) else { return Record::Unreadable };
    let (name, content) = (&record[..at], &record[at + 1..]);
    std::str::from_utf8(name).map_or(Record::Unreadable, |name| Record::File(name, content))
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
    fn a_record_has_a_name_and_a_content() {
        let found = split(&[b"./a.xml\n<a>\n</a>\0end\n\0nothing\0\xff\nx\0half\n"]);
        let file = format!("{:?}", Record::File("./a.xml", b"<a>\n</a>"));
        assert_eq!(found, [file.as_str(), "End", "Unreadable", "Unreadable"]);
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let long = vec![b'\n'; RECORD_BYTES_MAX];
        assert_eq!(split(&[b"a", &long, b"\0end\n\0"]), ["Unreadable", "End"]);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(b'\n'), any::<u8>()], 0..200), at in 0usize..200) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(split(&[&bytes]), split(&[head, tail]));
        }
    }
}
