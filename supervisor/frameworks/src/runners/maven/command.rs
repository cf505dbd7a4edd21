//! Builds the command lines of a run or a listing.

use super::detect::{MARKER, has_failsafe, modules};
use super::selection::{ReactorSelection, reactor_selections};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanError, PlanRequest, REPORT, Step};
use crate::ecosystems::jvm::SourceIndex;
use proctor_core::isolation::Network;
use std::collections::BTreeMap;

/// Injected list of the workspace's source files, for the parser.
pub(super) const SOURCES: &str = "maven/sources";

/// HOME of `mvn` itself, from which it reads `.mavenrc` before it starts. Tests cannot write to this directory.
const HOME: &str = "maven/home";

/// A class name that no test has, for whichever of Surefire and Failsafe has nothing to run.
const NO_TEST_CLASS: &str = "proctor.NoTest";

/// Directory of the Maven extension's sources.
const EXTENSION: &str = "maven/extension";

/// The plan of a run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = plan_with(&[("components.xml", include_bytes!("components.xml"))], projects, tree, request)?;
    if tree.directories_with(MARKER).any(|(_, pom)| pom.contains("rerunFailingTestsCount")) {
        plan.notes.push(RERUNS_NOTE.to_owned());
    }
    let stops = tree.directories_with(MARKER).flat_map(|(_, pom)| stop_counts(pom)).min();
    plan.notes.extend(stops.map(|count| format!("{STOPS_NOTE}{count}")));
    Ok(plan)
}

/// The `skipAfterFailureCount` values of a `pom.xml` that turn the feature on. A value that is not a literal number counts as
/// the first failure.
fn stop_counts(pom: &str) -> impl Iterator<Item = usize> {
    let values = pom.split("<skipAfterFailureCount>").skip(1).map(|rest| rest.split('<').next().unwrap_or_default());
    values.map(|value| value.trim().parse().unwrap_or(1)).filter(|count| *count > 0)
}

/// Prefix of the note about skipAfterFailureCount, followed by the number: Surefire reports not all of the tests that it skips then.
pub(super) const STOPS_NOTE: &str =
    "this project skips tests after failures (skipAfterFailureCount), and Surefire does not report all of them: after ";

/// Note about rerunFailingTestsCount: Surefire writes the file of a class after each attempt.
pub(super) const RERUNS_NOTE: &str = "this project runs failed tests again (rerunFailingTestsCount): classes with failures are reported when Maven has ended";

/// The plan of a listing: the same commands, with an extension that lists tests in place of running them.
pub(super) fn plan_listing(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    let listing: [(&str, &[u8]); 2] =
        [("components.xml", include_bytes!("listing.xml")), ("Listing.java", include_bytes!("Listing.java"))];
    plan_with(&listing, projects, tree, request)
}

fn plan_with(
    extension: &[(&str, &[u8])],
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    let mut plan = Plan {
        files: vec![
            file(&format!("{HOME}/.mavenrc"), include_bytes!("start.sh")),
            file(&format!("{EXTENSION}/Report.java"), include_bytes!("Report.java")),
            SourceIndex::to_file(tree, SOURCES),
        ],
        report: true,
        ..Plan::default()
    };
    plan.files.extend(extension.iter().map(|(name, bytes)| file(&format!("{EXTENSION}/{name}"), bytes)));
    plan.steps = reactor_selections(projects, tree, request.selection)?
        .iter()
        .map(|selection| step(selection, tree, request))
        .collect();
    Ok(plan)
}

fn file(path: &str, bytes: &[u8]) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

/// Options of every command: batch mode without colours and progress; modules are tested also after a failure elsewhere; the
/// console lines that the parser reads are logged even where the project's `.mvn/maven.config` asks for silence (`-q`).
const COMMON: [&str; 9] = [
    "--batch-mode",
    "--no-transfer-progress",
    "--fail-at-end",
    "-Dstyle.color=never",
    "-DtrimStackTrace=false",
    "-Dmaven.test.failure.ignore=false",
    "-Dorg.slf4j.simpleLogger.log.org.apache.maven.cli.event=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.maven.plugin.surefire=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.maven.plugin.failsafe=info",
];

