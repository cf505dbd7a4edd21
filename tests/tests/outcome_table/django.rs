//! A project of Django's, run by its own test runner: a Python that has Django is first on PATH. Must not know how the adapter does
//! it.

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::sync::Once;

fn proctor(place: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("django"));
    let known = search_path();
    let dirs = [tools().join("django/bin")].into_iter().chain(std::env::split_paths(&known));
    let mut command = place.command("proctor");
    command.args(arguments).args(["--output", "json"]).env("PATH", std::env::join_paths(dirs).unwrap());
    wait_for_exit(command.spawn().unwrap())
}

fn told(report: &Value) -> Vec<(String, String)> {
    let field = |test: &Value, name: &str| test[name].as_str().unwrap_or_default().to_owned();
    let tests = report["tests"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    let mut told: Vec<_> = tests.iter().map(|test| (field(test, "nodeid"), field(test, "outcome"))).collect();
    told.sort();
    told
}

fn expected(tests: &[(&str, &str)]) -> Vec<(String, String)> {
    tests.iter().map(|(test, outcome)| ((*test).to_owned(), (*outcome).to_owned())).collect()
}

#[test]
fn tests_of_django_run_with_its_settings_and_a_database() {
    let place = TestWorkspace::with_fixture("unittest/django");
    let said = proctor(&place, &["run"]);
    let report = said.json();
    assert_eq!((said.status, &report["outcome"], &report["framework"]), (1, &json!("failed"), &json!("unittest")));
    assert_eq!(
        told(&report),
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
    let again = proctor(&place, &["run", "--failed"]).json();
    assert_eq!(told(&again), expected(&[("shop.tests.test_items.TestItems.test_price", "failed")]));
    let named = proctor(&place, &["run", "--file", "shop/tests/test_plain.py"]).json();
    assert_eq!(told(&named), expected(&[("shop.tests.test_plain.TestPlain.test_later", "skipped")]));
    let filtered = proctor(&place, &["run", "--filter", "total"]);
    assert_eq!((filtered.status, told(&filtered.json()).len()), (0, 1), "{filtered:?}");
    assert_eq!(proctor(&place, &["list"]).json()["tests"].as_array().unwrap().len(), 4);
}

#[test]
fn a_project_of_django_is_not_green_without_its_runners_end() {
    let place = TestWorkspace::with_fixture("unittest/django");
    place.write("shop/tests/test_items.py", "import os\nimport unittest\n\n\nclass T(unittest.TestCase):\n    def test_leaves(self):\n        os._exit(0)\n");
    let left = proctor(&place, &["run"]);
    assert_ne!(left.status, 0, "{left:?}");
    place.write("site_settings.py", "SECRET_KEY = 'x'\nINSTALLED_APPS = ['shop', 'gone']\n");
    let broken = proctor(&place, &["run"]);
    assert_eq!((broken.status, broken.json()["outcome"].as_str()), (3, Some("collection_failed")), "{broken:?}");
    assert!(broken.json()["collectors"][0]["message"].as_str().unwrap().contains("No module named 'gone'"));
}
