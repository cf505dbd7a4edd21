//! Crates, run with `cargo test` and `cargo nextest`. `.ci/tools crates` downloads the crates of `tests/crates` and their
//! dependencies.

use crate::project::{Breakage, Kind, Project, Runner, assert_kinds, check};
use crate::project_copy::ProjectCopy;
use crate::test_results::TestResults;
use proctor_tests::process::{ProcessOutput, ensure_installed, rustup_home, source_root, tools};
use proctor_tests::test_workspace::caches_matching;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

static PERCENT_ENCODING: Project = Project {
    name: "percent-encoding 2.3.2",
    tests_min: 24,
    runner: &Cargo,
    breakages: [
        Breakage::new(
            Kind::Value,
            "src/lib.rs",
            "Some(h as u8 * 0x10 + l as u8)",
            "Some(h as u8 * 0x10 + l as u8 + 1)",
        ),
        Breakage::new(Kind::Branch, "src/lib.rs", "if byte == b'%' {", "if byte == b'%' && false {"),
    ],
};

static SEMVER: Project = Project {
    name: "semver 1.0.28",
    tests_min: 35,
    runner: &Cargo,
    breakages: [
        Breakage::new(
            Kind::Throws,
            "src/eval.rs",
            "Op::Tilde => matches_tilde(cmp, ver)",
            "Op::Tilde => panic!(\"seeded\")",
        ),
        Breakage::new(Kind::BuildError, "src/eval.rs", "ver.pre < cmp.pre", "ver.pre < cmp.minor"),
    ],
};

static SLAB: Project = Project {
    name: "slab 0.4.12",
    tests_min: 20,
    runner: &Nextest,
    breakages: [
        Breakage::new(Kind::OffByOne, "src/lib.rs", "self.next = key + 1;", "self.next = key + 2;"),
        Breakage::new(Kind::BuildError, "src/lib.rs", "return val.into();", "return val;"),
    ],
};

struct Cargo;

impl Runner for Cargo {
    fn source(&self, project: &str) -> PathBuf {
        source(project)
    }

    /// Makes the project its own workspace: its copy lies below ours, which Cargo would use otherwise. Leaves out the
    /// libraries of tests and benchmarks, which take minutes to compile, and what needs them: slab's two tests of serde.
    fn prepare(&self, workspace: &Path) {
        let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
        let is_left_out = |table: &str| {
            let starts = ["[[bench]]", "[[test]]\nname = \"serde\"", "[dev-dependencies."];
            starts.iter().any(|start| table.starts_with(start)) || table.contains(".dev-dependencies.")
        };
        let tables: String = manifest.split_inclusive("\n\n").filter(|table| !is_left_out(table)).collect();
        fs::write(workspace.join("Cargo.toml"), tables + "\n[workspace]\n").unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![("CARGO_HOME", cargo_home().into())]
    }

    fn run_directly(&self, copy: &ProjectCopy) -> TestResults {
        let output = cargo(copy, &["test", "--no-fail-fast"]);
        let mut results = build_errors(copy, &output);
        let mut binary = String::new();
        for line in output.stdout.lines() {
            if let Some(next) = binary_of_header(copy, line) {
                binary = next;
            } else if let Some((test, outcome)) = parse_test_line(line) {
                results.add(&format!("{binary}${test}"), outcome);
            }
        }
        add_failure_locations(copy, &output, &mut results);
        results
    }

    fn key(&self, test: &Value) -> String {
        key(test)
    }
}

struct Nextest;

impl Runner for Nextest {
    fn source(&self, project: &str) -> PathBuf {
        ensure_installed("nextest");
        source(project)
    }

    /// Adds the configuration file by which proctor recognises nextest.
    fn prepare(&self, workspace: &Path) {
        Cargo.prepare(workspace);
        fs::create_dir_all(workspace.join(".config")).unwrap();
        fs::write(workspace.join(".config/nextest.toml"), "").unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Cargo.environment()
    }

    fn run_directly(&self, copy: &ProjectCopy) -> TestResults {
        let output =
            cargo(copy, &["nextest", "run", "--no-fail-fast", "--final-status-level=none", "--failure-output=final"]);
        let mut results = build_errors(copy, &output);
        // Failures are repeated after the summary.
        for line in output.stdout.lines().take_while(|line| !line.trim_start().starts_with("Summary [")) {
            // `        PASS [   0.004s] ( 1/25) slab::slab insert_get`
            let Some((word, rest)) = line.trim_start().split_once(" [") else { continue };
            let outcome = match word.trim() {
                "PASS" => "passed",
                "FAIL" => "failed",
                "SKIP" => "skipped",
                _ => continue,
            };
            let mut words = rest.rsplit(' ');
            let (test, binary) = (words.next().unwrap(), words.next().unwrap());
            results.add(&format!("{binary}${test}"), outcome);
        }
        add_failure_locations(copy, &output, &mut results);
        results
    }

    fn key(&self, test: &Value) -> String {
        key(test)
    }
}

fn package(project: &'static Project) -> &'static str {
    project.name.split(' ').next().unwrap()
}

fn source(project: &str) -> PathBuf {
    ensure_installed("crates");
    tools().join("crates").join(project.replace(' ', "-"))
}

/// Directory in which Cargo keeps downloads.
fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os("CARGO_HOME").map_or_else(|| home().join(".cargo"), PathBuf::from)
}

