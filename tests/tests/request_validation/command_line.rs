//! Invalid command lines: exit status and message.

use crate::{FILTERS, NO_GO, NO_PROJECT, add_links_out, path_without_go};
use proctor_tests::process::wait_for_exit;
use proctor_tests::test_workspace::{Baseline, TestWorkspace};

/// Arguments, exit status, and text on stderr: all of it if it starts with `proctor: ` and ends with a line end.
const MISTAKES: &[(&[&str], i32, &str)] = &[
    (
        &["run", "--framework", "cobol"],
        2,
        "proctor: unknown framework `cobol`: known are go, pytest, unittest, jest, mocha, node, vitest, playwright, script, cargo, nextest, ctest, maven, gradle, maestro, cypress, rspec, phpunit\n",
    ),
    (&["run", "--file", "../greet.go"], 2, "proctor: --file: \"../greet.go\" is outside the workspace\n"),
    (&["run", "--file", "/etc/passwd"], 2, "proctor: --file: \"/etc/passwd\" is outside the workspace\n"),
    (&["run", "--file", "out/passwd"], 2, "proctor: --file: \"out/passwd\" is outside the workspace\n"),
    (&["run", "--file", "passwd.txt"], 2, "proctor: --file: \"passwd.txt\" is outside the workspace\n"),
    (&["run", "--file", "gone.go"], 2, "proctor: --file: \"gone.go\" not found in the workspace\n"),
    (&["run", "--timeout", "-1"], 2, "got \"-1\""),
    (&["run", "--timeout", "0"], 2, "must be more than zero, got \"0\""),
    (&["run", "--timeout", "NaN"], 2, "got \"NaN\""),
    (&["run", "--timeout", "abc"], 2, "expected something like 300s or 5m, got \"abc\""),
    (&["run", "--memory", "1KiB"], 2, "proctor: memory must be at least 4 MiB, got 1 KiB\n"),
    (&["run", "--memory", "-1GiB"], 2, "got \"-1GiB\""),
    (&["run", "--cpus", "0.001"], 2, "proctor: cpus must be at least 0.01 processors, got 0.001 processors\n"),
    (&["run", "--pids", "3"], 2, "proctor: pids must be at least 4 processes, got 3 processes\n"),
    (&["run", "--pids", "-1"], 2, "'-1'"),
    (&["run", "--parallel", "0"], 2, "0 is not in 1..=256"),
    (&["run", "--headed"], 2, "proctor: headed has no meaning for go\n"),
    (&["run", "--browser", "mosaic"], 2, "invalid value 'mosaic'"),
    (&["run", "--env", "LD_PRELOAD=/x.so"], 2, "LD_PRELOAD decides what runs and cannot be set\n"),
    (&["run", "--env", "GOFLAGS=-exec=sh"], 2, "GOFLAGS decides what runs and cannot be set\n"),
    (&["run", "--env", "PYTHONOPTIMIZE=1"], 2, "PYTHONOPTIMIZE decides what runs and cannot be set\n"),
    (&["run", "--env", "MOCHA_OPTIONS=1"], 2, "MOCHA_OPTIONS decides what runs and cannot be set\n"),
    (&["run", "--env", "NODE_TEST_CONTEXT=1"], 2, "NODE_TEST_CONTEXT decides what runs and cannot be set\n"),
    (&["run", "--env", "BAZEL_TEST=1"], 2, "BAZEL_TEST decides what runs and cannot be set\n"),
    (&["run", "--env", "TESTBRIDGE_TEST_ONLY=1"], 2, "TESTBRIDGE_TEST_ONLY decides what runs and cannot be set\n"),
    (&["run", "--env", "BOOST_TEST_RESULT_CODE=1"], 2, "BOOST_TEST_RESULT_CODE decides what runs and cannot be set\n"),
    (&["run", "--env", "CYPRESS_SPEC_PATTERN=1"], 2, "CYPRESS_SPEC_PATTERN decides what runs and cannot be set\n"),
    (&["run", "--env", "RUST_TEST_THREADS=1"], 2, "RUST_TEST_THREADS decides what runs and cannot be set\n"),
    (
        &["run", "--env", "npm_config_ignore_scripts=1"],
        2,
        "npm_config_ignore_scripts decides what runs and cannot be set\n",
    ),
    (
        &["run", "--env", "NPM_CONFIG_SCRIPT_SHELL=1"],
        2,
        "NPM_CONFIG_SCRIPT_SHELL decides what runs and cannot be set\n",
    ),
    (&["run", "--env", "NAME"], 2, "proctor: --env: expected K=V, got \"NAME\"\n"),
    (&["run", "--env", "A-B=1"], 2, "is not a variable's name"),
    (&["run", "--network", "some"], 2, "invalid value 'some'"),
    (&["run", "--tiemout", "1"], 2, "unexpected argument '--tiemout'"),
    (&["run", "--watch", "--output", "json"], 2, "--watch prints no documents, as each run has one"),
    (&["run", "--failed", "--filter", "x"], 2, "cannot be used with"),
    (&["run", "--failed", "--test", "x"], 2, "cannot be used with"),
    (&["run", "--test", "x", "--filter", "y"], 2, "cannot be used with"),
    (&["run", "--test", "x", "--file", "greet.go"], 2, "cannot be used with"),
    (&["run", "--test", "x", "--", "make"], 2, "cannot be used with"),
    (&["run", "--test", ""], 2, "proctor: tests: a name is empty: leave it out, or leave out tests to run all\n"),
    (&["run", "--filter", "x", "--", "make"], 2, "cannot be used with"),
    (&["run", "--", "./greet.go"], 5, "proctor: ./greet.go: not executable: chmod +x lets it run\n"),
    (&["run", "--", "./gone"], 5, "proctor: ./gone: not found where runs see it: in the workspace or on PATH\n"),
    (&["run", "nowhere"], 2, "proctor: workspace nowhere: not found\n"),
    (&["run", "greet.go"], 2, "proctor: workspace greet.go: not a directory\n"),
    (&["covering", "../x.go"], 2, "proctor: \"../x.go\" is outside the workspace\n"),
    (&["covering", "passwd.txt:1"], 2, "proctor: \"passwd.txt\" is outside the workspace\n"),
    (&["covering", "greet.go:0"], 2, "lines are counted from 1"),
    (&["failures", "--limit", "0"], 2, "0 is not in 1..=500"),
    (&["serve"], 2, "--config"),
    (&["admin", "drain", "--deadline", "25h"], 2, "at most 24h"),
    (&["frobnicate"], 2, "unrecognized subcommand 'frobnicate'"),
];

