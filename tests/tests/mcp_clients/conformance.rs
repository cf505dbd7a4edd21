//! The frozen requirement sets of the conformance suite, over HTTP. The suite's client sends no token, so a proxy adds it.

use crate::node_program::NodeProgram;
use proctor_tests::http_shim::HttpShim;
use proctor_tests::process::wait_for_exit;
use proctor_tests::test_workspace::TestWorkspace;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

/// Scenarios that fail, each with its reason.
const UNSUPPORTED: &str = include_str!("unsupported_scenarios.txt");

fn unsupported(revision: &str) -> BTreeSet<&str> {
    let lines = UNSUPPORTED.lines().filter_map(|line| line.strip_prefix(revision));
    lines.map(|line| line.split_once(':').unwrap().0.trim()).collect()
}

fn check(revision: &str) {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let shim = HttpShim::start(&workspace);
    let origin = shim.url().strip_suffix("/mcp").unwrap();
    let (mut proxy, _scripts) = NodeProgram::script("add_token.mjs").arg(origin).arg(shim.token()).start();
    let mut url = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let mut suite = NodeProgram::package("conformance").args(["server", "--requirements", revision, "--url"]);
    suite = suite.arg(format!("{}/mcp", url.trim()));
    let output = suite.finish("").stdout;
    drop(proxy.stdin.take());
    assert_eq!(wait_for_exit(proxy).status, 0);
    shim.stop();
    let (_, summary) = output.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{output}"));
    let (summary, _) = summary.split_once("Total:").unwrap();
    let scenarios = |mark: char| -> BTreeSet<&str> {
        let lines = summary.lines().filter_map(|line| line.trim().strip_prefix(mark));
        lines.map(|line| line.split_once(':').unwrap().0.trim()).collect()
    };
    assert_eq!(scenarios('✗'), unsupported(revision), "{output}");
    assert!(scenarios('✓').contains("tools-list"), "{output}");
}

#[test]
fn revision_2025_11_25() {
    check("2025-11-25");
}

#[test]
fn revision_2026_07_28() {
    check("2026-07-28");
}
