//! A run that executes its tests several times: all executions share its turn, its deadline, its limit of output, its log
//! and its cancellation, and one report describes them.
//!
//! Each execution is prepared anew from a scan of the workspace, so that none begins with leftovers of the one before it in
//! its scratch directory, and none can know the words by which the next recognises its runner.

use super::driver::{RunTask, execute_once};
use super::repeated_report::{join, join_retry};
use super::report_builder::build_report;
use super::run_state::EarlierExecutions;
use super::{NotStarted, prepare};
use crate::runs::context::ScanPermit;
use crate::runs::prepare::{PrepareError, PreparedRun};
use crate::workspace::WorkspaceScan;
use proctor_core::bounds::NOTES_MAX;
use proctor_core::coverage::CoverageMeasurement;
use proctor_core::limits::Limits;
use proctor_core::outcome::Outcome;
use proctor_core::repetition::{ExecutionTally, Repetition, Repetitions, flaky_notes};
use proctor_core::report::Report;
use proctor_core::request::{Fingerprint, RerunTarget, RunRequest, Selection};
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use proctor_sandbox::Jail;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Executes the run as often as its request says.
///
/// # Errors
/// Only of the first execution. What keeps a later one from starting is a note in the report.
pub(super) fn execute(
    task: &mut RunTask,
    prepared: PreparedRun,
) -> Result<(Report, Vec<CoverageMeasurement>), NotStarted> {
    let repetition = task.request.repetition;
    let mut run = RepeatedRun::new(task, &prepared);
    let (first, measured) = run.execute_next(prepared)?;
    let mut report = first;
    while let Some(prepared) = run.prepare_repetition(repetition) {
        match run.execute_next(prepared) {
            Ok((next, _)) => report = join(report, next),
            Err(why) => {
                run.stop(format!("repetition {} did not start: {why}", run.executions + 1));
                run.is_cut_off = true;
            }
        }
    }
    while let Some(prepared) = run.prepare_retry(repetition, &report) {
        run.retries += 1;
        match run.execute_next(prepared) {
            Ok((retry, _)) => report = join_retry(report, retry),
            Err(why) => run.stop(format!("a retry of the failed tests did not start: {why}")),
        }
    }
    Ok((run.finish(report), measured))
}

/// The state of a repeated run between two executions.
struct RepeatedRun<'a> {
    task: &'a mut RunTask,
    jail: Jail,
    limits: Limits,
    fingerprint: Option<Fingerprint>,
    began_at: Timestamp,
    earlier: EarlierExecutions,
    tally: ExecutionTally,
    executions: u32,
    failed: u32,
    retries: u32,
    /// Outcome of the latest execution.
    latest: Outcome,
    /// Outcome of the first.
    first: Option<Outcome>,
    is_stopped: bool,
    /// Whether the host kept a repetition from starting.
    is_cut_off: bool,
    notes: Vec<String>,
}

