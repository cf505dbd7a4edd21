//! Commands of the go tool in a module.

use crate::checks::{CheckProject, CheckerCommand, CheckerRun};
use crate::contract::{FileTree, PlanRequest, Project, Step};
use crate::runners::go;
use std::collections::BTreeSet;

/// The modules of the workspace.
pub(super) fn modules(tree: &FileTree) -> Vec<CheckProject> {
    let has_code = |dir: &str| tree.files_below(dir).any(|file| file.ends_with(".go"));
    let modules = go::modules(tree).into_iter().filter(|module| has_code(&module.dir));
    modules.map(|module| CheckProject::new(module.dir, "go.mod")).collect()
}

/// A command of `program` on the packages of a run.
pub(super) fn command(
    program: &str,
    args: &[&str],
    tree: &FileTree,
    run: &CheckerRun<'_>,
    request: &PlanRequest<'_>,
) -> CheckerCommand {
    let module = Project { dir: run.project.dir.clone(), name: String::new() };
    let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    args.extend(packages(run));
    let env = go::environment(&module, tree, request);
    let step = Step { programs: vec![program.to_owned()], args, dir: module.dir, env };
    CheckerCommand { files: vec![go::telemetry_mode()], ..CheckerCommand::of(step) }
}

/// The packages of the files of a run: the go tool checks whole packages.
fn packages(run: &CheckerRun<'_>) -> BTreeSet<String> {
    if run.files.is_empty() {
        return BTreeSet::from(["./...".to_owned()]);
    }
    let package = |file: &String| match file.rsplit_once('/') {
        _ if !file.ends_with(".go") => format!("./{file}/..."),
        Some((dir, _)) => format!("./{dir}"),
        None => ".".to_owned(),
    };
    run.files.iter().map(package).collect()
}
