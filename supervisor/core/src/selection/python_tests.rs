//! A table of changes of a Python workspace with the tests that they select.

use super::tests::{Files, Project, check, files, passed, shown};
use crate::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan, LoadedSource};
use crate::test_case::TestOutcome;
use crate::timestamp::Timestamp;

fn python_files() -> Files {
    files(&[
        ("pyproject.toml", "[project]\n"),
        ("README.md", "text"),
        ("shop/__init__.py", ""),
        ("shop/cart.py", "from . import price\n"),
        ("shop/price.py", "def total():\n    return 1\n"),
        ("shop/stock.py", "LEVEL = 1\n"),
        ("tests/conftest.py", ""),
        ("tests/data.json", "{}"),
        ("tests/test_cart.py", "from shop.cart import Cart\n"),
        ("tests/test_stock.py", "from shop import (\n    stock,\n)\n"),
        ("tests/test_run.py", "import subprocess\n"),
        ("tests/unit/conftest.py", ""),
        ("tests/unit/test_alone.py", "def test_alone(): pass\n"),
    ])
}

const PYTHON_TESTS: [&str; 4] =
    ["tests/test_cart.py.test", "tests/test_stock.py.test", "tests/test_run.py.test", "tests/unit/test_alone.py.test"];

/// Checks changes of the workspace with other or further files.
fn check_with(others: &[(&str, &str)], changes: &[(&str, Option<&str>, &str)]) {
    let mut before = python_files();
    before.extend(files(others));
    let project = Project::new("pytest", &before, &passed(PYTHON_TESTS), Vec::new());
    check(&project, &before, changes);
}

#[test]
fn a_table_of_changes_to_a_python_workspace() {
    let project = Project::new("pytest", &python_files(), &passed(PYTHON_TESTS), Vec::new());
    let (cart, run, stock) = ("tests/test_cart.py.test", "tests/test_run.py.test", "tests/test_stock.py.test");
    let alone = "tests/unit/test_alone.py.test";
    let and_run = |test: &str| {
        let mut both = [test, run];
        both.sort_unstable();
        both.join(" ")
    };
    let all = format!("{cart} {run} {stock} {alone}");
    check(
        &project,
        &python_files(),
        &[
            ("shop/price.py", Some("def total():\n    return 2\n"), &and_run(cart)),
            ("shop/price.py", None, &and_run(cart)),
            ("shop/cart.py", Some("from . import price\n\nX = 1\n"), &and_run(cart)),
            ("shop/stock.py", Some("LEVEL = 2\n"), &and_run(stock)),
            ("shop/__init__.py", Some("import json\n"), &format!("{cart} {run} {stock}")),
            ("shop/unused.py", Some("X = 1\n"), run),
            ("shop/checks.py", Some("X = 1\ndef test_x(): pass\n"), &format!("shop/checks.py.* {run}")),
            (
                "shop/price.py",
                Some("def total():\n    return 1\n\nclass T(TestCase): pass\n"),
                &format!("shop/price.py.* {cart} {run}"),
            ),
            (
                "tests/unit/__init__.py",
                Some(""),
                "full: tests/unit/__init__.py, which makes a directory of tests a package, was added",
            ),
            ("shop/sub/__init__.py", Some(""), run),
            ("stock.py", Some("LEVEL = 3\n"), &and_run(stock)),
            ("tests/test_stock.py", Some("def test(): pass\n"), &and_run(stock)),
            ("tests/test_stock.py", None, run),
            ("tests/test_new.py", Some("def test(): pass\n"), &format!("tests/test_new.py.* {run}")),
            ("tests/unit/conftest.py", Some("import os\n"), &and_run(alone)),
            ("tests/conftest.py", Some("import os\n"), &all),
            ("tests/unit/conftest.py", None, &and_run(alone)),
            ("conftest.py", Some(""), "full: conftest.py, the set-up of all tests, was added"),
            ("pyproject.toml", Some("[x]\n"), "full: pyproject.toml, a build file, was changed"),
            ("pytest.ini", Some("[pytest]\n"), "full: pytest.ini, a test runner's settings, was added"),
            ("requirements-dev.txt", Some("x"), "full: requirements-dev.txt, a lock file, was added"),
            ("uv.lock", Some("x"), "full: uv.lock, a lock file, was added"),
            (".python-version", Some("3.13"), "full: .python-version, the choice of a toolchain, was added"),
            ("sitecustomize.py", Some(""), "full: sitecustomize.py, a module that every Python imports, was added"),
            ("tests/data.json", Some("[]"), "full: tests/data.json was changed, and any test may read it"),
            ("tests/data.json", None, "full: tests/data.json was removed, and any test may read it"),
            ("README.md", Some("other"), "nothing"),
            (
                "fractions.py",
                Some("X = 1\n"),
                "full: fractions.py was added, and it may be loaded in place of Python's own module fractions",
            ),
            (
                "json/__init__.py",
                Some(""),
                "full: json/__init__.py was added, and it may be loaded in place of Python's own module json",
            ),
            ("shop/json.py", Some("X = 1\n"), run),
        ],
    );
}

