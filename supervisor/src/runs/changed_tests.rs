//! Finds the tests that may execute other lines than the session has measured, once a run of all tests without coverage has
//! ended. Of the others the measured lines still hold.

use super::affected::Comparison;
use super::context::{Context, ScanPermit, ScanPermits};
use super::seen_files::changed_tool;
use crate::workspace::Workspace;
use proctor_core::coverage::{CoverageIndex, RunCoverage};
use proctor_core::failure::RerunPlan;
use proctor_core::report::Report;
use proctor_core::request::RunRequest;
use proctor_core::selection::{Baseline, SeenFiles};
use proctor_core::test_case::TestId;
use proctor_core::untested::RunExtent;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Compares what a run saw with what the session has measured.
pub(super) struct ChangedTestsRecorder {
    pub(super) context: Arc<Context>,
    pub(super) scan_permits: ScanPermits,
    pub(super) runtime: Handle,
    pub(super) workspace: Workspace,
    /// The index of the session before the run.
    pub(super) index: Arc<CoverageIndex>,
    /// The baseline of the session before the run.
    pub(super) baseline: Option<Arc<Baseline>>,
    /// The request of the run.
    pub(super) request: RunRequest,
}

impl ChangedTestsRecorder {
    /// Completes `measured`, if it is empty, with the tests that may execute other lines now. `seen` is what the run saw of its
    /// workspace. Reads files.
    pub(super) fn record(self, report: &Report, measured: &mut RunCoverage, seen: Option<&SeenFiles>) {
        let is_whole = report.extent(self.request.selection.is_whole()) == RunExtent::AllTests;
        if is_whole && measured.tests.is_empty() && self.index.has_measured() {
            measured.changed = seen.and_then(|seen| self.changed(report, seen)).map(Box::new);
        }
    }

    /// The tests; `None` if any test may.
    fn changed(self, report: &Report, seen: &SeenFiles) -> Option<HashSet<TestId>> {
        let baseline = self.baseline.filter(|baseline| baseline.framework == report.framework)?;
        if baseline.seen.tools != seen.tools || changed_tool(&seen.tools).is_some() {
            return None;
        }
        let _permit = self.runtime.block_on(ScanPermit::acquire(&self.scan_permits, &self.context.scan_permits));
        let changes = baseline.seen.snapshot.changes(&seen.snapshot);
        let since = "the last run of all tests".to_owned();
        let comparison = Comparison { since, changes, now: &seen.snapshot, baseline: &baseline, index: &self.index };
        let affected = comparison.select(&self.workspace, &self.request, RerunPlan::NoRunYet);
        affected.full_reason.is_none().then(|| affected.selected.into_iter().map(|selected| selected.test).collect())
    }
}
