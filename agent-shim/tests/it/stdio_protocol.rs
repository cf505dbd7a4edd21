//! The protocol over stdin and stdout: handshakes of every version, batches, ids in use, cancellation, the end during a call.

use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::raw_client::{RawClient, SOON, call, initialize, request, stateless};
use serde_json::{Value, json};

pub(crate) fn endless() -> FakeSupervisor {
    FakeSupervisor::start(FakeState { endless: true, ..FakeState::default() })
}

pub(crate) async fn until_run_started(fake: &FakeSupervisor) {
    let started = async {
        while fake.state().run_tests.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, started).await.unwrap();
}

fn error_of(answer: &Value) -> (&Value, i64, &str) {
    let error = &answer["error"];
    (&answer["id"], error["code"].as_i64().unwrap_or_else(|| panic!("{answer}")), error["message"].as_str().unwrap())
}

#[tokio::test]
async fn every_version_with_a_handshake_is_served() {
    let fake = FakeSupervisor::start(FakeState::default());
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = RawClient::initialized(&fake, version).await;
        client.assert_alive().await;
        client.send(call(json!(1), "last_test_failures", json!({}))).await;
        let answer = client.next().await;
        assert_eq!(answer["result"]["isError"], false, "{version}: {answer}");
        assert!(answer["result"].get("resultType").is_none(), "{version} has no resultType: {answer}");
    }
    let mut client = RawClient::of(&fake);
    client.send(initialize("1999-01-01")).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "an unknown version is offered the newest");
}

#[tokio::test]
async fn the_version_without_a_handshake_is_served() {
    let fake = FakeSupervisor::start(FakeState::default());
    let mut client = RawClient::of(&fake);
    client.send(stateless(json!(1), "server/discover", json!({}))).await;
    let result = client.next().await["result"].clone();
    assert_eq!(result["resultType"], "complete", "{result}");
    let versions = json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
    assert_eq!(result["supportedVersions"], versions);
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")));
    client.send(stateless(json!(2), "tools/list", json!({}))).await;
    let result = client.next().await["result"].clone();
    assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &json!(3_600_000)));
    client.send(stateless(json!(3), "tools/call", json!({"name": "last_test_failures", "arguments": {}}))).await;
    let answer = client.next().await;
    assert_eq!((&answer["result"]["resultType"], &answer["result"]["isError"]), (&json!("complete"), &json!(false)));
    client.send(request(json!(4), "tools/list", json!({}))).await;
    let answer = client.next().await;
    let (id, code, text) = error_of(&answer);
    assert_eq!((id, code), (&json!(4), -32602), "{text}");
}

#[tokio::test]
async fn messages_before_the_handshake_do_not_end_the_server() {
    let fake = FakeSupervisor::start(FakeState::default());
    let mut client = RawClient::of(&fake);
    for early in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/of/another"}),
        json!({"jsonrpc": "2.0", "id": 9, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 9, "error": {"code": -1, "message": "x"}}),
    ] {
        client.send(early).await;
    }
    client.send(call(json!(1), "run_tests", json!({}))).await;
    let answer = client.next().await;
    let (id, code, text) = error_of(&answer);
    assert_eq!((id, code), (&json!(1), -32600));
    assert!(text.contains("initialize comes first"), "{text}");
    client.send(request(json!(2), "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}))).await;
    let answer = client.next().await;
    assert_eq!(error_of(&answer), (&json!(2), -32602, "Invalid params: initialize: missing field `clientInfo`"));
    client.send(initialize("2025-06-18")).await;
    assert_eq!(client.next().await["id"], 0);
    client.assert_alive().await;
}

#[tokio::test]
async fn a_batch_of_2025_03_26_is_answered_by_one_array() {
    let fake = FakeSupervisor::start(FakeState::default());
    let mut client = RawClient::initialized(&fake, "2025-03-26").await;
    client
        .send(json!([
            request(json!(1), "ping", json!({})),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            call(json!("two"), "last_test_failures", json!({})),
            {"jsonrpc": "2.0", "id": 3, "method": 7},
            5,
            call(json!(4), "no such tool", json!({})),
            request(json!(1), "ping", json!({})),
        ]))
        .await;
    let answer = client.next().await;
    let answers = answer.as_array().unwrap_or_else(|| panic!("{answer}"));
    let mut codes: Vec<String> =
        answers.iter().map(|answer| format!("{} {}", answer["id"], answer["error"]["code"])).collect();
    codes.sort();
    let expected = ["\"two\" null", "1 -32600", "1 null", "3 -32600", "4 -32602", "null -32600"];
    assert_eq!(codes, expected, "{answer}");
    client.send(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    client.assert_alive().await;
    client.send(json!([])).await;
    assert_eq!(error_of(&client.next().await).1, -32600);
}

#[tokio::test]
async fn a_batch_waits_for_its_last_answer_but_not_for_a_cancelled_one() {
    let fake = endless();
    let mut client = RawClient::initialized(&fake, "2025-03-26").await;
    client.send(json!([request(json!(1), "ping", json!({})), call(json!(2), "run_tests", json!({}))])).await;
    until_run_started(&fake).await;
    client.assert_alive().await;
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})).await;
    assert_eq!(client.next().await, json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]));
    client.assert_alive().await;
}

