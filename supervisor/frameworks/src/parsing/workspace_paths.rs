//! Paths of a workspace: made relative to it, tested for being within a project, removed from texts.

pub(crate) use proctor_core::check::is_within;
use std::collections::BTreeSet;

/// The workspace's path as the runner sees it.
#[derive(Debug, Clone)]
pub(crate) struct WorkspacePaths {
    /// With a trailing slash.
    root: String,
}

impl WorkspacePaths {
    pub(crate) fn new(workspace: &str) -> WorkspacePaths {
        WorkspacePaths { root: format!("{}/", workspace.trim_end_matches('/')) }
    }

    /// An absolute path below the workspace, relative to it.
    pub(crate) fn relative(&self, path: &str) -> Option<String> {
        path.strip_prefix(&self.root).map(|path| join("", path))
    }

    /// The path that a runner printed while it worked in `dir`: absolute, or relative to `dir`.
    pub(crate) fn relative_to(&self, dir: &str, path: &str) -> Option<String> {
        if path.starts_with('/') { self.relative(path) } else { Some(join(dir, path)) }
    }

    /// The text with every path below the workspace made relative.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.root) {
            let (before, after) = rest.split_at(at);
            clean.push_str(before);
            // `/x/workspace/y` is not below `/workspace`.
            let is_inside_a_name = before.ends_with(|last: char| last.is_alphanumeric() || "._-/".contains(last));
            if is_inside_a_name {
                clean.push_str(&self.root);
            }
            rest = &after[self.root.len()..];
        }
        clean.push_str(rest);
        clean
    }
}

/// Whether a path, relative to the workspace, could lead out of it.
pub(crate) fn leaves_workspace(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// `path`, which is below `dir`, relative to `dir`.
pub(crate) fn within_dir<'p>(path: &'p str, dir: &str) -> &'p str {
    path.strip_prefix(dir).unwrap_or(path).trim_matches('/')
}

/// The paths that are within no other of them.
pub(crate) fn outermost(paths: &BTreeSet<String>) -> BTreeSet<String> {
    let is_covered = |path: &String| paths.iter().any(|other| other != path && is_within(path, other));
    paths.iter().filter(|path| !is_covered(path)).cloned().collect()
}

/// `path` and every directory above it, the innermost first; the root is the empty string.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some((dir, _)) => Some(dir),
        None => (!path.is_empty()).then_some(""),
    })
}

/// Joins two `/`-separated relative paths and resolves `.` and `..`; a path that would leave the root stays at the root.
pub(crate) fn join(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_the_workspace_itself() {
        let paths = WorkspacePaths::new("/workspace");
        assert_eq!(
            paths.scrub("at /workspace/a/b.go:3, (/workspace/c) /x/workspace/d"),
            "at a/b.go:3, (c) /x/workspace/d"
        );
        assert_eq!(paths.relative("/workspace/a/./b.go").unwrap(), "a/b.go");
        assert_eq!(paths.relative("/workspaces/a"), None);
        assert_eq!(paths.relative_to("m", "./x.go").unwrap(), "m/x.go");
        assert_eq!(paths.relative_to("m", "../n/x.go").unwrap(), "n/x.go");
        assert_eq!(paths.relative_to("m", "/usr/x.go"), None);
    }
}
