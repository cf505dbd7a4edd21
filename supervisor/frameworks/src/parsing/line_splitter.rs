//! Splits a byte stream into lines with bounded memory.

use memchr::memchr;

/// Longest line that is read, in bytes. Go wraps every line of test output into one line of JSON, and tests do print documents
/// of some MB; nobody reads a longer line, and the parser must not hold it.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Capacity that the carry-over buffer keeps between lines, so that one long line does not cost memory for ever.
const CARRY_BYTES_KEPT: usize = 256 * 1024;

/// Splits a stream into lines without their newline.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    carry: Vec<u8>,
    skipping: bool,
    skipped: u64,
}

impl LineSplitter {
    /// Adds the next bytes of the stream and passes every completed line to `each`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.skipping {
                self.skipping = false;
            } else if self.carry.is_empty() {
                each(line);
            } else if self.extend_carry(line) {
                each(&self.carry);
                self.clear_carry();
            } else {
                self.skipping = false;
            }
        }
        if !bytes.is_empty() && !self.skipping {
            self.extend_carry(bytes);
        }
    }

    /// Passes what follows the last newline to `each`, if anything does, and resets the splitter.
    pub(crate) fn finish(&mut self, each: impl FnOnce(&[u8])) {
        if !self.carry.is_empty() {
            each(&self.carry);
        }
        self.clear_carry();
        self.skipping = false;
    }

    /// Number of skipped lines, each longer than [`LINE_BYTES_MAX`].
    #[must_use]
    pub(crate) fn skipped_lines(&self) -> u64 {
        self.skipped
    }

    /// Extends the unfinished line; drops it and returns `false` when it exceeds the bound.
    fn extend_carry(&mut self, bytes: &[u8]) -> bool {
        if self.carry.len() + bytes.len() > LINE_BYTES_MAX {
            self.clear_carry();
            self.skipping = true;
            self.skipped += 1;
            return false;
        }
        self.carry.extend_from_slice(bytes);
        true
    }

    fn clear_carry(&mut self) {
        self.carry.clear();
        self.carry.shrink_to(CARRY_BYTES_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let mut lines = LineSplitter::default();
        let mut out = Vec::new();
        for chunk in chunks {
            lines.feed(chunk, |line| out.push(line.to_vec()));
        }
        lines.finish(|line| out.push(line.to_vec()));
        (out, lines.skipped_lines())
    }

    proptest! {
        #[test]
        fn splits_the_same_lines_for_any_chunks(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200), at in 0usize..200) {
            let at = at.min(bytes.len());
            let (head, tail) = bytes.split_at(at);
            prop_assert_eq!(split(&[&bytes]), split(&[head, tail]));
        }
    }

    #[test]
    fn skips_a_line_past_the_bound_and_reads_the_next() {
        let long = vec![b'x'; LINE_BYTES_MAX];
        let (lines, skipped) = split(&[b"a\n", &long, b"xx\nb\n", b"c"]);
        assert_eq!(lines, [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
        assert_eq!(skipped, 1);
    }
}
