//! Turns a request's selection into spec files and examples of each project.

use super::NAME;
use super::detect::{SPECS, is_spec};
use crate::contract::FileTree;
use crate::contract::PlanError;
use crate::contract::{Project, innermost_project};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Directories of sources whose specs lie at the same path below `spec`: `app/models/a.rb` and `spec/models/a_spec.rb`.
const SOURCES: [&str; 2] = ["app", "lib"];

/// Examples to run in one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share<'a> {
    pub(super) project: &'a Project,
    /// Value of `--example`.
    pub(super) filter: Option<String>,
    /// Files and directories relative to the project, none below another; empty for RSpec's default.
    pub(super) paths: BTreeSet<String>,
    /// Names of the examples to run, by file relative to the project; an empty name selects the whole file.
    pub(super) tests: BTreeMap<String, BTreeSet<String>>,
    /// Sentences for the report.
    pub(super) notes: Vec<String>,
}

impl<'a> Share<'a> {
    fn whole(project: &'a Project, filter: Option<String>) -> Share<'a> {
        Share { project, filter, paths: BTreeSet::new(), tests: BTreeMap::new(), notes: Vec::new() }
    }

    /// The examples in the form that `start.rb` reads: a line of file, tab and name each. Reported names have no control
    /// characters.
    pub(super) fn tests_file(&self) -> String {
        let lines =
            self.tests.iter().flat_map(|(file, names)| names.iter().map(move |name| format!("{file}\t{name}\n")));
        lines.collect()
    }
}

/// The selected examples of each project, in the order of the projects.
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
            let relative = relative(project, &path);
            let specs = if is_within(&project.dir, &path) { Vec::new() } else { specs_of(tree, project, relative) };
            if specs.is_empty() {
                unrestricted.insert(project);
                if !is_within(&project.dir, &path) {
                    share.notes.push(format!("no spec is named after {path}: all specs of its project run"));
                }
            }
            share.paths.extend(specs);
        }
    }
    for (project, share) in &mut shares {
        share.paths = if unrestricted.contains(project) { BTreeSet::new() } else { outermost(&share.paths) };
    }
    Ok(shares.into_values().collect())
}

/// The spec files or directories of a path relative to the project: a spec and a directory below `spec` are their own, a source
/// has the spec that is named after it. Empty where any spec may be affected.
fn specs_of(tree: &FileTree, project: &Project, path: &str) -> Vec<String> {
    let whole = |path: &str| join(&project.dir, path);
    if !tree.contains(&whole(path)) || is_spec(path) {
        let has_specs = is_spec(path) || tree.files_below(&whole(path)).any(is_spec);
        return has_specs.then(|| path.to_owned()).into_iter().collect();
    }
    let Some(stem) = path.strip_suffix(".rb").filter(|_| !is_within(path, SPECS)) else { return Vec::new() };
    let below = SOURCES.iter().find_map(|dir| stem.strip_prefix(dir)?.strip_prefix('/'));
    let candidates = [Some(stem), below].into_iter().flatten().map(|stem| format!("{SPECS}/{stem}_spec.rb"));
    candidates.filter(|spec| tree.contains(&whole(spec))).collect()
}

/// Exactly these examples and files; `None` when one of them is in no file of a project, so that it can be anywhere.
fn select_targets<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Option<Vec<Share<'a>>> {
    let mut shares: BTreeMap<&Project, Share<'a>> = BTreeMap::new();
    for target in targets {
        let path = join("", target.package());
        let project = innermost_project(projects, &path).filter(|_| tree.contains(&path) && path.ends_with(".rb"))?;
        let share = shares.entry(project).or_insert_with(|| Share::whole(project, None));
        let file = relative(project, &path).to_owned();
        let name = match target {
            RerunTarget::Test(test) => test.name.clone(),
            RerunTarget::Package(_) => String::new(),
        };
        share.paths.insert(file.clone());
        share.tests.entry(file).or_default().insert(name);
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
