//! Turns a request's selection into paths and tests of each project.

use super::NAME;
use super::detect::is_test;
use crate::contract::FileTree;
use crate::contract::PlanError;
use crate::contract::{Project, innermost_project};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Most commands of one run, of which each is for one path.
const STEPS_MAX: usize = 256;

/// Tests to run in one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share<'a> {
    pub(super) project: &'a Project,
    /// Value of `--filter`.
    pub(super) filter: Option<String>,
    /// Files and directories relative to the project, none below another; empty for what its settings name.
    pub(super) paths: BTreeSet<String>,
    /// Names of the tests to run, by file relative to the project; an empty name selects the whole file.
    pub(super) tests: BTreeMap<String, BTreeSet<String>>,
    /// Sentences for the report.
    pub(super) notes: Vec<String>,
}

impl<'a> Share<'a> {
    fn whole(project: &'a Project, filter: Option<String>) -> Share<'a> {
        Share { project, filter, paths: BTreeSet::new(), tests: BTreeMap::new(), notes: Vec::new() }
    }

    /// The tests in the form that `run.php` reads: a line of file, tab and name each. Reported names have no control characters.
    pub(super) fn tests_file(&self) -> String {
        let lines =
            self.tests.iter().flat_map(|(file, names)| names.iter().map(move |name| format!("{file}\t{name}\n")));
        lines.collect()
    }
}

/// The selected tests of each project, in the order of the projects.
pub(super) fn shares<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<Share<'a>>, PlanError> {
    let whole = |filter: Option<String>| projects.iter().map(|project| Share::whole(project, filter.clone())).collect();
    match selection {
        Selection::Matching { filter, files } => {
            let filter = filter.as_ref().map(|filter| filter.as_str().to_owned());
            if files.is_empty() { Ok(whole(filter)) } else { select_files(projects, tree, files, filter.as_ref()) }
        }
        Selection::Exactly(targets) => Ok(select_targets(projects, tree, targets).unwrap_or_else(|| whole(None))),
        // The session resolves LastFailed; an unresolved one gets the superset.
        Selection::All | Selection::LastFailed { .. } => Ok(whole(None)),
    }
}

fn select_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<&String>,
) -> Result<Vec<Share<'a>>, PlanError> {
    let mut shares: BTreeMap<&Project, Share<'a>> = BTreeMap::new();
    let mut unrestricted: BTreeSet<&Project> = BTreeSet::new();
    for file in files {
        let outside = || PlanError::FileOutsideProject { file: file.clone(), framework: NAME };
        if file.starts_with('/') || file.split('/').any(|part| part == "..") {
            return Err(outside());
        }
        let path = join("", file);
        let is_there = tree.contains(&path) || tree.has_below(&path) || tree.is_truncated();
        // A directory above projects selects all of them.
        let within: Vec<&Project> = projects.iter().filter(|project| is_within(&project.dir, &path)).collect();
        let owners = if within.is_empty() { innermost_project(projects, &path).into_iter().collect() } else { within };
        if owners.is_empty() || !is_there {
            return Err(outside());
        }
        for project in owners {
            let share = shares.entry(project).or_insert_with(|| Share::whole(project, filter.cloned()));
            let is_whole = is_within(&project.dir, &path);
            let tests = if is_whole { Vec::new() } else { tests_of(tree, project, &path) };
            if tests.is_empty() {
                unrestricted.insert(project);
                if !is_whole {
                    share.notes.push(format!("no test is named after {path}: all tests of its project run"));
                }
            }
            share.paths.extend(tests);
        }
    }
    for (project, share) in &mut shares {
        share.paths = if unrestricted.contains(project) { BTreeSet::new() } else { outermost(&share.paths) };
    }
    let steps = shares.values().map(|share| share.paths.len().max(1)).sum();
    if steps > STEPS_MAX {
        return Err(PlanError::TooManySteps { steps, max: STEPS_MAX });
    }
    Ok(shares.into_values().collect())
}

/// The files or directories of tests of a path, relative to the project: a test and a directory with tests are their own, a source
/// `Calc.php` has each `CalcTest.php`. Empty where any test may be affected.
fn tests_of(tree: &FileTree, project: &Project, path: &str) -> Vec<String> {
    let own = |path: &str| relative(project, path).to_owned();
    if !tree.contains(path) || is_test(path) {
        let has_tests = is_test(path) || tree.files_below(path).any(is_test);
        return has_tests.then(|| own(path)).into_iter().collect();
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some(stem) = name.strip_suffix(".php") else { return Vec::new() };
    let test = format!("/{stem}Test.php");
    let files = tree.files_below(&project.dir).filter(|file| !file.split('/').any(|part| part == "vendor"));
    files.filter(|file| format!("/{file}").ends_with(&test)).map(own).collect()
}

/// Exactly these tests and files; `None` when one of them is in no file of a project, so that it can be anywhere.
fn select_targets<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Option<Vec<Share<'a>>> {
    let mut shares: BTreeMap<&Project, Share<'a>> = BTreeMap::new();
    for target in targets {
        let path = join("", target.package());
        let project = innermost_project(projects, &path).filter(|_| tree.contains(&path) && path.ends_with(".php"))?;
        let share = shares.entry(project).or_insert_with(|| Share::whole(project, None));
        let name = match target {
            RerunTarget::Test(test) => test.name.clone(),
            RerunTarget::Package(_) => String::new(),
        };
        share.tests.entry(relative(project, &path).to_owned()).or_default().insert(name);
    }
    Some(shares.into_values().collect())
}

fn relative<'p>(project: &Project, path: &'p str) -> &'p str {
    path.strip_prefix(project.dir.as_str()).unwrap_or(path).trim_start_matches('/')
}

fn outermost(paths: &BTreeSet<String>) -> BTreeSet<String> {
    let is_held = |path: &String| paths.iter().any(|other| other != path && is_within(path, other));
    paths.iter().filter(|path| !is_held(path)).cloned().collect()
}
