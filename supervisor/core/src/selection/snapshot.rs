//! The files of a workspace at one time, and how they differ from those of another time.

use super::text::FileText;
use crate::bounds::{SNAPSHOT_BYTES_MAX, SNAPSHOT_FILES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// Hash of the file's metadata, by which a later snapshot recognises that it need not read the file again.
    pub metadata: u64,
    /// Its text.
    pub text: FileText,
    /// Whether the run of the snapshot surely saw this text. False for a file that was written while the run went on.
    pub is_settled: bool,
}

/// The files of a workspace when a run used them, bounded by [`SNAPSHOT_FILES_MAX`] and [`SNAPSHOT_BYTES_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    files: BTreeMap<String, SnapshotFile>,
    /// Hash over what the workspace has besides, such as names that are not UTF-8.
    pub others: u64,
    /// Where the symbolic links among the files lead, as they say it.
    links: BTreeMap<String, String>,
    /// Why files are missing here; `None` if none is.
    incomplete: Option<String>,
    #[serde(default)]
    bytes: usize,
}

impl Snapshot {
    /// A snapshot without files, of a workspace that has these others.
    #[must_use]
    pub fn with_others(others: u64) -> Snapshot {
        Snapshot { others, ..Snapshot::default() }
    }

    /// Adds a file. One that is beyond the bounds makes the snapshot incomplete.
    pub fn add(&mut self, path: &str, file: SnapshotFile) {
        let bytes = path.len() + size_of::<(String, SnapshotFile)>() + file.text.memory_bytes();
        if self.files.len() >= SNAPSHOT_FILES_MAX || self.bytes + bytes > SNAPSHOT_BYTES_MAX {
            self.set_incomplete("the workspace has more files than a session remembers");
            return;
        }
        self.bytes += bytes;
        self.files.insert(path.to_owned(), file);
    }

    /// Records where the link at `path` leads.
    pub fn add_link(&mut self, path: &str, target: &str) {
        self.bytes += path.len() + target.len() + size_of::<(String, String)>();
        self.links.insert(path.to_owned(), target.to_owned());
    }

    /// A link that leads to the file at `path` or to a directory above it.
    #[must_use]
    pub fn link_to(&self, path: &str) -> Option<&str> {
        let leads_there = |(link, target): &(&String, &String)| {
            let target = resolved(link, target);
            target.is_some_and(|target| {
                target.is_empty()
                    || path == target
                    || path.strip_prefix(&target).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        self.links.iter().find(leads_there).map(|(link, _)| link.as_str())
    }

    /// Number of links that lead out of the workspace.
    #[must_use]
    pub fn links_outside(&self) -> usize {
        self.links.iter().filter(|(link, target)| resolved(link, target).is_none()).count()
    }

    /// Records why files are missing. The first reason stays.
    pub fn set_incomplete(&mut self, why: &str) {
        self.incomplete.get_or_insert_with(|| why.to_owned());
    }

    /// Why files are missing here.
    #[must_use]
    pub fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// Whether another file would surely be refused, so that it need not be read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.incomplete.is_some()
    }

    /// The file at `path`.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&SnapshotFile> {
        self.files.get(path)
    }

    /// The paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes + size_of::<Snapshot>()
    }

    /// What differs in `now`, sorted by path. A renamed file is one removed and one added.
    #[must_use]
    pub fn changes(&self, now: &Snapshot) -> Vec<ChangedFile> {
        let changed = |(path, before): (&String, &SnapshotFile)| {
            let after = now.files.get(path);
            let is_same = after.is_some_and(|after| after.text.content == before.text.content);
            let new = after.map(|after| after.text.clone());
            // What a file had while the run used it is not known.
            let old = before.is_settled.then(|| before.text.clone());
            let how = if new.is_some() { HowChanged::Edited } else { HowChanged::Removed };
            (!is_same || !before.is_settled).then(|| ChangedFile {
                path: path.clone(),
                how: if before.is_settled { how } else { HowChanged::WrittenDuringRun },
                old,
                new,
            })
        };
        let added = now.files.iter().filter(|(path, _)| !self.files.contains_key(*path)).map(|(path, after)| {
            ChangedFile { path: path.clone(), how: HowChanged::Added, old: None, new: Some(after.text.clone()) }
        });
        let mut changes: Vec<ChangedFile> = self.files.iter().filter_map(changed).chain(added).collect();
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }
}

// Where a link leads, relative to the workspace; `None` outside of it.
fn resolved(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = link.rsplit_once('/').map(|(dir, _)| dir.split('/').collect()).unwrap_or_default();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A file that differs from an earlier state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Relative to the workspace.
    pub path: String,
    /// How it changed.
    pub how: HowChanged,
    /// Its earlier text, if known.
    pub old: Option<FileText>,
    /// Its text now; `None` if it is removed.
    pub new: Option<FileText>,
}

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HowChanged {
    /// It was not there.
    Added,
    /// Its content differs, or may differ.
    Edited,
    /// It is gone.
    Removed,
    /// It was written while the last run went on, so that it is not known which text that run saw.
    WrittenDuringRun,
}

impl HowChanged {
    /// The word for messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HowChanged::Added => "added",
            HowChanged::Edited => "changed",
            HowChanged::Removed => "removed",
            HowChanged::WrittenDuringRun => "written while the last run went on",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::ContentHash;
    use super::*;

    fn file(content: u8, is_settled: bool) -> SnapshotFile {
        SnapshotFile { metadata: 0, text: FileText::whole(ContentHash([content; 16])), is_settled }
    }

    #[test]
    fn finds_every_kind_of_change() {
        let (mut before, mut now) = (Snapshot::default(), Snapshot::default());
        for (path, content, is_settled) in
            [("edited", 1, true), ("gone", 2, true), ("same", 3, true), ("written", 4, false)]
        {
            before.add(path, file(content, is_settled));
        }
        for (path, content) in [("edited", 9), ("new", 2), ("same", 3), ("written", 4)] {
            now.add(path, file(content, true));
        }
        let changes = before.changes(&now);
        let found: Vec<_> = changes.iter().map(|change| (change.path.as_str(), change.how)).collect();
        assert_eq!(
            found,
            [
                ("edited", HowChanged::Edited),
                ("gone", HowChanged::Removed),
                ("new", HowChanged::Added),
                ("written", HowChanged::WrittenDuringRun)
            ]
        );
        assert!(changes[3].old.is_none(), "the text that the run saw is not known");
        assert_eq!(now.changes(&now), []);
    }

    #[test]
    fn knows_where_links_lead() {
        let mut snapshot = Snapshot::default();
        for (link, target) in [("a/link.py", "../shop/price.py"), ("alias", "shop/"), ("out", "/etc"), ("up", "../x")] {
            snapshot.add_link(link, target);
        }
        assert_eq!(snapshot.link_to("shop/price.py"), Some("a/link.py"));
        assert_eq!(snapshot.link_to("shop/sub/x.py"), Some("alias"));
        assert_eq!(snapshot.link_to("shopping/x.py"), None);
        assert_eq!(snapshot.links_outside(), 2);
    }

    #[test]
    fn a_snapshot_is_bounded_and_says_that_it_is_incomplete() {
        let mut snapshot = Snapshot::default();
        for number in 0..=SNAPSHOT_FILES_MAX {
            snapshot.add(&number.to_string(), file(0, true));
        }
        assert_eq!(snapshot.paths().count(), SNAPSHOT_FILES_MAX);
        assert!(snapshot.incomplete().is_some() && snapshot.is_full());
        assert!(snapshot.memory_bytes() <= SNAPSHOT_BYTES_MAX + size_of::<Snapshot>());
    }
}
