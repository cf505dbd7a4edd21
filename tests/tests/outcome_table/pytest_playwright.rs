//! Browser tests in Python: pytest with pytest-playwright in its own environment, and the host's Chromium, which the
//! fixture's `conftest.py` selects.

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::sync::Once;

/// `proctor run` with these arguments and a Python on PATH that has pytest-playwright.
fn run(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("pytest-playwright"));
    let known = search_path();
    let dirs = [tools().join("pytest-playwright/bin")].into_iter().chain(std::env::split_paths(&known));
    let path = std::env::join_paths(dirs).unwrap();
    let mut command = workspace.command("proctor");
    command.args(["run", "--output", "json"]).args(arguments).env("PATH", path);
    wait_for_exit(command.spawn().unwrap())
}

fn tests(report: &Value, fields: &[&str]) -> Vec<Value> {
    let pick = |test: &Value| fields.iter().map(|field| test[*field].clone()).collect();
    report["tests"].as_array().unwrap().iter().map(pick).collect()
}

#[test]
fn keeps_artifacts_of_a_failed_browser_test() {
    let workspace = TestWorkspace::with_fixture("pytest/browser");
    let output = run(&workspace, &["--browser", "chromium"]);
    assert_eq!((output.status, output.stderr.as_str()), (1, ""), "{output:?}");
    let report = output.json();
    assert_eq!((&report["framework"], &report["outcome"]), (&json!("pytest"), &json!("failed")));
    let mut results = tests(&report, &["nodeid", "outcome", "file", "line", "message"]);
    results.sort_by_key(ToString::to_string);
    let message = "Locator expected to have text 'Goodbye'\nActual value: Welcome";
    assert_eq!(
        json!(results),
        json!([
            ["test_shop.py::test_greets[chromium]", "failed", "test_shop.py", 12, message],
            ["test_shop.py::test_opens[chromium]", "passed", null, null, null],
        ])
    );
    let dir = "pytest-0/test-shop-py-test-greets-chromium";
    let kept = [("screenshot", "test-failed-1.png", &b"\x89PNG"[..]), ("trace", "trace.zip", b"PK")];
    let listed = report["artifacts"].as_array().unwrap();
    assert_eq!(listed.len(), kept.len(), "{listed:?}");
    let file = workspace.root().join("artifact");
    for (entry, (kind, name, begin)) in listed.iter().zip(kept) {
        let name = format!("{dir}/{name}");
        assert_eq!((&entry["kind"], &entry["name"]), (&json!(kind), &json!(name)));
        assert_eq!(entry["test"]["name"], "test_greets[chromium]", "{entry}");
        let output = workspace.proctor(&["report", "--artifact", &name, "--out", file.to_str().unwrap()]);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""));
        assert!(std::fs::read(&file).unwrap().starts_with(begin), "{name}");
    }
    assert!(!workspace.path.join("left").exists(), "the project's own --output is left alone");
}

#[test]
fn passes_headed_to_the_browser() {
    let workspace = TestWorkspace::with_fixture("pytest/browser");
    let output = run(&workspace, &["--headed", "--filter", "test_opens"]);
    let report = output.json();
    let [test] = &tests(&report, &["outcome", "message"])[..] else { panic!("{report}") };
    assert_eq!((output.status, &test[0]), (1, &json!("error")), "a run has no display: {test}");
    assert!(test[1].as_str().unwrap().contains("headed browser"), "{test}");
}

#[test]
fn refuses_browser_options_without_pytest_playwright() {
    let workspace = TestWorkspace::with_fixture("pytest/pass");
    for (option, name) in [(&["--headed"][..], "headed"), (&["--browser", "firefox"], "browser")] {
        let output = run(&workspace, option);
        let text = format!("proctor: {name} has no meaning for pytest without pytest-playwright\n");
        assert_eq!((output.status, output.stderr), (2, text));
    }
}
