//! pytest, with an injected plugin (`proctor_pytest.py`) that writes the run's report.
//!
//! Needs pytest 7.0, and pytest-xdist 2 if the project uses it; the plugin refuses older ones. The project's settings, plugins
//! and hooks stay in force. The lines of each test are measured beside whatever the project's own settings measure
//! (`ecosystems/python/proctor_coverage.py`). A passing test whose teardown fails is one test with an error; pytest counts it twice. Files that tests of pytest-playwright leave (screenshots,
//! traces, videos, and what they write to its `output_path`) go to the run's artifact directory and not to the workspace.

mod command;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    CoverageHarvest, DefaultConcurrency, Framework, IgnoredDirs, Manifest, OptionSupport, ParallelSupport, Parser,
    Plan, PlanError, PlanRequest, ReservedVariables, Step,
};
use crate::ecosystems::python::{self, PythonRunner};
use crate::formats::line_records;
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use proctor_core::request::BrowserOptions;
use std::collections::{BTreeMap, BTreeSet};

/// Adapter for pytest.
#[derive(Debug, Clone, Copy)]
pub struct Pytest;

const NAME: &str = "pytest";

/// pytest's messages and exit status when it ends before its plugins are loaded.
const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy: missing,
    error_reason: reason,
    other_failure: unmet,
    empty_status: Some(5),
    ..RunnerProfile::new(NAME)
};

fn missing(output: &str) -> Option<String> {
    let line = output.lines().find(|line| line.ends_with(": No module named pytest"));
    let not_installed = line.map(|_| {
        "pytest is not installed for the project's Python: install it in the project's environment (.venv/bin/pip install \
         pytest), or for the python3 on PATH where it has none"
            .to_owned()
    });
    let too_old = || output.lines().find_map(|line| line.find("proctor needs pytest").map(|at| line[at..].to_owned()));
    not_installed.or_else(too_old)
}

/// The text after `error:` in the last line that has it; the lines below only explain the settings.
fn reason(output: &str) -> Option<String> {
    let after = |line: &str| {
        let found = ["error: ", "ERROR: "].iter().find_map(|mark| line.rsplit_once(mark))?;
        Some(found.1.trim().to_owned())
    };
    output.lines().rev().find_map(after)
}

/// pytest-cov's message when `--cov-fail-under` is not reached: it fails the run without a failed test.
fn unmet(output: &str) -> Option<String> {
    let is_unmet = |line: &&str| line.starts_with("FAIL Required test coverage of ");
    output.lines().rev().find(is_unmet).and_then(|line| line.strip_prefix("FAIL ")).map(str::to_owned)
}

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "pytest finished its session, and every collected test that was not deselected was reported",
    proof_markers: &[b"end"],
    markers: python::MARKERS,
    extensions: &["py"],
    node_id_separator: Some("::"),
    ignored_dirs: IgnoredDirs { tagged: &[".pytest_cache"], ..IgnoredDirs::NONE },
    options: OptionSupport {
        parallel: ParallelSupport::Applied(DefaultConcurrency::OneTest { needs: Some("pytest-xdist") }),
        browsers: true,
        coverage: true,
        scope: python::SCOPE,
        orders: python::ORDERS,
        ..Manifest::DEFAULT.options
    },
    fixed_chance: python::FIXED_CHANCE,
    stack_dump: Some(python::STACK_DUMP),
    rerun_names: python::RERUN_NAMES,
    reserved: ReservedVariables {
        names: &["PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_PLUGINS"],
        ..ReservedVariables::NONE
    },
    toolchains: &[&python::PYTHON],
    sample: &[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("tests/test_a.py", "")],
    ..Manifest::DEFAULT
};

impl Framework for Pytest {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn is_marker_path(&self, path: &str) -> bool {
        python::is_ambiguous_config(path)
    }

    fn describe_markers(&self) -> String {
        python::describe_pytest_markers()
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        python::projects(tree, PythonRunner::Pytest)
    }

    fn detect_explicit(&self, tree: &FileTree) -> Vec<Project> {
        python::projects_for_pytest(tree)
    }

    fn collects_tests_of(&self, tree: &FileTree, outer: &Project, inner: &Project) -> bool {
        python::pytest_collects(tree, outer, inner)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        command::plan(projects, tree, request, &[])
    }

    /// The options belong to the plugin pytest-playwright.
    fn apply_browser_options(
        &self,
        tree: &FileTree,
        plan: &mut Plan,
        option: &'static str,
        asked: BrowserOptions,
    ) -> Result<(), PlanError> {
        let mut steps: Vec<&mut Step> = plan
            .steps
            .iter_mut()
            .filter(|step| python::requires_package(tree, &step.dir, "pytest-playwright"))
            .collect();
        if steps.is_empty() {
            return Err(PlanError::NotApplicable { option, framework: "pytest without pytest-playwright" });
        }
        let headed = asked.headed.then(|| "--headed".to_owned());
        let browser = asked.browser.map(|browser| format!("--browser={}", browser.name()));
        let options: Vec<String> = headed.into_iter().chain(browser).collect();
        steps.iter_mut().for_each(|step| step.args.extend(options.iter().cloned()));
        Ok(())
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        command::plan(
            projects,
            tree,
            &PlanRequest { parallel: None, is_measured: false, ..request.clone() },
            &["--collect-only", "-q"],
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::request::Browser;

    #[test]
    fn reads_the_messages_of_a_pytest_that_cannot_start() {
        let remedy = missing("/ws/.venv/bin/python: No module named pytest\n").unwrap();
        assert!(remedy.starts_with("pytest is not installed"), "{remedy}");
        assert_eq!(missing("E   ModuleNotFoundError: No module named 'pytest'"), None);
        let old = missing("ERROR: proctor needs pytest 7.0 or newer, and this is 6.2.5\n").unwrap();
        assert_eq!(old, "proctor needs pytest 7.0 or newer, and this is 6.2.5");
        let output =
            "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --nope\n  inifile: pytest.ini\n";
        assert_eq!(reason(output).unwrap(), "unrecognized arguments: --nope");
        assert_eq!(reason("Traceback"), None);
    }

    #[test]
    fn reports_a_coverage_below_the_required_one() {
        let not_reached = "Required test coverage of 90% not reached. Total coverage: 50.00%";
        assert_eq!(unmet(&format!("1 passed\nFAIL {not_reached}\n====\n")).unwrap(), not_reached);
        assert_eq!(unmet("Required test coverage of 90% reached. Total coverage: 95.00%\n"), None);
    }

    #[test]
    fn a_browser_applies_only_to_projects_that_drive_one() {
        let browsed = |requirements: &str| {
            let mut tree = FileTree::default();
            tree.add_with_content("web/requirements.txt", requirements);
            let step =
                Step { programs: vec![], args: vec!["-m".to_owned()], dir: "web".to_owned(), env: BTreeMap::new() };
            let mut plan = Plan { steps: vec![step], ..Plan::default() };
            let asked = BrowserOptions { headed: true, browser: Some(Browser::Webkit) };
            Pytest.apply_browser_options(&tree, &mut plan, "headed", asked).map(|()| plan.steps[0].args.join(" "))
        };
        assert_eq!(browsed("pytest-playwright==0.7").unwrap(), "-m --headed --browser=webkit");
        let refused = browsed("pytest").unwrap_err().to_string();
        assert_eq!(refused, "headed has no meaning for pytest without pytest-playwright");
    }
}
