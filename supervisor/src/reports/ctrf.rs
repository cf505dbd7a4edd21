//! CTRF, the Common Test Report Format (ctrf.io, specification 0.0.0).

use super::budget::{Budget, LeftOut, beginning};
use super::entries::{Entry, Status, Subject, entries, headline};
use super::{RenderError, ReportInput, escaped_json};
use proctor_core::test_case::TestOutcome;
use proctor_proto::printable::block;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Bytes of the JSON around the values of a test.
const TEST_BYTES: usize = 200;

/// Name of a test that has none.
const UNNAMED: &str = "(unnamed)";

/// Numbers of tests by CTRF's status.
#[derive(Debug, Default, Serialize)]
struct Counts {
    tests: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
    pending: u64,
    other: u64,
}

pub(super) fn render(input: ReportInput<'_>, bytes_max: usize) -> Result<Vec<u8>, RenderError> {
    let report = input.report;
    let (mut budget, mut counts) = (Budget::new(bytes_max), Counts::default());
    let mut tests = Vec::new();
    for entry in entries(report) {
        counts.count(&entry);
        tests.extend(test(&entry, &mut budget));
    }
    // How the others ended is not told one by one.
    let unlisted = LeftOut::of_report(report);
    counts.tests += unlisted.failures + unlisted.others;
    counts.failed += unlisted.failures;
    counts.other += unlisted.others;
    let mut summary = object(json!(counts));
    summary.insert("start".to_owned(), report.started_at.0.into());
    summary.insert("stop".to_owned(), report.ended_at.0.into());
    summary.insert("duration".to_owned(), milliseconds(report.duration_s).into());
    if report.flaky_in_run > 0 {
        summary.insert("flaky".to_owned(), report.flaky_in_run.into());
    }
    let extra = json!({
        "outcome": report.outcome.name(),
        "exitCode": report.exit_code,
        "headline": headline(report),
        "leftOut": budget.left_out().note(report),
    });
    let mut document = object(json!({
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "generatedBy": "proctor",
        "results": {
            "tool": { "name": report.framework, "extra": { "supervisor": "proctor", "version": env!("CARGO_PKG_VERSION") } },
            "summary": summary,
            "tests": tests,
            "extra": extra,
        },
    }));
    if !input.run_id.is_empty() {
        document.insert("runId".to_owned(), input.run_id.into());
    }
    Ok(escaped_json::to_vec(&document)?)
}

impl Counts {
    fn count(&mut self, entry: &Entry<'_>) {
        self.tests += 1;
        *match status(entry) {
            "passed" => &mut self.passed,
            "failed" => &mut self.failed,
            "skipped" => &mut self.skipped,
            "pending" => &mut self.pending,
            _ => &mut self.other,
        } += 1;
    }
}

fn status(entry: &Entry<'_>) -> &'static str {
    match (entry.status, entry.subject) {
        // Neither a success nor a failure of the code.
        (_, Subject::Test(test)) if matches!(test.outcome, TestOutcome::Xfailed | TestOutcome::Xpassed) => "other",
        (_, Subject::NotRun) => "pending",
        (Status::Passed, _) => "passed",
        (Status::Failed | Status::Error, _) => "failed",
        (Status::Skipped, _) => "skipped",
    }
}

fn test(entry: &Entry<'_>, budget: &mut Budget) -> Option<Value> {
    let mut test = object(json!({
        // The format requires a character.
        "name": if entry.name.is_empty() { UNNAMED } else { &entry.name },
        "status": status(entry),
        "duration": entry.duration_s.map_or(0, milliseconds),
        "suite": [entry.suite],
        "rawStatus": entry.kind,
    }));
    if let Subject::Test(case) = entry.subject
        && !case.nodeid.is_empty()
    {
        test.insert("testId".to_owned(), case.nodeid.as_str().into());
    }
    let mut extra = Map::new();
    if entry.duration_s.is_none() {
        // The format requires a number.
        extra.insert("durationKnown".to_owned(), false.into());
    }
    if entry.is_failed_by_subtest() {
        extra.insert("failedBySubtest".to_owned(), true.into());
    }
    if entry.is_quarantined {
        test.insert("tags".to_owned(), json!(["quarantined"]));
    }
    if let Some(flaky) = entry.flaky {
        // The format's flag alone is for a test that passed in the end: this one is a failure.
        test.insert("flaky".to_owned(), true.into());
        let counts = json!({ "executions": flaky.executions, "failures": flaky.failures });
        extra.insert("repetitions".to_owned(), counts);
    }
    if !extra.is_empty() {
        test.insert("extra".to_owned(), extra.into());
    }
    if let Some(file) = entry.file {
        test.insert("filePath".to_owned(), file.into());
        test.extend(entry.line.map(|line| ("line".to_owned(), line.into())));
    }
    let message = block(&entry.message);
    if !budget.take_entry(entry, TEST_BYTES + json_bytes(&json!(test)) + json_bytes(&json!(beginning(&message)))) {
        return None;
    }
    if !message.is_empty() {
        let message = budget.message(&message, json_bytes(&json!(message)));
        test.insert("message".to_owned(), message.into());
    }
    let texts = [("trace", entry.details().map(Value::from)), ("stdout", entry.output().map(|output| json!([output])))];
    for (name, value) in texts {
        test.extend(value.filter(|value| budget.take_text(json_bytes(value))).map(|value| (name.to_owned(), value)));
    }
    Some(test.into())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

// As written: escapes of hidden characters take up to twelve bytes for one of four.
fn json_bytes(value: &Value) -> usize {
    escaped_json::to_vec(value).map_or(0, |text| text.len())
}

fn milliseconds(seconds: f64) -> u64 {
    let time = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
