//! `proctor check`.

use crate::{UNUSED_IMPORT, check, stand_in_for_ruff};
use proctor_tests::process::ProcessOutput;
use proctor_tests::test_workspace::{TestWorkspace, write_before_run};
use serde_json::{Value, json};

fn findings(document: &Value) -> Vec<String> {
    let one = |finding: &Value| {
        let [file, rule] = ["file", "rule"].map(|name| finding[name].as_str().unwrap());
        format!("{file}:{} {rule}", finding["range"]["line"])
    };
    document["check"]["findings"].as_array().unwrap().iter().map(one).collect()
}

/// The outcome of `proctor check --output json`, whose exit status must be that of the report.
fn outcome(workspace: &TestWorkspace, arguments: &[&str]) -> (String, Value, i32) {
    let answer = check(workspace, &[arguments, &["--output", "json"]].concat());
    let document = answer.json();
    (document["outcome"].as_str().unwrap_or("none").to_owned(), document, answer.status)
}

#[test]
fn a_finding_has_its_place_rule_message_and_fix() {
    let workspace = TestWorkspace::with_fixture("checks/ruff/findings");
    let human = check(&workspace, &[]);
    assert_eq!(human.status, 1, "{human:?}");
    let shown = "app/totals.py:1:8: error F401 `os` imported but unused\n  fix: Remove unused import: `os`";
    assert!(human.stdout.contains(shown), "{human:?}");
    assert!(human.stdout.contains("✗ ruff checked only a part: "), "{human:?}");
    assert!(human.stdout.contains("✗ failed: 7 errors in 2 files; ruff checked only a part (ruff, "), "{human:?}");
    let (outcome, document, status) = outcome(&workspace, &["app/totals.py"]);
    assert_eq!((outcome.as_str(), status, &document["exit_code"]), ("failed", 1, &json!(1)), "{document}");
    let found = findings(&document);
    assert!(found.contains(&"app/totals.py:1 F401".to_owned()), "{found:?}");
    assert!(found.iter().all(|finding| finding.starts_with("app/totals.py:")), "{found:?}");
    let github = check(&workspace, &["--output", "github", "app/totals.py"]);
    let annotation = "::error file=app/totals.py,line=1,col=8,endLine=1,endColumn=10,title=ruff F401::`os` imported";
    assert!(github.status == 1 && github.stdout.contains(annotation), "{github:?}");
    assert!(github.stdout.starts_with("::error title=proctor::failed: "), "{github:?}");
}

#[test]
fn a_clean_project_passes_and_broken_settings_are_no_pass() {
    let clean = TestWorkspace::with_fixture("checks/ruff/clean");
    let human = check(&clean, &[]);
    assert!(human.status == 0 && human.stdout.contains("✓ passed: no findings (ruff, "), "{human:?}");
    assert_eq!(check(&clean, &["--lint"]).status, 0);
    for fixture in ["checks/ruff/broken", "checks/mypy/broken"] {
        let broken = TestWorkspace::with_fixture(fixture);
        let human = check(&broken, &[]);
        assert_eq!(human.status, 3, "{human:?}");
        assert!(human.stdout.contains("gave no verdict: ") && !human.stdout.contains("no findings"), "{human:?}");
        assert_eq!(outcome(&broken, &[]).0, "collection_failed");
    }
}

#[test]
fn a_checker_that_crashes_hangs_or_is_missing_is_never_without_findings() {
    let workspace = TestWorkspace::empty();
    stand_in_for_ruff(&workspace.path, "echo []; kill -SEGV $$");
    let (crashed, document, status) = outcome(&workspace, &[]);
    assert_eq!((crashed.as_str(), status), ("crashed", 139), "{document}");
    assert_eq!(document["check"]["checkers"][0]["status"]["status"], "failed", "{document}");
    stand_in_for_ruff(&workspace.path, "echo []; exec sleep 600");
    let human = check(&workspace, &["--timeout", "1s"]);
    assert!(human.status == 124 && human.stdout.contains("✗ timed out: no complete verdict of ruff"), "{human:?}");
    assert!(!human.stdout.contains("no findings"), "{human:?}");
    // It exits as if all was well, and its output has no end.
    stand_in_for_ruff(&workspace.path, "printf '[{'; exit 0");
    assert_eq!(outcome(&workspace, &[]).0, "collection_failed");
    let missing = TestWorkspace::with_fixture("checks/ruff/clean");
    let answer = missing.proctor(&["check"]);
    assert!(answer.status == 5 && answer.stderr.contains("ruff: install ruff in"), "{answer:?}");
}

