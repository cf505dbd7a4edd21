//! Builds the command lines of the injected runners for unittest and for Django.

use crate::contract::FileTree;
use crate::contract::{Plan, PlanError, PlanRequest};
use crate::contract::{Project, innermost_project};
use crate::ecosystems::python::{
    MANAGE_FILE, PlanBuilder, ProjectSelection, START_MODULE, is_django, project_selections, unittest_files,
};
use crate::parsing::workspace_paths::{is_within, join};
use std::collections::{BTreeMap, BTreeSet};

/// Injected Python modules.
const MODULES: &[(&str, &[u8])] = &[
    ("proctor_unittest", include_bytes!("proctor_unittest.py")),
    ("proctor_django", include_bytes!("proctor_django.py")),
];

/// The plan of a run, or with `more` arguments of a listing.
pub(super) fn plan(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    more: &[&str],
) -> Result<Plan, PlanError> {
    let mut steps = PlanBuilder::new(super::NAME, request, MODULES);
    for share in project_selections(super::NAME, projects, tree, request.selection)? {
        let tests = selected_tests(&share);
        let commands = if is_django(tree, &share.project.dir) {
            vec![["-m", START_MODULE, "proctor_django", MANAGE_FILE].map(str::to_owned)]
        } else {
            let of = |start: String| ["-m", START_MODULE, "proctor_unittest", &format!("./{start}")].map(str::to_owned);
            start_directories(projects, tree, &share).into_iter().map(of).collect()
        };
        for command in commands {
            let mut args = command.to_vec();
            args.extend(share.filter.iter().map(|filter| format!("-k={filter}")));
            args.extend(more.iter().map(|argument| (*argument).to_owned()));
            steps.add(share.project, args, &tests);
        }
        share.notes.into_iter().for_each(|note| steps.note(note));
    }
    Ok(steps.build(&[]))
}

/// The tests of a share by file, in the form that the injected runner reads: an empty name selects the whole file or directory.
fn selected_tests(share: &ProjectSelection<'_>) -> BTreeMap<String, Vec<String>> {
    if !share.tests.is_empty() {
        return share.tests.clone();
    }
    share.paths.iter().map(|path| (path.clone(), vec![String::new()])).collect()
}

/// The directories, relative to the project, in which unittest has to be started to find every test file of the share.
///
/// Tests that a `load_tests` adds can be in any file, and the `load_tests` that adds the tests of such a path in any of the
/// project's test files.
fn start_directories(projects: &[Project], tree: &FileTree, share: &ProjectSelection<'_>) -> BTreeSet<String> {
    let dir = &share.project.dir;
    let is_own = |file: &&str| innermost_project(projects, file) == Some(share.project);
    let files: Vec<&str> = unittest_files(tree).filter(is_own).collect();
    let paths: Vec<String> = share.paths.iter().map(|path| join(dir, path)).collect();
    let is_known = paths.iter().all(|path| files.iter().any(|file| is_within(file, path)));
    let is_whole = paths.is_empty() || !is_known;
    let wanted = files.iter().filter(|file| is_whole || paths.iter().any(|path| is_within(file, path)));
    wanted.map(|file| start_directory(tree, dir, file)).collect()
}

/// The directory in which unittest finds a test file: it descends into packages, and so starts above the outermost one.
fn start_directory(tree: &FileTree, project: &str, file: &str) -> String {
    let mut dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    while dir != project && tree.contains(&format!("{dir}/__init__.py")) {
        dir = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    dir[project.len()..].trim_start_matches('/').to_owned()
}
