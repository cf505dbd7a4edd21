//! Findings in the formats of reports, each read by a program of others.

use crate::{check, readers, stand_in_for_ruff};
use proctor_proto::report_format::ReportFormat;
use proctor_tests::process::ProcessOutput;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::fs;

/// Checks the workspace, prints annotations, and writes every format to a file with its name.
fn check_with_files(workspace: &TestWorkspace) -> ProcessOutput {
    let files: Vec<String> = ReportFormat::OF_CHECKS
        .iter()
        .flat_map(|format| [format!("--{}", format.name()), format!("reports/report.{}", format.name())])
        .collect();
    let mut arguments = vec!["--output", "github"];
    arguments.extend(files.iter().map(String::as_str));
    check(workspace, &arguments)
}

/// What the readers find in the files.
struct Documents {
    /// By junitparser and by fast-xml-parser.
    junit: [Value; 2],
    ctrf: Value,
    tap: Value,
    json: Value,
}

impl Documents {
    fn read(workspace: &TestWorkspace) -> Documents {
        let file = |format: ReportFormat| workspace.path.join(format!("reports/report.{}", format.name()));
        let junit = file(ReportFormat::Junit);
        Documents {
            junit: [readers::python("junit_reader.py", &[&junit]), readers::javascript("junit", &junit)],
            ctrf: readers::javascript("ctrf", &file(ReportFormat::Ctrf)),
            tap: readers::javascript("tap", &file(ReportFormat::Tap)),
            json: serde_json::from_slice(&fs::read(file(ReportFormat::Json)).unwrap()).unwrap(),
        }
    }

    /// Tests, failures and errors in JUnit; tests and failures in CTRF; points and failures in TAP.
    fn counts(&self) -> [u64; 7] {
        let junit = ["tests", "failures", "errors"].map(|name| self.junit[0][name].as_u64().unwrap());
        let ctrf = ["tests", "failed"].map(|name| self.ctrf["summary"][name].as_u64().unwrap());
        let tap = ["count", "fail"].map(|name| self.tap[name].as_u64().unwrap());
        [junit.as_slice(), &ctrf, &tap].concat().try_into().unwrap()
    }
}

#[test]
fn every_reader_finds_each_finding_and_the_checker_that_gave_no_whole_verdict() {
    let workspace = TestWorkspace::with_fixture("checks/ruff/findings");
    let run = check_with_files(&workspace);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.stdout.contains("::error file=app/totals.py,line=1,col=8"), "{run:?}");
    let read = Documents::read(&workspace);
    let findings = read.json["check"]["findings"].as_array().unwrap().len() as u64;
    assert_eq!(findings, 7);
    // Beside the findings, the checker is an error: it did not check the file with an error of syntax whole.
    assert_eq!(read.counts(), [8, 7, 1, 8, 8, 8, 8], "{:?} {} {}", read.junit, read.ctrf, read.tap);
    let cases = read.junit[0]["cases"].as_array().unwrap();
    let unused = cases.iter().find(|case| case["name"] == "ruff F401 at 1:8").unwrap();
    assert_eq!((&unused["suite"], &unused["result"]), (&json!("app/totals.py"), &json!("failure")), "{unused}");
    let text = unused["text"].as_str().unwrap();
    assert!(text.contains("`os` imported but unused\n\nfix: Remove unused import: `os`\n"), "{unused}");
    assert!(cases[0]["text"].as_str().unwrap().starts_with("ruff checked only a part: "), "{}", cases[0]);
    let suites = read.junit[1]["testsuite"].as_array().unwrap();
    let of_totals = suites.iter().find(|suite| suite["name"] == "app/totals.py").unwrap();
    let places: Vec<_> =
        of_totals["testcase"].as_array().unwrap().iter().map(|case| (&case["file"], &case["line"])).collect();
    assert!(places.contains(&(&json!("app/totals.py"), &json!("1"))), "{places:?}");
    let properties = suites.iter().find(|suite| suite["name"] == "proctor").unwrap()["properties"]["property"].clone();
    let headline =
        properties.as_array().unwrap().iter().find(|property| property["name"] == "proctor.headline").unwrap();
    assert!(headline["value"].as_str().unwrap().starts_with("failed: 7 errors in 2 files"), "{headline}");
    let tests = read.ctrf["tests"].as_array().unwrap();
    let unused = tests.iter().find(|test| test["name"] == "ruff F401 at 1:8").unwrap();
    let place = (&unused["filePath"], &unused["line"], &unused["rawStatus"]);
    assert_eq!(place, (&json!("app/totals.py"), &json!(1), &json!("error")), "{unused}");
    let shown = readers::chromium(&workspace.path.join("reports/report.html"), "F841");
    assert_eq!((&shown["badge"], &shown["count"]), (&json!("failed"), &json!("8 of 8 entries")), "{shown}");
    assert!(shown["heading"].as_str().unwrap().contains("7 findings (7 errors) of ruff"), "{shown}");
    assert_eq!(shown["found"], json!(["ruff F841 at 6:5"]), "{shown}");
}

#[test]
fn a_clean_check_is_no_empty_report_and_a_checker_that_breaks_is_red() {
    let clean = TestWorkspace::with_fixture("checks/ruff/clean");
    let run = check_with_files(&clean);
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(Documents::read(&clean).counts(), [1, 0, 0, 1, 0, 1, 0]);
    let broken = TestWorkspace::empty();
    stand_in_for_ruff(&broken.path, "exit 2");
    let run = check_with_files(&broken);
    assert_eq!(run.status, 3, "{run:?}");
    let read = Documents::read(&broken);
    assert_eq!(read.counts(), [1, 0, 1, 1, 1, 1, 1], "{:?}", read.junit);
    assert!(read.junit[0]["cases"][0]["text"].as_str().unwrap().starts_with("ruff gave no verdict: "));
    // It was cut off, which no reader takes for a pass.
    stand_in_for_ruff(&broken.path, "exec sleep 600");
    let cut_off = check(&broken, &["--timeout", "1s", "--output", "tap"]);
    assert!(cut_off.status == 124 && cut_off.stdout.contains("\nnot ok 1 - proctor > run\n"), "{cut_off:?}");
}

#[test]
fn a_finding_that_is_new_is_marked_and_nothing_that_changed_leaves_no_report() {
    let workspace = TestWorkspace::empty();
    workspace.write("ruff.toml", "");
    workspace.write("a.py", crate::UNUSED_IMPORT);
    assert_eq!(check(&workspace, &[]).status, 1);
    workspace.write("a.py", "import json\n");
    assert_eq!(check(&workspace, &["--junit", "lint.xml"]).status, 1);
    let suites = readers::javascript("junit", &workspace.path.join("lint.xml"))["testsuite"].clone();
    let case = suites[0]["testcase"][0].clone();
    assert_eq!(case["properties"]["property"][0]["name"], "proctor.new", "{suites}");
    let plan = check(&workspace, &["--output", "optimization"]);
    assert_eq!(plan.status, 2, "the plan is about tests: {plan:?}");
}
