//! Tests of the sets of tests with their lines, with the sample of `program_map` and records of processes around it.

use super::execution_records::tests::record;
use super::*;

const MAP: &[u8] = include_bytes!("samples/library.map");
const WORKSPACE: &str = "/tmp/proctor-samples/workspace";

/// All counters of the sample, each with 1: lines of a difference are not executed.
fn every_counter() -> Vec<u8> {
    [1, 1].repeat(40)
}

/// A map of a program without tests of its own, with the sample's functions.
fn map_without_target() -> Vec<u8> {
    let head = program_map::MAGIC.len() + 1;
    let len = usize::from(MAP[head]);
    [&MAP[..head], &[0; 8], &MAP[head + 8 + len..]].concat()
}

fn harvest(files: &[(&str, Vec<u8>)], finished: &[(&str, &[&str])]) -> (Vec<String>, Vec<String>) {
    let artifacts: Vec<(String, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (format!("cargo-lines/{name}"), bytes.clone())).collect();
    let names = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
    let finished: Finished = finished.iter().map(|(package, tests)| ((*package).to_owned(), names(tests))).collect();
    let projects = [Project { dir: String::new(), name: "lines".to_owned() }];
    let harvest = ingest("cargo", &projects, WORKSPACE, &artifacts, &finished);
    let sets = harvest.measured.iter().map(|set| {
        let lines: u32 = set.files.iter().flat_map(|(_, spans)| spans).map(|span| span.last - span.first + 1).sum();
        let processes = if set.started_processes { ", processes" } else { "" };
        let incomplete = if set.complete { "" } else { ", incomplete" };
        let tests = set.tests.join(" ");
        format!("{}: {tests} by {:?}: {lines} lines{processes}{incomplete}", set.package, set.attribution)
    });
    (sets.collect(), harvest.notes)
}

const PROCESS: (u32, u32) = (10, 1);

#[test]
fn each_test_has_its_lines_and_all_have_those_outside_of_tests() {
    let records = [
        record((b'O', 0, ""), PROCESS, [5, 5, 9], &every_counter()),
        record((b'T', 0, "a"), PROCESS, [5, 9, 12], &every_counter()),
        record((b'T', 1, "b"), PROCESS, [5, 12, 15], &[]),
        record((b'T', 0, "unfinished"), PROCESS, [5, 15, 18], &every_counter()),
        record((b'T', 4, "ignored"), PROCESS, [5, 18, 19], &[]),
    ]
    .concat();
    let files = [("1.map", MAP.to_vec()), ("1.records", records)];
    let (sets, notes) = harvest(&files, &[("lines", &["a", "b", "ignored"]), ("tests/test_a.py", &["x"])]);
    let all = "lines: a b by Package: 33 lines";
    assert_eq!(sets, ["lines: a by Test: 33 lines", all, "lines: b by Test: 0 lines, processes"]);
    let note =
        "1 test(s) started processes, of which only lines of the workspace's own programs are measured: b of lines";
    assert_eq!(notes, [note]);
}

#[test]
fn tests_that_ran_at_the_same_time_share_their_lines() {
    let records = [
        record((b'T', 2, "a"), PROCESS, [5, 9, 12], &every_counter()),
        record((b'T', 2, "b"), PROCESS, [5, 12, 15], &every_counter()),
    ]
    .concat();
    let files = [("1.map", MAP.to_vec()), ("1.records", records)];
    let (sets, notes) = harvest(&files, &[("lines", &["a", "b"])]);
    assert_eq!(sets, ["lines: a b by Package: 33 lines"]);
    assert_eq!(notes, ["coverage of lines is known by package, not by test: its tests ran at the same time"]);
}

