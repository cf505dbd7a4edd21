//! Tests of the coverage index.

use super::*;
use proptest::prelude::*;

fn measured(package: &str, tests: &[&str], file: &str, spans: &[(u32, u32)]) -> CoverageMeasurement {
    CoverageMeasurement {
        package: package.into(),
        tests: tests.iter().map(ToString::to_string).collect(),
        complete: true,
        attribution: if tests.len() == 1 { Attribution::Test } else { Attribution::Package },
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: vec![(file.into(), spans.iter().map(|&(first, last)| LineSpan { first, last }).collect())],
    }
}

fn names(index: &CoverageIndex, line: Option<u32>) -> Vec<String> {
    index.covering("a.go", line).tests.into_iter().map(|test| format!("{}.{}", test.package, test.name)).collect()
}

#[test]
fn a_line_is_covered_only_by_tests_that_executed_it() {
    let mut index = CoverageIndex::default();
    assert!(!index.has_measured());
    index.ingest(
        vec![measured("p", &["A", "B"], "a.go", &[(1, 3)]), measured("q", &["C"], "a.go", &[(3, 9)])],
        true,
        Timestamp(5),
    );
    assert_eq!(names(&index, Some(1)), ["p.A", "p.B"]);
    assert_eq!(names(&index, Some(3)), ["p.A", "p.B", "q.C"]);
    assert_eq!(names(&index, Some(10)), [""; 0]);
    assert_eq!(names(&index, None), ["p.A", "p.B", "q.C"]);
    assert_eq!(index.covering("a.go", Some(9)).attribution, Some(Attribution::Test));
    assert_eq!(index.covering("a.go", Some(3)).attribution, Some(Attribution::Package));
}

#[test]
fn finds_tests_that_execute_exactly_the_same_lines() {
    let mut index = CoverageIndex::default();
    index.ingest(vec![measured("p", &["A", "B"], "a.go", &[(1, 3)])], true, Timestamp(5));
    assert_eq!(index.same_lines(), None, "the lines of a package are nobody's");
    let alone = |name: &str, spans: &[(u32, u32)]| measured("q", &[name], "a.go", spans);
    let more = vec![
        alone("C", &[(4, 5), (9, 9)]),
        alone("D", &[(4, 5)]),
        alone("E", &[(9, 9), (4, 5)]),
        measured("r", &["F"], "b.go", &[(4, 5)]),
    ];
    index.ingest(more, false, Timestamp(6));
    let named = |name: &str| TestId { package: "q".into(), name: name.into() };
    assert_eq!(index.same_lines(), Some(vec![vec![named("C"), named("E")]]));
    assert_eq!(index.file_names().collect::<Vec<_>>(), ["a.go", "b.go"]);
}

#[test]
fn a_filtered_run_replaces_only_the_tests_it_completed() {
    let mut index = CoverageIndex::default();
    index.ingest(vec![measured("p", &["A", "B"], "a.go", &[(1, 3)])], true, Timestamp(5));
    index.ingest(vec![measured("p", &["A"], "a.go", &[(7, 7)])], false, Timestamp(9));
    assert_eq!(names(&index, Some(2)), ["p.B"]);
    assert_eq!(names(&index, Some(7)), ["p.A"]);
    assert_eq!(index.covering("a.go", None).measured_at, Some(Timestamp(5)));
}

