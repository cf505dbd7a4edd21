//! `proctor run` on a row, and the commands that query the last run. Every run must leave nothing behind.

use proctor_tests::expectation::{Row, RunOptions};
use proctor_tests::expected::{MISSING_COMMAND, MISSING_RUNNER, row};
use proctor_tests::process::wait_for_exit;
use proctor_tests::run_result::RunResult;
use proctor_tests::test_workspace::{Baseline, TestWorkspace};
use serde_json::Value;

/// Error of commands about the last run when there is none.
const NO_RUN_YET: &str = "proctor: no run here yet: `proctor run` first\n";

fn arguments(options: &RunOptions) -> Vec<String> {
    let mut arguments: Vec<String> = ["run", "--output", "json"].map(str::to_owned).into();
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            arguments.extend([name.to_owned(), value]);
        }
    };
    option("--filter", Some(options.filter.to_owned()).filter(|filter| !filter.is_empty()));
    option("--memory", options.memory_mib.map(|mib| format!("{mib}MiB")));
    option("--pids", options.pids.map(|pids| pids.to_string()));
    option("--timeout", options.timeout_s.map(|seconds| format!("{seconds}s")));
    if !options.command.is_empty() {
        arguments.push("--".to_owned());
        arguments.extend(options.command.iter().map(|word| (*word).to_owned()));
    }
    arguments
}

/// Checks one row.
pub(crate) fn check(name: &str) {
    let row = row(name);
    let workspace = TestWorkspace::with_fixture(row.fixture);
    let before = Baseline::capture(&workspace);
    let child = workspace.command("proctor").args(arguments(&row.options)).spawn().unwrap();
    let pid = child.id();
    let output = wait_for_exit(child);
    assert_eq!((output.status, output.stderr.as_str()), (row.exit_status, ""), "{output:?}");
    RunResult::from_json(&output.json()).assert_matches(row);
    before.assert_nothing_is_left(&workspace, pid);
    let report = workspace.proctor(&["report"]);
    assert_eq!(report.json(), output.json(), "the stored report equals the printed one");
    check_covering(row, &workspace);
    check_artifacts(row, &workspace, &output.json());
}

fn check_artifacts(row: &Row, workspace: &TestWorkspace, report: &Value) {
    if row.artifacts.is_empty() {
        return;
    }
    let listed = report["artifacts"].as_array().unwrap();
    let names: Vec<_> =
        listed.iter().map(|file| (file["kind"].as_str().unwrap(), file["name"].as_str().unwrap())).collect();
    assert_eq!(names, row.artifacts.iter().map(|(kind, name, _)| (*kind, *name)).collect::<Vec<_>>());
    let file = workspace.root().join("artifact");
    for (entry, (_, name, begin)) in listed.iter().zip(row.artifacts) {
        let output = workspace.proctor(&["report", "--artifact", name, "--out", file.to_str().unwrap()]);
        assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(begin) && bytes.len() as u64 == entry["bytes"].as_u64().unwrap(), "{name}");
    }
    let output = workspace.proctor(&["report", "--artifact", "../report.json"]);
    assert_eq!(
        (output.status, output.stderr.as_str()),
        (2, "proctor: the last run here left no artifact \"../report.json\"\n")
    );
}

fn check_covering(row: &Row, workspace: &TestWorkspace) {
    for covering in row.covering {
        let at = format!("{}:{}", covering.file, covering.line);
        let output = workspace.proctor(&["covering", &at]);
        assert_eq!(output.status, 0);
        if covering.packages.is_empty() {
            assert_eq!(output.stdout, format!("no coverage found for {at}\n"));
        } else {
            let packages: Vec<&str> = output.stdout.lines().filter_map(|line| line.strip_suffix(':')).skip(1).collect();
            assert_eq!(packages, covering.packages, "{output:?}");
        }
    }
}

#[test]
fn names_a_missing_runner() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let arguments: Vec<&str> = ["run", "--"].iter().chain(MISSING_COMMAND).copied().collect();
    let output = workspace.proctor(&arguments);
    assert_eq!((output.status, output.stdout.as_str()), (5, ""));
    assert_eq!(output.stderr, format!("proctor: {MISSING_RUNNER}\n"));
}

#[test]
fn notes_functions_that_unittest_ignores() {
    let output = TestWorkspace::with_fixture("unittest/plain_functions").proctor(&["run", "--output", "json"]);
    let notes = output.json()["evidence"]["notes"].to_string();
    assert!(notes.contains("such as test_fails in test_functions.py"), "{notes}");
}

