//! A table of changes within functions of Go, with the tests that they select by what they executed.

use super::super::tests::{Files, Project, Row, check, files, shown};
use super::super::*;
use crate::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan};
use crate::test_case::TestOutcome::{self, Passed, Skipped};

const PRICE: &str = "package a\n\nimport \"sync\"\n\nvar once sync.Once\n\nfunc Tax() int {\n\tx := 1\n\treturn x\n}\n\nfunc Round() int {\n\treturn 2\n}\n\n\
                     func Kept() int {\n\tonce.Do(func() {})\n\treturn Read()\n}\n\nfunc Read() int {\n\treturn 3\n}\n";

fn project_files() -> Files {
    files(&[
        ("go.mod", "module example.com/m\n"),
        ("a/a.go", PRICE),
        ("a/a_test.go", "package a\n"),
        ("b/b.go", "package b\n\nimport _ \"example.com/m/a\"\n"),
        ("b/b_test.go", "package b\n"),
        ("c/c.go", "package c\n\nfunc C() int {\n\treturn 5\n}\n"),
        ("c/c_test.go", "package c\n"),
    ])
}

const RESULTS: [(&str, TestOutcome); 9] = [
    ("example.com/m/a.TestKept", Passed),
    ("example.com/m/a.TestRead", Passed),
    ("example.com/m/a.TestRound", Passed),
    ("example.com/m/a.TestSlow", Passed),
    ("example.com/m/a.TestTax", Passed),
    ("example.com/m/a.TestTax/one", Passed),
    ("example.com/m/a.TestTax/two", Skipped),
    ("example.com/m/b.TestB", Passed),
    ("example.com/m/c.TestC", Passed),
];

fn executed(package: &str, test: &str, calibration: Calibration, lines: &[(&str, u32, u32)]) -> CoverageMeasurement {
    let lines =
        lines.iter().map(|(file, first, last)| ((*file).to_owned(), vec![LineSpan { first: *first, last: *last }]));
    CoverageMeasurement {
        package: format!("example.com/m/{package}"),
        tests: vec![test.into()],
        complete: true,
        attribution: Attribution::Test,
        started_processes: false,
        kept: Vec::new(),
        calibration,
        files: lines.collect(),
    }
}

fn coverage() -> Vec<CoverageMeasurement> {
    vec![
        executed("a", "TestKept", Calibration::Alone, &[("a/a.go", 16, 18), ("a/a.go", 21, 23)]),
        executed("a", "TestRead", Calibration::Alone, &[("a/a.go", 16, 18)]),
        executed("a", "TestRound", Calibration::Alone, &[("a/a.go", 12, 14)]),
        executed("a", "TestSlow", Calibration::None, &[("a/a.go", 12, 14)]),
        executed("a", "TestTax", Calibration::Alone, &[("a/a.go", 7, 10)]),
        executed("b", "TestB", Calibration::Alone, &[("a/a.go", 21, 23)]),
        executed("c", "TestC", Calibration::Alone, &[("c/c.go", 3, 5)]),
    ]
}

fn project() -> Project {
    Project::new("go", &project_files(), &RESULTS, coverage())
}

const ALL_OF_A: &str = "a.TestKept a.TestRead a.TestRound a.TestSlow a.TestTax a.TestTax/one a.TestTax/two";

#[test]
fn a_table_of_changes_in_functions_that_tests_executed() {
    let changed = |from: &str, to: &str| PRICE.replace(from, to);
    let tax = "a.TestSlow a.TestTax a.TestTax/one a.TestTax/two";
    check(
        &project(),
        &project_files(),
        &[
            // A test runs with its subtests, and beside those that did not run alone.
            ("a/a.go", Some(&changed("return x", "return x + 1")), tax),
            ("a/a.go", Some(&changed("\tx := 1\n", "\tx := 1\n\tx++\n")), tax),
            ("a/a.go", Some(&changed("return 2", "return 3")), "a.TestRound a.TestSlow a.TestTax/two"),
            (
                "a/a.go",
                Some(&changed("return Read()", "return 1 + Read()")),
                // It fills a variable, which any test of the process may read.
                ALL_OF_A,
            ),
            ("a/a.go", Some(&changed("return 3", "return 4")), "a.TestKept a.TestSlow a.TestTax/two b.TestB"),
            ("a/a.go", Some(&changed("func Round() int {", "func Round() int64 {")), &format!("{ALL_OF_A} b.TestB")),
            ("c/c.go", Some("package c\n\nfunc C() int {\n\treturn 6\n}\n"), "a.TestTax/two c.TestC"),
        ],
    );
}

#[test]
fn an_edit_of_a_function_that_may_store_outside_selects_whole_packages() {
    let mut before = project_files();
    before.insert("a/vars.go".into(), "package a\n\nvar kept, level = map[string]int{}, 1\n".into());
    let project = Project::new("go", &before, &RESULTS, coverage());
    let read = |line: &str| PRICE.replace("\treturn 3\n", &format!("\t{line}\n"));
    let [own, all] = ["a.TestKept a.TestSlow a.TestTax/two b.TestB".to_owned(), format!("{ALL_OF_A} b.TestB")];
    for (line, expected) in [
        ("return len(kept) + level", &own),
        ("kept := 1; kept++; return kept", &own),
        ("level = 4; return 3", &all),
        ("kept[\"a\"]++; return 3", &all),
        ("fill(kept); return 3", &all),
        ("go run(); return 3", &all),
        ("#", &all),
    ] {
        check(&project, &before, &[("a/a.go", Some(&read(line)), expected)]);
    }
}

