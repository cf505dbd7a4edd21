//! Tests of JavaScript and TypeScript, by what their files load.

use crate::{affected, names, run_affected, run_all, write_all};
use proctor_tests::process::search_path_with_newest_node;
use proctor_tests::test_workspace::{TestWorkspace, link_node_packages, write_before_run};
use serde_json::json;
use std::fs;

const PRICE_JS: &str = "function total(a) {\n  return a * 2;\n}\n\nfunction tax(a) {\n  return a;\n}\n\nmodule.exports = { total, tax };\n";

/// Test files that load the price through a barrel, something while they run, a module in place of the price, and nothing.
const JEST: [(&str, &str); 14] = [
    ("package.json", r#"{"scripts":{"test":"jest"},"jest":{"setupFiles":["./setup.js"],"globalSetup":"./global.js"}}"#),
    ("setup.js", "global.mode = 1;\n"),
    ("global.js", "const { rate } = require('./src/rate');\nmodule.exports = async () => rate;\n"),
    ("src/rate.js", "exports.rate = 3;\n"),
    ("src/data.json", "{}\n"),
    ("src/price.js", PRICE_JS),
    ("src/barrel.js", "module.exports = { ...require('./price') };\n"),
    ("src/late.js", "exports.late = 4;\n"),
    ("src/cart.js", "exports.lazy = () => require('./late').late;\n"),
    ("src/unused.js", "exports.unused = 1;\n"),
    ("src/price.test.js", "const { total } = require('./barrel');\ntest('total', () => expect(total(1)).toBe(2));\n"),
    ("src/cart.test.js", "const { lazy } = require('./cart');\ntest('lazy', () => expect(lazy()).toBe(4));\n"),
    (
        "src/mocked.test.js",
        "jest.mock('./price', () => ({ total: () => 3 }));\ntest('mocked', () => expect(require('./price').total()).toBe(3));\n",
    ),
    ("src/alone.test.js", "test('alone', () => expect('a').toMatchSnapshot());\n"),
];

const SNAPSHOT: &str =
    "// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing\n\nexports[`alone 1`] = `\"a\"`;\n";

fn javascript_workspace(files: &[(&str, &str)]) -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    link_node_packages(&workspace.path);
    write_all(&workspace.path, files);
    workspace
}

