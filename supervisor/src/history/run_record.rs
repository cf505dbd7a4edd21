//! What the history stores of one run.

use super::{DirectoryKey, WorkspaceKey};
use crate::hash_prefix::hash_prefix;
use proctor_core::bounds::HISTORY_RUN_NAMES_BYTES_MAX;
use proctor_core::history::TestResult;
use proctor_core::id::RunId;
use proctor_core::outcome::Outcome;
use proctor_core::repetition::{Repetition, Repetitions, finish_order};
use proctor_core::report::{Report, Summary};
use proctor_core::request::{Fingerprint, RunRequest, Selection};
use proctor_core::test_case::{TestCase, TestId};
use proctor_core::test_order::TestOrder;
use proctor_core::timestamp::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// A hash of what a test's result may depend on: framework, command, environment, limits, options, and the files of the
/// workspace by name, size, mode, time and inode. Which tests ran with it, in which order and how often, is not part of it,
/// as a result that depends on that is flaky. Toolchains, ignored directories and what is outside the workspace are not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions(pub [u8; 16]);

impl Conditions {
    /// The conditions of a run of `request` in a workspace with this fingerprint.
    #[must_use]
    pub fn new(fingerprint: &Fingerprint, request: &RunRequest) -> Option<Conditions> {
        let (selection, repetition, order) = (Selection::All, Repetition::ONCE, TestOrder::Project);
        let request = RunRequest { selection, repetition, order, ..request.clone() };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&fingerprint.0).update(&serde_json::to_vec(&request).ok()?);
        Some(Conditions(hash_prefix(&hasher.finalize())))
    }
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// Identity of its workspace.
    pub workspace: WorkspaceKey,
    /// The directory of the workspace.
    pub directory: DirectoryKey,
    /// Id of the run.
    pub run_id: String,
    /// When the runner started.
    pub started_at: Timestamp,
    /// When the run ended.
    pub ended_at: Timestamp,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Name of the framework.
    pub framework: String,
    /// What selected its tests: `all`, `scope` (the project file's patterns and exclude), `filter`, `files`, `tests`, `rerun`,
    /// or `command` for a command of the request.
    pub selection: &'static str,
    /// Whether it ran all tests, and all of their results are in `tests`. Never for a command of the request, which may run
    /// any part of them.
    pub is_complete: bool,
    /// Whether it was cut off.
    pub partial: bool,
    /// Counts of tests.
    pub summary: Summary,
    /// Wall time in microseconds.
    pub duration_us: u64,
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// Highest use of memory in bytes, where it was measured.
    pub memory_peak_bytes: Option<u64>,
    /// `None` if they are not known.
    pub conditions: Option<Conditions>,
    /// Results by test.
    pub tests: BTreeMap<TestId, TestResult>,
    /// Tests that it executed with both results: the number of executions, and the failures among them.
    pub repeated: Vec<(TestId, u64, u64)>,
    /// The tests in the order in which they finished, if one failed: of several executions, that of the first in which one did.
    pub failing_order: Vec<TestId>,
    /// Failed tests that only echo the failure of their subtest: they are in no comparison.
    pub echoes: Vec<TestId>,
}

impl RunRecord {
    /// Whether it ran a command of the request: each may run other tests, so it is compared with nothing.
    #[must_use]
    pub fn is_of_command(&self) -> bool {
        self.selection == COMMAND_SELECTION
    }

    /// The record of a run that ended with `report`.
    #[must_use]
    pub fn new(
        (workspace, directory): (WorkspaceKey, DirectoryKey),
        run: &RunId,
        request: &RunRequest,
        fingerprint: Option<&Fingerprint>,
        report: &Report,
    ) -> RunRecord {
        let (tests, left_out) = results(&report.tests);
        let echoes = report.tests.iter().filter(|test| test.failed_by_subtest).map(TestCase::id).collect();
        let repetitions = report.repetitions.as_ref();
        // Which of the files gave which result is not known.
        let files_changed = repetitions.is_some_and(|repetitions| repetitions.files_changed);
        RunRecord {
            workspace,
            directory,
            run_id: run.to_string(),
            started_at: report.started_at,
            ended_at: report.ended_at,
            outcome: report.outcome,
            framework: report.framework.clone(),
            selection: match &report.affected {
                _ if report.is_scoped => SCOPE_SELECTION,
                Some(affected) if affected.full_reason.is_none() => AFFECTED_SELECTION,
                _ => selection_name(request),
            },
            is_complete: request.selection.is_whole()
                && request.command.is_empty()
                && !left_out
                && report.has_all_results(),
            partial: report.partial,
            summary: report.summary,
            duration_us: microseconds(report.duration_s),
            cpu_us: microseconds(report.resources.cpu_user_s + report.resources.cpu_system_s),
            memory_peak_bytes: report.resources.memory_peak_bytes,
            conditions: fingerprint
                .filter(|_| !files_changed)
                .and_then(|fingerprint| Conditions::new(fingerprint, request)),
            tests,
            failing_order: failing_order(report),
            repeated: repetitions.filter(|_| !files_changed).map(flaky_counts).unwrap_or_default(),
            echoes,
        }
    }
}

/// What selected the tests of a run with a command of the request.
pub(super) const COMMAND_SELECTION: &str = "command";

/// What selected the tests of a run of all those that the project file's patterns and exclude leave.
const SCOPE_SELECTION: &str = "scope";

/// What selected the tests of a run of those that changes may affect.
const AFFECTED_SELECTION: &str = "affected";

fn selection_name(request: &RunRequest) -> &'static str {
    match &request.selection {
        _ if !request.command.is_empty() => COMMAND_SELECTION,
        Selection::All => "all",
        Selection::Matching { filter: Some(_), .. } => "filter",
        Selection::Matching { filter: None, .. } => "files",
        Selection::Named(_) => "tests",
        Selection::LastFailed { .. } | Selection::Exactly(_) => "rerun",
        Selection::Affected { .. } => AFFECTED_SELECTION,
    }
}

fn failing_order(report: &Report) -> Vec<TestId> {
    match &report.repetitions {
        Some(repetitions) => repetitions.failing_orders.first().to_vec(),
        None if report.tests.iter().any(|test| test.outcome.is_failure()) => finish_order(&report.tests),
        None => Vec::new(),
    }
}

fn flaky_counts(repetitions: &Repetitions) -> Vec<(TestId, u64, u64)> {
    let flaky = repetitions.counts.iter().filter(|(_, counts)| counts.is_flaky());
    flaky.map(|(test, counts)| (test.clone(), counts.passed + counts.failed, counts.failed)).collect()
}

// The results, and whether the history has no room for some. Failures come first in a report.
fn results(tests: &[TestCase]) -> (BTreeMap<TestId, TestResult>, bool) {
    let (mut results, mut bytes) = (BTreeMap::new(), 0);
    for test in tests {
        let id = test.id();
        bytes += id.text_bytes();
        if bytes > HISTORY_RUN_NAMES_BYTES_MAX {
            return (results, true);
        }
        let result = TestResult { outcome: test.outcome, duration_us: test.duration_s.map(microseconds) };
        results.entry(id).and_modify(|before: &mut TestResult| *before = before.merge(result)).or_insert(result);
    }
    (results, false)
}

/// Zero for what is no duration.
fn microseconds(seconds: f64) -> u64 {
    let micros = Duration::try_from_secs_f64(seconds).map_or(0, |duration| duration.as_micros());
    u64::try_from(micros).unwrap_or(u64::MAX)
}