#[test]
fn a_source_that_nothing_imports_may_be_read_by_any_test() {
    let run = "tests/test_run.py.test";
    let read = |how: &str| format!("full: tests/cases/simple.py was {how}, and any test may read it");
    let changes = [
        ("tests/cases/simple.py", Some("x = 2\n"), read("changed")),
        ("tests/cases/simple.py", None, read("removed")),
        ("tests/cases/other.py", Some("x = 2\n"), run.to_owned()),
        // It has the name of a module that a test imports.
        ("tests/cases/stock.py", Some("x = 2\n"), format!("{run} tests/test_stock.py.test")),
    ];
    let changes: Vec<_> = changes.iter().map(|(path, text, expected)| (*path, *text, expected.as_str())).collect();
    check_with(&[("tests/cases/simple.py", "x = 1\n"), ("tests/cases/stock.py", "x = 1\n")], &changes);
}

#[test]
fn documentation_runs_the_tests_that_look_for_files() {
    for (text, is_selected) in [
        ("for path in docs.iterdir(): pass\n", true),
        ("path = docs / f'{name}.md'\n", true),
        ("path = docs / f'{name}.rst'\n", false),
        ("'.mdx'\n", false),
    ] {
        let expected = if is_selected { "tests/test_stock.py.test" } else { "nothing" };
        check_with(&[("tests/test_stock.py", text)], &[("README.md", Some("other"), expected)]);
    }
}

#[test]
fn modules_that_settings_load_run_everything() {
    for (settings, word) in [
        ("[project.entry-points.pytest11]\nx = 'shop.price'\n", "pytest11"),
        ("DJANGO_SETTINGS_MODULE = 'x'", "DJANGO_SETTINGS_MODULE"),
    ] {
        let expected =
            format!("full: sources or settings with {word} load modules by a convention that no import shows");
        let changes = [("shop/price.py", Some("X = 1\n"), expected.as_str()), ("README.md", Some("x"), "nothing")];
        check_with(&[("pyproject.toml", settings)], &changes);
    }
    let importing = "from shop import price\n";
    let full = "full: shop/plugin.py, a module that settings name, was changed";
    let plugin = [("pyproject.toml", "addopts = '-p shop.plugin'"), ("shop/plugin.py", importing)];
    check_with(&plugin, &[("shop/price.py", Some("X = 1\n"), full)]);
    for (settings, is_named) in [
        ("addopts = -p plugin", true),
        ("addopts = -pplugin --quiet", true),
        ("addopts = [\"-p\", \"plugin\"]", true),
        ("addopts = [\n  '-p',\n  'plugin',\n]", true),
        ("addopts = -p plugins", false),
        ("addopts = --p plugin", false),
        ("name = 'my-plugin'", false),
    ] {
        let full = "full: plugin.py, a module that settings name, was changed";
        let expected = if is_named { full } else { "tests/test_cart.py.test tests/test_run.py.test" };
        let plugin = [("pyproject.toml", settings), ("plugin.py", importing)];
        check_with(&plugin, &[("shop/price.py", Some("X = 1\n"), expected)]);
    }
    let scripts = "[project.scripts]\nshop = 'shop.cart:main'\n\n[project.entry-points.\"x\"]\ny = 'shop.cart:y'\n";
    let imports = "tests/test_cart.py.test tests/test_run.py.test";
    check_with(&[("pyproject.toml", scripts)], &[("shop/price.py", Some("X = 1\n"), imports)]);
}

