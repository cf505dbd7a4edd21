//! Rust: `cargo test`, with doctests, and cargo-nextest where a project is set up for it.
//!
//! Proof of a pass: with Cargo, every test program told as many tests as its harness had announced and closed its suite; one
//! without a harness exited with 0. With nextest, nextest ended every suite that it had begun, and every test that began ended;
//! its counts are of attempts and not used.
//!
//! `manifest` reads Cargo's files as far as planning needs them, `selection` turns a request into targets and names, `cargo`
//! and `nextest` write command lines, `parser` reads both runners' streams with `event` for JSON and `text` for libtest's
//! text, `failure` turns what a failed test printed into a message with a place, `build` does the same for the compiler, and
//! `names` says how binaries are called. None of them must know how a process is started.
//!
//! Needs Rust 1.73 (panics with the place first) and nextest 0.9.94. `cargo test` writes a lock file where there is none, as
//! it does without proctor; nothing else is written to the workspace. Coverage is not measured in this version.

mod build;
mod cargo;
mod event;
mod failure;
mod manifest;
mod names;
mod nextest;
mod parser;
mod selection;
mod text;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest};
use crate::parsing::workspace_paths::join;
use parser::{Mode, RustParser, Speaker};

/// Files whose content planning reads: manifests, the settings of nextest, and Cargo's own settings.
const MARKERS: &[&str] = &["Cargo.toml", "nextest.toml", "config.toml"];

/// The adapter for `cargo test`.
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
        Box::new(RustParser::new(Speaker::Cargo, Mode::Running, plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(Speaker::Cargo, Mode::Listing, plan, request))
    }
}

/// The adapter for cargo-nextest. It takes the projects that have settings for it, and any that is asked for by name.
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
        Box::new(RustParser::new(Speaker::Nextest, Mode::Running, plan, request))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(RustParser::new(Speaker::Nextest, Mode::Listing, plan, request))
    }
}

fn uses_nextest(tree: &FileTree, project: &Project) -> bool {
    tree.contains(&join(&project.dir, nextest::SETTINGS))
}
