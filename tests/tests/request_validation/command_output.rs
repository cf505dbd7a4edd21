//! Output of the commands: no control characters from test names, and no panic when a stream cannot be written.

use proctor_proto::printable::is_hidden;
use proctor_tests::process::{ProcessOutput, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use std::fs::File;
use std::io::Write;
use std::process::Stdio;

/// A script that prints TAP with a test name that moves the cursor, sets a title, reverses text and starts new lines.
const HOSTILE: &str =
    "printf '1..2\\nok 1 - fine\\nnot ok 2 - a\\302\\2332J \\342\\200\\256gnp \\033[2J\\033]0;t\\007 \\177 b\\rc\\n'\n";

const FULL: &str = "standard output cannot be written: No space left on device (os error 28)\n";

fn hidden(text: &str) -> Option<char> {
    text.chars().find(|c| is_hidden(*c) && *c != '\n')
}

#[test]
fn escapes_control_characters_in_output() {
    let workspace = TestWorkspace::empty();
    workspace.write("tap.sh", HOSTILE);
    let (path, framework) = ("no\u{9b}where\u{202e}", "a\x1b[2J\u{7f}\u{202e}");
    for arguments in [
        &["run", "--", "sh", "tap.sh"][..],
        &["run", "--output", "json", "--", "sh", "tap.sh"],
        &["failures"],
        &["report"],
        &["covering", "tap.sh"],
        &["run", path],
        &["list", "--framework", framework],
        &["report", "--artifact", framework],
        &[framework],
        &["admin", "runs", "--socket", path],
        &["doctor", framework],
    ] {
        let output = workspace.proctor(arguments);
        assert_eq!((hidden(&output.stdout), hidden(&output.stderr)), (None, None), "{arguments:?}: {output:?}");
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    }
    let failures = workspace.proctor(&["failures"]).stdout;
    assert!(failures.contains("\n1. a\\u{9b}2J \\u{202e}gnp "), "{failures}");
}

fn with_stdout(workspace: &TestWorkspace, program: &str, arguments: &[&str], stdout: Stdio) -> ProcessOutput {
    wait_for_exit(workspace.command(program).args(arguments).stdout(stdout).spawn().unwrap())
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

// A pipe whose reader is closed.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn reports_a_full_stdout_and_ignores_a_closed_one() {
    let workspace = TestWorkspace::with_fixture("unittest/fail");
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    for (program, arguments, status_when_full) in [
        ("proctor", &["run"][..], 5),
        ("proctor", &["run", "--output", "json", "--", "false"], 5),
        ("proctor", &["list"], 5),
        ("proctor", &["list", "--output", "json"], 5),
        ("proctor", &["failures"], 5),
        ("proctor", &["covering", "shout.py"], 5),
        ("proctor", &["report"], 5),
        ("proctor", &["doctor"], 5),
        ("proctor", &["doctor", "--output", "json"], 5),
        ("proctor", &["admin", "token"], 5),
        ("proctor", &["--help"], 5),
        ("proctor", &["admin", "drain", "--help"], 5),
        ("proctor", &["--version"], 5),
        ("proctor-mcp", &["--help"], 2),
    ] {
        let regular = with_stdout(&workspace, program, arguments, Stdio::piped());
        let unread = with_stdout(&workspace, program, arguments, closed());
        assert_eq!((unread.status, &unread.stderr), (regular.status, &regular.stderr), "{arguments:?}");
        let unwritten = with_stdout(&workspace, program, arguments, full());
        assert_eq!(
            (unwritten.status, unwritten.stderr),
            (status_when_full, format!("{program}: {FULL}")),
            "{arguments:?}"
        );
    }
    // The run was recorded although its report could not be printed.
    assert_eq!(workspace.proctor(&["report"]).json()["framework"], "custom");
}

/// The shim's stdout carries the protocol.
#[test]
fn shim_exits_when_stdout_fails() {
    let workspace = TestWorkspace::empty();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    for (stdout, status, error) in [(full(), 2, "standard output cannot be written"), (closed(), 0, "")] {
        let mut command = workspace.command("proctor-mcp");
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap();
        // stdin stays open, so it is the output that ends the shim.
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{initialize}").unwrap();
        let output = wait_for_exit(child);
        assert_eq!((output.status, output.stderr.contains(error)), (status, true), "{output:?}");
        assert!(!output.stderr.contains("panicked"), "{output:?}");
    }
}

#[test]
fn keeps_exit_status_without_writable_streams() {
    let workspace = TestWorkspace::empty();
    for (program, arguments, status) in [
        ("proctor", &["frobnicate"][..], 2),
        ("proctor", &["run", "nowhere"], 2),
        ("proctor", &["failures"], 2),
        ("proctor", &["serve", "--config", "nowhere"], 2),
        ("proctor", &["admin", "runs", "--socket", "nowhere"], 5),
        ("proctor-mcp", &["--workspace", "nowhere"], 2),
        ("proctor-mcp", &["--frobnicate"], 2),
        ("proctor-worker", &[], 2),
    ] {
        for unwritable in [full, closed] {
            let mut command = workspace.command(program);
            let output =
                wait_for_exit(command.args(arguments).stdout(unwritable()).stderr(unwritable()).spawn().unwrap());
            assert_eq!(output.status, status, "{program} {arguments:?}");
        }
    }
}
