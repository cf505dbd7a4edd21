//! Maestro: flows in YAML that drive an app on a device.
//!
//! Proof of a pass: every flow that passed on the console is in the report as passed, and the report names as many flows as it
//! counts.
//!
//! `flows` finds the flows and what their headers say, `command` writes the command line, `console` says what a line of
//! Maestro's means, and `parser` puts console and report together. None of them must know how a process is started.
//!
//! **Two sources.** Maestro prints a line as each flow ends, which is told at once and survives a kill, and writes a JUnit
//! file at the end, which decides: without it, or where it contradicts the console, the run is not green. The forms are
//! those of Maestro's own sources, 1.39 and newer (`TestSuiteStatusView`, `JUnitTestSuiteReporter`); no device was at hand.
//!
//! A test's package is its flow's file, its name the flow's. Which flow runs is known where the order is: flows of a
//! workspace without a `config.yaml` are named one by one. A failure has a file and no line, since nothing tells one.
//!
//! **Retry.** Flows that failed are run once more, and a flow that then passes is flaky: it is counted as `flaky_in_run`,
//! named in a note, and stays failed, as does the run.
//!
//! A filter is a part of a flow's name or of its file's. The variables of a request reach flows when they begin with
//! `MAESTRO_`, as Maestro has it. `parallel` is `--shard-split`, which takes as many devices. Coverage is not measured.

mod command;
mod console;
mod flows;
mod parser;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest};

/// The adapter for Maestro.
#[derive(Debug, Clone, Copy)]
pub struct Maestro;

const NAME: &str = "maestro";

impl Framework for Maestro {
    fn name(&self) -> &'static str {
        NAME
    }

    /// What a person looks for: flows have no names of their own, so [`Framework::reads`] asks for them.
    fn proof(&self) -> &'static str {
        "every flow that passed on the console is in the report as passed, and the report names as many flows as it counts"
    }

    fn markers(&self) -> &'static [&'static str] {
        &[".maestro"]
    }

    fn is_marker_path(&self, path: &str) -> bool {
        flows::directory_of(path).is_some() && flows::is_yaml(path)
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["yaml", "yml"]
    }

    fn default_wall_ms(&self) -> Option<u64> {
        Some(LONG_WALL_MS)
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        flows::projects(tree)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        command::plan(projects, tree, request)
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        command::plan_listing(projects, tree, request)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::MaestroParser::new(plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::Listing::new(plan, request))
    }
}
