//! Commands of the go tool in a module, and the places that it prints.

use crate::checks::command_output::position;
use crate::checks::{CheckProject, CheckerCommand, CheckerOutput, CheckerRun};
use crate::contract::{FileTree, PlanRequest, Project, Step};
use crate::runners::go;
use proctor_core::check::{CheckKind, Finding, Range};
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

/// Parses `file:line:column`.
pub(super) fn place(text: &str) -> Option<(&str, u32, u32)> {
    let mut parts = text.rsplitn(3, ':');
    let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    Some((file, position(line.parse::<u64>().ok()?), position(column.parse::<u64>().ok()?)))
}

/// Parses an error of the compiler, `file:line:column: message`, as a finding of a linter.
pub(super) fn compiler_error(checker: &str, rule: &str, text: &str, output: &CheckerOutput<'_>) -> Option<Finding> {
    let (posn, message) = text.split_once(": ")?;
    let (file, line, column) = place(posn)?;
    let found = output.finding(checker, CheckKind::Lint, file, message)?;
    Some(Finding { range: Range { line, column, ..Range::default() }, rule: rule.to_owned(), ..found })
}
