//! Crates, and what `cargo test` and `cargo nextest` say of them. `.ci/tools crates` downloads the crates of `tests/crates`
//! and what they depend on.

use crate::project::{Breakage, Kind, Project, Runner, check};
use crate::project_copy::Scene;
use crate::test_results::Account;
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
        Breakage::new(Kind::OffByOne, "src/lib.rs", "bytes_iter.len() - 3;", "bytes_iter.len() - 2;"),
        Breakage::new(Kind::Branch, "src/lib.rs", "if byte == b'%' {", "if byte == b'%' && false {"),
        Breakage::new(Kind::Throws, "src/lib.rs", "    *iter = cloned_iter;\n", "    panic!(\"seeded\");\n"),
        Breakage::new(Kind::Unbuilt, "src/lib.rs", "Some(h as u8 * 0x10 + l as u8)", "Some(h * 0x10 + l as u8)"),
    ],
};

static SEMVER: Project = Project {
    name: "semver 1.0.28",
    tests_min: 35,
    runner: &Cargo,
    breakages: [
        Breakage::new(Kind::Value, "src/eval.rs", "ver.pre < cmp.pre", "ver.pre <= cmp.pre"),
        Breakage::new(
            Kind::OffByOne,
            "src/eval.rs",
            "return ver.minor > minor;\n        } else if",
            "return ver.minor > minor + 1;\n        } else if",
        ),
        Breakage::new(Kind::Branch, "src/eval.rs", "if ver.pre.is_empty() {", "if ver.pre.is_empty() && false {"),
        Breakage::new(
            Kind::Throws,
            "src/eval.rs",
            "Op::Tilde => matches_tilde(cmp, ver)",
            "Op::Tilde => panic!(\"seeded\")",
        ),
        Breakage::new(Kind::Unbuilt, "src/eval.rs", "ver.pre < cmp.pre", "ver.pre < cmp.minor"),
    ],
};

static SLAB: Project = Project {
    name: "slab 0.4.12",
    tests_min: 20,
    runner: &Nextest,
    breakages: [
        Breakage::new(Kind::Value, "src/lib.rs", "return val.into();", "return None.or_else(|| { drop(val); None });"),
        Breakage::new(Kind::OffByOne, "src/lib.rs", "self.next = key + 1;", "self.next = key + 2;"),
        Breakage::new(Kind::Branch, "src/lib.rs", "if key == self.entries.len() {", "if key + 1 == 0 {"),
        Breakage::new(
            Kind::Throws,
            "src/lib.rs",
            "                self.next = key;\n",
            "                panic!(\"seeded\");\n",
        ),
        Breakage::new(Kind::Unbuilt, "src/lib.rs", "return val.into();", "return val;"),
    ],
};

struct Cargo;

impl Runner for Cargo {
    fn source(&self, project: &str) -> PathBuf {
        source(project)
    }

    /// Says that the project is on its own: its copy lies below our workspace, which Cargo would look for it in.
    fn prepare(&self, workspace: &Path) {
        let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
        fs::write(workspace.join("Cargo.toml"), manifest + "\n[workspace]\n").unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![("CARGO_HOME", cargo_home().into())]
    }