#[test]
fn a_program_belongs_to_the_test_that_started_it() {
    let tests = [
        record((b'T', 0, "a"), PROCESS, [5, 10, 20], &[]),
        record((b'T', 0, "b"), PROCESS, [5, 20, 30], &[]),
        record((b'O', 0, ""), PROCESS, [5, 30, 31], &[]),
        // The test program itself, started by a test.
        record((b'T', 0, "a"), (12, 10), [25, 26, 27], &every_counter()),
    ]
    .concat();
    let child = record((b'O', 0, ""), (11, 10), [15, 15, 16], &every_counter());
    // A child of a shell, which left no records, and one of another time.
    let more = [
        record((b'O', 0, ""), (14, 13), [22, 22, 23], &every_counter()),
        record((b'O', 0, ""), (15, 13), [40, 40, 41], &every_counter()),
    ]
    .concat();
    let files = [
        ("1.map", MAP.to_vec()),
        ("1.records", tests),
        ("2.map", map_without_target()),
        ("2.records", [child, more].concat()),
    ];
    let (sets, notes) = harvest(&files, &[("lines", &["a", "b"])]);
    assert_eq!(sets, ["lines: a by Test: 33 lines", "lines: b by Test: 33 lines"]);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_process_of_nextest_has_one_test() {
    let records = [
        record((b'N', 0, "a"), (10, 1), [5, 5, 30], &every_counter()),
        record((b'N', 0, "b"), (11, 1), [6, 6, 29], &[]),
        record((b'N', 0, "b"), (12, 10), [7, 7, 8], &every_counter()),
    ]
    .concat();
    let files = [("1.map", MAP.to_vec()), ("1.records", records)];
    let (sets, _) = harvest(&files, &[("lines", &["a", "b"])]);
    assert_eq!(sets, ["lines: a by Test: 33 lines", "lines: b by Test: 0 lines"], "the third is a child of a");
    // A process whose parent is unknown, while several tests run, may be of each.
    let child = record((b'O', 0, ""), (13, 9), [8, 8, 9], &every_counter());
    let records = [record((b'N', 0, "a"), (10, 1), [5, 5, 30], &[]), record((b'N', 0, "b"), (11, 1), [6, 6, 29], &[])];
    let files = [
        ("1.map", MAP.to_vec()),
        ("1.records", records.concat()),
        ("2.map", map_without_target()),
        ("2.records", child),
    ];
    let (sets, _) = harvest(&files, &[("lines", &["a", "b"])]);
    let both = "lines: a b by Package: 33 lines";
    assert_eq!(sets, ["lines: a by Test: 0 lines", both, "lines: b by Test: 0 lines"]);
}

#[test]
fn a_program_with_a_harness_of_its_own_is_one_set() {
    let records = record((b'O', 0, ""), PROCESS, [5, 5, 9], &every_counter());
    let files = [("1.map", MAP.to_vec()), ("1.records", records)];
    let (sets, notes) = harvest(&files, &[("lines", &["x", "y"]), ("lines::doc/lib", &["z"]), ("lines::it", &["w"])]);
    assert_eq!(sets, ["lines: x y by Package: 33 lines"]);
    let without = "no coverage of lines::it: the test program ended early, or was built without instrumentation";
    assert_eq!(notes, ["coverage of documentation tests is not measured", without]);
}

#[test]
fn what_cannot_be_read_has_a_note() {
    let test_of = |name| record((b'T', 0, name), PROCESS, [5, 9, 12], &every_counter());
    let test = test_of("a");
    let mut cut = MAP.to_vec();
    cut.truncate(400);
    let files = [
        ("1.map", MAP.to_vec()),
        ("1.records", test[..test.len() - 1].to_vec()),
        ("2.map", cut),
        ("2.records", test),
        ("3.records", Vec::new()),
    ];
    let (sets, notes) = harvest(&files, &[("lines", &["a"])]);
    assert_eq!(sets, [""; 0]);
    let all = [test_of("a"), test_of("b")[..9].to_vec()].concat();
    let (sets, _) = harvest(&[("1.map", MAP.to_vec()), ("1.records", all)], &[("lines", &["a", "b"])]);
    assert_eq!(sets, ["lines: a by Test: 33 lines, incomplete"], "which tests lack lines is not known");
    let expected = [
        "coverage is not complete: the program did not say which lines its counters count",
        "coverage is not complete: the records of lines are cut off or damaged",
        "coverage is not complete: what the program says of its counters is damaged or cut off",
        "no coverage of lines: the test program ended early, or was built without instrumentation",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn a_run_of_which_no_program_could_be_measured_has_a_note() {
    let (sets, notes) = harvest(&[("requested", Vec::new())], &[("lines", &["a"]), ("go.example/m", &["TestA"])]);
    let note = "no coverage of lines: the test program ended early, or was built without instrumentation";
    assert_eq!((sets, notes), (Vec::new(), vec![note.to_owned()]));
}

#[test]
fn a_run_without_measurement_has_no_notes() {
    assert_eq!(harvest(&[], &[("lines", &["a"])]), (Vec::new(), Vec::new()));
}

#[test]
fn a_program_and_an_example_of_one_name_differ_in_their_tests() {
    let target = |kind| ProgramTarget { package: "p".to_owned(), kind, crate_name: "it_x".to_owned() };
    let content = record((b'T', 0, "second"), PROCESS, [5, 9, 12], &[]);
    let (records, _) = parse_records(&content);
    let finished: Finished = [("p", "a"), ("p::bin/it-x", "first"), ("p::example/it-x", "second"), ("p::it-x", "b")]
        .into_iter()
        .map(|(package, test)| (package.to_owned(), BTreeSet::from([test.to_owned()])))
        .collect();
    let found = |kind| package_of(&target(kind), &records, &finished);
    assert_eq!(found(TargetKind::Bin).as_deref(), Some("p::example/it-x"));
    assert_eq!(found(TargetKind::Test).as_deref(), Some("p::it-x"));
    assert_eq!(found(TargetKind::Lib).as_deref(), Some("p"));
}

#[test]
fn many_records_of_the_same_tests_are_quickly_one_set() {
    let names: Vec<String> = (0..4_000).map(|number| format!("test_{number:04}")).collect();
    let tests = names.iter().zip(0..).flat_map(|(name, number): (&String, u64)| {
        let times = [5, 10 + 2 * number, 11 + 2 * number];
        [record((b'T', 0, name), PROCESS, times, &[]), record((b'O', 0, ""), PROCESS, times, &[1, 1])].concat()
    });
    let children = (0..4_000_u32).flat_map(|number| {
        let began = 10 + 2 * u64::from(number);
        record((b'O', 0, ""), (11 + number, PROCESS.0), [began, began, began + 1], &[1, 1])
    });
    let files = [("1.map", MAP.to_vec()), ("1.records", tests.collect()), ("2.map", map_without_target())];
    let files = [&files[..], &[("2.records", children.collect())]].concat();
    let finished: Vec<&str> = names.iter().map(String::as_str).collect();
    let (sets, notes) = harvest(&files, &[("lines", &finished)]);
    assert_eq!((sets.len(), notes), (4_001, Vec::new()));
    assert!(
        sets.iter().all(|set| set.contains("by Test: 6 lines") || set.contains("by Package: 6 lines")),
        "{}",
        sets[9]
    );
}
