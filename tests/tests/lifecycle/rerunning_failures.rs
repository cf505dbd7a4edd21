//! Reruns of failed tests, through gRPC and the command line.

use proctor_proto::reason;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::{LastTestFailuresRequest, Outcome, Report, RunFailingTestsRequest};
use proctor_tests::expectation::Row;
use proctor_tests::expected::row;
use proctor_tests::grpc_client::Client;
use proctor_tests::supervisor_process::SupervisorProcess;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::json;
use std::collections::BTreeSet;
use tonic_types::StatusExt;

// All failed tests, and those that Go cannot leave out: a subtest whose name is a prefix of a failed one's, as `a/b` is of
// `a/b/c+`.
fn expected_rerun(row: &Row) -> BTreeSet<&str> {
    let failed = |nodeid: &str| row.tests.iter().any(|case| case.is_failure() && case.nodeid == nodeid);
    let is_prefix_of_failed = |nodeid: &str| {
        let mut failures = row.tests.iter().filter(|case| case.is_failure());
        failures.any(|case| case.nodeid.strip_prefix(nodeid).is_some_and(|rest| rest.starts_with('/')))
    };
    row.tests.iter().map(|case| case.nodeid).filter(|nodeid| failed(nodeid) || is_prefix_of_failed(nodeid)).collect()
}

async fn rerun(client: &Client, session_id: &str) -> Report {
    rerun_limited(client, session_id, 0).await
}

async fn rerun_limited(client: &Client, session_id: &str, limit: u32) -> Report {
    let session_id = session_id.to_owned();
    let request = RunFailingTestsRequest { session_id, limit, ..RunFailingTestsRequest::default() };
    let mut events = client.runs.clone().run_failing_tests(request).await.unwrap().into_inner();
    loop {
        let event = events.message().await.unwrap().unwrap();
        if let Some(proctor_proto::v1::run_event::Event::Finished(report)) = event.event {
            return report;
        }
    }
}

#[tokio::test]
async fn reruns_exactly_the_failed_tests() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    for name in ["fail", "table", "twomodules", "unicode", "shapes"] {
        let row = row(&format!("go/{name}"));
        let session = client.open_session(&supervisor.workspace("beta", name, row.fixture)).await;
        let first = client.run(&session).await;
        assert_eq!(first.report().exit_code, 1);
        let again = rerun(&client, &session).await;
        let ran: BTreeSet<&str> = again.tests.iter().map(|test| test.nodeid.as_str()).collect();
        assert_eq!(ran, expected_rerun(row), "{name}");
    }
}

#[tokio::test]
async fn reruns_only_the_package_that_failed_to_build() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let row = row("go/builderror");
    let workspace = supervisor.workspace("alpha", "shop", row.fixture);
    let session = client.open_session(&workspace).await;
    client.run(&session).await;
    let again = rerun(&client, &session).await;
    assert_eq!((again.collectors.len(), again.tests.len()), (1, 0), "{again:?}");
    std::fs::write(
        workspace.join("broken/broken.go"),
        "package broken\n\nfunc Count(names []string) int { return 0 }\n",
    )
    .unwrap();
    let repaired = rerun(&client, &session).await;
    let ran: BTreeSet<&str> = repaired.tests.iter().map(|test| test.nodeid.as_str()).collect();
    // The package that imports the broken one did not build either, so its tests had no result yet.
    let wanted = ["example.com/builderror/broken/TestCount", "example.com/builderror/user/TestUsers"];
    assert_eq!(ran, BTreeSet::from(wanted));
    let request = RunFailingTestsRequest { session_id: session.clone(), ..RunFailingTestsRequest::default() };
    let nothing = client.runs.clone().run_failing_tests(request).await.unwrap_err();
    let info = nothing.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.metadata["framework"].as_str()), (reason::NOTHING_TO_RERUN, "go"));
}

