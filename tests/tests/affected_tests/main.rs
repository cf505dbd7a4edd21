//! Which tests changes affect: selected, run and left out the same way at all entrances, against real runners.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

mod entrances;
mod go;
mod javascript;
mod python;
mod rust;

use proctor_tests::test_workspace::{TestWorkspace, write_before_run};
use serde_json::Value;
use std::path::Path;

fn write_all(workspace: &Path, files: &[(&str, &str)]) {
    files.iter().for_each(|(file, content)| write_before_run(workspace, file, content));
}

/// What `proctor affected` answers: `full: …`, or the names with their reasons in order.
fn affected(workspace: &TestWorkspace, since: &str) -> String {
    let answer = workspace.proctor(&["affected", since, "--output", "json"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    let document = answer.json();
    if let Some(reason) = document["affected"]["full_reason"].as_str() {
        return format!("full: {reason}");
    }
    let test = |test: &Value| format!("{} {}", test["name"].as_str().unwrap(), test["reason"].as_str().unwrap());
    let tests: Vec<String> = document["tests"].as_array().unwrap().iter().map(test).collect();
    let new = document["new_units"].as_array().unwrap().iter().map(|unit| format!("new {}", unit.as_str().unwrap()));
    tests.into_iter().chain(new).collect::<Vec<_>>().join(", ")
}

/// The JSON report of a run of affected tests.
fn run_affected(workspace: &TestWorkspace, status: i32) -> Value {
    let ran = workspace.proctor(&["run", "--affected", "--output", "json"]);
    assert_eq!(ran.status, status, "{ran:?}");
    ran.json()
}

fn names(report: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        report["tests"].as_array().unwrap().iter().map(|test| test["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Runs all tests, without coverage if `plain`.
fn run_all(workspace: &TestWorkspace, plain: bool, status: i32) {
    let ran = workspace.proctor(if plain { &["run", "--coverage", "off"] } else { &["run"] });
    assert_eq!(ran.status, status, "{ran:?}");
}
