//! Texts of calls that cannot be carried out: what is wrong, and the remedy.

use crate::client::{Client, block, structured};
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use proctor_proto::reason;
use proctor_proto::text::{self, Reader};
use serde_json::json;
use std::collections::HashMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

fn failed_precondition(reason: &str, message: &str) -> Option<Status> {
    let metadata = HashMap::from([("framework".to_owned(), "go".to_owned())]);
    let details = ErrorDetails::with_error_info(reason, reason::DOMAIN, metadata);
    Some(Status::with_error_details(Code::FailedPrecondition, message, details))
}

#[tokio::test]
async fn refuses_invalid_arguments_by_name() {
    let client = Client::connected_to(&FakeSupervisor::start(FakeState::default())).await;
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
            json!({"format": "pdf"}),
            "get_test_report: format must be summary, history, slowest, flaky, json, junit, ctrf, tap, github, html or optimization, got \"pdf\"",
        ),
    ] {
        assert_eq!(client.refused(tool, arguments).await, text);
    }
    let unknown = client.refused("run_tests", json!({"tiemout": 1})).await;
    assert!(unknown.starts_with("run_tests: unknown argument `tiemout`; it takes: "), "{unknown}");
}

#[tokio::test]
async fn passes_on_the_message_of_a_refusal() {
    let fake = FakeSupervisor::start(FakeState::default());
    let client = Client::connected_to(&fake).await;
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
        fake.state().refuse = status;
        assert_eq!(client.refused("run_tests", json!({})).await, text);
    }
}

#[tokio::test]
async fn nothing_to_rerun_is_an_answer() {
    let fake = FakeSupervisor::start(FakeState::default());
    let client = Client::connected_to(&fake).await;
    for (reason, text) in [
        (reason::NO_RUN_YET, text::NO_RUN_YET.to_owned()),
        (reason::NOTHING_TO_RERUN, text::nothing_to_rerun("go", Reader::Agent)),
    ] {
        fake.state().refuse = failed_precondition(reason, "x");
        let result = client.call("run_failing_tests", json!({})).await;
        assert_eq!(block(&result, 0), text);
        assert_eq!(structured(&client, "run_failing_tests", &result).await["nothing_ran"], reason);
    }
    fake.state().refuse = failed_precondition(reason::NO_RUN_YET, "x");
    let result = client.call("get_test_report", json!({})).await;
    assert_eq!(block(&result, 0), text::NO_RUN_YET);
    fake.state().refuse = failed_precondition(reason::NO_RUN_YET, "x");
    let result = client.call("analyze_failures", json!({})).await;
    assert_eq!(block(&result, 0), text::NO_RUN_YET);
}

#[tokio::test]
async fn an_unreachable_supervisor_is_named_with_a_remedy() {
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

/// A port that answers every connection with `answer`.
async fn answering_port(answer: &'static [u8]) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Reads the request first: closing a socket with unread bytes resets it, and the answer is lost.
            _ = stream.read(&mut [0; 4096]).await;
            _ = stream.write_all(answer).await;
        }
    });
    port
}

#[tokio::test]
async fn distinguishes_a_tls_port_from_another_protocol() {
    // A TLS alert: handshake_failure.
    let port = answering_port(b"\x15\x03\x03\x00\x02\x02\x28").await;
    let client = Client::with(&["--supervisor", &format!("http://127.0.0.1:{port}")]).await;
    for (tool, arguments) in [("run_tests", json!({})), ("get_run", json!({"run_id": "x"}))] {
        let text = client.refused(tool, arguments).await;
        assert!(text.starts_with(&format!("{tool}: the supervisor speaks TLS there")), "{text}");
        assert!(text.contains("Write https:// in --supervisor"), "{text}");
    }
    let port = answering_port(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let client = Client::with(&["--supervisor", &format!("http://127.0.0.1:{port}")]).await;
    let text = client.refused("run_tests", json!({})).await;
    assert!(
        text.starts_with("run_tests: the connection to the supervisor is lost. ") && !text.contains("private"),
        "{text}"
    );
}