#[tokio::test]
async fn limited_rerun_keeps_the_rest_pending() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/table");
    let session = client.open_session(&workspace).await;
    client.run(&session).await;
    std::fs::write(
        workspace.join("table.go"),
        "package table\n\nfunc Abs(n int) int {\n\tif n < 0 {\n\t\treturn -n\n\t}\n\treturn n\n}\n",
    )
    .unwrap();
    let some = rerun_limited(&client, &session, 1).await;
    assert_eq!(some.outcome(), Outcome::Passed, "{some:?}");
    let notes = &some.evidence.as_ref().unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("2 more that failed before are not part of this run")), "{notes:?}");
    let request = LastTestFailuresRequest { session_id: session.clone(), limit: 0, offset: 0 };
    let last = client.results.clone().last_test_failures(request).await.unwrap().into_inner();
    assert_eq!((last.total, last.not_run.len()), (0, 2), "{last:?}");
    assert!(text::failures(&last, Reader::Agent).contains("\nnot run: example.com/table/TestAbs/"), "{last:?}");
    let rest = rerun(&client, &session).await;
    assert_eq!(rest.outcome(), Outcome::Passed, "{rest:?}");
    let ran = |report: &Report, name: &str| report.tests.iter().any(|test| test.name == name);
    assert!(["TestAbs/a/b/c+", "TestAbs/minus_one_(edge)"].iter().all(|name| ran(&rest, name) != ran(&some, name)));
    let request = RunFailingTestsRequest { session_id: session, ..RunFailingTestsRequest::default() };
    let nothing = client.runs.clone().run_failing_tests(request).await.unwrap_err();
    assert_eq!(nothing.get_details_error_info().unwrap().reason, reason::NOTHING_TO_RERUN);
}

/// The collection error kept the other tests from running, so their results are unknown and all of them run again.
#[test]
fn collection_error_reruns_all_tests_it_blocked() {
    let workspace = TestWorkspace::with_fixture("pytest/fail");
    workspace.write("test_broken.py", "import nothing_of_this_name\n");
    assert_eq!(workspace.proctor(&["run"]).status, 3);
    workspace.write("test_broken.py", "def test_holds():\n    pass\n");
    let again = workspace.proctor(&["run", "--failed", "--output", "json"]);
    assert_eq!((again.status, again.json()["outcome"].as_str()), (1, Some("failed")), "{again:?}");
}

/// A custom command runs as a whole; a test that it no longer reports is not waited for.
#[test]
fn reruns_a_custom_command_as_a_whole() {
    let workspace = TestWorkspace::empty();
    workspace.write(".proctor.yaml", "command: sh check.sh\n");
    workspace.write("check.sh", "echo 1..1; echo 'not ok 1 - adds'; exit 1\n");
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    let again = workspace.proctor(&["run", "--failed", "--output", "json"]);
    assert_eq!((again.status, again.json()["framework"].as_str()), (1, Some("custom")), "{again:?}");
    workspace.write("check.sh", "echo 1..1; echo 'ok 1 - sums'\n");
    let repaired = workspace.proctor(&["run", "--failed", "--output", "json"]);
    assert!(repaired.status == 0 && repaired.json()["evidence"]["not_run"].is_null(), "{repaired:?}");
}

#[test]
fn rerun_keeps_the_framework_of_the_failed_run() {
    let workspace = TestWorkspace::with_fixture("go/fail");
    workspace.write("Cargo.toml", "[package]\nname = \"both\"\nversion = \"0.1.0\"\n");
    assert_eq!(workspace.proctor(&["run"]).status, 2, "two frameworks and none selected");
    assert_eq!(workspace.proctor(&["run", "--file", "greet_test.go"]).status, 1);
    let again = workspace.proctor(&["run", "--failed", "--output", "json"]);
    assert_eq!((again.status, again.json()["framework"].as_str()), (1, Some("go")), "{again:?}");
}

#[test]
fn command_line_reruns_failures_of_an_earlier_process() {
    let workspace = TestWorkspace::with_fixture("go/table");
    let nothing = workspace.proctor(&["run", "--failed"]);
    assert_eq!(nothing.status, 2, "{nothing:?}");
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    let again = workspace.proctor(&["run", "--failed", "--output", "json"]);
    assert_eq!(again.status, 1);
    let report = again.json();
    let ran: BTreeSet<&str> =
        report["tests"].as_array().unwrap().iter().map(|test| test["nodeid"].as_str().unwrap()).collect();
    assert_eq!(ran, expected_rerun(row("go/table")));
    workspace
        .write("table.go", "package table\n\nfunc Abs(n int) int {\n\tif n < 0 {\n\t\treturn -n\n\t}\n\treturn n\n}\n");
    assert_eq!(workspace.proctor(&["run", "--failed"]).status, 0);
    let nothing = workspace.proctor(&["run", "--failed"]);
    assert_eq!((nothing.status, nothing.stdout.as_str()), (0, "last run had no failures — nothing to rerun (go)\n"));
    let nothing = workspace.proctor(&["run", "--failed", "--output", "json"]);
    let document = nothing.json();
    assert_eq!((nothing.status, &document["nothing_ran"]), (0, &json!("NOTHING_TO_RERUN")));
    assert_eq!((&document["outcome"], &document["summary"]["total"]), (&json!(null), &json!(0)));
    assert_eq!(document["evidence"]["notes"], json!(["last run had no failures — nothing to rerun (go)"]));
    for (key, value) in document.as_object().unwrap().iter().filter(|(key, _)| *key != "nothing_ran") {
        let regular = &report[key];
        let has_same_type = value.is_null() || std::mem::discriminant(value) == std::mem::discriminant(regular);
        assert!(has_same_type, "{key}: {value} and {regular}");
    }
}

