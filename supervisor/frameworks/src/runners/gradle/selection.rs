//! Turns what a request selects into what the init script and `--tests` are told, for each build. Must not know the rest of
//! the command line.
//!
//! Of a test only its class and method can be selected: a parametrised one runs with all its parameters.

use super::NAME;
use super::detect::{is_script, project_dir};
use crate::contract::FileTree;
use crate::contract::PlanError;
use crate::contract::{Project, innermost_project};
use crate::ecosystems::jvm::{class_from_path, method_identifier, split};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::request::{RerunTarget, Selection};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What one build is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share<'a> {
    pub(super) build: &'a Project,
    /// What `--tests` is to say.
    pub(super) filter: Option<String>,
    /// Where and what; everything, if there is nothing here.
    pub(super) chosen: Vec<Chosen>,
}

/// Tests of the projects in and below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Chosen {
    /// Relative to the build.
    pub(super) dir: String,
    /// Patterns of Gradle's, for this very directory; none for all tests of it and of those below.
    pub(super) patterns: BTreeSet<String>,
}

/// The shares of a selection, in the order of the builds.
pub(super) fn shares<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<Share<'a>>, PlanError> {
    match selection {
        Selection::Matching { filter, files } => {
            let filter = filter.as_ref().map(|filter| filter.as_str().to_owned());
            if files.is_empty() { Ok(whole(projects, filter)) } else { of_files(projects, tree, files, filter) }
        }
        Selection::Exactly(targets) => Ok(exactly(projects, tree, targets)),
        // The session resolves LastFailed; a caller that does not gets the superset.
        Selection::All | Selection::LastFailed { .. } => Ok(whole(projects, None)),
    }
}

fn whole(projects: &[Project], filter: Option<String>) -> Vec<Share<'_>> {
    projects.iter().map(|build| Share { build, filter: filter.clone(), chosen: Vec::new() }).collect()
}

/// Gathers what is to run, by build.
#[derive(Default)]
struct Shares<'a> {
    found: BTreeMap<&'a Project, BTreeMap<String, BTreeSet<String>>>,
}

impl<'a> Shares<'a> {
    /// All tests in and below a directory of the workspace.
    fn add_all(&mut self, build: &'a Project, dir: &str) {
        self.found.entry(build).or_default().insert(below(build, dir), BTreeSet::new());
    }

    /// Some tests of the project in a directory of the workspace.
    fn add(&mut self, build: &'a Project, dir: &str, patterns: impl IntoIterator<Item = String>) {
        let projects = self.found.entry(build).or_default();
        let is_new = !projects.contains_key(&below(build, dir));
        let known = projects.entry(below(build, dir)).or_default();
        // None stand for all.
        if is_new || !known.is_empty() {
            known.extend(patterns);
        }
    }

    fn finish(self, filter: Option<&str>) -> Vec<Share<'a>> {
        let chosen = |found: BTreeMap<String, BTreeSet<String>>| {
            found.into_iter().map(|(dir, patterns)| Chosen { dir, patterns }).collect()
        };
        let share = |(build, found)| Share { build, filter: filter.map(str::to_owned), chosen: chosen(found) };
        self.found.into_iter().map(share).collect()
    }
}

fn below(build: &Project, dir: &str) -> String {
    dir.strip_prefix(build.dir.as_str()).unwrap_or(dir).trim_start_matches('/').to_owned()
}

/// A class with what is nested in it.
fn class_patterns(class: &str) -> [String; 2] {
    [class.to_owned(), format!("{class}$*")]
}

fn of_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<String>,
) -> Result<Vec<Share<'a>>, PlanError> {
    let mut shares = Shares::default();
    for file in files {
        let outside = || PlanError::FileOutsideProject { file: file.clone(), framework: NAME };
        if file.starts_with('/') || file.split('/').any(|part| part == "..") {
            return Err(outside());
        }
        let path = join("", file);
        let build = innermost_project(projects, &path).ok_or_else(outside)?;
        let is_file = tree.contains(&path);
        if !is_file && !tree.has_below(&path) && !tree.is_truncated() {
            return Err(outside());
        }
        let tests = |path: &str| Some((tests_of(path)?.to_owned(), class_from_path(path)?));
        match tests(&path) {
            Some((dir, class)) => shares.add(build, &dir, class_patterns(&class)),
            None if is_file || tests_of(&path).is_none() => {
                // The innermost project for a file; for a directory, all in and below it.
                let dir = if is_file { project_dir(tree, build, &path) } else { path.as_str() };
                let holds_projects = is_file || tree.files_below(dir).any(is_script);
                shares.add_all(build, if holds_projects { dir } else { project_dir(tree, build, dir) });
            }
            None => {
                for (dir, class) in tree.files_below(&path).filter_map(tests) {
                    shares.add(build, &dir, class_patterns(&class));
                }
            }
        }
    }
    Ok(shares.finish(filter.as_deref()))
}

/// The project directory of what lies below `src/test`.
fn tests_of(path: &str) -> Option<&str> {
    let at = if is_within(path, "src/test") { 0 } else { path.find("/src/test/").or(path.find("/src/test"))? };
    Some(&path[..at])
}

/// Exactly these classes and methods.
fn exactly<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Vec<Share<'a>> {
    let mut shares = Shares::default();
    for target in targets {
        let path = target.package();
        let Some(build) = innermost_project(projects, path) else { return whole(projects, None) };
        let dir = || project_dir(tree, build, path).to_owned();
        match target {
            RerunTarget::Package(_) => shares.add_all(build, &dir()),
            RerunTarget::Test(test) => {
                let (class, method) = split(&test.name);
                let patterns = match method.and_then(method_identifier) {
                    // JUnit 4 and TestNG count the parameters as a part of the name.
                    Some(method) => [format!("{class}.{method}"), format!("{class}.{method}[*")],
                    None => class_patterns(class),
                };
                let dir = tests_of(path).map_or_else(dir, str::to_owned);
                shares.add(build, &dir, patterns);
            }
        }
    }
    shares.finish(None)
}
