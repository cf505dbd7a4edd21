//! Writes the command lines of our runner for unittest. Must not know how its results are read.

use crate::framework::{Plan, PlanError, Project, Want};
use crate::paths::{is_within, project_of};
use crate::python::{Share, Steps, shares};
use crate::tree::FileTree;
use std::collections::{BTreeMap, BTreeSet};

/// The plan of a run, or with `more` arguments of a listing.
pub(super) fn plan(projects: &[Project], tree: &FileTree, want: &Want<'_>, more: &[&str]) -> Result<Plan, PlanError> {
    let mut steps = Steps::new(super::NAME, want, ("proctor_unittest", include_bytes!("proctor_unittest.py")));
    if want.parallel.is_some() {
        steps.note("parallel has no effect: unittest runs tests one at a time".to_owned());
    }
    for share in shares(super::NAME, projects, tree, want.selection)? {
        let tests = selected(&share);
        for start in starts(projects, tree, &share) {
            let mut args: Vec<String> = ["-m", "proctor_unittest", &format!("./{start}")].map(str::to_owned).into();
            args.extend(share.filter.iter().map(|filter| format!("-k={filter}")));
            args.extend(more.iter().map(|argument| (*argument).to_owned()));
            steps.add(share.project, args, &tests);
        }
        share.notes.into_iter().for_each(|note| steps.note(note));
    }
    Ok(steps.done(&[]))
}

/// The tests of a share by file, as our runner reads them: a file or directory without names is whole.
fn selected(share: &Share<'_>) -> BTreeMap<String, Vec<String>> {
    if !share.tests.is_empty() {
        return share.tests.clone();
    }
    share.paths.iter().map(|path| (path.clone(), vec![String::new()])).collect()
}

/// The directories, relative to the project, in which unittest has to be started to find every test file of the share: it
/// finds what is in packages below, and so begins above the outermost package of each.
fn starts(projects: &[Project], tree: &FileTree, share: &Share<'_>) -> BTreeSet<String> {
    let is_shared = |path: &str| share.paths.is_empty() || share.paths.iter().any(|part| is_within(path, part));
    let mut starts = BTreeSet::new();
    for file in tree.files() {
        let (mut dir, name) = file.rsplit_once('/').unwrap_or(("", file));
        let is_own = project_of(projects, file) == Some(share.project);
        let within = || file[share.project.dir.len()..].trim_start_matches('/');
        let is_test = name.starts_with("test") && name.ends_with(".py") && !file.contains("/.");
        if !is_test || !is_own || !is_shared(within()) {
            continue;
        }
        while dir != share.project.dir && tree.contains(&format!("{dir}/__init__.py")) {
            dir = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
        starts.insert(dir[share.project.dir.len()..].trim_start_matches('/').to_owned());
    }
    starts
}
