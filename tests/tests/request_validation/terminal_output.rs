//! What commands print: nothing that a terminal would act on, whatever tests are called, and no panic where it cannot be written.

use proctor_proto::printable::is_hidden;
use proctor_tests::process::{ProcessOutput, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use std::fs::File;
use std::io::Write;
use std::process::Stdio;

/// Prints TAP: a name that moves the cursor, sets a title, turns the text around and begins lines of its own.
const HOSTILE: &str =
    "printf '1..2\\nok 1 - fine\\nnot ok 2 - a\\302\\2332J \\342\\200\\256gnp \\033[2J\\033]0;t\\007 \\177 b\\rc\\n'\n";

const FULL: &str = "standard output cannot be written: No space left on device (os error 28)\n";

fn hidden(text: &str) -> Option<char> {
    text.chars().find(|c| is_hidden(*c) && *c != '\n')
}

#[test]
fn names_of_tests_do_not_reach_the_terminal_as_they_are() {
    let place = TestWorkspace::empty();
    place.write("tap.sh", HOSTILE);
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
        let said = place.proctor(arguments);
        assert_eq!((hidden(&said.stdout), hidden(&said.stderr)), (None, None), "{arguments:?}: {said:?}");
        assert!(!said.stdout.is_empty() || !said.stderr.is_empty());
    }
    let failures = place.proctor(&["failures"]).stdout;
    assert!(failures.contains("\n1. a\\u{9b}2J \\u{202e}gnp "), "{failures}");
}

fn with_stdout(place: &TestWorkspace, program: &str, arguments: &[&str], stdout: Stdio) -> ProcessOutput {
    wait_for_exit(place.command(program).args(arguments).stdout(stdout).spawn().unwrap())
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

// Whose reader has gone.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn what_cannot_be_written_is_said_and_a_reader_that_has_gone_changes_nothing() {
    let place = TestWorkspace::with_fixture("unittest/fail");
    assert_eq!(place.proctor(&["run"]).status, 1);
    for (program, arguments, status_of_full) in [
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
        let usual = with_stdout(&place, program, arguments, Stdio::piped());
        let unread = with_stdout(&place, program, arguments, closed());
        assert_eq!((unread.status, &unread.stderr), (usual.status, &usual.stderr), "{arguments:?}");
        let unwritten = with_stdout(&place, program, arguments, full());
        assert_eq!(
            (unwritten.status, unwritten.stderr),
            (status_of_full, format!("{program}: {FULL}")),
            "{arguments:?}"
        );
    }
    // The run itself is remembered.
    assert_eq!(place.proctor(&["report"]).json()["framework"], "custom");
}

/// Whose stdout is the protocol.
#[test]
fn a_shim_that_cannot_answer_says_so_and_ends() {
    let place = TestWorkspace::empty();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    for (stdout, status, told) in [(full(), 2, "standard output cannot be written"), (closed(), 0, "")] {
        let mut command = place.command("proctor-mcp");
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap();
        // It stays open: what ends the shim is its output.
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{initialize}").unwrap();
        let said = wait_for_exit(child);
        assert_eq!((said.status, said.stderr.contains(told)), (status, true), "{said:?}");
        assert!(!said.stderr.contains("panicked"), "{said:?}");
    }
}

#[test]
fn a_mistake_has_its_status_where_stderr_cannot_be_written_either() {
    let place = TestWorkspace::empty();
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
        for broken in [full, closed] {
            let mut command = place.command(program);
            let said = wait_for_exit(command.args(arguments).stdout(broken()).stderr(broken()).spawn().unwrap());
            assert_eq!(said.status, status, "{program} {arguments:?}");
        }
    }
}
