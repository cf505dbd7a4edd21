//! A project of one framework, and which files belong to it.

use crate::contract::FileTree;
use crate::parsing::workspace_paths::is_within;

/// One project of one framework within a workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Project {
    /// Directory relative to the workspace, `/`-separated, empty for the root.
    pub dir: String,
    /// The project's own name (Go's module path), which prefixes its package names.
    pub name: String,
}

/// The innermost project that contains a file or directory.
pub(crate) fn innermost_project<'a>(projects: &'a [Project], path: &str) -> Option<&'a Project> {
    projects.iter().filter(|project| is_within(path, &project.dir)).max_by_key(|project| project.dir.len())
}

/// Whether `path` is a source file of these projects, or a directory that contains one.
pub(crate) fn owns_source(extensions: &[&str], projects: &[Project], tree: &FileTree, path: &str) -> bool {
    let is_own = |file: &str| {
        let extension = file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
        extension.is_some_and(|extension| extensions.contains(&extension))
            && innermost_project(projects, file).is_some()
    };
    if tree.contains(path) { is_own(path) } else { tree.files_below(path).any(is_own) }
}
