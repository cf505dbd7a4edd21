//! `proctor-mcp` with an independent client: the official Python SDK, which validates structured data against the schemas.
//! Some rows of the outcome table, and a session with every tool.

use crate::mcp::{arguments, check_failures, check_run};
use proctor_tests::expected::row;
use proctor_tests::http_shim::HttpShim;
use proctor_tests::mcp_client::Answer;
use proctor_tests::process::{command, ensure_installed, program, source_root, wait_for_exit};
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;

/// A generation of the SDK: the directory of its Python, and the client that is written for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generation {
    directory: &'static str,
    script: &'static str,
}

pub(crate) const V1: Generation = Generation { directory: "python-v1", script: "mcp_client_v1.py" };
pub(crate) const V2: Generation = Generation { directory: "python", script: "mcp_client.py" };

/// The second generation with a client that gives up each request after a minute.
pub(crate) const V2_IMPATIENT: Generation = Generation { script: "long_run.py", ..V2 };

impl Generation {
    fn interpreter(self) -> PathBuf {
        static TOOLS: OnceLock<PathBuf> = OnceLock::new();
        let tools = TOOLS.get_or_init(|| {
            ensure_installed("python");
            std::env::var_os("PROCTOR_TOOLS").map_or_else(|| source_root().join(".tools"), PathBuf::from)
        });
        tools.join(self.directory).join("bin/python")
    }

    /// What the client of this generation prints, with these arguments and this input.
    pub(crate) fn run(self, workspace: &TestWorkspace, arguments: &[&OsStr], input: &Value) -> Value {
        let mut python = command(&self.interpreter());
        // The shim inherits the client's environment, which is that of the workspace's programs.
        let model = workspace.command("proctor-mcp");
        python.envs(model.get_envs().filter_map(|(name, value)| Some((name, value?))));
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        python.arg(source_root().join("tests/tests/python_clients").join(self.script)).args(arguments);
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = python.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
        let output = wait_for_exit(child);
        assert_eq!(output.status, 0, "{}", output.stderr);
        output.json()
    }
}

fn calls(workspace: &TestWorkspace, calls: &Value) -> Value {
    let shim = program("proctor-mcp");
    let server = [shim.as_os_str(), OsStr::new("--workspace"), workspace.path.as_os_str()];
    calls_of(workspace, "legacy", &server, calls)
}

/// The answers that the SDK gets from a server, which is a command or a URL with its token.
pub(crate) fn calls_of(workspace: &TestWorkspace, mode: &str, server: &[&OsStr], calls: &Value) -> Value {
    V2.run(workspace, &[&[OsStr::new(mode)], server].concat(), calls)
}

pub(crate) fn answer(value: &Value) -> Answer {
    let text = |number: usize| value["content"][number]["text"].as_str().unwrap_or_default().to_owned();
    Answer {
        text: text(0),
        hint: text(1),
        structured: value["structuredContent"].clone(),
        is_error: value["isError"] == true,
    }
}

fn check(name: &str) {
    let row = row(&format!("go/{name}"));
    let workspace = TestWorkspace::with_fixture(row.fixture);
    let before = Baseline::capture(&workspace);
    let requests = json!([
        {"tool": "run_tests", "arguments": arguments(row)},
        {"tool": "last_test_failures", "arguments": {}},
    ]);
    let answers = calls(&workspace, &requests);
    check_run(row, &answer(&answers["answers"][0]));
    check_failures(row, &answer(&answers["answers"][1]).text);
    before.assert_files(&workspace);
}

macro_rules! rows {
    ($($name:ident)*) => { $(#[test] fn $name() { check(stringify!($name)); })* };
}

// Each shape of structured data that the SDK validates: failures, collectors, running tests, partial results, truncated output.
rows! { fail builderror hang crash flood }

/// Every tool, and an invalid call.
fn every_tool() -> Value {
    json!([
        {"tool": "last_test_failures", "arguments": {}},
        {"tool": "tests_covering", "arguments": {"file": "calc/calc.go"}},
        {"tool": "run_tests", "arguments": {"timeout": "60", "max_tokens": 500.0}},
        {"tool": "tests_covering", "arguments": {"file": "calc/calc.go", "line": 10}},
        {"tool": "run_failing_tests", "arguments": {}},
        {"tool": "list_tests", "arguments": {"limit": 1}},
        {"tool": "get_run", "arguments": {"stream": "stdout", "cursor": 0}},
        {"tool": "get_test_report", "arguments": {"format": "json", "max_tokens": 100_000}},
        {"tool": "run_tests", "arguments": {"timeout": -1}},
        {"tool": "analyze_failures", "arguments": {}},
        {"tool": "run_affected_tests", "arguments": {"dry_run": true}},
        {"tool": "run_affected_tests", "arguments": {}},
        {"tool": "run_lint", "arguments": {}},
        {"tool": "run_typecheck", "arguments": {}},
    ])
}

fn check_every_tool(output: &Value) {
    assert_eq!(output["server"], "proctor");
    let called: BTreeSet<String> =
        every_tool().as_array().unwrap().iter().map(|call| call["tool"].to_string()).collect();
    let tools: BTreeSet<String> = output["tools"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(called, tools);
    let answers: Vec<Answer> = output["answers"].as_array().unwrap().iter().map(answer).collect();
    assert_eq!(answers[0].text, "no run_tests call yet in this session");
    assert!(answers[2].text.ends_with("exit: 0\n") && answers[2].text.len() <= 2_000, "{}", answers[2].text);
    assert!(answers[3].text.starts_with("2 test(s) cover calc/calc.go:10:\n\nexample.com/pass/invoice:\n"));
    assert_eq!(answers[4].text, "last run_tests had no failures — nothing to rerun (go)");
    assert!(
        answers[5].text.ends_with("... (3 more truncated; pass a larger limit to see them)\n"),
        "{}",
        answers[5].text
    );
    assert!(answers[6].text.starts_with('{'), "{}", answers[6].text);
    assert_eq!(answers[8].text, "run_tests: timeout must be a positive number of seconds, got -1");
    let errors: Vec<usize> = (0..answers.len()).filter(|index| answers[*index].is_error).collect();
    assert_eq!(errors, [8], "{output}");
    assert!(!output["progress"].as_array().unwrap().is_empty(), "progress is reported during a run");
}

#[test]
fn every_tool_answer_matches_its_schema() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    check_every_tool(&calls(&workspace, &every_tool()));
}

#[test]
fn the_first_generation_calls_every_tool_over_stdio_and_http() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let shim = program("proctor-mcp");
    let stdio = [OsStr::new("legacy"), shim.as_os_str(), OsStr::new("--workspace"), workspace.path.as_os_str()];
    check_every_tool(&V1.run(&workspace, &stdio, &every_tool()));
    let workspace = TestWorkspace::with_fixture("go/pass");
    let shim = HttpShim::start(&workspace);
    let http = [OsStr::new("legacy"), OsStr::new(shim.url()), OsStr::new(shim.token())];
    check_every_tool(&V1.run(&workspace, &http, &every_tool()));
    shim.stop();
}

#[test]
fn the_second_generation_calls_every_tool_over_http() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let shim = HttpShim::start(&workspace);
    check_every_tool(&calls_of(&workspace, "auto", &[OsStr::new(shim.url()), OsStr::new(shim.token())], &every_tool()));
    shim.stop();
}
