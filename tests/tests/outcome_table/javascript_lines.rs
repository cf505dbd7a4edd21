//! The lines that each test of JavaScript and TypeScript executes: Jest, Vitest, Mocha and Node's own runner.

use crate::covering_tests::{Expected, check_covering};
use proctor_tests::process::{command, search_path, search_path_with_newest_node, source_root};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};

const PRICE: &str = "test/price.test.ts";
const ALL_OF_PRICE: &[&str] = &["tax > of a negative price", "tax > of a price", "text of a function"];
const ALL_OF_STOCK: &[&str] = &["has", "has not"];

/// Lines of `price.ts` and its tests, which Jest and Vitest share.
const TYPESCRIPT: &[Expected<'_>] = &[
    ("src/price.ts:1", &[]),
    ("src/price.ts:5", &[(PRICE, ALL_OF_PRICE)]),
    ("src/price.ts:8", &[(PRICE, &["tax > of a negative price", "tax > of a price"])]),
    ("src/price.ts:9", &[(PRICE, &["tax > of a negative price"])]),
    // The second condition, beside the brace of the first.
    ("src/price.ts:10", &[(PRICE, &["tax > of a price"])]),
    // A line within a statement.
    ("src/price.ts:12", &[(PRICE, &["tax > of a price"])]),
    ("src/price.ts:19", &[]),
    // `beforeAll`.
    ("test/price.test.ts:6", &[(PRICE, ALL_OF_PRICE)]),
    ("test/price.test.ts:11", &[(PRICE, &["tax > of a price"])]),
];

/// Lines that tests execute at the same time are those of their file.
const JEST: &[Expected<'_>] = &[
    ("src/stock.js:3", &[("test/stock.test.js", ALL_OF_STOCK)]),
    ("src/stock.js:6", &[("test/stock.test.js", ALL_OF_STOCK)]),
];

const VITEST: &[Expected<'_>] = &[
    // A set-up file runs for each test file.
    ("src/stock.ts:1", &[(PRICE, ALL_OF_PRICE), ("test/stock.test.ts", ALL_OF_STOCK), WEB]),
    ("src/stock.ts:4", &[(PRICE, ALL_OF_PRICE), ("test/stock.test.ts", ALL_OF_STOCK), WEB]),
    ("src/stock.ts:8", &[("test/stock.test.ts", ALL_OF_STOCK)]),
    ("src/page.ts:2", &[WEB]),
];

/// In the environment of a browser.
const WEB: (&str, &[&str]) = ("test/web.test.ts", &["title"]);

const SPEC: &str = "test/price.spec.cjs";
const ALL_OF_SPEC: &[&str] = &["shipping", "tax > of a negative price", "tax > of a price"];

/// All files share one process.
const MOCHA: &[Expected<'_>] = &[
    ("src/price.cjs:3", &[(SPEC, ALL_OF_SPEC), ("test/stock.spec.js", ALL_OF_STOCK)]),
    ("src/price.cjs:7", &[(SPEC, &["tax > of a negative price"])]),
    ("src/price.cjs:10", &[(SPEC, &["tax > of a price"])]),
    // A comment within a statement.
    ("src/price.cjs:18", &[]),
    ("src/price.cjs:19", &[(SPEC, ALL_OF_SPEC), ("test/stock.spec.js", ALL_OF_STOCK)]),
    // A test was the first to load the module: any other may need it.
    ("src/shipping.cjs:3", &[(SPEC, ALL_OF_SPEC), ("test/stock.spec.js", ALL_OF_STOCK)]),
    ("test/price.spec.cjs:4", &[(SPEC, ALL_OF_SPEC)]),
    ("test/price.spec.cjs:8", &[(SPEC, &["tax > of a price"])]),
    ("src/stock.js:8", &[("test/stock.spec.js", ALL_OF_STOCK)]),
    ("test/stock.spec.js:7", &[("test/stock.spec.js", &["has"])]),
];

const PRICE_OF_NODE: &str = "test/price.test.cjs";
const STOCK_OF_NODE: &str = "test/stock.test.mjs";
const ALL_OF_PRICE_OF_NODE: &[&str] = &["shipping", "shipping/costs", "tax > of a negative price", "tax > of a price"];
const ALL_OF_STOCK_OF_NODE: &[&str] = &[
    "at the same time > has",
    "at the same time > has not",
    "has",
    "is not full",
    "loads a module while functions of Node are replaced",
];
const SCRIPT: (&str, &[&str]) = ("test/script.test.js", &["script.test.js"]);
const LATE: (&str, &[&str]) = ("test/late.test.mjs", &["begins before the end of its file", "comes last"]);

/// Each file has a process.
const NODE: &[Expected<'_>] = &[
    ("src/price.cjs:3", &[LATE, (PRICE_OF_NODE, ALL_OF_PRICE_OF_NODE), SCRIPT]),
    ("src/price.cjs:7", &[(PRICE_OF_NODE, &["tax > of a negative price"])]),
    // Hooks before all tests of a suite belong to the file, what a file executes on its own to itself.
    ("src/price.cjs:10", &[("test/late.test.mjs", &["comes last"]), (PRICE_OF_NODE, ALL_OF_PRICE_OF_NODE), SCRIPT]),
    ("src/price.cjs:14", &[LATE, (PRICE_OF_NODE, ALL_OF_PRICE_OF_NODE), SCRIPT]),
    ("src/shipping.cjs:3", &[(PRICE_OF_NODE, ALL_OF_PRICE_OF_NODE)]),
    ("test/price.test.cjs:17", &[(PRICE_OF_NODE, &["tax > of a price"])]),
    // A listener for the end of the process.
    ("test/price.test.cjs:9", &[(PRICE_OF_NODE, ALL_OF_PRICE_OF_NODE)]),
    ("src/rate.cts:2", &[]),
    ("src/rate.cts:7", &[(PRICE_OF_NODE, &["tax > of a price"])]),
    // A subtest has the lines of the test around it.
    ("test/price.test.cjs:36", &[(PRICE_OF_NODE, &["shipping", "shipping/costs"])]),
    ("src/stock.mjs:6", &[(STOCK_OF_NODE, ALL_OF_STOCK_OF_NODE)]),
    ("src/stock.mjs:10", &[(STOCK_OF_NODE, ALL_OF_STOCK_OF_NODE)]),
    // TypeScript, of which Node removes the types.
    ("src/limit.ts:2", &[]),
    ("src/limit.ts:7", &[(STOCK_OF_NODE, &["is not full"])]),
    ("test/stock.test.mjs:13", &[(STOCK_OF_NODE, &["is not full"])]),
    ("src/late.mjs:1", &[(STOCK_OF_NODE, ALL_OF_STOCK_OF_NODE)]),
];

