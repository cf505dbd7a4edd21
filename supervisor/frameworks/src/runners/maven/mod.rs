//! Maven: Surefire and Failsafe, with JUnit 4, JUnit 5 or TestNG, read from the XML file of each test class as it is written.
//! Needs Maven 3.6.1 (`-ntp`).
//!
//! `detect` finds reactors and their modules, `selection` turns a request into `-Dtest` and `-pl`, `command` builds the command
//! line, `records` splits the report into files, `console` parses Maven's console, and `parser` combines them.
//!
//! **The extension.** `mvn` sources `start.sh` before it starts, which compiles `Report.java` against the Maven that runs and
//! makes Maven load it: one CPU second in every run, since a test could change a cached copy. The extension watches the
//! directories in which Surefire and Failsafe write the XML of each test class (one format for JUnit 4, JUnit 5 and TestNG since
//! Surefire 2.4), and sends each file when it is complete, so a killed run keeps the finished classes. After each execution of
//! Surefire or Failsafe it sends the test count, which since Surefire 2.20 goes through Maven's log and not through the output
//! of tests; at the end it sends the build's result. Each record begins with a token that exists only in Maven's memory.
//!
//! **What a test can forge.** The test JVM is not Maven's. What it writes to the report, prints, or does to Surefire's files does
//! not make a run green: records lack the token, the console is read only for facts that no file has (compiler errors, the
//! running class, why a goal failed), and changed or removed files fall short of the counts. Maven's JVM refuses agents.
//! What remains is Surefire's own channel, the streams of the test JVM, on which a test can report that it passed, as code in
//! the runner's own process can everywhere; and a project that runs its tests in Maven's process (`forkCount` 0) runs them
//! beside the extension.
//!
//! Maven builds where it always does, in the workspace's `target`: no option moves that for a project that does not provide for
//! it. Starts are reported for classes only (`running` after a kill), since no file reports the start of a test. `parallel` is
//! refused: no option runs tests in parallel safely in a project that did not ask for it. Coverage is not measured.
//!
//! **Listing.** Surefire has no dry run, and JUnit 5.10's omits parametrised tests and is an option that older versions ignore
//! and then run the tests. So the same command runs with another extension (`Listing.java`, beside `Report.java`): it turns off
//! each Surefire and Failsafe execution before it begins, asks the plugin which classes it would have run, and asks JUnit, in
//! Maven's own process, for the tests in them. Everything before is done as in a run: sources are compiled, and other plugins
//! run in these phases. A parametrised test is listed once; TestNG's tests are listed by annotation; selections by JUnit 4's
//! categories or TestNG's groups and suite files are not applied, which a note says. A class that this JVM cannot load becomes
//! an error.
//!
//! Without a network Maven works offline (`-o`) with the artifacts that the host's user has. The project's own `mvnw` is used
//! with a network only, since it downloads its Maven.

mod command;
mod console;
mod detect;
mod parser;
mod records;
mod selection;

use crate::contract::FileTree;
use crate::contract::{
    Framework, LONG_WALL_MS, Manifest, OptionSupport, ParallelSupport, Parser, Plan, PlanError, PlanRequest,
    ReservedVariables,
};
use crate::contract::{Project, owns_source};
use crate::ecosystems::jvm::{self, EXTENSIONS};

/// Adapter for Maven.
#[derive(Debug, Clone, Copy)]
pub struct Maven;

const NAME: &str = "maven";

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "proctor's extension in Maven reported the end of a successful build, and Surefire's files have as many tests and failures as Surefire counted",
    proof_markers: &[b"end \nsuccess"],
    markers: &[detect::MARKER],
    extensions: EXTENSIONS,
    output_dirs: &["target"],
    default_wall_ms: Some(LONG_WALL_MS),
    options: OptionSupport { parallel: ParallelSupport::Refused, ..Manifest::DEFAULT.options },
    rerun_names: jvm::RERUN_NAMES,
    reserved: ReservedVariables { prefixes: &["MAVEN_"], ..ReservedVariables::NONE },
    stack_dump: Some(jvm::STACK_DUMP),
    toolchains: &[&jvm::JVM],
    sample: &[
        ("pom.xml", "<project><artifactId>x</artifactId></project>"),
        ("src/test/java/com/example/ATest.java", ""),
    ],
    ..Manifest::DEFAULT
};

impl Framework for Maven {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        detect::reactors(tree)
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
        let is_module = package == detect::MARKER || package.ends_with("/pom.xml");
        is_module && tree.contains(package) || owns_source(EXTENSIONS, projects, tree, package)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::MavenParser::new(plan, request))
    }
}