fn step(selection: &ReactorSelection<'_>, tree: &FileTree, request: &PlanRequest<'_>) -> Step {
    let reactor = selection.reactor;
    let mut args: Vec<String> = COMMON.map(str::to_owned).into();
    if request.network == Network::None {
        args.push("--offline".to_owned());
    }
    let is_whole = selection.modules.is_empty() || modules(tree, reactor).count() < 2;
    if !is_whole {
        let names = selection.modules.iter().map(|module| if module.is_empty() { "." } else { module.as_str() });
        args.push(format!("--projects={}", names.collect::<Vec<_>>().join(",")));
        args.push("--also-make".to_owned());
    }
    let has_integration_tests = has_failsafe(tree, reactor);
    if let Some(tests) = &selection.tests {
        args.extend(select_tests(tests, has_integration_tests));
    }
    args.push(if has_integration_tests { "verify" } else { "test" }.to_owned());
    Step { programs: programs(reactor, tree, request), args, dir: reactor.dir.clone(), env: environment(request) }
}

/// Exclude the other plugin's classes, by the name patterns that each plugin includes by default.
const NOT_INTEGRATION: &str = "!IT*,!*IT,!*ITCase";
const NOT_UNIT: &str = "!Test*,!*Test,!*Tests,!*TestCase";

/// The options that select tests. A selection that matches nothing in a module is no error; the option for that has an old name too.
fn select_tests(tests: &[String], has_integration_tests: bool) -> Vec<String> {
    let tests = tests.iter().flat_map(|test| parts(test));
    let (mut unit_tests, mut integration_tests) = (Vec::new(), Vec::new());
    for test in tests {
        match () {
            () if !has_integration_tests => unit_tests.push(test),
            () if is_integration(test) => integration_tests.push(test),
            () if is_pattern(test) => {
                unit_tests.extend([test, NOT_INTEGRATION]);
                integration_tests.extend([test, NOT_UNIT]);
            }
            () => unit_tests.push(test),
        }
    }
    let named = |tests: &[&str]| if tests.is_empty() { NO_TEST_CLASS.to_owned() } else { tests.join(",") };
    let mut args = vec![format!("-Dtest={}", named(&unit_tests))];
    args.extend(["-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false"].map(str::to_owned));
    if has_integration_tests {
        args.push(format!("-Dit.test={}", named(&integration_tests)));
        args.push("-Dit.failIfNoSpecifiedTests=false".to_owned());
    }
    args
}

/// The tests of a comma-separated list; a regular expression may contain commas.
fn parts(tests: &str) -> Vec<&str> {
    if tests.contains("%regex[") { vec![tests] } else { tests.split(',').map(str::trim).collect() }
}

/// Whether the filter can match several classes: by wildcards, a regular expression, or methods alone.
fn is_pattern(test: &str) -> bool {
    let class = test.split('#').next().unwrap_or(test);
    class.is_empty() || class.starts_with(['!', '%']) || class.contains(['*', '?'])
}

/// Whether a class is Failsafe's by its name, which is Failsafe's own criterion.
fn is_integration(test: &str) -> bool {
    let class = test.split('#').next().unwrap_or(test);
    let name = class.rsplit('.').next().unwrap_or(class).split('$').next().unwrap_or(class);
    name.starts_with("IT") || name.ends_with("IT") || name.ends_with("ITCase")
}

/// The project's Maven wrapper where it can download its Maven, else the host's `mvn`.
fn programs(reactor: &Project, tree: &FileTree, request: &PlanRequest<'_>) -> Vec<String> {
    let wrapper = if reactor.dir.is_empty() { "mvnw".to_owned() } else { format!("{}/mvnw", reactor.dir) };
    let wrapped = request.network == Network::Host && tree.contains(&wrapper);
    let own = wrapped.then(|| "./mvnw".to_owned());
    own.into_iter().chain(["mvn".to_owned()]).collect()
}

fn environment(request: &PlanRequest<'_>) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("HOME".to_owned(), format!("{}/{HOME}", request.scratch)),
        ("PROCTOR_HOME".to_owned(), format!("{}/home", request.scratch)),
        ("PROCTOR_EXTENSION".to_owned(), format!("{}/{EXTENSION}", request.scratch)),
        ("PROCTOR_REPORT".to_owned(), format!("{}/{REPORT}", request.scratch)),
        // Where the wrapper keeps the Maven that it downloads.
        ("MAVEN_USER_HOME".to_owned(), format!("{}/m2", request.cache)),
    ])
}

#[cfg(test)]
mod tests;