#[test]
fn jest_tests_follow_what_their_files_loaded() {
    let workspace = javascript_workspace(&JEST);
    let path = &workspace.path;
    write_before_run(path, "src/__snapshots__/alone.test.js.snap", SNAPSHOT);
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(affected(&workspace, "last_run"), "");

    write_before_run(path, "src/price.js", &PRICE_JS.replace("a * 2", "a + 1"));
    assert_eq!(affected(&workspace, "last_run"), "total executed a changed line: src/price.js");
    let some = run_affected(&workspace, 0);
    assert_eq!(names(&some), ["total"]);
    assert_eq!(
        (&some["outcome"], &some["affected"]["selected"], &some["affected"]["left_out"]),
        (&json!("passed"), &json!(1), &json!(3))
    );
    assert!(some["affected"]["safe_because"].as_str().unwrap().contains("3 test(s) left out"), "{some}");
    assert_eq!(affected(&workspace, "last_run"), "");
    let executed = |name: &str, file: &str| format!("{name} executed a changed line: {file}");
    let loads = |name: &str, file: &str| format!("{name} loads a changed file: {file}");
    let own = |name: &str, file: &str| format!("{name} own file or package changed: {file}");
    let alone = "src/alone.test.js";
    for (file, text, expected) in [
        ("src/price.js", "exports.total = (a) => a + 1;\n", executed("total", "src/price.js")),
        ("src/barrel.js", "module.exports = { ...require('./price'), more: 1 };\n", executed("total", "src/barrel.js")),
        ("src/late.js", "exports.late = 2 + 2;\n", executed("lazy", "src/late.js")),
        (alone, "test('alone', () => expect('a').toMatchSnapshot());\n// More.\n", executed("alone", alone)),
    ] {
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), expected);
        assert_eq!(names(&run_affected(&workspace, 0)).len(), 1);
    }
    let snapshot = "src/__snapshots__/alone.test.js.snap";
    write_before_run(path, snapshot, &SNAPSHOT.replace("\"a\"", "\"b\""));
    assert_eq!(affected(&workspace, "last_run"), own("alone", snapshot));
    assert_eq!(names(&run_affected(&workspace, 1)), ["alone"]);
    write_before_run(path, snapshot, SNAPSHOT);
    assert_eq!(names(&run_affected(&workspace, 0)), ["alone"]);

    write_before_run(path, "src/new.test.js", "test('new', () => {});\n");
    assert_eq!(names(&run_affected(&workspace, 0)), ["new"]);
    fs::rename(path.join("src/new.test.js"), path.join("src/named.test.js")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), "new src/named.test.js");
    assert_eq!(names(&run_affected(&workspace, 0)), ["new"]);
    write_before_run(path, "src/other.js", "exports.other = 1;\n");
    assert_eq!(affected(&workspace, "last_run"), "", "no source names it, and it stands in for no other");
    fs::remove_file(path.join("src/other.js")).unwrap();
    // A run without coverage forgets what it may have changed, and nothing else.
    write_before_run(path, "src/late.js", "exports.late = 5 - 1;\n");
    assert_eq!(workspace.proctor(&["run", "--coverage", "off"]).status, 0);
    write_before_run(path, "src/price.js", "exports.total = (a) => 1 + a;\n");
    let unknown = "lazy what it executes is not known";
    assert_eq!(affected(&workspace, "last_run"), format!("{}, {unknown}", executed("total", "src/price.js")));
    assert_eq!(workspace.proctor(&["run", "--coverage", "on"]).status, 0);
    fs::remove_file(path.join("src/late.js")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), loads("lazy", "src/late.js"));
    fs::remove_file(path.join("src/price.js")).unwrap();
    let replaced = affected(&workspace, "last_run");
    assert!(replaced.contains(&loads("mocked", "src/price.js")), "it names what is gone: {replaced}");
}

#[test]
fn one_measured_test_does_not_make_its_file_known() {
    let source = |body: &str| format!("const {{ b }} = require('./b');\nexports.a = (n) => {{\n  {body}\n}};\n");
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"jest"}}"#),
        ("a.js", &source("return n + 1;")),
        ("b.js", "exports.b = (n) => {\n  return n + 1;\n};\n"),
        (
            "a.test.js",
            "const { a } = require('./a');\ntest('t1', () => expect(a(1)).toBe(2));\ntest('t2', () => expect(a(2)).toBe(3));\n",
        ),
        ("b.test.js", "const { b } = require('./b');\ntest('b', () => expect(b(1)).toBeGreaterThan(0));\n"),
    ]);
    let path = &workspace.path;
    run_all(&workspace, false, 0);
    write_before_run(path, "a.js", &source("return n === 2 ? b(n) : n + 1;"));
    run_all(&workspace, true, 0);
    assert_eq!(workspace.proctor(&["run", "--test", "t1"]).status, 0);
    write_before_run(path, "b.js", "exports.b = (n) => {\n  return n + 2;\n};\n");
    let selected = affected(&workspace, "last_run");
    assert!(selected.contains("t2 what it executes is not known"), "{selected}");
}