const SHOP: &str = "package a\n\nfunc Shop(n int) int {\n\tif n > 9 {\n\t\tn = 9\n\t\t// why\n\t}\n\tfor i := 0; i < n; i++ {\n\t\tn += i\n\t}\n\tswitch n {\n\tcase 1:\n\t\tn++\n\t}\n\treturn n\n}\n";

#[test]
fn of_edited_statements_only_the_tests_count_that_executed_them() {
    let lines = |spans: &[(u32, u32)]| spans.iter().map(|(first, last)| ("a/a.go", *first, *last)).collect::<Vec<_>>();
    let tests = [
        ("TestKept", lines(&[(3, 8), (11, 11), (15, 16)])),
        ("TestRead", lines(&[(3, 4), (8, 11), (12, 16)])),
        ("TestRound", lines(&[(3, 4), (8, 8), (11, 11), (15, 16)])),
    ];
    let coverage = tests.iter().map(|(test, lines)| executed("a", test, Calibration::Alone, lines)).collect();
    let before = files(&[("go.mod", "module example.com/m\n"), ("a/a.go", SHOP), ("a/a_test.go", "package a\n")]);
    let passed = |test| (test, Passed);
    let results = ["example.com/m/a.TestKept", "example.com/m/a.TestRead", "example.com/m/a.TestRound"].map(passed);
    let project = Project::new("go", &before, &results, coverage);
    let all = "a.TestKept a.TestRead a.TestRound";
    for (old, new, expected) in [
        ("n = 9", "n = 8", "a.TestKept"),
        ("n += i", "n -= i", "a.TestRead"),
        ("\t\tn += i\n", "", "a.TestRead"),
        ("\t\tn += i\n", "\t\tn += i\n\t\tn--\n\n\t\tn--\n", "a.TestRead"),
        ("n = 9", "n = 9\n\t\tn--", "a.TestKept"),
        ("\t\t// why\n", "", "a.TestKept"),
        ("// why", "// that", "a.TestKept"),
        ("n > 9", "n > 8", all),
        ("i := 0", "i := 1", all),
        ("return n", "return 1", all),
        ("\treturn n", "\tn++\n\n\treturn n", all),
        ("\tcase 1:\n", "\tcase 1:\n\t\tn--\n", "a.TestRead"),
        ("\t\tn++\n\t}\n", "\t\tn++\n\t\tif n > 2 {\n\t\t\tn--\n\t\t}\n\t}\n", "a.TestRead"),
        ("\tif n > 9 {\n\t\tn = 9\n\t\t// why\n\t}\n", "", all),
        ("\tswitch n", "\tfor n < 2 {\n\t\tn++\n\t}\n\tswitch n", all),
        ("\t}\n\tfor", "\t}\n\tn--\n\tfor", all),
        // Evaluated without being executed, and what has its place in a block of another kind.
        ("case 1:", "case 2:", all),
        ("\t}\n\treturn", "\tcase 7:\n\t}\n\treturn", all),
        ("\t}\n\tfor", "\t} else {\n\t\tn--\n\t}\n\tfor", all),
        ("n = 9", "type n int", all),
        ("n = 9", "n = `\n`", "a.TestKept"),
    ] {
        check(&project, &before, &[("a/a.go", Some(&SHOP.replace(old, new)), expected)]);
    }
    // The tests were measured with the edit, which is one since an earlier state.
    let mut earlier = before.clone();
    earlier.insert("a/a.go".into(), SHOP.replace("n = 9", "n = 8"));
    assert_eq!(shown(&project.select_since(&earlier, &before)), all);
    // A line that no test executed.
    let coverage = tests.iter().map(|(test, _)| executed("a", test, Calibration::Alone, &lines(&[(3, 4), (8, 16)])));
    let project = Project::new("go", &before, &results, coverage.collect());
    check(&project, &before, &[("a/a.go", Some(&SHOP.replace("n = 9", "n = 8")), all)]);
}

#[test]
fn of_a_package_whose_tests_executed_nothing_one_test_runs_since_it_is_vetted() {
    let mut of_b = coverage();
    let kept = of_b.iter_mut().filter(|set| !set.package.ends_with("/b") && set.tests == ["TestKept"]);
    kept.for_each(|set| set.files.clear());
    let row: Row<'_> = ("a/a.go", Some(&PRICE.replace("return 3", "return 4")), "a.TestKept a.TestTax/two b.TestB");
    check(&Project::new("go", &project_files(), &RESULTS, of_b), &project_files(), &[row]);
}

#[test]
fn an_edit_that_moves_lines_selects_packages_if_a_source_knows_numbers_of_lines() {
    let mut before = project_files();
    before.insert("c/c_test.go".into(), "package c\n\nvar _, _, _, _ = runtime.Caller(0)\n".into());
    let project = Project::new("go", &before, &RESULTS, coverage());
    let [moved, same] = ["\tx := 1\n\tx++\n", "\tx := 2\n"].map(|text| PRICE.replace("\tx := 1\n", text));
    let all = format!("{ALL_OF_A} b.TestB");
    let rows: [Row<'_>; 2] =
        [("a/a.go", Some(&moved), &all), ("a/a.go", Some(&same), "a.TestSlow a.TestTax a.TestTax/one a.TestTax/two")];
    check(&project, &before, &rows);
}

#[test]
fn the_targets_of_a_test_that_runs_with_its_subtests_are_not_these() {
    let mut now = project_files();
    now.insert("a/a.go".into(), PRICE.replace("return x", "return x + 1"));
    let affected = project().select(&now);
    assert_eq!(shown(&affected), "a.TestSlow a.TestTax a.TestTax/one a.TestTax/two");
    let targets: Vec<String> = affected
        .targets
        .iter()
        .map(|target| match target {
            RerunTarget::Test(test) => test.name.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(targets, ["TestSlow", "TestTax"]);
    assert_eq!(affected.ran_alone, 6);
}
