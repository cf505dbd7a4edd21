//! Exact texts of the tools, which agents parse, for cases that are not in the outcome table.

use crate::mcp::without_age;
use proctor_tests::expected::{MISSING_COMMAND, MISSING_RUNNER};
use proctor_tests::mcp_client::Mcp;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};

#[tokio::test]
async fn session_from_first_query_to_fixed_bug() {
    let workspace = TestWorkspace::with_fixture("go/twomodules");
    let mcp = Mcp::start(&workspace).await;
    let not_yet = "no run_tests call yet in this session";
    assert_eq!(mcp.call("last_test_failures", json!({})).await.text, not_yet);
    assert_eq!(mcp.call("run_failing_tests", json!({})).await.text, not_yet);
    assert_eq!(mcp.call("get_run", json!({})).await.text, not_yet);
    assert_eq!(mcp.call("get_test_report", json!({})).await.text, not_yet);
    assert_eq!(mcp.call("analyze_failures", json!({})).await.text, not_yet);
    let no_coverage = "no coverage data yet — run `run_tests` first";
    assert_eq!(mcp.call("tests_covering", json!({"file": "beta/beta.go"})).await.text, no_coverage);

    assert_eq!(mcp.call("run_tests", json!({})).await.structured["outcome"], "failed");
    let failures = mcp.call("last_test_failures", json!({})).await;
    let wanted = "1 test failure(s) from last run_tests call (go, AGO):\n\n\
                  1. example.com/twomodules/beta/TestName\n   beta/beta_test.go:7\n   Name() = \"betta\", want \"beta\"\n   \
                  --- diff ---\n   got: \"betta\"\n   want: \"beta\"\n\n";
    assert_eq!(without_age(&failures.text), wanted);
    let rerun = mcp.call("run_failing_tests", json!({})).await;
    assert_eq!(rerun.structured["summary"]["total"], 1, "only the failed test runs");
    assert!(rerun.text.ends_with("\nexit: 1\n"));

    workspace.write("beta/beta.go", "package beta\n\nfunc Name() string { return \"beta\" }\n");
    let rerun = mcp.call("run_failing_tests", json!({})).await;
    assert_eq!(rerun.structured["outcome"], "passed");
    assert!(rerun.text.ends_with("\nexit: 0\n"), "{}", rerun.text);
    let nothing = mcp.call("run_failing_tests", json!({})).await;
    assert_eq!(nothing.text, "last run_tests had no failures — nothing to rerun (go)");
    assert_eq!(nothing.structured["nothing_ran"], "NOTHING_TO_RERUN");
    let passed = mcp.call("last_test_failures", json!({})).await;
    assert_eq!(without_age(&passed.text), "last run_tests had no failures (1 tests passed, go, AGO)");
}

#[tokio::test]
async fn groups_covering_tests_by_package() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let mcp = Mcp::start(&workspace).await;
    // The tests of invoice call t.Parallel: lines of two that run at the same time are known by package alone.
    mcp.call("run_tests", json!({"parallel": 1})).await;
    let line = mcp.call("tests_covering", json!({"file": "calc/calc.go", "line": "10"})).await;
    let invoice = "\nexample.com/pass/invoice:\n  TestTotal\n  TestTotalRounds\n";
    assert_eq!(line.text, format!("2 test(s) cover calc/calc.go:10:\n{invoice}"));
    assert_eq!(line.structured["attribution"], "test");
    let whole = mcp.call("tests_covering", json!({"file": "calc/calc.go"})).await;
    let calc = "\nexample.com/pass/calc:\n  TestAdd\n  TestAddNegative\n";
    assert_eq!(whole.text, format!("4 test(s) cover calc/calc.go:\n{calc}{invoice}"));
    for (arguments, text) in [
        (json!({"file": "calc/calc.go", "line": 19}), "no coverage found for calc/calc.go:19"),
        (json!({"file": "nothing.go"}), "no coverage found for nothing.go"),
    ] {
        assert_eq!(mcp.call("tests_covering", arguments).await.text, text);
    }
    workspace.write("calc/calc.go", "package calc\n\nfunc Add(a, b int) int { return a + b }\n");
    let changed = mcp.call("tests_covering", json!({"file": "calc/calc.go", "line": 6})).await;
    let note = "calc/calc.go has changed since it was measured: lines may have moved\n";
    assert!(changed.text.ends_with(note), "{}", changed.text);
    assert_eq!(changed.structured["file_changed"], true);
}

