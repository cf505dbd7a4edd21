//! `proctor-mcp` with clients that others wrote: both generations of the official TypeScript SDK, the Inspector, and the
//! conformance suite. `outcome_table` has the Python SDK.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod conformance;
mod node_program;

use node_program::NodeProgram;
use proctor_tests::http_shim::HttpShim;
use proctor_tests::process::program;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;

const FIXTURE: &str = "go/fail";

/// Every tool, in the order in which an agent would call them.
fn calls() -> Value {
    json!([
        {"tool": "get_run", "arguments": {}},
        {"tool": "list_tests", "arguments": {}},
        {"tool": "run_tests", "arguments": {}},
        {"tool": "last_test_failures", "arguments": {"limit": 1}},
        {"tool": "analyze_failures", "arguments": {}},
        {"tool": "run_failing_tests", "arguments": {"verbose": true}},
        {"tool": "run_affected_tests", "arguments": {"dry_run": true}},
        {"tool": "run_affected_tests", "arguments": {}},
        {"tool": "run_lint", "arguments": {}},
        {"tool": "run_typecheck", "arguments": {}},
        {"tool": "tests_covering", "arguments": {"file": "greet.go"}},
        {"tool": "get_run", "arguments": {"stream": "stdout"}},
        {"tool": "get_test_report", "arguments": {}},
    ])
}

fn check_answers(output: &Value) {
    let called: BTreeSet<String> = calls().as_array().unwrap().iter().map(|call| call["tool"].to_string()).collect();
    let tools: BTreeSet<String> = output["tools"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(called, tools, "every tool is called");
    let answers = output["answers"].as_array().unwrap();
    assert_eq!(answers.len(), calls().as_array().unwrap().len());
    assert!(answers.iter().all(|answer| answer["isError"] != true), "{output}");
    let run = &answers[2];
    let headline = run["structuredContent"]["headline"].as_str().unwrap();
    assert!(headline.starts_with("failed: 4 of 8, 1 failed by a subtest, 1 skipped (go, "), "{run}");
    assert!(run["content"][0]["text"].as_str().unwrap().starts_with(headline), "{run}");
    assert!(!output["progress"].as_array().unwrap().is_empty(), "{output}");
}

fn over_stdio(generation: &str) {
    let workspace = TestWorkspace::with_fixture(FIXTURE);
    let server = [program("proctor-mcp").into(), OsString::from("--workspace"), workspace.path.clone().into()];
    check_answers(&NodeProgram::script("call_tools.mjs").arg(generation).args(server).run(&workspace, &calls()));
}

fn over_http(generation: &str) {
    let workspace = TestWorkspace::with_fixture(FIXTURE);
    let shim = HttpShim::start(&workspace);
    let script = NodeProgram::script("call_tools.mjs").arg(generation).arg(shim.url()).arg(shim.token());
    check_answers(&script.run(&workspace, &calls()));
    shim.stop();
}

macro_rules! generations {
    ($($name:ident)*) => { $(
        mod $name {
            #[test] fn stdio() { super::over_stdio(stringify!($name)); }
            #[test] fn http() { super::over_http(stringify!($name)); }
        }
    )* };
}

generations! { v1 v2 modern }

/// Strict: exits with an error if a schema is one that some client or model provider refuses.
#[test]
fn the_inspector_finds_no_fault_in_the_schemas() {
    let workspace = TestWorkspace::with_fixture(FIXTURE);
    let shim = HttpShim::start(&workspace);
    let list = ["--method", "tools/list", "--strict"];
    let stdio = NodeProgram::package("mcp-inspector").arg("--cli").arg(program("proctor-mcp"));
    let stdio = stdio.arg("--workspace").arg(&workspace.path).args(list);
    let http = NodeProgram::package("mcp-inspector").arg("--cli").arg(shim.url());
    let http = http.arg("--header").arg(format!("Authorization: Bearer {}", shim.token())).args(list);
    for inspector in [stdio, http] {
        let tools = inspector.run(&workspace, &Value::Null);
        assert_eq!(tools["tools"].as_array().unwrap().len(), 11);
    }
    shim.stop();
}
