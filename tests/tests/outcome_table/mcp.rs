//! `run_tests` of a real `proctor-mcp` with a private supervisor on a row: the text to the letter, the data, and what the
//! other tools say afterwards. MCP offers no memory and pids limits, so there the defaults are hit.

use crate::mcp_client::{Answer, Mcp};
use proctor_proto::printable;
use proctor_tests::expectation::{Case, Row};
use proctor_tests::expected::row;
use proctor_tests::process::{descendants, wait_until};
use proctor_tests::run_result::RunResult;
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Arguments of `run_tests` for a row.
pub(crate) fn arguments(row: &Row) -> Value {
    let mut arguments = json!({});
    if !row.options.filter.is_empty() {
        arguments["filter"] = json!(row.options.filter);
    }
    if !row.options.command.is_empty() {
        arguments["command"] = json!(row.options.command);
    }
    if let Some(seconds) = row.options.timeout_s {
        // A float and a string are as good as a number.
        arguments["timeout"] = json!(format!("{seconds}.0"));
    }
    arguments
}

/// Drives one row.
pub(crate) async fn check(name: &str) {
    let row = row(name);
    let place = TestWorkspace::with_fixture(row.fixture);
    let before = Baseline::capture(&place);
    let mcp = Mcp::on(&place).await;
    let ran = mcp.call("run_tests", arguments(row)).await;
    check_run(row, &ran);
    let failures = mcp.call("last_test_failures", json!({})).await;
    check_failures(row, &failures.text);
    check_covering(row, &mcp).await;
    check_artifacts(row, &mcp).await;
    let again = mcp.call("get_run", json!({})).await;
    assert_eq!(again.text, ran.text, "get_run tells the same of a run that has ended");
    let shim = mcp.shim.id().unwrap();
    let family = descendants(shim);
    let supervisor = family.iter().find(|process| process.line.contains("--private")).unwrap().pid;
    mcp.leave().await;
    wait_until("everything that the shim started has ended", || !family.iter().any(|process| process.is_alive()));
    before.assert_nothing_is_left(&place, supervisor);
}

/// Text is shown as it is, and a picture as a picture.
async fn check_artifacts(row: &Row, mcp: &Mcp) {
    for (kind, name, begin) in row.artifacts {
        let answer = mcp.call("get_test_report", json!({"artifact": name})).await;
        assert!(!answer.is_error, "{answer:?}");
        match *kind {
            "other" => assert!(answer.text.as_bytes().starts_with(begin), "{}", answer.text),
            "screenshot" => assert_eq!(answer.hint, "The picture is the last block."),
            kind => assert!(answer.text.starts_with(&format!("{kind} of ")), "{}", answer.text),
        }
    }
}

/// The whole answer of `run_tests`.
pub(crate) fn check_run(row: &Row, answer: &Answer) {
    assert!(!answer.is_error, "{answer:?}");
    let report = &answer.structured;
    RunResult::from_json(report).assert_matches(row);
    assert_eq!(report["attached"], false);
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
        let note = format!("\n[TRUNCATED] {} bytes left out; read on with get_run ", total - 512_000);
        let place = answer.text.find(&note).unwrap_or_else(|| panic!("no {note:?}"));
        assert!((511_000..=512_000).contains(&place), "{place}");
    }
    assert!(!answer.hint.is_empty(), "a second block says how it ended");
}

// Every stream ends its last line, and has no colours.
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

/// The whole text of `last_test_failures`.
pub(crate) fn check_failures(row: &Row, text: &str) {
    let text = without_age(text);
    let wanted = row.failures();
    if wanted.is_empty() {
        assert_eq!(text, nothing_to_list(row));
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
    // The one test with escapes in its message shows that they are taken out, and what turns text around that it is shown.
    let message = failure.message.unwrap_or_default().replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
    indented(&printable::block(&message));
    if let (Some(expected), Some(actual)) = (failure.expected, failure.actual) {
        indented("--- diff ---");
        indented(&format!("got: {actual}"));
        indented(&format!("want: {expected}"));
    }
    lines.join("\n")
}

/// The text with `AGO` for how long ago it was, which no table can know.
pub(crate) fn without_age(text: &str) -> String {
    let text = text.replacen("just now", "AGO", 1);
    (1..60).rev().fold(text, |text, seconds| text.replacen(&format!(" {seconds}s ago"), " AGO", 1))
}

async fn check_covering(row: &Row, mcp: &Mcp) {
    for covering in row.covering {
        let answer = mcp.call("tests_covering", json!({"file": covering.file, "line": covering.line})).await;
        let tests = answer.structured["tests"].as_array().unwrap();
        let mut packages: Vec<&str> = tests.iter().map(|test| test["package"].as_str().unwrap()).collect();
        packages.dedup();
        assert_eq!(packages, covering.packages, "{answer:?}");
    }
}

#[tokio::test]
async fn a_fresh_run_has_empty_caches_and_leaves_the_workspaces_as_they_are() {
    let place = TestWorkspace::empty();
    let mcp = Mcp::on(&place).await;
    let leaves = r#"mkdir -p "$GOCACHE"; cat "$GOCACHE/left" || true; echo kept > "$GOCACHE/left""#;
    for (fresh, found) in [(false, ""), (false, "kept\n"), (true, ""), (false, "kept\n"), (true, "")] {
        let ran = mcp.call("run_tests", json!({"command": ["sh", "-c", leaves], "fresh": fresh})).await;
        assert_eq!(ran.structured["stdout_tail"], found, "fresh: {fresh}, {ran:?}");
    }
    mcp.leave().await;
}
