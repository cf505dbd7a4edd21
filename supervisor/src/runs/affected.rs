//! Selects the tests that changes of a workspace may affect, from what its session knows and what the workspace has now.

use super::seen_files::changed_tool;
use crate::clock::Clock;
use crate::workspace::{GitError, Workspace, WorkspaceScan, commit_name};
use proctor_core::coverage::CoverageIndex;
use proctor_core::request::{EarlierState, RunRequest, Selection};
use proctor_core::selection::{
    AffectedTests, Baseline, ChangedFile, CoveringNow, Ecosystem, FullReason, SelectionInput, Snapshot, covering_now,
    select,
};
use proctor_core::session::SessionKnowledge;
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
    let known = baseline.tests().values().map(|tests| tests.len() as u64).sum();
    let (name, changes) = match compared {
        Ok((found, changes)) => (found.unwrap_or(name), changes),
        Err(reason) => return Ok(AffectedTests::full(name, reason, known)),
    };
    if let Some(what) = changed_tool(&baseline.seen.tools) {
        return Ok(AffectedTests::full(name, FullReason::Tools { what }, known));
    }
    let ecosystem = Ecosystem::of_framework(&baseline.framework);
    let sources = match ecosystem {
        Some(ecosystem) => workspace.sources(&now, ecosystem),
        None => Some(BTreeMap::new()),
    };
    let Some(sources) = sources else {
        let why = "the sources are too large to be read for their imports".to_owned();
        return Ok(AffectedTests::full(name, FullReason::UnknownChanges { why }, known));
    };
    Ok(select(SelectionInput {
        since: name,
        changes,
        baseline,
        index: &knowledge.index,
        failures: knowledge.failures.clone(),
        settings,
        now: &now,
        sources: &sources,
    }))
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

/// The tests that cover a file or line as it is now; `None` before any coverage was measured. Reads the file, so not for a
/// tokio thread.
pub fn covering_in(
    workspace: &Workspace,
    (file, line): (&str, Option<u32>),
    baseline: Option<&Baseline>,
    index: &CoverageIndex,
    clock: &Clock,
) -> Option<CoveringNow> {
    if !index.has_measured() {
        return None;
    }
    let text = workspace.text_now(file);
    let found = covering_now(baseline, index, file, line, text.as_ref());
    let since_measured = |since| workspace.changed_since(file, clock.for_file_times(since));
    let is_edited = found.is_edited.or_else(|| found.covering.measured_at.map(since_measured));
    Some(CoveringNow { is_edited, ..found })
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