#[tokio::test]
async fn a_batch_of_another_version_is_refused_with_its_ids() {
    let fake = FakeSupervisor::start(FakeState::default());
    let mut client = RawClient::initialized(&fake, "2025-06-18").await;
    client.send(json!([request(json!(1), "ping", json!({})), request(json!("b"), "ping", json!({}))])).await;
    for id in [json!(1), json!("b")] {
        let answer = client.next().await;
        assert_eq!((error_of(&answer).0, error_of(&answer).1), (&id, -32600));
    }
    client.send(json!([5])).await;
    assert_eq!(error_of(&client.next().await).0, &Value::Null);
    client.assert_alive().await;
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_the_first_request_is_answered() {
    let fake = endless();
    let mut client = RawClient::initialized(&fake, "2025-06-18").await;
    client.send(call(json!(1), "get_run", json!({"run_id": crate::fake_supervisor::RUN_ID, "wait_s": 2}))).await;
    client.send(request(json!(1), "ping", json!({}))).await;
    let answer = client.next().await;
    let (id, code, text) = error_of(&answer);
    assert_eq!((id, code), (&json!(1), -32600), "{text}");
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)), "{answer}");
    client.send(request(json!(1), "ping", json!({}))).await;
    assert_eq!(client.next().await["result"], json!({}), "the id is free again");
}

#[tokio::test]
async fn too_many_requests_at_once_are_refused() {
    let fake = endless();
    let mut client = RawClient::initialized(&fake, "2025-06-18").await;
    for id in 1..=64 {
        client.send(call(json!(id), "run_tests", json!({}))).await;
    }
    client.send(request(json!(65), "ping", json!({}))).await;
    let answer = client.next().await;
    assert_eq!((error_of(&answer).0, error_of(&answer).1), (&json!(65), -32000));
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    client.assert_alive().await;
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_and_its_run_goes_on() {
    let fake = endless();
    let mut client = RawClient::initialized(&fake, "2025-11-25").await;
    client.send(call(json!(1), "run_tests", json!({}))).await;
    until_run_started(&fake).await;
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    tokio::time::timeout(SOON, fake.until_dropped()).await.unwrap();
    client.assert_alive().await;
    assert!(fake.state().cancelled.is_empty());
}

#[tokio::test]
async fn no_cursor_is_valid_where_there_is_one_page() {
    let fake = FakeSupervisor::start(FakeState::default());
    let mut client = RawClient::initialized(&fake, "2025-11-25").await;
    for cursor in ["", "2", &"x".repeat(5_000)] {
        client.send(request(json!(1), "tools/list", json!({"cursor": cursor}))).await;
        let answer = client.next().await;
        let (_, code, text) = error_of(&answer);
        assert!(code == -32602 && text.len() < 400, "{answer}");
    }
    client.assert_alive().await;
}

#[tokio::test]
async fn the_end_of_the_server_answers_the_calls_in_flight() {
    for by_signal in [false, true] {
        let fake = endless();
        let mut client = RawClient::initialized(&fake, "2025-11-25").await;
        client.send(call(json!(1), "run_tests", json!({}))).await;
        until_run_started(&fake).await;
        match by_signal {
            true => terminate(client.shim.id().unwrap()),
            false => client.leave(),
        }
        let answer = client.next().await;
        let expected = "cancelled: the server is ending; the run goes on for 30 s";
        assert_eq!(error_of(&answer), (&json!(1), -32001, expected));
        assert_eq!(client.next_if_any().await, None);
        assert!(tokio::time::timeout(SOON, client.shim.wait()).await.unwrap().unwrap().success());
        assert!(fake.state().cancelled.is_empty(), "the run goes on");
    }
}

#[expect(clippy::disallowed_methods, reason = "only this program sends a signal without an unsafe block")]
pub(crate) fn terminate(pid: u32) {
    assert!(std::process::Command::new("kill").arg(pid.to_string()).status().unwrap().success());
}
