//! Analyses a finished run with what the workspace tells about it.

use crate::clock::Clock;
use crate::workspace::{GitError, Workspace, WorkspaceError, commit_name};
use proctor_core::analysis::{
    Analysis, FileState, SourceText, TestSource, WorkspaceChanges, WorkspaceFacts, analyze, imported_paths, test_files,
};
use proctor_core::coverage::CoverageIndex;
use proctor_core::report::Report;
use proctor_core::request::EarlierState;
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use std::collections::HashSet;

/// Files of failing tests whose imports are read, and most bytes of a source.
const SOURCES_MAX: usize = 20;
/// See [`SOURCES_MAX`].
const SOURCE_BYTES_MAX: u64 = 256 * 1024;

/// The analysis of `report`, a run of `workspace`. Looks at some dozens of files, so not for a tokio thread.
#[must_use]
pub fn analyze_run(report: &Report, workspace: &Workspace, clock: &Clock, limit: usize) -> Analysis {
    let of_modules = imported_paths(report);
    let paths = WorkspaceFacts::ROOT_FILES.into_iter().chain(of_modules.iter().map(String::as_str));
    let root_files = paths.filter(|path| workspace.existing(path).is_ok()).map(str::to_owned).collect();
    let root = workspace.root().to_str().unwrap_or_default().to_owned();
    let began_at = clock.for_file_times(report.started_at);
    let mut analysis = analyze(report, &WorkspaceFacts { root, root_files }, limit);
    analysis.mark_files(|file| file_state(file, workspace, began_at));
    analysis
}

/// Adds the lines that may have the bug to the analysis of `report`. Reads some files, so not for a tokio thread.
pub fn add_suspects(
    analysis: &mut Analysis,
    report: &Report,
    index: &CoverageIndex,
    workspace: &Workspace,
    clock: &Clock,
) {
    analysis.add_suspects(report, index, |file| {
        // Lines are those of the text that was measured, which may be of an earlier run.
        let measured_at = index.covering(file, None).measured_at.unwrap_or(report.started_at);
        let began_at = clock.for_file_times(measured_at.min(report.started_at));
        match file_state(file, workspace, began_at) {
            FileState::Unchanged => {
                workspace.text_of(file, SOURCE_BYTES_MAX).map_or(SourceText::Unknown, SourceText::Unchanged)
            }
            FileState::Edited | FileState::Missing => SourceText::Edited,
        }
    });
}

// What a look-up that fails for another reason than the file's absence does not tell, is not stated.
fn file_state(file: &str, workspace: &Workspace, began_at: Timestamp) -> FileState {
    match workspace.existing(file) {
        Err(WorkspaceError::NoSuchFile { .. }) => FileState::Missing,
        Err(error) => {
            tracing::debug!(%error, "a file of an analysis could not be looked up");
            FileState::Unchanged
        }
        Ok(_) if workspace.changed_since(file, began_at) => FileState::Edited,
        Ok(_) => FileState::Unchanged,
    }
}

/// Files of `workspace` that changed since the `earlier` state. Scans the workspace, so not for a tokio thread.
#[must_use]
pub fn changes_since(
    earlier: &EarlierState,
    report: &Report,
    workspace: &Workspace,
    clock: &Clock,
) -> WorkspaceChanges {
    let last_run = report.since_last_run.as_ref().map(|since| (&since.run_id, since.ended_at));
    let last_green = report.since_last_green.as_ref().map(|since| (&since.run_id, since.ended_at));
    match earlier {
        EarlierState::LastRun => since_run("the run before", last_run, workspace, clock),
        EarlierState::LastGreen => since_run("the last green run", last_green, workspace, clock),
        EarlierState::Revision(revision) => since_commit(revision, workspace),
    }
}

fn since_run(name: &str, run: Option<(&String, Timestamp)>, workspace: &Workspace, clock: &Clock) -> WorkspaceChanges {
    let Some((run, ended_at)) = run else {
        let note = format!("the history has no such run: {name} of this workspace");
        return WorkspaceChanges { since: name.to_owned(), files: Vec::new(), notes: vec![note] };
    };
    let since = format!("the end of {name} ({run})");
    let (files, note) = match workspace.files_changed_since(clock.for_file_times(ended_at)) {
        Ok(files) => (files, "by the time of the files: what was removed is not seen".to_owned()),
        Err(error) => (Vec::new(), unreadable(&error)),
    };
    WorkspaceChanges { since, files, notes: vec![note] }
}

fn unreadable(error: &WorkspaceError) -> String {
    tracing::warn!(%error, "the workspace could not be scanned for changes");
    "the workspace could not be scanned for changes".to_owned()
}

fn since_commit(revision: &str, workspace: &Workspace) -> WorkspaceChanges {
    match workspace.files_changed_since_commit(revision) {
        Ok((commit, files)) => WorkspaceChanges { since: commit_name(&commit), files, notes: Vec::new() },
        Err(error) => {
            if let GitError::Host(source) = &error {
                tracing::warn!(error = %source, "the repository could not be read");
            }
            WorkspaceChanges { since: revision.to_owned(), files: Vec::new(), notes: vec![error.to_string()] }
        }
    }
}

/// The beginnings of the files of failing tests. Reads files, so not for a tokio thread.
#[must_use]
pub fn failing_sources(report: &Report, workspace: &Workspace) -> Vec<TestSource> {
    let source = |path: &str| {
        let text = workspace.text_of(path, SOURCE_BYTES_MAX)?;
        Some(TestSource { path: path.to_owned(), text })
    };
    test_files(report).into_iter().filter_map(source).take(SOURCES_MAX).collect()
}

/// The failed tests of a report.
pub struct FailingTests<'a>(HashSet<(&'a str, &'a str)>);

impl<'a> FailingTests<'a> {
    /// Those of `report`.
    #[must_use]
    pub fn of(report: &'a Report) -> FailingTests<'a> {
        let failing = report.tests.iter().filter(|test| test.outcome.is_failure());
        FailingTests(failing.map(|test| (test.package.as_str(), test.name.as_str())).collect())
    }

    /// Whether one of `tests` is among them.
    #[must_use]
    pub fn has_any(&self, tests: &[TestId]) -> bool {
        tests.iter().any(|id| self.0.contains(&(id.package.as_str(), id.name.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_missing_only_if_the_workspace_has_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.py"), "").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("outside")).unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let state = |file: &str| file_state(file, &workspace, Timestamp(u64::MAX));
        assert_eq!(state("gone.py"), FileState::Missing);
        for file in ["a.py", "../a.py", "outside/a.py"] {
            assert_eq!(state(file), FileState::Unchanged, "{file}");
        }
        assert_eq!(file_state("a.py", &workspace, Timestamp(0)), FileState::Edited);
    }
}
