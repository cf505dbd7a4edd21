//! The protocol over HTTP, with sessions and without: handshakes, headers, batches, ids in use, cancellation, the end.

use crate::fake_supervisor::{FakeState, FakeSupervisor, RUN_ID};
use crate::http_client::{HttpShim, stateless_headers};
use crate::raw_client::{SOON, call, initialize, request, stateless};
use crate::runs::failed;
use crate::stdio_protocol::{endless, terminate, until_run_started};
use http_body_util::BodyExt;
use hyper::Method;
use proctor_proto::v1::Queued;
use proctor_proto::v1::run_event::Event;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn every_version_with_a_handshake_has_a_session() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = shim.session("/mcp", version).await;
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(shim.post("/mcp", &headers, note).await.status, 202);
        let answer = shim.post("/mcp", &headers, call(json!(1), "last_test_failures", json!({}))).await;
        assert_eq!(answer.message()["result"]["isError"], false, "{answer:?}");
        assert_eq!(answer.header("content-type"), "text/event-stream");
        assert_eq!((answer.header("x-accel-buffering"), answer.header("cache-control")), ("no", "no-cache"));
        let closed = shim.exchange(shim.request(Method::DELETE, "/mcp", &headers, vec![])).await;
        assert_eq!(closed.status, 202, "{closed:?}");
        let answer = shim.post("/mcp", &headers, request(json!(2), "tools/list", json!({}))).await;
        assert_eq!((answer.status, answer.error().0), (404, -32600), "{answer:?}");
        assert_eq!(answer.message()["id"], 2);
    }
    assert_eq!(fake.state().created.len(), 1, "all agents of a workspace share its session");
}

#[tokio::test]
async fn requests_without_a_session_carry_their_version() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let discovered = shim.post_stateless("/mcp", &[], stateless(json!(1), "server/discover", json!({}))).await;
    let result = discovered.message()["result"].clone();
    assert_eq!(result["supportedVersions"][4], "2026-07-28", "{discovered:?}");
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")));
    assert!(discovered.headers.get("mcp-session-id").is_none());
    let listed = shim.post_stateless("/mcp", &[], stateless(json!(2), "tools/list", json!({}))).await;
    assert_eq!(listed.message()["result"]["resultType"], "complete");
    let call = stateless(json!(3), "tools/call", json!({"name": "last_test_failures", "arguments": {}}));
    let answer = shim.post_stateless("/mcp", &[], call).await;
    let result = answer.message()["result"].clone();
    assert_eq!((&result["resultType"], &result["isError"]), (&json!("complete"), &json!(false)), "{answer:?}");
    let unknown = shim.post_stateless("/mcp", &[], stateless(json!(4), "no/such", json!({}))).await;
    assert_eq!((unknown.status, unknown.error().0), (404, -32601), "{unknown:?}");
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let call = || stateless(json!(1), "tools/call", json!({"name": "run_tests", "arguments": {}}));
    for (name, value) in [
        ("mcp-method", "tools/list"),
        ("mcp-method", ""),
        ("mcp-name", "list_tests"),
        ("mcp-name", ""),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", ""),
    ] {
        let answer = shim.post_stateless("/mcp", &[(name, value)], call()).await;
        assert_eq!((answer.status, answer.error().0), (400, -32020), "{name}: {value}: {answer:?}");
        assert_eq!(answer.message()["id"], 1);
    }
    let answer =
        shim.post("/mcp", &[("mcp-protocol-version", "2999-01-01")], request(json!(1), "ping", json!({}))).await;
    assert_eq!((answer.status, answer.error().0), (400, -32600), "{answer:?}");
    assert!(fake.state().run_tests.is_empty());
}

#[tokio::test]
async fn each_workspace_has_its_path_and_its_session() {
    let fake = FakeSupervisor::start(FakeState::default());
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let named = |name: &str, dir: &tempfile::TempDir| format!("{name}={}", dir.path().display());
    let shim = HttpShim::with(&fake, &["--workspace", &named("a", &a), "--workspace", &named("b", &b)]).await;
    let call = || stateless(json!(1), "tools/call", json!({"name": "last_test_failures", "arguments": {}}));
    for path in ["/mcp/a", "/mcp/b", "/mcp/a"] {
        assert_eq!(shim.post_stateless(path, &[], call()).await.message()["result"]["isError"], false, "{path}");
    }
    let opened: Vec<String> = fake.state().created.iter().map(|request| request.workspace.clone()).collect();
    let paths = [&a, &b].map(|dir| dir.path().canonicalize().unwrap().to_str().unwrap().to_owned());
    assert_eq!(opened, paths);
    for path in ["/mcp", "/mcp/", "/mcp/c", "/mcp/a/b", "/mcpa", "/"] {
        let answer = shim.post_stateless(path, &[], call()).await;
        assert_eq!((answer.status, answer.error().0), (404, -32600), "{path}: {answer:?}");
    }
    let session = shim.session("/mcp/a", "2025-11-25").await;
    let elsewhere = shim.post("/mcp/b", &[("mcp-session-id", &session)], request(json!(1), "ping", json!({}))).await;
    assert_eq!(elsewhere.status, 404, "an MCP session belongs to one workspace");
}

