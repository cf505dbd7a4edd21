//! Which directories are projects of a checker.

use super::CheckProject;
use crate::contract::FileTree;
use crate::parsing::workspace_paths::is_within;
use std::collections::BTreeMap;

/// Directories whose settings belong to others' code or to test material.
const IGNORED_DIRS: [&str; 8] =
    ["node_modules", "vendor", "testdata", "fixtures", "__fixtures__", "site-packages", "target", "dist"];

/// Whether the settings in a directory are none of the workspace's own.
pub(crate) fn is_ignored(dir: &str) -> bool {
    dir.split('/').any(|part| part.starts_with('.') && part.len() > 1 || IGNORED_DIRS.contains(&part))
}

/// The directories with a file of one of these names, sorted, each with the first of the names that it has.
pub(crate) fn with_file(tree: &FileTree, names: &[&str]) -> Vec<CheckProject> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.files() {
        let (dir, name) = file.rsplit_once('/').unwrap_or(("", file));
        if let Some(rank) = names.iter().position(|candidate| *candidate == name) {
            let first = found.entry(dir).or_insert(rank);
            *first = rank.min(*first);
        }
    }
    let own = found.into_iter().filter(|(dir, _)| !is_ignored(dir));
    own.map(|(dir, rank)| CheckProject::new(dir, names.get(rank).copied().unwrap_or_default())).collect()
}

/// Adds the directories in which a file called `name` has content that `is_settings` accepts, and sorts. A directory
/// that is already there stays as it is.
pub(crate) fn add_with_content(
    projects: &mut Vec<CheckProject>,
    tree: &FileTree,
    name: &str,
    is_settings: impl Fn(&str) -> bool,
) {
    for (dir, content) in tree.directories_with(name) {
        if !is_ignored(dir) && projects.iter().all(|project| project.dir != dir) && is_settings(content) {
            projects.push(CheckProject::new(dir, name));
        }
    }
    projects.sort();
}

/// Whether a directory is below another.
pub(crate) fn is_below(dir: &str, above: &str) -> bool {
    dir != above && is_within(dir, above)
}
