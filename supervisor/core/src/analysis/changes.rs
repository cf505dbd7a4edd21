//! Files that changed since an earlier run or commit, those first that have to do with the failures.

use super::imports::Imports;
use super::{Analysis, analyzed_failure, frames};
use crate::bounds::ANALYSIS_FILES_MAX;
use crate::report::Report;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was not there before.
    Added,
    /// Its content differs, or it was written; a time alone does not tell this from added.
    Changed,
    /// It is no longer there.
    Removed,
}

impl Change {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Removed => "removed",
        }
    }
}

/// A change, as the workspace shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path, relative to the workspace.
    pub path: String,
    /// How it changed.
    pub change: Change,
    /// Whether version control knows the file. Others may be output of tools: they count only if failures have to do with them.
    pub is_tracked: bool,
}

/// Changes since an earlier state of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceChanges {
    /// The earlier state: a run or a commit.
    pub since: String,
    /// The changes.
    pub files: Vec<FileChange>,
    /// Why there are none, or what they do not cover.
    pub notes: Vec<String>,
}

/// A file of a failing test, whose imports are looked at.
#[derive(Debug, Clone)]
pub struct TestSource {
    /// Path, relative to the workspace.
    pub path: String,
    /// Its text, possibly cut.
    pub text: String,
}

/// A changed file and what it has to do with the failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Path, relative to the workspace.
    pub path: String,
    /// How it changed.
    pub change: Change,
    /// Failures whose place or stack is in the file.
    pub in_stacks: u64,
    /// Whether a failing test executed lines of the file when coverage was last measured.
    pub is_covered: bool,
    /// Whether a file of a failing test names the file in an import, possibly another of the same name where the import has no directory.
    pub is_imported: bool,
}

/// The changed files of an analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFiles {
    /// What the workspace is compared with.
    pub since: String,
    /// Those first that have to do with the failures, at most [`ANALYSIS_FILES_MAX`].
    pub files: Vec<ChangedFile>,
    /// Number of further changed files.
    pub left_out: u64,
    /// Why there are none, or what the list does not cover.
    pub notes: Vec<String>,
}

/// Names that may be those of the files of failing tests: what the runner's names begin with, packages, the outermost frames of the
/// project in stacks, and where a failure without a stack is.
#[must_use]
pub fn test_files(report: &Report) -> BTreeSet<&str> {
    let failed = analyzed_failure::failures(report);
    let mut files = BTreeSet::new();
    for one in &failed {
        files.extend(one.name.split("::").next());
        files.insert(one.package);
        files.extend(one.frames().last().map(|frame| frame.file).or(one.file));
    }
    files.retain(|file| frames::is_project_file(file));
    files
}

impl Analysis {
    /// Adds the changed files, ranked: first those in stacks, then those that failing tests execute, then those that their files
    /// import. `is_covered` tells the second, `sources` the third.
    pub fn rank_changes(
        &mut self,
        changes: WorkspaceChanges,
        is_covered: impl Fn(&str) -> bool,
        sources: &[TestSource],
    ) {
        let WorkspaceChanges { since, files, mut notes } = changes;
        let of_stacks =
            |path: &str| self.affected_files.iter().find(|file| file.path == path).map_or(0, |file| file.failures);
        let imports: Vec<Imports<'_>> = sources.iter().filter_map(Imports::of).collect();
        let (mut ranked, mut untracked) = (Vec::new(), 0_u64);
        for FileChange { path, change, is_tracked } in files {
            let is_imported = imports.iter().any(|imports| imports.name(&path));
            let (in_stacks, is_covered) = (of_stacks(&path), is_covered(&path));
            if is_tracked || in_stacks > 0 || is_covered || is_imported {
                ranked.push(ChangedFile { path, change, in_stacks, is_covered, is_imported });
            } else {
                untracked += 1;
            }
        }
        if untracked > 0 {
            notes.push(format!("{untracked} file(s) that git does not track are not listed"));
        }
        ranked.sort_by(|one, other| {
            let rank = |file: &ChangedFile| (Reverse(file.in_stacks), !file.is_covered, !file.is_imported);
            rank(one).cmp(&rank(other)).then_with(|| one.path.cmp(&other.path))
        });
        let left_out = ranked.len().saturating_sub(ANALYSIS_FILES_MAX) as u64;
        ranked.truncate(ANALYSIS_FILES_MAX);
        self.changed_files = Some(ChangedFiles { since, files: ranked, left_out, notes });
    }
}