#[test]
fn what_a_test_file_loads_at_other_files_does_not_make_it_known() {
    let helper = |k: u32| format!("exports.k = {k};\nexports.h = () => {{\n  return 1;\n}};\n");
    let alone = "test('t1', () => {});\ntest('t2', () => {});\n";
    let using = "const { k, h } = require('./helper');\ntest('t1', () => expect(k).toBe(1));\ntest('t2', () => expect(h()).toBe(1));\n";
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"jest"}}"#),
        ("helper.js", &helper(1)),
        ("a.test.js", alone),
        ("b.test.js", "test('b', () => {});\n"),
        ("c.test.js", "const { h } = require('./helper');\ntest('c', () => expect(h()).toBeLessThan(9));\n"),
    ]);
    let path = &workspace.path;
    run_all(&workspace, false, 0);
    write_before_run(path, "a.test.js", using);
    run_all(&workspace, true, 0);
    write_before_run(path, "a.test.js", alone);
    assert_eq!(workspace.proctor(&["run", "--file", "a.test.js"]).status, 0);
    write_before_run(path, "a.test.js", using);
    write_before_run(path, "helper.js", &helper(2));
    let selected = affected(&workspace, "last_run");
    for test in ["t1", "t2", "c"] {
        assert!(selected.contains(&format!("{test} ")), "{test}: {selected}");
    }
}

#[test]
fn jest_tests_all_run_after_a_change_that_no_test_was_seen_to_load() {
    let workspace = javascript_workspace(&JEST[..13]);
    let path = &workspace.path;
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    for (file, text, expected) in [
        ("setup.js", "global.mode = 2;\n", "full: setup.js, which the runner loads for itself, was changed"),
        ("src/rate.js", "exports.rate = 4;\n", "full: src/rate.js, which the runner loads for itself, was changed"),
        ("src/data.json", "{ }\n", "full: src/data.json was changed, and any test may read it"),
        (
            "src/unused.js",
            "exports.unused = 2;\n",
            "full: src/unused.js was changed, and no test was seen to load it: a setting, a transformer or a type check may",
        ),
        ("src/price.ts", "", "full: src/price.ts was added, and it may be loaded in place of src/price.js"),
        (
            "src/__mocks__/x.js",
            "",
            "full: src/__mocks__/x.js was added, and it may be loaded in place of a module that tests replace",
        ),
        ("jest.config.js", "", "full: jest.config.js, a test runner's settings, was added"),
        (".env", "A=1\n", "full: .env, environment variables, was added"),
    ] {
        let before = fs::read_to_string(path.join(file)).ok();
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), expected);
        match before {
            Some(before) => write_before_run(path, file, &before),
            None => fs::remove_file(path.join(file)).unwrap(),
        }
    }
    assert_eq!(affected(&workspace, "last_run"), "");
    // Without a measurement it is not known what the changed test loads now, and it was the only one to load the file.
    write_before_run(path, "src/late.js", "exports.late = 4;\n\n");
    run_all(&workspace, true, 0);
    write_before_run(path, "src/late.js", "exports.late = 4;\n");
    let full =
        "full: src/late.js was changed, and no test was seen to load it: a setting, a transformer or a type check may";
    assert_eq!(affected(&workspace, "last_run"), full);
}

const PRICE_TS: &str = "export function total(a: number): number {\n  return a * 2;\n}\n";

