//! Test scripts that proctor cannot parse but that start Mocha or Jest: each test is reported.

use proctor_tests::process::{ensure_installed, tools};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::sync::Once;

const MOCHA: &str = "const { spawnSync } = require('child_process');\n\
    const { status } = spawnSync('mocha', ['-R', 'dot', 'test.js'], { stdio: 'inherit' });\nprocess.exit(status);\n";

/// Starts Jest as `react-scripts test` does: within its own process, without a command line of Jest.
const JEST: &str =
    "process.env.NODE_ENV = 'test';\nrequire('jest').run(['--rootDir', __dirname, '--testRegex', 'test.js$']);\n";

/// A workspace whose test script is the program `run`, which starts `runner` on `test.js`.
fn script_workspace(runner: &str, run: &str, test: &str) -> TestWorkspace {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("node-packages"));
    let workspace = TestWorkspace::empty();
    symlink(tools().join("node/lib/node_modules"), workspace.path.join("node_modules")).unwrap();
    workspace.write(
        "package.json",
        &format!(r#"{{"scripts":{{"test":"node run.js"}},"devDependencies":{{"{runner}":"*"}}}}"#),
    );
    workspace.write("run.js", run);
    workspace.write("test.js", test);
    workspace
}

fn run_report(workspace: &TestWorkspace, arguments: &[&str]) -> (i32, Value) {
    let output = workspace.proctor(&[&["run", "--output", "json"], arguments].concat());
    (output.status, output.json())
}

/// Checks that the passing and the failing test (line 3: 1 is not 2) are reported as by the runner itself.
fn assert_both_are_reported(workspace: &TestWorkspace) {
    let (status, report) = run_report(workspace, &[]);
    assert_eq!(
        (status, &report["framework"], &report["outcome"]),
        (1, &json!("script"), &json!("failed")),
        "{report:#}"
    );
    let tests: Vec<Value> =
        report["tests"].as_array().unwrap().iter().map(|test| json!([test["name"], test["outcome"]])).collect();
    assert_eq!(json!(tests), json!([["test.js > fails", "failed"], ["test.js > adds", "passed"]]));
    let failed = &report["tests"][0];
    assert_eq!(
        json!([failed["package"], failed["file"], failed["line"], failed["expected"], failed["actual"]]),
        json!(["node run.js", "test.js", 3, "2", "1"])
    );
}

#[test]
fn reports_each_mocha_test_below_a_wrapper_script() {
    let workspace = script_workspace(
        "mocha",
        MOCHA,
        "it('adds', () => {});\nit('fails', () => {\n  require('assert').strictEqual(1, 2);\n});\n",
    );
    assert_both_are_reported(&workspace);
    let (status, again) = run_report(&workspace, &["--failed"]);
    assert_eq!((status, again["tests"].as_array().unwrap().len()), (1, 2), "a rerun repeats the whole command");
}

#[test]
fn mocha_that_exits_early_below_a_wrapper_does_not_pass() {
    let workspace = script_workspace(
        "mocha",
        MOCHA,
        "it('adds', () => {});\nit('leaves', () => process.exit(0));\nit('fails', () => { throw 1; });\n",
    );
    let (status, report) = run_report(&workspace, &[]);
    assert_eq!((status, &report["outcome"]), (1, &json!("failed")), "{report:#}");
}

#[test]
fn reports_each_jest_test_below_a_wrapper_script() {
    let workspace =
        script_workspace("jest", JEST, "it('adds', () => {});\nit('fails', () => {\n  expect(1).toBe(2);\n});\n");
    assert_both_are_reported(&workspace);
}

#[test]
fn jest_that_exits_early_below_a_wrapper_does_not_pass() {
    let exits = "setInterval(() => require('fs').existsSync('begun') && process.exit(0), 50);\n";
    let waits = "it('waits', () => {\n  require('fs').writeFileSync('begun', '');\n  return new Promise(() => {});\n}, 600_000);\n";
    let workspace = script_workspace("jest", &format!("{exits}{JEST}"), waits);
    let (status, report) = run_report(&workspace, &[]);
    assert_ne!((status, &report["outcome"]), (0, &json!("passed")), "{report:#}");
    assert_eq!(report["framework"], "script");
}
