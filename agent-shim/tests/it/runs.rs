//! Calls that run tests: texts, structured content, progress, attaching, cancelling, shortening.

use crate::client::{Client, block, structured};
use crate::fake_supervisor::{FakeState, FakeSupervisor, PICTURE, RUN_ID};
use proctor_proto::reason;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::*;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

fn test(name: &str, outcome: TestOutcome) -> Event {
    let case = TestCase { package: "a".into(), name: name.into(), outcome: outcome.into(), ..TestCase::default() };
    Event::TestFinished(case)
}

/// A run in which one of three tests fails.
pub(crate) fn failed() -> FakeState {
    let summary = Summary { total: 3, passed: 2, failed: 1, ..Summary::default() };
    FakeState {
        report: Report {
            outcome: Outcome::Failed.into(),
            exit_code: 1,
            raw_exit_code: Some(1),
            framework: "go".into(),
            summary: Some(summary),
            duration_s: 1.3,
            structured: true,
            stdout_tail: "ok\nFAIL\n".into(),
            tests: vec![TestCase {
                nodeid: "a/TestB".into(),
                outcome: TestOutcome::Failed.into(),
                file: Some("b_test.go".into()),
                line: Some(7),
                message: Some("wrong".into()),
                ..TestCase::default()
            }],
            resources: Some(Resources::default()),
            ..Report::default()
        },
        document: json!({
            "outcome": "failed", "exit_code": 1, "raw_exit_code": null, "framework": "go",
            "summary": {"total": 3, "passed": 2, "failed": 1}, "duration_s": 1.3, "partial": false, "structured": true,
            "tests": [{"nodeid": "a/TestB", "package": "a", "name": "TestB", "outcome": "failed", "line": 7, "file": null}],
            "collectors": [], "evidence": {}, "stdout_tail": "ok\nFAIL\n", "stderr_tail": "",
        }),
        stdout: b"ok\n\x1b[31mFAIL\x1b[0m\n".to_vec(),
        stderr: b"warning".to_vec(),
        events: vec![
            Event::Queued(Queued::default()),
            Event::Started(Started::default()),
            test("TestA", TestOutcome::Passed),
            test("TestB", TestOutcome::Failed),
            Event::Progress(Progress { tests_finished: 2, memory_bytes: Some(45 << 20), ..Progress::default() }),
        ],
        ..FakeState::default()
    }
}

#[tokio::test]
async fn a_stream_that_ends_with_retry_info_is_resumed() {
    let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(1)));
    details.set_error_info(reason::HOST_FAILED, reason::DOMAIN, HashMap::new());
    let broken = Status::with_error_details(Code::Unavailable, "the output of event 3 could not be read back", details);
    let fake = FakeSupervisor::start(FakeState { stream_error: Some((3, broken)), ..failed() });
    let client = Client::connected_to(&fake).await;
    let result = client.call("run_tests", json!({})).await;
    assert!(block(&result, 0).starts_with("failed: 1 of 3 (go, 1.3s)\n"), "{result:?}");
    assert!(fake.state().stream_error.is_none());
}

