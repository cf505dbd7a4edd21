//! Mistakes on the command line.

use crate::{FILTERS, NO_GO, NO_PROJECT, add_links_out, path_without_go};
use proctor_tests::place::{Before, Place};
use proctor_tests::process::end_of;

/// Arguments, exit status, and what stderr says.
const MISTAKES: &[(&[&str], i32, &str)] = &[
    (
        &["run", "--framework", "cobol"],
        2,
        "proctor: unknown framework `cobol`: known are go, pytest, unittest, jest, mocha, node, vitest, playwright, cargo, nextest, ctest, maven, gradle, maestro, cypress\n",
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
    (&["run", "--memory", "1KiB"], 2, "proctor: memory must be at least 4194304, got 1024\n"),
    (&["run", "--memory", "-1GiB"], 2, "got \"-1GiB\""),
    (&["run", "--cpus", "0.001"], 2, "proctor: cpus must be at least 10, got 1\n"),
    (&["run", "--pids", "3"], 2, "proctor: pids must be at least 4, got 3\n"),
    (&["run", "--pids", "-1"], 2, "'-1'"),
    (&["run", "--parallel", "0"], 2, "0 is not in 1..=256"),
    (&["run", "--headed"], 2, "proctor: headed has no meaning for go\n"),
    (&["run", "--browser", "mosaic"], 2, "invalid value 'mosaic'"),
    (&["run", "--env", "LD_PRELOAD=/x.so"], 2, "LD_PRELOAD decides what runs and cannot be set by a request\n"),
    (&["run", "--env", "GOFLAGS=-exec=sh"], 2, "GOFLAGS decides what runs and cannot be set by a request\n"),
    (&["run", "--env", "NAME"], 2, "proctor: --env: expected K=V, got \"NAME\"\n"),
    (&["run", "--env", "A-B=1"], 2, "is not a variable's name"),
    (&["run", "--network", "some"], 2, "invalid value 'some'"),
    (&["run", "--tiemout", "1"], 2, "unexpected argument '--tiemout'"),
    (&["run", "--failed", "--filter", "x"], 2, "cannot be used with"),
    (&["run", "--filter", "x", "--", "make"], 2, "cannot be used with"),
    (&["run", "nowhere"], 2, "proctor: workspace nowhere: not found\n"),
    (&["run", "greet.go"], 2, "proctor: workspace greet.go: not a directory\n"),
    (&["covering", "../x.go"], 2, "proctor: \"../x.go\" is outside the workspace\n"),
    (&["covering", "passwd.txt:1"], 2, "proctor: \"passwd.txt\" is outside the workspace\n"),
    (&["covering", "greet.go:0"], 2, "lines are counted from 1"),
    (&["failures", "--limit", "0"], 2, "0 is not in 1..=500"),
    (&["serve"], 2, "--config"),
    (&["frobnicate"], 2, "unrecognized subcommand 'frobnicate'"),
];

#[test]
fn mistakes_are_named_and_nothing_is_lost() {
    let place = Place::with("go/fail");
    add_links_out(&place.workspace);
    assert_eq!(place.proctor(&["run"]).status, 1);
    let before = Before::of(&place);
    let report = place.proctor(&["report"]).stdout;
    assert!(report.contains("TestGreet"));
    for (arguments, status, text) in MISTAKES {
        let said = place.proctor(arguments);
        assert_eq!((said.status, said.stdout.as_str()), (*status, ""), "{arguments:?}: {said:?}");
        let exact = !text.starts_with("proctor: ") || said.stderr == *text;
        assert!(exact && said.stderr.contains(text), "{arguments:?}: {text:?} in {:?}", said.stderr);
    }
    for (filter, text) in FILTERS {
        let said = place.proctor(&["run", "--filter", filter]);
        assert_eq!((said.status, said.stderr), (2, format!("proctor: {text}\n")));
    }
    assert_eq!(place.proctor(&["report"]).stdout, report, "the last report is as it was");
    before.assert_files(&place);
}

#[test]
fn a_workspace_without_a_project_is_told_so() {
    let place = Place::empty();
    let said = place.proctor(&["run"]);
    assert_eq!((said.status, said.stderr), (2, format!("proctor: {NO_PROJECT}\n")));
    let said = place.proctor(&["list"]);
    assert_eq!((said.status, said.stderr), (2, format!("proctor: {NO_PROJECT}\n")));
}

#[test]
fn a_host_without_go_is_told_so() {
    let place = Place::with("go/pass");
    let mut command = place.command("proctor");
    let said = end_of(command.arg("run").env("PATH", path_without_go(place.root())).spawn().unwrap());
    assert_eq!((said.status, said.stderr), (5, format!("proctor: {NO_GO}\n")));
}