/// A workspace with a Node on PATH that has hooks for ES modules.
fn workspace_with(fixture: &str) -> TestWorkspace {
    let mut workspace = TestWorkspace::with_fixture(fixture);
    workspace.search_path = search_path_with_newest_node();
    workspace
}

/// Runs a fixture twice, the second time with cached code, and compares its lines. Returns the notes.
fn check(fixture: &str, tables: &[&[Expected<'_>]]) -> Value {
    let workspace = workspace_with(fixture);
    let mut notes = Value::Null;
    for _ in 0..2 {
        let output = workspace.proctor(&["run", "--output", "json"]);
        let report = output.json();
        assert_eq!((output.status, &report["outcome"]), (0, &json!("passed")), "{output:?}");
        assert_eq!(report["coverage"]["measured"], true, "{}", report["coverage"]);
        notes = report["coverage"]["notes"].clone();
        check_covering(&tables.concat(), |place| workspace.proctor(&["covering", place]));
    }
    notes
}

const TOGETHER: &str = "tests that run at the same time share their lines with all tests of their file";

#[test]
fn measures_each_test_of_jest() {
    assert_eq!(check("jest/lines", &[TYPESCRIPT, JEST]), json!([TOGETHER]));
}

#[test]
fn measures_each_test_of_vitest() {
    assert_eq!(check("vitest/lines", &[TYPESCRIPT, VITEST]), json!([TOGETHER]));
}

#[test]
fn measures_each_test_of_mocha() {
    let note = "all tests run after a change: test/price.spec.cjs sets something up for all test files, and not each of them loads it";
    assert_eq!(check("mocha/lines", &[MOCHA]), json!([note]));
}

#[test]
fn measures_each_test_of_node() {
    assert_eq!(check("node/lines", &[NODE]), json!([TOGETHER]));
}

/// Types alone can be removed without Node.
#[test]
fn node_compiles_typescript_that_has_more_than_types() {
    let mut workspace = TestWorkspace::empty();
    workspace.search_path = search_path_with_newest_node();
    for (file, text) in [
        ("package.json", r#"{"scripts": {"test": "node --experimental-transform-types --test"}}"#),
        ("color.mts", "export enum Color { red = 1 }\n"),
        ("shape.cts", "enum Shape { round = 2 }\nmodule.exports = { Shape };\n"),
        (
            "color.test.mts",
            "import assert from 'node:assert';\nimport { test } from 'node:test';\nimport { Color } from './color.mts';\nimport shape from './shape.cts';\ntest('colors', () => {\n  assert.equal(Color.red + shape.Shape.round, 3);\n});\n",
        ),
    ] {
        workspace.write(file, text);
    }
    let output = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!((output.status, &output.json()["outcome"]), (0, &json!("passed")), "{output:?}");
    let own = [("color.test.mts:6", &[("color.test.mts", &["colors"][..])][..]), ("color.mts:1", &[])];
    check_covering(&own, |place| workspace.proctor(&["covering", place]));
}

#[test]
fn a_program_behaves_the_same_with_probes() {
    let root = source_root();
    let node = std::env::split_paths(&search_path()).map(|dir| dir.join("node")).find(|node| node.exists()).unwrap();
    let mut node = command(&node);
    node.arg(root.join("tests/tests/outcome_table/programs_with_probes.cjs"));
    node.arg(root.join("supervisor/frameworks/src/ecosystems/js"));
    let output = node.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What is added to the code is not in the report of the project's own measurement.
#[test]
fn leaves_the_report_of_jests_own_measurement_as_it_is() {
    let report = |coverage: &str| {
        let workspace = workspace_with("jest/lines");
        let settings = r#"{"scripts": {"test": "jest"}, "jest": {"collectCoverage": true, "coverageReporters": ["json"],
            "transform": {"\\.js$": "babel-jest"}, "testMatch": ["**/*.test.js"]}}"#;
        std::fs::write(workspace.path.join("package.json"), settings).unwrap();
        let output = workspace.proctor(&["run", "--coverage", coverage, "--output", "json"]);
        assert_eq!(output.status, 0, "{output:?}");
        let report = std::fs::read_to_string(workspace.path.join("coverage/coverage-final.json")).unwrap();
        // Paths, and a hash of each file with its path.
        let report = report.replace(workspace.path.to_str().unwrap(), "");
        let (before, hash) = report.split_once("\"hash\":\"").unwrap();
        let report = format!("{before}{}", hash.split_once('"').unwrap().1);
        (report, output.json()["coverage"]["measured"].clone())
    };
    let (with, without) = (report("auto"), report("off"));
    assert_eq!((&with.1, &without.1), (&json!(true), &json!(false)));
    assert_eq!(with.0, without.0);
}
