//! Go: `go test -json`, parsed as it streams. Needs Go 1.21 (`-fullpath`); events that came later (build failures in 1.24,
//! `OutputType` in 1.27) are used where they exist.
//!
//! Without the `PASS` of `m.Run` (`os.Exit(0)` in a `TestMain` or an `init`, a closed standard output) the package gets an error named
//! `TestMain`. A failed subtest is reported when its outermost test ends: below one that passed it is an expected failure.
//!
//! `detect` finds modules, `selection` and `command` build command lines, `parser` reads the event stream, `tracker` holds
//! the state of each package, `failure` turns a failed test's output into a message with a position, `build_errors` does
//! the same for compilers, `coverage` attributes executed lines to packages, `testing_overlay` and `test_records` to tests, and `run_expression` evaluates `-run`.

mod assertion;
mod build_errors;
mod command;
mod coverage;
mod deferred_failures;
mod detect;
mod event;
mod failure;
mod goroutines;
mod output_buffer;
mod parser;
mod run_expression;
mod runtime_trace;
mod scope;
mod selection;
mod test_names;
mod test_records;
mod test_sets;
mod testing_overlay;
mod toolchain;
mod tracker;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    CoverageHarvest, Framework, Manifest, NameScope, OptionSupport, OrderSupport, Parser, Plan, PlanError, PlanRequest,
    ScopeSupport, StackDump, StackSource,
};
pub(crate) use command::{environment, telemetry_mode};
pub(crate) use detect::modules;
use proctor_core::hung_test::StackSignal;
use proctor_core::request::RerunTarget;
use proctor_core::test_name::TestName;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use toolchain::GO;

/// Adapter for `go test`.
#[derive(Debug, Clone, Copy)]
pub struct Go;

static MANIFEST: Manifest = Manifest {
    name: "go",
    proof: "`go test` reported `pass` for every package, and each test process printed the `PASS` of `m.Run`, or its package has no test files",
    proof_markers: &[b"pass", b"skip"],
    markers: &["go.mod", "go.work"],
    extensions: &["go"],
    build_error_hides_tests: false,
    options: OptionSupport {
        coverage: true,
        orders: OrderSupport { shuffled: true, ..OrderSupport::NONE },
        scope: ScopeSupport { names: NameScope::Adapter, files: true },
        ..Manifest::DEFAULT.options
    },
    stack_dump: Some(StackDump {
        source: StackSource::Signal(StackSignal::Quit),
        read: goroutines::hung_tests,
        declared_note: None,
    }),
    toolchains: &[&GO],
    sample: &[("go.mod", "module example.com/pass\n")],
    ..Manifest::DEFAULT
};

impl Framework for Go {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        modules(tree)
    }

    fn includes(&self, tree: &FileTree, _outer: &Project, inner: &Project) -> bool {
        detect::is_used_by_root_go_work(tree, inner)
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

    fn owns_package(&self, projects: &[Project], tree: &FileTree, package: &str) -> bool {
        detect::module_of_package(projects, &detect::go_directories(tree), package).is_some()
    }

    fn resolve_names(&self, projects: &[Project], tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
        selection::resolve_names(projects, tree, names)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::GoParser::new(plan, request, parser::Mode::Running))
    }

    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::GoParser::new(plan, request, parser::Mode::Listing))
    }

    fn ingest_coverage(
        &self,
        projects: &[Project],
        workspace: &str,
        artifacts: &[(String, Vec<u8>)],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        coverage::ingest(projects, workspace, artifacts, finished)
    }
}