#[tokio::test]
async fn a_batch_of_a_session_is_answered_by_one_array() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-03-26").await;
    let batch = || {
        json!([
            request(json!(1), "ping", json!({})),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            call(json!("two"), "last_test_failures", json!({})),
            {"jsonrpc": "2.0", "id": 3, "method": 7},
            call(json!(4), "no such tool", json!({})),
        ])
    };
    let answer = shim.post("/mcp", &[("mcp-session-id", &session)], batch()).await;
    let answers: Value = serde_json::from_str(&answer.body).unwrap();
    let codes: Vec<String> =
        answers.as_array().unwrap().iter().map(|one| format!("{} {}", one["id"], one["error"]["code"])).collect();
    assert_eq!(codes, ["1 null", "\"two\" null", "3 -32600", "4 -32602"], "{answer:?}");
    let notes = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    assert_eq!(shim.post("/mcp", &[("mcp-session-id", &session)], notes).await.status, 202);
    for headers in [&[][..], &[("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-06-18")]] {
        let answer = shim.post("/mcp", headers, batch()).await;
        assert_eq!((answer.status, answer.error().0), (400, -32600), "{answer:?}");
    }
    let gone = shim.post("/mcp", &[("mcp-session-id", "gone")], batch()).await;
    assert_eq!(gone.status, 404, "{gone:?}");
}

#[tokio::test]
async fn an_id_in_use_in_a_session_is_refused() {
    let fake = endless();
    let shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-11-25").await;
    let headers = [("mcp-session-id", session.as_str())];
    let wait = call(json!(1), "get_run", json!({"run_id": RUN_ID, "wait_s": 2}));
    let first = shim.send(shim.request(Method::POST, "/mcp", &headers, wait.to_string().into_bytes())).await;
    let second = shim.post("/mcp", &headers, request(json!(1), "ping", json!({}))).await;
    assert_eq!((second.status, second.error().0), (400, -32600), "{second:?}");
    let body = tokio::time::timeout(SOON, first.into_body().collect()).await.unwrap().unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("\"isError\":false"), "{body:?}");
    let free = shim.post("/mcp", &headers, request(json!(1), "ping", json!({}))).await;
    assert_eq!(free.message()["result"], json!({}), "{free:?}");
}

#[tokio::test]
async fn a_closed_response_detaches_and_a_retry_attaches() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let shim = HttpShim::of(&fake).await;
    let run = stateless(json!(1), "tools/call", json!({"name": "run_tests", "arguments": {}}));
    let sent = shim.send(shim.request(Method::POST, "/mcp", &stateless_headers(&run), run.to_string().into_bytes()));
    tokio::select! {
        early = sent => panic!("{early:?}"),
        () = until_run_started(&fake) => {}
    }
    tokio::time::timeout(SOON, fake.until_dropped()).await.unwrap();
    assert!(fake.state().cancelled.is_empty(), "the run goes on");
    fake.state().endless = false;
    fake.state().events = vec![Event::Queued(Queued { attached: true, attached_age_ms: 12_300, ..Queued::default() })];
    let retried = shim.post_stateless("/mcp", &[], run.clone()).await;
    assert_eq!(
        retried.message()["result"]["structuredContent"]["attached"],
        "attached, started 12s ago",
        "{retried:?}"
    );
}