const VITEST: [(&str, &str); 12] = [
    ("package.json", r#"{"type":"module","scripts":{"test":"vitest run"}}"#),
    (
        "vitest.config.ts",
        "import { mode } from './mode';\nexport default { test: { setupFiles: './setup.ts', name: mode } };\n",
    ),
    ("mode.ts", "export const mode = 'unit';\n"),
    ("setup.ts", "globalThis.mode = 1;\n"),
    ("src/price.ts", PRICE_TS),
    ("src/index.ts", "export * from './price';\n"),
    ("src/late.ts", "export const late = 4;\n"),
    ("src/types.ts", "export type Late = number;\n"),
    (
        "src/price.test.ts",
        "import { expect, test } from 'vitest';\nimport { total } from './index';\ntest('total', () => expect(total(1)).toBe(2));\n",
    ),
    (
        "src/late.test.ts",
        "import { expect, test } from 'vitest';\nimport type { Late } from './types';\ntest('late', async () => {\n  const late: Late = (await import('./late')).late;\n  expect(late).toBe(4);\n});\n",
    ),
    (
        "src/mocked.test.ts",
        "import { expect, test, vi } from 'vitest';\nimport { total } from './price';\nvi.mock('./price', () => ({ total: () => 3 }));\ntest('mocked', () => expect(total(1)).toBe(3));\n",
    ),
    (
        "src/reader.test.ts",
        "import { readFileSync } from 'node:fs';\nimport { expect, test } from 'vitest';\ntest('reads', () => expect(readFileSync('package.json')).toBeDefined());\n",
    ),
];

#[test]
fn vitest_tests_follow_what_their_files_loaded() {
    let workspace = javascript_workspace(&VITEST);
    let path = &workspace.path;
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(affected(&workspace, "last_run"), "");
    let reads = |file: &str| format!("reads may run or read any source: {file}");
    write_before_run(path, "src/price.ts", &PRICE_TS.replace("a * 2", "a + 1"));
    let executed = format!("total executed a changed line: src/price.ts, {}", reads("src/price.ts"));
    assert_eq!(affected(&workspace, "last_run"), executed);
    let some = run_affected(&workspace, 0);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["reads".into(), "total".into()], &json!(2)));
    for (file, text, expected) in [
        ("src/index.ts", "export { total } from './price';\n", "total loads a changed file"),
        ("src/late.ts", "export const late = 2 + 2;\n", "late executed a changed line"),
    ] {
        write_before_run(path, file, text);
        let expected = format!("{expected}: {file}, {}", reads(file));
        assert_eq!(affected(&workspace, "last_run"), expected);
        assert_eq!(names(&run_affected(&workspace, 0)).len(), 2);
    }
    for (file, text, expected) in [
        ("src/types.ts", "export type Late = 4;\n", "full: src/types.ts was changed, and no test was seen to load it"),
        ("mode.ts", "export const mode = 'all';\n", "full: mode.ts, which the runner loads for itself, was changed"),
        ("vitest.config.ts", "export default {};\n", "full: vitest.config.ts, a test runner's settings, was changed"),
    ] {
        let before = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, text);
        let found = affected(&workspace, "last_run");
        assert!(found.starts_with(expected), "{found}");
        write_before_run(path, file, &before);
    }
    write_before_run(path, "setup.ts", "globalThis.mode = 2;\n");
    assert_eq!(names(&run_affected(&workspace, 0)).len(), 4, "each test file loads it");
    fs::remove_file(path.join("src/late.ts")).unwrap();
    assert!(affected(&workspace, "last_run").starts_with("late loads a changed file: src/late.ts"));
}

#[test]
fn vitest_tests_follow_what_their_last_hooks_load() {
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"type":"module","scripts":{"test":"vitest run"}}"#),
        ("vitest.config.ts", "export default { test: {} };\n"),
        ("src/after.ts", "export const after = 1;\n"),
        ("src/last.ts", "export const last = 2;\n"),
        (
            "src/hooks.test.ts",
            "import { afterAll, beforeAll, expect, test } from 'vitest';\nbeforeAll(() => async () => void (await import('./last')));\nafterAll(async () => void (await import('./after')));\ntest('hooks', () => expect(1).toBe(1));\n",
        ),
        ("src/other.test.ts", "import { expect, test } from 'vitest';\ntest('other', () => expect(1).toBe(1));\n"),
    ]);
    let path = &workspace.path;
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    for (file, text) in [("src/after.ts", "export const after = 3;\n"), ("src/last.ts", "export const last = 4;\n")] {
        let before = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), format!("hooks executed a changed line: {file}"));
        write_before_run(path, file, &before);
    }
    write_before_run(path, "vitest.config.ts", "export default { test: { sequence: { hooks: 'parallel' } } };\n");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(path, "src/last.ts", "export const last = 5;\n");
    let found = affected(&workspace, "last_run");
    assert!(found.starts_with("full: which files the tests load has not been measured"), "{found}");
}

