//! Tests with what the recorder left of `fixtures/cargo/lines`, and with changed copies of it. `samples/make.sh` makes them.

use super::super::execution_records::{ExecutionRecord, RECORDS_MIB_MAX, RecordKind, parse_records};
use super::*;
use flate2::{Compress, Compression, FlushCompress};

const MAP: &[u8] = include_bytes!("../samples/library.map");
const RECORDS: &[u8] = include_bytes!("../samples/library.records");

fn relative(path: &str) -> Option<String> {
    path.strip_prefix("/tmp/proctor-samples/workspace/").map(str::to_owned)
}

fn spans(lines: FileLines) -> Vec<(String, Vec<(u32, u32)>)> {
    let pairs = |spans: GrowingSpans| spans.into_united().into_iter().map(|span| (span.first, span.last)).collect();
    lines.into_iter().map(|(path, spans)| (path, pairs(spans))).collect()
}

type Pieces = (Vec<u8>, u64, Vec<u8>, Vec<u8>, Vec<u8>);

/// The four pieces of a map behind its first line, and the number of functions.
fn pieces(map: &[u8]) -> Pieces {
    let mut reader = ByteReader::new(&map[MAGIC.len() + 1..]);
    let target = reader.sized().unwrap().to_vec();
    let count = reader.u64().unwrap();
    let functions = reader.bytes(usize::try_from(count).unwrap() * FUNCTION_BYTES).unwrap().to_vec();
    (target, count, functions, reader.sized().unwrap().to_vec(), reader.sized().unwrap().to_vec())
}

fn joined((target, count, functions, names, mappings): Pieces) -> Vec<u8> {
    let sized = |bytes: Vec<u8>| [u64::try_from(bytes.len()).unwrap().to_le_bytes().to_vec(), bytes].concat();
    let magic = format!("{MAGIC}\n").into_bytes();
    [magic, sized(target), count.to_le_bytes().to_vec(), functions, sized(names), sized(mappings)].concat()
}

fn parse(map: &[u8]) -> Result<ProgramMap, MapError> {
    ProgramMap::parse(map, relative, &mut MapBudget::default())
}

fn failure(map: &[u8]) -> MapError {
    parse(map).unwrap_err()
}

fn executed(map: &ProgramMap, record: &ExecutionRecord<'_>) -> FileLines {
    let mut lines = FileLines::new();
    map.add_executed(&record.counts().unwrap(), &mut 10_000, &mut lines).unwrap();
    lines
}

#[test]
fn knows_the_executable_lines_of_a_program() {
    let map = parse(MAP).unwrap();
    let target = ProgramTarget { package: "lines".to_owned(), kind: TargetKind::Lib, crate_name: "lines".to_owned() };
    assert_eq!(map.target, Some(target));
    let tests = [(44, 46), (49, 51), (54, 56), (59, 61), (65, 67)];
    // The end of the loop is in no region.
    let product = [(4, 9), (11, 13), (16, 22), (24, 25), (28, 30), (35, 37)];
    let expected = product.into_iter().chain(tests).collect::<Vec<_>>();
    assert_eq!(spans(map.executable()), [("src/lib.rs".to_owned(), expected)]);
}

#[test]
fn knows_the_lines_that_each_test_executed() {
    let map = parse(MAP).unwrap();
    let (records, is_whole) = parse_records(RECORDS);
    assert!(is_whole);
    let executed = records.iter().map(|record| {
        let lines = spans(executed(&map, record));
        (record.kind.clone(), lines.into_iter().flat_map(|(_, spans)| spans).collect::<Vec<_>>())
    });
    let test = |name: &str| RecordKind::Test(format!("tests::{name}"));
    let expected = [
        (RecordKind::Outside, vec![]),
        (test("first_is_largest"), vec![(16, 20), (22, 22), (24, 25), (54, 56)]),
        (test("ignored"), vec![]),
        (test("last_is_largest"), vec![(16, 22), (24, 25), (59, 61)]),
        (test("refunds"), vec![(4, 6), (9, 9), (11, 13), (49, 51)]),
        (test("taxes"), vec![(4, 5), (7, 9), (44, 46)]),
        (RecordKind::Outside, vec![]),
    ];
    assert_eq!(executed.collect::<Vec<_>>(), expected);
}

#[test]
fn stops_when_the_work_is_used_up() {
    let map = parse(MAP).unwrap();
    let (records, _) = parse_records(RECORDS);
    let counts = records[1].counts().unwrap();
    let mut work_left = 10_000;
    assert!(map.add_executed(&counts, &mut work_left, &mut FileLines::new()).is_some());
    let work = 10_000 - work_left;
    assert!(work > 0 && map.add_executed(&counts, &mut { work }, &mut FileLines::new()).is_some());
    assert_eq!(map.add_executed(&counts, &mut (work - 1), &mut FileLines::new()), None);
}

