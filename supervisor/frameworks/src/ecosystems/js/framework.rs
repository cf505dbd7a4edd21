//! The adapter contract for JavaScript runners: `package.json` and its test script decide the same things for each of them.

use super::{
    JsRunner, describe_markers, is_left_to_test_script, is_monorepo, is_tested_by, missing_build_output,
    package_json_path, projects, script_starts,
};
use crate::contract::{CoverageHarvest, FileTree, Framework, Manifest, Parser, Plan, PlanError, PlanRequest, Project};
use crate::formats::line_records;
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use proctor_core::request::BrowserOptions;
use std::collections::{BTreeMap, BTreeSet};

/// What one JavaScript runner adds to what all of them share.
pub(crate) trait JsFramework: Send + Sync {
    /// The runner, as detection knows it.
    const RUNNER: JsRunner;
    /// What it declares about itself.
    const MANIFEST: &'static Manifest;
    /// How its injected reporter's events are read.
    const PROFILE: RunnerProfile;

    /// The commands that run the selected tests.
    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError>;

    /// The commands that list tests without running them.
    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError>;

    /// Changes the commands of a run so that they drive the requested browser. Only called if the manifest's options have browsers.
    fn plan_browser(&self, _tree: &FileTree, _plan: &mut Plan, _requested: BrowserOptions) {}

    /// A parser for one run or listing of `plan`.
    fn reporter_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(ReporterParser::new(Self::PROFILE, plan, request))
    }
}

impl<F: JsFramework> Framework for F {
    fn manifest(&self) -> &'static Manifest {
        F::MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        projects(tree, F::RUNNER)
    }

    fn describe_markers_in(&self, tree: &FileTree) -> String {
        describe_markers(tree, F::RUNNER)
    }

    fn test_script(&self, tree: &FileTree, project: &Project) -> Option<String> {
        script_starts(tree, &project.dir, F::RUNNER).then(|| package_json_path(&project.dir))
    }

    fn includes(&self, tree: &FileTree, outer: &Project, _inner: &Project) -> bool {
        is_monorepo(tree, &outer.dir)
    }

    /// Where the test script starts another runner only, that one is the project's: browser tests live beside unit tests.
    fn is_default_for(&self, tree: &FileTree, project: &Project) -> bool {
        if F::MANIFEST.options.browsers {
            is_tested_by(tree, &project.dir, F::RUNNER)
        } else {
            !is_left_to_test_script(tree, &project.dir)
        }
    }

    fn missing_build_outputs(&self, tree: &FileTree, projects: &[Project]) -> Vec<String> {
        let unit_tests = projects.iter().filter(|_| !F::MANIFEST.options.browsers);
        unit_tests.filter_map(|project| missing_build_output(tree, &project.dir)).collect()
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        let mut plan = self.plan_tests(projects, tree, request)?;
        if F::MANIFEST.options.coverage {
            line_records::plan_measurement(&mut plan, F::MANIFEST.name, request);
        }
        Ok(plan)
    }

    fn apply_browser_options(
        &self,
        tree: &FileTree,
        plan: &mut Plan,
        option: &'static str,
        requested: BrowserOptions,
    ) -> Result<(), PlanError> {
        if !F::MANIFEST.options.browsers {
            return Err(PlanError::NotApplicable { option, framework: self.name() });
        }
        self.plan_browser(tree, plan, requested);
        Ok(())
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        self.plan_names(projects, tree, &PlanRequest { is_measured: false, ..request.clone() })
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        self.reporter_parser(plan, request)
    }

    fn ingest_coverage(
        &self,
        _projects: &[Project],
        _workspace: &str,
        artifacts: &[(String, Vec<u8>)],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        line_records::ingest(F::MANIFEST.name, artifacts, finished)
    }
}