/// Runs Cargo with stderr on stdout, in the target directory that proctor has for the project, to reuse compiled code.
fn cargo(copy: &ProjectCopy, arguments: &[&str]) -> ProcessOutput {
    let ours = format!("cargo-target-{}-", package(copy.project));
    let dirs = caches_matching(|name| name.starts_with(&ours)).into_iter();
    let target = dirs.max_by_key(|dir| dir.metadata().unwrap().modified().unwrap()).unwrap();
    let env = [
        ("PATH", std::env::var_os("PATH").unwrap()),
        ("CARGO_HOME", cargo_home().into()),
        ("RUSTUP_HOME", rustup_home().into()),
        ("CARGO_NET_OFFLINE", "true".into()),
        ("CARGO_TERM_COLOR", "never".into()),
        ("CARGO_TARGET_DIR", target.into()),
    ];
    copy.run_program(Path::new("/bin/sh"), &[&["-c", "exec cargo \"$@\" 2>&1", "sh"], arguments].concat(), &env)
}

/// Results with the locations of compiler errors, each in the line after `error`.
fn build_errors(copy: &ProjectCopy, output: &ProcessOutput) -> TestResults {
    let lines = || output.stdout.lines();
    let locations = lines().zip(lines().skip(1)).filter(|(error, _)| error.starts_with("error"));
    let locations = locations.filter_map(|(_, place)| location(copy, place.trim_start().strip_prefix("--> ")?));
    TestResults { build_errors: locations.collect(), ..TestResults::default() }
}

/// Location in `src/lib.rs:12:5`, with or without a colon after it.
fn location(copy: &ProjectCopy, text: &str) -> Option<(String, u64)> {
    let mut parts = text.split(':');
    copy.location(parts.next()?, parts.next()?)
}

/// The test binary in `Running tests/it.rs (target/debug/deps/it-0123)` or `Doc-tests semver`, named as nextest and proctor do.
fn binary_of_header(copy: &ProjectCopy, line: &str) -> Option<String> {
    let (line, package) = (line.trim_start(), package(copy.project));
    if line.starts_with("Doc-tests ") {
        return Some(format!("{package}::doc/lib"));
    }
    let file = line.strip_prefix("Running ")?.split(" (").next()?;
    let test = file.strip_prefix("tests/").and_then(|file| file.strip_suffix(".rs"));
    Some(test.map_or_else(|| package.to_owned(), |test| format!("{package}::{test}")))
}

/// Name and outcome in `test a::b ... ok`. A note such as `should panic` after the name is removed.
fn parse_test_line(line: &str) -> Option<(&str, &'static str)> {
    let (test, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match word.split(',').next()? {
        "ok" => "passed",
        "FAILED" => "failed",
        "ignored" => "skipped",
        _ => return None,
    };
    let suffixes = [" - should panic", " - compile fail", " - compile"];
    Some((suffixes.iter().find_map(|words| test.strip_suffix(words)).unwrap_or(test), outcome))
}

/// Adds the locations of panics in each failed test's thread, or of the beginning of a failed doctest.
fn add_failure_locations(copy: &ProjectCopy, output: &ProcessOutput, results: &mut TestResults) {
    for (test, locations) in &mut results.failures {
        let (_, name) = test.split_once('$').unwrap();
        if let Some((file, rest)) = name.split_once(" - ") {
            let line = rest.rsplit_once("(line ").and_then(|(_, line)| line.strip_suffix(')'));
            locations.extend(line.and_then(|line| copy.location(file, line)));
            continue;
        }
        let prefix = format!("thread '{name}' ");
        let panics = output.stdout.lines().filter_map(|line| line.trim_start().strip_prefix(&prefix));
        locations.extend(panics.filter_map(|line| location(copy, line.split_once("panicked at ")?.1)));
        let section = output.stdout.lines().skip_while(|line| line.trim() != format!("---- {name} stdout ----"));
        let note = section.take(3).find_map(|line| line.strip_prefix("note: test did not panic as expected at "));
        locations.extend(note.and_then(|text| location(copy, text)));
    }
}

fn key(test: &Value) -> String {
    format!("{}${}", test["package"].as_str().unwrap(), test["name"].as_str().unwrap())
}

#[test]
fn percent_encoding() {
    check(&PERCENT_ENCODING);
}

#[test]
fn semver() {
    check(&SEMVER);
}

#[test]
fn slab() {
    check(&SLAB);
}

#[test]
fn every_listed_crate_has_a_test() {
    let list = fs::read_to_string(source_root().join("tests/crates/Cargo.toml")).unwrap();
    let (_, list) = list.split_once("[dependencies]\n").unwrap();
    let list: BTreeSet<String> = list
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| line.replace(" = \"=", " ").replace('"', ""))
        .collect();
    let driven = [&PERCENT_ENCODING, &SEMVER, &SLAB].map(|project| project.name.to_owned());
    assert_eq!(list, driven.into());
}

#[test]
fn bugs_of_each_kind_are_seeded() {
    assert_kinds(&[&[&PERCENT_ENCODING, &SEMVER], &[&SLAB]]);
}