#[test]
fn human_output_shows_failures() {
    let workspace = TestWorkspace::with_fixture("go/fail");
    let output = workspace.proctor(&["run"]);
    assert_eq!(output.status, 1);
    for wanted in ["TestGreet/name_world", "greet_test.go:21", "got \"Hello, world\", want \"Hello, world!\""] {
        assert!(output.stdout.contains(wanted), "{wanted} in {output:?}");
    }
    let failures = workspace.proctor(&["failures"]);
    assert!(failures.stdout.starts_with("4 test failure(s) from last run (go, "), "{failures:?}");
    let missing = TestWorkspace::with_fixture("go/pass").proctor(&["failures"]);
    assert_eq!((missing.status, missing.stderr.as_str()), (2, NO_RUN_YET));
}

/// A plugin such as pytest-cov can fail a run without failed tests; it prints the reason on stdout.
#[test]
fn human_output_explains_a_failure_without_failed_tests() {
    let workspace = TestWorkspace::with_fixture("pytest/pass");
    let hook = "def pytest_sessionfinish(session):\n    session.exitstatus = 1\n\n\n\
                def pytest_terminal_summary(terminalreporter):\n    \
                terminalreporter.write_line('FAIL Required test coverage of 90% not reached.')\n";
    workspace.write("conftest.py", hook);
    let output = workspace.proctor(&["run"]);
    assert_eq!(output.status, 1);
    for wanted in ["last of stdout:\n", "  FAIL Required test", "note: Required test coverage of 90% not reached.\n"] {
        assert!(output.stdout.contains(wanted), "{wanted} in {output:?}");
    }
    // Go's stdout holds JSON events, which are not shown.
    let workspace = TestWorkspace::with_fixture("go/hang");
    let output = workspace.proctor(&["run", "--coverage", "off", "--timeout", "25s"]);
    assert_eq!(output.status, 124);
    assert!(workspace.proctor(&["report"]).json()["stdout_tail"].as_str().unwrap().contains("{\"Time\""));
    assert!(!output.stdout.contains("{\"Time\""), "{output:?}");
}

#[test]
fn queries_work_from_a_subdirectory() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    let in_subdirectory = |arguments: &[&str]| {
        let mut command = workspace.command("proctor");
        wait_for_exit(command.current_dir(workspace.path.join("calc")).args(arguments).spawn().unwrap())
    };
    let whole = workspace.proctor(&["covering", "calc/calc.go"]);
    assert!(whole.stdout.contains(" test(s) cover calc/calc.go:\n"), "{whole:?}");
    assert_eq!(in_subdirectory(&["covering", "calc.go"]).stdout, whole.stdout);
    assert_eq!(in_subdirectory(&["covering", "../calc/calc.go"]).stdout, whole.stdout);
    assert_eq!(in_subdirectory(&["covering", "--workspace", "..", "calc/calc.go"]).stdout, whole.stdout);
    assert!(in_subdirectory(&["failures"]).stdout.starts_with("last run had no failures ("));
    let unknown = in_subdirectory(&["covering", "clac.go:3"]);
    assert_eq!(
        (unknown.status, unknown.stdout.as_str(), unknown.stderr.as_str()),
        (2, "", "proctor: \"calc/clac.go\" not found in the workspace\n")
    );
    let outside = in_subdirectory(&["covering", "../../calc.go"]);
    assert_eq!((outside.status, outside.stdout.as_str()), (2, ""), "{outside:?}");
}

#[test]
fn lists_tests_without_running_them() {
    let workspace = TestWorkspace::with_fixture("go/hang");
    let output = workspace.proctor(&["list"]);
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(output.stdout, "3 test(s) (go):\n\nexample.com/hang:\n  TestEnds\n  TestHangs\n  TestNeverReached\n");
    assert_eq!(workspace.proctor(&["failures"]).stderr, NO_RUN_YET, "listing does not count as a run");
}

/// The listing has one entry for a parameterized method; the outcome table has what Surefire runs of this fixture.
#[test]
fn lists_maven_tests_without_running_them() {
    let workspace = TestWorkspace::with_fixture("maven/fail");
    // With `-q` Maven prints no paths unless proctor overrides the option.
    workspace.write(".mvn/maven.config", "-q\n");
    let output = workspace.proctor(&["list"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
    let dir = "src/test/java/com/example";
    let tests = ["assumes", "disabled", "greets", "holds", "isShort(String)", "throwsOne"];
    let tests: String = tests.iter().map(|test| format!("  com.example.GreetTest#{test}\n")).collect();
    assert_eq!(
        output.stdout,
        format!(
            "8 test(s) (maven):\n\n{dir}/GreetTest.java:\n{tests}  com.example.GreetTest$Inner#fails\n\n\
             {dir}/SetUpTest.java:\n  com.example.SetUpTest#never\n"
        )
    );
    assert!(!workspace.path.join("target/surefire-reports").exists(), "nothing ran");
}
