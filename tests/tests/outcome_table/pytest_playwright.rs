//! Browser tests in Python: pytest with pytest-playwright in an environment of its own, and the host's Chromium as the
//! fixture's `conftest.py` names it. Must not know how the adapter does it.

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::sync::Once;

/// `proctor run` with these arguments, where the Python on PATH has pytest-playwright.
fn run(place: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("pytest-playwright"));
    let known = search_path();
    let dirs = [tools().join("pytest-playwright/bin")].into_iter().chain(std::env::split_paths(&known));
    let path = std::env::join_paths(dirs).unwrap();
    let mut command = place.command("proctor");
    command.args(["run", "--output", "json"]).args(arguments).env("PATH", path);
    wait_for_exit(command.spawn().unwrap())
}

fn tests(report: &Value, fields: &[&str]) -> Vec<Value> {
    let pick = |test: &Value| fields.iter().map(|field| test[*field].clone()).collect();
    report["tests"].as_array().unwrap().iter().map(pick).collect()
}

#[test]
fn a_browser_test_in_python_leaves_what_its_settings_keep() {
    let place = TestWorkspace::with_fixture("pytest/browser");
    let said = run(&place, &["--browser", "chromium"]);
    assert_eq!((said.status, said.stderr.as_str()), (1, ""), "{said:?}");
    let report = said.json();
    assert_eq!((&report["framework"], &report["outcome"]), (&json!("pytest"), &json!("failed")));
    let mut told = tests(&report, &["nodeid", "outcome", "file", "line", "message"]);
    told.sort_by_key(ToString::to_string);
    let why = "Locator expected to have text 'Goodbye'\nActual value: Welcome";
    assert_eq!(
        json!(told),
        json!([
            ["test_shop.py::test_greets[chromium]", "failed", "test_shop.py", 12, why],
            ["test_shop.py::test_opens[chromium]", "passed", null, null, null],
        ])
    );
    let dir = "pytest-0/test-shop-py-test-greets-chromium";
    let kept = [("screenshot", "test-failed-1.png", &b"\x89PNG"[..]), ("trace", "trace.zip", b"PK")];
    let listed = report["artifacts"].as_array().unwrap();
    assert_eq!(listed.len(), kept.len(), "{listed:?}");
    let out = place.root().join("artefact");
    for (file, (kind, name, begin)) in listed.iter().zip(kept) {
        let name = format!("{dir}/{name}");
        assert_eq!((&file["kind"], &file["name"]), (&json!(kind), &json!(name)));
        assert_eq!(file["test"]["name"], "test_greets[chromium]", "{file}");
        let said = place.proctor(&["report", "--artifact", &name, "--out", out.to_str().unwrap()]);
        assert_eq!((said.status, said.stderr.as_str()), (0, ""));
        assert!(std::fs::read(&out).unwrap().starts_with(begin), "{name}");
    }
    assert!(!place.workspace.join("left").exists(), "the project's own --output stays as it was");
}

#[test]
fn a_headed_browser_is_started_with_a_head() {
    let place = TestWorkspace::with_fixture("pytest/browser");
    let said = run(&place, &["--headed", "--filter", "test_opens"]);
    let report = said.json();
    let [told] = &tests(&report, &["outcome", "message"])[..] else { panic!("{report}") };
    assert_eq!((said.status, &told[0]), (1, &json!("error")), "a run has no display: {told}");
    assert!(told[1].as_str().unwrap().contains("headed browser"), "{told}");
}

#[test]
fn a_project_without_pytest_playwright_has_no_browser() {
    let place = TestWorkspace::with_fixture("pytest/pass");
    for (option, name) in [(&["--headed"][..], "headed"), (&["--browser", "firefox"], "browser")] {
        let said = run(&place, option);
        let text = format!("proctor: {name} has no meaning for pytest without pytest-playwright\n");
        assert_eq!((said.status, said.stderr), (2, text));
    }
}
