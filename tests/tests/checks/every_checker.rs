//! Every checker, by its real program, on the project of `fixtures/checks` that it finds something in, on the one without
//! findings, and on the one whose settings are broken. golangci-lint is known by its recordings alone: it takes minutes to build.

use crate::{check, path_with_checkers};
use proctor_tests::process::tools;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

/// Findings of a checker: its name, the project, errors, warnings, and whether it saw all of the project.
type Expected = (&'static str, &'static str, u64, u64, bool);

const EXPECTED: &[Expected] = &[
    ("ruff", "findings", 7, 0, false),
    ("mypy", "findings", 4, 0, true),
    ("mypy", "syntax", 2, 0, false),
    ("pyright", "findings", 6, 0, true),
    ("eslint", "findings", 3, 1, false),
    ("biome", "findings", 3, 2, false),
    ("tsc", "findings", 6, 0, true),
    ("tsc", "syntax", 3, 0, false),
    ("go-vet", "findings", 0, 2, true),
    ("go-vet", "errors", 1, 0, false),
    ("go-types", "findings", 4, 0, false),
    ("clippy", "findings", 0, 5, true),
    ("clippy", "errors", 2, 0, false),
    ("cargo-check", "findings", 2, 0, false),
];

/// Checkers that a project has among its own packages.
const OF_NODE: [&str; 4] = ["biome", "eslint", "pyright", "tsc"];

fn project(checker: &str, name: &str) -> TestWorkspace {
    let workspace = TestWorkspace::with_fixture(&format!("checks/{checker}/{name}"));
    if OF_NODE.contains(&checker) {
        path_with_checkers();
        symlink(tools().join("checkers-node/lib/node_modules"), workspace.path.join("node_modules")).unwrap();
    }
    workspace
}

fn all_projects_of(checker: &str) {
    let expected: Vec<&Expected> = EXPECTED.iter().filter(|expected| expected.0 == checker).collect();
    assert!(!expected.is_empty(), "{checker}");
    for (_, name, errors, warnings, is_whole) in expected {
        let answer = check(&project(checker, name), &["--checker", checker, "--output", "json"]);
        let document = answer.json();
        let (of_checker, severities) = (&document["check"]["checkers"][0], &document["check"]["severities"]);
        let status = if *is_whole { "complete" } else { "partial" };
        assert_eq!(of_checker["status"]["status"], status, "{checker} {name}: {document}");
        assert_eq!((&severities["errors"], &severities["warnings"]), (&json!(errors), &json!(warnings)), "{document}");
        assert_eq!((answer.status, &document["outcome"]), (1, &json!("failed")), "{document}");
    }
    let clean = check(&project(checker, "clean"), &["--checker", checker, "--output", "json"]);
    assert_eq!((clean.status, &clean.json()["outcome"]), (0, &json!("passed")), "{checker}: {clean:?}");
    let broken = check(&project(checker, "broken"), &["--checker", checker, "--output", "json"]).json();
    assert_eq!(broken["check"]["checkers"][0]["status"]["status"], "failed", "{checker}: {broken}");
    assert!(broken["outcome"] == "collection_failed" || broken["outcome"] == "failed", "{checker}: {broken}");
}

macro_rules! checkers {
    ($($test:ident: $name:literal)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(#[test] fn $test() { all_projects_of($name); })*
    };
}

checkers! {
    biome: "biome"
    cargo_check: "cargo-check"
    clippy: "clippy"
    eslint: "eslint"
    go_types: "go-types"
    go_vet: "go-vet"
    mypy: "mypy"
    pyright: "pyright"
    ruff: "ruff"
    tsc: "tsc"
}

#[test]
fn every_fixture_of_a_checker_is_tested() {
    let dir = proctor_tests::process::source_root().join("fixtures/checks");
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "golangci-lint" && name != "monorepo");
    names.sort();
    assert_eq!(names, TESTED);
}
