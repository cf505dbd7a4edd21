//! Repeated executions in one run, from the command line, over gRPC and over MCP: flaky tests are found with their
//! evidence, no failure becomes green, and one deadline, one cancellation and one event stream serve all executions.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_proto::v1::{self, run_event::Event};
use proctor_tests::call_counter::COUNTER;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree};
use serde_json::{Value, json};
use std::fs;

/// Five kinds of flaky tests, each failing in about half of its executions, beside sound and broken ones.
const FIVE_FLAKY: &str = "import os\nimport threading\nimport time\n\nfrom counter import calls\n\n\
    state = {'polluted': False}\n\n\
    def coin():\n    return os.urandom(1)[0] & 1\n\n\
    def test_polluter():\n    state['polluted'] = True\n\n\
    def test_order():\n    assert not state['polluted']\n\n\
    def test_time():\n    assert time.time_ns() // 1000 % 2\n\n\
    def test_race():\n    \
    order = []\n    \
    def worker(name, wait):\n        time.sleep(wait)\n        order.append(name)\n    \
    slow = coin()\n    \
    threads = [threading.Thread(target=worker, args=(n, 0.05 if n == slow else 0)) for n in (0, 1)]\n    \
    [t.start() for t in threads]\n    \
    [t.join() for t in threads]\n    \
    assert order == [0, 1]\n\n\
    def test_random():\n    assert coin()\n\n\
    def test_shared_file():\n    assert calls('shared') % 2\n\n\
    def test_sound():\n    pass\n\n\
    def test_broken():\n    assert False\n";

/// Shuffles the tests, as plugins for pytest do.
const SHUFFLE: &str = "import random\n\n\
    def pytest_collection_modifyitems(items):\n    random.SystemRandom().shuffle(items)\n";

fn workspace(tests: &str) -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("counter.py", COUNTER);
    workspace.write("test_shop.py", &format!("from counter import calls\n\n{tests}"));
    workspace
}

/// A test that fails at the given calls of it.
fn failing_at(name: &str, calls: &str) -> String {
    format!("def test_{name}():\n    assert calls('{name}') not in {calls}\n\n")
}

