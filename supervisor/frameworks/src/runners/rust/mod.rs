//! Rust: `cargo test`, with doctests, and cargo-nextest where a project is set up for it. Needs Rust 1.73 (panics with the
//! place first) and nextest 0.9.94.
//!
//! `manifest` reads Cargo's files as far as planning needs them, `selection` turns a request into targets and names, `cargo`
//! and `nextest` build command lines, `parser` reads both runners' streams with `event` for JSON and `libtest_text` for
//! libtest's text, `failure` turns a failed test's output into a message with a place, `build_errors` does the same for the
//! compiler, and `binary_names` maps binaries to names and back.
//!
//! `cargo test` writes a lock file where the project has none, as it does without proctor; nothing else is written to the
//! workspace. `test_lines` measures which lines each test executes.

mod binary_names;
mod build_errors;
mod cargo;
mod doctest_names;
mod event;
mod failure;
mod libtest_text;
mod manifest;
mod nextest;
mod parser;
mod selection;
mod test_lines;
mod toolchain;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    CoverageHarvest, Framework, LONG_WALL_MS, Manifest, NameScope, OptionSupport, Parser, Plan, PlanError, PlanRequest,
    ReservedVariables, ScopeSupport,
};
use crate::parsing::workspace_paths::join;
use doctest_names::RERUN_NAMES;
pub(crate) use manifest::workspaces;
use parser::{Mode, RunnerKind, RustParser};
use proctor_core::request::RerunTarget;
use proctor_core::test_name::TestName;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use toolchain::RUST;

/// Files whose content planning reads: manifests, the settings of nextest, and Cargo's own settings.
const MARKERS: &[&str] = &["Cargo.toml", "nextest.toml", "config.toml"];

/// Adapter for `cargo test`.
#[derive(Debug, Clone, Copy)]
pub struct Cargo;

static CARGO_MANIFEST: Manifest = Manifest {
    name: cargo::NAME,
    proof: "every test program reported as many tests as its harness had announced and closed its suite; one without a harness exited with 0",
    proof_markers: &[b"proctor-ended", b"test result"],
    markers: MARKERS,
    extensions: &["rs"],
    default_wall_ms: Some(LONG_WALL_MS),
    options: OptionSupport { coverage: true, ..Manifest::DEFAULT.options },
    rerun_names: RERUN_NAMES,
    toolchains: &[&RUST],
    sample: &[("Cargo.toml", "[package]\nname = \"pass\"\n")],
    ..Manifest::DEFAULT
};

impl Framework for Cargo {
    fn manifest(&self) -> &'static Manifest {
        &CARGO_MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        workspaces(tree)
    }

    fn is_default_for(&self, tree: &FileTree, project: &Project) -> bool {
        !uses_nextest(tree, project)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        cargo::plan(projects, tree, request)
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        cargo::plan_listing(projects, tree, request)
    }

    fn owns_package(&self, projects: &[Project], tree: &FileTree, package: &str) -> bool {
        selection::owns_binary(projects, tree, package)
    }

    fn resolve_names(&self, projects: &[Project], tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
        selection::resolve_names(projects, tree, names)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Cargo, Mode::Running, plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Cargo, Mode::Listing, plan, request))
    }

    fn ingest_coverage(
        &self,
        projects: &[Project],
        workspace: &str,
        artifacts: &[(String, Vec<u8>)],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        test_lines::ingest(cargo::NAME, projects, workspace, artifacts, finished)
    }
}

/// Adapter for cargo-nextest. It takes the projects that have nextest settings, and any project when requested by name.
#[derive(Debug, Clone, Copy)]
pub struct Nextest;

static NEXTEST_MANIFEST: Manifest = Manifest {
    name: nextest::NAME,
    proof: "nextest ended every suite that it started, and every test that started ended; its counts are of attempts and not used",
    proof_markers: &[b"suite"],
    markers: MARKERS,
    extensions: &["rs"],
    default_wall_ms: Some(LONG_WALL_MS),
    finishes_started_tests: false,
    options: OptionSupport {
        coverage: true,
        scope: ScopeSupport { names: NameScope::Adapter, files: false },
        ..Manifest::DEFAULT.options
    },
    rerun_names: RERUN_NAMES,
    reserved: ReservedVariables { prefixes: &["NEXTEST_"], ..ReservedVariables::NONE },
    toolchains: &[&RUST],
    sample: &[("Cargo.toml", "[package]\nname = \"pass\"\n"), (".config/nextest.toml", "")],
    ..Manifest::DEFAULT
};

impl Framework for Nextest {
    fn manifest(&self) -> &'static Manifest {
        &NEXTEST_MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        workspaces(tree)
    }

    fn is_default_for(&self, tree: &FileTree, project: &Project) -> bool {
        uses_nextest(tree, project)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        nextest::plan(projects, tree, request)
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        nextest::plan_listing(projects, tree, request)
    }

    fn owns_package(&self, projects: &[Project], tree: &FileTree, package: &str) -> bool {
        selection::owns_binary(projects, tree, package)
    }

    fn resolve_names(&self, projects: &[Project], tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
        selection::resolve_names(projects, tree, names)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Nextest, Mode::Running, plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Nextest, Mode::Listing, plan, request))
    }

    fn ingest_coverage(
        &self,
        projects: &[Project],
        workspace: &str,
        artifacts: &[(String, Vec<u8>)],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        test_lines::ingest(nextest::NAME, projects, workspace, artifacts, finished)
    }
}

fn uses_nextest(tree: &FileTree, project: &Project) -> bool {
    tree.contains(&join(&project.dir, nextest::SETTINGS))
}
