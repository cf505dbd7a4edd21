//! Invalid tool arguments from agents: exact messages.

use crate::{FILTERS, NO_GO, NO_PROJECT, add_links_out, path_without_go};
use proctor_tests::mcp_client::Mcp;
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::{Value, json};
use std::process::Stdio;

fn mistakes() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("run_tests", json!({"timeout": -1}), "run_tests: timeout must be a positive number of seconds, got -1"),
        ("run_tests", json!({"timeout": 0}), "run_tests: timeout must be a positive number of seconds, got 0"),
        (
            "run_tests",
            json!({"timeout": "NaN"}),
            "run_tests: timeout must be a positive number of seconds, got \"NaN\"",
        ),
        (
            "run_tests",
            json!({"timeout": "abc"}),
            "run_tests: timeout must be a positive number of seconds, got \"abc\"",
        ),
        ("run_tests", json!({"timeout": true}), "run_tests: timeout must be a positive number of seconds, got true"),
        ("run_failing_tests", json!({"limit": 0}), "run_failing_tests: limit must be a positive whole number, got 0"),
        ("run_tests", json!({"filter": 7}), "filter must be a string, got int"),
        ("run_tests", json!({"filter": ["a"]}), "filter must be a string, got list"),
        (
            "run_tests",
            json!({"framework": "cobol"}),
            "framework: unknown framework `cobol`: known are go, pytest, unittest, jest, mocha, node, vitest, playwright, script, cargo, nextest, ctest, maven, gradle, maestro, cypress, rspec, phpunit",
        ),
        ("run_tests", json!({"files": ["../greet.go"]}), "files: \"../greet.go\" is outside the workspace"),
        ("run_tests", json!({"files": ["out/passwd"]}), "files: \"out/passwd\" is outside the workspace"),
        ("run_tests", json!({"files": ["gone.go"]}), "files: \"gone.go\" not found in the workspace"),
        (
            "run_tests",
            json!({"repeat": 3, "fresh": true}),
            "fresh excludes repeat and retry_failed: empty caches serve one execution",
        ),
        ("run_tests", json!({"headed": true}), "headed has no meaning for go"),
        ("run_tests", json!({"browser": "webkit"}), "browser has no meaning for go"),
        ("run_tests", json!({"env": {"LD_PRELOAD": "/x.so"}}), "env: LD_PRELOAD decides what runs and cannot be set"),
        ("run_tests", json!({"command": ["make"], "filter": "x"}), "command excludes filter and files"),
        ("run_tests", json!({"tests": ["TestA"], "filter": "x"}), "tests excludes filter: pass one of them"),
        ("run_tests", json!({"tests": "TestA"}), "run_tests: tests must be a list of strings, got \"TestA\""),
        ("run_tests", json!({"tests": [""]}), "tests: a name is empty: leave it out, or leave out tests to run all"),
        ("tests_covering", json!({}), "tests_covering: file is required"),
        ("tests_covering", json!({"file": ""}), "tests_covering: file is required"),
        ("tests_covering", json!({"file": "../x.go"}), "file: \"../x.go\" is outside the workspace"),
        ("tests_covering", json!({"file": "passwd.txt"}), "file: \"passwd.txt\" is outside the workspace"),
        (
            "tests_covering",
            json!({"file": "greet.go", "line": -3}),
            "tests_covering: line must be a positive whole number, got -3",
        ),
        (
            "last_test_failures",
            json!({"limit": 1.5}),
            "last_test_failures: limit must be a positive whole number, got 1.5",
        ),
        ("list_tests", json!({"filter": "-list"}), FILTERS[0].1),
    ]
}

#[tokio::test]
async fn names_each_mistake_and_keeps_the_last_report() {
    let workspace = TestWorkspace::with_fixture("go/fail");
    add_links_out(&workspace.path);
    let before = Baseline::capture(&workspace);
    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({})).await;
    let failures = mcp.call("last_test_failures", json!({})).await.structured;
    for (tool, arguments, text) in mistakes() {
        assert_eq!(mcp.expect_error(tool, arguments.clone()).await, text, "{tool} {arguments}");
    }
    for (filter, text) in FILTERS {
        assert_eq!(mcp.expect_error("run_tests", json!({"filter": filter})).await, text);
    }
    let unknown = mcp.expect_error("run_tests", json!({"tiemout": 1})).await;
    assert!(unknown.starts_with("run_tests: unknown argument `tiemout`; it takes: "), "{unknown}");
    let stranger = mcp.expect_error("get_run", json!({"run_id": "0123456789abcdef0123456789abcdef"})).await;
    assert!(stranger.starts_with("get_run: no such run of this tenant. "), "{stranger}");
    let after = mcp.call("last_test_failures", json!({})).await.structured;
    assert_eq!((&after["run_id"], &after["failures"]), (&failures["run_id"], &failures["failures"]));
    assert_eq!(mcp.tools().len(), 11, "the shim still answers");
    mcp.close().await;
    before.assert_files(&workspace);
}

#[tokio::test]
async fn refuses_a_workspace_without_a_project() {
    let workspace = TestWorkspace::empty();
    let mcp = Mcp::start(&workspace).await;
    for tool in ["run_tests", "list_tests"] {
        assert_eq!(mcp.expect_error(tool, json!({})).await, NO_PROJECT);
    }
    assert_eq!(mcp.call("last_test_failures", json!({})).await.text, "no run_tests call yet in this session");
}

#[tokio::test]
async fn names_a_runner_missing_on_path() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let path = path_without_go(workspace.root());
    let mcp = Mcp::start_with(workspace.command("proctor-mcp").env("PATH", path), &workspace).await;
    assert_eq!(mcp.expect_error("run_tests", json!({})).await, format!("run_tests: {NO_GO}"));
}

#[tokio::test]
async fn clamps_values_above_the_ceiling_and_reports_it() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let mcp = Mcp::start(&workspace).await;
    let answer = mcp.call("run_tests", json!({"timeout": "5000", "verbose": true})).await;
    assert!(answer.text.contains("timeout was clamped from \"5000\" to 1800 s."), "{}", answer.hint);
    assert_eq!(answer.structured["limits"]["wall_ms_max"], 1_800_000);
}

#[test]
fn refuses_to_start_with_bad_arguments() {
    let workspace = TestWorkspace::empty();
    for (arguments, text) in [
        (&["--workspace", "/nowhere"][..], "--workspace /nowhere: No such file or directory"),
        (&["--workspace", "/etc/passwd"], "--workspace /etc/passwd: not a directory"),
        (&["--supervisor", "http://10.0.0.1:1"], "plain http only to loopback"),
        (&["--supervisor", "nonsense"], "expected unix:PATH, https://HOST:PORT or http://127.0.0.1:PORT"),
    ] {
        let mut shim = workspace.command("proctor-mcp");
        let output = proctor_tests::process::wait_for_exit(shim.args(arguments).stdin(Stdio::null()).spawn().unwrap());
        assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
        assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
    }
}
