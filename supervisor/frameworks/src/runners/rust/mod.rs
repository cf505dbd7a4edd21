//! Rust: `cargo test`, with doctests, and cargo-nextest where a project is set up for it. Needs Rust 1.73 (panics with the
//! place first) and nextest 0.9.94.
//!
//! Proof of a pass: with Cargo, every test program told as many tests as its harness had announced and closed its suite; one
//! without a harness exited with 0. With nextest, nextest ended every suite that it had begun, and every test that began ended;
//! its counts are of attempts and not used.
//!
//! `manifest` reads Cargo's files as far as planning needs them, `selection` turns a request into targets and names, `cargo`
//! and `nextest` build command lines, `parser` reads both runners' streams with `event` for JSON and `libtest_text` for
//! libtest's text, `failure` turns a failed test's output into a message with a place, `build_errors` does the same for the
//! compiler, and `binary_names` maps binaries to names and back.
//!
//! `cargo test` writes a lock file where the project has none, as it does without proctor; nothing else is written to the
//! workspace. Coverage is not measured.

mod binary_names;
mod build_errors;
mod cargo;
mod event;
mod failure;
mod libtest_text;
mod manifest;
mod nextest;
mod parser;
mod selection;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest};
use crate::parsing::workspace_paths::join;
use parser::{Mode, RunnerKind, RustParser};

/// Files whose content planning reads: manifests, the settings of nextest, and Cargo's own settings.
const MARKERS: &[&str] = &["Cargo.toml", "nextest.toml", "config.toml"];

/// Adapter for `cargo test`.
#[derive(Debug, Clone, Copy)]
pub struct Cargo;

impl Framework for Cargo {
    fn name(&self) -> &'static str {
        cargo::NAME
    }

    fn proof(&self) -> &'static str {
        "every test program told as many tests as its harness had announced and closed its suite; one without a harness exited with 0"
    }

    fn markers(&self) -> &'static [&'static str] {
        MARKERS
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["rs"]
    }

    fn default_wall_ms(&self) -> Option<u64> {
        Some(LONG_WALL_MS)
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        manifest::workspaces(tree)
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

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Cargo, Mode::Running, plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Cargo, Mode::Listing, plan, request))
    }
}

/// Adapter for cargo-nextest. It takes the projects that have nextest settings, and any project when requested by name.
#[derive(Debug, Clone, Copy)]
pub struct Nextest;

impl Framework for Nextest {
    fn name(&self) -> &'static str {
        nextest::NAME
    }

    fn proof(&self) -> &'static str {
        "nextest ended every suite that it had begun, and every test that began ended; its counts are of attempts and not used"
    }

    fn markers(&self) -> &'static [&'static str] {
        MARKERS
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["rs"]
    }

    fn default_wall_ms(&self) -> Option<u64> {
        Some(LONG_WALL_MS)
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        manifest::workspaces(tree)
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

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Nextest, Mode::Running, plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(RunnerKind::Nextest, Mode::Listing, plan, request))
    }
}

fn uses_nextest(tree: &FileTree, project: &Project) -> bool {
    tree.contains(&join(&project.dir, nextest::SETTINGS))
}
