//! `proctor run` on a row, and what the commands beside it say afterwards. Every run must leave nothing behind.

use proctor_tests::expectation::{Row, RunOptions};
use proctor_tests::expected::{MISSING_COMMAND, MISSING_RUNNER, row};
use proctor_tests::process::wait_for_exit;
use proctor_tests::run_result::RunResult;
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::Value;

/// What commands say that ask about the last run where there is none.
const NO_RUN_YET: &str = "proctor: no run here yet: `proctor run` first\n";

fn arguments(ask: &RunOptions) -> Vec<String> {
    let mut arguments: Vec<String> = ["run", "--output", "json"].map(str::to_owned).into();
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            arguments.extend([name.to_owned(), value]);
        }
    };
    option("--filter", Some(ask.filter.to_owned()).filter(|filter| !filter.is_empty()));
    option("--memory", ask.memory_mib.map(|mib| format!("{mib}MiB")));
    option("--pids", ask.pids.map(|pids| pids.to_string()));
    option("--timeout", ask.timeout_s.map(|seconds| format!("{seconds}s")));
    if !ask.command.is_empty() {
        arguments.push("--".to_owned());
        arguments.extend(ask.command.iter().map(|word| (*word).to_owned()));
    }
    arguments
}

/// Drives one row.
pub(crate) fn check(name: &str) {
    let row = row(name);
    let place = TestWorkspace::with_fixture(row.fixture);
    let before = Baseline::capture(&place);
    let child = place.command("proctor").args(arguments(&row.options)).spawn().unwrap();
    let pid = child.id();
    let said = wait_for_exit(child);
    assert_eq!((said.status, said.stderr.as_str()), (row.exit_status, ""), "{said:?}");
    RunResult::from_json(&said.json()).assert_matches(row);
    before.assert_nothing_is_left(&place, pid);
    let report = place.proctor(&["report"]);
    assert_eq!(report.json(), said.json(), "the report that is kept is the one that was printed");
    check_covering(row, &place);
    check_artifacts(row, &place, &said.json());
}