#[test]
fn names_each_mistake_and_keeps_the_last_report() {
    let workspace = TestWorkspace::with_fixture("go/fail");
    add_links_out(&workspace.path);
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    let before = Baseline::capture(&workspace);
    let report = workspace.proctor(&["report"]).stdout;
    assert!(report.contains("TestGreet"));
    for (arguments, status, text) in MISTAKES {
        let output = workspace.proctor(arguments);
        assert_eq!((output.status, output.stdout.as_str()), (*status, ""), "{arguments:?}: {output:?}");
        let is_complete = !text.starts_with("proctor: ") || output.stderr == *text;
        assert!(is_complete && output.stderr.contains(text), "{arguments:?}: {text:?} in {:?}", output.stderr);
    }
    for (filter, text) in FILTERS {
        let output = workspace.proctor(&["run", "--filter", filter]);
        assert_eq!((output.status, output.stderr), (2, format!("proctor: {text}\n")));
    }
    assert_eq!(workspace.proctor(&["report"]).stdout, report, "the last report is unchanged");
    before.assert_files(&workspace);
}

#[test]
fn refuses_a_workspace_without_a_project() {
    let workspace = TestWorkspace::empty();
    let remedy = "name one with --framework NAME, or give a command after --";
    for command in ["run", "list"] {
        let output = workspace.proctor(&[command]);
        assert_eq!((output.status, output.stderr), (2, format!("proctor: {NO_PROJECT}: {remedy}\n")));
    }
    workspace.write("go.mod", "module example.com/both\n\ngo 1.21\n");
    workspace.write("Cargo.toml", "[package]\nname = \"both\"\n");
    let remedy = "pick one with --framework NAME, or run all with --framework all";
    let output = workspace.proctor(&["run"]);
    assert_eq!((output.status, output.stderr), (2, format!("proctor: 2 project types here (go, cargo): {remedy}\n")));
}

#[test]
fn project_file_cannot_set_forbidden_variables() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    std::fs::write(workspace.path.join(".proctor.yaml"), "environment:\n  A: b\n  PYTHONOPTIMIZE: '1'\n").unwrap();
    let output = workspace.proctor(&["run"]);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
    let error = "proctor: .proctor.yaml: line 3, PYTHONOPTIMIZE: PYTHONOPTIMIZE decides what runs and cannot be set";
    assert!(output.stderr.starts_with(error), "{output:?}");
}

#[test]
fn names_a_runner_missing_on_path() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let mut command = workspace.command("proctor");
    let output = wait_for_exit(command.arg("run").env("PATH", path_without_go(workspace.root())).spawn().unwrap());
    assert_eq!((output.status, output.stderr), (5, format!("proctor: {NO_GO}\n")));
}
