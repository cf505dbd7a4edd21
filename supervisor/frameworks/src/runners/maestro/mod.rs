//! Maestro: flows in YAML that drive an app on a device.
//!
//! `flows` finds the flows and reads their headers, `command` builds the command lines, `console` parses Maestro's console, and
//! `parser` combines console and report.
//!
//! **Two sources.** Maestro prints a line when a flow ends, which is reported at once and survives a kill, and writes a JUnit
//! file at the end, which decides: without it, or where it contradicts the console, the run is not green. The formats are
//! those of Maestro's sources, 1.39 and newer (`TestSuiteStatusView`, `JUnitTestSuiteReporter`); no device was available.
//!
//! A test's package is its flow's file, its name the flow's. The running flow is known where the order is: flows of a
//! workspace without a `config.yaml` are named one by one. A failure has a file and no line, since no source has one.
//!
//! **Retry.** Failed flows run once more. A flow that then passes is flaky: it is counted in `flaky_in_run` and named in a
//! note, and it and the run stay failed.
//!
//! A filter is a part of a flow's name or of its file's. Variables of a request reach flows if they begin with `MAESTRO_`
//! (Maestro's rule). `parallel` is `--shard-split`, which needs as many devices. Coverage is not measured.

mod command;
mod console;
mod flows;
mod parser;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, LONG_WALL_MS, Manifest, Parser, Plan, PlanError, PlanRequest, ReservedVariables};
use crate::ecosystems::jvm;

/// Adapter for Maestro.
#[derive(Debug, Clone, Copy)]
pub struct Maestro;

const NAME: &str = "maestro";

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "every flow that passed on the console passed in the report, and the report names as many flows as it counts",
    proof_markers: &[b"testsuite"],
    // Named where no project is found. Flows have no fixed file name, so `is_marker_path` decides what is read.
    markers: &[".maestro"],
    extensions: &["yaml", "yml"],
    node_id_separator: Some(parser::SEPARATOR),
    default_wall_ms: Some(LONG_WALL_MS),
    reserved: ReservedVariables { names: &["MAESTRO_OPTS"], ..ReservedVariables::NONE },
    toolchains: &[&jvm::JVM],
    sample: &[
        (".maestro/greeting.yaml", "appId: x\nname: Greeting (in English)\n---\n- launchApp\n"),
        (".maestro/login.yaml", "appId: x\nname: Log in\n---\n- launchApp\n"),
        (".maestro/search.yaml", "appId: x\n---\n- launchApp\n"),
    ],
    ..Manifest::DEFAULT
};

impl Framework for Maestro {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn is_marker_path(&self, path: &str) -> bool {
        flows::directory_of(path).is_some() && flows::is_yaml(path)
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
        Box::new(parser::ListingParser::new(plan, request))
    }
}
