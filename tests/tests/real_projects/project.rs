//! A project, the bugs that are put into it, and the comparison of proctor's results with the runner's.
//!
//! The location of a failure is taken from the runner's own output, which the file of its language parses:
//!
//! | runner | location of a failed test |
//! |---|---|
//! | go | a `file.go:N:` in the test's own output; for a panic, the innermost frame in the module |
//! | pytest | the last `file:N:` of the traceback in the project |
//! | Jest, Mocha, node:test, Vitest | the innermost frame of the error's stack in the project, without its packages |
//! | cargo, nextest | `panicked at file:N` of the test's thread; for a doctest, the line in its name |
//!
//! For a bug that throws or does not build, the location is known without a runner: its own line.

use crate::project_copy::{ProctorRun, ProjectCopy};
use crate::test_results::TestResults;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A project and its bugs.
pub(crate) struct Project {
    /// Name and version, as in the list from which it is installed.
    pub(crate) name: &'static str,
    /// Least number of tests.
    pub(crate) tests_min: usize,
    /// Test runner of the project.
    pub(crate) runner: &'static dyn Runner,
    /// Bugs, each put in alone. The first one makes tests fail.
    pub(crate) breakages: [Breakage; 2],
}

/// A bug: a file, a text that occurs once in it, and its replacement.
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

/// Kind of a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Another value is returned.
    Value,
    /// An index or bound is off by one.
    OffByOne,
    /// A branch is never taken.
    Branch,
    /// The library throws or panics.
    Throws,
    /// The library cannot be compiled or loaded.
    BuildError,
}

/// A test runner, called as its users call it.
pub(crate) trait Runner: Sync {
    /// Installs the projects and returns the directory of one.
    fn source(&self, project: &str) -> PathBuf;

    /// Adds files that the published project lacks.
    fn prepare(&self, _workspace: &Path) {}

    /// Environment variables for proctor beyond those of all programs under test.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }

    /// Runs the tests without proctor.
    fn run_directly(&self, copy: &ProjectCopy) -> TestResults;

    /// The runner's own name for a test of proctor's report.
    fn key(&self, test: &Value) -> String;

    /// Whether a rerun of the failed tests has to include this one, because the runner cannot leave it out.
    fn reruns_with(&self, _nodeid: &str, _failed: &BTreeSet<&str>) -> bool {
        false
    }
}

/// Checks which bugs the projects of a language have, by runner: each kind in some project, and each runner one that does not
/// build. A bug in every project would take minutes of compilers and runners that show the same again.
pub(crate) fn assert_kinds(runners: &[&[&Project]]) {
    let mut all = BTreeSet::new();
    for projects in runners {
        let bugs = projects.iter().flat_map(|project| &project.breakages);
        let kinds: BTreeSet<Kind> = bugs.map(|breakage| breakage.kind).collect();
        assert!(kinds.contains(&Kind::BuildError), "{}: each bug of its runner builds", projects[0].name);
        all.extend(kinds);
    }
    assert_eq!(all, [Kind::Value, Kind::OffByOne, Kind::Branch, Kind::Throws, Kind::BuildError].into());
}

/// Options of all runs but the first, which has coverage: instrumented packages would be compiled again for each bug.
const PLAIN: [&str; 2] = ["--coverage", "off"];

/// Options of a rerun of the failed tests.
const RERUN: [&str; 3] = ["--failed", PLAIN[0], PLAIN[1]];

/// Checks a project as published and with each bug.
pub(crate) fn check(project: &'static Project) {
    assert_ne!(project.breakages[0].kind, Kind::BuildError, "the failed tests of the first bug run again");
    let copy = ProjectCopy::new(project);
    let (run, direct) = run_both(&copy, &[]);
    assert!(direct.tests() >= project.tests_min, "{} tests", direct.tests());
    assert_eq!((run.status, run.report["outcome"].as_str(), direct.failures.len()), (0, Some("passed"), 0));
    for breakage in &project.breakages {
        copy.break_with(breakage);
        let (run, direct) = run_both(&copy, &PLAIN);
        match breakage.kind {
            Kind::BuildError => assert_build_fails(&copy, breakage, &run, &direct),
            Kind::Value | Kind::OffByOne | Kind::Branch | Kind::Throws => {
                assert_tests_fail(&copy, breakage, &run, &direct);
            }
        }
        let again = (breakage.kind == project.breakages[0].kind).then(|| rerun(&copy, &run.report));
        copy.repair(breakage);
        if let Some(tests) = again {
            let repaired = copy.run_proctor(&RERUN);
            assert_eq!(
                (repaired.status, repaired.report["outcome"].as_str()),
                (0, Some("passed")),
                "{}",
                repaired.report
            );
            assert_eq!(repaired.report["tests"].as_array().unwrap().len(), tests);
        }
    }
}

