//! `run_tests` of a real `proctor-mcp` with a private supervisor on a row: exact text, structured data, and the tools that
//! query the result. MCP has no memory and pids options, so rows that need limits run into the defaults.

use proctor_proto::printable;
use proctor_tests::expectation::{Case, Row};
use proctor_tests::expected::row;
use proctor_tests::mcp_client::{Answer, Mcp};
use proctor_tests::process::{descendants, wait_until};
use proctor_tests::run_result::RunResult;
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Everything that is known about a run: its output, and the whole report.
fn everything() -> Value {
    json!({"raw": true, "verbose": true, "max_tokens": 1_000_000})
}

/// The arguments of `run_tests` for a row.
pub(crate) fn arguments(row: &Row) -> Value {
    let mut arguments = everything();
    if !row.options.filter.is_empty() {
        arguments["filter"] = json!(row.options.filter);
    }
    if !row.options.command.is_empty() {
        arguments["command"] = json!(row.options.command);
    }
    if let Some(seconds) = row.options.timeout_s {
        // Numbers are also accepted as strings and floats.
        arguments["timeout"] = json!(format!("{seconds}.0"));
    }
    arguments
}

/// Checks one row.
pub(crate) async fn check(name: &str) {
    let row = row(name);
    let workspace = TestWorkspace::with_fixture(row.fixture);
    let before = Baseline::capture(&workspace);
    let mcp = Mcp::start(&workspace).await;
    let answer = mcp.call("run_tests", arguments(row)).await;
    check_run(row, &answer);
    let failures = mcp.call("last_test_failures", json!({})).await;
    check_failures(row, &failures.text);
    check_covering(row, &mcp).await;
    check_artifacts(row, &mcp).await;
    let again = mcp.call("get_run", everything()).await;
    assert_eq!(again.text, answer.text, "get_run returns the same for a finished run");
    check_compact(row, &mcp.call("get_run", json!({})).await);
    let shim = mcp.shim.id().unwrap();
    let family = descendants(shim);
    let supervisor = family.iter().find(|process| process.command_line.contains("--private")).unwrap().pid;
    mcp.close().await;
    wait_until("everything that the shim started has ended", || !family.iter().any(|process| process.is_alive()));
    before.assert_nothing_is_left(&workspace, supervisor);
}

/// Text artifacts are shown as text, screenshots as images.
async fn check_artifacts(row: &Row, mcp: &Mcp) {
    for (kind, name, begin) in row.artifacts {
        let answer = mcp.call("get_test_report", json!({"artifact": name})).await;
        assert!(!answer.is_error, "{answer:?}");
        match *kind {
            "other" => assert!(answer.text.as_bytes().starts_with(begin), "{}", answer.text),
            "screenshot" => assert_eq!(answer.hint, "the picture is the last block"),
            kind => assert!(answer.text.starts_with(&format!("{kind} of ")), "{}", answer.text),
        }
    }
}

/// Checks the complete answer of `run_tests`.
pub(crate) fn check_run(row: &Row, answer: &Answer) {
    assert!(!answer.is_error, "{answer:?}");
    let report = &answer.structured;
    RunResult::from_json(report).assert_matches(row);
    let trailer = trailer(row);
    let left_out = |stream: &str| report["truncated"][format!("{stream}_bytes")].as_u64().unwrap();
    if left_out("stdout") == 0 && left_out("stderr") == 0 {
        let mut text = section(&report["stdout_tail"]);
        let stderr = section(&report["stderr_tail"]);
        if !stderr.is_empty() {
            text += &format!("--- stderr ---\n{stderr}");
        }
        assert_eq!(answer.text, text + &trailer);
    } else {
        assert!(answer.text.ends_with(&trailer), "{:?}", answer.text.split_at(answer.text.len() - 200).1);
    }
    let total = report["resources"]["output_bytes"].as_u64().unwrap();
    if row.output_bytes_min > 1_000_000 {
        let note = format!("\n[TRUNCATED] {} bytes left out; get_run {{\"run_id\":\"", total - 512_000);
        let position = answer.text.find(&note).unwrap_or_else(|| panic!("no {note:?}"));
        assert!((511_000..=512_000).contains(&position), "{position}");
    }
    assert!(!answer.hint.is_empty(), "a second block names the outcome");
}

/// Checks the answer that an agent gets unless it asks for more: the same facts in the text and in the data, in 2,000 tokens.
fn check_compact(row: &Row, answer: &Answer) {
    let (text, data) = (&answer.text, &answer.structured);
    assert!(text.len() + data.to_string().len() <= 8_000, "{answer:?}");
    assert!(text.starts_with(&format!("{}: ", row.outcome)) && text.ends_with(&trailer(row)), "{text}");
    let failures = data["failures"].as_array().map_or(0, Vec::len);
    assert_eq!(failures == 0, row.failures().is_empty() && row.running.is_empty(), "{data}");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for fact in texts(data, "") {
        for line in printable::block(&fact).lines().map(str::trim).filter(|line| !line.is_empty()) {
            assert!(lines.iter().any(|shown| shown.contains(line)), "the text has no {line:?}: {answer:?}");
        }
    }
}

