//! The selection of a runner that takes paths of test files, and the names of the tests to run in a file of its own.

use crate::contract::{FileTree, PlanError, Project, TestSelection, innermost_project, outside, path_of};
use crate::parsing::workspace_paths::{is_within, join, outermost, within_dir};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// What one runner's files are like.
pub(crate) struct PathRules {
    /// The framework's name, for errors.
    pub(crate) framework: &'static str,
    /// What the runner calls a test file, for notes: `spec`.
    pub(crate) noun: &'static str,
    /// End of the names of its files.
    pub(crate) extension: &'static str,
    /// The test files or directories of a path that is below the project, both relative to the project. Empty where any test may
    /// be affected.
    pub(crate) tests_of: fn(&FileTree, &Project, &str) -> Vec<String>,
    /// The files of a project, relative to it, that may have a test of this name; empty where any file may have it.
    pub(crate) files_of_name: fn(&FileTree, &Project, &str) -> Vec<String>,
    /// Whether a rerun names its files, too. Else the names of the tests are enough.
    pub(crate) reruns_by_path: bool,
}

/// The tests to run in one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathSelection<'a> {
    pub(crate) project: &'a Project,
    /// The runner's own filter expression.
    pub(crate) filter: Option<String>,
    /// Files and directories relative to the project, none within another; empty for the runner's default.
    pub(crate) paths: BTreeSet<String>,
    /// Names of the tests to run, by file relative to the project; an empty name selects the whole file, an empty file any.
    pub(crate) tests: BTreeMap<String, BTreeSet<String>>,
    /// Sentences for the report.
    pub(crate) notes: Vec<String>,
}

impl<'a> PathSelection<'a> {
    fn whole(project: &'a Project, filter: Option<String>) -> PathSelection<'a> {
        PathSelection { project, filter, paths: BTreeSet::new(), tests: BTreeMap::new(), notes: Vec::new() }
    }

    /// The tests in the form that an injected script reads: a line of file, tab and name each. Reported names have no control
    /// characters.
    pub(crate) fn tests_file(&self) -> String {
        let lines =
            self.tests.iter().flat_map(|(file, names)| names.iter().map(move |name| format!("{file}\t{name}\n")));
        lines.collect()
    }
}

/// The selected tests of each project, in the order of the projects.
pub(crate) fn path_selections<'a>(
    rules: &PathRules,
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<PathSelection<'a>>, PlanError> {
    let whole = |filter: Option<&Filter>| {
        let filter = filter.map(|filter| filter.as_str().to_owned());
        projects.iter().map(|project| PathSelection::whole(project, filter.clone())).collect()
    };
    match TestSelection::new(selection) {
        TestSelection::Everything { filter } => Ok(whole(filter)),
        TestSelection::Files { files, filter } => select_files(rules, projects, tree, files, filter),
        TestSelection::Targets(targets) => {
            Ok(select_targets(rules, projects, tree, targets).unwrap_or_else(|| whole(None)))
        }
    }
}

fn select_files<'a>(
    rules: &PathRules,
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<&Filter>,
) -> Result<Vec<PathSelection<'a>>, PlanError> {
    let mut selections: BTreeMap<&Project, PathSelection<'a>> = BTreeMap::new();
    let mut unrestricted: BTreeSet<&Project> = BTreeSet::new();
    for file in files {
        let path = path_of(rules.framework, file)?;
        let is_there = tree.contains(&path) || tree.has_below(&path) || tree.is_truncated();
        // A directory above projects selects all of them.
        let within: Vec<&Project> = projects.iter().filter(|project| is_within(&project.dir, &path)).collect();
        let owners = if within.is_empty() { innermost_project(projects, &path).into_iter().collect() } else { within };
        if owners.is_empty() || !is_there {
            return Err(outside(rules.framework, file));
        }
        for project in owners {
            let filter = || filter.map(|filter| filter.as_str().to_owned());
            let selection = selections.entry(project).or_insert_with(|| PathSelection::whole(project, filter()));
            let is_whole = is_within(&project.dir, &path);
            let relative = within_dir(&path, &project.dir);
            let tests = if is_whole { Vec::new() } else { (rules.tests_of)(tree, project, relative) };
            if tests.is_empty() {
                unrestricted.insert(project);
                if !is_whole {
                    let noun = rules.noun;
                    let note = format!("no {noun} is named after {path}: all {noun}s of its project run");
                    selection.notes.push(note);
                }
            }
            selection.paths.extend(tests);
        }
    }
    for (project, selection) in &mut selections {
        selection.paths = if unrestricted.contains(project) { BTreeSet::new() } else { outermost(&selection.paths) };
    }
    Ok(selections.into_values().collect())
}

/// Exactly these tests and files; `None` if one of them is in no file of a project, since then it can be anywhere.
fn select_targets<'a>(
    rules: &PathRules,
    projects: &'a [Project],
    tree: &FileTree,
    targets: &[RerunTarget],
) -> Option<Vec<PathSelection<'a>>> {
    let mut selections: BTreeMap<&Project, PathSelection<'a>> = BTreeMap::new();
    let mut has_name_in_any_file = false;
    for target in targets {
        if let RerunTarget::Name(name) = target {
            for project in projects {
                let selection = selections.entry(project).or_insert_with(|| PathSelection::whole(project, None));
                let files = (rules.files_of_name)(tree, project, name);
                has_name_in_any_file |= files.is_empty();
                let files = if files.is_empty() { vec![String::new()] } else { files };
                for file in files {
                    selection.paths.extend(rules.reruns_by_path.then(|| file.clone()));
                    selection.tests.entry(file).or_default().insert(name.clone());
                }
            }
            continue;
        }
        let path = join("", target.package()?);
        let is_test_file = tree.contains(&path) && path.ends_with(rules.extension);
        let project = innermost_project(projects, &path).filter(|_| is_test_file)?;
        let selection = selections.entry(project).or_insert_with(|| PathSelection::whole(project, None));
        let file = within_dir(&path, &project.dir).to_owned();
        let name = match target {
            RerunTarget::Test(test) => test.name.clone(),
            RerunTarget::Package(_) | RerunTarget::Name(_) => String::new(),
        };
        selection.paths.extend(rules.reruns_by_path.then(|| file.clone()));
        selection.tests.entry(file).or_default().insert(name);
    }
    if has_name_in_any_file {
        selections.values_mut().for_each(|selection| selection.paths.clear());
    }
    Some(selections.into_values().collect())
}
