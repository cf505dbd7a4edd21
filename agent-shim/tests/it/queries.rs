//! Calls that run no tests: failures, coverage, lists.

use crate::client::{Client, block, structured};
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use proctor_proto::analysis_text;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::*;
use rmcp::model::ReadResourceRequestParams;
use serde_json::json;

fn test(package: &str, name: &str) -> TestId {
    TestId { package: package.into(), name: name.into() }
}

#[tokio::test]
async fn a_client_lists_the_tools_with_their_schemas() {
    let client = Client::connected_to(&FakeSupervisor::start(FakeState::default())).await;
    let names: Vec<String> = client.tools().await.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "run_tests",
            "last_test_failures",
            "analyze_failures",
            "run_failing_tests",
            "run_affected_tests",
            "run_lint",
            "run_typecheck",
            "tests_covering",
            "list_tests",
            "get_run",
            "get_test_report"
        ]
    );
    let tools = client.tools().await;
    assert!(tools.iter().all(|tool| tool.annotations.is_some()));
    // A picture has no structured content, so the tool that shows pictures promises none.
    assert!(tools.iter().all(|tool| tool.output_schema.is_some() != (tool.name == "get_test_report")));
}

#[tokio::test]
async fn failures_have_the_text_of_the_contract() {
    let failures = LastTestFailuresResponse {
        has_run: true,
        framework: "go".into(),
        structured: true,
        outcome: Outcome::Failed.into(),
        age_ms: 3_000,
        total: 1,
        failures: vec![Failure {
            nodeid: "a/TestB".into(),
            test: Some(test("a", "TestB")),
            file: Some("a/b_test.go".into()),
            line: Some(87),
            message: "mismatch".into(),
            expected: Some("3".into()),
            actual: Some("5".into()),
            ..Failure::default()
        }],
        since_last_run: Some(SinceLastRun {
            new: Some(TestGroup { total: 1, ..TestGroup::default() }),
            fixed: Some(TestGroup { total: 2, ..TestGroup::default() }),
            ..SinceLastRun::default()
        }),
        since_last_green: Some(SinceLastGreen { runs: 3, ..SinceLastGreen::default() }),
        ..LastTestFailuresResponse::default()
    };
    let fake = FakeSupervisor::start(FakeState { failures: failures.clone(), ..FakeState::default() });
    let client = Client::connected_to(&fake).await;
    let result = client.call("last_test_failures", json!({"limit": 9999})).await;
    assert_eq!(block(&result, 0), text::failures(&failures, Reader::Agent));
    let changes = "compared with each test's last result: 1 new, 2 fixed; all passed 3 runs ago";
    let notes = format!("{changes}\nlimit was clamped from 9999 to 500.\nnext: run_failing_tests after a fix");
    assert_eq!(block(&result, 1), notes);
    assert_eq!(fake.state().failures_requests[0].limit, 500);
    let data = structured(&client, "last_test_failures", &result).await;
    let failure =
        json!({"name": "a/TestB", "at": "a/b_test.go:87", "message": "mismatch", "expected": "3", "actual": "5"});
    assert_eq!(data["failures"], json!([failure]));
    assert_eq!((&data["outcome"], &data["total"]), (&json!("failed"), &json!(1)));
    assert_eq!(data["headline"], "1 test failure(s) from last run_tests call (go, 3s ago)");
}

fn many_failures(total: u64) -> LastTestFailuresResponse {
    let failure = |number: u64| Failure {
        nodeid: format!("a/Test{number}"),
        test: Some(test("a", &format!("Test{number}"))),
        file: Some("a/b_test.go".into()),
        line: u32::try_from(number + 7).ok(),
        message: format!("case {number} is wrong: {}", "x".repeat(300)),
        ..Failure::default()
    };
    let failures: Vec<Failure> = (0..total).map(failure).collect();
    let failed = Outcome::Failed.into();
    LastTestFailuresResponse {
        has_run: true,
        run_id: crate::fake_supervisor::RUN_ID.into(),
        structured: true,
        outcome: failed,
        total,
        failures,
        ..LastTestFailuresResponse::default()
    }
}

