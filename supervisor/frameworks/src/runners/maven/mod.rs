//! Maven: Surefire and Failsafe, with JUnit 4, JUnit 5 or TestNG, read from the XML that they write for each test class as
//! the class ends.
//!
//! Proof of a pass: our extension in Maven told that the build ended well, and Surefire's files have as many tests and failures as
//! Surefire counted.
//!
//! `detect` finds reactors and their modules, `selection` says what goes to `-Dtest`, `command` writes the command line,
//! `records` cuts the report into files, `console` says what a line of Maven's means, and `parser` puts them together.
//! None of them must know how a process is started.
//!
//! **The extension.** `mvn` reads `start.sh` before it starts, which compiles `Report.java` against the Maven that runs and has
//! Maven load it: a second of a processor, in every run, since a test could change what is kept. It watches the directories in
//! which Surefire and Failsafe write the XML of each test class, as JUnit 4, JUnit 5 and TestNG have in one form since Surefire
//! 2.4, and sends each file when it is whole, so a killed run has what had ended. When one of their runs is over it tells what that
//! counted, which since Surefire 2.20 goes through Maven's log and not through the output of tests; and at last, how the build
//! ended. Each of its records begins with a token that is in Maven's memory alone.
//!
//! **What a test can forge.** Its JVM is not Maven's. What it writes to the report, prints, or does to Surefire's files does not
//! make a run green: records lack the token, the console says only what never comes to a file (what does not compile, which class
//! was running, why a goal failed), and files that were changed or removed are fewer than the counts. Maven's JVM refuses agents.
//! What is left is Surefire's own channel, the streams of the test JVM, on which a test can say that it passed, as code in the
//! runner's own process can everywhere; and a project that has its tests run in Maven's process (`forkCount` 0) has them beside our
//! extension.
//!
//! Maven builds where it always does, in the workspace's `target`: no option moves that for a project that does not foresee
//! it. A start is told for a class only (`running` after a kill), since no file tells it for a test. There is no way to run
//! tests in parallel that is safe for a project that did not ask for it, which is refused. Coverage is not measured. Needs
//! Maven 3.6.1 (`-ntp`).
//!
//! **Listing.** Surefire has no dry run, and that of JUnit 5.10 passes over what has parameters, and is an option that
//! everything older passes over itself and runs. So the same command runs with another extension of ours (`Listing.java`, beside the
//! first one's report): it turns off each Surefire and Failsafe that is about to begin, asks
//! it which classes it would have run, and asks JUnit, in Maven's own process, for the tests in them. Everything before is
//! done as in a run: sources are compiled, and what other plugins do in these phases is done. A test with parameters is listed
//! once; of TestNG it is what its annotations say; what the settings take by JUnit 4's categories or TestNG's groups and suite
//! files is not known, which a note says. A class that this JVM cannot load is told as an error.
//!
//! Without a network Maven works offline (`-o`) with the artefacts that the host's user has. The project's own `mvnw` is used
//! with a network only, since it downloads its Maven.

mod command;
mod console;
mod detect;
mod parser;
mod records;
mod selection;

use crate::contract::FileTree;
use crate::contract::{Framework, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest};
use crate::contract::{Project, owns_source};
use crate::ecosystems::jvm::EXTENSIONS;
use proctor_core::request::RerunTarget;

/// The adapter for Maven.
#[derive(Debug, Clone, Copy)]
pub struct Maven;

/// Its name.
const NAME: &str = "maven";

impl Framework for Maven {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "our extension in Maven told that the build ended well, and Surefire's files have as many tests and failures as Surefire counted"
    }

    fn markers(&self) -> &'static [&'static str] {
        &[detect::MARKER]
    }

    fn output_dirs(&self) -> &'static [&'static str] {
        &["target"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        EXTENSIONS
    }

    fn default_wall_ms(&self) -> Option<u64> {
        Some(LONG_WALL_MS)
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

    fn owns_target(&self, projects: &[Project], tree: &FileTree, target: &RerunTarget) -> bool {
        let package = target.package();
        let is_module = package == detect::MARKER || package.ends_with("/pom.xml");
        is_module && tree.contains(package) || owns_source(EXTENSIONS, projects, tree, package)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(parser::MavenParser::new(plan, request))
    }
}
