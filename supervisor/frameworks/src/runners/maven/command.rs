//! Writes the command lines of a run. Must not know how output is read.

use super::NAME;
use super::detect::{MARKER, has_failsafe, modules};
use super::selection::{Share, shares};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanError, PlanRequest, REPORT, Step};
use crate::ecosystems::jvm::SourceIndex;
use proctor_core::isolation::Network;
use std::collections::BTreeMap;

/// The source files of the workspace, for the parser.
pub(super) const SOURCES: &str = "maven/sources";

/// HOME of `mvn` itself, where it looks for what to read before it starts. It is none in which a test can write.
const HOME: &str = "maven/home";

/// What no test is called: for the one of Surefire and Failsafe that has nothing to run.
const NOTHING: &str = "proctor.NoTest";

/// Directory of what Maven is extended with.
const EXTENSION: &str = "maven/extension";

/// The plan of a run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    if request.parallel.is_some() {
        return Err(PlanError::NotApplicable { option: "parallel", framework: NAME });
    }
    let mut plan = plan_with(&[("components.xml", include_bytes!("components.xml"))], projects, tree, request)?;
    if tree.directories_with(MARKER).any(|(_, pom)| pom.contains("rerunFailingTestsCount")) {
        plan.notes.push(RERUNS.to_owned());
    }
    let stops = tree.directories_with(MARKER).flat_map(|(_, pom)| stops(pom)).min();
    plan.notes.extend(stops.map(|count| format!("{STOPS}{count}")));
    Ok(plan)
}

/// How many failures the settings of a module let Surefire and Failsafe see before they stop. A number that is not written out
/// is taken for the first failure, and none for what turns it off.
fn stops(pom: &str) -> impl Iterator<Item = usize> {
    let values = pom.split("<skipAfterFailureCount>").skip(1).map(|rest| rest.split('<').next().unwrap_or_default());
    values.map(|value| value.trim().parse().unwrap_or(1)).filter(|count| *count > 0)
}

/// What the plan of such a project notes, and the number: of what is passed over then, a provider tells a part or nothing.
pub(super) const STOPS: &str = "this project has tests passed over after failures (skipAfterFailureCount), of which Surefire does not tell all: after ";

/// What the plan of a project notes whose failed tests Surefire runs again: it writes what a class came to after each attempt.
pub(super) const RERUNS: &str = "this project runs failed tests again (rerunFailingTestsCount): classes with failures are told when Maven has ended";

/// The plan of a listing: the same command, within which an extension of ours takes the place of the tests.
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
    plan.steps = shares(projects, tree, request.selection)?.iter().map(|share| step(share, tree, request)).collect();
    Ok(plan)
}

fn file(path: &str, bytes: &[u8]) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

/// Batch mode without colours and progress; every module that can be tested is, whatever fails before. What is read of the
/// console is said even where a project's `.mvn/maven.config` asks for silence (`-q`).
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

fn step(share: &Share<'_>, tree: &FileTree, request: &PlanRequest<'_>) -> Step {
    let reactor = share.reactor;
    let mut args: Vec<String> = COMMON.map(str::to_owned).into();
    if request.network == Network::None {
        args.push("--offline".to_owned());
    }
    let is_whole = share.modules.is_empty() || modules(tree, reactor).count() < 2;
    if !is_whole {
        let names = share.modules.iter().map(|module| if module.is_empty() { "." } else { module.as_str() });
        args.push(format!("--projects={}", names.collect::<Vec<_>>().join(",")));
        args.push("--also-make".to_owned());
    }
    let integrates = has_failsafe(tree, reactor);
    if let Some(tests) = &share.tests {
        args.extend(selected(tests, integrates));
    }
    args.push(if integrates { "verify" } else { "test" }.to_owned());
    Step { programs: programs(reactor, tree, request), args, dir: reactor.dir.clone(), env: environment(request) }
}

/// Classes that a pattern does not take because they are the other plugin's, by the names that each takes by itself.
const NOT_INTEGRATION: &str = "!IT*,!*IT,!*ITCase";
const NOT_UNIT: &str = "!Test*,!*Test,!*Tests,!*TestCase";

/// A selection is no error in a module that has nothing of it. Each plugin knows that option by an old name too.
fn selected(tests: &[String], integrates: bool) -> Vec<String> {
    let tests = tests.iter().flat_map(|test| parts(test));
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for test in tests {
        match () {
            () if !integrates => early.push(test),
            () if is_integration(test) => late.push(test),
            () if is_pattern(test) => {
                early.extend([test, NOT_INTEGRATION]);
                late.extend([test, NOT_UNIT]);
            }
            () => early.push(test),
        }
    }
    let named = |tests: &[&str]| if tests.is_empty() { NOTHING.to_owned() } else { tests.join(",") };
    let mut args = vec![format!("-Dtest={}", named(&early))];
    args.extend(["-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false"].map(str::to_owned));
    if integrates {
        args.push(format!("-Dit.test={}", named(&late)));
        args.push("-Dit.failIfNoSpecifiedTests=false".to_owned());
    }
    args
}

/// The tests of a list; a regular expression may have commas of its own.
fn parts(tests: &str) -> Vec<&str> {
    if tests.contains("%regex[") { vec![tests] } else { tests.split(',').map(str::trim).collect() }
}

/// Whether classes of several names are meant: with wildcards, by a regular expression, or by methods alone.
fn is_pattern(test: &str) -> bool {
    let class = test.split('#').next().unwrap_or(test);
    class.is_empty() || class.starts_with(['!', '%']) || class.contains(['*', '?'])
}

/// Whether a class is Failsafe's by its name, which is what Failsafe itself goes by.
fn is_integration(test: &str) -> bool {
    let class = test.split('#').next().unwrap_or(test);
    let name = class.rsplit('.').next().unwrap_or(class).split('$').next().unwrap_or(class);
    name.starts_with("IT") || name.ends_with("IT") || name.ends_with("ITCase")
}

/// The project's own Maven, where it can be downloaded.
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
        // Where a wrapper keeps the Maven that it downloads.
        ("MAVEN_USER_HOME".to_owned(), format!("{}/m2", request.cache)),
    ])
}

#[cfg(test)]
mod tests;