#[tokio::test]
async fn running_tests_take_no_room_from_failures() {
    let running: Vec<TestId> = (0..60).map(|n| test("a/package/with/a/long/name", &format!("TestRuns{n}"))).collect();
    let failures = LastTestFailuresResponse { running, outcome: Outcome::TimedOut.into(), ..many_failures(3) };
    let fake = FakeSupervisor::start(FakeState { failures, ..FakeState::default() });
    let client = Client::connected_to(&fake).await;
    let mut seen = Vec::new();
    let mut cursor = 0;
    while seen.len() < 3 {
        let result = client.call("last_test_failures", json!({"max_tokens": 300, "cursor": cursor})).await;
        let data = structured(&client, "last_test_failures", &result).await;
        let listed = data["failures"].as_array().into_iter().flatten().filter(|failure| failure["kind"].is_null());
        let named = data["named"].as_array().into_iter().flatten().flat_map(|group| group["names"].as_array().unwrap());
        let shown: Vec<String> =
            listed.map(|failure| failure["name"].to_string()).chain(named.map(json_text)).collect();
        assert!(!shown.is_empty(), "a page has at least one failure: {data}");
        cursor += shown.len();
        seen.extend(shown);
    }
    let largest = client.call("last_test_failures", json!({"cursor": u64::MAX})).await;
    assert!(block(&largest, 1).contains("nothing is at cursor"), "{largest:?}");
}

fn json_text(value: &serde_json::Value) -> String {
    value.to_string()
}

#[tokio::test]
async fn a_page_of_failures_names_many_and_the_call_for_the_next_page() {
    let fake = FakeSupervisor::start(FakeState { failures: many_failures(300), ..FakeState::default() });
    let client = Client::connected_to(&fake).await;
    let result = client.call("last_test_failures", json!({"limit": 500})).await;
    let data = structured(&client, "last_test_failures", &result).await;
    let (explained, named) = (data["failures"].as_array().unwrap(), data["named"][0]["names"].as_array().unwrap());
    let shown = explained.len() + named.len();
    assert!(explained.len() >= 3 && shown > 150, "{} and {}", explained.len(), named.len());
    assert_eq!(data["named"][0]["names"][0], format!("Test{}", explained.len()));
    assert_eq!(data["named"][0]["lines"][0], explained.len() + 7);
    let run_id = crate::fake_supervisor::RUN_ID;
    let next = format!("last_test_failures {{\"run_id\":\"{run_id}\",\"cursor\":{shown},\"limit\":500}} lists");
    assert!(data["next"].as_str().unwrap().starts_with(&next), "{data}");
    let more = format!("({} more entries truncated; pass a larger max_tokens to see them)\n", 300 - shown);
    assert!(block(&result, 0).ends_with(&more), "{result:?}");

    let rest = client.call("last_test_failures", json!({"run_id": run_id, "cursor": 298})).await;
    assert!(block(&rest, 0).contains("\n299. a/Test298\n") && !block(&rest, 0).contains("more entries"), "{rest:?}");
    let beyond = client.call("last_test_failures", json!({"cursor": 300})).await;
    assert!(block(&beyond, 1).contains("nothing is at cursor 300: there are 300 failures"), "{beyond:?}");
    fake.state().failures.total = 12_000;
    let lost = client.call("last_test_failures", json!({"cursor": 300})).await;
    assert!(block(&lost, 1).contains("failures beyond the first 300 were counted and not kept"), "{lost:?}");
    let other = client.call("last_test_failures", json!({"run_id": "another"})).await;
    assert!(block(&other, 0).contains("run \"another\" is not the last one that has ended"), "{other:?}");
}

fn analysis_of(patterns: u32) -> AnalyzeFailuresResponse {
    let place = |number: u32| {
        Some(FailurePlace { test: format!("a/Test{number}"), file: Some("a/b.go".into()), line: Some(number + 1) })
    };
    let pattern = |number: u32| ErrorPattern {
        r#type: "assertion".into(),
        message: format!("got {number}, {}", "want more ".repeat(40)),
        frequency: 1,
        test_names: vec![format!("a/Test{number}")],
        evidence: place(number),
        confidence: Confidence::Likely.into(),
        ..ErrorPattern::default()
    };
    AnalyzeFailuresResponse {
        run_id: "r1".into(),
        framework: "go".into(),
        outcome: Outcome::Failed.into(),
        total: patterns.into(),
        analyzed: patterns.into(),
        root_cause: Some(RootCause {
            r#type: "network_refused".into(),
            statement: "the sandbox gives the run no network".into(),
            confidence: Confidence::Certain.into(),
            evidence: place(0),
            failures: 1,
            is_sandbox: true,
            ..RootCause::default()
        }),
        error_patterns: (0..patterns).map(pattern).collect(),
        ..AnalyzeFailuresResponse::default()
    }
}

