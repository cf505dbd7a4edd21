//! What a project is, how it is broken, and what must come of that. Must not know any runner.
//!
//! A failure is where the runner's own output, read by its language's file here, says that it is:
//!
//! | runner | where a failed test failed |
//! |---|---|
//! | go | a `file.go:N:` of the test's own output; of a panic, the innermost frame in the module |
//! | pytest | the last `file:N:` of the traceback that is in the project |
//! | Jest, Mocha, node:test, Vitest | the innermost frame of the error's stack in the project, without its packages |
//! | cargo, nextest | `panicked at file:N` of the test's thread; of a doctest, the line in its name |
//!
//! A breakage that throws or cannot be built has a place that is known without any runner: its own line.

use crate::project_copy::{Ran, Scene};
use crate::test_results::Account;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A project, and how to break it.
pub(crate) struct Project {
    /// Name and version, as in the list that it is installed from.
    pub(crate) name: &'static str,
    /// Tests that it has at least.
    pub(crate) tests_min: usize,
    /// What runs its tests.
    pub(crate) runner: &'static dyn Runner,
    /// Each is put in alone.
    pub(crate) breakages: [Breakage; 5],
}

/// A bug: a file, a text that occurs once in it, and what takes its place.
pub(crate) struct Breakage {
    pub(crate) kind: Kind,
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

impl Breakage {
    pub(crate) const fn new(kind: Kind, file: &'static str, from: &'static str, to: &'static str) -> Breakage {
        Breakage { kind, file, from, to }
    }
}

/// Kinds of bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Another value is returned.
    Value,
    /// An index or a bound is off by one.
    OffByOne,
    /// A branch is never taken.
    Branch,
    /// The library throws or panics.
    Throws,
    /// The library cannot be compiled or loaded.
    Unbuilt,
}

/// A test runner, as its users call it.
pub(crate) trait Runner: Sync {
    /// Installs the projects, and says where one of them is.
    fn source(&self, project: &str) -> PathBuf;

    /// Adds what the published form of a project lacks to be run.
    fn prepare(&self, _workspace: &Path) {}

    /// What proctor needs in its environment beside what all programs under test have.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }

    /// What the runner says of its own.
    fn plainly(&self, scene: &Scene) -> Account;

    /// The name by which the runner calls a test of proctor's report.
    fn key(&self, test: &Value) -> String;

    /// Whether a rerun of the failed tests has to run this one, too: it cannot be told otherwise.
    fn runs_with(&self, _nodeid: &str, _failed: &BTreeSet<&str>) -> bool {
        false
    }
}

/// Everything that is said above of a project.
pub(crate) fn check(project: &'static Project) {
    let kinds: BTreeSet<Kind> = project.breakages.iter().map(|breakage| breakage.kind).collect();
    assert_eq!(kinds.len(), project.breakages.len(), "each kind of bug once");
    let scene = Scene::of(project);
    let (ran, plain) = both(&scene, &[]);
    assert!(plain.tests() >= project.tests_min, "{} tests", plain.tests());
    assert_eq!((ran.status, ran.report["outcome"].as_str(), plain.failures.len()), (0, Some("passed"), 0));
    for breakage in &project.breakages {
        scene.break_with(breakage);
        // Measured once above: instrumented packages are compiled beside the plain ones.
        let (ran, plain) = both(&scene, &["--coverage", "off"]);
        match breakage.kind {
            Kind::Unbuilt => assert_unbuilt(&scene, breakage, &ran, &plain),
            Kind::Value | Kind::OffByOne | Kind::Branch | Kind::Throws => assert_failed(&scene, breakage, &ran, &plain),
        }
        let again = (breakage.kind == Kind::Value).then(|| rerun(&scene, &ran.report));
        scene.mend(breakage);
        if let Some(tests) = again {
            let mended = scene.proctor(&["--failed"]);
            assert_eq!((mended.status, mended.report["outcome"].as_str()), (0, Some("passed")), "{}", mended.report);
            assert_eq!(mended.report["tests"].as_array().unwrap().len(), tests);
        }
    }
}

