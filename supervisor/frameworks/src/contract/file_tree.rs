//! A snapshot of a workspace's file tree: the names of its files, and the content of the few that detection reads.

use crate::contract::{UNSCANNED_MAX, UnscannedPath};
use std::collections::{BTreeMap, BTreeSet};

/// Files of a workspace, by path relative to it, `/`-separated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTree {
    files: BTreeSet<String>,
    contents: BTreeMap<String, String>,
    truncated: bool,
    unscanned: Vec<UnscannedPath>,
    unscanned_unlisted: u64,
    settings_unlisted: u64,
}

#[cfg(test)]
impl FileTree {
    /// A tree of these files with their contents.
    pub(crate) fn with_contents(files: &[(&str, &str)]) -> FileTree {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        tree
    }
}

impl FileTree {
    /// Adds a file by name.
    pub fn add(&mut self, path: impl Into<String>) {
        self.files.insert(path.into());
    }

    /// Adds a file with its content.
    pub fn add_with_content(&mut self, path: impl Into<String>, content: impl Into<String>) {
        let path = path.into();
        self.contents.insert(path.clone(), content.into());
        self.files.insert(path);
    }

    /// Marks the tree as incomplete, without naming what is missing.
    pub fn set_truncated(&mut self) {
        self.truncated = true;
    }

    /// Whether the workspace has more files than the snapshot.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Records a path that may have tests or settings of checkers and is not in the snapshot.
    pub fn add_unscanned(&mut self, path: UnscannedPath) {
        // Settings that only checkers read leave room for the paths of tests.
        let paths_max = if path.frameworks.is_empty() { UNSCANNED_MAX / 2 } else { UNSCANNED_MAX };
        let has_room = self.unscanned.len() < paths_max;
        match self.unscanned.last_mut().filter(|last| last.path == path.path) {
            Some(last) => {
                last.frameworks = last.frameworks.union(path.frameworks);
                last.settings |= path.settings;
            }
            None if has_room => self.unscanned.push(path),
            None => {
                self.unscanned_unlisted += u64::from(!path.frameworks.is_empty());
                self.settings_unlisted += u64::from(path.settings);
            }
        }
    }

    /// Paths that may have tests or settings of checkers and are not in the snapshot, at most [`UNSCANNED_MAX`].
    #[must_use]
    pub fn unscanned(&self) -> &[UnscannedPath] {
        &self.unscanned
    }

    /// Number of paths beyond [`UNSCANNED_MAX`] that may have tests, of which no name is kept.
    #[must_use]
    pub fn unscanned_unlisted(&self) -> u64 {
        self.unscanned_unlisted
    }

    /// The same of paths that may have settings of checkers.
    #[must_use]
    pub fn settings_unlisted(&self) -> u64 {
        self.settings_unlisted
    }

    /// Whether there is a file at `path`.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.files.contains(path)
    }

    /// All files, sorted.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// The files below a directory, sorted; the empty path is the root.
    pub fn files_below(&self, dir: &str) -> impl Iterator<Item = &str> {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let from = self.files.range(prefix.clone()..).map(String::as_str);
        from.take_while(move |file| file.starts_with(&prefix))
    }

    /// Whether there is a file below a directory.
    #[must_use]
    pub fn has_below(&self, dir: &str) -> bool {
        self.files_below(dir).next().is_some()
    }

    /// The content of the file at `path`; `None` unless it is one of the few whose content the snapshot has.
    #[must_use]
    pub fn content(&self, path: &str) -> Option<&str> {
        self.contents.get(path).map(String::as_str)
    }

    /// Directories with a marker file called `name`, each with its content, sorted; the root is the empty string.
    pub fn directories_with<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.contents.iter().filter_map(move |(path, content)| match path.rsplit_once('/') {
            Some((dir, file)) if file == name => Some((dir, content.as_str())),
            None if path == name => Some(("", content.as_str())),
            _ => None,
        })
    }
}
