//! The oldest JavaScript runners that proctor runs, on the fixtures of the newest: they tell the same tests, and what leaves by
//! itself or hangs is as little green. Must not know how the adapters do it.

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, source_root, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::Once;

/// What a fixture comes to: its name, the outcome, how many tests came to what, and how many files could not be judged.
type Expected = (&'static str, &'static str, &'static [(&'static str, usize)], usize);

fn place(fixture: &str) -> TestWorkspace {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("oldest-node-packages"));
    let place = TestWorkspace::empty();
    copy(&source_root().join("fixtures").join(fixture), &place.workspace);
    symlink(tools().join("oldest/lib/node_modules"), place.workspace.join("node_modules")).unwrap();
    place
}

/// `proctor` with these arguments, where `node` is the one of this name among the packages, if any.
fn proctor(place: &TestWorkspace, node: Option<&str>, arguments: &[&str]) -> ProcessOutput {
    let own = node.map(|name| tools().join("oldest/lib/node_modules").join(name).join("bin"));
    let known = search_path();
    let dirs = own.into_iter().chain(std::env::split_paths(&known)).chain([tools().join("oldest/bin")]);
    let mut command = place.command("proctor");
    command.args(arguments).env("PATH", std::env::join_paths(dirs).unwrap());
    wait_for_exit(command.spawn().unwrap())
}

fn check(node: Option<&str>, all: &[Expected]) {
    for (fixture, outcome, counts, collectors) in all {
        let place = place(fixture);
        let timeout = if fixture.ends_with("/hang") { "20s" } else { "120s" };
        let said = proctor(&place, node, &["run", "--output", "json", "--timeout", timeout]);
        let report = said.json();
        let mut told: BTreeMap<&str, usize> = BTreeMap::new();
        for test in report["tests"].as_array().unwrap() {
            *told.entry(test["outcome"].as_str().unwrap()).or_default() += 1;
        }
        let collected = report["collectors"].as_array().unwrap().len();
        let expected = (*outcome, counts.iter().copied().collect(), *collectors);
        assert_eq!((report["outcome"].as_str().unwrap(), told, collected), expected, "{fixture}: {report:#}");
    }
}

/// The tests that `proctor list` names.
fn listed(node: Option<&str>, fixture: &str) -> Vec<String> {
    let said = proctor(&place(fixture), node, &["list", "--output", "json"]);
    let tests = said.json()["tests"].as_array().unwrap_or_else(|| panic!("{said:?}")).clone();
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
            ("node/leaves", "failed", &[("failed", 1)], 0),
            ("node/vanishes", "collection_failed", &[("passed", 3)], 3),
            ("node/hang", "timed_out", &[("passed", 1)], 0),
        ],
    );
    // Subtests exist only while their test runs.
    assert_eq!(listed(node, "node/fail").len(), 7);
}

/// It says of a file's events which file only by the name.
#[test]
fn node_20() {
    check(
        Some("node-20"),
        &[
            ("node/pass", "passed", &[("passed", 6)], 0),
            ("node/collection", "collection_failed", &[("passed", 1)], 2),
            ("node/vanishes", "collection_failed", &[("passed", 3)], 3),
        ],
    );
}
