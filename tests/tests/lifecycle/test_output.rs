//! What a test printed is reported with its failure, for every framework, and with no other test.

use proctor_tests::test_workspace::TestWorkspace;

/// Fixtures with one failing test that prints, and the node id of that test.
const PRINTING: [(&str, &str); 6] = [
    ("pytest/fail", "test_greet.py::test_lines"),
    ("unittest/fail", "test_fail.TestShout.test_lists"),
    ("vitest/fail", "price.test.ts > price > is named"),
    ("jest/fail", "price.test.js > price > of nothing (at all)"),
    ("mocha/fail", "test/fail.spec.js > cart > throws"),
    ("node/fail", "test/fail.test.js > cart > throws"),
];

#[test]
fn keeps_printed_output_with_its_failing_test() {
    for (fixture, nodeid) in PRINTING {
        let workspace = TestWorkspace::with_fixture(fixture);
        let report = workspace.proctor(&["run", "--output", "json"]).json();
        let tests = report["tests"].as_array().unwrap();
        let printed =
            tests.iter().filter(|test| test["output"].as_str().is_some_and(|text| text.contains("what was printed")));
        let printed: Vec<_> = printed.map(|test| test["nodeid"].as_str().unwrap()).collect();
        assert_eq!(printed, [nodeid], "{report}");
    }
}
