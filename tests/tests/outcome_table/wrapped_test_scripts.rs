//! Test scripts that cannot be read and start Mocha or Jest all the same: each test is told. Must not know how the adapter does it.

use proctor_tests::process::{ensure_installed, tools};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::sync::Once;

const MOCHA: &str = "const { spawnSync } = require('child_process');\n\
    const { status } = spawnSync('mocha', ['-R', 'dot', 'test.js'], { stdio: 'inherit' });\nprocess.exit(status);\n";

/// As `react-scripts test` does: within its own process, where no command line of Jest's is.
const JEST: &str =
    "process.env.NODE_ENV = 'test';\nrequire('jest').run(['--rootDir', __dirname, '--testRegex', 'test.js$']);\n";

/// A workspace whose test script is this program, which starts this runner on `test.js`.
fn place(runner: &str, run: &str, test: &str) -> TestWorkspace {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("node-packages"));
    let place = TestWorkspace::empty();
    symlink(tools().join("node/lib/node_modules"), place.workspace.join("node_modules")).unwrap();
    place.write(
        "package.json",
        &format!(r#"{{"scripts":{{"test":"node run.js"}},"devDependencies":{{"{runner}":"*"}}}}"#),
    );
    place.write("run.js", run);
    place.write("test.js", test);
    place
}

fn report(place: &TestWorkspace, arguments: &[&str]) -> (i32, Value) {
    let said = place.proctor(&[&["run", "--output", "json"], arguments].concat());
    (said.status, said.json())
}

/// That the test that passes and the one that fails, in line 3 since 1 is not 2, are told as the runner's own.
fn assert_both_are_told(place: &TestWorkspace) {
    let (status, told) = report(place, &[]);
    assert_eq!((status, &told["framework"], &told["outcome"]), (1, &json!("script"), &json!("failed")), "{told:#}");
    let tests: Vec<Value> =
        told["tests"].as_array().unwrap().iter().map(|test| json!([test["name"], test["outcome"]])).collect();
    assert_eq!(json!(tests), json!([["test.js > fails", "failed"], ["test.js > adds", "passed"]]));
    let failed = &told["tests"][0];
    assert_eq!(
        json!([failed["package"], failed["file"], failed["line"], failed["expected"], failed["actual"]]),
        json!(["node run.js", "test.js", 3, "2", "1"])
    );
}

#[test]
fn tests_of_mocha_below_a_script_that_is_not_read_are_told_one_by_one() {
    let place = place(
        "mocha",
        MOCHA,
        "it('adds', () => {});\nit('fails', () => {\n  require('assert').strictEqual(1, 2);\n});\n",
    );
    assert_both_are_told(&place);
    let (status, again) = report(&place, &["--failed"]);
    assert_eq!((status, again["tests"].as_array().unwrap().len()), (1, 2), "a rerun is one of the command");
}

#[test]
fn a_mocha_below_a_script_that_leaves_by_itself_has_not_passed() {
    let place = place(
        "mocha",
        MOCHA,
        "it('adds', () => {});\nit('leaves', () => process.exit(0));\nit('fails', () => { throw 1; });\n",
    );
    let (status, told) = report(&place, &[]);
    assert_eq!((status, &told["outcome"]), (1, &json!("failed")), "{told:#}");
}

#[test]
fn tests_of_jest_below_a_script_that_is_not_read_are_told_one_by_one() {
    let place = place("jest", JEST, "it('adds', () => {});\nit('fails', () => {\n  expect(1).toBe(2);\n});\n");
    assert_both_are_told(&place);
}

#[test]
fn a_jest_below_a_script_that_ends_early_has_not_passed() {
    let leaves = "setInterval(() => require('fs').existsSync('begun') && process.exit(0), 50);\n";
    let waits = "it('waits', () => {\n  require('fs').writeFileSync('begun', '');\n  return new Promise(() => {});\n}, 600_000);\n";
    let place = place("jest", &format!("{leaves}{JEST}"), waits);
    let (status, told) = report(&place, &[]);
    assert_ne!((status, &told["outcome"]), (0, &json!("passed")), "{told:#}");
    assert_eq!(told["framework"], "script");
}