// The strings of structured content, without those that only programs need.
fn texts(value: &Value, name: &str) -> Vec<String> {
    match value {
        Value::String(text) if !["run_id", "state", "kind"].contains(&name) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(|item| texts(item, name)).collect(),
        Value::Object(members) => members.iter().flat_map(|(name, member)| texts(member, name)).collect(),
        _ => Vec::new(),
    }
}

// The last line of each stream is terminated, and colours are removed.
fn section(tail: &Value) -> String {
    let text = anstream::adapter::strip_str(tail.as_str().unwrap()).to_string();
    if text.is_empty() || text.ends_with('\n') { text } else { format!("{text}\n") }
}

fn trailer(row: &Row) -> String {
    let why = match (row.outcome, row.options.timeout_s) {
        ("timed_out", Some(seconds)) => format!("timed out after {seconds}s\n"),
        ("no_tests", _) => "no tests ran\n".to_owned(),
        _ => String::new(),
    };
    format!("{why}exit: {}\n", row.exit_code)
}

/// Checks the complete text of `last_test_failures`.
pub(crate) fn check_failures(row: &Row, text: &str) {
    let text = without_age(text);
    let wanted = row.failures();
    if wanted.is_empty() {
        let (first, blocks) = text.split_once("\n\n").unwrap_or((&text, ""));
        assert_eq!(first, nothing_to_list(row));
        let headers = blocks.split("\n\n").filter_map(|block| block.split_once("\n   "));
        let headers = headers.map(|(header, rest)| format!("{header} {}", rest.lines().next().unwrap_or_default()));
        let hung = row.hung.iter().map(|(test, file, line)| format!("running at the deadline: {test} {file}:{line}"));
        assert_eq!(headers.collect::<Vec<_>>(), hung.collect::<Vec<_>>(), "{text}");
        return;
    }
    let header = format!("{} test failure(s) from last run_tests call ({}, AGO):\n\n", wanted.len(), row.framework);
    let blocks = text.strip_prefix(&header).unwrap_or_else(|| panic!("{header:?} before {text:?}"));
    let blocks = blocks.strip_suffix("\n\n").unwrap().split("\n\n");
    let numbered = blocks.enumerate().map(|(number, block)| {
        let block = block.strip_prefix(&format!("{}. ", number + 1));
        block.unwrap_or_else(|| panic!("no number {} in {text}", number + 1)).to_owned()
    });
    assert_eq!(numbered.collect::<BTreeSet<_>>(), wanted.iter().map(block).collect::<BTreeSet<_>>());
}

fn nothing_to_list(row: &Row) -> String {
    let (passed, failed) = (row.count("passed"), row.count("failed"));
    if !row.structured {
        return format!("no structured failures available for {} (last run_tests AGO)", row.framework);
    }
    if row.outcome == "passed" {
        return format!("last run_tests had no failures ({passed} tests passed, {}, AGO)", row.framework);
    }
    let running = row.running.iter().map(|test| format!(", running: {test}")).collect::<String>();
    format!("last run_tests did not pass: {} ({passed} passed, {failed} failed{running})", row.outcome)
}

fn block(failure: &Case) -> String {
    let mut lines = vec![failure.nodeid.to_owned()];
    let mut indented = |text: &str| lines.extend(text.lines().map(|line| format!("   {line}")));
    if let Some((file, line)) = failure.at {
        indented(&if line > 0 { format!("{file}:{line}") } else { file.to_owned() });
    }
    // Escape sequences are removed (one test has some in its message), and bidirectional controls are shown escaped.
    let message = failure.message.unwrap_or_default().replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
    indented(&printable::block(&message));
    if let (Some(expected), Some(actual)) = (failure.expected, failure.actual) {
        indented("--- diff ---");
        indented(&format!("got: {actual}"));
        indented(&format!("want: {expected}"));
    }
    lines.join("\n")
}

/// Replaces the age in a text, which varies, by `AGO`.
pub(crate) fn without_age(text: &str) -> String {
    let text = text.replacen("just now", "AGO", 1);
    (1..60).rev().fold(text, |text, seconds| text.replacen(&format!(" {seconds}s ago"), " AGO", 1))
}

async fn check_covering(row: &Row, mcp: &Mcp) {
    for covering in row.covering {
        let answer = mcp.call("tests_covering", json!({"file": covering.file, "line": covering.line})).await;
        let tests = answer.structured["tests"].as_array().unwrap();
        let packages: Vec<&str> = tests.iter().map(|test| test["package"].as_str().unwrap()).collect();
        assert_eq!(packages, covering.packages, "{answer:?}");
    }
}

#[tokio::test]
async fn fresh_run_gets_empty_caches_and_keeps_the_workspace_caches() {
    let workspace = TestWorkspace::empty();
    let mcp = Mcp::start(&workspace).await;
    let command = r#"mkdir -p "$GOCACHE"; cat "$GOCACHE/left" || true; echo kept > "$GOCACHE/left""#;
    for (fresh, found) in [(false, ""), (false, "kept\n"), (true, ""), (false, "kept\n"), (true, "")] {
        let arguments = json!({"command": ["sh", "-c", command], "fresh": fresh, "verbose": true});
        let answer = mcp.call("run_tests", arguments).await;
        assert_eq!(answer.structured["stdout_tail"], found, "fresh: {fresh}, {answer:?}");
    }
    mcp.close().await;
}
