//! Selects the tests that changes of a workspace may affect, from what its session knows and what the workspace has now.

use super::python_reports::is_python_report;
use super::seen_files::changed_tool;
use crate::clock::Clock;
use crate::workspace::{GitError, Workspace, WorkspaceScan, commit_name};
use proctor_core::analysis::functions_named;
use proctor_core::coverage::{CoverageIndex, LineSpan};
use proctor_core::failure::RerunPlan;
use proctor_core::request::{EarlierState, RunRequest, Selection};
use proctor_core::selection::{
    AffectedTests, Baseline, ChangedFile, CoveringNow, Ecosystem, FullReason, SelectionInput, Snapshot, covering_now,
    select,
};
use proctor_core::session::SessionKnowledge;
use proctor_core::untested::{RangeLines, range_lines};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Why no tests can be selected, because of the request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("since: {text}")]
pub struct SinceError {
    /// What is wrong with the revision.
    text: String,
}

/// Selects the tests for `settings`, which asks for those affected since a state. Scans files, so not for a tokio thread.
pub fn affected_tests(
    workspace: &Workspace,
    scan: &WorkspaceScan,
    since: &EarlierState,
    settings: &RunRequest,
    knowledge: &SessionKnowledge,
) -> Result<AffectedTests, SinceError> {
    let name = match since {
        EarlierState::LastRun => "the last run of all tests".to_owned(),
        EarlierState::LastGreen => "the last state at which every test passed".to_owned(),
        EarlierState::Revision(revision) => revision.clone(),
    };
    let Some(baseline) = &knowledge.baseline else {
        check_revision(workspace, since)?;
        let unsupported = knowledge.framework.clone().filter(|name| Ecosystem::of_framework(name).is_none());
        let reason = unsupported.map_or(FullReason::NoBaseline, |framework| FullReason::Unsupported { framework });
        return Ok(AffectedTests::full(name, reason, 0));
    };
    let now = workspace.snapshot(scan, Some(&baseline.seen.snapshot), None);
    let compared = changes(workspace, since, baseline, &now)?;
    let known = baseline.known_tests();
    let (name, mut changes) = match compared {
        Ok((found, changes)) => (found.unwrap_or(name), changes),
        Err(reason) => return Ok(AffectedTests::full(name, reason, known)),
    };
    if let Some(what) = changed_tool(&baseline.seen.tools) {
        return Ok(AffectedTests::full(name, FullReason::Tools { what }, known));
    }
    let changed_files = changes.len() as u64;
    if *since != EarlierState::LastRun {
        // The lines are those of the baseline: what was changed for it, and is undone now, leads to other tests.
        let later = baseline.seen.snapshot.changes(&now);
        changes.extend(later.into_iter().filter(|change| !changes.contains(change)).collect::<Vec<_>>());
        changes.sort_by(|a, b| a.path.cmp(&b.path));
    }
    let comparison = Comparison { since: name, changes, now: &now, baseline, index: &knowledge.index };
    let affected = comparison.select(workspace, settings, knowledge.failures.clone());
    Ok(AffectedTests { changed_files, ..affected })
}

/// What changed between two states of a workspace.
pub(super) struct Comparison<'a> {
    /// The earlier state, in words.
    pub(super) since: String,
    /// The changes.
    pub(super) changes: Vec<ChangedFile>,
    /// The later state.
    pub(super) now: &'a Snapshot,
    /// Results of the tests.
    pub(super) baseline: &'a Baseline,
    /// Lines that the tests executed.
    pub(super) index: &'a CoverageIndex,
}

impl Comparison<'_> {
    /// Selects the tests for `settings` that the changes may affect, and `failures`. Reads the sources.
    pub(super) fn select(mut self, workspace: &Workspace, settings: &RunRequest, failures: RerunPlan) -> AffectedTests {
        let Comparison { now, baseline, index, .. } = self;
        let ecosystem = Ecosystem::of_framework(&baseline.framework);
        let sources = match ecosystem {
            Some(ecosystem) => workspace.sources(now, ecosystem),
            None => Some(BTreeMap::new()),
        };
        let Some(sources) = sources else {
            let why = "the sources are too large to be read for their imports".to_owned();
            let known = baseline.known_tests();
            return AffectedTests::full(self.since, FullReason::UnknownChanges { why }, known);
        };
        if ecosystem == Some(Ecosystem::Python) {
            self.changes.retain(|change| !is_python_report(&change.path, now, &sources));
        }
        let Comparison { since, changes, .. } = self;
        select(SelectionInput { since, changes, baseline, index, failures, settings, now, sources: &sources })
    }
}

type Compared = Result<(Option<String>, Vec<ChangedFile>), FullReason>;