#[tokio::test]
async fn a_cancelled_request_of_a_session_detaches() {
    let fake = endless();
    let shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-11-25").await;
    let headers = [("mcp-session-id", session.as_str())];
    let run = call(json!(1), "run_tests", json!({})).to_string().into_bytes();
    let response = shim.send(shim.request(Method::POST, "/mcp", &headers, run)).await;
    until_run_started(&fake).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(shim.post("/mcp", &headers, cancel).await.status, 202);
    tokio::time::timeout(SOON, fake.until_dropped()).await.unwrap();
    let body = tokio::time::timeout(SOON, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    assert!(!String::from_utf8_lossy(&body).contains("\"id\":1"), "no answer: {body:?}");
    assert!(fake.state().cancelled.is_empty(), "the run goes on");
}

#[tokio::test]
async fn a_slow_call_has_its_headers_before_its_answer() {
    let fake = endless();
    let shim = HttpShim::of(&fake).await;
    let arguments = json!({"run_id": RUN_ID, "wait_s": 7});
    let wait = stateless(json!(1), "tools/call", json!({"name": "get_run", "arguments": arguments}));
    let response =
        shim.send(shim.request(Method::POST, "/mcp", &stateless_headers(&wait), wait.to_string().into_bytes())).await;
    let headers = response.headers();
    assert!(headers["content-type"] == "text/event-stream" && headers["x-accel-buffering"] == "no", "{headers:?}");
    let body = tokio::time::timeout(SOON, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body);
    assert!(text.starts_with("data: {") && text.contains("\"resultType\":\"complete\""), "{text}");
}

#[tokio::test]
async fn progress_arrives_before_the_answer() {
    let fake = endless();
    let shim = HttpShim::of(&fake).await;
    let mut wait =
        stateless(json!(1), "tools/call", json!({"name": "get_run", "arguments": {"run_id": RUN_ID, "wait_s": 1}}));
    wait["params"]["_meta"]["progressToken"] = json!("p");
    let answer = shim.post_stateless("/mcp", &[], wait).await;
    let methods: Vec<bool> =
        answer.messages().iter().map(|message| message["method"] == "notifications/progress").collect();
    assert!(methods.len() >= 3 && methods[0] && !methods[methods.len() - 1], "{answer:?}");
}

#[tokio::test]
async fn a_malformed_initialize_is_told_what_is_wrong() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let malformed = request(json!(5), "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    let answer = shim.post("/mcp", &[], malformed).await;
    let (code, text) = answer.error();
    assert_eq!(
        (answer.status, code, text.as_str()),
        (400, -32602, "Invalid params: initialize: missing field `clientInfo`")
    );
    let unopened = shim.post("/mcp", &[], request(json!(6), "tools/list", json!({}))).await;
    assert_eq!((unopened.status, unopened.message()["id"].clone()), (400, json!(6)), "{unopened:?}");
    assert_eq!(shim.post("/mcp", &[], initialize("2025-06-18")).await.status, 200);
}

#[tokio::test]
async fn the_end_of_the_server_answers_the_calls_in_flight() {
    let fake = endless();
    let mut shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-11-25").await;
    let run = call(json!(1), "run_tests", json!({})).to_string().into_bytes();
    let response = shim.send(shim.request(Method::POST, "/mcp", &[("mcp-session-id", &session)], run)).await;
    until_run_started(&fake).await;
    terminate(shim.process.id().unwrap());
    let body = tokio::time::timeout(SOON, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("cancelled: the server is ending"), "{body:?}");
    assert!(tokio::time::timeout(SOON, shim.process.wait()).await.unwrap().unwrap().success());
    assert!(fake.state().cancelled.is_empty());
}

#[tokio::test]
async fn the_start_of_a_run_keeps_the_abandoned_run_of_another_agent() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let shim = HttpShim::of(&fake).await;
    let (one, other) = (shim.session("/mcp", "2025-11-25").await, shim.session("/mcp", "2025-11-25").await);
    let in_session = |session: &str, message: Value| {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        shim.request(Method::POST, "/mcp", &headers, message.to_string().into_bytes())
    };
    // Starts a run and gives it up once the shim reports its progress, and so has its first event.
    let start_and_leave = async |session: &str, runs: usize| {
        let mut call = call(json!(runs), "run_tests", json!({}));
        call["params"]["_meta"] = json!({"progressToken": runs});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": runs}});
        let mut body = shim.send(in_session(session, call)).await.into_body();
        let leave = async {
            let mut received = String::new();
            while !received.contains("tests done") {
                let frame = body.frame().await.unwrap().unwrap();
                received.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
            }
            assert_eq!(shim.exchange(in_session(session, cancel)).await.status, 202);
            while fake.dropped() < runs {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, leave).await.unwrap();
    };
    start_and_leave(&one, 1).await;
    start_and_leave(&one, 2).await;
    assert_eq!(fake.state().watched, [""; 0], "an agent may end its own run");
    start_and_leave(&other, 3).await;
    assert_eq!(fake.state().watched, [RUN_ID]);
}
