//! Long calls: those of clients that declare the tasks extension become tasks, whose id is that of their run; the others are
//! answered with the state of their run.

use crate::fake_supervisor::{FakeState, FakeSupervisor, RUN_ID};
use crate::http_client::HttpShim;
use crate::raw_client::{RawClient, SOON, call, initialize, request, stateless};
use crate::runs::failed;
use serde_json::{Value, json};
use std::time::Duration;

/// A request of 2026-07-28 of a client that declares the extension.
fn with_tasks(id: u32, method: &str, params: Value) -> Value {
    let mut request = stateless(json!(id), method, params);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    request
}

fn run_tests(id: u32) -> Value {
    with_tasks(id, "tools/call", json!({"name": "run_tests", "arguments": {}}))
}

async fn exchange(client: &mut RawClient, message: Value) -> Value {
    client.send(message).await;
    client.next().await["result"].clone()
}

async fn until_status(client: &mut RawClient, status: &str) -> Value {
    let reached = async {
        loop {
            let task = exchange(client, with_tasks(2, "tasks/get", json!({"taskId": RUN_ID}))).await;
            if task["status"] == status {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, reached).await.unwrap()
}

#[tokio::test]
async fn a_long_run_is_a_task_until_it_ends() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let mut client = RawClient::of(&fake);
    let task = exchange(&mut client, run_tests(1)).await;
    assert_eq!(
        (&task["resultType"], &task["taskId"], &task["status"]),
        (&json!("task"), &json!(RUN_ID), &json!("working"))
    );
    assert!(task["createdAt"].as_str().unwrap().contains('T') && task["pollIntervalMs"] == 2_000, "{task}");
    let created_at = task["createdAt"].clone();
    let task = exchange(&mut client, with_tasks(2, "tasks/get", json!({"taskId": RUN_ID}))).await;
    assert_eq!((&task["resultType"], &task["status"]), (&json!("complete"), &json!("working")), "{task}");
    assert_eq!(task["createdAt"], created_at, "a poll does not change when the run began");
    let acknowledged = exchange(&mut client, with_tasks(3, "tasks/cancel", json!({"taskId": RUN_ID}))).await;
    assert_eq!(acknowledged["resultType"], "complete");
    assert_eq!(fake.state().cancelled, [RUN_ID]);
    until_status(&mut client, "cancelled").await;
}

#[tokio::test]
async fn a_task_has_the_result_of_its_call() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let mut client = RawClient::of(&fake);
    assert_eq!(exchange(&mut client, run_tests(1)).await["resultType"], "task");
    fake.state().endless = false;
    let task = until_status(&mut client, "completed").await;
    assert_eq!(task["result"]["structuredContent"]["outcome"], "failed", "{task}");
    assert_eq!(task["result"]["isError"], false);
}

#[tokio::test]
async fn a_short_run_is_answered_at_once() {
    let fake = FakeSupervisor::start(failed());
    let mut client = RawClient::of(&fake);
    let result = exchange(&mut client, run_tests(1)).await;
    assert_eq!(
        (&result["resultType"], &result["structuredContent"]["outcome"]),
        (&json!("complete"), &json!("failed"))
    );
}

#[tokio::test]
async fn another_process_knows_the_task_by_its_run() {
    let fake = FakeSupervisor::start(failed());
    let shim = HttpShim::of(&fake).await;
    let get = |id: &str| with_tasks(1, "tasks/get", json!({"taskId": id}));
    let task = shim.post_stateless("/mcp", &[("mcp-name", RUN_ID)], get(RUN_ID)).await.message()["result"].clone();
    assert_eq!((&task["status"], &task["taskId"]), (&json!("completed"), &json!(RUN_ID)), "{task}");
    assert_eq!(task["result"]["structuredContent"]["outcome"], "failed", "{task}");
    let time = |name: &str| task[name].as_str().unwrap();
    assert!(time("createdAt") < time("lastUpdatedAt"), "the run is older than the poll: {task}");
    for id in ["", "no-such-run"] {
        let answer = shim.post_stateless("/mcp", &[("mcp-name", id)], get(id)).await;
        assert!(answer.body.contains("\"error\""), "{id}: {answer:?}");
    }
}

#[tokio::test]
async fn errors_of_tasks_tell_an_unknown_run_from_a_lost_supervisor() {
    let fake = FakeSupervisor::start(failed());
    let mut client = RawClient::of(&fake);
    let error = async |client: &mut RawClient, method: &str, id: &str| {
        client.send(with_tasks(1, method, json!({"taskId": id}))).await;
        let answer = client.next().await;
        (answer["error"]["code"].clone(), answer["error"]["data"]["reason"].clone())
    };
    assert_eq!(error(&mut client, "tasks/get", "no-such-run").await, (json!(-32602), json!("NOT_YOURS")));
    fake.crash();
    for method in ["tasks/get", "tasks/cancel"] {
        assert_eq!(error(&mut client, method, RUN_ID).await, (json!(-32003), json!("SUPERVISOR_LOST")), "{method}");
    }
}

#[tokio::test]
async fn a_cancellation_that_failed_is_not_recorded() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let mut client = RawClient::of(&fake);
    assert_eq!(exchange(&mut client, run_tests(1)).await["resultType"], "task");
    fake.state().refuse_cancel = Some(tonic::Status::internal("the run cannot be reached"));
    client.send(with_tasks(2, "tasks/cancel", json!({"taskId": RUN_ID}))).await;
    assert_eq!(client.next().await["error"]["code"], -32603);
    let task = exchange(&mut client, with_tasks(3, "tasks/get", json!({"taskId": RUN_ID}))).await;
    assert_eq!(task["status"], "working", "{task}");
}

#[tokio::test]
async fn clients_that_do_not_declare_the_extension_get_the_state_of_the_run() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let mut client = RawClient::of(&fake);
    client.send(initialize("2025-11-25")).await;
    let result = client.next().await["result"].clone();
    assert!(result["capabilities"].get("extensions").is_none(), "{result}");
    client.send(request(json!(1), "tasks/get", json!({"taskId": RUN_ID}))).await;
    assert_eq!(client.next().await["error"]["code"], -32021);
    let tools = ["run_tests", "run_failing_tests", "run_affected_tests", "run_lint", "run_typecheck"];
    for (id, tool) in (2..).zip(tools) {
        client.send(call(json!(id), tool, json!({}))).await;
    }
    let mut finished = Value::Null;
    for _ in tools {
        // After 50 s, when a client with tasks has its answer for long.
        let answer = client.next().await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text.starts_with(&format!("run {RUN_ID} is running: ")), "{text}");
        assert_eq!(answer["result"]["structuredContent"]["state"], "running", "{answer}");
        finished = answer;
    }
    fake.state().queue_position = 2;
    client.send(call(json!(9), "get_run", json!({"run_id": RUN_ID}))).await;
    let answer = client.next().await;
    let waits = format!("run {RUN_ID} is queued behind 2 other run(s), 3.2s");
    assert_eq!(answer["result"]["structuredContent"]["headline"], waits, "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["progress"], json!({"queue_position": 2}), "{answer}");
    fake.state().endless = false;
    while finished["result"]["structuredContent"]["state"] != "finished" {
        client.send(call(json!(3), "get_run", json!({}))).await;
        finished = client.next().await;
    }
}