impl<'a> RepeatedRun<'a> {
    fn new(task: &'a mut RunTask, prepared: &PreparedRun) -> RepeatedRun<'a> {
        let began_at = task.context.clock.now();
        RepeatedRun {
            jail: prepared.spec.jail.clone(),
            limits: prepared.spec.limits,
            fingerprint: None,
            began_at,
            earlier: EarlierExecutions { is_repeated: true, ..EarlierExecutions::default() },
            tally: ExecutionTally::default(),
            executions: 0,
            failed: 0,
            retries: 0,
            latest: Outcome::Passed,
            first: None,
            is_stopped: false,
            is_cut_off: false,
            notes: Vec::new(),
            task,
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.task.context.clock.now().ms_since(self.began_at)
    }

    fn stop(&mut self, note: String) {
        self.is_stopped = true;
        self.notes.push(note);
    }

    /// Executes a prepared run with what is left of the limits.
    fn execute_next(&mut self, mut prepared: PreparedRun) -> Result<(Report, Vec<CoverageMeasurement>), NotStarted> {
        prepared.spec.jail = self.jail.clone();
        prepared.spec.limits = Limits {
            wall_ms_max: self.limits.wall_ms_max.saturating_sub(self.elapsed_ms()).max(1),
            log_bytes_max: self.limits.log_bytes_max.saturating_sub(self.earlier.output_bytes).max(1),
            ..self.limits
        };
        let mut executed = execute_once(self.task, prepared, &self.earlier)?;
        executed.limits = self.limits;
        self.earlier.isolation = Arc::clone(&executed.state.isolation);
        let predecessors = std::mem::take(&mut executed.state.predecessors);
        let (report, measured) = build_report(executed);
        self.record(&report, &predecessors);
        Ok((report, measured))
    }

    fn record(&mut self, report: &Report, predecessors: &BTreeMap<TestId, TestId>) {
        self.earlier.tests_finished += report.summary.total;
        self.earlier.tests_failed += report.summary.failures();
        self.earlier.elapsed_ms = self.elapsed_ms();
        self.earlier.output_bytes = self.earlier.output_bytes.saturating_add(report.resources.output_bytes);
        self.earlier.has_artifacts |= !report.artifacts.is_empty();
        self.latest = report.outcome;
        self.first.get_or_insert(report.outcome);
        if self.retries == 0 {
            self.executions += 1;
            self.failed += u32::from(report.outcome != Outcome::Passed);
        }
        // A test may fail because its execution was cut off.
        if !report.partial {
            let output = [report.stdout_tail.as_str(), &report.stderr_tail].join("\n");
            self.tally.add(&report.tests, predecessors, &output);
        }
    }

    /// The next repetition; `None` if there is none.
    fn prepare_repetition(&mut self, repetition: Repetition) -> Option<PreparedRun> {
        if self.is_stopped || self.executions >= repetition.repeat {
            return None;
        }
        let progress = format!("{} of {} repetitions", self.executions, repetition.repeat);
        if !may_differ(self.latest) {
            self.stop(format!("the run ended after {progress}: {}", self.latest.name()));
            return None;
        }
        if repetition.until_different && (self.tally.has_difference() || self.first != Some(self.latest)) {
            self.stop(format!("the run ended after {progress}, at the first that differed"));
            return None;
        }
        let request = self.task.request.clone();
        self.prepare(&request)
    }

    /// The next retry of the tests that only failed; `None` if there is none.
    fn prepare_retry(&mut self, repetition: Repetition, report: &Report) -> Option<PreparedRun> {
        if self.is_stopped || self.retries >= repetition.retry_failed {
            return None;
        }
        let failed = self.tally.only_failed();
        if failed.is_empty() || report.partial {
            return None;
        }
        if !may_differ(self.latest) {
            self.stop(format!("the retries ended: {}", self.latest.name()));
            return None;
        }
        if self.elapsed_ms() >= self.limits.wall_ms_max {
            self.stop("the deadline left no time for a further retry of the failed tests".to_owned());
            return None;
        }
        let targets = failed.into_iter().map(RerunTarget::from_test).collect();
        let request = RunRequest { selection: Selection::Exactly(targets), ..self.task.request.clone() };
        self.prepare(&request)
    }

    // A run that is cancelled meanwhile is still executed, which ends it at once with the right outcome.
    fn prepare(&mut self, request: &RunRequest) -> Option<PreparedRun> {
        let prepared = self.scan().and_then(|scan| {
            self.note_changed_files(scan.fingerprint);
            let RunTask { context, policy, session, workspace, kind, .. } = &*self.task;
            prepare::prepare(context, policy, session, workspace, &scan, request, *kind)
        });
        match prepared {
            Ok(prepared) => Some(prepared),
            Err(why) => {
                self.stop(format!("a further execution could not be prepared: {why}"));
                self.is_cut_off = true;
                None
            }
        }
    }

    fn note_changed_files(&mut self, now: Option<Fingerprint>) {
        let before = self.fingerprint.or(self.task.fingerprint);
        if before.is_some() && now.is_some() && before != now && self.fingerprint != now {
            let note = "files of the workspace changed between two executions, by a test or by somebody else";
            if !self.notes.iter().any(|other| other == note) {
                self.notes.push(note.to_owned());
            }
        }
        self.fingerprint = now;
    }

    // Scans the workspace under the permits of the tenant and the host.
    fn scan(&self) -> Result<WorkspaceScan, PrepareError> {
        let RunTask { runtime, scan_permits, context, workspace, .. } = &*self.task;
        let mut permit = runtime.block_on(ScanPermit::acquire(scan_permits, &context.scan_permits));
        loop {
            match workspace.scan_within(&mut || permit.try_enlarge())? {
                Some(scan) => return Ok(scan),
                None => permit = runtime.block_on(permit.enlarge()),
            }
        }
    }

    /// The report of all executions.
    fn finish(self, mut report: Report) -> Report {
        let RepeatedRun { task, tally, executions, failed, retries, notes, is_cut_off, .. } = self;
        task.log.replace_files_blocking(task.spools.settled());
        let (total, flaky) = tally.flaky();
        let own: Vec<String> = notes.into_iter().chain(flaky_notes(total, &flaky)).take(NOTES_MAX).collect();
        // Proctor's own notes come first, and take the place of the runner's.
        report.evidence.notes.truncate(NOTES_MAX - own.len());
        report.evidence.notes.splice(0..0, own);
        report.flaky_in_run = report.flaky_in_run.max(total);
        if is_cut_off && report.outcome == Outcome::Passed {
            // Fewer repetitions than requested are no proof of what was asked.
            report.outcome = Outcome::WorkerLost;
            report.exit_code = i32::from(report.outcome.exit_code(None));
            report.evidence.held.insert(0, report.outcome);
            report.partial = true;
        }
        let requested = task.request.repetition.repeat;
        report.repetitions = Some(Repetitions { requested, executions, failed, retries, flaky });
        report
    }
}

/// Whether a further execution may end otherwise, or be of use.
fn may_differ(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Passed | Outcome::Failed | Outcome::CollectionFailed | Outcome::Crashed => true,
        Outcome::Cancelled
        | Outcome::TimedOut
        | Outcome::OutOfMemory
        | Outcome::DiskFull
        | Outcome::PidsExhausted
        | Outcome::OutputFlood
        | Outcome::WorkerLost
        | Outcome::RunnerMissing
        | Outcome::BuildFailed
        | Outcome::NoTests => false,
    }
}
