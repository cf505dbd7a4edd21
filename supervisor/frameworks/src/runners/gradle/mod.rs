//! Gradle 4.4 or newer, with JUnit 4, JUnit 5 or TestNG, told of by an init script of ours.
//!
//! Proof of a pass: Gradle called the end of the build in our init script, and as many tests came as the script had told.
//!
//! `detect` finds builds, `selection` says what is to run, `command` writes the command line, `compiler` reads what compilers
//! say, and `parser` gives what `init.gradle` reports its places in the workspace. None of them must know how a process is
//! started.
//!
//! **The init script** (`--init-script`, in the scratch directory) listens to every test task that runs and writes the form
//! of `reported.rs`; the project's scripts, listeners, reports and settings stay in force. It makes a test task run although
//! nothing has changed since it passed, and takes from its tests those that were asked for: for files and reruns by project
//! directory, so that a class of the same name elsewhere stays out. A name filter is Gradle's own `--tests`.
//!
//! The task `test` of all projects runs, with everything that fails gone past (`--continue`). Other test tasks
//! (`integrationTest`) and the tests of included builds do not run: whether they can is for the project to know. A build
//! without a task of that name has no tests. Gradle builds where it always does, in `build` and `.gradle` of the workspace.
//!
//! A test JVM tells Gradle of its tests a little later than they happen, so one that ends all at once may have ended after the
//! test that is blamed; what a JVM was running is told as an error even where Gradle is content (`System.exit(0)`). Why a test
//! was skipped Gradle does not say, and of a parametrised test all parameters run again. Listing takes Gradle 8.3, whose
//! test tasks have a dry run; an older one refuses it before it runs anything. Coverage is not measured.
//!
//! With a network the project's own `gradlew` runs; without one the Gradle that it has downloaded before, else the host's
//! (`run.sh`), offline, with what lies in the tenant's `GRADLE_USER_HOME`.

mod command;
mod compiler;
mod detect;
mod parser;
mod selection;

use crate::contract::FileTree;
use crate::contract::{Framework, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest};
use crate::contract::{Project, innermost_project, owns_source};
use crate::ecosystems::jvm::EXTENSIONS;
use proctor_core::request::RerunTarget;

/// The adapter for Gradle.
#[derive(Debug, Clone, Copy)]
pub struct Gradle;

/// Its name.
const NAME: &str = "gradle";

impl Framework for Gradle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "Gradle called the end of the build in our init script, and as many tests came as the script had told"
    }

    fn markers(&self) -> &'static [&'static str] {
        detect::MARKERS
    }

    fn output_dirs(&self) -> &'static [&'static str] {
        &["build"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    fn default_wall_ms(&self) -> Option<u64> {
        Some(LONG_WALL_MS)
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        detect::builds(tree)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        command::plan(projects, tree, request, command::Mode::Running)
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        command::plan(projects, tree, request, command::Mode::Listing)
    }

    fn owns_target(&self, projects: &[Project], tree: &FileTree, target: &RerunTarget) -> bool {
        let package = target.package();
        let is_own_script = detect::is_script(package) && innermost_project(projects, package).is_some();
        is_own_script || owns_source(EXTENSIONS, projects, tree, package)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::GradleParser::new(plan, request))
    }
}