#[tokio::test]
async fn an_analysis_has_the_same_root_in_text_and_structure_at_every_budget() {
    let analysis = analysis_of(300);
    let fake = FakeSupervisor::start(FakeState { analysis: analysis.clone(), ..FakeState::default() });
    let client = Client::connected_to(&fake).await;
    let whole = client.call("analyze_failures", json!({"max_tokens": 1_000_000})).await;
    assert_eq!(block(&whole, 0), analysis_text::analysis(&analysis));
    for max_tokens in [300, 2_000, 20_000] {
        let result = client.call("analyze_failures", json!({"max_tokens": max_tokens})).await;
        let data = structured(&client, "analyze_failures", &result).await;
        let shown = data["error_patterns"].as_array().unwrap().len();
        let left_out = data["patterns_left_out"].as_u64().unwrap_or_default();
        assert_eq!(shown as u64 + left_out, 300, "{max_tokens}: none is lost without a number");
        let bytes = block(&result, 0).len() + block(&result, 1).len() + data.to_string().len();
        assert!(bytes <= 4 * max_tokens, "{max_tokens}: {bytes}");
        assert!(
            block(&result, 0).contains("look first (certain): the sandbox gives the run no network\n"),
            "{result:?}"
        );
        let root = &data["root_cause"];
        assert_eq!((&root["at"], &root["sandbox"]), (&json!("a/b.go:1"), &json!(true)));
    }
}