const PRICE: &str = "\"\"\"Prices.\"\"\"\nRATE = 5\n\ndef total(a):\n    \"\"\"The sum.\"\"\"\n    b = a\n    return b * RATE\n\ndef tax(a):\n    return a\n\ndef unused():\n    return 9\n";

const PRICE_TESTS: [&str; 5] = [
    "tests/test_price.py.total",
    "tests/test_price.py.tax",
    "tests/test_cart.py.adds",
    "tests/test_run.py.runs",
    "tests/test_sources.py.lints",
];

/// Of these tests all lines are known: one test executes each function of the price, another both, one a process, and one none.
fn price_files() -> Files {
    let importing = "from shop import price\n";
    files(&[
        ("pyproject.toml", "[tool.shop]\nplugin = 'shop.price'\n"),
        ("shop/__init__.py", ""),
        ("shop/price.py", PRICE),
        ("shop/plugins.py", "import importlib\nfrom shop import price\n"),
        ("tests/test_price.py", importing),
        ("tests/test_cart.py", importing),
        ("tests/test_run.py", "from shop import plugins\n"),
        ("tests/test_sources.py", "from shop import price\n"),
    ])
}

fn executed(test: &str, lines: &[(u32, u32)]) -> CoverageMeasurement {
    let (file, name) = test.rsplit_once('.').unwrap();
    let spans = |lines: &[(u32, u32)]| lines.iter().map(|&(first, last)| LineSpan { first, last }).collect();
    CoverageMeasurement {
        package: file.to_owned(),
        tests: vec![name.to_owned()],
        complete: true,
        attribution: Attribution::Test,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::BySample,
        files: vec![("shop/price.py".to_owned(), spans(lines)), (file.to_owned(), spans(&[(2, 3)]))],
    }
}

fn price_coverage() -> Vec<CoverageMeasurement> {
    let [total, tax, adds, runs, lints] = PRICE_TESTS;
    let runs = CoverageMeasurement { started_processes: true, ..executed(runs, &[]) };
    // Loaded before all tests.
    let loaded = CoverageMeasurement { attribution: Attribution::File, ..executed(total, &[(1, 4), (9, 9), (12, 12)]) };
    vec![
        loaded,
        executed(total, &[(6, 7)]),
        executed(tax, &[(10, 10)]),
        executed(adds, &[(6, 7), (10, 10)]),
        runs,
        executed(lints, &[]),
    ]
}

/// Edits of the price: in the body of each function, one that no test executed, and what is known of functions without calling them.
fn price_edits() -> [(String, String); 2] {
    [PRICE.replace("b = a", "b = a + 0"), PRICE.replace("return a\n", "return -a\n")]
        .map(|text| ("shop/price.py".to_owned(), text))
}

fn selected(project: &Project, before: &Files, (path, text): &(String, String)) -> String {
    let mut now = before.clone();
    now.insert(path.clone(), text.clone());
    shown(&project.select(&now)).replace("tests/test_", "").replace(".py", "")
}

#[test]
fn an_edit_of_a_function_selects_the_tests_that_executed_it() {
    let before = price_files();
    let project = Project::new("pytest", &before, &passed(PRICE_TESTS), price_coverage());
    let [total, tax] = price_edits();
    assert_eq!(selected(&project, &before, &total), "cart.adds price.total run.runs");
    assert_eq!(selected(&project, &before, &tax), "cart.adds price.tax run.runs");
    let added = ("shop/price.py".to_owned(), PRICE.replace("    b = a\n", "    if a:\n        a = 2\n    b = a\n"));
    assert_eq!(selected(&project, &before, &added), "cart.adds price.total run.runs");
    // What settings name is all tests' business unless all of it was measured.
    let settings = "full: shop/price, a module that settings name, was changed";
    for (old, new) in [
        ("RATE = 5", "RATE = 6"),
        ("def tax(a)", "def tax(a=1)"),
        ("The sum.", "The total."),
        ("return 9", "return 8"),
        ("    return b * RATE\n", "    yield b\n"),
        ("    b = a\n", "b = a\n"),
    ] {
        let edit = ("shop/price.py".to_owned(), PRICE.replace(old, new));
        assert_eq!(selected(&project, &before, &edit), settings, "{new}");
    }
}

