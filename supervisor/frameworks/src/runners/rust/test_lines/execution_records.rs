//! Reads what the recorder (`recorder.c`) appends while a program runs: one record for each test, and for what ran outside of
//! tests, with the counters that are not 0.
//!
//! A record is its length, a kind, flags, the process and its parent, the times when the process, the record and its end were,
//! a name behind its length, then pairs in LEB128: the distance to the counter from the last one, and its value. A test can
//! write such a file itself; its size is bounded.

use super::byte_reader::ByteReader;

/// Most MiB of the records of one program: 10,000 tests that execute 500 counters each.
pub(super) const RECORDS_MIB_MAX: usize = 16;

/// Most records of one program.
const RECORDS_MAX: usize = 200_000;

/// Flags.
const REAPED_CHILD: u8 = 1;
const OVERLAPS: u8 = 2;
const IGNORED: u8 = 4;

/// What a record is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// What ran before, between and after tests, or in a program without any.
    Outside,
    /// A test that libtest's harness named.
    Test(String),
    /// The one test of a process of nextest.
    OnlyTest(String),
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExecutionRecord<'a> {
    pub(super) kind: RecordKind,
    /// Whether a child process ended meanwhile.
    pub(super) reaped_child: bool,
    /// Whether the test ran at the same time as another one.
    pub(super) overlaps: bool,
    /// Whether the harness named the test and did not run it.
    pub(super) ignored: bool,
    pub(super) process: u32,
    pub(super) parent: u32,
    /// When the process began, and the record began and ended: nanoseconds of one clock for all processes.
    pub(super) process_began: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
    pairs: &'a [u8],
}

impl<'a> ExecutionRecord<'a> {
    fn parse(bytes: &'a [u8]) -> Option<ExecutionRecord<'a>> {
        let mut reader = ByteReader::new(bytes);
        let (kind, flags) = (reader.byte()?, reader.byte()?);
        let (process, parent) = (reader.u32()?, reader.u32()?);
        let (process_began, began, ended) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let name_len = usize::try_from(reader.u32()?).ok()?;
        let name = std::str::from_utf8(reader.bytes(name_len)?).ok()?;
        let kind = match kind {
            b'O' => RecordKind::Outside,
            // As in libtest's JSON.
            b'T' => RecordKind::Test(serde_json::from_str(&format!("\"{name}\"")).ok()?),
            b'N' => RecordKind::OnlyTest(name.to_owned()),
            _ => return None,
        };
        let pairs = reader.bytes(bytes.len() - HEAD_BYTES - name_len)?;
        let has = |flag: u8| flags & flag != 0;
        Some(ExecutionRecord {
            kind,
            reaped_child: has(REAPED_CHILD),
            overlaps: has(OVERLAPS),
            ignored: has(IGNORED),
            process,
            parent,
            process_began,
            began,
            ended,
            pairs,
        })
    }

    /// Counters that are not 0, sorted by number; `None` if they are damaged.
    pub(super) fn counts(&self) -> Option<Vec<(u32, u64)>> {
        let mut reader = ByteReader::new(self.pairs);
        let (mut counts, mut last) = (Vec::new(), 0_u32);
        while !reader.is_empty() {
            last = last.checked_add(reader.leb128_u32().filter(|distance| *distance > 0)?)?;
            counts.push((last - 1, reader.leb128()?));
        }
        Some(counts)
    }
}

/// Bytes of a record before its name.
const HEAD_BYTES: usize = 38;

/// Reads the records of a file, and whether it is whole. What is behind a damaged record is left out.
pub(super) fn parse_records(content: &[u8]) -> (Vec<ExecutionRecord<'_>>, bool) {
    // Processes append at the same time, so that the sign that a record is missing may lie beyond the bound.
    if content.len() > (RECORDS_MIB_MAX + 1) * 1024 * 1024 {
        return (Vec::new(), false);
    }
    let mut reader = ByteReader::new(content);
    let mut records = Vec::new();
    while !reader.is_empty() {
        let len = reader.u32().and_then(|len| usize::try_from(len).ok());
        let record = len.and_then(|len| reader.bytes(len)).and_then(ExecutionRecord::parse);
        match record {
            Some(record) if records.len() < RECORDS_MAX => records.push(record),
            _ => return (records, false),
        }
    }
    (records, true)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record as the recorder writes it.
    pub(in super::super) fn record(
        (kind, flags, name): (u8, u8, &str),
        (process, parent): (u32, u32),
        times: [u64; 3],
        pairs: &[u8],
    ) -> Vec<u8> {
        let mut bytes = vec![kind, flags];
        bytes.extend([process, parent].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(times.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(pairs);
        [u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec(), bytes].concat()
    }

    #[test]
    fn reads_records_with_their_counters() {
        let content = [
            record((b'O', 0, ""), (7, 1), [5, 5, 9], &[]),
            record((b'T', 7, "a::\\u00e9"), (7, 1), [5, 9, 12], &[1, 2, 3, 0x80, 0x01]),
            record((b'N', 0, "b"), (8, 1), [6, 6, 7], &[4, 1]),
        ]
        .concat();
        let (records, is_whole) = parse_records(&content);
        assert!(is_whole);
        assert_eq!(records[0].kind, RecordKind::Outside);
        assert_eq!(records[1].kind, RecordKind::Test("a::é".to_owned()));
        assert_eq!(records[1].counts().unwrap(), [(0, 2), (3, 128)]);
        assert!(records[1].reaped_child && records[1].overlaps && records[1].ignored && !records[0].reaped_child);
        let of = |record: &ExecutionRecord<'_>| (record.process, record.parent, record.process_began, record.ended);
        assert_eq!((of(&records[2]), records[2].began), ((8, 1, 6, 7), 6));
    }

    #[test]
    fn leaves_out_what_is_behind_a_damaged_record() {
        let whole = [record((b'N', 0, "b"), (8, 1), [6, 6, 7], &[4, 1]), record((b'O', 0, ""), (9, 1), [6, 6, 7], &[])];
        let content = whole.concat();
        for len in 1..content.len() {
            let (records, is_whole) = parse_records(&content[..len]);
            assert_eq!(is_whole, len == whole[0].len(), "{len}");
            assert_eq!(records.len(), usize::from(len >= whole[0].len()));
        }
        for forged in [
            record((b'X', 0, ""), (8, 1), [6, 6, 7], &[]),
            record((b'T', 0, "a\"b"), (8, 1), [6, 6, 7], &[]),
            u32::MAX.to_le_bytes().to_vec(),
            [&4_u32.to_le_bytes()[..], &[b'O', 0, 1, 2]].concat(),
        ] {
            assert_eq!(parse_records(&forged), (Vec::new(), false));
        }
    }

    #[test]
    fn rejects_counters_that_are_damaged() {
        for pairs in [&[0, 1][..], &[1], &[1, 0x80], &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 1]] {
            let content = record((b'O', 0, ""), (7, 1), [5, 5, 9], pairs);
            assert_eq!(parse_records(&content).0[0].counts(), None, "{pairs:?}");
        }
    }
}
