//! Tests of the files with the lines of each test.

use super::process_lines::{FILE_SHIFT, OWN_LINE, SPANS_BYTES_MAX};
use super::*;
use crate::parsing::workspace_paths::leaves_workspace;
use proctor_core::coverage::{LineSpan, LoadedSource};
use proptest::prelude::*;

const A: &str = "sub/test_a.py";
const B: &str = "sub/test_b.py";

fn finished() -> BTreeMap<String, BTreeSet<String>> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    BTreeMap::from([(A.to_owned(), names(&["test_x", "test_y"])), (B.to_owned(), names(&["T::test_z"]))])
}

fn record(json: &str, words: &[u32]) -> Vec<u8> {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    [json.as_bytes(), b"\n", &words].concat()
}

fn word(file: u32, line: u32) -> u32 {
    (file << FILE_SHIFT) | line
}

/// Two test files that share a fixture and import a module, one test of which never finished.
fn content() -> Vec<u8> {
    [
        record(r#"{"kind":"file","path":"src/m.py"}"#, &[]),
        record(r#"{"kind":"file","path":"sub/test_a.py"}"#, &[]),
        record(r#"{"kind":"packages","of":null,"n":3}"#, &[word(0, 1), word(0, 0), word(1, 1)]),
        record(r#"{"kind":"dir","path":"sub"}"#, &[]),
        record(r#"{"kind":"fixture","of":7,"n":1}"#, &[word(0, 20)]),
        record(
            r#"{"kind":"test","package":"test_a.py","name":"test_x","uses":[7,9],"processes":true,"n":4}"#,
            &[word(0, 6), word(0, 5), word(0, 5), word(0, 9) | OWN_LINE],
        ),
        record(r#"{"kind":"packages","of":["test_a.py","test_none.py"],"n":1}"#, &[word(0, 30)]),
        record(r#"{"kind":"test","package":"./test_b.py","name":"T::test_z","uses":[],"processes":false,"n":0}"#, &[]),
        record(
            r#"{"kind":"test","package":"test_b.py","name":"test_unfinished","uses":[7],"processes":false,"n":1}"#,
            &[5],
        ),
        record(r#"{"kind":"imported","files":[0]}"#, &[]),
    ]
    .concat()
}

fn read(content: &[u8]) -> CoverageHarvest {
    let others =
        [("go/17/profile".to_owned(), b"mode: atomic\n".to_vec()), ("pytest-linesx/1".to_owned(), content.to_vec())];
    let own = [("pytest-lines/1".to_owned(), content.to_vec())];
    ingest("pytest", &[&others[..], &own].concat(), &finished())
}

/// Attribution, tests, and lines by file of each measurement.
fn described(harvest: &CoverageHarvest) -> Vec<String> {
    let spans =
        |spans: &[LineSpan]| spans.iter().map(|span| format!("{}-{}", span.first, span.last)).collect::<Vec<_>>();
    let files = |set: &CoverageMeasurement| {
        set.files.iter().map(|(file, lines)| format!("{file}:{}", spans(lines).join(","))).collect::<Vec<_>>().join(" ")
    };
    let sets = harvest.measured.iter();
    sets.map(|set| {
        format!(
            "{:?} {}::{} {} {}",
            set.attribution,
            set.package,
            set.tests.join(","),
            set.started_processes,
            files(set)
        )
    })
    .collect()
}

#[test]
fn reads_which_lines_of_the_loaded_files_can_be_executed() {
    let lines = |of: u32, spans: &str| record(&format!(r#"{{"kind":"lines","of":{of},"spans":"{spans}"}}"#), &[]);
    let hostile = "1,".repeat(SPANS_BYTES_MAX) + "1";
    let records = [lines(0, "1-3,9"), lines(0, "4,20"), lines(1, "9,3"), lines(77, "1"), lines(1, &hostile)];
    let harvest = read(&[content(), records.concat()].concat());
    let span = |first, last| LineSpan { first, last };
    let source = |path: &str, executable| LoadedSource { path: path.to_owned(), executable, text: None };
    let expected = [source("src/m.py", Some(vec![span(1, 4), span(9, 9), span(20, 20)])), source(A, None)];
    assert_eq!(harvest.sources, expected, "a file without sound lines is loaded and not measured");
}

#[test]
fn attributes_lines_to_tests_and_to_those_that_share_them() {
    let harvest = read(&content());
    assert_eq!(
        described(&harvest),
        [
            "Test sub/test_a.py::test_x true src/m.py:5-6,9-9",
            "Test sub/test_b.py::T::test_z false ",
            "File sub/test_a.py::test_x false src/m.py:1-1,9-9,30-30 sub/test_a.py:1-1",
            "File sub/test_b.py::T::test_z false src/m.py:1-1,9-9",
            "File sub/test_a.py::test_x false src/m.py:20-20",
        ]
    );
    assert_eq!(harvest.notes, ["1 test(s) started processes, of which no line is measured: test_x of sub/test_a.py"]);
}

/// A process of two tests, of which so many were to run alone, and the files of those that did.
fn with_alone(sampled: usize, alone: &[&str]) -> CoverageHarvest {
    let file = record(r#"{"kind":"file","path":"src/m.py"}"#, &[]);
    let dir = record(r#"{"kind":"dir","path":"sub"}"#, &[]);
    let test = |package: &str, name: &str, uses: &str, words: &[u32]| {
        let n = words.len();
        let json = format!(
            r#"{{"kind":"test","package":"{package}","name":"{name}","uses":[{uses}],"processes":false,"n":{n}}}"#
        );
        record(&json, words)
    };
    let main = [
        file.clone(),
        dir.clone(),
        record(r#"{"kind":"fixture","of":3,"n":1}"#, &[word(0, 20)]),
        test("test_a.py", "test_x", "3", &[word(0, 5), word(0, 6), word(0, 8)]),
        test("test_b.py", "T::test_z", "3", &[word(0, 5), word(0, 8)]),
        record(&format!(r#"{{"kind":"sampled","tests":{sampled},"seconds":0.1}}"#), &[]),
        record(r#"{"kind":"imported","files":[]}"#, &[]),
    ];
    let mut own = vec![("pytest-lines/1".to_owned(), main.concat())];
    for (number, kind) in (2..).zip(alone) {
        let words = [word(0, 5), word(0, 6), word(0, 8)];
        let records = [
            record(r#"{"kind":"alone"}"#, &[]),
            file.clone(),
            dir.clone(),
            record(r#"{"kind":"fixture","of":1,"n":1}"#, &[word(0, 20)]),
            if *kind == "x" {
                test("test_a.py", "test_x", "", &words)
            } else {
                test("test_b.py", "T::test_z", "", &words)
            },
        ];
        own.push((format!("pytest-lines/{number}"), records.concat()));
    }
    ingest("pytest", &own, &finished())
}

#[test]
fn a_test_that_ran_alone_has_what_it_executed_there() {
    let calibrations = |harvest: &CoverageHarvest| calibrations(&harvest.measured);
    let none = with_alone(0, &[]);
    assert_eq!(calibrations(&none), [Calibration::None; 2]);
    let first = with_alone(1, &["x"]);
    assert_eq!(calibrations(&first), [Calibration::None; 2], "too few");
    assert_eq!(calibrations(&with_alone(2, &["x"])), [Calibration::None; 2], "one of two failed, or had no time");
    let both = with_alone(2, &["x", "z"]);
    assert_eq!(calibrations(&both), [Calibration::Alone; 2]);
    assert_eq!(both.measured.len(), none.measured.len(), "a test that ran alone is no further test");
    // What it executed only alone is its own.
    let [before, after] = [&none, &both].map(|harvest| {
        let of_tests = described(harvest).into_iter().filter(|set| set.starts_with("Test "));
        of_tests.map(|set| set.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(before[1], format!("{B}::T::test_z false src/m.py:5-5,8-8"));
    assert_eq!(after[1], format!("{B}::T::test_z false src/m.py:5-6,8-8,20-20"));
}

#[test]
fn what_is_written_many_times_costs_no_more() {
    let words: Vec<u32> = (1..1_000).map(|line| word(0, 2 * line)).collect();
    let n = words.len();
    let test = |uses: &str| {
        record(
            &format!(
                r#"{{"kind":"test","package":"sub/test_a.py","name":"test_x","uses":[{uses}],"processes":false,"n":0}}"#
            ),
            &[],
        )
    };
    let file = record(r#"{"kind":"file","path":"src/m.py"}"#, &[]);
    let fixture = record(&format!(r#"{{"kind":"fixture","of":0,"n":{n}}}"#), &words);
    let uses = vec!["0"; 50_000].join(",");
    let main = [file.clone(), fixture.clone(), test(&uses), test("0").repeat(10_000)].concat();
    let alone = [record(r#"{"kind":"alone"}"#, &[]), file, fixture, test(&uses)].concat();
    let own = [("pytest-lines/1".to_owned(), main), ("pytest-lines/2".to_owned(), alone)];
    let harvest = ingest("pytest", &own, &finished());
    assert!(harvest.measured.iter().map(|set| set.files.len()).sum::<usize>() < 10);
}

#[test]
fn a_test_file_that_others_import_or_may_import_is_shared_by_all() {
    let text = content();
    let imported = br#"{"kind":"imported","files":[0]}"#;
    let at = text.len() - imported.len() - 1;
    for end in [&b"{\"kind\":\"imported\",\"files\":[0,1]}\n"[..], b""] {
        let harvest = read(&[&text[..at], end].concat());
        let of_b = "File sub/test_b.py::T::test_z false src/m.py:1-1,9-9 sub/test_a.py:1-1";
        assert!(described(&harvest).contains(&of_b.to_owned()), "{:?}", described(&harvest));
    }
}

/// Test files that loaded each other's modules, what Node itself loaded, and what the runner did.
fn with_loads(loads: &str) -> LoadedFiles {
    let runner =
        [record(r#"{"kind":"file","path":"jest.config.js"}"#, &[]), record(r#"{"kind":"runner","files":[0]}"#, &[])];
    let tests = [content(), record(loads, &[])].concat();
    let own = [("pytest-lines/1".to_owned(), tests), ("pytest-lines/2".to_owned(), runner.concat())];
    ingest("pytest", &own, &finished()).loaded
}

#[test]
fn reads_which_files_a_test_file_loaded() {
    let loaded = with_loads(r#"{"kind":"loads","package":"test_a.py","files":[0],"natively":[1]}"#);
    assert_eq!(loaded.test_files_loading(["src/m.py", A]), [A]);
    assert!(loaded.knows(A) && !loaded.knows(B), "a process that does not say it");
    assert_eq!(loaded.runner_files().collect::<Vec<_>>(), ["jest.config.js", A]);
    let shared = [A, B].map(|file| format!(r#"{{"kind":"loads","package":"../{file}","files":[0],"natively":[]}}"#));
    let shared = with_loads(&shared.join("\n"));
    assert!(!shared.knows(A) && !shared.knows(B), "they share their modules");
    let depends = [(A, "0,1"), (B, "1")]
        .map(|(file, files)| format!(r#"{{"kind":"depends","package":"../{file}","files":[{files}]}}"#));
    let depends = with_loads(&depends.join("\n"));
    assert_eq!(depends.test_files_loading(["src/m.py"]), [A], "they share their modules, and say what each depends on");
    let executed = with_loads(r#"{"kind":"depends","package":"test_a.py","files":[]}"#);
    assert_eq!(executed.test_files_loading(["src/m.py"]), [A], "what its tests executed");
    for damaged in [
        r#"{"kind":"loads","package":"test_a.py","files":[9],"natively":[]}"#,
        r#"{"kind":"loads","package":"test_a.py","files":[0],"natively":[9]}"#,
        r#"{"kind":"loads","package":"test_a.py"}"#,
        r#"{"kind":"loads","package":"test_other.py","files":[0],"natively":[]}"#,
    ] {
        assert!(!with_loads(damaged).knows(A), "{damaged}");
    }
}

#[test]
fn lines_outside_of_tests_belong_to_those_that_depend_on_their_file() {
    let shared = |more: &[&str]| {
        let more: Vec<u8> = more.iter().flat_map(|text| record(text, &[])).collect();
        let harvest = read(&[content(), more].concat());
        let of_b = described(&harvest).into_iter().find(|set| set.starts_with("File sub/test_b.py"));
        of_b.unwrap_or_default()
    };
    let depends = r#"{"kind":"depends","package":"test_b.py","files":[]}"#;
    let of_all = |files: &str| format!(r#"{{"kind":"runner","files":[{files}]}}"#);
    let all = "File sub/test_b.py::T::test_z false src/m.py:1-1,9-9";
    assert_eq!(shared(&[depends]), all, "what all depend on is not known");
    assert_eq!(shared(&[&of_all("")]), all);
    assert_eq!(shared(&[depends, &of_all("0")]), all);
    assert_eq!(shared(&[depends, &of_all("")]), "File sub/test_b.py::T::test_z false ");
}

#[test]
fn a_damaged_file_is_read_up_to_the_damage() {
    let text = content();
    let whole = described(&read(&text)).len();
    for cut in [text.len() - 1, 100, 3] {
        let harvest = read(&text[..cut]);
        assert!(described(&harvest).len() <= whole);
        assert!(harvest.notes.iter().any(|note| note.contains("damaged or cut off")), "{:?}", harvest.notes);
    }
    let forged = [
        r#"{"kind":"test","package":"test_a.py","name":"test_x","uses":[],"processes":false,"n":4294967295}"#,
        r#"{"kind":"unknown"}"#,
        "[]",
    ];
    for line in forged {
        let harvest = read(&record(line, &[1]));
        assert_eq!((harvest.measured.len(), harvest.notes.len()), (0, 1), "{line}");
    }
}

#[test]
fn paths_outside_of_the_workspace_have_no_lines() {
    for path in ["/etc/passwd", "../x.py", "a/../../x.py", ""] {
        let file = record(&serde_json::json!({"kind": "file", "path": path}).to_string(), &[]);
        let dir = record(r#"{"kind":"dir","path":"../sub"}"#, &[]);
        let test = r#"{"kind":"test","package":"test_a.py","name":"test_x","uses":[],"processes":false,"n":2}"#;
        let harvest = read(&[file, dir, record(test, &[word(0, 1), word(8000, 1)])].concat());
        assert!(harvest.measured.iter().all(|set| set.files.is_empty()), "{path}: {:?}", harvest.measured);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>()) {
        let mut text = content();
        let at = at.index(text.len());
        text.splice(at.., bytes);
        for set in read(&text).measured {
            prop_assert!(finished()[&set.package].contains(&set.tests[0]));
            for (file, spans) in &set.files {
                prop_assert!(!leaves_workspace(file));
                prop_assert!(spans.iter().all(|span| 1 <= span.first && span.first <= span.last));
                prop_assert!(spans.is_sorted_by(|one, next| one.last + 1 < next.first));
            }
        }
    }
}

/// A process of eight tests, of which five ran alone: what it measured of all of them.
fn with_sample(kept: &[u32], of_tests: &[u32], alone: impl Fn(&str) -> Vec<u32>) -> Vec<CoverageMeasurement> {
    let file = record(r#"{"kind":"file","path":"src/m.py"}"#, &[]);
    let names = ["test_x", "test_y", "test_w", "test_v", "test_u", "test_t", "test_s", "test_r"];
    let finished = BTreeMap::from([("test_a.py".to_owned(), names.map(str::to_owned).into())]);
    let test = |name: &str, seconds: &str, words: &[u32]| {
        let n = words.len();
        let json = format!(
            r#"{{"kind":"test","package":"test_a.py","name":"{name}","uses":[],"processes":false,"seconds":{seconds},"n":{n}}}"#
        );
        record(&json, words)
    };
    // One that is slow, and one that failed or changed something.
    let seconds = |name: &str| match name {
        "test_x" => "0.2",
        "test_y" => "null",
        _ => "0.1",
    };
    let mut main = vec![file.clone()];
    main.extend(names.iter().map(|name| test(name, seconds(name), of_tests)));
    main.push(record(r#"{"kind":"sampled","tests":5,"seconds":0.1}"#, &[]));
    main.push(record(&format!(r#"{{"kind":"kept","n":{}}}"#, kept.len()), kept));
    main.push(record(r#"{"kind":"imported","files":[]}"#, &[]));
    let mut own = vec![("pytest-lines/0".to_owned(), main.concat())];
    for name in &names[2..7] {
        let alone = [record(r#"{"kind":"alone"}"#, &[]), file.clone(), test(name, "null", &alone(name))].concat();
        own.push((format!("pytest-lines/{name}"), alone));
    }
    ingest("pytest", &own, &finished).measured
}

fn calibrations(measured: &[CoverageMeasurement]) -> Vec<Calibration> {
    let of_tests = measured.iter().filter(|set| set.attribution == Attribution::Test);
    of_tests.map(|set| set.calibration).collect()
}

#[test]
fn tests_that_cannot_be_in_the_sample_are_not_calibrated() {
    let found = calibrations(&with_sample(&[], &[], |_| Vec::new()));
    let expected = [&[Calibration::None; 2][..], &[Calibration::Alone; 5], &[Calibration::BySample]].concat();
    assert_eq!(found, expected);
    // One that executed less alone than beside the others took another way.
    let lines = [word(0, 5), word(0, 6)];
    let found = calibrations(&with_sample(&[], &lines, |name| lines[usize::from(name == "test_u")..].to_vec()));
    let others =
        [Calibration::Alone, Calibration::Alone, Calibration::BySample, Calibration::Alone, Calibration::Alone];
    assert_eq!(found, [&[Calibration::None; 2][..], &others, &[Calibration::BySample]].concat());
}

#[test]
fn what_other_tests_may_have_executed_belongs_to_those_that_did_not_run_alone() {
    let kept = [word(0, 9), word(0, 8), word(0, 9)];
    let measured = with_sample(&kept, &[], |name| if name == "test_v" { vec![word(0, 6)] } else { Vec::new() });
    let shared: Vec<&CoverageMeasurement> = measured.iter().filter(|set| !set.kept.is_empty()).collect();
    let [one] = shared[..] else { panic!("{shared:?}") };
    assert_eq!(one.tests, ["test_x", "test_y", "test_r"]);
    let lines = |first, last| vec![("src/m.py".to_owned(), vec![LineSpan { first, last }])];
    assert_eq!((&one.files, &one.kept), (&lines(6, 6), &lines(8, 9)));
}

#[test]
fn forged_names_of_test_files_cost_no_more_than_their_words() {
    let names = vec!["\"test_a.py\""; 20_000].join(",");
    let words = vec![word(0, 1); 20_000];
    let shared = record(&format!(r#"{{"kind":"packages","of":[{names}],"n":20000}}"#), &words);
    let finished = BTreeMap::from([("test_a.py".to_owned(), BTreeSet::new())]);
    let process = ProcessLines::parse(&shared, &finished);
    assert_eq!(process.packages["test_a.py"].len(), 20_000);
}
