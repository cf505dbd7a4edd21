//! A snapshot of a workspace's file tree: names of files, and the content of the few that detection reads. Must not
//! know where it came from.

use std::collections::{BTreeMap, BTreeSet};

/// Files of a workspace, by path relative to it, `/`-separated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTree {
    files: BTreeSet<String>,
    contents: BTreeMap<String, String>,
    truncated: bool,
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

    /// Marks the tree as larger than the edge reads.
    pub fn set_truncated(&mut self) {
        self.truncated = true;
    }

    /// Whether the workspace has more files than the snapshot.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
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

    /// The content of a marker file.
    #[must_use]
    pub fn content(&self, path: &str) -> Option<&str> {
        self.contents.get(path).map(String::as_str)
    }

    /// Directories that hold a marker file called `name`, with its content, sorted; the root is the empty string.
    pub fn directories_with<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.contents.iter().filter_map(move |(path, content)| match path.rsplit_once('/') {
            Some((dir, file)) if file == name => Some((dir, content.as_str())),
            None if path == name => Some(("", content.as_str())),
            _ => None,
        })
    }
}
