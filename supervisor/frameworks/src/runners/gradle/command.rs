//! Builds the command line of a run or a listing.

use super::selection::{BuildSelection, build_selections};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanError, PlanRequest, REPORT, Step};
use crate::ecosystems::jvm::SourceIndex;
use crate::parsing::workspace_paths::join;
use proctor_core::isolation::Network;
use std::collections::BTreeMap;

/// Injected list of the workspace's source files, for the parser.
pub(super) const SOURCES: &str = "gradle/sources";

const INIT_SCRIPT: &str = "gradle/init.gradle";
const RUN_SCRIPT: &str = "gradle/run.sh";

/// Whether tests run or are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Listing,
}

/// Options of every command. No process outlives the run (`--no-daemon`), and a failure stops only what depends on it
/// (`--continue`). Gradle's configuration cache cannot hold an init script that listens to tasks, and file watching is useless.
const COMMON: [&str; 7] = [
    "--no-daemon",
    "--console=plain",
    "--continue",
    "-Dorg.gradle.configuration-cache=false",
    "-Dorg.gradle.unsafe.configuration-cache=false",
    "-Dorg.gradle.unsafe.isolated-projects=false",
    "-Dorg.gradle.vfs.watch=false",
];

/// The plan of a run.
///
/// Gradle caches the compiled form of a script by its content, in a cache that tests can write. The nonce changes the content in
/// each run, so a prepared cache entry never matches.
pub(super) fn plan(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    mode: Mode,
) -> Result<Plan, PlanError> {
    let file = |path: &str, bytes: Vec<u8>| InjectedFile { path: path.to_owned(), bytes, executable: false };
    let mut plan = Plan {
        files: vec![
            file(INIT_SCRIPT, format!("{}// {}\n", include_str!("init.gradle"), request.nonce).into_bytes()),
            file(RUN_SCRIPT, include_bytes!("run.sh").to_vec()),
            SourceIndex::to_file(tree, SOURCES),
        ],
        report: true,
        ..Plan::default()
    };
    for (number, selection) in build_selections(projects, tree, request.selection)?.iter().enumerate() {
        let selection_file = format!("gradle/selection-{number}.json");
        plan.steps.push(step(selection, &selection_file, tree, request, mode));
        plan.files.push(file(&selection_file, serde_json::to_vec(&selection.chosen).unwrap_or_default()));
    }
    Ok(plan)
}

fn step(
    selection: &BuildSelection<'_>,
    selection_file: &str,
    tree: &FileTree,
    request: &PlanRequest<'_>,
    mode: Mode,
) -> Step {
    let (programs, mut args) = programs(&selection.build.dir, tree, request);
    args.extend(COMMON.map(str::to_owned));
    args.push(format!("--init-script={}/{INIT_SCRIPT}", request.scratch));
    if request.network == Network::None {
        args.push("--offline".to_owned());
    }
    args.extend(request.parallel.map(|parallel| format!("--max-workers={}", parallel.max(1))));
    args.push("test".to_owned());
    // In one argument, so that a filter stays a filter whatever it begins with.
    args.extend(selection.filter.as_ref().map(|filter| format!("--tests={filter}")));
    let mut env = BTreeMap::from([
        ("PROCTOR_REPORT".to_owned(), format!("{}/{REPORT}", request.scratch)),
        ("PROCTOR_SELECTION".to_owned(), format!("{}/{selection_file}", request.scratch)),
    ]);
    env.extend(request.parallel.map(|parallel| ("PROCTOR_PARALLEL".to_owned(), parallel.max(1).to_string())));
    env.extend((mode == Mode::Listing).then(|| ("PROCTOR_LISTING".to_owned(), "1".to_owned())));
    Step { programs, args, dir: selection.build.dir.clone(), env }
}

/// The project's own Gradle where it is available, and the arguments that precede Gradle's.
fn programs(dir: &str, tree: &FileTree, request: &PlanRequest<'_>) -> (Vec<String>, Vec<String>) {
    let has_wrapper = tree.contains(&join(dir, "gradlew"));
    match request.network {
        Network::Host if has_wrapper => (vec!["./gradlew".to_owned(), "gradle".to_owned()], Vec::new()),
        Network::None if has_wrapper => (vec!["sh".to_owned()], vec![format!("{}/{RUN_SCRIPT}", request.scratch)]),
        _ => (vec!["gradle".to_owned()], Vec::new()),
    }
}

#[cfg(test)]
mod tests;
