//! The oldest supported versions of the JavaScript runners on the fixtures of the newest: they report the same tests, and
//! runs that exit early or hang do not pass either.

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, source_root, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::Once;

/// A fixture, its outcome, the number of tests per outcome, and the number of collectors.
type Expected = (&'static str, &'static str, &'static [(&'static str, usize)], usize);

fn fixture_workspace(fixture: &str) -> TestWorkspace {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("oldest-node-packages"));
    let workspace = TestWorkspace::empty();
    copy(&source_root().join("fixtures").join(fixture), &workspace.path);
    symlink(tools().join("oldest/lib/node_modules"), workspace.path.join("node_modules")).unwrap();
    workspace
}

/// Runs `proctor`; `node` names an installed package whose Node comes first on PATH.
fn proctor(workspace: &TestWorkspace, node: Option<&str>, arguments: &[&str]) -> ProcessOutput {
    let own = node.map(|name| tools().join("oldest/lib/node_modules").join(name).join("bin"));
    let known = search_path();
    let dirs = own.into_iter().chain(std::env::split_paths(&known)).chain([tools().join("oldest/bin")]);
    let mut command = workspace.command("proctor");
    command.args(arguments).env("PATH", std::env::join_paths(dirs).unwrap());
    wait_for_exit(command.spawn().unwrap())
}

fn check(node: Option<&str>, all: &[Expected]) {
    for (fixture, outcome, counts, collectors) in all {
        let workspace = fixture_workspace(fixture);
        let timeout = if fixture.ends_with("/hang") { "20s" } else { "120s" };
        let output = proctor(&workspace, node, &["run", "--output", "json", "--timeout", timeout]);
        let report = output.json();
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for test in report["tests"].as_array().unwrap() {
            *found.entry(test["outcome"].as_str().unwrap()).or_default() += 1;
        }
        let collected = report["collectors"].as_array().unwrap().len();
        let expected = (*outcome, counts.iter().copied().collect(), *collectors);
        assert_eq!((report["outcome"].as_str().unwrap(), found, collected), expected, "{fixture}: {report:#}");
    }
}

/// Names of the tests that `proctor list` reports.
fn listed(node: Option<&str>, fixture: &str) -> Vec<String> {
    let output = proctor(&fixture_workspace(fixture), node, &["list", "--output", "json"]);
    let tests = output.json()["tests"].as_array().unwrap_or_else(|| panic!("{output:?}")).clone();
    tests.iter().map(|test| test["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn jest_24() {
    check(
        None,
        &[
            ("jest/pass", "passed", &[("passed", 4)], 0),
            ("jest/fail", "failed", &[("failed", 4), ("passed", 2)], 0),
            ("jest/collection", "collection_failed", &[("passed", 1)], 2),
            ("jest/crash", "crashed", &[], 0),
            ("jest/hang", "timed_out", &[], 0),
        ],
    );
    assert_eq!(listed(None, "jest/pass").len(), 4);
}

#[test]
fn vitest_1() {
    check(
        None,
        &[
            ("vitest/pass", "passed", &[("passed", 4)], 0),
            ("vitest/fail", "failed", &[("failed", 4), ("passed", 2)], 0),
            ("vitest/error", "collection_failed", &[("error", 1), ("passed", 1)], 1),
            ("vitest/crash", "failed", &[("failed", 1), ("passed", 1)], 0),
            ("vitest/hang", "timed_out", &[("passed", 1)], 0),
        ],
    );
    assert_eq!(listed(None, "vitest/pass").len(), 4);
}

#[test]
fn mocha_6() {
    check(
        None,
        &[
            ("mocha/pass", "passed", &[("passed", 4)], 0),
            ("mocha/fail", "failed", &[("failed", 6), ("passed", 1)], 0),
            ("mocha/crash", "failed", &[("error", 1), ("passed", 1)], 0),
            ("mocha/hang", "timed_out", &[("passed", 1)], 0),
        ],
    );
    assert_eq!(listed(None, "mocha/pass").len(), 4);
}

#[test]
fn node_18() {
    let node = Some("node-18");
    check(
        node,
        &[
            ("node/pass", "passed", &[("passed", 6)], 0),
            ("node/fail", "failed", &[("failed", 7), ("passed", 2)], 0),
            ("node/collection", "collection_failed", &[("passed", 1)], 2),
            ("node/exits_early", "failed", &[("failed", 1)], 0),
            ("node/exits_past_listeners", "collection_failed", &[("passed", 3)], 3),
            ("node/hang", "timed_out", &[("passed", 1)], 0),
        ],
    );
    // Subtests are not listed, since they exist only while their test runs.
    assert_eq!(listed(node, "node/fail").len(), 7);
}

/// Node 20 identifies the file of an event only by name.
#[test]
fn node_20() {
    check(
        Some("node-20"),
        &[
            ("node/pass", "passed", &[("passed", 6)], 0),
            ("node/collection", "collection_failed", &[("passed", 1)], 2),
            ("node/exits_past_listeners", "collection_failed", &[("passed", 3)], 3),
        ],
    );
}
