//! Records a run when it has ended, on the run's own thread, and writes the comparison into its report.

use super::run_record::RunRecord;
use super::{DirectoryKey, History, HistoryError, HistoryLocation, WorkspaceKey};
use crate::workspace::Workspace;
use proctor_core::bounds::NOTES_MAX;
use proctor_core::id::RunId;
use proctor_core::report::Report;
use proctor_core::request::{Fingerprint, RunRequest};

/// What is known of a run before it starts.
pub struct RunRecorder {
    /// The writer.
    pub history: History,
    /// The history of the run's tenant.
    pub location: HistoryLocation,
    /// The run's workspace.
    pub workspace: Workspace,
    /// Its key, from before the run: tests can write what it is made of.
    pub workspace_key: WorkspaceKey,
    /// Id of the run.
    pub run: RunId,
    /// The request, with its selection resolved.
    pub request: RunRequest,
    /// Fingerprint of the workspace when the run started, if it is known for certain.
    pub fingerprint: Option<Fingerprint>,
}

impl RunRecorder {
    /// Records the run and adds to its report how it compares with earlier runs, or a note why that is not known. Blocks
    /// for at most [`HISTORY_WAIT`](proctor_core::bounds::HISTORY_WAIT); a slow disk is worth no note, as the run is recorded
    /// nevertheless.
    pub fn record(self, report: &mut Report) {
        let workspace = (self.workspace_key, DirectoryKey::for_workspace(&self.workspace));
        let run = RunRecord::new(workspace, &self.run, &self.request, self.fingerprint.as_ref(), report);
        let note = match self.history.record(self.location, run) {
            Ok(comparison) => {
                (report.since_last_run, report.since_last_green) =
                    (comparison.since_last_run, comparison.since_last_green);
                comparison.began_anew.then(|| {
                    "the history of earlier runs was damaged: it is kept aside, and a new one begins with this run"
                        .to_owned()
                })
            }
            Err(error @ HistoryError::Slow) => {
                tracing::warn!(run = %self.run, %error, "a run's report has no comparison with earlier runs");
                None
            }
            Err(error) => Some(format!("history unavailable: {error}")),
        };
        if report.evidence.notes.len() < NOTES_MAX {
            report.evidence.notes.extend(note);
        }
    }
}