    fn plainly(&self, scene: &Scene) -> Account {
        let said = cargo(scene, &["test", "--no-fail-fast"]);
        let mut account = unbuilt(scene, &said);
        let mut binary = String::new();
        for line in said.stdout.lines() {
            if let Some(next) = binary_in(scene, line) {
                binary = next;
            } else if let Some((test, outcome)) = test_in(line) {
                account.add(&format!("{binary}${test}"), outcome);
            }
        }
        place_failures(scene, &said, &mut account);
        account
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

    /// SupervisorSettings that say that the project is one of nextest's.
    fn prepare(&self, workspace: &Path) {
        Cargo.prepare(workspace);
        fs::create_dir_all(workspace.join(".config")).unwrap();
        fs::write(workspace.join(".config/nextest.toml"), "").unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Cargo.environment()
    }

    fn plainly(&self, scene: &Scene) -> Account {
        let said =
            cargo(scene, &["nextest", "run", "--no-fail-fast", "--final-status-level=none", "--failure-output=final"]);
        let mut account = unbuilt(scene, &said);
        // Behind the summary failures are told again.
        for line in said.stdout.lines().take_while(|line| !line.trim_start().starts_with("Summary [")) {
            // `        PASS [   0.004s] ( 1/25) slab::slab insert_get`, and nothing else in brackets before a name.
            let Some((word, rest)) = line.trim_start().split_once(" [") else { continue };
            let outcome = match word.trim() {
                "PASS" => "passed",
                "FAIL" => "failed",
                "SKIP" => "skipped",
                _ => continue,
            };
            let mut words = rest.rsplit(' ');
            let (test, binary) = (words.next().unwrap(), words.next().unwrap());
            account.add(&format!("{binary}${test}"), outcome);
        }
        place_failures(scene, &said, &mut account);
        account
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

/// Where Cargo keeps what was downloaded.
fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os("CARGO_HOME").map_or_else(|| home().join(".cargo"), PathBuf::from)
}

/// Runs Cargo, both streams in one, in the target directory that proctor has for the project: nothing is compiled twice.
fn cargo(scene: &Scene, arguments: &[&str]) -> ProcessOutput {
    let ours = format!("cargo-target-{}-", package(scene.project));
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
    scene.alone(Path::new("/bin/sh"), &[&["-c", "exec cargo \"$@\" 2>&1", "sh"], arguments].concat(), &env)
}

/// What the compiler points to: the line after an error.
fn unbuilt(scene: &Scene, said: &ProcessOutput) -> Account {
    let lines = || said.stdout.lines();
    let places = lines().zip(lines().skip(1)).filter(|(error, _)| error.starts_with("error"));
    let places = places.filter_map(|(_, place)| spot(scene, place.trim_start().strip_prefix("--> ")?));
    Account { unbuilt: places.collect(), ..Account::default() }
}

/// `src/lib.rs:12:5`, with or without a colon behind it.
fn spot(scene: &Scene, place: &str) -> Option<(String, u64)> {
    let mut parts = place.split(':');
    scene.spot(parts.next()?, parts.next()?)
}

/// `Running tests/it.rs (target/debug/deps/it-0123)`, `Doc-tests semver`: by the names that nextest and proctor have.
fn binary_in(scene: &Scene, line: &str) -> Option<String> {
    let (line, package) = (line.trim_start(), package(scene.project));
    if line.starts_with("Doc-tests ") {
        return Some(format!("{package}::doc/lib"));
    }
    let file = line.strip_prefix("Running ")?.split(" (").next()?;
    let test = file.strip_prefix("tests/").and_then(|file| file.strip_suffix(".rs"));
    Some(test.map_or_else(|| package.to_owned(), |test| format!("{package}::{test}")))
}

/// `test a::b ... ok`; a test that should panic says so behind its name.
fn test_in(line: &str) -> Option<(&str, &'static str)> {
    let (test, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match word.split(',').next()? {
        "ok" => "passed",
        "FAILED" => "failed",
        "ignored" => "skipped",
        _ => return None,
    };
    let said = [" - should panic", " - compile fail", " - compile"];
    Some((said.iter().find_map(|words| test.strip_suffix(words)).unwrap_or(test), outcome))
}

/// The panics of each failed test's thread, or where a doctest begins.
fn place_failures(scene: &Scene, said: &ProcessOutput, account: &mut Account) {
    for (test, places) in &mut account.failures {
        let (_, name) = test.split_once('$').unwrap();
        if let Some((file, rest)) = name.split_once(" - ") {
            let line = rest.rsplit_once("(line ").and_then(|(_, line)| line.strip_suffix(')'));
            places.extend(line.and_then(|line| scene.spot(file, line)));
            continue;
        }
        let began = format!("thread '{name}' ");
        let panics = said.stdout.lines().filter_map(|line| line.trim_start().strip_prefix(&began));
        places.extend(panics.filter_map(|line| spot(scene, line.split_once("panicked at ")?.1)));
        let unpanicked = said.stdout.lines().skip_while(|line| line.trim() != format!("---- {name} stdout ----"));
        let note = unpanicked.take(3).find_map(|line| line.strip_prefix("note: test did not panic as expected at "));
        places.extend(note.and_then(|place| spot(scene, place)));
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
fn every_crate_of_the_list_is_driven() {
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
