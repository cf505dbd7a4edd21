//! Each format of the command line against a reader of others.

use crate::readers;
use crate::stored_report::{HOSTILE, change, set_tests, test, workspace};
use proctor_proto::report_format::ReportFormat;
use proctor_tests::process::ProcessOutput;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::fs;

#[test]
fn the_json_report_is_what_the_pytest_plugin_writes_of_the_same_tests() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write(
        "test_shop.py",
        "import pytest\n\n\
         def test_total():\n    total = 1\n    assert total == 2\n\n\
         def test_raises():\n    raise ValueError('no price')\n\n\
         def test_passes():\n    pass\n\n\
         @pytest.mark.skip(reason='later')\ndef test_skipped():\n    pass\n\n\
         @pytest.mark.xfail\ndef test_expected():\n    assert False\n\n\
         @pytest.fixture\ndef broken():\n    raise RuntimeError('no database')\n\n\
         def test_error(broken):\n    pass\n",
    );
    let ours = workspace.path.join("ours.json");
    let run = workspace.proctor(&["run", "--output", "json", "--json", "ours.json"]);
    assert_eq!(run.status, 1, "{run:?}");
    assert_eq!(run.json(), serde_json::from_slice::<Value>(&fs::read(&ours).unwrap()).unwrap());
    let theirs = workspace.root().join("theirs.json");
    readers::pytest_json_report(&workspace.path, &theirs);
    let lacking = readers::python("pytest_json_reader.py", &[&ours, &theirs]);
    // Where a test begins, its keywords, and the phases around it: runners do not tell.
    let unknown =
        ["call.traceback", "report.environment", "test.keywords", "test.lineno", "test.setup", "test.teardown"];
    let lacking: Vec<&str> = lacking.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(lacking.iter().all(|name| unknown.contains(name)), "{lacking:?}");
}

#[test]
fn every_format_is_written_beside_what_is_printed() {
    let workspace = workspace();
    let mut arguments = vec!["run".to_owned()];
    for format in ReportFormat::ALL {
        arguments.extend([format!("--{}", format.name()), format!("reports/{}.out", format.name())]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let run = workspace.proctor(&arguments);
    assert!(run.status == 1 && run.stdout.contains("✗ failed: 1 passed, 1 failed"), "{run:?}");
    for format in ReportFormat::ALL {
        let file = workspace.path.join("reports").join(format!("{}.out", format.name()));
        let written = fs::read_to_string(file).unwrap();
        assert!(written.contains("test_a"), "{}: {written}", format.name());
        let printed = workspace.proctor(&["report", "--format", format.name()]);
        assert!(printed.status == 0 && printed.stdout.contains("test_a"), "{}: {printed:?}", format.name());
        let out = format!("again/{}", format.name());
        assert_eq!(workspace.proctor(&["report", "--format", format.name(), "--out", &out]).status, 0);
        assert!(workspace.path.join(out).is_file());
    }
    let unwritable = workspace.proctor(&["run", "--junit", "test_shop.py/junit.xml"]);
    assert!(unwritable.status == 5 && unwritable.stderr.contains("--junit test_shop.py/junit.xml: "), "{unwritable:?}");
    assert!(unwritable.stdout.contains("✗ failed"), "the run is printed nevertheless: {unwritable:?}");
}

#[test]
fn events_are_one_object_a_line_and_end_with_the_report() {
    let workspace = workspace();
    let run = workspace.proctor(&["run", "--output", "events"]);
    assert_eq!(run.status, 1, "{run:?}");
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence"], number, "{event}");
    }
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    assert_eq!((of("started").len(), of("test_finished").len()), (1, 2), "{}", run.stdout);
    assert!(of("output").iter().any(|event| event["text"].as_str().unwrap().contains("test_shop.py")));
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["report"]["outcome"]), (&json!("finished"), &json!("failed")));
}

fn hostile_tests() -> Vec<Value> {
    ["failed", "error", "skipped", "xfailed", "passed", "xpassed"]
        .iter()
        .map(|outcome| {
            let mut test = test(HOSTILE, &format!("{outcome} {HOSTILE}"), outcome);
            for field in ["message", "expected", "stack", "output"] {
                test[field] = HOSTILE.into();
            }
            test["actual"] = "other".into();
            (test["file"], test["line"]) = (format!("a,b:{HOSTILE}").into(), 7.into());
            test
        })
        .collect()
}