#[tokio::test]
async fn a_failing_run_is_a_small_answer_in_text_and_in_data() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    let arguments = json!({
        "timeout": "60", "filter": "TestB", "files": ["a/a.go"], "parallel": 4.0, "coverage": "off", "env": {"A": "1"},
    });
    let result = client.call("run_tests", arguments).await;
    let text = "failed: 1 of 3 (go, 1.3s)\n1. a/TestB\n   b_test.go:7\n   wrong\n\nnext: run_failing_tests after a fix\nexit: 1\n";
    assert_eq!((block(&result, 0).as_str(), result.content.len()), (text, 1));
    let data = structured(&client, "run_tests", &result).await;
    let expected = json!({
        "headline": "failed: 1 of 3 (go, 1.3s)",
        "outcome": "failed",
        "summary": {"total": 3, "passed": 2, "failed": 1},
        "failures": [{"name": "a/TestB", "at": "b_test.go:7", "message": "wrong"}],
        "next": "run_failing_tests after a fix",
        "exit_code": 1,
        "run_id": RUN_ID,
    });
    assert_eq!(data.to_string(), expected.to_string(), "also in this order");

    let state = fake.state();
    let request = &state.run_tests[0];
    assert_eq!(request.limits.unwrap().wall_ms, 60_000);
    assert_eq!((request.filter.as_str(), request.parallel, request.coverage()), ("TestB", 4, CoverageMode::Off));
    assert_eq!(request.files, ["a/a.go"]);
    assert_eq!(request.env["A"], "1");
    assert_eq!(state.created[0].workspace, client.root().canonicalize().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn raw_and_verbose_add_the_output_and_the_whole_report() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    let result = client.call("run_tests", json!({"raw": true})).await;
    assert_eq!(block(&result, 0), "ok\nFAIL\n--- stderr ---\nwarning\nexit: 1\n");
    assert_eq!(block(&result, 1), "failed: 1 of 3 (go, 1.3s)\nnext: run_failing_tests after a fix");
    assert!(structured(&client, "run_tests", &result).await.get("tests").is_none());

    let result = client.call("run_tests", json!({"verbose": true})).await;
    let data = structured(&client, "run_tests", &result).await;
    assert_eq!((&data["tests"][0]["line"], &data["stdout_tail"]), (&json!(7), &json!("ok\nFAIL\n")));
    assert!(data.get("raw_exit_code").is_none(), "absent, not null: {data}");
    let result = client.call("run_tests", json!({"verbose": true, "max_tokens": 60})).await;
    assert!(
        block(&result, 0).contains("note: limits, isolation, resources and passed tests need a larger max_tokens\n"),
        "{result:?}"
    );
    assert!(structured(&client, "run_tests", &result).await.get("tests").is_none());

    let client = Client::with(&["--supervisor", &format!("unix:{}", fake.socket().display()), "--compat"]).await;
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(block(&result, 0), "ok\nFAIL\n--- stderr ---\nwarning\nexit: 1\n");
    let result = client.call("run_tests", json!({"raw": false})).await;
    assert!(block(&result, 0).starts_with("failed: 1 of 3"), "{result:?}");
}

#[tokio::test]
async fn mentions_clamping_and_attaching() {
    let mut state = failed();
    state.events[0] = Event::Queued(Queued { attached: true, attached_age_ms: 12_300, ..Queued::default() });
    let fake = FakeSupervisor::start(state);
    let client = Client::connected_to(&fake).await;
    let result = client.call("run_tests", json!({"timeout": 3600})).await;
    let text = block(&result, 0);
    assert!(text.contains("\nattached, started 12s ago\n"), "{text}");
    assert!(text.contains("\nnote: timeout was clamped from 3600 to 1800 s.\n"), "{text}");
    let data = structured(&client, "run_tests", &result).await;
    assert_eq!(data["attached"], "attached, started 12s ago");
    assert_eq!(data["notes"], json!(["timeout was clamped from 3600 to 1800 s."]));
    assert_eq!(fake.state().run_tests[0].limits.unwrap().wall_ms, 1_800_000);
}

#[tokio::test]
async fn long_output_keeps_its_head_and_says_how_to_read_on() {
    let fake = FakeSupervisor::start(FakeState { stdout: vec![b'x'; 700_000], stderr: vec![], ..failed() });
    let client = Client::connected_to(&fake).await;
    let text = block(&client.call("run_tests", json!({"raw": true})).await, 0);
    let hint = format!("get_run {{\"run_id\":\"{RUN_ID}\",\"stream\":\"stdout\",\"cursor\":512000}} reads on");
    assert!(text.ends_with(&format!("x\n[TRUNCATED] 188000 bytes left out; {hint}\nexit: 1\n")));
    assert_eq!(text.find('\n'), Some(512_000));

    let page = client.call("get_run", json!({"stream": "stdout", "cursor": 512_000, "max_tokens": 40_000})).await;
    let data = structured(&client, "get_run", &page).await;
    let next = data["output"]["next_cursor"].as_u64().unwrap();
    assert!((512_000 + 79_000..512_000 + 80_000).contains(&next), "half of the budget for each form: {next}");
    assert_eq!(
        (block(&page, 0).as_str(), &data["output"]["total_bytes"]),
        (data["output"]["text"].as_str().unwrap(), &json!(700_000))
    );
    assert!(block(&page, 1).contains(&format!("\"cursor\":{next}}}")), "{page:?}");
    let rest = json!({"run_id": RUN_ID, "stream": "stdout", "cursor": 699_000});
    let last = client.call("get_run", rest).await;
    assert_eq!(structured(&client, "get_run", &last).await["output"]["end"], true);
}

