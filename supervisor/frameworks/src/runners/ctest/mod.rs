//! CMake projects (C and C++), tested with `ctest`. Assertions of GoogleTest, Catch2, doctest, Boost.Test and `assert` in
//! a test's output are read into place, message and values.
//!
//! A run has three rounds: configure, build (both into the cache, never into the workspace), test. A project reaches a
//! round only when the round before succeeded. `detect` finds projects, `command` builds the command lines, `parser`
//! drives the rounds, `build_errors` reads errors of CMake and compilers (`linker_source` finds the source that a linker
//! error is about), `verbose_output` reads ctest's own lines, and `assertion_output` reads the output of a test.
//!
//! ctest runs verbosely (`-V`): it then prefixes each line of a test's output with the test's number. The prefix attributes
//! lines of parallel tests, and a test cannot forge a line of ctest's own.
//! The verbose output does not show which tests are expected to fail (`WILL_FAIL`). Where a CMakeLists.txt contains that
//! word, ctest's test list is read first, through the report, to keep the list out of the output that people read.
//! Coverage is not measured. CMake presets are not read: a project is configured with `cmake -S . -B DIR`. Needs CMake 3.20
//! (`--test-dir`). Two runs at the same time in one workspace share its build directory, as two shells would.

pub(crate) mod assertion_output;
mod build_errors;
mod command;
mod detect;
mod linker_source;
mod parser;
mod test_list;
mod verbose_output;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    DefaultConcurrency, Framework, LONG_WALL_MS, Manifest, OptionSupport, ParallelSupport, Parser, Plan, PlanError,
    PlanRequest, ReservedVariables, Toolchain, split_node_id,
};
use proctor_core::request::RerunTarget;
use proctor_core::test_name::TestName;

/// Adapter for CMake projects and their `ctest` tests.
#[derive(Debug, Clone, Copy)]
pub struct Ctest;

const NAME: &str = "ctest";

/// Separates the directory of a project below the root from a test in a node id.
const NODE_ID_SEPARATOR: &str = "::";

/// CMake, and the variables that test libraries of C++ read.
static CPP: Toolchain = Toolchain {
    name: "cpp",
    reserved: ReservedVariables {
        // GoogleTest and Catch2 take a filter and a shard from Bazel's variables.
        names: &["BAZEL_TEST", "TESTBRIDGE_TEST_ONLY"],
        prefixes: &["BOOST_TEST_", "CMAKE_", "CTEST_", "GTEST_"],
        ..ReservedVariables::NONE
    },
    ..Toolchain::DEFAULT
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "ctest printed its summary, and as many results arrived as it has tests",
    proof_markers: &[b"tests passed"],
    markers: &[detect::MARKER],
    extensions: &["c", "cc", "cmake", "cpp", "cxx", "h", "hh", "hpp", "hxx"],
    default_wall_ms: Some(LONG_WALL_MS),
    options: OptionSupport {
        parallel: ParallelSupport::Applied(DefaultConcurrency::OneTest { needs: None }),
        ..Manifest::DEFAULT.options
    },
    toolchains: &[&CPP],
    sample: &[("CMakeLists.txt", "project(x)\nenable_testing()\n")],
    ..Manifest::DEFAULT
};

impl Framework for Ctest {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        detect::projects(tree)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        // The parser queries test properties only where the plan has a report.
        Ok(Plan { report: detect::mentions_will_fail(tree), ..command::plan(projects, request)? })
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        _tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        command::plan(projects, request)
    }

    fn owns_package(&self, projects: &[Project], _tree: &FileTree, package: &str) -> bool {
        command::dir_of_package(projects, package).is_some()
    }

    fn resolve_names(&self, projects: &[Project], _tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
        let is_dir = |dir: &str| !dir.is_empty() && projects.iter().any(|project| project.dir == dir);
        let resolve = |name: &TestName| {
            split_node_id(name, NODE_ID_SEPARATOR, is_dir)
                .unwrap_or_else(|| RerunTarget::Name(name.as_str().to_owned()))
        };
        names.iter().map(resolve).collect()
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::RoundsParser::new(plan, request, parser::Mode::Running))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::RoundsParser::new(plan, request, parser::Mode::Listing))
    }
}
