//! C and C++: projects of CMake, whose tests `ctest` runs, read as it prints; what GoogleTest, Catch2, doctest and `assert`
//! say within them becomes place, message and values.
//!
//! Proof of a pass: ctest printed its sum, and as many results came as it has tests.
//!
//! A run is three rounds, and a project comes to the next one only when it got through the one before: configure, build
//! (both into the cache, never into the workspace), test. `detect` finds projects, `command` writes the command lines,
//! `parser` follows the rounds, `build` reads what CMake and compilers refuse (`linker` whom a linker blames), `verbose` reads
//! ctest's own lines, and `failure` a test's output. None of them must know how a process is started.
//!
//! ctest runs verbosely (`-V`), because then every line of a test's output carries the test's number: it is known at once
//! whose it is, also with tests beside one another, and no test can print what reads like a line of ctest's own.
//! It does not say that a test was to fail (`WILL_FAIL`): where the project's files have that word, ctest's list of tests is
//! asked for it first, through the report, since no person wants to read that list.
//! Coverage is not measured. Presets are not read: a project is built as `cmake -S . -B DIR` builds it. Needs CMake 3.20
//! (`--test-dir`). Two runs at the same time in one workspace share its build directory, as two shells would.

mod build;
mod command;
mod detect;
pub(crate) mod failure;
mod linker;
mod listing;
mod parser;
mod verbose;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest};
use proctor_core::request::RerunTarget;

/// The adapter for CMake's test runner.
#[derive(Debug, Clone, Copy)]
pub struct Ctest;

/// Its name.
const NAME: &str = "ctest";

impl Framework for Ctest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "ctest printed its sum, and as many results came as it has tests"
    }

    fn markers(&self) -> &'static [&'static str] {
        &[detect::MARKER]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["c", "cc", "cmake", "cpp", "cxx", "h", "hh", "hpp", "hxx"]
    }

    fn default_wall_ms(&self) -> Option<u64> {
        Some(LONG_WALL_MS)
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        detect::projects(tree)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        // The parser knows by this what to ask for.
        Ok(Plan { report: detect::has_tests_to_fail(tree), ..command::plan(projects, request)? })
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        _tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        command::plan(projects, request)
    }

    fn owns_target(&self, projects: &[Project], _tree: &FileTree, target: &RerunTarget) -> bool {
        command::dir_of_target(projects, target).is_some()
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::Rounds::new(plan, request, parser::Mode::Running))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::Rounds::new(plan, request, parser::Mode::Listing))
    }
}
