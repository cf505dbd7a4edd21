//! A report in the state directory as `proctor run` leaves it, made up by a test: of any size, with any text.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// Text that breaks out of each format, if the format lets it.
pub(crate) const HOSTILE: &str = "]]></failure><b>&\u{0}\u{1b}[31mred\u{202e}evil\u{fffe}</script><script>document.title='owned'</script>\n::error::owned\n%0A::warning::owned\nok 99 - owned\n<!--\"'`";

/// A workspace whose last run was a real one of pytest, for reports to be put in its place.
pub(crate) fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace
        .write("test_shop.py", "def test_a():\n    total = 1\n    assert total == 2\n\n\ndef test_b():\n    pass\n");
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    workspace
}

/// Replaces the last report by a changed one.
pub(crate) fn change(workspace: &TestWorkspace, change: impl FnOnce(&mut Value)) {
    let file = stored(workspace, "report.json");
    let mut report = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut report);
    fs::write(file, report.to_string()).unwrap();
}

/// The file of this name that the last run stored.
pub(crate) fn stored(workspace: &TestWorkspace, name: &str) -> PathBuf {
    let dirs = fs::read_dir(workspace.root().join("state/proctor")).unwrap();
    dirs.map(|dir| dir.unwrap().path().join(name)).find(|file| file.is_file()).unwrap()
}

/// A test of a report.
pub(crate) fn test(package: &str, name: &str, outcome: &str) -> Value {
    json!({ "nodeid": format!("{package}::{name}"), "package": package, "name": name, "outcome": outcome, "duration_s": 0.01 })
}

/// Puts tests into a report, with the counts that belong to them.
pub(crate) fn set_tests(report: &mut Value, tests: Vec<Value>) {
    let count = |outcome: &str| tests.iter().filter(|test| test["outcome"] == outcome).count();
    report["summary"] = json!({
        "total": tests.len(), "passed": count("passed"), "failed": count("failed"), "skipped": count("skipped"),
        "xfailed": count("xfailed"), "xpassed": count("xpassed"), "error": count("error"),
    });
    report["tests"] = tests.into();
}
