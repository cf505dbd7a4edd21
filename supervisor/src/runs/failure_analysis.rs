//! Analyses a finished run with what the workspace tells about it.

use crate::workspace::Workspace;
use proctor_core::analysis::{Analysis, FileState, WorkspaceFacts, analyze};
use proctor_core::report::Report;
use proctor_core::timestamp::Timestamp;

/// The analysis of `report`, a run of `workspace`. `began_at` is the run's start in the time of files. Looks at some dozens of files, so
/// not for a tokio thread.
#[must_use]
pub fn analyze_run(report: &Report, workspace: &Workspace, began_at: Timestamp, limit: usize) -> Analysis {
    let has = |name: &&str| workspace.existing(name).is_ok();
    let root_files = WorkspaceFacts::ROOT_FILES.iter().copied().filter(has).map(str::to_owned).collect();
    let root = workspace.root().to_str().unwrap_or_default().to_owned();
    let mut analysis = analyze(report, &WorkspaceFacts { root, root_files }, limit);
    analysis.mark_files(|file| match workspace.existing(file) {
        Err(_) => FileState::Missing,
        Ok(_) if workspace.changed_since(file, began_at) => FileState::Edited,
        Ok(_) => FileState::Unchanged,
    });
    analysis
}
