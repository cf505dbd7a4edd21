//! The supervisor's JSON report of a run, with lists bounded for a message to a client.

use crate::call_error::CallError;
use serde_json::{Map, Value};

/// Most tests listed that did not fail: passed tests are rarely read one by one.
const OTHERS_MAX: usize = 200;

/// Most bytes of tests, and of collectors. Clients refuse lines of more than a few MiB.
const BYTES_MAX: usize = 1024 * 1024;

/// Parses the report `document` and bounds its lists.
pub(crate) fn parse_and_bound(document: &[u8]) -> Result<Map<String, Value>, CallError> {
    match serde_json::from_slice(document) {
        Ok(Value::Object(report)) => Ok(bound(report)),
        _ => Err(CallError::MalformedReport),
    }
}

/// Members that repeat others for readers of pytest-json-report, or are for pictures: of the report, of its summary, of each
/// test and collector.
const REPEATED: [&str; 5] = ["created", "duration", "exitcode", "root", "environment"];
const REPEATED_IN_ITEMS: [&str; 5] = ["lineno", "call", "longrepr", "result", "finished_s"];

fn bound(mut report: Map<String, Value>) -> Map<String, Value> {
    remove_repeated(&mut report);
    for (list, others_max) in [("tests", OTHERS_MAX), ("collectors", usize::MAX)] {
        let left_out = bound_list(&mut report, list, others_max);
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
    report
}

// A model needs no fact twice.
fn remove_repeated(report: &mut Map<String, Value>) {
    report.retain(|name, _| !REPEATED.contains(&name.as_str()));
    if let Some(Value::Object(summary)) = report.get_mut("summary") {
        summary.remove("collected");
    }
    for (list, also) in [("tests", None), ("collectors", Some("outcome"))] {
        let Some(Value::Array(items)) = report.get_mut(list) else { continue };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.retain(|name, _| !REPEATED_IN_ITEMS.contains(&name.as_str()) && Some(name.as_str()) != also);
        }
    }
}

// Keeps failures before other tests, each in its order; returns how many were left out.
fn bound_list(report: &mut Map<String, Value>, list: &str, others_max: usize) -> u64 {
    let Some(Value::Array(items)) = report.get_mut(list) else { return 0 };
    let all = items.len();
    let (failing, others): (Vec<Value>, Vec<Value>) = std::mem::take(items).into_iter().partition(has_failed);
    let mut bytes = 0;
    items.extend(failing.into_iter().chain(others.into_iter().take(others_max)).take_while(|item| {
        bytes += item.to_string().len();
        bytes <= BYTES_MAX
    }));
    (all - items.len()) as u64
}

/// Whether a test of the document failed or could not be carried out.
pub(crate) fn has_failed(test: &Value) -> bool {
    matches!(test.get("outcome").and_then(Value::as_str), Some("failed" | "error"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(report: &Value) -> Map<String, Value> {
        parse_and_bound(report.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn keeps_failures_before_other_tests() {
        let tests: Vec<Value> =
            (0..300).map(|n| json!({"name": n, "outcome": if n == 299 { "failed" } else { "passed" }})).collect();
        let report = parse(&json!({"outcome": "failed", "tests": tests, "truncated": {"tests": 5}}));
        let listed = report["tests"].as_array().unwrap();
        assert_eq!(listed.len(), 201);
        assert_eq!(listed[0]["name"], 299);
        assert_eq!(report["tests_left_out"], 5 + 99);
    }

    #[test]
    fn bounds_the_bytes_of_any_number_of_failures() {
        let test = json!({"outcome": "failed", "output": "x".repeat(64 * 1024)});
        let report = parse(&json!({"tests": vec![test; 100]}));
        assert!(Value::from(report.clone()).to_string().len() <= BYTES_MAX + 1024);
        assert!(report["tests_left_out"].as_u64().unwrap() > 80);
    }

    #[test]
    fn leaves_out_what_repeats_other_members() {
        let test = json!({"nodeid": "a", "outcome": "passed", "lineno": null, "call": {"outcome": "passed"}});
        let collector = json!({"nodeid": "p", "kind": "build", "outcome": "failed", "result": [], "longrepr": "m"});
        let report = parse(&json!({
            "created": 1.0, "exitcode": 0, "root": ".", "summary": {"total": 1, "collected": 1},
            "tests": [test], "collectors": [collector],
        }));
        assert_eq!(report["tests"], json!([{"nodeid": "a", "outcome": "passed"}]));
        assert_eq!(report["collectors"], json!([{"nodeid": "p", "kind": "build"}]));
        assert_eq!(report["summary"], json!({"total": 1}));
        assert!(!report.contains_key("created") && !report.contains_key("root"));
    }

    #[test]
    fn rejects_a_document_that_is_not_an_object() {
        assert!(matches!(parse_and_bound(b"[]"), Err(CallError::MalformedReport)));
        assert!(matches!(parse_and_bound(b"nonsense"), Err(CallError::MalformedReport)));
    }
}
