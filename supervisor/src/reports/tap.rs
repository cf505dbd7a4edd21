//! The Test Anything Protocol, version 14 (testanything.org): one line for each test, failures with a YAML block.

use super::ReportInput;
use super::budget::{Budget, beginning};
use super::entries::{Entry, Status, Subject, entries, headline};
use proctor_core::test_case::TestOutcome;
use proctor_proto::printable::{block, line};
use serde_json::json;
use std::fmt::Write as _;

/// Bytes of the lines of a YAML block, without the message and the path.
const DIAGNOSTIC_BYTES: usize = 320;

/// Bytes of the name of a long text.
const LONG_FIELD_BYTES: usize = 16;

pub(super) fn render(input: ReportInput<'_>, bytes_max: usize) -> String {
    let report = input.report;
    let (mut budget, mut points, mut number) = (Budget::new(bytes_max), String::new(), 0_u64);
    for entry in entries(report) {
        let point = test_point(&entry, number + 1);
        let frame_bytes = if entry.is_failure() { frame_bytes(&entry) } else { 0 };
        if budget.take_entry(&entry, point.len() + frame_bytes) {
            number += 1;
            points.push_str(&point);
            if let Some(diagnostic) = diagnostic(&entry, &mut budget) {
                points.push_str(&diagnostic);
            }
        }
    }
    let mut text = format!("TAP version 14\n1..{number}\n");
    // A comment, not a directive: none of its lines begins with `ok`.
    let _ = writeln!(text, "# {}", line(&headline(report)));
    if let Some(note) = budget.left_out().note(report) {
        let _ = writeln!(text, "# {note}");
    }
    text + &points
}

fn test_point(entry: &Entry<'_>, number: u64) -> String {
    let name = description(&format!("{} > {}", entry.suite, entry.name));
    let (result, directive) = match (entry.status, entry.subject) {
        (_, Subject::Test(test)) if test.outcome == TestOutcome::Xfailed => ("not ok", " # TODO expected to fail"),
        (_, Subject::Test(test)) if test.outcome == TestOutcome::Xpassed => ("ok", " # TODO expected to fail"),
        (Status::Passed, _) => ("ok", ""),
        (Status::Skipped, _) => ("ok", " # SKIP"),
        (Status::Failed | Status::Error, _) => ("not ok", ""),
    };
    let mut point = format!("{result} {number} - {name}{directive}");
    if entry.status == Status::Skipped && directive == " # SKIP" && !entry.message.is_empty() {
        let reason = block(&entry.message);
        let _ = write!(point, " {}", description(reason.lines().next().unwrap_or_default()));
    }
    point.push('\n');
    point
}

// A hash would begin a directive.
fn description(text: &str) -> String {
    line(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// Bytes of a YAML block without its long texts.
fn frame_bytes(entry: &Entry<'_>) -> usize {
    let message = json!(beginning(&block(&entry.message))).to_string();
    DIAGNOSTIC_BYTES + message.len() + entry.file.map_or(0, |file| json!(line(file)).to_string().len())
}

/// The YAML block of a failure. Its values are JSON strings, which YAML reads as they are.
fn diagnostic(entry: &Entry<'_>, budget: &mut Budget) -> Option<String> {
    if !entry.is_failure() {
        return None;
    }
    let mut text = String::from("  ---\n");
    let mut field = |name: &str, value: serde_json::Value| {
        let _ = writeln!(text, "  {name}: {value}");
    };
    let message = block(&entry.message);
    field("message", json!(budget.message(&message, json!(message).to_string().len())));
    field("severity", json!(if entry.status == Status::Failed { "fail" } else { "error" }));
    field("kind", json!(entry.kind));
    if let Some(file) = entry.file {
        field("at", json!({ "file": line(file), "line": entry.line }));
    }
    if entry.is_failed_by_subtest() {
        field("failed_by_subtest", json!(true));
    }
    if entry.is_quarantined {
        field("quarantined", json!(true));
    }
    if let Some(flaky) = entry.flaky {
        field("flaky", json!({ "executions": flaky.executions, "failures": flaky.failures }));
    }
    if let Some(duration_s) = entry.duration_s {
        field("duration_ms", json!(duration_s * 1_000.0));
    }
    for (name, value) in [("details", entry.details()), ("output", entry.output().map(Into::into))] {
        let Some(value) = value.map(|value: String| json!(value)) else { continue };
        if budget.take_text(value.to_string().len() + LONG_FIELD_BYTES) {
            field(name, value);
        }
    }
    text.push_str("  ...\n");
    Some(text)
}