#[test]
fn a_partial_measurement_adds_to_the_known_lines() {
    let part = |tests: &[&str], spans: &[(u32, u32)]| CoverageMeasurement {
        complete: false,
        ..measured("p", tests, "a.go", spans)
    };
    let mut index = CoverageIndex::default();
    index.ingest(vec![measured("p", &["A", "B"], "a.go", &[(1, 4)])], true, Timestamp(5));
    index.ingest(vec![part(&["A"], &[(3, 3), (7, 7)])], false, Timestamp(9));
    assert_eq!(names(&index, Some(4)), ["p.A", "p.B"], "the rerun of one subtest removes nothing");
    assert_eq!(names(&index, Some(7)), ["p.A"]);
    assert_eq!(index.covering("a.go", Some(4)).measured_at, Some(Timestamp(5)));
    assert_eq!(index.covering("a.go", Some(7)).measured_at, Some(Timestamp(9)));

    // Repeated reruns stay one set, with the lines of all of them.
    for line in [7, 8, 20, 8] {
        index.ingest(vec![part(&["A"], &[(line, line)])], false, Timestamp(11));
    }
    assert_eq!(index.units.len(), 2, "one set of the whole run, one of the reruns");
    assert_eq!(names(&index, Some(20)), ["p.A"]);
    assert_eq!(index.covering("a.go", Some(20)).measured_at, Some(Timestamp(9)));

    // B was completed beside A's partial rerun, then A completed: only then the old lines of each are gone.
    index.ingest(vec![measured("p", &["B"], "a.go", &[(30, 30)]), part(&["A"], &[(30, 30)])], false, Timestamp(12));
    assert_eq!(
        (names(&index, Some(4)), names(&index, Some(30))),
        (vec!["p.A".into()], vec!["p.A".into(), "p.B".into()])
    );
    index.ingest(vec![measured("p", &["A"], "a.go", &[(2, 2)])], false, Timestamp(13));
    assert_eq!((names(&index, Some(2)), names(&index, Some(30))), (vec!["p.A".into()], vec!["p.B".into()]));
    assert_eq!(names(&index, Some(7)), [""; 0]);
}

#[test]
fn a_whole_run_replaces_the_index_and_a_run_without_measurements_changes_nothing() {
    let mut index = CoverageIndex::default();
    index.ingest(vec![measured("p", &["A"], "a.go", &[(1, 3)])], true, Timestamp(5));
    index.ingest(Vec::new(), true, Timestamp(6));
    assert_eq!(names(&index, None), ["p.A"]);
    index.ingest(vec![measured("q", &["C"], "b.go", &[(1, 1)])], true, Timestamp(7));
    assert_eq!(names(&index, None), [""; 0]);
    assert_eq!(index.files(), 1);
}

#[test]
fn measurements_beyond_the_memory_bound_are_left_out_with_notes() {
    let spans: Vec<LineSpan> = (1..=60_000).map(|line| LineSpan { first: 2 * line, last: 2 * line }).collect();
    let mut many = measured("p", &["A"], "0.go", &[]);
    many.files = (0..150).map(|number| (format!("{number}.go"), spans.clone())).collect();
    let named = |package: &str| {
        let names = (0..100).map(|number| format!("{number}{}", "n".repeat(1_000_000))).collect();
        CoverageMeasurement { tests: names, ..measured(package, &[], "a.go", &[(1, 1)]) }
    };
    let mut index = CoverageIndex::default();
    let notes = index.ingest(vec![many, named("q")], true, Timestamp(1));
    assert!(notes.iter().any(|note| note.ends_with("1 sets of tests left out")), "{notes:?}");
    assert!(notes.iter().any(|note| note.ends_with("line spans left out")), "{notes:?}");
    assert!(notes.iter().any(|note| note.ends_with("files left out")), "{notes:?}");
    let used = index.memory_bytes();
    assert!((COVERAGE_BYTES_MAX - 1_000_000..=COVERAGE_BYTES_MAX).contains(&used), "{used}");
    assert!(index.ingest(vec![measured("p", &["A"], "a.go", &[(1, 1)])], false, Timestamp(2)).is_empty());
    assert_eq!(names(&index, None), ["p.A"], "the replaced measurements free memory");
}

/// What a test executed: package, name, file, line.
type Model = BTreeSet<(String, String, String, u32)>;

const FILES: [&str; 2] = ["a.go", "b.py"];
const LINES: u32 = 14;

fn sets() -> impl Strategy<Value = CoverageMeasurement> {
    let spans = prop::collection::vec((1..LINES, 0_u32..4), 0..6);
    let spans = spans.prop_map(|spans| {
        spans.into_iter().map(|(first, length)| LineSpan { first, last: first + length }).collect::<Vec<_>>()
    });
    let files = prop::collection::vec((prop::sample::select(&FILES[..]), spans), 0..3);
    let tests = prop::collection::vec("[A-D]", 0..3);
    let calibration = prop::sample::select(&[Calibration::None, Calibration::BySample, Calibration::Alone][..]);
    let parts = ("[pq]", tests, any::<[bool; 2]>(), calibration, files);
    parts.prop_map(|(package, tests, [complete, started_processes], calibration, files)| CoverageMeasurement {
        kept: Vec::new(),
        package,
        tests,
        complete,
        attribution: Attribution::Test,
        started_processes,
        calibration,
        files: files.into_iter().map(|(file, spans)| (file.to_owned(), spans)).collect(),
    })
}