fn changes(
    workspace: &Workspace,
    since: &EarlierState,
    baseline: &Baseline,
    now: &Snapshot,
) -> Result<Compared, SinceError> {
    let EarlierState::Revision(revision) = since else {
        let before: Option<Arc<Snapshot>> = baseline.files_at(since);
        return Ok(before.map(|before| (None, before.changes(now))).ok_or(FullReason::NeverGreen));
    };
    match workspace.texts_changed_since_commit(revision, now, &baseline.seen.snapshot) {
        Ok((commit, changes)) => Ok(Ok((Some(commit_name(&commit)), changes))),
        Err(error) => rejected(error).map(Err),
    }
}

// A revision that does not exist is the caller's mistake; a repository that cannot be read leaves only a full run.
pub(super) fn rejected(error: GitError) -> Result<FullReason, SinceError> {
    match error {
        GitError::NoSuchRevision { .. }
        | GitError::Ambiguous { .. }
        | GitError::BadRevision { .. }
        | GitError::NoRepository => Err(SinceError { text: error.to_string() }),
        GitError::Host(cause) => {
            tracing::warn!(error = %cause, "the repository could not be read");
            Ok(FullReason::UnknownChanges { why: GitError::Host(cause).to_string() })
        }
        other => Ok(FullReason::UnknownChanges { why: other.to_string() }),
    }
}

fn check_revision(workspace: &Workspace, since: &EarlierState) -> Result<(), SinceError> {
    let EarlierState::Revision(revision) = since else { return Ok(()) };
    match workspace.files_changed_since_commit(revision) {
        Ok(_) => Ok(()),
        Err(error) => rejected(error).map(drop),
    }
}

/// Lines of a file whose tests are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedLines {
    /// Any line of the file.
    Any,
    /// These.
    Span(LineSpan),
    /// Those of the function with this name.
    Function(String),
}

/// The tests that cover lines of a file, and what of the lines can be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveringLines {
    /// The tests.
    pub found: CoveringNow,
    /// The lines that were looked up; `None` for any line of the file.
    pub range: Option<LineSpan>,
    /// What of them can be executed, and was not; `None` if that is not known.
    pub lines: Option<RangeLines>,
}

/// Why a function was not looked up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FunctionError {
    /// The file has no such function.
    #[error("no function {name} in {file}: pass its lines")]
    Missing {
        /// Its name.
        name: String,
        /// The file.
        file: String,
    },
    /// The file has several.
    #[error("several functions of {file} have this name: {places}; pass the lines of one")]
    Several {
        /// The file.
        file: String,
        /// The first of them.
        places: String,
    },
}

/// The tests that cover lines of a file as it is now; `None` before any coverage was measured. Reads the file, so not for a
/// tokio thread.
///
/// # Errors
/// A function that the file does not have, or has several times.
pub fn covering_in(
    workspace: &Workspace,
    (file, asked): (&str, &AskedLines),
    baseline: Option<&Baseline>,
    index: &CoverageIndex,
    clock: &Clock,
) -> Result<Option<CoveringLines>, FunctionError> {
    if !index.has_measured() {
        return Ok(None);
    }
    let source = if *asked == AskedLines::Any { None } else { workspace.source_text(file) };
    let range = match asked {
        AskedLines::Any => None,
        AskedLines::Span(span) => Some(*span),
        AskedLines::Function(name) => {
            Some(function_lines(file, source.as_ref().map_or("", |(_, source)| source), name)?)
        }
    };
    let text = workspace.text_now(file);
    let found = covering_now(baseline, index, file, range, text.as_ref());
    let since_measured = |since| workspace.changed_since(file, clock.for_file_times(since));
    let is_edited = found.is_edited.or_else(|| found.covering.measured_at.map(since_measured));
    let lines = range
        .zip(source)
        .and_then(|(range, (text, source))| range_lines(baseline, index, file, range, (&text, &source)));
    Ok(Some(CoveringLines { found: CoveringNow { is_edited, ..found }, range, lines }))
}

fn function_lines(file: &str, source: &str, name: &str) -> Result<LineSpan, FunctionError> {
    let found = functions_named(file, source, name);
    match found.as_slice() {
        [] => Err(FunctionError::Missing { name: name.to_owned(), file: file.to_owned() }),
        [function] => Ok(function.lines),
        several => {
            // A name that is one function's whole name is that function's.
            let mut exact = several.iter().filter(|function| function.name == name);
            if let (Some(function), None) = (exact.next(), exact.next()) {
                return Ok(function.lines);
            }
            let places =
                several.iter().map(|one| format!("{} at lines {}-{}", one.name, one.lines.first, one.lines.last));
            Err(FunctionError::Several { file: file.to_owned(), places: places.collect::<Vec<_>>().join(", ") })
        }
    }
}

/// The request that runs the selected tests.
#[must_use]
pub fn request_for(affected: &AffectedTests, settings: &RunRequest, baseline: Option<&Baseline>) -> RunRequest {
    if affected.full_reason.is_some() {
        return RunRequest { selection: Selection::All, ..settings.clone() };
    }
    let framework = settings.framework.clone().or_else(|| baseline.map(|baseline| baseline.framework.clone()));
    RunRequest { selection: Selection::Exactly(affected.targets.clone()), framework, ..settings.clone() }
}