#[tokio::test]
async fn max_tokens_bounds_text_and_data_together() {
    let mut state = failed();
    state.report.summary = Some(Summary { total: 400, failed: 300, passed: 100, ..Summary::default() });
    state.report.tests = (0..300)
        .map(|number| TestCase {
            nodeid: format!("a/TestB/{number}"),
            message: Some(format!("{number}: {}", "wrong ".repeat(number))),
            output: Some("x".repeat(1_000)),
            ..state.report.tests[0].clone()
        })
        .collect();
    let fake = FakeSupervisor::start(state);
    let client = Client::connected_to(&fake).await;
    for max_tokens in [2_000_u32, 500, 150, 20] {
        let arguments = if max_tokens == 2_000 { json!({}) } else { json!({ "max_tokens": max_tokens }) };
        let result = client.call("run_tests", arguments).await;
        let (text, data) = (block(&result, 0), structured(&client, "run_tests", &result).await);
        let bytes = text.len() + data.to_string().len();
        assert!(bytes <= 4 * usize::try_from(max_tokens).unwrap().max(200), "{max_tokens}: {bytes}");
        assert!(text.starts_with("failed: 300 of 400 (go, 1.3s)\n1. a/TestB/0\n   b_test.go:7\n"), "{text}");
        assert!(text.ends_with("exit: 1\n"), "{text}");
        let next = data["next"].as_str().unwrap();
        assert!(next.contains("; last_test_failures {\"run_id\":\"") && next.ends_with(" more failures"), "{next}");
    }
}

#[tokio::test]
async fn progress_notifications_always_rise() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let client = Client::connected_to(&fake).await;
    let several = async {
        while client.progress().len() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = client.call("get_run", json!({"run_id": RUN_ID, "wait_s": 600})) => panic!("{ended:?}"),
        gave_up = tokio::time::timeout(Duration::from_secs(60), several) => gave_up.unwrap(),
    }
    let progress = client.progress();
    assert!(progress.windows(2).all(|pair| pair[0].progress < pair[1].progress), "{progress:?}");
    assert!(progress[0].message.as_ref().unwrap().starts_with("12 tests done, 1 failing, "), "{progress:?}");

    let result = client.call("get_run", json!({"run_id": RUN_ID, "wait_s": 1})).await;
    assert_eq!(structured(&client, "get_run", &result).await["state"], "running");
    assert_eq!(block(&result, 0), format!("run {RUN_ID} is running: 12 tests done, 1 failing, 3.2s\n"));
}

#[tokio::test]
async fn a_cancelled_call_detaches_from_the_run_without_killing_it() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..failed() });
    let client = Client::connected_to(&fake).await;
    let line = || client.progress().last().and_then(|latest| latest.message.clone()).unwrap_or_default();
    let reported = async {
        while !line().ends_with(", 45 MiB") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = client.call("run_tests", json!({})) => panic!("{ended:?}"),
        gave_up = tokio::time::timeout(Duration::from_secs(60), reported) => gave_up.unwrap(),
    }
    tokio::time::timeout(Duration::from_secs(60), fake.until_dropped()).await.unwrap();
    assert!(fake.state().cancelled.is_empty());
    assert!(line().starts_with("2 tests done, 1 failing, "), "{}", line());

    let status = client.call("get_run", json!({})).await;
    assert_eq!(structured(&client, "get_run", &status).await["state"], "running", "the last run is the default");
    let killed = client.call("get_run", json!({"cancel": true})).await;
    assert_eq!(fake.state().cancelled, [RUN_ID]);
    assert!(block(&killed, 0).ends_with("exit: 1\n"));
    assert_eq!(structured(&client, "get_run", &killed).await["outcome"], "cancelled");
}

