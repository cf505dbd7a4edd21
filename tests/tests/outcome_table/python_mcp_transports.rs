//! `proctor-mcp` over both transports and with both generations of MCP, through the official Python SDK: the same answers.

use crate::mcp::{arguments, check_failures, check_run};
use crate::python_mcp_sdk::{V1, V2_IMPATIENT, answer, calls_of};
use proctor_tests::expected::row;
use proctor_tests::http_shim::HttpShim;
use proctor_tests::process::program;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::ffi::OsStr;

fn requests() -> Value {
    json!([
        {"tool": "run_tests", "arguments": arguments(row("go/fail"))},
        {"tool": "last_test_failures", "arguments": {}},
    ])
}

// What every client has to get of the row `go/fail`.
fn check(output: &Value, version: &str) {
    let row = row("go/fail");
    assert_eq!((&output["server"], &output["version"]), (&json!("proctor"), &json!(version)));
    check_run(row, &answer(&output["answers"][0]));
    check_failures(row, &answer(&output["answers"][1]).text);
    assert!(!output["progress"].as_array().unwrap().is_empty(), "{output}");
}

#[test]
fn over_stdio_without_a_handshake() {
    let workspace = TestWorkspace::with_fixture(row("go/fail").fixture);
    let shim = program("proctor-mcp");
    let server = [shim.as_os_str(), OsStr::new("--workspace"), workspace.path.as_os_str()];
    check(&calls_of(&workspace, "auto", &server, &requests()), "2026-07-28");
}

#[test]
fn over_http_in_both_generations() {
    let workspace = TestWorkspace::with_fixture(row("go/fail").fixture);
    let shim = HttpShim::start(&workspace);
    let server = [OsStr::new(shim.url()), OsStr::new(shim.token())];
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        check(&calls_of(&workspace, mode, &server, &requests()), version);
    }
    shim.stop();
}

#[test]
fn with_the_first_generation_of_the_sdk() {
    let workspace = TestWorkspace::with_fixture(row("go/fail").fixture);
    let shim = program("proctor-mcp");
    let legacy = OsStr::new("legacy");
    let server = [legacy, shim.as_os_str(), OsStr::new("--workspace"), workspace.path.as_os_str()];
    check(&V1.run(&workspace, &server, &requests()), "2025-11-25");
    let shim = HttpShim::start(&workspace);
    let server = [legacy, OsStr::new(shim.url()), OsStr::new(shim.token())];
    check(&V1.run(&workspace, &server, &requests()), "2025-11-25");
    shim.stop();
}

/// The client gives up each request after a minute; the run takes more than three.
#[test]
fn a_run_of_three_minutes_with_requests_of_one() {
    let workspace = TestWorkspace::with_fixture(row("go/fail").fixture);
    let shim = program("proctor-mcp");
    let server = [shim.as_os_str(), OsStr::new("--workspace"), workspace.path.as_os_str()];
    let call = json!({"tool": "run_tests", "arguments": {"command": ["sh", "-c", "sleep 200; echo the end"]}});
    let output = V2_IMPATIENT.run(&workspace, &server, &call);
    let answers = output["answers"].as_array().unwrap();
    let state = |answer: &Value| answer["structuredContent"]["state"].clone();
    let (last, others) = answers.split_last().unwrap();
    assert!(others.len() >= 3 && others.iter().all(|answer| state(answer) == "running"), "{output}");
    assert!(others[1..].iter().all(|answer| answer["call"]["tool"] == "get_run"), "{output}");
    assert_eq!((state(last), &last["structuredContent"]["outcome"]), (json!("finished"), &json!("passed")), "{output}");
    let run_id = &others[0]["structuredContent"]["run_id"];
    assert!(run_id.is_string() && &last["structuredContent"]["run_id"] == run_id, "one run: {output}");
}