#[test]
fn two_readers_of_junit_agree_on_a_hostile_report() {
    let workspace = workspace();
    change(&workspace, |report| set_tests(report, hostile_tests()));
    assert_eq!(workspace.proctor(&["report", "--format", "junit", "--out", "junit.xml"]).status, 0);
    let file = workspace.path.join("junit.xml");
    let by_python = readers::python("junit_reader.py", &[&file]);
    let counts = ["tests", "failures", "errors", "skipped"].map(|name| by_python[name].as_u64().unwrap());
    assert_eq!(counts, [6, 1, 1, 2], "{by_python}");
    let results: Vec<&str> =
        by_python["cases"].as_array().unwrap().iter().map(|case| case["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["failure", "error", "skipped", "skipped", "passed", "passed"]);
    let first = &by_python["cases"][0];
    let name = "failed ]]></failure><b>&\\u{0}\\u{1b}[31mred\\u{202e}evil\\u{fffe}</script>";
    assert!(first["name"].as_str().unwrap().starts_with(name), "{first}");
    assert!(first["text"].as_str().unwrap().contains("&\\u{0}red\\u{202e}evil\\u{fffe}</script><script>"), "{first}");
    let by_javascript = readers::javascript("junit", &file);
    let suites = by_javascript["testsuite"].as_array().unwrap();
    let cases = suites[0]["testcase"].as_array().unwrap();
    assert_eq!(cases.len(), 6, "{by_javascript}");
    for (a, b) in cases.iter().zip(by_python["cases"].as_array().unwrap()) {
        assert_eq!((&a["name"], &a["classname"]), (&b["name"], &b["classname"]));
    }
    let run = suites.last().unwrap();
    assert_eq!((&run["name"], &run["properties"]["property"][0]["value"]), (&json!("proctor"), &json!("failed")));
}

#[test]
fn the_validator_of_ctrf_accepts_a_hostile_report() {
    let workspace = workspace();
    change(&workspace, |report| set_tests(report, hostile_tests()));
    assert_eq!(workspace.proctor(&["report", "--format", "ctrf", "--out", "ctrf.json"]).status, 0);
    let results = readers::javascript("ctrf", &workspace.path.join("ctrf.json"));
    let summary = ["tests", "passed", "failed", "skipped", "pending", "other"].map(|name| &results["summary"][name]);
    assert_eq!(summary, [6, 1, 2, 1, 0, 2], "{results}");
    assert_eq!(results["tests"][0]["suite"][0], HOSTILE, "JSON holds every character");
}

#[test]
fn a_reader_of_tap_finds_each_test_of_a_hostile_report_once() {
    let workspace = workspace();
    change(&workspace, |report| set_tests(report, hostile_tests()));
    assert_eq!(workspace.proctor(&["report", "--format", "tap", "--out", "report.tap"]).status, 0);
    let results = readers::javascript("tap", &workspace.path.join("report.tap"));
    let counts = ["count", "pass", "fail", "skip", "todo"].map(|name| results[name].as_u64().unwrap());
    assert_eq!(counts, [6, 3, 3, 1, 2], "{results}");
    assert_eq!(results["ok"], false);
    let failures = results["failures"].as_array().unwrap();
    let messages: Vec<&Value> = failures.iter().filter_map(|failure| failure["diag"].get("message")).collect();
    assert_eq!(messages.len(), 2, "{results}");
    assert!(messages[0].as_str().unwrap().contains("\\u{0}red\\u{202e}evil"), "{messages:?}");
    assert_eq!(results["extra"], json!([]), "no line is outside of the protocol");
}

/// Runs the tests with these options and writes every format that other programs read.
fn run_with_formats(workspace: &TestWorkspace, options: &[&str]) -> ProcessOutput {
    let formats = ["--junit", "junit.xml", "--ctrf", "ctrf.json", "--tap", "report.tap", "--output", "github"];
    workspace.proctor(&[&["run"], options, &formats].concat())
}

#[test]
fn a_run_that_was_cut_off_is_red_for_every_reader() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace
        .write("test_shop.py", "import time\n\ndef test_a():\n    pass\n\ndef test_hangs():\n    time.sleep(600)\n");
    let run = run_with_formats(&workspace, &["--timeout", "5s"]);
    assert_eq!(run.status, 124, "{run:?}");
    assert!(run.stdout.starts_with("::error title=proctor::timed out: 1 of 1 tests passed, cut off"), "{run:?}");
    assert!(run.stdout.contains("was running when the run was cut off"), "{run:?}");
    let junit = readers::python("junit_reader.py", &[&workspace.path.join("junit.xml")]);
    assert_eq!((&junit["tests"], &junit["errors"]), (&json!(3), &json!(2)), "{junit}");
    let ctrf = readers::javascript("ctrf", &workspace.path.join("ctrf.json"));
    assert_eq!((&ctrf["summary"]["passed"], &ctrf["summary"]["failed"]), (&json!(1), &json!(2)), "{ctrf}");
    let tap = readers::javascript("tap", &workspace.path.join("report.tap"));
    assert_eq!((&tap["ok"], &tap["fail"]), (&json!(false), &json!(2)), "{tap}");
}

#[test]
fn every_format_marks_a_flaky_test_in_quarantine_and_keeps_it_red() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write(".proctor.yaml", "quarantine:\n  - test_turns\n");
    workspace.write(
        "test_shop.py",
        "import pathlib\n\ndef test_turns():\n    \
         file = pathlib.Path('__pycache__') / 'turns'\n    file.parent.mkdir(exist_ok=True)\n    \
         turns = len(file.read_text()) if file.exists() else 0\n    file.write_text('x' * (turns + 1))\n    \
         assert turns % 2, 'an even turn'\n\ndef test_broken():\n    assert False\n",
    );
    let run = run_with_formats(&workspace, &["--repeat", "3"]);
    assert_eq!(run.status, 1, "{run:?}");
    let marks = "(in quarantine) (flaky%3A failed 2 of 3 executions (67 %25%2C 95 %25 interval";
    assert!(run.stdout.contains(&format!("title=test_shop.py test_turns {marks}")), "{run:?}");
    let by_python = readers::python("junit_reader.py", &[&workspace.path.join("junit.xml")]);
    assert_eq!((&by_python["tests"], &by_python["failures"]), (&json!(2), &json!(2)), "{by_python}");
    let by_javascript = readers::javascript("junit", &workspace.path.join("junit.xml"));
    let cases = by_javascript["testsuite"][0]["testcase"].as_array().unwrap();
    let case = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    let turns = case("test_turns");
    assert_eq!(turns["flakyFailure"].as_array().map(Vec::len), Some(2), "{turns}");
    assert!(turns["failure"]["message"].as_str().unwrap().contains("an even turn"), "{turns}");
    let property = |name: &str| {
        let properties = turns["properties"]["property"].as_array().unwrap();
        properties.iter().find(|property| property["name"] == name).map(|property| &property["value"])
    };
    assert_eq!(property("proctor.quarantine"), Some(&json!("true")));
    assert_eq!(property("proctor.flaky"), Some(&json!("failed 2 of 3 executions")));
    let broken = case("test_broken");
    assert_eq!(broken["rerunFailure"].as_array().map(Vec::len), Some(2), "{broken}");
    let ctrf = readers::javascript("ctrf", &workspace.path.join("ctrf.json"));
    let test = ctrf["tests"].as_array().unwrap().iter().find(|test| test["name"] == "test_turns").unwrap();
    assert_eq!(
        (&test["flaky"], &test["tags"], &test["status"]),
        (&json!(true), &json!(["quarantined"]), &json!("failed"))
    );
    assert_eq!(test["extra"]["repetitions"], json!({"executions": 3, "failures": 2}));
    let tap = readers::javascript("tap", &workspace.path.join("report.tap"));
    let failures = tap["failures"].as_array().unwrap();
    let diag = failures.iter().map(|failure| &failure["diag"]).find(|diag| diag["quarantined"] == true).unwrap();
    assert_eq!(diag["flaky"], json!({"executions": 3, "failures": 2}), "{tap}");
    for format in ["html", "optimization"] {
        let text = workspace.proctor(&["report", "--format", format]).stdout;
        assert!(text.contains("in quarantine") && text.contains("flaky: failed 2 of 3 executions"), "{format}: {text}");
    }
}
