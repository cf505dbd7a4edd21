//! Chooses the checkers of a request, and plans their commands.

use super::command_output::listed;
use super::parser::{CheckParser, PlannedCommand};
use super::projects::is_below;
use super::unscanned_settings::unscanned_settings;
use super::{CHECKERS, CheckProject, Checker, CheckerCommand, CheckerRun};
use crate::contract::{FileTree, InjectedFile, Plan, PlanRequest, Step};
use crate::parsing::workspace_paths::{is_within, join, leaves_workspace, within_dir};
use proctor_core::bounds::CHECK_COMMANDS_MAX;
use proctor_core::check::{CheckRequest, CheckerStatus};
use std::collections::BTreeMap;
use thiserror::Error;

/// Extensions of documents, without the dot. A request often names them beside code, and no checker is expected for them.
const DOCUMENTS: &[&str] = &["adoc", "md", "rst", "txt"];

/// Why no checker runs. The texts are part of the contract with agents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoChecker {
    /// The request names an unknown checker.
    #[error("unknown checker `{requested}`: known are {}", known.join(", "))]
    Unknown {
        /// The requested name.
        requested: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// The request names a checker of another kind than it asks for.
    #[error("{checker} is no {kind} checker")]
    OtherKind {
        /// The checker's name.
        checker: &'static str,
        /// The kind of the request.
        kind: &'static str,
    },
    /// The request names a checker that has no project in the workspace.
    #[error("no project for {checker} in the workspace: it is selected by {selected_by}")]
    NotHere {
        /// The checker's name.
        checker: &'static str,
        /// What selects it.
        selected_by: &'static str,
    },
    /// Nothing in the workspace selects a checker.
    #[error("no checker is set up in the workspace ({}): name one to use its defaults", known.join(", "))]
    NoneSetUp {
        /// The names of the checkers of the requested kinds.
        known: Vec<&'static str>,
    },
    /// No chosen checker checks one of the files.
    #[error("none of these files is checked by {}", checkers.join(", "))]
    NotForFiles {
        /// The names of the chosen checkers.
        checkers: Vec<&'static str>,
    },
    /// A file leads out of the workspace.
    #[error("{file} is outside of the workspace")]
    Outside {
        /// The file.
        file: String,
    },
}

/// A checker and its projects.
#[derive(Clone)]
pub struct ChosenChecker {
    /// The checker.
    pub checker: &'static dyn Checker,
    /// Its projects, sorted by directory, each with the files of the request in it, relative to its directory; no files
    /// for all.
    pub projects: Vec<(CheckProject, Vec<String>)>,
}

/// The checkers of a request.
#[derive(Clone)]
pub struct CheckChoice {
    request: CheckRequest,
    /// The chosen checkers, in the order of [`CHECKERS`].
    pub chosen: Vec<ChosenChecker>,
    /// Sentences about what is not checked.
    pub notes: Vec<String>,
    /// Files of the request that no chosen checker checks, other than documents.
    unchecked: Vec<String>,
}

/// Chooses the checkers of a request: those that it names, or those that the workspace's own settings select.
///
/// A checker runs in each of its projects, also in one below another: the settings of the outer one may leave it out. Of
/// files, each is checked by the innermost project with it.
pub fn choose(tree: &FileTree, request: &CheckRequest) -> Result<CheckChoice, NoChecker> {
    let request = normalised(request)?;
    let mut found: Vec<(&'static dyn Checker, Vec<CheckProject>)> = Vec::new();
    for name in &request.checkers {
        let checker = named(name, &request)?;
        let projects = checker.detect_explicit(tree);
        if projects.is_empty() {
            let manifest = checker.manifest();
            return Err(NoChecker::NotHere { checker: manifest.name, selected_by: manifest.selected_by });
        }
        found.push((checker, projects));
    }
    let wanted = || CHECKERS.iter().filter(|checker| request.wants(checker.manifest().kind));
    if request.checkers.is_empty() {
        found.extend(
            wanted().map(|checker| (*checker, checker.detect(tree))).filter(|(_, projects)| !projects.is_empty()),
        );
        drop_substituted(&mut found);
    }
    if found.is_empty() {
        return Err(NoChecker::NoneSetUp { known: wanted().map(|checker| checker.manifest().name).collect() });
    }
    let names = found.iter().map(|(checker, _)| checker.manifest().name).collect();
    let mut choice = CheckChoice { request, chosen: Vec::new(), notes: Vec::new(), unchecked: Vec::new() };
    for (checker, mut projects) in found {
        drop_empty_nested(tree, checker, &mut projects);
        choice.add(tree, checker, projects);
    }
    choice.find_unchecked_files(tree);
    if choice.chosen.is_empty() { Err(NoChecker::NotForFiles { checkers: names }) } else { Ok(choice) }
}

/// The request with normal paths.
fn normalised(request: &CheckRequest) -> Result<CheckRequest, NoChecker> {
    let mut request = request.clone();
    for file in &mut request.files {
        if leaves_workspace(file) {
            return Err(NoChecker::Outside { file: file.clone() });
        }
        *file = join("", file);
    }
    // The workspace itself is all of it.
    if request.files.iter().any(String::is_empty) {
        request.files.clear();
    }
    request.files.sort();
    request.files.dedup();
    Ok(request)
}

fn named(name: &str, request: &CheckRequest) -> Result<&'static dyn Checker, NoChecker> {
    let known = || CHECKERS.iter().map(|checker| checker.manifest().name).collect();
    let checker = CHECKERS.iter().find(|checker| checker.manifest().name == name);
    let checker = checker.ok_or_else(|| NoChecker::Unknown { requested: name.to_owned(), known: known() })?;
    match request.kinds.first() {
        Some(kind) if !request.wants(checker.manifest().kind) => {
            Err(NoChecker::OtherKind { checker: checker.manifest().name, kind: kind.name() })
        }
        _ => Ok(*checker),
    }
}