#[tokio::test]
async fn failure_list_is_limited_and_says_so() {
    let workspace = TestWorkspace::with_fixture("go/shapes");
    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({})).await;
    let two = mcp.call("last_test_failures", json!({"limit": 2})).await;
    let total = two.structured["total"].as_u64().unwrap();
    assert_eq!(two.structured["failures"].as_array().unwrap().len(), 2);
    let more = format!("({} more entries truncated; pass a larger limit to see them)\n", total - 2);
    assert!(two.text.ends_with(&more), "{}", two.text);
    let clamped = mcp.call("last_test_failures", json!({"limit": 9999})).await;
    assert!(clamped.hint.contains("limit was clamped from 9999 to 500"), "{}", clamped.hint);
}

#[tokio::test]
async fn names_a_missing_runner() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let mcp = Mcp::start(&workspace).await;
    let text = mcp.expect_error("run_tests", json!({"command": MISSING_COMMAND})).await;
    assert_eq!(text, format!("run_tests: {MISSING_RUNNER}"));
}

#[tokio::test]
async fn lists_tests_without_running_them() {
    let workspace = TestWorkspace::with_fixture("go/hang");
    let mcp = Mcp::start(&workspace).await;
    let listed = mcp.call("list_tests", json!({})).await;
    assert_eq!(listed.text, "3 test(s) (go):\n\nexample.com/hang:\n  TestEnds\n  TestHangs\n  TestNeverReached\n");
    let one = mcp.call("list_tests", json!({"filter": "TestEnds"})).await;
    assert_eq!(one.text, "1 test(s) (go):\n\nexample.com/hang:\n  TestEnds\n");
}

#[tokio::test]
async fn offers_the_tools_of_the_contract() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let mcp = Mcp::start(&workspace).await;
    let mut names: Vec<&str> = mcp.tools().iter().map(|tool| tool.name.as_ref()).collect();
    names.sort_unstable();
    let wanted = [
        "analyze_failures",
        "get_run",
        "get_test_report",
        "last_test_failures",
        "list_tests",
        "run_affected_tests",
        "run_failing_tests",
        "run_lint",
        "run_tests",
        "run_typecheck",
        "tests_covering",
    ];
    assert_eq!(names, wanted);
}

/// The next call that a listing names runs exactly the test in it.
#[tokio::test]
async fn next_call_of_a_listing_runs_exactly_its_test() {
    for fixture in ["go/table", "pytest/unicode", "vitest/unicode", "mocha/unicode"] {
        let workspace = TestWorkspace::with_fixture(fixture);
        let mcp = Mcp::start(&workspace).await;
        let hint = mcp.call("list_tests", json!({})).await.hint;
        let call = hint.strip_prefix("next: run_tests ").unwrap_or_else(|| panic!("{fixture}: {hint}"));
        let mut arguments = serde_json::Deserializer::from_str(call).into_iter::<Value>().next().unwrap().unwrap();
        let name = arguments["tests"][0].as_str().unwrap().to_owned();
        (arguments["verbose"], arguments["max_tokens"]) = (json!(true), json!(100_000));
        let report = mcp.call("run_tests", arguments).await.structured;
        let tests = report["tests"].as_array().unwrap().iter().filter(|test| test["outcome"] != "skipped");
        let ran: Vec<&str> = tests.map(|test| test["name"].as_str().unwrap()).collect();
        // Go runs a test with its subtests.
        let is_named =
            |ran: &&str| ran.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        assert!(!ran.is_empty() && ran.iter().all(is_named), "{fixture}: {name}: {ran:?}");
    }
}