#[test]
fn nodes_tests_follow_what_their_files_loaded() {
    let body = |name: &str, call: &str| {
        format!(
            "import assert from 'node:assert';\nimport {{ test }} from 'node:test';\nimport {{ {name} }} from '../src/price.mjs';\ntest('{name}', () => {{\n  assert.equal({call}, 4);\n}});\n"
        )
    };
    let mut workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"node --test"}}"#),
        (
            "src/price.mjs",
            "export function total(a) {\n  return a * 2;\n}\n\nexport function tax(a) {\n  return a;\n}\n",
        ),
        ("src/rates.json", "{}\n"),
        ("src/unused.mjs", "export const unused = 1;\n"),
        ("test/total.test.mjs", &body("total", "total(2)")),
        ("test/tax.test.mjs", &body("tax", "tax(4)")),
        ("src/later.mjs", "export const later = 1;\n"),
        (
            "test/later.test.mjs",
            "import { describe } from 'node:test';\nimport { later } from '../src/later.mjs';\ndescribe('later', { skip: true }, () => {});\n",
        ),
        ("test/rates.test.cjs", "require('node:test').test('rates', () => require('../src/rates.json'));\n"),
    ]);
    workspace.search_path = search_path_with_newest_node();
    let path = &workspace.path;
    assert_eq!(names(&run_affected(&workspace, 0)), ["rates", "tax", "total"]);
    let price = fs::read_to_string(path.join("src/price.mjs")).unwrap();
    let with_rate = format!("export const rate = 2;\n{price}");
    let is_full = |why: &str| format!("full: {why}");
    for (file, text, expected) in [
        ("src/price.mjs", price.replace("a * 2", "a * 3"), "total executed a changed line: src/price.mjs".to_owned()),
        (
            "src/price.mjs",
            with_rate,
            "tax loads a changed file: src/price.mjs, total loads a changed file: src/price.mjs".to_owned(),
        ),
        ("src/rates.json", "{ }\n".to_owned(), is_full("src/rates.json was changed, and any test may read it")),
        ("test/new.test.mjs", body("tax", "tax(5)"), "new test/new.test.mjs".to_owned()),
        // Nothing of this test file runs, but it fails to load.
        ("src/later.mjs", "export const never = 1;\n".to_owned(), "new test/later.test.mjs".to_owned()),
        (
            "test/helper.mjs",
            String::new(),
            is_full(
                "test/helper.mjs was added, and it may be a test file: Node runs all that is below a directory `test`",
            ),
        ),
        (
            "src/unused.mjs",
            String::new(),
            is_full(
                "src/unused.mjs was changed, and no test was seen to load it: a setting, a transformer or a type check may",
            ),
        ),
    ] {
        let before = fs::read_to_string(path.join(file)).ok();
        write_before_run(path, file, &text);
        assert_eq!(affected(&workspace, "last_run"), expected);
        match before {
            Some(before) => write_before_run(path, file, &before),
            None => fs::remove_file(path.join(file)).unwrap(),
        }
    }
    write_before_run(path, "src/later.mjs", "export const later = 2;\n");
    assert_eq!(run_affected(&workspace, 4)["outcome"], "no_tests", "the suite is skipped");
    write_before_run(path, "src/later.mjs", "export const never = 1;\n");
    assert_eq!(run_affected(&workspace, 3)["outcome"], "collection_failed");
    write_before_run(path, "src/later.mjs", "export const later = 1;\n");
    write_before_run(path, "src/price.mjs", &price.replace("a * 2", "a * 3"));
    let report = run_affected(&workspace, 1);
    assert_eq!((names(&report), &report["affected"]["left_out"]), (vec!["total".to_owned()], &json!(2)), "{report}");
}