/// Runs the tests with and without proctor, and compares tests, outcomes and failure locations.
fn run_both(copy: &ProjectCopy, options: &[&str]) -> (ProctorRun, TestResults) {
    let run = copy.run_proctor(options);
    let (direct, ours) = (copy.project.runner.run_directly(copy), copy.results(&run.report));
    let (only_direct, only_ours) = (direct.differences(&ours), ours.differences(&direct));
    assert!(
        only_direct.is_empty() && only_ours.is_empty(),
        "only the runner: {only_direct:#?}\nonly proctor: {only_ours:#?}\n{}",
        run.report["collectors"]
    );
    assert_eq!(direct.failures.keys().collect::<Vec<_>>(), ours.failures.keys().collect::<Vec<_>>());
    let wrong: BTreeMap<_, _> = direct
        .failures
        .iter()
        .map(|(test, locations)| (test, (locations, &ours.failures[test])))
        .filter(|(_, (theirs, ours))| !theirs.is_empty() && (ours.is_empty() || !ours.is_subset(theirs)))
        .collect();
    assert!(wrong.is_empty(), "test, locations by the runner, locations by proctor: {wrong:#?}");
    (run, direct)
}

fn assert_tests_fail(copy: &ProjectCopy, breakage: &Breakage, run: &ProctorRun, direct: &TestResults) {
    let context = (breakage.kind, &run.report["collectors"]);
    assert_eq!((run.status, run.report["outcome"].as_str()), (1, Some("failed")), "{context:?}");
    assert_eq!(run.report["collectors"].as_array().unwrap().len(), 0, "{context:?}");
    assert!(!direct.failures.is_empty(), "{context:?}");
    let unlocated: Vec<_> = direct.failures.iter().filter(|(_, locations)| locations.is_empty()).collect();
    assert!(unlocated.len() < direct.failures.len(), "{context:?}: the runner names no location: {unlocated:?}");
    if breakage.kind == Kind::Throws {
        let (bug, ours) = (copy.bug_location(breakage), copy.results(&run.report));
        assert!(
            ours.failures.values().any(|locations| locations.contains(&bug)),
            "{bug:?} is not in {:?}",
            ours.failures
        );
    }
}

fn assert_build_fails(copy: &ProjectCopy, breakage: &Breakage, run: &ProctorRun, direct: &TestResults) {
    let (bug, ours) = (copy.bug_location(breakage), copy.results(&run.report));
    assert_eq!(run.status, 3, "{}", run.report);
    let theirs = &direct.build_errors;
    assert!(theirs.contains(&bug), "the runner does not name {bug:?}: {theirs:?}");
    assert!(ours.build_errors.contains(&bug), "proctor does not name {bug:?}: {}", run.report["collectors"]);
    assert!(ours.build_errors.is_subset(theirs), "{:?} by proctor, {theirs:?} by the runner", ours.build_errors);
    let locations = run.report["collectors"].as_array().unwrap().iter().map(|one| (&one["file"], &one["line"]));
    let are_complete = locations.clone().all(|(file, line)| file.is_string() && line.is_u64());
    assert!(are_complete, "{:?}", locations.collect::<Vec<_>>());
}

/// Reruns the failed tests and returns their number.
fn rerun(copy: &ProjectCopy, broken: &Value) -> usize {
    let again = copy.run_proctor(&RERUN);
    let first = failed(broken);
    assert_eq!((again.status, failed(&again.report)), (1, first.clone()));
    let tests = again.report["tests"].as_array().unwrap();
    for test in tests {
        let nodeid = test["nodeid"].as_str().unwrap();
        let is_needed = first.contains(nodeid) || copy.project.runner.reruns_with(nodeid, &first);
        assert!(is_needed, "{nodeid} ran again although it had not failed");
    }
    tests.len()
}

fn failed(report: &Value) -> BTreeSet<&str> {
    let tests = report["tests"].as_array().unwrap().iter();
    tests.filter(|test| test["outcome"] == "failed").map(|test| test["nodeid"].as_str().unwrap()).collect()
}