#[tokio::test]
async fn reports_rerun_tests_without_a_result() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/notests");
    let test =
        |name: &str| format!("package notests\n\nimport \"testing\"\n\nfunc {name}(t *testing.T) {{ t.Fatal(1) }}\n");
    std::fs::write(workspace.join("one_test.go"), test("TestBefore")).unwrap();
    let session = client.open_session(&workspace).await;
    client.run(&session).await;
    std::fs::write(workspace.join("one_test.go"), test("TestAfter")).unwrap();
    let again = rerun(&client, &session).await;
    let failures = client.failures(&session).await;
    for not_run in [again.evidence.unwrap().not_run, failures.not_run] {
        assert_eq!(not_run.iter().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["TestBefore"]);
    }
}

#[test]
fn rerun_with_missing_results_does_not_pass() {
    let workspace = TestWorkspace::with_fixture("go/notests");
    let tests = |body: &str| format!("package notests\n\nimport \"testing\"\n\n{body}");
    let both = "func TestHere(t *testing.T) { t.Fatal(1) }\nfunc TestThere(t *testing.T) { t.Fatal(2) }\n";
    workspace.write("both_test.go", &tests(both));
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    // One test is repaired, the other renamed: Go exits with 0.
    workspace.write(
        "both_test.go",
        &tests("func TestHere(t *testing.T) {}\nfunc TestElsewhere(t *testing.T) { t.Fatal(2) }\n"),
    );
    let mut last = serde_json::Value::Null;
    for (outcome, status, ran) in [("failed", 1, 1), ("no_tests", 4, 0), ("no_tests", 4, 0)] {
        let again = workspace.proctor(&["run", "--failed", "--output", "json"]);
        last = again.json();
        assert_eq!((again.status, last["outcome"].as_str()), (status, Some(outcome)), "{again:?}");
        assert_eq!(last["tests"].as_array().unwrap().len(), ran);
        let notes = last["evidence"]["notes"].to_string();
        assert!(notes.contains("1 selected test(s) gave no result: ") && notes.contains("TestThere"), "{notes}");
    }
    assert_eq!(last["evidence"]["not_run"][0]["name"], "TestThere");
    let all = workspace.proctor(&["run", "--output", "json"]).json();
    assert_eq!((all["outcome"].as_str(), all["summary"]["failed"].as_u64()), (Some("failed"), Some(1)));
    workspace.write(
        "both_test.go",
        &tests(&both.replace("t.Fatal(1)", "").replace("t.Fatal(2)", "").replace("There", "Elsewhere")),
    );
    assert_eq!(workspace.proctor(&["run", "--failed"]).status, 0);
}

/// Python would reuse the bytecode of the first text, since size and modification time are the same.
#[test]
fn sees_an_edit_of_same_size_and_mtime_despite_bytecode() {
    for fixture in ["pytest/pass", "unittest/pass"] {
        let workspace = TestWorkspace::with_fixture(fixture);
        let file = workspace.path.join("calc/money.py");
        let text = std::fs::read_to_string(&file).unwrap();
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(workspace.proctor(&["run"]).status, 0, "{fixture}");
        let broken = text.replace("// 100", "// 101");
        assert_eq!((broken.len(), broken == text), (text.len(), false));
        std::fs::write(&file, broken).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        let output = workspace.proctor(&["run"]);
        assert_eq!(output.status, 1, "{fixture}: {output:?}");
    }
}

/// Long names are truncated, and tests that a `load_tests` function adds need not be in a test file.
#[test]
fn reruns_python_tests_with_truncated_names_or_foreign_files() {
    let long = "import pytest\n\n@pytest.mark.parametrize('word', ['k' * 6000])\ndef test_long(word):\n    assert 0\n";
    for (fixture, failed) in [("pytest/pass", 1), ("unittest/foreign_test_cases", 2)] {
        let workspace = TestWorkspace::with_fixture(fixture);
        if fixture == "pytest/pass" {
            workspace.write("tests/test_long.py", long);
        }
        assert_eq!(workspace.proctor(&["run"]).status, 1, "{fixture}");
        let again = workspace.proctor(&["run", "--failed", "--output", "json"]).json();
        let counts = ["total", "failed"].map(|count| again["summary"][count].as_u64());
        assert_eq!(counts, [Some(failed), Some(failed)], "{again}");
    }
}
