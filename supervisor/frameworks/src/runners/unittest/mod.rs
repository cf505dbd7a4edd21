//! unittest, with an injected runner (`proctor_unittest.py`) that discovers tests as `python -m unittest discover` does and
//! writes the run's report.
//!
//! Proof of a pass: our runner came to its end, and every test of the suite was begun and told; a skipped fixture or the `run` of
//! a class may pass tests over.
//!
//! Needs Python 3.8. One command for each directory that unittest can be started in, since two of them may have modules of the
//! same name. A package with a `load_tests` and no test files is found in a directory called `test...`, or below one. An
//! exception in a test is a failure, one in its fixtures an error. A test that a `load_tests` adds belongs to the file with its
//! code, also a doctest, and a library's test to the module that adds it. Coverage is not measured.
//!
//! In a directory with Django's `manage.py` the tests are run by the project's own test runner (`TEST_RUNNER`), as by
//! `manage.py test` with all tests below: it creates the test databases, and `proctor_django.py` wraps it. Files and names are
//! selected among the tests that it found. Tests run one at a time, with the settings that `manage.py` names.

mod command;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, Parser, Plan, PlanError, PlanRequest};
use crate::ecosystems::python::{self, PythonRunner};
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};

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

impl Framework for Unittest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "our runner came to its end, and every test of the suite was begun and told; a skipped fixture or the `run` of a class may pass tests over"
    }

    fn markers(&self) -> &'static [&'static str] {
        python::MARKERS
    }

    fn is_marker_path(&self, path: &str) -> bool {
        python::may_define_load_tests(path) || python::is_manage_file(path)
    }

    fn describe_markers(&self) -> String {
        python::describe_unittest_markers()
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["py"]
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
        command::plan(projects, tree, request, &["--list"])
    }

    fn build_error_hides_tests(&self) -> bool {
        false
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(ReporterParser::new(PROFILE, plan, request))
    }
}
