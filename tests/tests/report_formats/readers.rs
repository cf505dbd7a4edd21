//! The readers of others, as processes.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use proctor_tests::process::{command, ensure_installed, source_root, tools, wait_for_exit};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Once;

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("report-readers"));
}

fn script(name: &str) -> PathBuf {
    source_root().join("tests/reports").join(name)
}

/// What a reader in Python prints of these files.
pub(crate) fn python(name: &str, files: &[&Path]) -> Value {
    install();
    run(&tools().join("report-readers/bin/python"), [script(name).as_os_str()], files)
}

/// What a reader in JavaScript prints of a file in this format.
pub(crate) fn javascript(format: &str, file: &Path) -> Value {
    install();
    run(Path::new("/usr/bin/env"), ["node".as_ref(), script("reader.mjs").as_os_str(), format.as_ref()], &[file])
}

/// What a person sees in Chromium who opens the page and searches for these words.
pub(crate) fn chromium(file: &Path, words: &str) -> Value {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ["pytest-playwright", "chromium"].into_iter().for_each(ensure_installed));
    let python = tools().join("pytest-playwright/bin/python");
    run(&python, [script("page_reader.py").as_os_str()], &[file, Path::new(words)])
}

/// The report that pytest's plugin writes of the tests in `dir`.
pub(crate) fn pytest_json_report(dir: &Path, file: &Path) {
    install();
    let mut pytest = command(&tools().join("report-readers/bin/python"));
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "--json-report", "--json-report-file"]).arg(file);
    let pytest = pytest.current_dir(dir).env("HOME", dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait_for_exit(pytest.spawn().unwrap());
    assert!(file.is_file(), "{output:?}");
}

fn run<const N: usize>(program: &Path, arguments: [&OsStr; N], files: &[&Path]) -> Value {
    let mut reader = command(program);
    reader.args(arguments).args(files).stdout(Stdio::piped()).stderr(Stdio::piped());
    reader
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", std::env::temp_dir())
        .env("READERS", tools().join("report-readers-node"));
    let output = wait_for_exit(reader.spawn().unwrap());
    assert_eq!(output.status, 0, "{output:?}");
    output.json()
}
