//! The structured content of a run's answer: the supervisor's JSON report with bounded lists, and the members that only the
//! shim knows.

use crate::call_error::CallError;
use crate::json_schema;
use proctor_proto::v1::GetReportResponse;
use proctor_proto::v1::{Summary, TestId};
use serde_json::{Map, Value, json};

/// Most tests listed that did not fail: passed tests are rarely read one by one.
const OTHERS_MAX: usize = 200;
/// Most bytes of tests, and of collectors. Clients refuse lines of more than a few MiB.
const BYTES_MAX: usize = 1024 * 1024;

/// Facts about a run that only the shim knows.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) run_id: &'a str,
    /// Whether the call attached to a run in flight.
    pub(crate) attached: bool,
    /// Requested size of the answer, in bytes.
    pub(crate) bytes_max: Option<usize>,
}

impl Context<'_> {
    /// The context of a fetched report.
    pub(crate) fn for_report(fetched: &GetReportResponse, bytes_max: Option<usize>) -> Context<'_> {
        Context { run_id: &fetched.run_id, attached: false, bytes_max }
    }
}

/// Parses the report `document`, bounds its lists and adds `context`.
pub(crate) fn parse_document(document: &[u8], context: &Context<'_>) -> Result<Value, CallError> {
    match serde_json::from_slice(document) {
        Ok(Value::Object(report)) => Ok(bound_report(report, context)),
        _ => Err(CallError::MalformedReport),
    }
}

/// Bounds the lists of a parsed report and adds `context`.
pub(crate) fn bound_report(mut report: Map<String, Value>, context: &Context<'_>) -> Value {
    let bytes_max = context.bytes_max.unwrap_or(BYTES_MAX).min(BYTES_MAX);
    for (list, others_max) in [("tests", OTHERS_MAX), ("collectors", usize::MAX)] {
        let left_out = bound_list(&mut report, list, others_max, bytes_max);
        // The supervisor may have left some out already.
        let before = report.get("truncated").and_then(|truncated| truncated.get(list)).and_then(Value::as_u64);
        report.insert(format!("{list}_left_out"), Value::from(before.unwrap_or_default() + left_out));
    }
    if let Some(Value::Array(artifacts)) = report.get_mut("artifacts") {
        artifacts.truncate(OTHERS_MAX);
    }
    // A note in the evidence has the full number.
    if let Some(Value::Array(not_run)) = report.get_mut("evidence").and_then(|evidence| evidence.get_mut("not_run")) {
        not_run.truncate(OTHERS_MAX);
    }
    if let Some(bytes_max) = context.bytes_max {
        for name in ["stdout_tail", "stderr_tail"] {
            // A quarter for each tail, so that the tests get at least half.
            shorten_tail(&mut report, name, bytes_max / 4);
        }
    }
    // Absent in reports of older supervisors.
    report.entry("flaky_in_run").or_insert(Value::from(0));
    report.insert("run_id".to_owned(), Value::from(context.run_id));
    report.insert("attached".to_owned(), Value::from(context.attached));
    Value::Object(report)
}

/// Test ids as JSON.
pub(crate) fn tests(tests: &[TestId]) -> Vec<Value> {
    tests.iter().map(|test| json!({"package": test.package, "name": test.name})).collect()
}

/// Counts as JSON.
pub(crate) fn counts(summary: &Summary) -> Value {
    json!({
        "total": summary.total, "passed": summary.passed, "failed": summary.failed, "skipped": summary.skipped,
        "xfailed": summary.xfailed, "xpassed": summary.xpassed, "error": summary.error,
    })
}

// Keeps failures before other tests, each in its order; returns how many were left out.
fn bound_list(report: &mut Map<String, Value>, list: &str, others_max: usize, bytes_max: usize) -> u64 {
    let Some(Value::Array(items)) = report.get_mut(list) else { return 0 };
    let all = items.len();
    let (failing, others): (Vec<Value>, Vec<Value>) = std::mem::take(items).into_iter().partition(has_failed);
    let mut bytes = 0;
    items.extend(failing.into_iter().chain(others.into_iter().take(others_max)).take_while(|item| {
        bytes += item.to_string().len();
        bytes <= bytes_max
    }));
    (all - items.len()) as u64
}

fn has_failed(test: &Value) -> bool {
    matches!(test.get("outcome").and_then(Value::as_str), Some("failed" | "error"))
}

fn shorten_tail(report: &mut Map<String, Value>, name: &str, bytes_max: usize) {
    if let Some(Value::String(tail)) = report.get_mut(name)
        && tail.len() > bytes_max
    {
        *tail = tail.split_off(tail.ceil_char_boundary(tail.len() - bytes_max));
    }
}

/// The output schema of [`parse_document`]; `required` members are always present.
pub(crate) fn schema(required: &[&str]) -> std::sync::Arc<rmcp::model::JsonObject> {
    let mut properties = run_fields();
    properties.extend(detail_fields());
    json_schema::answer(&properties, required)
}

/// Members that every finished run has.
pub(crate) const REQUIRED: &[&str] = &["run_id", "outcome", "exit_code", "framework", "summary", "attached", "tests"];

