//! Parts of real projects beside their tests: toolchain files, nested configuration, skipped modules, unawaited subtests.

use proctor_tests::test_workspace::TestWorkspace;

/// rustup would try to download the component, which fails without a network, and no run needs it.
#[test]
fn ignores_toolchain_components_missing_on_the_host() {
    let workspace = TestWorkspace::with_fixture("cargo/pass");
    workspace.write("rust-toolchain.toml", "[toolchain]\ncomponents = [\"rustc-dev\", \"miri\"]\n");
    let output = workspace.proctor(&["run", "--output", "json"]);
    assert_eq!((output.status, output.json()["outcome"].as_str()), (0, Some("passed")), "{output:?}");
}

/// pytest collects the nested directory from the root, and counts a skipped module as one skipped test.
#[test]
fn pytest_uses_the_root_configuration_and_notes_skipped_modules() {
    let workspace = TestWorkspace::with_fixture("pytest/pass");
    let before = workspace.proctor(&["run", "--output", "json"]).json()["summary"]["total"].as_u64().unwrap();
    workspace.write("tests/nested/pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--no-such-option'\n");
    workspace.write("tests/nested/test_more.py", "def test_more():\n    pass\n");
    workspace.write("tests/test_absent.py", "import pytest\n\npytest.importorskip('no_module_of_this_name')\n");
    let output = workspace.proctor(&["run", "--output", "json"]);
    let report = output.json();
    assert_eq!((output.status, report["summary"]["total"].as_u64()), (0, Some(before + 1)), "{output:?}");
    let notes = report["evidence"]["notes"].as_array().unwrap();
    let is_expected =
        |note: &str| note.starts_with("tests/test_absent.py was skipped as a whole, and pytest counts it as one test");
    assert!(notes.iter().any(|note| is_expected(note.as_str().unwrap())), "{notes:?}");
    assert!(!notes.iter().any(|note| note.as_str().unwrap().contains("below it")), "{notes:?}");
}

/// proctor must not add an await to node:test: with one more step, the inner test would end after its parent and fail.
#[test]
fn unawaited_node_subtest_passes_as_without_proctor() {
    let workspace = TestWorkspace::with_fixture("node/pass");
    workspace.write("test/unawaited.test.js", UNAWAITED);
    let report = workspace.proctor(&["run", "--output", "json"]).json();
    let outcome = |name: &str| {
        let tests = report["tests"].as_array().unwrap();
        tests.iter().find(|test| test["name"] == name).unwrap_or_else(|| panic!("{report:#}"))["outcome"].clone()
    };
    assert_eq!((outcome("outer"), outcome("outer/inner")), ("passed".into(), "passed".into()));
}

const UNAWAITED: &str = "'use strict';
const { test } = require('node:test');
test('outer', async (t) => {
  t.test('inner', async () => {});
});
";
