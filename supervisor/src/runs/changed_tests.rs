//! Finds the tests that execute what the session has measured, once a run of all tests without coverage has ended. Of the others it is
//! not known any more.

use super::affected::Comparison;
use super::context::{Context, ScanPermit, ScanPermits};
use super::seen_files::changed_tool;
use crate::workspace::Workspace;
use proctor_core::coverage::{CoverageIndex, RunCoverage};
use proctor_core::failure::RerunPlan;
use proctor_core::report::Report;
use proctor_core::request::{RerunTarget, RunRequest};
use proctor_core::selection::{Baseline, LastResult, SeenFiles};
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
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
    /// Completes `measured`, if it is empty, with the tests that execute what they did. `seen` is what the run saw of its workspace.
    /// Reads files.
    pub(super) fn record(self, report: &Report, measured: &mut RunCoverage, seen: Option<&SeenFiles>) {
        let is_whole = report.extent(self.request.selection.is_whole()) == RunExtent::AllTests;
        if is_whole && measured.tests.is_empty() && self.index.has_measured() {
            *measured.unchanged = seen.and_then(|seen| self.unchanged(report, seen)).unwrap_or_default();
        }
    }

    /// The tests that ran before and now, and that no change since concerns; `None` if one may concern any test.
    fn unchanged(self, report: &Report, seen: &SeenFiles) -> Option<HashSet<TestId>> {
        let baseline = self.baseline.filter(|baseline| baseline.framework == report.framework)?;
        if baseline.seen.tools != seen.tools || changed_tool(&seen.tools).is_some() {
            return None;
        }
        let _permit = self.runtime.block_on(ScanPermit::acquire(&self.scan_permits, &self.context.scan_permits));
        let changes = baseline.seen.snapshot.changes(&seen.snapshot);
        let since = "the last run of all tests".to_owned();
        let comparison = Comparison { since, changes, now: &seen.snapshot, baseline: &baseline, index: &self.index };
        let affected = comparison.select(&self.workspace, &self.request, RerunPlan::NoRunYet);
        if affected.full_reason.is_some() {
            return None;
        }
        // A test stands for its subtests, and is measured with them.
        let whole = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let selected: HashSet<(String, String)> =
            affected.selected.iter().map(|one| (one.test.package.clone(), whole(&one.test.name))).collect();
        let units: HashSet<&str> = affected
            .targets
            .iter()
            .filter(|target| matches!(target, RerunTarget::Package(_)))
            .filter_map(RerunTarget::package)
            .collect();
        let has_run = |test: &TestId| {
            let before = baseline.tests().get(&test.package).and_then(|tests| tests.get(&test.name));
            before.is_some_and(|result| *result != LastResult::Skipped)
        };
        let ran = report.tests.iter().filter(|test| test.outcome != TestOutcome::Skipped).map(TestCase::id);
        let is_unchanged = |test: &TestId| {
            has_run(test)
                && !units.contains(test.package.as_str())
                && !selected.contains(&(test.package.clone(), whole(&test.name)))
        };
        Some(ran.filter(is_unchanged).collect())
    }
}
