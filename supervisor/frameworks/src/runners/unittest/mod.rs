//! unittest, with an injected runner (`proctor_unittest.py`) that discovers tests as `python -m unittest discover` does and
//! writes the run's report.
//!
//! Needs Python 3.8. One command for each directory that unittest can be started in, since two of them may have modules of the
//! same name. A package with a `load_tests` and no test files is found in a directory called `test...`, or below one. An
//! exception in a test is a failure, one in its fixtures an error. A test that a `load_tests` adds belongs to the file with its
//! code, also a doctest, and a library's test to the module that adds it. The lines
//! of each test are measured (`ecosystems/python/proctor_coverage.py`).
//!
//! In a directory with Django's `manage.py` the tests are run by the project's own test runner (`TEST_RUNNER`), as by
//! `manage.py test` with all tests below: it creates the test databases, and `proctor_django.py` wraps it. Files and names are
//! selected among the tests that it found. Tests run one at a time, with the settings that `manage.py` names.

mod command;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    CoverageHarvest, Framework, Manifest, OptionSupport, ParallelSupport, Parser, Plan, PlanError, PlanRequest,
    RerunNames,
};
use crate::ecosystems::python::{self, PythonRunner};
use crate::formats::line_records;
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use std::collections::{BTreeMap, BTreeSet};

/// Adapter for unittest.
#[derive(Debug, Clone, Copy)]
pub struct Unittest;

const NAME: &str = "unittest";

/// Exit status 5 without any test: of Python 3.12 and newer, and of the injected runner for older versions.
const PROFILE: RunnerProfile = RunnerProfile {
    empty_status: Some(5),
    missing_remedy: |output| {
        let ours = output.lines().filter_map(|line| line.strip_prefix("proctor: "));
        ours.map(str::to_owned).find(|line| line.starts_with("django is not installed"))
    },
    ..RunnerProfile::new(NAME)
};

/// What unittest names, after the class or alone, when a fixture of a whole class or module fails.
const FIXTURES: [&str; 4] = ["setUpClass", "setUpModule", "tearDownClass", "tearDownModule"];

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "proctor's runner finished, and every test of the suite started and was reported; a skipped fixture or the `run` of a class may skip tests",
    proof_markers: &[b"end"],
    markers: python::MARKERS,
    extensions: &["py"],
    node_id_separator: Some("::"),
    build_error_hides_tests: false,
    options: OptionSupport {
        coverage: true,
        scope: python::SCOPE,
        orders: python::ORDERS,
        parallel: ParallelSupport::NoEffect("parallel has no effect: unittest runs tests one at a time"),
        ..Manifest::DEFAULT.options
    },
    fixed_chance: python::FIXED_CHANCE,
    stack_dump: Some(python::STACK_DUMP),
    rerun_names: RerunNames { is_reported_only_on_failure: is_fixture, ..python::RERUN_NAMES },
    toolchains: &[&python::PYTHON],
    sample: &[("setup.py", ""), ("tests/__init__.py", ""), ("tests/test_a.py", "")],
    ..Manifest::DEFAULT
};

/// `Outer.Inner.setUpClass`; a second one ends in `#2`.
fn is_fixture(name: &str) -> bool {
    let name = name.split_once('#').map_or(name, |(name, _)| name);
    let last = name.rsplit('.').next().unwrap_or(name);
    FIXTURES.contains(&last) && !name.contains(char::is_whitespace)
}

impl Framework for Unittest {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn is_marker_path(&self, path: &str) -> bool {
        python::may_define_load_tests(path) || python::is_manage_file(path)
    }

    fn describe_markers(&self) -> String {
        python::describe_unittest_markers()
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        python::projects(tree, PythonRunner::Unittest)
    }

    fn includes(&self, tree: &FileTree, _outer: &Project, inner: &Project) -> bool {
        python::is_django(tree, &inner.dir)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        command::plan(projects, tree, request, &[])
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        command::plan(projects, tree, &PlanRequest { is_measured: false, ..request.clone() }, &["--list"])
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(ReporterParser::new(PROFILE, plan, request))
    }

    fn ingest_coverage(
        &self,
        _projects: &[Project],
        _workspace: &str,
        artifacts: &[(String, Vec<u8>)],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        line_records::ingest(NAME, artifacts, finished)
    }
}
