//! A run that executes its tests several times: all executions share its turn, its deadline, its limit of output, its log
//! and its cancellation, and one report describes them.
//!
//! Each execution is prepared anew from a scan of the workspace, so that none begins with leftovers of the one before it in
//! its scratch directory, and none can know the words by which the next recognises its runner.

use super::driver::{RunTask, execute_once};
use super::repeated_report::{join, join_retry};
use super::report_builder::{bounded_notes, build_report, without_running};
use super::run_state::EarlierExecutions;
use super::{NotStarted, prepare};
use crate::runs::context::ScanPermit;
use crate::runs::prepare::{PrepareError, PreparedRun};
use crate::workspace::WorkspaceScan;
use proctor_core::bounds::NOTES_MAX;
use proctor_core::coverage::RunCoverage;
use proctor_core::limits::Limits;
use proctor_core::outcome::{KillReason, Outcome};
use proctor_core::repetition::{ExecutionTally, Repetition, Repetitions, flaky_notes};
use proctor_core::report::Report;
use proctor_core::request::{Fingerprint, RerunTarget, RunRequest, Selection};
use proctor_core::test_case::{TestCase, TestId};
use proctor_core::timestamp::Timestamp;
use proctor_sandbox::Jail;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Executes the run as often as its request says.
///
/// # Errors
/// Only of the first execution. What keeps a later one from starting is a note in the report.
pub(super) fn execute(task: &mut RunTask, prepared: PreparedRun) -> Result<(Report, RunCoverage), NotStarted> {
    let repetition = task.request.repetition;
    let mut run = RepeatedRun::new(task, &prepared);
    run.note_files_before_the_first();
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
    if let Some(reason) = run.interrupted.take() {
        report = run.end_early(report, reason, join);
    }
    while let Some(prepared) = run.prepare_retry(repetition, &report) {
        run.retries += 1;
        match run.execute_next(prepared) {
            Ok((retry, _)) => report = join_retry(report, retry),
            Err(why) => run.stop(format!("a retry of the failed tests did not start: {why}")),
        }
    }
    if let Some(reason) = run.interrupted.take() {
        report = run.end_early(report, reason, join_retry);
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
    /// Tests of the current retry: a runner may execute more than these.
    retried: BTreeSet<TestId>,
    /// Whether the repetitions ended before the number that was requested, so that only retries may follow.
    has_differed: bool,
    /// Whether nothing more is executed.
    is_stopped: bool,
    /// Why the run ended while it waited for a scan.
    interrupted: Option<KillReason>,
    /// Whether files of the workspace changed between two executions.
    files_changed: bool,
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
            earlier: EarlierExecutions {
                is_repeated: true,
                has_total: task.request.repetition.repeat <= 1,
                ..EarlierExecutions::default()
            },
            tally: ExecutionTally::default(),
            executions: 0,
            failed: 0,
            retries: 0,
            latest: Outcome::Passed,
            first: None,
            retried: BTreeSet::new(),
            has_differed: false,
            is_stopped: false,
            interrupted: None,
            files_changed: false,
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
    fn execute_next(&mut self, mut prepared: PreparedRun) -> Result<(Report, RunCoverage), NotStarted> {
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
        self.earlier.has_total = false;
        // A retry executes tests that are counted already.
        if self.retries == 0 {
            self.earlier.tests_finished += report.summary.total;
            self.earlier.tests_failed += report.own_failure_count();
        }
        self.earlier.elapsed_ms = self.elapsed_ms();
        self.earlier.output_bytes = self.earlier.output_bytes.saturating_add(report.resources.output_bytes);
        self.earlier.has_artifacts |= !report.artifacts.is_empty();
        self.latest = report.outcome;
        self.first.get_or_insert(report.outcome);
        if self.retries == 0 {
            self.executions += 1;
            self.failed += u32::from(report.outcome != Outcome::Passed);
        }
        // A test may fail because proctor ended its execution early. A runner that crashed did so by itself.
        if !report.partial || report.outcome == Outcome::Crashed {
            let output = [report.stdout_tail.as_str(), &report.stderr_tail].join("\n");
            let number = u64::from(self.executions) + u64::from(self.retries);
            if self.retries == 0 {
                self.tally.add(number, &report.tests, predecessors, &output);
            } else {
                let retried = report.tests.iter().filter(|test| self.retried.contains(&test.id()));
                let retried: Vec<TestCase> = retried.cloned().collect();
                self.tally.add(number, &retried, predecessors, &output);
            }
        }
    }

    /// The next repetition; `None` if there is none.
    fn prepare_repetition(&mut self, repetition: Repetition) -> Option<PreparedRun> {
        if self.is_stopped || self.has_differed || self.executions >= repetition.repeat {
            return None;
        }
        let progress = format!("{} of {} repetitions", self.executions, repetition.repeat);
        if !may_differ(self.latest) {
            self.stop(format!("the run ended after {progress}: {}", self.latest.name()));
            return None;
        }
        if repetition.until_different && (self.tally.has_difference() || self.first != Some(self.latest)) {
            self.notes.push(format!("the repetition ended after {progress}, at the first that differed"));
            self.has_differed = true;
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
        if !self.task.request.command.is_empty() {
            self.stop("the failed tests were not retried: a command of the request always runs whole".to_owned());
            return None;
        }
        self.earlier.is_retry = true;
        self.retried = failed.iter().cloned().collect();
        let targets = failed.into_iter().map(RerunTarget::from_test).collect();
        let request = RunRequest { selection: Selection::Exactly(targets), ..self.task.request.clone() };
        self.prepare(&request)
    }

    fn prepare(&mut self, request: &RunRequest) -> Option<PreparedRun> {
        let prepared = match self.scan() {
            Ok(Scanned::Interrupted(reason)) => {
                self.interrupted = Some(reason);
                self.is_stopped = true;
                return None;
            }
            Ok(Scanned::Whole(scan)) => {
                self.note_changed_files(scan.fingerprint);
                let RunTask { context, policy, session, workspace, kind, .. } = &*self.task;
                prepare::prepare(context, policy, session, workspace, &scan, request, *kind)
            }
            Err(why) => Err(why),
        };
        match prepared {
            Ok(prepared) => Some(prepared),
            Err(why) => {
                self.stop(format!("a further execution could not be prepared: {why}"));
                self.is_cut_off = true;
                None
            }
        }
    }

    /// Scans the workspace if its files may have changed while the run waited for its turn, so that a change between the
    /// first execution and the second is seen. A scan that fails will fail, and be reported, before the second one too.
    fn note_files_before_the_first(&mut self) {
        if self.task.fingerprint.is_none()
            && let Ok(Scanned::Whole(scan)) = self.scan()
        {
            self.fingerprint = scan.fingerprint;
        }
    }

    fn note_changed_files(&mut self, now: Option<Fingerprint>) {
        let before = self.fingerprint.or(self.task.fingerprint);
        if before.is_some() && now.is_some() && before != now && !self.files_changed {
            self.files_changed = true;
            let note = "files of the workspace changed between two executions, by a test or from outside: results that \
                 differ may come from that";
            self.notes.push(note.to_owned());
        }
        self.fingerprint = now;
    }

    // Scans the workspace under the permits of the tenant and the host.
    fn scan(&self) -> Result<Scanned, PrepareError> {
        let RunTask { scan_permits, context, workspace, .. } = &*self.task;
        let mut permit = match self.wait_for(ScanPermit::acquire(scan_permits, &context.scan_permits)) {
            Ok(permit) => permit,
            Err(reason) => return Ok(Scanned::Interrupted(reason)),
        };
        loop {
            if let Some(scan) = workspace.scan_within(&mut || permit.try_enlarge())? {
                return Ok(Scanned::Whole(Box::new(scan)));
            }
            permit = match self.wait_for(permit.enlarge()) {
                Ok(permit) => permit,
                Err(reason) => return Ok(Scanned::Interrupted(reason)),
            };
        }
    }

    /// Waits for `ready` until the run is killed or its deadline is over: it has a turn of the host meanwhile.
    fn wait_for<T>(&self, ready: impl Future<Output = T>) -> Result<T, KillReason> {
        let RunTask { runtime, killer, .. } = &*self.task;
        let left = Duration::from_millis(self.limits.wall_ms_max.saturating_sub(self.elapsed_ms()));
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = killer.killed() => Err(killer.switch().reason().unwrap_or(KillReason::Cancelled)),
                value = ready => Ok(value),
                () = tokio::time::sleep(left) => Err(KillReason::Deadline),
            }
        })
    }

    /// The report of a run that ended while it waited for its next execution.
    fn end_early(&self, report: Report, reason: KillReason, join: fn(Report, Report) -> Report) -> Report {
        let note = "the run ended while it waited for its next execution";
        let now = self.task.context.clock.now();
        let mut ended = without_running(now, self.limits, &report.framework, reason, note);
        // No figure of an execution that did not begin is known: those of the others stand.
        let resources = report.resources;
        (ended.stdout_tail, ended.stderr_tail) = (report.stdout_tail.clone(), report.stderr_tail.clone());
        ended.truncated.stdout_bytes = report.truncated.stdout_bytes;
        ended.truncated.stderr_bytes = report.truncated.stderr_bytes;
        Report { resources, ..join(report, ended) }
    }

    /// The report of all executions.
    fn finish(self, mut report: Report) -> Report {
        let RepeatedRun { task, tally, executions, failed, retries, notes, is_cut_off, files_changed, .. } = self;
        let counts = Arc::new(tally.counts());
        let failing_orders = Arc::new(tally.failing_orders());
        task.log.replace_files_blocking(task.spools.settled());
        let (total, flaky) = tally.flaky();
        let mut own = bounded_notes(notes.into_iter().chain(flaky_notes(total, &flaky)).collect());
        own.truncate(NOTES_MAX);
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
        report.repetitions =
            Some(Repetitions { requested, executions, failed, retries, flaky, counts, failing_orders, files_changed });
        report
    }
}

/// A scan of the workspace between two executions.
enum Scanned {
    Whole(Box<WorkspaceScan>),
    /// The run was killed, or its deadline was over.
    Interrupted(KillReason),
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
