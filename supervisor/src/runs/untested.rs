//! Finds the changed lines that no test executed, once a run has ended, and which text of each source the run loaded.

use super::context::{Context, ScanPermit, ScanPermits};
use crate::workspace::{FILE_TIME_LAG_MS, GitError, Workspace, commit_name};
use proctor_core::bounds::SNAPSHOT_READ_BYTES_MAX;
use proctor_core::coverage::{CoverageIndex, RunCoverage};
use proctor_core::report::Report;
use proctor_core::request::EarlierState;
use proctor_core::selection::{Baseline, HowChanged, SeenFiles};
use proctor_core::timestamp::Timestamp;
use proctor_core::untested::{ChangedSources, RunExtent, SourceLanguage, UntestedInput, untested_lines};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The commit whose files are compared with those of the workspace.
const LAST_COMMIT: &str = "HEAD";

/// Compares what a run measured with what changed.
pub(super) struct UntestedRecorder {
    pub(super) context: Arc<Context>,
    pub(super) scan_permits: ScanPermits,
    pub(super) runtime: Handle,
    pub(super) workspace: Workspace,
    /// The index of the session before the run.
    pub(super) index: Arc<CoverageIndex>,
    /// The baseline of the session before the run.
    pub(super) baseline: Option<Arc<Baseline>>,
    /// When the workspace was scanned for a selection that the run executes.
    pub(super) selected_at: Option<Timestamp>,
    /// Whether the run executed all tests.
    pub(super) is_whole: bool,
}

impl UntestedRecorder {
    /// Completes `measured` with the texts of the sources, and `report` with the changed lines that no test executed. `seen` is what the run
    /// saw of its workspace, if that is known. Reads files.
    pub(super) fn record(self, report: &mut Report, measured: &mut RunCoverage, seen: Option<&SeenFiles>) {
        if measured.tests.is_empty() {
            return;
        }
        let permit = self.runtime.block_on(ScanPermit::acquire(&self.scan_permits, &self.context.scan_permits));
        self.add_texts(report, measured, seen);
        let languages = SourceLanguage::of_frameworks(&report.framework);
        // A runner of files takes a file for tests whatever its name is.
        let test_files: HashSet<&str> = report.tests.iter().map(|test| test.package.as_str()).collect();
        let is_product = |path: &str| languages.iter().any(|language| language.is_product(path));
        let is_wanted = |path: &str| is_product(path) && !test_files.contains(path);
        let changes = self.changes(seen, is_wanted);
        drop(permit);
        let Some((since, changed)) = changes.filter(|(_, changed)| !changed.is_empty()) else { return };
        let (changed, not_read) = changed.finish();
        let extent = match report.extent(self.is_whole) {
            extent if measured.has_all_tests_of(report) => extent,
            _ => RunExtent::SomeTests,
        };
        report.untested = Some(untested_lines(UntestedInput {
            since,
            changed,
            not_read,
            measured,
            extent,
            index: &self.index,
            baseline: self.baseline.as_deref(),
        }));
    }

    fn add_texts(&self, report: &Report, measured: &mut RunCoverage, seen: Option<&SeenFiles>) {
        let began_at = self.context.clock.for_file_times(self.selected_at.unwrap_or(report.started_at));
        let settled_before = Timestamp(began_at.0.saturating_sub(FILE_TIME_LAG_MS));
        let mut bytes_left = SNAPSHOT_READ_BYTES_MAX;
        for source in &mut measured.sources {
            let found = seen.and_then(|seen| seen.snapshot.file(&source.path)).filter(|file| file.text.lines() > 0);
            source.text = match found {
                Some(file) => file.is_settled.then(|| file.text.content_number()),
                None if bytes_left == 0 || self.workspace.changed_since(&source.path, settled_before) => None,
                None => self.workspace.source_text(&source.path).map(|(text, content)| {
                    bytes_left = bytes_left.saturating_sub(content.len() as u64);
                    text.content_number()
                }),
            };
        }
    }

    /// What changed since the last commit; without a repository, since every test passed. With the earlier state in words.
    fn changes(&self, seen: Option<&SeenFiles>, is_wanted: impl Fn(&str) -> bool) -> Option<(String, ChangedSources)> {
        match self.workspace.sources_changed_since_commit(LAST_COMMIT, &is_wanted) {
            Ok((commit, changed)) => return Some((commit_name(&commit), changed)),
            Err(GitError::NoRepository | GitError::NoSuchRevision { .. }) => {}
            Err(error) => {
                tracing::debug!(%error, "the lines of a run cannot be compared with the last commit");
                return None;
            }
        }
        let green = self.baseline.as_ref()?.files_at(&EarlierState::LastGreen)?;
        let changes = green.changes(&seen?.snapshot);
        let mut sources = ChangedSources::default();
        for change in changes.into_iter().filter(|change| is_wanted(&change.path)) {
            let path = change.path;
            match (change.how, change.old) {
                (HowChanged::Removed, Some(old)) => sources.add_removed(path, old),
                // What it was when every test passed is not known.
                (HowChanged::Removed | HowChanged::WrittenDuringRun, _) => {}
                (_, old) => sources.add(path.clone(), old, || self.workspace.source_text(&path)),
            }
        }
        Some(("the last state at which every test passed".to_owned(), sources))
    }
}
