//! A Django project, run by Django's own test runner, with a Python on PATH that has Django.

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::sync::Once;

fn proctor(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("django"));
    let path = search_path();
    let dirs = [tools().join("django/bin")].into_iter().chain(std::env::split_paths(&path));
    let mut command = workspace.command("proctor");
    command.args(arguments).args(["--output", "json"]).env("PATH", std::env::join_paths(dirs).unwrap());
    wait_for_exit(command.spawn().unwrap())
}

fn outcomes(report: &Value) -> Vec<(String, String)> {
    let field = |test: &Value, name: &str| test[name].as_str().unwrap_or_default().to_owned();
    let tests = report["tests"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    let mut outcomes: Vec<_> = tests.iter().map(|test| (field(test, "nodeid"), field(test, "outcome"))).collect();
    outcomes.sort();
    outcomes
}

fn expected(tests: &[(&str, &str)]) -> Vec<(String, String)> {
    tests.iter().map(|(test, outcome)| ((*test).to_owned(), (*outcome).to_owned())).collect()
}

#[test]
fn runs_django_tests_with_settings_and_database() {
    let workspace = TestWorkspace::with_fixture("unittest/django");
    let output = proctor(&workspace, &["run"]);
    let report = output.json();
    assert_eq!((output.status, &report["outcome"], &report["framework"]), (1, &json!("failed"), &json!("unittest")));
    assert_eq!(
        outcomes(&report),
        expected(&[
            ("shop.tests.test_items.TestItems.test_is_kept_apart", "passed"),
            ("shop.tests.test_items.TestItems.test_price", "failed"),
            ("shop.tests.test_items.TestItems.test_total", "passed"),
            ("shop.tests.test_plain.TestPlain.test_later", "skipped"),
        ])
    );
    let failure = report["tests"].as_array().unwrap().iter().find(|test| test["outcome"] == "failed").unwrap();
    assert_eq!(
        [&failure["file"], &failure["line"], &failure["expected"], &failure["actual"]],
        [&json!("shop/tests/test_items.py"), &json!(19), &json!("4"), &json!("3")]
    );
    let again = proctor(&workspace, &["run", "--failed"]).json();
    assert_eq!(outcomes(&again), expected(&[("shop.tests.test_items.TestItems.test_price", "failed")]));
    let named = proctor(&workspace, &["run", "--file", "shop/tests/test_plain.py"]).json();
    assert_eq!(outcomes(&named), expected(&[("shop.tests.test_plain.TestPlain.test_later", "skipped")]));
    let filtered = proctor(&workspace, &["run", "--filter", "total"]);
    assert_eq!((filtered.status, outcomes(&filtered.json()).len()), (0, 1), "{filtered:?}");
    assert_eq!(proctor(&workspace, &["list"]).json()["tests"].as_array().unwrap().len(), 4);
}

#[test]
fn django_run_without_a_regular_end_does_not_pass() {
    let workspace = TestWorkspace::with_fixture("unittest/django");
    workspace.write("shop/tests/test_items.py", "import os\nimport unittest\n\n\nclass T(unittest.TestCase):\n    def test_leaves(self):\n        os._exit(0)\n");
    let left = proctor(&workspace, &["run"]);
    assert_ne!(left.status, 0, "{left:?}");
    workspace.write("site_settings.py", "SECRET_KEY = 'x'\nINSTALLED_APPS = ['shop', 'gone']\n");
    let broken = proctor(&workspace, &["run"]);
    assert_eq!((broken.status, broken.json()["outcome"].as_str()), (3, Some("collection_failed")), "{broken:?}");
    assert!(broken.json()["collectors"][0]["message"].as_str().unwrap().contains("No module named 'gone'"));
}