fn names(flaky: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        flaky.as_array().unwrap().iter().map(|flaky| flaky["test"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn finds_five_kinds_of_flaky_tests_and_no_other() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("counter.py", COUNTER);
    workspace.write("conftest.py", SHUFFLE);
    workspace.write("test_shop.py", FIVE_FLAKY);
    let run = workspace.proctor(&["run", "--repeat", "25", "--output", "json"]);
    assert_eq!(run.status, 1, "{run:?}");
    let report = run.json();
    let repetitions = &report["repetitions"];
    assert_eq!(
        names(&repetitions["flaky"]),
        ["test_order", "test_race", "test_random", "test_shared_file", "test_time"]
    );
    let counts = (&report["flaky_in_run"], &repetitions["executions"], &repetitions["failed"]);
    assert_eq!(counts, (&5.into(), &25.into(), &25.into()), "test_broken fails in each");
    // Each test counts once, by its worst result.
    let summary = (&report["summary"]["total"], &report["summary"]["failed"], &report["summary"]["passed"]);
    assert_eq!(summary, (&8.into(), &6.into(), &2.into()));
    for flaky in repetitions["flaky"].as_array().unwrap() {
        let number = |key: &str| flaky[key].as_f64().unwrap();
        assert_eq!(number("executions"), 25.0);
        assert!(number("rate_low") < number("rate") && number("rate") < number("rate_high"), "{flaky}");
    }
    let history = workspace.proctor(&["history", "--flaky", "--output", "json"]).json();
    assert_eq!(history["flaky"].as_array().unwrap().len(), 5, "a repeated run is enough for the history: {history}");
    assert_eq!(history["total_runs"], 1);
}

#[test]
fn ends_at_the_first_difference_if_asked_to() {
    let workspace = workspace(&(failing_at("rare", "{3}") + &failing_at("sound", "{}")));
    let run = workspace.proctor(&["run", "--repeat", "20", "--until-different"]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(
        run.stdout.contains("the repetition ended after 3 of 20 repetitions, at the first that differed"),
        "{run:?}"
    );
    assert!(run.stdout.contains("test_rare is flaky: it failed 1 of 3 executions (33 %"), "{run:?}");
    assert!(run.stdout.contains("✗ failed: 1 passed, 1 failed"), "{run:?}");
}

#[test]
fn all_repetitions_pass_or_the_run_failed() {
    let workspace = workspace(&failing_at("last", "{5}"));
    let four = workspace.proctor(&["run", "--repeat", "4"]);
    assert_eq!(four.status, 0, "{four:?}");
    let fifth = workspace.proctor(&["run", "--repeat", "3", "--output", "json"]);
    assert_eq!(fifth.status, 1, "{fifth:?}");
    let report = fifth.json();
    assert_eq!((&report["outcome"], &report["repetitions"]["failed"]), (&"failed".into(), &1.into()));
    assert_eq!(report["tests"][0]["outcome"], "failed");
}

#[test]
fn a_retry_finds_flaky_tests_and_makes_none_green() {
    let workspace = workspace(
        &(failing_at("flaky", "{1}")
            + &failing_at("sound", "{}")
            + "def test_broken():\n    assert calls('broken') < 0\n"),
    );
    let run = workspace.proctor(&["run", "--retry-failed", "2", "--output", "json"]);
    assert_eq!(run.status, 1, "{run:?}");
    let report = run.json();
    assert_eq!((&report["outcome"], &report["summary"]["failed"]), (&"failed".into(), &2.into()));
    let repetitions = &report["repetitions"];
    assert_eq!((&repetitions["executions"], &repetitions["retries"]), (&1.into(), &2.into()));
    assert_eq!(names(&repetitions["flaky"]), ["test_flaky"]);
    let count =
        |name: &str| fs::read_to_string(workspace.path.join("__pycache__").join(format!("{name}.count"))).unwrap();
    assert_eq!([count("sound"), count("flaky"), count("broken")], ["1", "2", "3"], "only what failed is retried");
    let failures = workspace.proctor(&["failures"]).stdout;
    assert!(failures.contains("test_flaky") && failures.contains("test_broken"), "{failures}");
}

#[test]
fn one_deadline_serves_all_repetitions() {
    let workspace = workspace("import time\n\ndef test_slow():\n    time.sleep(1)\n");
    let run = workspace.proctor(&["run", "--repeat", "1000", "--timeout", "8s", "--output", "json"]);
    assert_eq!(run.status, 124, "{run:?}");
    let report = run.json();
    let executions = report["repetitions"]["executions"].as_u64().unwrap();
    assert!((1..=8).contains(&executions) && report["partial"] == true, "{report}");
    assert_eq!(report["repetitions"]["flaky"], json!([]), "a test that was cut off is not flaky");
}

#[test]
fn the_project_file_retries_a_run_of_tests_and_no_rerun() {
    let workspace = workspace(&(failing_at("first", "(1,)") + "def test_broken():\n    assert False\n"));
    workspace.write(".proctor.yaml", "retries: 2\n");
    let run = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!(run.status, 1, "{run:?}");
    let repetitions = &run.json()["repetitions"];
    assert_eq!((&repetitions["retries"], &repetitions["flaky"][0]["test"]["name"]), (&2.into(), &"test_first".into()));
    let again = workspace.proctor(&["run", "--failed", "--output", "json"]);
    assert_eq!((again.status, &again.json()["repetitions"]), (1, &Value::Null), "{again:?}");
}

#[test]
fn quarantine_marks_failures_and_changes_no_outcome() {
    let workspace = workspace("def test_known():\n    assert False\n\ndef test_sound():\n    pass\n");
    workspace.write(".proctor.yaml", "quarantine:\n  - test_known\n  - test_gone\n");
    let run = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!(run.status, 1, "{run:?}");
    let report = run.json();
    assert_eq!((&report["outcome"], &report["quarantined"]["total"]), (&"failed".into(), &1.into()));
    assert_eq!(report["quarantined"]["tests"][0]["name"], "test_known");
    let text = workspace.proctor(&["run"]).stdout;
    assert!(
        text.contains("1 failed test(s) are in quarantine, and the outcome counts them: test_shop.py/test_known"),
        "{text}"
    );
    assert!(text.contains("the quarantine names 1 test(s) that this run does not have: test_gone"), "{text}");
    workspace.write(".proctor.yaml", "quarantine:\n  - ''\n");
    let refused = workspace.proctor(&["run"]);
    assert!(refused.status == 2 && refused.stderr.contains("has an empty name"), "{refused:?}");
}

#[tokio::test]
async fn one_event_stream_has_all_executions_and_a_cancellation_ends_them() {
    let supervisor = SupervisorProcess::start();
    let tenant = TENANTS[0];
    let workspace = supervisor.empty_workspace(tenant, "shop");
    fs::write(workspace.join("requirements.txt"), "pytest\n").unwrap();
    fs::write(workspace.join("counter.py"), COUNTER).unwrap();
    fs::write(workspace.join("test_shop.py"), format!("from counter import calls\n\n{}", failing_at("rare", "{2}")))
        .unwrap();
    chown_tree(&workspace, first_uid(tenant));
    let client = supervisor.client(tenant).await;
    let session = client.open_session(&workspace).await;
    let request = |repeat: u32| v1::RunTestsRequest { session_id: session.clone(), repeat, ..Default::default() };
    let run = client.start(request(3)).await.unwrap().read_to_end().await;
    run.assert_numbered_from(0);
    let count =
        |wanted: fn(&Event) -> bool| run.events.iter().filter(|event| event.event.as_ref().is_some_and(wanted)).count();
    assert_eq!(count(|event| matches!(event, Event::Started(_))), 1);
    assert_eq!(count(|event| matches!(event, Event::TestFinished(_))), 3);
    let report = run.report();
    let repetitions = report.repetitions.clone().unwrap();
    assert_eq!((report.outcome(), report.flaky_in_run), (v1::Outcome::Failed, 1));
    assert_eq!((repetitions.requested, repetitions.executions, repetitions.failed), (3, 3, 1));
    assert_eq!((repetitions.flaky[0].first_failure, repetitions.flaky[0].failures), (2, 1));

    fs::write(workspace.join("test_shop.py"), "import time\n\ndef test_long():\n    time.sleep(0.5)\n").unwrap();
    chown_tree(&workspace, first_uid(tenant));
    let mut stream = client.start(request(1_000)).await.unwrap();
    let run_id = stream.wait_for_event("a finished test", |event| matches!(event, Event::TestFinished(_))).await.run_id;
    client.runs.clone().cancel_run(v1::CancelRunRequest { run_id }).await.unwrap();
    let cancelled = stream.read_to_end().await;
    cancelled.assert_numbered_from(0);
    assert_eq!(cancelled.report().outcome(), v1::Outcome::Cancelled);
    assert!(cancelled.report().repetitions.clone().unwrap().executions < 1_000);
}

#[tokio::test]
async fn an_agent_repeats_tests_and_reads_which_are_flaky() {
    let workspace = workspace(&failing_at("rare", "{2}"));
    let mcp = Mcp::start(&workspace).await;
    let answer = mcp.call("run_tests", json!({"repeat": 3})).await;
    let sentence = "test_rare is flaky: it failed 1 of 3 executions (33 %";
    assert!(answer.text.contains(sentence), "{}", answer.text);
    assert!(answer.structured.to_string().contains(sentence), "{}", answer.structured);
    mcp.close().await;
}

#[test]
fn failed_tests_are_retried_after_a_repetition_that_ended_at_a_difference() {
    let tests = [failing_at("rare", "{2}"), failing_at("first", "{1, 2}")].concat();
    let workspace = workspace(&tests);
    let options = ["run", "--repeat", "5", "--until-different", "--retry-failed", "2", "--output", "json"];
    let run = workspace.proctor(&options);
    assert_eq!(run.status, 1, "{run:?}");
    let repetitions = run.json()["repetitions"].clone();
    assert_eq!((&repetitions["executions"], &repetitions["retries"]), (&json!(2), &json!(1)), "{repetitions}");
    assert_eq!(names(&repetitions["flaky"]), ["test_first", "test_rare"], "{repetitions}");
}
