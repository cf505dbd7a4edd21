//! Tests of Python, by imports, setup files and settings.

use crate::go::{A, go_workspace};
use crate::{affected, names, run_affected, run_all, write_all};
use proctor_tests::test_workspace::{TestWorkspace, write_before_run};
use serde_json::json;
use std::fs;

#[test]
fn python_tests_follow_imports_conftest_and_settings() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    write_all(
        path,
        &[
            ("requirements.txt", "pytest\n"),
            ("shop/__init__.py", ""),
            ("shop/price.py", "def total():\n    return 1\n"),
            ("shop/cart.py", "from shop import price\n\ndef add():\n    return price.total()\n"),
            ("tests/test_cart.py", "from shop.cart import add\n\ndef test_cart():\n    assert add()\n"),
            ("tests/test_alone.py", "def test_alone():\n    pass\n"),
            ("tests/sub/conftest.py", ""),
            ("tests/sub/test_sub.py", "def test_sub():\n    pass\n"),
            ("conftest.py", ""),
        ],
    );
    // Where nothing is measured, imports decide.
    run_all(&workspace, true, 0);
    assert_eq!(affected(&workspace, "last_run"), "");
    write_before_run(path, "shop/price.py", "def total():\n    return 2\n");
    assert_eq!(affected(&workspace, "last_run"), "test_cart imports a changed file: shop/price.py");
    let some = run_affected(&workspace, 0);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["test_cart".into()], &json!(2)));
    write_before_run(path, "tests/sub/conftest.py", "import json\n");
    assert_eq!(affected(&workspace, "last_run"), "test_sub set up by a changed file: tests/sub/conftest.py");
    write_before_run(path, "tests/test_new.py", "def test_new():\n    pass\n");
    assert_eq!(names(&run_affected(&workspace, 0)), ["test_new", "test_sub"]);
    write_before_run(path, "shop/price.py", "def total():\n    return 0\n");
    assert_eq!(names(&run_affected(&workspace, 1)), ["test_cart"]);
    assert_eq!(affected(&workspace, "last_run"), "test_cart failed last time");
    fs::remove_file(path.join("shop/price.py")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), "test_cart failed last time");
    write_before_run(path, "conftest.py", "import json\n");
    assert_eq!(affected(&workspace, "last_run"), "full: conftest.py, the set-up of all tests, was changed");
}

const TAX: &str = "def tax(a):\n    return a\n";

const UNITTEST: [(&str, &str); 5] = [
    ("shop/__init__.py", ""),
    ("shop/tax.py", TAX),
    (
        "tests/test_tax.py",
        "import unittest\nfrom shop.tax import tax\n\nclass Tax(unittest.TestCase):\n    def test_tax(self):\n        \
         self.assertEqual(tax(1), 1)\n",
    ),
    (
        "tests/test_alone.py",
        "import unittest\n\nclass Alone(unittest.TestCase):\n    def test_alone(self):\n        pass\n",
    ),
    ("tests/__init__.py", ""),
];

#[test]
fn tests_of_unittest_follow_imports_and_packages() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    write_all(path, &UNITTEST);
    run_all(&workspace, true, 0);
    assert_eq!(affected(&workspace, "last_run"), "");
    write_before_run(path, "shop/tax.py", &format!("RATE = 1\n{TAX}"));
    assert_eq!(affected(&workspace, "last_run"), "Tax.test_tax imports a changed file: shop/tax.py");
    let some = run_affected(&workspace, 0);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["Tax.test_tax".into()], &json!(1)), "{some}");
    // unittest finds tests in every file of this name, and below every package.
    write_before_run(path, "tests/tests.py", &UNITTEST[2].1.replace("tax(1)", "tax(2)"));
    assert_eq!(names(&run_affected(&workspace, 1)), ["Tax.test_tax"]);
    fs::remove_file(path.join("tests/tests.py")).unwrap();
    assert_eq!(run_affected(&workspace, 0)["nothing_ran"], "NOTHING_AFFECTED", "its failure is gone with it");
    fs::remove_file(path.join("tests/__init__.py")).unwrap();
    let gone = "full: tests/__init__.py, which makes a directory of tests a package, was removed";
    assert_eq!(affected(&workspace, "last_run"), gone);
}

#[test]
fn what_a_measured_python_test_reads_or_a_plugin_loads_runs_all_tests() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    let reading = "import pathlib, pytest\nfrom pkg import names\n\nDATA = pathlib.Path(__file__).parent / \"data\"\n\n\
                   @pytest.mark.parametrize(\"case\", names.NAMES)\ndef test_case(case):\n    assert \"TODO\" not in (DATA / f\"{case}.py\").read_text()\n";
    write_all(
        path,
        &[
            ("pytest.toml", "[pytest]\naddopts = [\"-p\", \"plug\"]\npythonpath = [\".\"]\n"),
            ("rate.py", "def rate():\n    return 1\n"),
            (
                "plug.py",
                "import pytest\nimport rate as of_plugin\n\n@pytest.fixture\ndef rate():\n    return of_plugin.rate()\n",
            ),
            ("pkg/__init__.py", ""),
            ("pkg/names.py", "NAMES = ['simple']\n\ndef count():\n    return 1\n"),
            ("data/simple.py", "x = 1\n"),
            ("test_read.py", reading),
            ("test_rate.py", "def test_rate(rate):\n    assert rate == 1\n"),
            ("test_count.py", "from pkg.names import count\n\ndef test_count():\n    assert count() == 1\n"),
        ],
    );
    assert_eq!(workspace.proctor(&["run", "--coverage", "on"]).status, 0);
    let check = |file: &str, text: &str, expected: &str| {
        let before = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), expected, "{file}");
        write_before_run(path, file, &before);
    };
    check("data/simple.py", "x = 1  # TODO\n", "full: data/simple.py was changed, and any test may read it");
    check("rate.py", "def rate():\n    return 2\n", "full: plug.py, a module that settings name, was changed");
    let changed = "NAMES = ['simple']\n\ndef count():\n    return 2\n";
    check("pkg/names.py", changed, "test_count executed a changed line: pkg/names.py");
    // An empty file has no lines, but was loaded.
    let importing =
        "test_count imports a changed file: pkg/__init__.py, test_case[simple] imports a changed file: pkg/__init__.py";
    check("pkg/__init__.py", "X = 1\n", importing);
}

#[test]
fn a_run_of_another_framework_leaves_the_tests_that_are_selected() {
    let workspace = go_workspace();
    let path = &workspace.path;
    write_all(path, &[("pytest.ini", "[pytest]\n"), ("test_p.py", "def test_p():\n    assert 1\n")]);
    assert_eq!(workspace.proctor(&["run", "--framework", "go"]).status, 0);
    for (text, status) in [("def test_p():\n    assert 0\n", 1), ("def test_p():\n    assert 1\n", 0)] {
        write_before_run(path, "test_p.py", text);
        assert_eq!(workspace.proctor(&["run", "--framework", "pytest", "--file", "test_p.py"]).status, status);
        write_before_run(path, "test_p.py", "def test_p():\n    assert 1\n");
        assert_eq!(affected(&workspace, "last_run"), "", "after {text}");
    }
    assert_eq!(workspace.proctor(&["run", "--", "true"]).status, 0);
    write_before_run(path, "a/a.go", &A.replace("return N", "return N + 7"));
    let failed = run_affected(&workspace, 1);
    assert_eq!(names(&failed), ["TestA", "TestB"]);
}