/// Drops projects below another one that have no file to check, such as settings that others extend: a checker fails
/// where it finds no file.
fn drop_empty_nested(tree: &FileTree, checker: &'static dyn Checker, projects: &mut Vec<CheckProject>) {
    let dirs: Vec<String> = projects.iter().map(|project| project.dir.clone()).collect();
    projects.retain(|project| {
        let is_nested = dirs.iter().any(|dir| is_below(&project.dir, dir));
        !is_nested || is_checked(tree, checker, &project.dir)
    });
}

/// Drops the projects of a checker that only stands in for another that is set up there.
fn drop_substituted(found: &mut Vec<(&'static dyn Checker, Vec<CheckProject>)>) {
    let replaced: BTreeMap<&str, Vec<String>> = found
        .iter()
        .filter_map(|(checker, projects)| {
            let dirs = projects.iter().map(|project| project.dir.clone()).collect();
            Some((checker.substitute()?.manifest().name, dirs))
        })
        .collect();
    for (checker, projects) in found.iter_mut() {
        if let Some(dirs) = replaced.get(checker.manifest().name) {
            projects.retain(|project| !dirs.contains(&project.dir));
        }
    }
    found.retain(|(_, projects)| !projects.is_empty());
}

impl CheckChoice {
    /// Names of the chosen checkers: `ruff, mypy`.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.chosen.iter().map(|chosen| chosen.checker.manifest().name).collect();
        names.join(", ")
    }

    /// Whether a chosen checker checks files with the extension of this path, which need not exist.
    #[must_use]
    pub fn checks_extension_of(&self, path: &str) -> bool {
        self.chosen.iter().any(|chosen| has_extension(path, chosen.checker.manifest().extensions))
    }

    fn add(&mut self, tree: &FileTree, checker: &'static dyn Checker, projects: Vec<CheckProject>) {
        if !self.request.files.is_empty() {
            let projects = self.projects_of_files(tree, checker, projects);
            if !projects.is_empty() {
                self.chosen.push(ChosenChecker { checker, projects });
            }
            return;
        }
        self.chosen
            .push(ChosenChecker { checker, projects: projects.into_iter().map(|one| (one, Vec::new())).collect() });
    }

    /// Whether a chosen checker checks this file, or one below this directory.
    #[must_use]
    pub fn checks(&self, tree: &FileTree, path: &str) -> bool {
        let is_within_one =
            |(project, _): &(CheckProject, Vec<String>)| project.has(path) || is_within(&project.dir, path);
        let is_covered = |chosen: &ChosenChecker| {
            is_checked(tree, chosen.checker, path) && chosen.projects.iter().any(is_within_one)
        };
        self.chosen.iter().any(is_covered)
    }

    /// Splits the files of the request that no chosen checker checks into documents, which a note names, and others.
    fn find_unchecked_files(&mut self, tree: &FileTree) {
        let unchecked = self.request.files.iter().filter(|file| !self.checks(tree, file)).cloned();
        let (documents, others): (Vec<String>, Vec<String>) =
            unchecked.partition(|file| tree.contains(file) && has_extension(file, DOCUMENTS));
        self.unchecked = others;
        if !documents.is_empty() {
            self.notes
                .push(format!("not checked, because no chosen checker checks such files: {}", listed(&documents)));
        }
    }

    /// The innermost project of each file of the request that the checker checks. A directory with several projects
    /// belongs to all.
    fn projects_of_files(
        &self,
        tree: &FileTree,
        checker: &'static dyn Checker,
        projects: Vec<CheckProject>,
    ) -> Vec<(CheckProject, Vec<String>)> {
        let mut shares: BTreeMap<CheckProject, Vec<String>> = BTreeMap::new();
        for file in &self.request.files {
            if !is_checked(tree, checker, file) {
                continue;
            }
            let deepest = projects.iter().filter(|one| one.has(file)).map(|one| one.dir.len()).max();
            let own = projects.iter().filter(|one| one.has(file) && Some(one.dir.len()) == deepest);
            for project in own {
                shares.entry(project.clone()).or_default().push(within_dir(file, &project.dir).to_owned());
            }
            // The empty path stands for the whole project.
            for project in projects.iter().filter(|one| is_below(&one.dir, file)) {
                shares.entry(project.clone()).or_default().push(String::new());
            }
        }
        let whole = |(project, files): (CheckProject, Vec<String>)| {
            if files.iter().any(String::is_empty) { (project, Vec::new()) } else { (project, files) }
        };
        shares.into_iter().map(whole).collect()
    }

    /// Plans the commands and creates the parser. `is_installed` tells whether a program of the step exists for the
    /// run.
    ///
    /// A checker without one has no command, and the report says that it is missing; the one that stands in for it
    /// runs. If nothing is installed the plan has no steps, and [`CheckParser::report`] is the whole result.
    #[must_use]
    pub fn plan(
        &self,
        tree: &FileTree,
        request: &PlanRequest<'_>,
        is_installed: &dyn Fn(&Step) -> bool,
    ) -> (Plan, CheckParser) {
        let mut plan = Plan::default();
        let mut parser = CheckParser::new(self.request.clone(), request.workspace, &self.notes);
        if let Some(chosen) = self.chosen.first().filter(|_| !self.unchecked.is_empty()) {
            let named = listed(&self.unchecked);
            let reason = format!("no chosen checker checks such files, or they do not exist: {named}");
            parser.not_run(chosen.checker, "", CheckerStatus::Partial { reason });
        }
        for chosen in &self.chosen {
            for (project, files) in &chosen.projects {
                let run = CheckerRun { project, files };
                let mut next = Some(chosen.checker);
                while let Some(checker) = next {
                    let commands = checker.plan(tree, &run, request);
                    if commands.iter().all(|command| is_installed(&command.step)) {
                        add_commands(&mut plan, &mut parser, checker, &run, commands);
                        break;
                    }
                    parser.missing(checker, &project.dir);
                    next = checker.substitute();
                }
            }
        }
        if let Some(reason) = unscanned_settings(tree, &self.request).filter(|_| !plan.steps.is_empty()) {
            for chosen in &self.chosen {
                parser.not_run(chosen.checker, "", CheckerStatus::Partial { reason: reason.clone() });
            }
        }
        plan.stack_requests = plan.steps.iter().map(|_| None).collect();
        (plan, parser)
    }
}