fn ingest_into_model(model: &mut Model, sets: &[CoverageMeasurement], whole: bool) {
    if whole && !sets.is_empty() {
        model.clear();
    }
    for set in sets.iter().filter(|set| set.complete) {
        model.retain(|(package, test, _, _)| *package != set.package || !set.tests.contains(test));
    }
    for set in sets {
        for (test, (file, spans)) in set.tests.iter().flat_map(|test| set.files.iter().map(move |file| (test, file))) {
            for line in spans.iter().flat_map(|span| span.first..=span.last) {
                model.insert((set.package.clone(), test.clone(), file.clone(), line));
            }
        }
    }
}

fn of_model(model: &Model, file: &str, has: impl Fn(u32) -> bool) -> Vec<TestId> {
    let entries = model.iter().filter(|(_, _, of, line)| of == file && has(*line));
    let tests: BTreeSet<(&String, &String)> = entries.map(|(package, name, _, _)| (package, name)).collect();
    tests.into_iter().map(|(package, name)| TestId { package: package.clone(), name: name.clone() }).collect()
}

proptest! {
    #[test]
    fn answers_as_a_set_of_tests_and_lines_would(
        runs in prop::collection::vec((prop::collection::vec(sets(), 0..5), any::<bool>()), 1..6),
    ) {
        let (mut index, mut model) = (CoverageIndex::default(), Model::new());
        for (sets, whole) in runs {
            ingest_into_model(&mut model, &sets, whole);
            prop_assert!(index.ingest(sets, whole, Timestamp(1)).is_empty());
            let stored = serde_json::to_string(&index).unwrap();
            for index in [&index, &serde_json::from_str(&stored).unwrap()] {
                for file in FILES {
                    prop_assert_eq!(&index.covering(file, None).tests, &of_model(&model, file, |_| true));
                    for line in 0..LINES + 5 {
                        prop_assert_eq!(&index.covering(file, Some(line)).tests, &of_model(&model, file, |own| own == line));
                        let spans = [LineSpan { first: line, last: line + 2 }, LineSpan { first: 2, last: 2 }];
                        let expected = of_model(&model, file, |own| own == 2 || (line..=line + 2).contains(&own));
                        prop_assert_eq!(&index.tests_of_lines(file, &spans).tests, &expected);
                    }
                }
            }
        }
    }
}

#[test]
fn rejects_a_stored_index_whose_lines_are_not_sound() {
    let mut index = CoverageIndex::default();
    index.ingest(vec![measured("p", &["A"], "a.go", &[(1, 3), (7, 9)])], true, Timestamp(5));
    let stored = serde_json::to_string(&index).unwrap();
    let lines = serde_json::to_value(&index).unwrap()["files"]["a.go"]["runs"].as_str().unwrap().to_owned();
    let read = |runs: &str| serde_json::from_str::<CoverageIndex>(&stored.replace(&lines, runs)).is_ok();
    assert!(read(&lines));
    let (first, second) = lines.split_at(16);
    let beyond = "AQAAAAIAAAAJAAAA";
    for runs in [&lines[..12], &format!("{second}{first}"), beyond, "no base 64", "AgAAAAEAAAAAAAAA"] {
        assert!(!read(runs), "{runs}");
    }
}

#[test]
fn names_the_tests_that_started_processes() {
    let mut index = CoverageIndex::default();
    let set = |started_processes, test| CoverageMeasurement {
        started_processes,
        ..measured("p", &[test], "a.py", &[(1, 1)])
    };
    index.ingest(vec![set(true, "A"), set(false, "B")], true, Timestamp(1));
    let named = |name: &str| TestId { package: "p".into(), name: name.into() };
    assert_eq!(index.tests_with_processes(), [named("A")]);
    index.ingest(vec![set(false, "A")], false, Timestamp(1));
    assert_eq!(index.tests_with_processes(), []);
}

