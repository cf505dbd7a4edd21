//! Turns a request's selection into patterns for the init script and `--tests`, for each build.
//!
//! Only class and method of a test can be selected: a parametrised one runs with all its parameters.

use super::NAME;
use super::detect::{is_script, project_dir};
use crate::contract::{FileTree, PlanError, Project, TestSelection, innermost_project, outside, owner_of};
use crate::ecosystems::jvm::{class_from_path, locate_names, method_identifier, split};
use crate::parsing::workspace_paths::is_within;
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Tests to run in one build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildSelection<'a> {
    pub(super) build: &'a Project,
    /// Value of `--tests`.
    pub(super) filter: Option<String>,
    /// Tests by project directory; empty for all.
    pub(super) chosen: Vec<ProjectTests>,
}

/// Tests of the projects in and below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ProjectTests {
    /// Directory relative to the build.
    pub(super) dir: String,
    /// Gradle's patterns for this very directory; empty for all tests in it and below.
    pub(super) patterns: BTreeSet<String>,
}

/// The selected tests of each build, in the order of the builds.
pub(super) fn build_selections<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<BuildSelection<'a>>, PlanError> {
    let text = |filter: Option<&Filter>| filter.map(|filter| filter.as_str().to_owned());
    match TestSelection::new(selection) {
        TestSelection::Everything { filter } => Ok(select_everything(projects, text(filter))),
        TestSelection::Files { files, filter } => select_files(projects, tree, files, text(filter)),
        TestSelection::Targets(targets) => Ok(select_targets(projects, tree, targets)),
    }
}

fn select_everything(projects: &[Project], filter: Option<String>) -> Vec<BuildSelection<'_>> {
    projects.iter().map(|build| BuildSelection { build, filter: filter.clone(), chosen: Vec::new() }).collect()
}

/// Gathers selected tests by build.
#[derive(Default)]
struct BuildSelections<'a> {
    found: BTreeMap<&'a Project, BTreeMap<String, BTreeSet<String>>>,
}

impl<'a> BuildSelections<'a> {
    /// Adds all tests in and below a directory of the workspace.
    fn add_all(&mut self, build: &'a Project, dir: &str) {
        self.found.entry(build).or_default().insert(below(build, dir), BTreeSet::new());
    }

    /// Adds some tests of the project in a directory of the workspace.
    fn add(&mut self, build: &'a Project, dir: &str, patterns: impl IntoIterator<Item = String>) {
        let projects = self.found.entry(build).or_default();
        let is_new = !projects.contains_key(&below(build, dir));
        let known = projects.entry(below(build, dir)).or_default();
        // An empty set stands for all tests.
        if is_new || !known.is_empty() {
            known.extend(patterns);
        }
    }

    fn finish(self, filter: Option<&str>) -> Vec<BuildSelection<'a>> {
        let chosen = |found: BTreeMap<String, BTreeSet<String>>| {
            found.into_iter().map(|(dir, patterns)| ProjectTests { dir, patterns }).collect()
        };
        let share = |(build, found)| BuildSelection { build, filter: filter.map(str::to_owned), chosen: chosen(found) };
        self.found.into_iter().map(share).collect()
    }
}

fn below(build: &Project, dir: &str) -> String {
    dir.strip_prefix(build.dir.as_str()).unwrap_or(dir).trim_start_matches('/').to_owned()
}

/// Patterns of a class and of the classes nested in it.
fn class_patterns(class: &str) -> [String; 2] {
    [class.to_owned(), format!("{class}$*")]
}

fn select_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<String>,
) -> Result<Vec<BuildSelection<'a>>, PlanError> {
    let mut selections = BuildSelections::default();
    for file in files {
        let (path, build) = owner_of(NAME, projects, file)?;
        let is_file = tree.contains(&path);
        if !is_file && !tree.has_below(&path) && !tree.is_truncated() {
            return Err(outside(NAME, file));
        }
        let tests = |path: &str| Some((tests_of(path)?.to_owned(), class_from_path(path)?));
        match tests(&path) {
            Some((dir, class)) => selections.add(build, &dir, class_patterns(&class)),
            None if is_file || tests_of(&path).is_none() => {
                // The innermost project for a file; for a directory, all projects in and below it.
                let dir = if is_file { project_dir(tree, build, &path) } else { path.as_str() };
                let holds_projects = is_file || tree.files_below(dir).any(is_script);
                selections.add_all(build, if holds_projects { dir } else { project_dir(tree, build, dir) });
            }
            None => {
                for (dir, class) in tree.files_below(&path).filter_map(tests) {
                    selections.add(build, &dir, class_patterns(&class));
                }
            }
        }
    }
    Ok(selections.finish(filter.as_deref()))
}

/// The project directory of a path below `src/test`.
fn tests_of(path: &str) -> Option<&str> {
    let at = if is_within(path, "src/test") { 0 } else { path.find("/src/test/").or(path.find("/src/test"))? };
    Some(&path[..at])
}

/// Exactly these classes and methods. Each name of a class whose file is not known has a command of its own.
fn select_targets<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Vec<BuildSelection<'a>> {
    let mut selections = BuildSelections::default();
    let (located, names) = locate_names(tree, targets);
    for target in &located {
        let Some(path) = target.package() else { continue };
        let Some(build) = innermost_project(projects, path) else { return select_everything(projects, None) };
        let dir = || project_dir(tree, build, path).to_owned();
        match target {
            RerunTarget::Package(_) | RerunTarget::Name(_) => selections.add_all(build, &dir()),
            RerunTarget::Test(test) => {
                let (class, method) = split(&test.name);
                let patterns = match method.and_then(method_identifier) {
                    // JUnit 4 and TestNG append the parameters to the name.
                    Some(method) => [format!("{class}.{method}"), format!("{class}.{method}[*")],
                    None => class_patterns(class),
                };
                let dir = tests_of(path).map_or_else(dir, str::to_owned);
                selections.add(build, &dir, patterns);
            }
        }
    }
    let anywhere = names.iter().flat_map(|name| select_everything(projects, Some(pattern(name))));
    selections.finish(None).into_iter().chain(anywhere).collect()
}

/// Gradle's pattern for a class or one of its methods.
fn pattern(name: &str) -> String {
    let (class, method) = split(name);
    method.and_then(method_identifier).map_or_else(|| class.to_owned(), |method| format!("{class}.{method}"))
}
