//! Snapshots of the end of a run.

use super::*;
use anstream::adapter::strip_str;
use proctor_core::analysis::{WorkspaceFacts, analyze};
use serde_json::{Value, json};
use std::path::Path;

/// A report of pytest with these tests and the fields of `more`.
fn report_of(outcome: &str, tests: Vec<Value>, more: &Value) -> Report {
    let count = |name: &str| tests.iter().filter(|test| test["outcome"] == name).count();
    let mut document = json!({
        "outcome": outcome, "exit_code": 1, "raw_exit_code": 1, "framework": "pytest",
        "summary": {
            "total": tests.len(), "passed": count("passed"), "failed": count("failed"), "skipped": 0, "xfailed": 0,
            "xpassed": 0, "error": 0
        },
        "duration_s": 1.25, "started_at": 0, "ended_at": 1_250, "partial": false, "structured": true,
        "tests": tests, "collectors": [], "evidence": serde_json::to_value(proctor_core::outcome::Evidence::default()).unwrap(),
        "resources": serde_json::to_value(proctor_core::report::Resources::default()).unwrap(),
        "limits": serde_json::to_value(proctor_core::limits::Limits::DEFAULT).unwrap(),
        "isolation": serde_json::to_value(proctor_core::isolation::Isolation::default()).unwrap(),
        "coverage": serde_json::to_value(proctor_core::report::CoverageSummary::default()).unwrap(),
        "stdout_tail": "", "stderr_tail": "",
        "truncated": serde_json::to_value(proctor_core::report::Truncated::default()).unwrap(),
    });
    for (key, value) in more.as_object().unwrap() {
        document[key] = value.clone();
    }
    serde_json::from_value(document).unwrap()
}

fn test(name: &str, outcome: &str, seconds: f64, message: Option<&str>, line: u32) -> Value {
    json!({
        "nodeid": format!("test_shop.py::{name}"), "package": "test_shop.py", "name": name, "outcome": outcome,
        "duration_s": seconds, "file": message.map(|_| "shop/price.py"), "line": message.map(|_| line), "message": message,
        "expected": null, "actual": null, "stack": null, "output": null
    })
}

fn rendered(report: &Report, is_rerun: bool) -> String {
    let analysis = analyze(report, &WorkspaceFacts::default(), 500);
    let view = RunView { output_seen: false, workspace: Path::new("services/my shop"), is_rerun, analysis: &analysis };
    strip_str(&super::report(report, &view)).to_string()
}

#[test]
fn shows_one_block_for_each_cause_and_the_next_command() {
    let missing = "AttributeError: 'NoneType' object has no attribute 'price'";
    let mut tests: Vec<Value> =
        (0..6).map(|number| test(&format!("test_cart_{number}"), "failed", 0.01, Some(missing), 7)).collect();
    tests.push(test("test_total", "failed", 0.4, Some("assert 4 == 5"), 12));
    tests.extend([test("test_ok", "passed", 2.5, None, 0), test("test_ok_2", "passed", 0.3, None, 0)]);
    let group = |total: u32| json!({ "total": total, "tests": [] });
    let more = json!({
        "since_last_run": {
            "run_id": "r", "ended_at": 0, "new": group(5), "fixed": group(1), "still_failing": group(2)
        },
        "flaky_in_run": 1
    });
    insta::assert_snapshot!("by_cause", rendered(&report_of("failed", tests, &more), false));
}

#[test]
fn a_single_failure_needs_no_analysis() {
    let tests =
        vec![test("test_total", "failed", 0.01, Some("assert 4 == 5"), 12), test("test_ok", "passed", 0.0, None, 0)];
    insta::assert_snapshot!("single", rendered(&report_of("failed", tests, &json!({})), false));
}

#[test]
fn a_passed_rerun_names_the_run_of_all_tests() {
    let tests = vec![test("test_total", "passed", 0.01, None, 0)];
    insta::assert_snapshot!("passed_rerun", rendered(&report_of("passed", tests.clone(), &json!({})), true));
    let passed = rendered(&report_of("passed", tests, &json!({})), false);
    assert!(!passed.contains("next:"), "{passed}");
}

#[test]
fn three_hundred_failures_stay_readable() {
    let tests: Vec<Value> = (0..300)
        .map(|number| {
            let message = format!("assert '{}' == 'x'", char::from(b'a' + u8::try_from(number % 25).unwrap()));
            test(&format!("test_{number}"), "failed", 0.0, Some(&message), number % 25 + 1)
        })
        .collect();
    let text = rendered(&report_of("failed", tests, &json!({})), false);
    assert!(text.lines().count() < 200, "{} lines", text.lines().count());
    insta::assert_snapshot!("three_hundred", text);
}