#[tokio::test]
async fn a_run_keeps_its_result_if_its_session_closes_at_its_end() {
    let mut state = FakeState { draining: true, ..failed() };
    state.report.tests = vec![TestCase {
        nodeid: "a/TestB".into(),
        outcome: TestOutcome::Failed.into(),
        line: Some(7),
        ..TestCase::default()
    }];
    let fake = FakeSupervisor::start(state);
    let client = Client::connected_to(&fake).await;
    let check = |result: &CallToolResult| {
        assert_eq!(result.is_error, Some(false), "{result:?}");
        let text = block(result, 0);
        assert!(text.starts_with("failed: 1 of 3 (go, 1.3s)\n1. a/TestB\n"), "{text}");
        assert!(text.contains("note: the output and the report of this run can no longer be read"), "{text}");
    };
    let result = client.call("run_tests", json!({"raw": true})).await;
    check(&result);
    assert_eq!(structured(&client, "run_tests", &result).await["outcome"], "failed");

    fake.state().sessions = vec!["session-1".into()];
    let result = client.call("get_run", json!({"run_id": RUN_ID, "wait_s": 60, "raw": true})).await;
    check(&result);
    let data = structured(&client, "get_run", &result).await;
    assert_eq!((&data["state"], &data["outcome"]), (&json!("finished"), &json!("failed")));
}

#[tokio::test]
async fn returns_the_last_report_as_summary_and_as_document() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    let result = client.call("get_test_report", json!({})).await;
    assert!(block(&result, 0).starts_with("failed: 1 of 3 (go, 1.3s)\nused: "), "{result:?}");
    assert_eq!(result.structured_content.unwrap()["run_id"], RUN_ID);
    let short = client.call("get_test_report", json!({"format": "json", "max_tokens": 1})).await;
    assert!(block(&short, 0).starts_with("the report has "), "half of a document does not parse: {short:?}");
    let result = client.call("get_test_report", json!({"format": "json"})).await;
    let document: Value = serde_json::from_str(&block(&result, 0)).unwrap();
    assert_eq!(document, fake.state().document);
    let junit = client.call("get_test_report", json!({"format": "junit"})).await;
    assert_eq!(block(&junit, 0), "junit in at most 1048576 bytes");
    let structured = junit.structured_content.unwrap();
    assert_eq!(
        (&structured["format"], &structured["document"]),
        (&json!("junit"), &json!("junit in at most 1048576 bytes"))
    );
    let short = client.call("get_test_report", json!({"format": "html", "max_tokens": 1})).await;
    assert!(block(&short, 0).starts_with("the report has 29 bytes of html, more than max_tokens allows"), "{short:?}");
}

#[tokio::test]
async fn returns_a_picture_artifact_as_an_image() {
    let mut state = failed();
    let size = PICTURE.len();
    state.document["artifacts"] = json!([
        {"name": "0/shot.png", "kind": "screenshot", "bytes": size, "test": {"package": "a", "name": "greets"}},
        {"name": "0/cut.png", "kind": "screenshot", "bytes": size + 1},
    ]);
    let fake = FakeSupervisor::start(state);
    let client = Client::connected_to(&fake).await;
    let result = client.call("get_test_report", json!({"artifact": "0/shot.png"})).await;
    assert_eq!(block(&result, 0), format!("screenshot of greets: {size} bytes\n"));
    let image = result.content.last().and_then(|block| block.as_image()).unwrap();
    assert_eq!((image.mime_type.as_str(), image.data.as_str()), ("image/png", "iVBORw0KGgogYW5kIHNvIG9u"));
    assert!(result.structured_content.is_none(), "some clients would not show the picture beside it");
    let result = client.call("get_test_report", json!({"artifact": "0/cut.png"})).await;
    assert!(
        result.content.iter().all(|block| block.as_image().is_none()),
        "an incomplete picture must not be an image"
    );
}