#[test]
fn names_the_tests_of_which_it_is_known_what_others_executed_for_them() {
    let mut index = CoverageIndex::default();
    let set = |calibration, test| CoverageMeasurement { calibration, ..measured("p", &[test], "a.py", &[(1, 1)]) };
    let sets = [(Calibration::Alone, "A"), (Calibration::BySample, "B"), (Calibration::None, "C")];
    index.ingest(sets.map(|(calibration, test)| set(calibration, test)).into(), true, Timestamp(1));
    let named = |names: &[&str]| -> Vec<TestId> {
        names.iter().map(|name| TestId { package: "p".into(), name: (*name).into() }).collect()
    };
    assert_eq!(index.calibrated(), (named(&["A", "B"]), named(&["A"])));
    index.ingest(vec![set(Calibration::BySample, "A")], false, Timestamp(2));
    assert_eq!(index.calibrated(), (named(&["A", "B"]), Vec::new()));
    index.record_unmeasured(&[("p", "B")].into());
    assert_eq!(index.calibrated(), (named(&["A"]), Vec::new()), "what it executes now is not known");
}

#[test]
fn tests_that_ran_alone_before_are_known_in_a_run_of_the_same_files() {
    let alone = |test, spans: &[(u32, u32)]| CoverageMeasurement {
        calibration: Calibration::Alone,
        ..measured("p", &[test], "a.go", spans)
    };
    let mut index = CoverageIndex::default();
    let all = ["A", "B", "C", "D"].map(|test| alone(test, &[(1, 3), (7, 7)]));
    index.ingest(all.into(), true, Timestamp(1));
    index.record_unmeasured(&[("p", "D")].into());
    let mut now = vec![
        measured("p", &["A"], "a.go", &[(2, 2)]),
        measured("p", &["B"], "a.go", &[(2, 4)]),
        measured("p", &["C"], "b.go", &[(1, 1)]),
        measured("p", &["D"], "a.go", &[(2, 2)]),
        measured("q", &["A"], "a.go", &[(2, 2)]),
        CoverageMeasurement { attribution: Attribution::Package, ..measured("p", &["A"], "a.go", &[(2, 2)]) },
    ];
    let others = now[1..].to_vec();
    index.keep_alone(&mut now);
    // B and C executed other lines now, and what D executes is not known.
    assert_eq!(now[0], alone("A", &[(1, 3), (7, 7)]));
    assert_eq!(now[1..], others);
}

#[test]
fn what_tests_execute_at_other_files_is_beside_what_they_execute_at_those_of_the_baseline() {
    let mut index = CoverageIndex::default();
    let of = |test: &str, file: &str| measured("p", &[test], file, &[(1, 1)]);
    index.ingest(vec![of("A", "a.py"), of("B", "b.py")], true, Timestamp(1));
    index.ingest_aside(vec![of("A", "x.py"), of("C", "x.py")], Timestamp(2));
    index.ingest_aside(vec![of("A", "y.py")], Timestamp(3));
    let covering = |index: &CoverageIndex, file: &str| -> Vec<String> {
        index.covering(file, None).tests.into_iter().map(|test| test.name).collect()
    };
    let none: [&str; 0] = [];
    assert_eq!(["b.py", "x.py", "y.py"].map(|file| covering(&index, file)), [["B"], ["C"], ["A"]]);
    assert_eq!(covering(&index, "a.py"), none, "it executed another file last");
    let touching = |file: &str| index.tests_touching(file, None).tests.len();
    assert_eq!(["a.py", "b.py", "x.py", "y.py"].map(touching), [1, 1, 1, 1]);
    let named = |name: &str| TestId { package: "p".into(), name: name.into() };
    assert_eq!(index.completely_measured(), [named("A"), named("B")], "C never ran at the files of the baseline");
    // Where the bug is shows what ran last.
    let mut blocks = Vec::new();
    index.spectrum(|_, test| Some(test == "A"), |block| blocks.push((block.file, block.failed)));
    assert_eq!(blocks, [("y.py", 1)]);
    index.ingest(vec![of("A", "z.py")], false, Timestamp(4));
    assert_eq!(
        ["a.py", "y.py", "z.py"].map(|file| covering(&index, file).len()),
        [0, 0, 1],
        "the baseline's files again"
    );
}