#[test]
fn all_programs_of_a_run_share_what_is_read() {
    let mut budget = MapBudget::default();
    ProgramMap::parse(MAP, relative, &mut budget).unwrap();
    let (work, names_bytes) = (WORK_MAX - budget.work, NAMES_BYTES_MAX - budget.names_bytes);
    assert!(work > 0 && names_bytes > 0);
    for few in [MapBudget { work: 2 * work - 1, ..budget }, MapBudget { names_bytes: 2 * names_bytes - 1, ..budget }] {
        let mut few = few;
        assert!(ProgramMap::parse(MAP, relative, &mut few).is_ok());
        assert_eq!(ProgramMap::parse(MAP, relative, &mut few).unwrap_err(), MapError::TooLarge);
    }
}

#[test]
fn has_no_lines_outside_of_the_workspace() {
    let map = ProgramMap::parse(MAP, |_| None, &mut MapBudget::default()).unwrap();
    assert!(map.executable().is_empty());
    let elsewhere = |path: &str| path.strip_prefix("/tmp/").map(str::to_owned);
    let map = ProgramMap::parse(MAP, elsewhere, &mut MapBudget::default()).unwrap();
    let paths: Vec<String> = map.executable().into_keys().collect();
    assert_eq!(paths, ["proctor-samples/workspace/src/lib.rs"]);
}

#[test]
fn every_cut_map_is_damaged() {
    assert_eq!(joined(pieces(MAP)), MAP);
    for len in 0..MAP.len() {
        assert_eq!(failure(&MAP[..len]), MapError::Damaged, "{len}");
    }
    assert_eq!(failure(&[MAP, b"x"].concat()), MapError::Damaged);
}

#[test]
fn an_unknown_version_of_the_mapping_is_named() {
    let mut parts = pieces(MAP);
    parts.3[12..16].copy_from_slice(&7_u32.to_le_bytes());
    assert_eq!(failure(&joined(parts)).to_string(), "version 8 of LLVM's coverage mapping is not known");
}

#[test]
fn sections_are_read_within_their_length() {
    let changes: [fn(&mut Pieces); 5] = [
        |parts| parts.3[4..8].copy_from_slice(&u32::MAX.to_le_bytes()),
        |parts| parts.4[8..12].copy_from_slice(&u32::MAX.to_le_bytes()),
        |parts| parts.4[20..28].copy_from_slice(&1_u64.to_le_bytes()),
        |parts| parts.1 += 1,
        |parts| _ = parts.3.drain(16..),
    ];
    for change in changes {
        let mut parts = pieces(MAP);
        change(&mut parts);
        assert_eq!(failure(&joined(parts)), MapError::Damaged);
    }
}

#[test]
fn a_program_whose_counters_or_mapping_the_recorder_left_out_is_not_read() {
    let mut parts = pieces(MAP);
    parts.1 = u64::MAX;
    assert_eq!(failure(&joined(parts)), MapError::Counters);
    let mut parts = pieces(MAP);
    parts.4.clear();
    assert_eq!(failure(&joined(parts)), MapError::NoMapping);
}

#[test]
fn a_program_with_too_many_counters_is_not_read() {
    let mut parts = pieces(MAP);
    parts.2[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(failure(&joined(parts)), MapError::TooLarge);
    let mut parts = pieces(MAP);
    parts.2[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(failure(&joined(parts)), MapError::TooLarge, "a counter beyond the last number");
}

#[test]
fn compressed_names_are_read_up_to_the_length_that_they_claim() {
    let mut compressed = Vec::with_capacity(100_000);
    let zeros = vec![0_u8; 20 * 1024 * 1024];
    Compress::new(Compression::fast(), true).compress_vec(&zeros, &mut compressed, FlushCompress::Finish).unwrap();
    let leb = |value: usize| {
        let septet = |shift: usize| u8::try_from(value >> shift & 0x7f).unwrap();
        [septet(0) | 0x80, septet(7) | 0x80, septet(14) | 0x80, septet(21)]
    };
    let encoded = |claimed: usize| {
        let head = [leb(3), leb(claimed), leb(compressed.len())].concat();
        [head, compressed.clone()].concat()
    };
    let budget = || MapBudget { work: 0, names_bytes: 16 * MIB };
    let names = |claimed| parse_names(&encoded(claimed), &mut budget());
    assert_eq!(names(zeros.len()), Err(MapError::TooLarge));
    assert_eq!(names(2), Err(MapError::Damaged), "a third name has no byte");
    assert_eq!(names(3), Ok(vec![String::new(); 3]));
    let mut broken = encoded(3);
    broken[13] ^= 0xff;
    assert_eq!(parse_names(&broken, &mut budget()), Err(MapError::Damaged));
}

#[test]
fn a_program_without_tests_has_no_target() {
    for text in ["", "lines\nlib", "lines\nother\nlines", "lines"] {
        assert_eq!(parse_target(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_target(&[0xff, b'\n']), None);
}

#[test]
fn the_recorder_has_the_bounds_of_its_reader() {
    let recorder = include_str!("../recorder.c");
    for line in [
        format!("#define MAGIC \"{MAGIC}\"\n"),
        format!("#define RECORDS_MIB {RECORDS_MIB_MAX}\n"),
        format!("#define SECTION_MIB {SECTION_MIB_MAX}\n"),
    ] {
        assert!(recorder.contains(&line), "{line}");
    }
}