/// A run by proctor and one without it, whose tests, outcomes and places are the same.
fn both(scene: &Scene, options: &[&str]) -> (Ran, Account) {
    let ran = scene.proctor(options);
    let (plain, ours) = (scene.project.runner.plainly(scene), scene.account(&ran.report));
    let (theirs_alone, ours_alone) = (plain.beside(&ours), ours.beside(&plain));
    assert!(
        theirs_alone.is_empty() && ours_alone.is_empty(),
        "the runner alone: {theirs_alone:#?}\nproctor alone: {ours_alone:#?}\n{}",
        ran.report["collectors"]
    );
    assert_eq!(plain.failures.keys().collect::<Vec<_>>(), ours.failures.keys().collect::<Vec<_>>());
    let wrong: BTreeMap<_, _> = plain
        .failures
        .iter()
        .map(|(test, places)| (test, (places, &ours.failures[test])))
        .filter(|(_, (theirs, ours))| !theirs.is_empty() && (ours.is_empty() || !ours.is_subset(theirs)))
        .collect();
    assert!(wrong.is_empty(), "test, places by the runner, places by proctor: {wrong:#?}");
    (ran, plain)
}

fn assert_failed(scene: &Scene, breakage: &Breakage, ran: &Ran, plain: &Account) {
    let what = (breakage.kind, &ran.report["collectors"]);
    assert_eq!((ran.status, ran.report["outcome"].as_str()), (1, Some("failed")), "{what:?}");
    assert_eq!(ran.report["collectors"].as_array().unwrap().len(), 0, "{what:?}");
    assert!(!plain.failures.is_empty(), "{what:?}");
    let unplaced: Vec<_> = plain.failures.iter().filter(|(_, places)| places.is_empty()).collect();
    assert!(unplaced.len() < plain.failures.len(), "{what:?}: the runner names no place at all: {unplaced:?}");
    if breakage.kind == Kind::Throws {
        let (seed, ours) = (scene.seed(breakage), scene.account(&ran.report));
        assert!(ours.failures.values().any(|places| places.contains(&seed)), "{seed:?} is not in {:?}", ours.failures);
    }
}

fn assert_unbuilt(scene: &Scene, breakage: &Breakage, ran: &Ran, plain: &Account) {
    let (seed, ours) = (scene.seed(breakage), scene.account(&ran.report));
    assert_eq!(ran.status, 3, "{}", ran.report);
    assert!(plain.unbuilt.contains(&seed), "the runner does not name {seed:?}: {:?}", plain.unbuilt);
    assert!(ours.unbuilt.contains(&seed), "proctor does not name {seed:?}: {}", ran.report["collectors"]);
    assert!(ours.unbuilt.is_subset(&plain.unbuilt), "{:?} by proctor, {:?} by the runner", ours.unbuilt, plain.unbuilt);
    let places = ran.report["collectors"].as_array().unwrap().iter().map(|one| (&one["file"], &one["line"]));
    assert!(places.clone().all(|(file, line)| file.is_string() && line.is_u64()), "{:?}", places.collect::<Vec<_>>());
}

/// Runs what failed again. How many tests that were.
fn rerun(scene: &Scene, broken: &Value) -> usize {
    let again = scene.proctor(&["--failed"]);
    let first = failed(broken);
    assert_eq!((again.status, failed(&again.report)), (1, first.clone()));
    let tests = again.report["tests"].as_array().unwrap();
    for test in tests {
        let nodeid = test["nodeid"].as_str().unwrap();
        let is_needed = first.contains(nodeid) || scene.project.runner.runs_with(nodeid, &first);
        assert!(is_needed, "{nodeid} ran again although it had not failed");
    }
    tests.len()
}

fn failed(report: &Value) -> BTreeSet<&str> {
    let tests = report["tests"].as_array().unwrap().iter();
    tests.filter(|test| test["outcome"] == "failed").map(|test| test["nodeid"].as_str().unwrap()).collect()
}