#[test]
fn the_check_before_tells_new_findings_from_old_ones() {
    let workspace = TestWorkspace::empty();
    workspace.write("ruff.toml", "");
    workspace.write("a.py", UNUSED_IMPORT);
    workspace.write("b.py", "import sys\n");
    let first = check(&workspace, &[]);
    assert!(
        first.stdout.contains("failed: 2 errors in 2 files (ruff, ") && !first.stdout.contains(" new"),
        "{first:?}"
    );
    // One moves, one is fixed, and one is new.
    workspace.write("a.py", &format!("\n\n{UNUSED_IMPORT}"));
    workspace.write("b.py", "import json\n");
    let second = check(&workspace, &[]);
    assert!(second.stdout.contains("b.py:1:8: error F401 `json` imported but unused new\n"), "{second:?}");
    assert!(second.stdout.contains("a.py:3:8: error F401 `os` imported but unused\n"), "{second:?}");
    assert!(second.stdout.contains("; 1 new, 1 fixed"), "{second:?}");
    // A checker without a verdict fixes nothing.
    workspace.write("ruff.toml", "no-such-key = 1\n");
    assert_eq!(check(&workspace, &[]).status, 3);
    workspace.write("ruff.toml", "");
    let third = check(&workspace, &[]);
    assert!(!third.stdout.contains(" new") && !third.stdout.contains("fixed"), "{third:?}");
}

#[test]
fn a_workspace_without_settings_names_the_known_checkers() {
    let workspace = TestWorkspace::empty();
    workspace.write("a.py", UNUSED_IMPORT);
    let none = check(&workspace, &[]);
    assert!(none.status == 2 && none.stderr.contains("no checker is set up in the workspace ("), "{none:?}");
    let named = check(&workspace, &["--checker", "ruff"]);
    assert!(named.status == 1 && named.stdout.contains("a.py:1:8: error F401"), "{named:?}");
    let unknown = check(&workspace, &["--checker", "rough"]);
    assert!(unknown.status == 2 && unknown.stderr.contains("unknown checker `rough`"), "{unknown:?}");
    assert_eq!(check(&workspace, &["gone.py"]).status, 2);
}

#[test]
fn no_checker_has_a_network_and_the_workspace_stays_as_it_is() {
    let workspace = TestWorkspace::empty();
    stand_in_for_ruff(&workspace.path, "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' ' >&2; exit 2");
    workspace.write(".proctor.yaml", "sandbox:\n  allow_network: true\ncommand: \"false\"\n");
    let (_, document, _) = outcome(&workspace, &[]);
    assert_eq!(document["isolation"]["network"], "none", "{document}");
    let reason = document["check"]["checkers"][0]["status"]["reason"].as_str().unwrap();
    assert_eq!(reason, "it exited with 2: lo", "{document}");
}

/// A function that assigns a variable to itself, which `go vet` finds and `go test` does not.
fn assigns(package: &str, name: &str) -> String {
    format!("package {package}\n\nfunc {name}(x int) int {{\n\tx = x\n\treturn x\n}}\n")
}

fn go_workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "go.mod", "module example.com/m\n\ngo 1.21\n");
    for (file, content) in [
        ("a/a.go", assigns("a", "A")),
        ("b/b.go", assigns("b", "B")),
        ("b/other.go", assigns("b", "Other")),
        ("b/b_test.go", "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { B(1) }\n".to_owned()),
    ] {
        write_before_run(&workspace.path, file, &content);
    }
    workspace
}

fn since(workspace: &TestWorkspace, state: &str) -> ProcessOutput {
    check(workspace, &["--checker", "go-vet", "--since", state])
}

#[test]
fn since_looks_at_changed_files_and_counts_the_findings_in_others() {
    let workspace = go_workspace();
    let unknown = since(&workspace, "last_run");
    assert!(unknown.stdout.contains("note: all files are checked, not only those changed since"), "{unknown:?}");
    assert!(unknown.status == 1 && unknown.stdout.contains("3 warnings in 3 files"), "{unknown:?}");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    let failures = workspace.proctor(&["failures"]).stdout;
    let nothing = since(&workspace, "last_run");
    let text = "no file that is checked changed since the last run of all tests: nothing was run\n";
    assert_eq!((nothing.status, nothing.stdout.as_str()), (0, text), "{nothing:?}");
    write_before_run(&workspace.path, "b/b.go", &format!("{}\n// Edited.\n", assigns("b", "B")));
    let changed = since(&workspace, "last_green");
    assert!(changed.status == 1 && changed.stdout.contains("b/b.go:4:"), "{changed:?}");
    assert!(!changed.stdout.contains("b/other.go:") && !changed.stdout.contains("a/a.go:"), "{changed:?}");
    let left_out = "1 finding in files that did not change since the last state at which every test passed left out\n";
    assert!(changed.stdout.contains(left_out) && changed.stdout.contains("1 warning in 1 changed file"), "{changed:?}");
    write_before_run(&workspace.path, "go.mod", "module example.com/m\n\ngo 1.22\n");
    let settings = since(&workspace, "last_run");
    assert!(settings.stdout.contains("go.mod changed, which may have settings of a checker"), "{settings:?}");
    assert!(settings.stdout.contains("3 warnings in 3 files"), "{settings:?}");
    let none = since(&workspace, "no-such-revision");
    assert!(none.status == 2 && none.stderr.contains("since: "), "{none:?}");
    // What is known of the tests stays.
    assert_eq!(workspace.proctor(&["failures"]).stdout.split('(').next(), failures.split('(').next());
    assert_eq!(workspace.proctor(&["report"]).json()["framework"], "go");
}
