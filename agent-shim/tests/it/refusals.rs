//! Calls that cannot be carried out: the agent reads what is wrong and what helps.

use crate::client::{Client, block, structured};
use crate::double::{Double, World};
use proctor_proto::{reason, text};
use serde_json::json;
use std::collections::HashMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

fn failed_precondition(reason: &str, message: &str) -> Option<Status> {
    let metadata = HashMap::from([("framework".to_owned(), "go".to_owned())]);
    let details = ErrorDetails::with_error_info(reason, reason::DOMAIN, metadata);
    Some(Status::with_error_details(Code::FailedPrecondition, message, details))
}

#[tokio::test]
async fn arguments_are_refused_by_name() {
    let client = Client::of(&Double::start(World::default())).await;
    for (tool, arguments, text) in [
        ("run_tests", json!({"timeout": -1}), "run_tests: timeout must be a positive number of seconds, got -1"),
        ("run_tests", json!({"filter": 7}), "filter must be a string, got int"),
        (
            "last_test_failures",
            json!({"limit": true}),
            "last_test_failures: limit must be a positive whole number, got true",
        ),
        ("tests_covering", json!({}), "tests_covering: file is required"),
        ("tests_covering", json!({"file": " "}), "tests_covering: file is required"),
        (
            "tests_covering",
            json!({"file": "a.go", "line": 0}),
            "tests_covering: line must be a positive whole number, got 0",
        ),
        (
            "get_test_report",
            json!({"format": "junit"}),
            "get_test_report: format must be summary or json, got \"junit\"",
        ),
    ] {
        assert_eq!(client.refused(tool, arguments).await, text);
    }
    let unknown = client.refused("run_tests", json!({"tiemout": 1})).await;
    assert!(unknown.starts_with("run_tests: unknown argument `tiemout`; it takes: "), "{unknown}");
}

#[tokio::test]
async fn what_the_supervisor_refuses_keeps_its_words() {
    let double = Double::start(World::default());
    let client = Client::of(&double).await;
    let polyglot = "polyglot workspace: 2 project types detected (go, node) — pass `framework` to pick one";
    for (status, text) in [
        (
            failed_precondition(reason::NO_PROJECT, "no supported project detected in workspace root"),
            "no supported project detected in workspace root",
        ),
        (failed_precondition(reason::POLYGLOT, polyglot), polyglot),
        (failed_precondition(reason::RUNNER_MISSING, "go: not found on PATH"), "run_tests: go: not found on PATH"),
        (Some(Status::invalid_argument("filter cannot contain '..'")), "filter cannot contain '..'"),
    ] {
        double.world().refuse = status;
        assert_eq!(client.refused("run_tests", json!({})).await, text);
    }
}

#[tokio::test]
async fn nothing_to_rerun_is_an_answer() {
    let double = Double::start(World::default());
    let client = Client::of(&double).await;
    for (reason, text) in
        [(reason::NO_RUN_YET, text::NO_RUN_YET.to_owned()), (reason::NOTHING_TO_RERUN, text::nothing_to_rerun("go"))]
    {
        double.world().refuse = failed_precondition(reason, "x");
        let result = client.call("run_failing_tests", json!({})).await;
        assert_eq!(block(&result, 0), text);
        assert_eq!(structured(&client, "run_failing_tests", &result).await["nothing_ran"], reason);
    }
    double.world().refuse = failed_precondition(reason::NO_RUN_YET, "x");
    let result = client.call("get_test_report", json!({})).await;
    assert_eq!(block(&result, 0), text::NO_RUN_YET);
}

#[tokio::test]
async fn a_supervisor_that_is_not_there_is_named_with_a_remedy() {
    let client = Client::with(&["--supervisor", "unix:/nowhere/proctor.sock"]).await;
    let text = client.refused("run_tests", json!({})).await;
    assert!(text.starts_with("run_tests: cannot reach the supervisor: No such file"), "{text}");
    assert!(text.contains("--supervisor"), "{text}");
    let client = Client::with(&["--proctor-binary", "/nowhere/proctor"]).await;
    let text = client.refused("list_tests", json!({})).await;
    assert!(
        text.starts_with("list_tests: cannot start the supervisor program /nowhere/proctor: No such file"),
        "{text}"
    );
}
