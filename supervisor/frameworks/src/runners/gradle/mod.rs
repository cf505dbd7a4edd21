//! Gradle 4.4 or newer, with JUnit 4, JUnit 5 or TestNG, reported by an injected init script.
//!
//! `detect` finds builds, `selection` turns a request into patterns, `command` builds the command line, `compiler` reads
//! compiler errors, and `parser` adds workspace paths and lines to what `init.gradle` reports.
//!
//! **The init script** (`--init-script`, in the scratch directory) listens to every test task that runs and writes the reporter
//! protocol (`formats::reporter_protocol`); the project's scripts, listeners, reports and settings stay in force. It makes an
//! up-to-date test task run, and narrows it to the selected tests: for files and reruns by project directory, so that a class
//! of the same name elsewhere is not selected. A name filter is Gradle's own `--tests`.
//!
//! The task `test` of all projects runs, also after failures (`--continue`). Other test tasks (`integrationTest`) and the tests
//! of included builds do not run: only the project knows whether they can. A build without a task of that name has no tests.
//! Gradle builds where it always does, in `build` and `.gradle` of the workspace.
//!
//! A test JVM sends results to Gradle with a delay, so a JVM that ends abruptly may have been in a later test than the one that
//! is reported; tests that were running become errors even where Gradle reports success (`System.exit(0)`). Gradle gives no
//! reason for a skipped test, and a parametrised test reruns with all its parameters. Listing needs the dry run of test tasks
//! (Gradle 8.3); an older Gradle refuses it before it runs anything. Coverage is not measured.
//!
//! With a network the project's own `gradlew` runs; without one the Gradle that the wrapper downloaded in an earlier run, else
//! the host's (`run.sh`), offline, with the dependencies in the tenant's `GRADLE_USER_HOME`.

mod command;
mod compiler;
mod detect;
mod parser;
mod selection;

use crate::contract::FileTree;
use crate::contract::{
    DefaultConcurrency, Framework, IgnoredDirs, LONG_WALL_MS, Manifest, OptionSupport, ParallelSupport, Parser, Plan,
    PlanError, PlanRequest, RerunNames, ReservedVariables, ToolHome, Toolchain,
};
use crate::contract::{Project, innermost_project, owns_source};
use crate::ecosystems::jvm::{self, EXTENSIONS};

/// Adapter for Gradle.
#[derive(Debug, Clone, Copy)]
pub struct Gradle;

const NAME: &str = "gradle";

/// Gradle's home, of which runs keep the caches and the installed versions.
static GRADLE: Toolchain = Toolchain {
    name: "gradle",
    homes: &[ToolHome { variable: "GRADLE_USER_HOME", dir: ".gradle", kept: &["caches", "wrapper", "jdks"] }],
    reserved: ReservedVariables { prefixes: &["GRADLE_"], ..ReservedVariables::NONE },
    ignored_dirs: IgnoredDirs { always: &[".gradle"], ..IgnoredDirs::NONE },
    ..Toolchain::DEFAULT
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "Gradle reported the end of the build to proctor's init script, and as many tests arrived as the script counted",
    proof_markers: &[b"end"],
    markers: detect::MARKERS,
    extensions: EXTENSIONS,
    output_dirs: &["build"],
    default_wall_ms: Some(LONG_WALL_MS),
    options: OptionSupport {
        parallel: ParallelSupport::Applied(DefaultConcurrency::OneFile),
        ..Manifest::DEFAULT.options
    },
    rerun_names: RerunNames {
        is_reported_only_on_failure: |name| is_jvm_process(name) || jvm::is_class_failure(name),
        ..jvm::RERUN_NAMES
    },
    stack_dump: Some(jvm::STACK_DUMP),
    toolchains: &[&jvm::JVM, &GRADLE],
    sample: &[
        ("settings.gradle", "rootProject.name = 'x'\n"),
        ("build.gradle", "plugins { id 'java' }\n"),
        ("src/test/java/com/example/ATest.java", ""),
    ],
    ..Manifest::DEFAULT
};

/// Beginnings of the names that Gradle gives to its JVMs, which it reports when one crashes.
const JVMS: [&str; 2] = ["Gradle Test Executor ", "Gradle Test Run "];

fn is_jvm_process(name: &str) -> bool {
    JVMS.iter().any(|start| name.starts_with(start))
}

impl Framework for Gradle {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
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

    fn owns_package(&self, projects: &[Project], tree: &FileTree, package: &str) -> bool {
        let is_own_script = detect::is_script(package) && innermost_project(projects, package).is_some();
        is_own_script || owns_source(EXTENSIONS, projects, tree, package)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::GradleParser::new(plan, request))
    }
}