#[test]
fn subtests_are_selected_with_their_test() {
    let before = price_files();
    let subtests = ["tests/test_price.py.tax/(a=1)", "tests/test_price.py.total/(a=1)"];
    let tests = [&passed(PRICE_TESTS)[..], &passed(subtests)].concat();
    let project = Project::new("unittest", &before, &tests, price_coverage());
    let [total, tax] = price_edits();
    assert_eq!(selected(&project, &before, &total), "cart.adds price.total price.total/(a=1) run.runs");
    assert_eq!(selected(&project, &before, &tax), "cart.adds price.tax price.tax/(a=1) run.runs");
}

#[test]
fn tests_of_which_not_all_is_known_run_if_they_may_import_the_function() {
    let mut before = price_files();
    before.insert("pyproject.toml".to_owned(), "[project]\n".to_owned());
    let [total, _] = price_edits();
    let select = |before: &Files, coverage: Vec<CoverageMeasurement>| {
        let project = Project::new("pytest", before, &passed(PRICE_TESTS), coverage);
        selected(&project, before, &total)
    };
    let known = "cart.adds price.total run.runs";
    assert_eq!(select(&before, price_coverage()), known);
    let all = "cart.adds price.tax price.total run.runs sources.lints";
    let uncalibrated =
        price_coverage().into_iter().map(|set| CoverageMeasurement { calibration: Calibration::None, ..set });
    assert_eq!(select(&before, uncalibrated.collect()), all, "no test ran alone");
    let measured = price_coverage().into_iter().filter(|set| set.tests != ["lints"]).collect();
    assert_eq!(select(&before, measured), format!("{known} sources.lints"), "not measured");
    // One that cannot be in a sample, beside one that can.
    let slow = CoverageMeasurement { calibration: Calibration::None, ..executed("tests/test_price.py.slow", &[]) };
    let project = Project::new(
        "pytest",
        &before,
        &[&passed(PRICE_TESTS)[..], &passed(["tests/test_price.py.slow"])].concat(),
        [price_coverage(), vec![slow]].concat(),
    );
    assert_eq!(selected(&project, &before, &total), "cart.adds price.slow price.total run.runs");
    // In one process an earlier test has filled a cache.
    let cached =
        CoverageMeasurement { attribution: Attribution::File, ..executed("tests/test_sources.py.lints", &[(7, 7)]) };
    assert_eq!(select(&before, [price_coverage(), vec![cached]].concat()), format!("{known} sources.lints"));
    let mut added = before.clone();
    let project = Project::new("pytest", &before, &passed(PRICE_TESTS), price_coverage());
    added.insert("tests/test_new.py".to_owned(), "from shop import price\n".to_owned());
    assert_eq!(selected(&project, &added, &total), format!("{} new.* {}", "cart.adds", "price.total run.runs"));
}

#[test]
fn tests_that_may_read_sources_run_although_they_execute_none() {
    let [total, _] = price_edits();
    for (file, text, is_selected) in [
        ("tests/test_sources.py", "for path in root.rglob('*.py'): pass\n", true),
        ("tests/test_sources.py", "check('shop/price.py')\n", true),
        ("tests/test_sources.py", "from shop import source\n", true),
        ("tests/conftest.py", "import glob\n", true),
        // What it imports or runs was measured.
        ("tests/test_sources.py", "import importlib, subprocess\n", false),
        ("tests/test_sources.py", "from shop import plugins\n", false),
    ] {
        let mut before = price_files();
        before.insert("shop/source.py".to_owned(), "from inspect import getsource\n".to_owned());
        before.insert(file.to_owned(), text.to_owned());
        let project = Project::new("pytest", &before, &passed(PRICE_TESTS), price_coverage());
        assert_eq!(selected(&project, &before, &total).contains("sources.lints"), is_selected, "{text}");
    }
}