fn run_fields() -> Vec<(&'static str, Value)> {
    use crate::json_schema::{boolean, number, object, objects, string};
    let test = [
        ("nodeid", string("The runner's own form of the whole name.")),
        ("package", string("What the framework runs as a unit.")),
        ("name", string("The test within its package.")),
        ("outcome", string("passed, failed, skipped, xfailed, xpassed or error.")),
        ("duration_s", number("Seconds.")),
        ("file", string("Where it failed, relative to the workspace.")),
        ("line", number("From 1.")),
        ("message", string("What the assertion said.")),
        ("expected", string("The wanted value.")),
        ("actual", string("The value that came instead.")),
        ("stack", string("Innermost frame first.")),
        ("output", string("What the test printed, unless it passed.")),
    ];
    let outcome = "passed, failed, build_failed, collection_failed, no_tests, timed_out, out_of_memory, pids_exhausted, \
                   disk_full, output_flood, cancelled, crashed, runner_missing or worker_lost. Only passed is success.";
    vec![
        ("run_id", string("For get_run.")),
        ("attached", boolean("Whether the call joined a run that was going on already.")),
        ("nothing_ran", string("Why nothing ran: NO_RUN_YET or NOTHING_TO_RERUN. Absent when something ran.")),
        ("outcome", string(outcome)),
        (
            "exit_code",
            number("The runner's status where it ended by itself and not with 0, else the outcome's number."),
        ),
        ("raw_exit_code", number("The runner's own status; absent when it was killed.")),
        ("framework", string("The test framework.")),
        ("summary", object("Counts: total, passed, failed, skipped, xfailed, xpassed, error.")),
        ("duration_s", number("Seconds of wall time.")),
        ("flaky_in_run", number("Tests that both passed and failed in this run.")),
        ("partial", boolean("Whether the run was cut off; tests then holds what was known until then.")),
        ("structured", boolean("Whether the runner gives results test by test.")),
        ("tests", objects(&test, "Failing tests first, then up to 200 others.")),
        ("tests_left_out", number("Tests that are counted in summary and not listed in tests.")),
    ]
}

fn detail_fields() -> Vec<(&'static str, Value)> {
    use crate::json_schema::{number, object, objects, string};
    let collector = [
        ("nodeid", string("The package or file.")),
        ("file", string("Where the first error is.")),
        ("line", number("From 1.")),
        ("message", string("The first error.")),
        ("output", string("All that the compiler or loader said.")),
    ];
    let artifact = [
        ("name", string("For the argument artifact of get_test_report.")),
        ("kind", string("screenshot, trace, video or other.")),
        ("bytes", number("Its size.")),
        ("test", object("package and name of the test that left it.")),
    ];
    vec![
        ("collectors", objects(&collector, "Packages or files that could not be built or collected.")),
        ("collectors_left_out", number("Those that are not listed.")),
        (
            "evidence",
            object(
                "What the outcome rests on: signals, limits that were hit, tests that were running, tests that were to run again and told nothing.",
            ),
        ),
        ("resources", object("What the run used: wall and processor seconds, peak memory, processes, bytes.")),
        ("limits", object("The bounds of the run.")),
        ("isolation", object("The layers and limits that were really in force, and what was missing.")),
        ("coverage", object("What was measured, for tests_covering.")),
        ("artifacts", objects(&artifact, "Files that the run left: get_test_report shows them.")),
        ("stdout_tail", string("The end of stdout.")),
        ("stderr_tail", string("The end of stderr.")),
        (
            "truncated",
            object("What the report itself had to leave out: tests, collectors, stdout_bytes, stderr_bytes."),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: Context<'static> = Context { run_id: "r1", attached: false, bytes_max: None };

    fn parse(report: &Value, context: &Context<'_>) -> Value {
        parse_document(report.to_string().as_bytes(), context).unwrap()
    }

    #[test]
    fn keeps_failures_before_other_tests() {
        let tests: Vec<Value> =
            (0..300).map(|n| json!({"name": n, "outcome": if n == 299 { "failed" } else { "passed" }})).collect();
        let report = parse(&json!({"outcome": "failed", "tests": tests, "truncated": {"tests": 5}}), &CONTEXT);
        let listed = report["tests"].as_array().unwrap();
        assert_eq!(listed.len(), 201);
        assert_eq!(listed[0]["name"], 299);
        assert_eq!(report["tests_left_out"], 5 + 99);
        assert_eq!(report["run_id"], "r1");
        assert_eq!(report["attached"], false);
        assert_eq!(report["flaky_in_run"], 0);
    }

    #[test]
    fn bounds_the_bytes_of_any_number_of_failures() {
        let test = json!({"outcome": "failed", "output": "x".repeat(64 * 1024)});
        let report = parse(&json!({"tests": vec![test; 100]}), &CONTEXT);
        assert!(report.to_string().len() <= BYTES_MAX + 1024);
        assert!(report["tests_left_out"].as_u64().unwrap() > 80);
        let short = Context { bytes_max: Some(400), ..CONTEXT };
        let report = parse(&json!({"stdout_tail": "é".repeat(500), "tests": []}), &short);
        assert_eq!(report["stdout_tail"].as_str().unwrap().len(), 100);
    }

    #[test]
    fn rejects_a_document_that_is_not_an_object() {
        assert!(matches!(parse_document(b"[]", &CONTEXT), Err(CallError::MalformedReport)));
        assert!(matches!(parse_document(b"nonsense", &CONTEXT), Err(CallError::MalformedReport)));
    }
}