/// A test that starts a process, one that calls a function itself, and one that does neither, each behind `imports`. No text says that it
/// starts one, as where a package does.
fn with_a_process(script: &str, imports: &str) -> TestWorkspace {
    let start = "test('starts', async () => {\n  const { ['exec' + 'FileSync']: run } = await import(['node:child', 'process'].join('_'));\n  run(process.execPath, ['bin/cli.mjs']);\n});\n";
    let total = "import { total } from '../src/price.mjs';\ntest('total', () => void total(2));\n";
    let mut workspace = javascript_workspace(&[
        ("package.json", &format!(r#"{{"scripts":{{"test":"{script}"}}}}"#)),
        ("bin/cli.mjs", "import { total } from '../src/price.mjs';\nif (total(2) !== 4) process.exitCode = 1;\n"),
        ("src/price.mjs", "export function total(a) {\n  return a * 2;\n}\n"),
        ("test/starts.test.mjs", &format!("{imports}{start}")),
        ("test/total.test.mjs", &format!("{imports}{total}")),
        ("test/alone.test.mjs", &format!("{imports}test('alone', () => {{}});\n")),
    ]);
    workspace.search_path = search_path_with_newest_node();
    workspace
}

fn check_a_test_with_a_process(workspace: &TestWorkspace, price: &str) {
    assert_eq!(names(&run_affected(workspace, 0)), ["alone", "starts", "total"]);
    let text = fs::read_to_string(workspace.path.join(price)).unwrap();
    write_before_run(&workspace.path, price, &text.replace("a * 2", "a * 3"));
    assert_eq!(names(&run_affected(workspace, 1)), ["starts", "total"]);
}

#[test]
fn a_test_of_node_that_starts_a_process_runs_with_any_change() {
    check_a_test_with_a_process(&with_a_process("node --test", "import { test } from 'node:test';\n"), "src/price.mjs");
}

#[test]
fn a_test_of_vitest_that_starts_a_process_runs_with_any_change() {
    check_a_test_with_a_process(&with_a_process("vitest run", "import { test } from 'vitest';\n"), "src/price.mjs");
}

/// The same as CommonJS modules.
fn with_a_process_of_common_js(runner: &str) -> TestWorkspace {
    let start = "test('starts', () => {\n  const { ['exec' + 'FileSync']: run } = require(['node:child', 'process'].join('_'));\n  run(process.execPath, ['bin/cli.js']);\n});\n";
    let test = if runner == "mocha" { "const test = it;\n" } else { "" };
    javascript_workspace(&[
        ("package.json", &format!(r#"{{"scripts":{{"test":"{runner}"}}}}"#)),
        ("bin/cli.js", "const { total } = require('../src/price');\nif (total(2) !== 4) process.exitCode = 1;\n"),
        ("src/price.js", "exports.total = (a) => {\n  return a * 2;\n};\n"),
        ("test/starts.test.js", &format!("{test}{start}")),
        (
            "test/total.test.js",
            &format!("{test}const {{ total }} = require('../src/price');\ntest('total', () => void total(2));\n"),
        ),
        ("test/alone.test.js", &format!("{test}test('alone', () => {{}});\n")),
    ])
}

#[test]
fn a_test_of_jest_that_starts_a_process_runs_with_any_change() {
    check_a_test_with_a_process(&with_a_process_of_common_js("jest"), "src/price.js");
}

#[test]
fn a_test_of_mocha_that_starts_a_process_runs_with_any_change() {
    check_a_test_with_a_process(&with_a_process_of_common_js("mocha"), "src/price.js");
}

/// Test files of Mocha that load the price through a barrel, another source that an earlier test file has loaded, something while they
/// run, and nothing; one that calls what only another has loaded.
const MOCHA: [(&str, &str); 13] = [
    ("package.json", r#"{"scripts":{"test":"mocha --require ./test/setup.js"}}"#),
    ("test/setup.js", "global.rate = require('../src/rate').rate;\n"),
    ("src/rate.js", "exports.rate = 3;\n"),
    ("src/price.js", PRICE_JS),
    ("src/barrel.js", "module.exports = { ...require('./price') };\n"),
    ("src/late.js", "exports.late = () => 4;\n"),
    ("src/cart.js", "exports.lazy = () => require('./late').late();\n"),
    ("test/alone.js", "it('alone', () => {});\n"),
    ("test/cart.js", "const { lazy } = require('../src/cart');\nit('lazy', () => void lazy());\n"),
    (
        "test/mode.js",
        "const { mode } = require('../src/mode');\nit('mode', () => {\n  if (mode() !== 1) throw new Error();\n});\n",
    ),
    ("src/mode.js", "exports.mode = () => {\n  return 1;\n};\nArray.mode = exports.mode;\n"),
    ("test/other.js", "const { lazy } = require('../src/cart');\nit('other', () => void (lazy(), Array.mode?.()));\n"),
    (
        "test/total.js",
        "const { total } = require('../src/barrel');\nit('total', () => {\n  if (total(1) !== 2) throw new Error();\n});\n",
    ),
];

#[test]
fn mocha_tests_follow_what_their_files_depend_on() {
    let workspace = javascript_workspace(&MOCHA);
    let path = &workspace.path;
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(affected(&workspace, "last_run"), "");
    let executed = |name: &str, file: &str| format!("{name} executed a changed line: {file}");
    let loads = |name: &str, file: &str| format!("{name} loads a changed file: {file}");

    write_before_run(path, "src/price.js", &PRICE_JS.replace("a * 2", "a * 3"));
    assert_eq!(affected(&workspace, "last_run"), executed("total", "src/price.js"));
    let some = run_affected(&workspace, 1);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["total".to_owned()], &json!(4)));
    write_before_run(path, "src/price.js", PRICE_JS);
    assert_eq!(names(&run_affected(&workspace, 0)), ["total"]);
    // Of a function that no test executed, the file decides: what was executed was so for all.
    write_before_run(path, "src/price.js", &PRICE_JS.replace("  return a;", "  return a + 1;"));
    assert_eq!(affected(&workspace, "last_run"), loads("total", "src/price.js"));
    assert_eq!(names(&run_affected(&workspace, 0)), ["total"]);
    write_before_run(path, "src/barrel.js", "module.exports = { ...require('./price'), more: 1 };\n");
    assert_eq!(affected(&workspace, "last_run"), executed("total", "src/barrel.js"));
    assert_eq!(names(&run_affected(&workspace, 0)), ["total"]);
    // Loaded while a test runs, by the first of two.
    write_before_run(path, "src/late.js", "exports.late = () => 2 + 2;\n");
    let both = [executed("lazy", "src/late.js"), executed("other", "src/late.js")].join(", ");
    assert_eq!(affected(&workspace, "last_run"), both);
    assert_eq!(names(&run_affected(&workspace, 0)), ["lazy", "other"]);
    // What a test calls without loading it.
    write_before_run(path, "src/mode.js", "exports.mode = () => {\n  return 1 + 0;\n};\nArray.mode = exports.mode;\n");
    let both = [executed("mode", "src/mode.js"), loads("other", "src/mode.js")].join(", ");
    assert_eq!(affected(&workspace, "last_run"), both);
    assert_eq!(names(&run_affected(&workspace, 0)), ["mode", "other"]);
    write_before_run(path, "test/alone.js", "it('alone', () => {});\nit('more', () => {});\n");
    assert_eq!(affected(&workspace, "last_run"), executed("alone", "test/alone.js"));
    assert_eq!(names(&run_affected(&workspace, 0)), ["alone", "more"]);
    for (file, text) in [("src/rate.js", "exports.rate = 1 + 2;\n"), ("test/setup.js", "global.rate = 3;\n")] {
        write_before_run(path, file, text);
        let full = format!("full: {file}, which the runner loads for itself, was changed");
        assert_eq!(affected(&workspace, "last_run"), full);
        assert_eq!(workspace.proctor(&["run"]).status, 0);
    }
}

#[test]
fn what_a_test_file_of_mocha_sets_up_for_others_runs_all_tests() {
    let test = |name: &str, more: &str| {
        format!("require('../lib/limit');\nrequire('../lib/hooks');\n{more}it('{name}', () => void limit);\n")
    };
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"mocha"}}"#),
        ("test/a.js", &test("a", "require('../lib/late');\n")),
        ("test/b.js", &test("b", "")),
        ("test/c.js", &test("c", "")),
        ("lib/limit.js", "global.limit = 1;\n"),
        ("lib/hooks.js", "before(() => {});\n"),
        ("lib/late.js", "import('./module.mjs');\n"),
        ("lib/module.mjs", "export const a = 1;\n"),
    ]);
    let path = &workspace.path;
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    for file in ["lib/limit.js", "lib/hooks.js", "lib/module.mjs"] {
        let text = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, &format!("{text}\n// More.\n"));
        let found = affected(&workspace, "last_run");
        assert!(found.starts_with(&format!("full: {file}")), "{found}");
        write_before_run(path, file, &text);
        assert_eq!(affected(&workspace, "last_run"), "");
    }
    // What it loads is not known, since a module of another kind may load anything.
    write_before_run(path, "test/c.js", &test("c", "// More.\n"));
    let expected = "c executed a changed line: test/c.js, a what it executes is not known";
    assert_eq!(affected(&workspace, "last_run"), expected);
    // A hook that a run of other test files lacks.
    write_before_run(path, "test/d.js", &test("d", "beforeEach(() => {});\n"));
    let found = affected(&workspace, "last_run");
    assert!(found.ends_with("for tests that do not load it: a new line names beforeEach"), "{found}");
    let report = workspace.proctor(&["run", "--output", "json"]).json();
    let note =
        "all tests run after a change: test/d.js sets something up for all test files, and not each of them loads it";
    assert!(report["coverage"]["notes"].as_array().unwrap().contains(&json!(note)), "{report}");
    assert_eq!(workspace.proctor(&["run", "--file", "test/c.js"]).status, 0);
    write_before_run(path, "test/c.js", &test("c", ""));
    assert!(affected(&workspace, "last_run").starts_with("full: which files the tests load has not been measured"));
}