#[test]
fn an_edit_of_what_was_executed_for_a_function_that_keeps_values_selects_the_tests_that_may_need_it() {
    let [total, tax] = price_edits();
    let before = price_files();
    let kept = CoverageMeasurement {
        attribution: Attribution::File,
        files: Vec::new(),
        kept: vec![("shop/price.py".to_owned(), vec![LineSpan { first: 6, last: 6 }])],
        ..executed(PRICE_TESTS[4], &[])
    };
    let project = Project::new("pytest", &before, &passed(PRICE_TESTS), [price_coverage(), vec![kept]].concat());
    assert_eq!(selected(&project, &before, &total), "cart.adds price.total run.runs sources.lints");
    assert_eq!(selected(&project, &before, &tax), "cart.adds price.tax run.runs");
}

#[test]
fn an_edit_of_a_function_that_no_test_executed_selects_none_if_all_of_its_file_was_measured() {
    let mut before = price_files();
    before.insert("pyproject.toml".to_owned(), "[project]\n".to_owned());
    let edit = ("shop/price.py".to_owned(), PRICE.replace("return 9", "return 8"));
    let selected = |before: &Files, is_loaded: bool| {
        let mut project = Project::new("pytest", before, &passed(PRICE_TESTS), price_coverage());
        let executable = is_loaded.then(|| vec![LineSpan { first: 1, last: 13 }]);
        let source = LoadedSource { path: "shop/price.py".to_owned(), executable, text: Some(7) };
        project.index.add_sources(vec![source], true, Timestamp(1));
        selected(&project, before, &edit)
    };
    let all = "cart.adds price.tax price.total run.runs sources.lints";
    assert_eq!(selected(&before, true), "run.runs", "a process may execute it");
    assert_eq!(selected(&before, false), all, "loaded before anything was measured");
    before.insert("tests/conftest.py".to_owned(), "def pytest_sessionfinish():\n    pass\n".to_owned());
    assert_eq!(selected(&before, true), all, "called when nothing is measured any more");
}

#[test]
fn an_edit_that_stores_a_value_outside_of_its_function_selects_the_tests_that_import_it() {
    let mut before = price_files();
    before.insert("pyproject.toml".to_owned(), "[project]\n".to_owned());
    let project = Project::new("pytest", &before, &passed(PRICE_TESTS), price_coverage());
    for (new, is_wide) in [("b = a\n    KNOWN[a] = b", true), ("b = a\n    known = {a: b}", false)] {
        let edit = ("shop/price.py".to_owned(), PRICE.replace("b = a", new));
        assert_eq!(selected(&project, &before, &edit).contains("sources.lints"), is_wide, "{new}");
    }
    // One function may run with what another one names.
    let copy = "import types\nfrom shop.price import total\ncopy = types.FunctionType(total.__code__, {})\n";
    before.insert("shop/sums.py".to_owned(), copy.to_owned());
    let project = Project::new("pytest", &before, &passed(PRICE_TESTS), price_coverage());
    assert!(selected(&project, &before, &price_edits()[0]).contains("sources.lints"));
}

#[test]
fn skipped_tests_are_no_reason_to_run_those_that_import() {
    let before = price_files();
    let results: Vec<(&str, TestOutcome)> = PRICE_TESTS
        .iter()
        .map(|test| (*test, if test.ends_with("lints") { TestOutcome::Skipped } else { TestOutcome::Passed }))
        .collect();
    let coverage = price_coverage().into_iter().filter(|set| set.tests != ["lints"]).collect();
    let project = Project::new("pytest", &before, &results, coverage);
    let [total, _] = price_edits();
    assert_eq!(
        selected(&project, &before, &total),
        "cart.adds price.total run.runs sources.lints",
        "it is skipped each time"
    );
}
