//! Writes the command lines of a run or listing. Must not know how output is read.

use super::selection::{Share, shares};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanError, PlanRequest, REPORT, Step};
use crate::ecosystems::jvm::SourceIndex;
use crate::parsing::workspace_paths::join;
use proctor_core::isolation::Network;
use std::collections::BTreeMap;

/// The source files of the workspace, for the parser.
pub(super) const SOURCES: &str = "gradle/sources";

const INIT: &str = "gradle/init.gradle";
const RUN: &str = "gradle/run.sh";

/// What becomes of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Listing,
}

/// No process outlives the run, and a failure ends nothing but what needs it. An init script that listens to tasks cannot be
/// kept in Gradle's configuration cache, and nobody waits for changes of files.
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
/// Gradle keeps the compiled form of a script by its content, in a cache that tests can write; a word that is new each time keeps
/// it from finding ours there.
pub(super) fn plan(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    mode: Mode,
) -> Result<Plan, PlanError> {
    let file = |path: &str, bytes: Vec<u8>| InjectedFile { path: path.to_owned(), bytes, executable: false };
    let mut plan = Plan {
        files: vec![
            file(INIT, format!("{}// {}\n", include_str!("init.gradle"), request.nonce).into_bytes()),
            file(RUN, include_bytes!("run.sh").to_vec()),
            SourceIndex::to_file(tree, SOURCES),
        ],
        report: true,
        ..Plan::default()
    };
    for (number, share) in shares(projects, tree, request.selection)?.iter().enumerate() {
        let selection = format!("gradle/selection-{number}.json");
        plan.steps.push(step(share, &selection, tree, request, mode));
        plan.files.push(file(&selection, serde_json::to_vec(&share.chosen).unwrap_or_default()));
    }
    Ok(plan)
}

fn step(share: &Share<'_>, selection: &str, tree: &FileTree, request: &PlanRequest<'_>, mode: Mode) -> Step {
    let (programs, mut args) = programs(&share.build.dir, tree, request);
    args.extend(COMMON.map(str::to_owned));
    args.push(format!("--init-script={}/{INIT}", request.scratch));
    if request.network == Network::None {
        args.push("--offline".to_owned());
    }
    args.extend(request.parallel.map(|parallel| format!("--max-workers={}", parallel.max(1))));
    args.push("test".to_owned());
    // In one word, so that a filter stays one whatever it begins with.
    args.extend(share.filter.as_ref().map(|filter| format!("--tests={filter}")));
    let mut env = BTreeMap::from([
        ("PROCTOR_REPORT".to_owned(), format!("{}/{REPORT}", request.scratch)),
        ("PROCTOR_SELECTION".to_owned(), format!("{}/{selection}", request.scratch)),
    ]);
    env.extend(request.parallel.map(|parallel| ("PROCTOR_PARALLEL".to_owned(), parallel.max(1).to_string())));
    env.extend((mode == Mode::Listing).then(|| ("PROCTOR_LISTING".to_owned(), "1".to_owned())));
    Step { programs, args, dir: share.build.dir.clone(), env }
}

/// The project's own Gradle, as far as it can be had, and the words that come before its arguments.
fn programs(dir: &str, tree: &FileTree, request: &PlanRequest<'_>) -> (Vec<String>, Vec<String>) {
    let has_wrapper = tree.contains(&join(dir, "gradlew"));
    match request.network {
        Network::Host if has_wrapper => (vec!["./gradlew".to_owned(), "gradle".to_owned()], Vec::new()),
        Network::None if has_wrapper => (vec!["sh".to_owned()], vec![format!("{}/{RUN}", request.scratch)]),
        _ => (vec!["gradle".to_owned()], Vec::new()),
    }
}

#[cfg(test)]
mod tests;
