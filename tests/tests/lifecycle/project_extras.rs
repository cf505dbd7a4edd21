//! What real projects have beside their tests, and what a run makes of it.

use proctor_tests::test_workspace::TestWorkspace;

/// rustup would look for it without a network, and nothing that a run does needs it.
#[test]
fn a_component_that_the_toolchain_file_names_and_the_host_lacks_is_passed_over() {
    let place = TestWorkspace::with_fixture("cargo/pass");
    place.write("rust-toolchain.toml", "[toolchain]\ncomponents = [\"rustc-dev\", \"miri\"]\n");
    let said = place.proctor(&["run", "--output", "json"]);
    assert_eq!((said.status, said.json()["outcome"].as_str()), (0, Some("passed")), "{said:?}");
}

/// pytest collects the directory at the root as its own tests, and counts the module among what it skipped.
#[test]
fn pytest_runs_as_at_the_root_and_a_module_that_is_skipped_as_a_whole_is_named() {
    let place = TestWorkspace::with_fixture("pytest/pass");
    let before = place.proctor(&["run", "--output", "json"]).json()["summary"]["total"].as_u64().unwrap();
    place.write("tests/nested/pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--no-such-option'\n");
    place.write("tests/nested/test_more.py", "def test_more():\n    pass\n");
    place.write("tests/test_absent.py", "import pytest\n\npytest.importorskip('no_module_of_this_name')\n");
    let said = place.proctor(&["run", "--output", "json"]);
    let report = said.json();
    assert_eq!((said.status, report["summary"]["total"].as_u64()), (0, Some(before + 1)), "{said:?}");
    let notes = report["evidence"]["notes"].as_array().unwrap();
    let named =
        |note: &str| note.starts_with("tests/test_absent.py was skipped as a whole, and pytest counts it as one test");
    assert!(notes.iter().any(|note| named(note.as_str().unwrap())), "{notes:?}");
    assert!(!notes.iter().any(|note| note.as_str().unwrap().contains("below it")), "{notes:?}");
}

/// A test of Node's has the steps that it has without us: with one more, the inner one would end after its parent, and fail.
#[test]
fn a_subtest_that_nobody_waits_for_passes_as_it_does_without_us() {
    let place = TestWorkspace::with_fixture("node/pass");
    place.write("test/unawaited.test.js", UNAWAITED);
    let report = place.proctor(&["run", "--output", "json"]).json();
    let told = |name: &str| {
        let tests = report["tests"].as_array().unwrap();
        tests.iter().find(|test| test["name"] == name).unwrap_or_else(|| panic!("{report:#}"))["outcome"].clone()
    };
    assert_eq!((told("outer"), told("outer/inner")), ("passed".into(), "passed".into()));
}

const UNAWAITED: &str = "'use strict';
const { test } = require('node:test');
test('outer', async (t) => {
  t.test('inner', async () => {});
});
";