fn check_artifacts(row: &Row, place: &TestWorkspace, report: &Value) {
    if row.artifacts.is_empty() {
        return;
    }
    let listed = report["artifacts"].as_array().unwrap();
    let names: Vec<_> =
        listed.iter().map(|file| (file["kind"].as_str().unwrap(), file["name"].as_str().unwrap())).collect();
    assert_eq!(names, row.artifacts.iter().map(|(kind, name, _)| (*kind, *name)).collect::<Vec<_>>());
    let out = place.root().join("artefact");
    for (file, (_, name, begin)) in listed.iter().zip(row.artifacts) {
        let said = place.proctor(&["report", "--artifact", name, "--out", out.to_str().unwrap()]);
        assert_eq!((said.status, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
        let bytes = std::fs::read(&out).unwrap();
        assert!(bytes.starts_with(begin) && bytes.len() as u64 == file["bytes"].as_u64().unwrap(), "{name}");
    }
    let said = place.proctor(&["report", "--artifact", "../report.json"]);
    assert_eq!(
        (said.status, said.stderr.as_str()),
        (2, "proctor: the last run here left no artifact \"../report.json\"\n")
    );
}

fn check_covering(row: &Row, place: &TestWorkspace) {
    for covering in row.covering {
        let at = format!("{}:{}", covering.file, covering.line);
        let said = place.proctor(&["covering", &at]);
        assert_eq!(said.status, 0);
        if covering.packages.is_empty() {
            assert_eq!(said.stdout, format!("no coverage found for {at}\n"));
        } else {
            let packages: Vec<&str> = said.stdout.lines().filter_map(|line| line.strip_suffix(':')).skip(1).collect();
            assert_eq!(packages, covering.packages, "{said:?}");
        }
    }
}

#[test]
fn a_runner_that_is_not_there_is_named() {
    let place = TestWorkspace::with_fixture("go/pass");
    let arguments: Vec<&str> = ["run", "--"].iter().chain(MISSING_COMMAND).copied().collect();
    let said = place.proctor(&arguments);
    assert_eq!((said.status, said.stdout.as_str()), (5, ""));
    assert_eq!(said.stderr, format!("proctor: {MISSING_RUNNER}\n"));
}

#[test]
fn what_unittest_passes_over_is_noted() {
    let said = TestWorkspace::with_fixture("unittest/functions").proctor(&["run", "--output", "json"]);
    let notes = said.json()["evidence"]["notes"].to_string();
    assert!(notes.contains("such as test_fails in test_functions.py"), "{notes}");
}

#[test]
fn a_person_reads_what_failed() {
    let place = TestWorkspace::with_fixture("go/fail");
    let said = place.proctor(&["run"]);
    assert_eq!(said.status, 1);
    for wanted in ["TestGreet/name_world", "greet_test.go:21", "got \"Hello, world\", want \"Hello, world!\""] {
        assert!(said.stdout.contains(wanted), "{wanted} in {said:?}");
    }
    let failures = place.proctor(&["failures"]);
    assert!(failures.stdout.starts_with("4 test failure(s) from last run (go, "), "{failures:?}");
    let missing = TestWorkspace::with_fixture("go/pass").proctor(&["failures"]);
    assert_eq!((missing.status, missing.stderr.as_str()), (2, NO_RUN_YET));
}

/// A plugin such as pytest-cov fails a run whose tests hold, and says why on stdout.
#[test]
fn a_person_reads_why_a_run_failed_whose_tests_hold() {
    let place = TestWorkspace::with_fixture("pytest/pass");
    let hook = "def pytest_sessionfinish(session):\n    session.exitstatus = 1\n\n\n\
                def pytest_terminal_summary(terminalreporter):\n    \
                terminalreporter.write_line('FAIL Required test coverage of 90% not reached.')\n";
    place.write("conftest.py", hook);
    let said = place.proctor(&["run"]);
    assert_eq!(said.status, 1);
    for wanted in ["last of stdout:\n", "  FAIL Required test", "note: Required test coverage of 90% not reached.\n"] {
        assert!(said.stdout.contains(wanted), "{wanted} in {said:?}");
    }
    // Go's stdout is its events.
    let place = TestWorkspace::with_fixture("go/hang");
    let said = place.proctor(&["run", "--coverage", "off", "--timeout", "25s"]);
    assert_eq!(said.status, 124);
    assert!(place.proctor(&["report"]).json()["stdout_tail"].as_str().unwrap().contains("{\"Time\""));
    assert!(!said.stdout.contains("{\"Time\""), "{said:?}");
}

#[test]
fn what_is_known_is_asked_for_from_below_the_workspace_too() {
    let place = TestWorkspace::with_fixture("go/pass");
    assert_eq!(place.proctor(&["run"]).status, 0);
    let below = |arguments: &[&str]| {
        let mut command = place.command("proctor");
        wait_for_exit(command.current_dir(place.workspace.join("calc")).args(arguments).spawn().unwrap())
    };
    let whole = place.proctor(&["covering", "calc/calc.go"]);
    assert!(whole.stdout.contains(" test(s) cover calc/calc.go:\n"), "{whole:?}");
    assert_eq!(below(&["covering", "calc.go"]).stdout, whole.stdout);
    assert_eq!(below(&["covering", "../calc/calc.go"]).stdout, whole.stdout);
    assert_eq!(below(&["covering", "--workspace", "..", "calc/calc.go"]).stdout, whole.stdout);
    assert!(below(&["failures"]).stdout.starts_with("last run had no failures ("));
    let unknown = below(&["covering", "clac.go:3"]);
    assert_eq!(
        (unknown.status, unknown.stdout.as_str(), unknown.stderr.as_str()),
        (2, "", "proctor: \"calc/clac.go\" not found in the workspace\n")
    );
    let outside = below(&["covering", "../../calc.go"]);
    assert_eq!((outside.status, outside.stdout.as_str()), (2, ""), "{outside:?}");
}

#[test]
fn tests_are_listed_without_running_them() {
    let place = TestWorkspace::with_fixture("go/hang");
    let said = place.proctor(&["list"]);
    assert_eq!(said.status, 0, "{said:?}");
    assert_eq!(said.stdout, "3 test(s) (go):\n\nexample.com/hang:\n  TestEnds\n  TestHangs\n  TestNeverReached\n");
    assert_eq!(place.proctor(&["failures"]).stderr, NO_RUN_YET, "a listing is no run");
}

/// What Surefire runs of this fixture is in the table: of a test with parameters the listing has the method.
#[test]
fn mavens_tests_are_listed_without_running_them() {
    let place = TestWorkspace::with_fixture("maven/fail");
    // Maven tells where it is only to who asks otherwise.
    place.write(".mvn/maven.config", "-q\n");
    let said = place.proctor(&["list"]);
    assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:?}");
    let dir = "src/test/java/com/example";
    let tests = ["assumes", "disabled", "greets", "holds", "isShort(String)", "throwsOne"];
    let tests: String = tests.iter().map(|test| format!("  com.example.GreetTest#{test}\n")).collect();
    assert_eq!(
        said.stdout,
        format!(
            "8 test(s) (maven):\n\n{dir}/GreetTest.java:\n{tests}  com.example.GreetTest$Inner#fails\n\n\
             {dir}/SetUpTest.java:\n  com.example.SetUpTest#never\n"
        )
    );
    assert!(!place.workspace.join("target/surefire-reports").exists(), "nothing ran");
}