/// Adds the commands of a checker in one project, unless there are too many.
fn add_commands(
    plan: &mut Plan,
    parser: &mut CheckParser,
    checker: &'static dyn Checker,
    run: &CheckerRun<'_>,
    commands: Vec<CheckerCommand>,
) {
    if plan.steps.len() + commands.len() > CHECK_COMMANDS_MAX {
        let reason = format!(
            "it was not run: a check has at most {CHECK_COMMANDS_MAX} commands, one for each checker and project; \
             name the directories to check"
        );
        parser.not_run(checker, &run.project.dir, CheckerStatus::Failed { reason });
        return;
    }
    let last = commands.len().saturating_sub(1);
    for (at, CheckerCommand { step, dirs, files }) in commands.into_iter().enumerate() {
        let new: Vec<String> = dirs.into_iter().filter(|dir| !plan.dirs.contains(dir)).collect();
        plan.dirs.extend(new);
        let new: Vec<InjectedFile> = files.into_iter().filter(|file| !plan.files.contains(file)).collect();
        plan.files.extend(new);
        let (dir, named) = (run.project.dir.clone(), run.files.to_vec());
        parser.expect(PlannedCommand { checker, dir, files: named, is_first: at == 0, is_last: at == last });
        plan.steps.push(step);
    }
}

/// Whether the checker checks a file, or one below a directory.
fn is_checked(tree: &FileTree, checker: &'static dyn Checker, path: &str) -> bool {
    let is_own = |file: &str| has_extension(file, checker.manifest().extensions);
    if tree.contains(path) { is_own(path) } else { tree.files_below(path).any(is_own) }
}

fn has_extension(file: &str, extensions: &[&str]) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
}