#[test]
fn a_test_file_of_mocha_depends_on_what_failed_to_load() {
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"mocha"}}"#),
        ("src/fast.js", "if (!require('./host').fast) throw new Error('slow');\nmodule.exports = (a) => a * 2;\n"),
        ("src/host.js", "exports.fast = false;\n"),
        (
            "src/double.js",
            "let double = (a) => a + a;\ntry {\n  double = require('./fast');\n} catch {}\nexports.double = double;\n",
        ),
        ("test/double.js", "const { double } = require('../src/double');\nit('double', () => void double(2));\n"),
        ("test/host.js", "const { fast } = require('../src/host');\nit('host', () => void fast);\n"),
        ("test/other.js", "it('other', () => {});\n"),
    ]);
    let path = &workspace.path;
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(path, "src/host.js", "exports.fast = true;\n");
    let executed = |name: &str| format!("{name} executed a changed line: src/host.js");
    assert_eq!(affected(&workspace, "last_run"), [executed("double"), executed("host")].join(", "));
    // Tests that a function of another test file has made belong to that one.
    write_before_run(path, "test/helper.js", "exports.quick = it;\n");
    let quick = "require('./helper').quick";
    write_before_run(path, "test/double.js", &format!("{quick}('first', () => {{}});\n"));
    write_before_run(
        path,
        "test/made.js",
        &format!("const {{ fast }} = require('../src/host');\n{quick}('made', () => void fast);\n"),
    );
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(path, "src/host.js", "exports.fast = false;\n");
    let full = "full: src/host.js, which the runner loads for itself, was changed";
    assert_eq!(affected(&workspace, "last_run"), full);
    // Of tests that `only` hides, nothing is known.
    write_before_run(path, "test/other.js", "it.only('other', () => {});\n");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(path, "test/other.js", "it('other', () => {});\n");
    assert!(affected(&workspace, "last_run").starts_with("full: which files the tests load has not been measured"));
}
