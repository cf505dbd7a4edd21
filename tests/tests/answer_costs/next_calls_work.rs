//! Every call that an answer proposes can be made as it is written there, and does what the answer says of it.

use crate::next_calls;
use proctor_tests::mcp_client::{Answer, Mcp};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};

/// What an agent asks after a run. The last one runs tests itself.
const QUESTIONS: [(&str, &str); 10] = [
    ("get_run", "{}"),
    ("last_test_failures", "{}"),
    ("last_test_failures", r#"{"limit": 1}"#),
    ("list_tests", "{}"),
    ("tests_covering", r#"{"file": "calc/money.py"}"#),
    ("get_test_report", r#"{"format": "json", "max_tokens": 200}"#),
    ("get_test_report", r#"{"format": "history"}"#),
    ("get_test_report", r#"{"format": "slowest"}"#),
    ("get_test_report", r#"{"format": "flaky"}"#),
    ("run_failing_tests", "{}"),
];

/// A proposed call.
type Call = (&'static str, Value);

/// The calls that `answer` proposes.
fn proposed(answer: &Answer) -> Vec<Call> {
    assert!(!answer.is_error, "{answer:?}");
    let next = answer.structured["next"].as_str().map(str::to_owned);
    // An answer about a document that is too large has its proposal in the text alone.
    let next = next.or_else(|| answer.hint.split("next: ").nth(1).map(str::to_owned)).unwrap_or_default();
    let calls = next_calls::in_text(&next);
    assert!(next.is_empty() || !calls.is_empty(), "no call in {next:?}");
    calls
}

fn runs_tests((tool, _): &Call) -> bool {
    tool.starts_with("run_")
}

/// Makes a proposed call of a project of `framework`. `timeout`: of runs for which the answer proposes none, so that a test that hangs does not take the
/// default of five minutes each time.
async fn make(mcp: &Mcp, framework: &str, call: &Call, timeout: &Value) {
    let (tool, arguments) = call;
    let mut given = arguments.clone();
    if runs_tests(call) && given.get("timeout").is_none() && !timeout.is_null() {
        given["timeout"] = timeout.clone();
    }
    let made = mcp.call(tool, given).await;
    assert!(!made.is_error, "{call:?}: {made:?}");
    check(framework, tool, arguments, &made);
}

fn check(framework: &str, tool: &str, arguments: &Value, made: &Answer) {
    let data = &made.structured;
    for (argument, member) in [("run_id", &data["run_id"]), ("stream", &data["output"]["stream"])] {
        assert!(arguments.get(argument).is_none_or(|given| given == member), "{tool} {arguments}: {data}");
    }
    match tool {
        "run_tests" | "run_failing_tests" | "run_affected_tests" => {
            assert!(data["outcome"].is_string() || data["nothing_ran"].is_string(), "{data}");
            let named = arguments["tests"].as_array().map_or(0, Vec::len);
            assert!(data["summary"]["total"].as_u64().unwrap_or_default() >= named as u64, "{arguments}: {data}");
        }
        // The call is for what was not shown before.
        "last_test_failures" if arguments.get("cursor").is_some() => {
            let listed = data["failures"].as_array().unwrap().len();
            assert!(
                listed > 0 && listed as u64 + arguments["cursor"].as_u64().unwrap() <= data["total"].as_u64().unwrap()
            );
        }
        "get_test_report" if arguments["format"] == "json" => assert!(data["tests"].is_array(), "{data}"),
        "list_tests" => assert!(made.text.contains(&format!("({framework})")), "{}", made.text),
        _ => {}
    }
}

async fn follow_all(fixture: &str, run: Value) {
    let (framework, _) = fixture.split_once('/').unwrap();
    let workspace = TestWorkspace::with_fixture(fixture);
    let mcp = Mcp::start(&workspace).await;
    let timeout = &run["timeout"];
    let mut calls = proposed(&mcp.call("get_run", json!({})).await);
    for call in &calls {
        make(&mcp, framework, call, timeout).await;
    }
    // One run for all questions: calls that do not run tests leave it the last one.
    let mut answers = vec![mcp.call("run_tests", run.clone()).await];
    for (tool, arguments) in QUESTIONS {
        answers.push(mcp.call(tool, serde_json::from_str(arguments).unwrap()).await);
        for call in answers.drain(..).flat_map(|answer| proposed(&answer)) {
            if calls.contains(&call) {
                continue;
            }
            if !runs_tests(&call) {
                make(&mcp, framework, &call, timeout).await;
            }
            calls.push(call);
        }
    }
    // A run that is proposed in several answers is made once, after a run like that of the answers.
    for call in calls.iter().filter(|call| runs_tests(call)) {
        mcp.call("run_tests", run.clone()).await;
        make(&mcp, framework, call, timeout).await;
    }
    mcp.close().await;
    assert!(calls.len() >= 5, "proposed: {calls:?}");
}

macro_rules! fixtures {
    ($($name:ident $fixture:literal $run:tt)*) => {
        $(#[tokio::test] async fn $name() { follow_all($fixture, json!($run)).await; })*
    };
}

fixtures! {
    after_a_pass "unittest/pass" {}
    after_failures "unittest/fail" {}
    after_a_build_error "go/builderror" {}
    after_no_tests "unittest/plain_functions" {}
    after_a_timeout "unittest/hang" {"timeout": 10}
    after_a_crash "unittest/crash" {}
    after_a_command "unittest/pass" {"command": ["sh", "-c", "echo no; exit 3"]}
}