#[tokio::test]
async fn an_analysis_counts_what_its_budget_leaves_out() {
    let long = "name ".repeat(400);
    let place = || Some(FailurePlace { test: long.clone(), file: Some("a/b.go".into()), line: Some(1) });
    let cause = || RootCause { statement: long.clone(), evidence: place(), ..RootCause::default() };
    let suggestion =
        |number| Suggestion { text: format!("{number} {long}"), evidence: place(), ..Suggestion::default() };
    let file = |number| AffectedFile { path: format!("a/{number}.go"), failures: 1, ..AffectedFile::default() };
    let changed =
        |number| ChangedFile { path: format!("a/{number}.go"), change: "changed".into(), ..ChangedFile::default() };
    let analysis = AnalyzeFailuresResponse {
        root_cause: Some(cause()),
        further_causes: vec![cause(), cause(), cause()],
        notes: vec![long.clone()],
        suggestions: (0..30).map(suggestion).collect(),
        affected_files: (0..30).map(file).collect(),
        changed_files: Some(ChangedFiles {
            since: "0123abc".into(),
            files: (0..30).map(changed).collect(),
            ..Default::default()
        }),
        failed_tests: (0..30).map(|_| FailedTest { place: place(), r#type: "assertion".into() }).collect(),
        ..analysis_of(30)
    };
    let fake = FakeSupervisor::start(FakeState { analysis, ..FakeState::default() });
    let client = Client::connected_to(&fake).await;
    for max_tokens in [800, 2_000, 8_000, 1_000_000] {
        let result = client.call("analyze_failures", json!({"max_tokens": max_tokens, "since": "HEAD~1"})).await;
        let data = structured(&client, "analyze_failures", &result).await;
        let bytes = block(&result, 0).len() + block(&result, 1).len() + data.to_string().len();
        assert!(bytes <= 4 * max_tokens, "{max_tokens}: {bytes}");
        let left_out = |name: &str| data["left_out"][name].as_u64().unwrap_or_default();
        let shown = |list: &serde_json::Value| list.as_array().map_or(0, Vec::len) as u64;
        for (name, total) in [("further_causes", 3), ("suggestions", 30), ("affected_files", 30), ("failed_tests", 30)]
        {
            assert_eq!(shown(&data[name]) + left_out(name), total, "{max_tokens}: {name}");
            if left_out(name) > 0 {
                let counted = format!("{} more {}", left_out(name), name.replace('_', " "));
                assert!(block(&result, 0).contains(&counted), "{max_tokens}: {counted}: {result:?}");
            }
        }
        assert_eq!(shown(&data["changed_files"]["files"]) + left_out("changed_files"), 30, "{max_tokens}");
    }
    assert_eq!(fake.state().analysis_requests[0].since, "HEAD~1");
}

#[tokio::test]
async fn no_run_yet_is_an_answer() {
    let client = Client::connected_to(&FakeSupervisor::start(FakeState::default())).await;
    let result = client.call("last_test_failures", json!({})).await;
    assert_eq!(block(&result, 0), text::NO_RUN_YET);
    assert_eq!(structured(&client, "last_test_failures", &result).await["nothing_ran"], "NO_RUN_YET");
    let result = client.call("get_run", json!({})).await;
    assert_eq!(block(&result, 0), text::NO_RUN_YET);
    assert_eq!(structured(&client, "get_run", &result).await["state"], "none");
}

#[tokio::test]
async fn covering_tests_for_a_relative_or_an_absolute_path() {
    let covering = TestsCoveringResponse {
        has_coverage: true,
        tests: vec![test("a", "TestB")],
        total: 1,
        attribution: Attribution::Package.into(),
        ..TestsCoveringResponse::default()
    };
    let fake = FakeSupervisor::start(FakeState { covering: covering.clone(), ..FakeState::default() });
    let client = Client::connected_to(&fake).await;
    let absolute = client.root().canonicalize().unwrap().join("a/b.go");
    let result = client.call("tests_covering", json!({"file": absolute, "line": "42"})).await;
    // The line is known although this supervisor, of an earlier version, does not repeat it.
    let range = Some(LineRange { first_line: 42, last_line: 42 });
    let expected = TestsCoveringResponse { range, ..covering };
    assert_eq!(block(&result, 0), text::covering(&expected, "a/b.go", Reader::Agent));
    let data = structured(&client, "tests_covering", &result).await;
    assert_eq!((&data["attribution"], &data["total"]), (&json!("package"), &json!(1)));
    assert_eq!(fake.state().covering_requests[0].file, "a/b.go");
}

#[tokio::test]
async fn names_the_frameworks_with_coverage_if_none_was_measured() {
    let client = Client::connected_to(&FakeSupervisor::start(FakeState::default())).await;
    let result = client.call("tests_covering", json!({"file": "a.py"})).await;
    assert_eq!(block(&result, 0), text::NO_COVERAGE_YET);
    assert!(
        block(&result, 1)
            .ends_with("in this version coverage is measured for Go, Python, Rust, Jest, Vitest, Mocha and Node only"),
        "{result:?}"
    );
}

#[tokio::test]
async fn lists_tests() {
    let test_list = ListTestsResponse {
        framework: "go".into(),
        tests: vec![test("a", "TestA"), test("a", "TestB")],
        ..ListTestsResponse::default()
    };
    let client = Client::connected_to(&FakeSupervisor::start(FakeState {
        test_list: test_list.clone(),
        ..FakeState::default()
    }))
    .await;
    let result = client.call("list_tests", json!({})).await;
    assert_eq!(block(&result, 0), text::test_list(&test_list));
    assert_eq!(
        structured(&client, "list_tests", &result).await["tests"][0],
        json!({"package": "a", "names": ["TestA", "TestB"]})
    );
}

#[tokio::test]
async fn bulk_is_read_as_resources_of_the_run() {
    let fake = FakeSupervisor::start(crate::runs::failed());
    let client = Client::connected_to(&fake).await;
    assert_eq!(client.service().list_all_resources().await.unwrap(), [], "listing starts nothing");
    client.call("run_tests", json!({})).await;
    let uris: Vec<String> =
        client.service().list_all_resources().await.unwrap().into_iter().map(|one| one.uri).collect();
    let of_run = |part: &str| format!("proctor://runs/{}/{part}", crate::fake_supervisor::RUN_ID);
    let formats = ["junit", "ctrf", "tap", "github", "html", "optimization"];
    let parts = ["report", "stdout", "stderr"].into_iter().chain(formats);
    assert_eq!(uris, parts.map(of_run).collect::<Vec<_>>());
    assert_eq!(client.service().list_all_resource_templates().await.unwrap().len(), 4 + formats.len());
    let text = async |uri: &str| {
        let contents = client.service().read_resource(ReadResourceRequestParams::new(uri)).await.unwrap().contents;
        serde_json::to_value(&contents[0]).unwrap()["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(text(&of_run("stdout")).await, "ok\n\x1b[31mFAIL\x1b[0m\n");
    assert_eq!(text(&of_run("stderr")).await, "warning");
    let report: serde_json::Value = serde_json::from_str(&text(&of_run("report")).await).unwrap();
    assert_eq!(report["outcome"], "failed");
    for format in formats {
        assert_eq!(text(&of_run(format)).await, format!("{format} in at most 4194304 bytes"));
    }
    let shot = client.service().read_resource(ReadResourceRequestParams::new(of_run("artifacts/0/shot.png"))).await;
    let shot = serde_json::to_value(&shot.unwrap().contents[0]).unwrap();
    assert_eq!(shot["blob"], "iVBORw0KGgogYW5kIHNvIG9u");
    for uri in ["proctor://runs/x", "file:///etc/passwd"] {
        assert!(client.service().read_resource(ReadResourceRequestParams::new(uri)).await.is_err(), "{uri}");
    }
    let templates = client.service().list_all_resource_templates().await.unwrap();
    assert!(templates.iter().any(|one| one.uri_template.ends_with("/artifacts/{+name}")), "names hold slashes");
    fake.crash();
    let lost = client.service().read_resource(ReadResourceRequestParams::new(of_run("stdout"))).await.unwrap_err();
    let rmcp::ServiceError::McpError(lost) = lost else { panic!("{lost}") };
    assert_eq!((lost.code.0, lost.data.unwrap()["reason"].clone()), (-32003, json!("SUPERVISOR_LOST")));
}
