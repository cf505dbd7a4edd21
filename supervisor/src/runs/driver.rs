//! The driver of a run: waits for the run's turn on the host, then, on a thread of its own, runs the sandbox, feeds the
//! parser, writes the log and builds the report.

use super::changed_tests::ChangedTestsRecorder;
use super::repeated_run;
use super::report_builder::{ReportBuilder, build_report, without_running};
use super::run_state::{EarlierExecutions, RunState};
use super::run_threads::RunThreads;
use super::seen_files::SeenFilesRecorder;
use super::untested::UntestedRecorder;
use super::{LogWriter, NotStarted, RunEnd, RunKiller, Spools, combined_exit};
use crate::caches::{self, RunCache};
use crate::history::{RunRecorder, WorkspaceKey};
use crate::host::environment::home;
use crate::random_id::random_id;
use crate::runs::context::{Context, ScanPermits};
use crate::runs::prepare::{AffectedRun, PrepareError, PreparedRun, build_commands};
use crate::runs::scheduler::{EnterError, RunSlot, SlotState};
use crate::telemetry::traces::run::RunTrace;
use crate::tenants::policy::Policy;
use crate::workspace::Workspace;
use proctor_core::check::CheckMemory;
use proctor_core::coverage::{CoverageIndex, RunCoverage};
use proctor_core::event::{RunEvent, Stream};
use proctor_core::id::{RunId, SessionId};
use proctor_core::limits::Limits;
use proctor_core::outcome::KillReason;
use proctor_core::report::Report;
use proctor_core::request::{Fingerprint, RunKind, RunRequest};
use proctor_core::selection::{Baseline, SeenFiles};
use proctor_core::timestamp::Timestamp;
use proctor_sandbox::{CommandSpec, Ending, RunSpec, SandboxError, SandboxEvent, StackRequest, exhausted_resource};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::Span;

/// Everything that the driver of a run needs.
pub struct RunTask {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// What this run may use.
    pub policy: Arc<Policy>,
    /// The session's workspace.
    pub workspace: Workspace,
    /// Identity of the workspace in the history, from before the run; `None` without a history.
    pub workspace_key: Option<WorkspaceKey>,
    /// The run's session.
    pub session: SessionId,
    /// Limits the scans of the workspace between repeated executions, with those of the host.
    pub scan_permits: ScanPermits,
    /// Runs asynchronous waits of the driver's own thread.
    pub runtime: Handle,
    /// The ID of the run.
    pub run: RunId,
    /// The request, with its selection resolved.
    pub request: RunRequest,
    /// Purpose of the run.
    pub kind: RunKind,
    /// Fingerprint of the workspace when it was scanned for this run.
    pub fingerprint: Option<Fingerprint>,
    /// What selected its tests, if it runs those that are affected by changes.
    pub affected: Option<AffectedRun>,
    /// The findings of earlier checks of the session.
    pub earlier_checks: Arc<CheckMemory>,
    /// The snapshot of the session, whose files need not be read again after the run.
    pub earlier: Option<Arc<proctor_core::selection::Snapshot>>,
    /// The coverage index of the session before the run.
    pub index: Arc<CoverageIndex>,
    /// The baseline of the session before the run.
    pub baseline: Option<Arc<Baseline>>,
    /// The hash of its programs when it was prepared.
    pub tools: BTreeMap<String, u64>,
    /// Notes that come first in the report.
    pub notes: Vec<String>,
    /// When the run was accepted, for its queue wait.
    pub accepted_at: Timestamp,
    /// Receives the run's events.
    pub log: LogWriter,
    /// Receive the run's output and artifacts.
    pub spools: Spools,
    /// Ends the run early.
    pub killer: RunKiller,
    /// Its spans.
    pub trace: RunTrace,
}

/// The result of a driver. The actor records it before it ends the log, so that a reader of the end finds everything
/// the session learnt from the run.
#[derive(Debug)]
pub struct FinishedRun {
    /// The ID of the run.
    pub run: RunId,
    /// How the run ended.
    pub end: RunEnd,
    /// The measured coverage.
    pub measured: RunCoverage,
    /// What the run saw of its workspace and host, if that is known.
    pub seen: Option<SeenFiles>,
    /// Span of the conclusion, which the actor ends.
    pub conclude: Span,
}

/// Drives a run from its place in the host's queue to its end.
pub async fn drive(task: RunTask, prepared: PreparedRun, slot: RunSlot) -> FinishedRun {
    let run = task.run.clone();
    match run_to_end(task, prepared, slot).await {
        Ok((RunOutput { report, measured, conclude }, seen)) => {
            FinishedRun { run, end: RunEnd::Report(Arc::new(report)), measured, seen, conclude }
        }
        Err(not_started) => {
            tracing::info!(run = %run, reason = %not_started, "run not started");
            let end = RunEnd::NotStarted(not_started);
            FinishedRun { run, end, measured: RunCoverage::default(), seen: None, conclude: Span::none() }
        }
    }
}

/// A run that has a report.
struct RunOutput {
    report: Report,
    measured: RunCoverage,
    /// Span of its conclusion.
    conclude: Span,
}

type RunResult = Result<RunOutput, NotStarted>;

/// A run that has had its turn.
struct CompletedRun {
    ran: RunResult,
    /// Whether the caches that it used are due for tidying.
    needs_tidying: bool,
}

async fn run_to_end(
    mut task: RunTask,
    prepared: PreparedRun,
    mut slot: RunSlot,
) -> Result<(RunOutput, Option<SeenFiles>), NotStarted> {
    if !slot.has_turn() {
        // Files may change while it waits.
        task.fingerprint = None;
        if let Some(reason) = wait_for_turn(&task, &mut slot).await? {
            let (now, note) = (task.context.clock.now(), "ended while it waited for a turn on the host");
            let report = without_running(now, task.policy.defaults, &prepared.framework, reason, note);
            return Ok((RunOutput { report, measured: RunCoverage::default(), conclude: Span::none() }, None));
        }
        task.log.record_turn().await;
    }
    task.trace.end_wait();
    let (context, policy) = (Arc::clone(&task.context), Arc::clone(&task.policy));
    let (recorder, untested, changed) = (recorder(&task), untested_recorder(&task), changed_tests_recorder(&task));
    let seen_files = seen_files_recorder(&mut task);
    let (CompletedRun { ran, needs_tidying }, seen) = run_on_thread(&context.run_threads, move || {
        let mut completed = run_in_turn(task, prepared);
        // The next run of the host does not wait for the history; this run's report, and with it the next run of this
        // session, waits for at most `HISTORY_WAIT`.
        drop(slot);
        if let (Some(recorder), Ok(ran)) = (recorder, &mut completed.ran) {
            recorder.record(&mut ran.report);
        }
        let report = completed.ran.as_ref().ok().map(|ran| &ran.report);
        let seen = seen_files.zip(report).and_then(|(seen_files, report)| seen_files.record(report));
        if let (Some(untested), Some(changed), Ok(ran)) = (untested, changed, &mut completed.ran) {
            untested.record(&mut ran.report, &mut ran.measured, seen.as_ref());
            changed.record(&ran.report, &mut ran.measured, seen.as_ref());
        }
        (completed, seen)
    })
    .await?;
    if let Some(cache) = policy.cache.clone().filter(|_| needs_tidying) {
        // Only the end of this process waits for it.
        drop(spawn_blocking(move || caches::tidy(&cache, policy.cache_bytes_max)));
    }
    ran.map(|ran| (ran, seen))
}

/// Records what a run of tests saw.
fn seen_files_recorder(task: &mut RunTask) -> Option<SeenFilesRecorder> {
    (task.kind == RunKind::Tests).then(|| SeenFilesRecorder {
        context: Arc::clone(&task.context),
        scan_permits: task.scan_permits.clone(),
        runtime: task.runtime.clone(),
        workspace: task.workspace.clone(),
        earlier: task.earlier.take(),
        selected_at: task.affected.as_ref().map(|affected| affected.selected_at),
        tools: std::mem::take(&mut task.tools),
    })
}

/// Finds the changed lines that no test executed.
fn untested_recorder(task: &RunTask) -> Option<UntestedRecorder> {
    (task.kind == RunKind::Tests).then(|| UntestedRecorder {
        context: Arc::clone(&task.context),
        scan_permits: task.scan_permits.clone(),
        runtime: task.runtime.clone(),
        workspace: task.workspace.clone(),
        index: Arc::clone(&task.index),
        baseline: task.baseline.clone(),
        selected_at: task.affected.as_ref().map(|affected| affected.selected_at),
        is_whole: task.request.selection.is_whole(),
    })
}

/// Finds the tests that may execute other lines than were measured.
fn changed_tests_recorder(task: &RunTask) -> Option<ChangedTestsRecorder> {
    (task.kind == RunKind::Tests).then(|| ChangedTestsRecorder {
        context: Arc::clone(&task.context),
        scan_permits: task.scan_permits.clone(),
        runtime: task.runtime.clone(),
        workspace: task.workspace.clone(),
        index: Arc::clone(&task.index),
        baseline: task.baseline.clone(),
        request: task.request.clone(),
    })
}

/// Records a run of tests; a listing has no results.
fn recorder(task: &RunTask) -> Option<RunRecorder> {
    let location = task.policy.history.clone().filter(|_| task.kind == RunKind::Tests)?;
    Some(RunRecorder {
        history: task.context.history.clone(),
        location,
        workspace: task.workspace.clone(),
        workspace_key: task.workspace_key?,
        run: task.run.clone(),
        request: task.request.clone(),
        fingerprint: task.fingerprint,
    })
}

async fn run_on_thread<T: Send + 'static>(
    threads: &RunThreads,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotStarted> {
    let (reply, done) = oneshot::channel();
    // If there is no thread, dropping the closure releases the run's turn.
    if let Err(error) = threads.start(move || _ = reply.send(work())) {
        tracing::error!(%error, "no thread for a run");
        let text = exhausted_resource(&error).unwrap_or("the host has no thread left").to_owned();
        return Err(PrepareError::HostFailed { text }.into());
    }
    done.await.map_err(|_| host_failed("the thread of a run panicked"))
}

/// Waits for the run's turn and reports its queue position. Returns why the run was killed, if it is killed first.
async fn wait_for_turn(task: &RunTask, slot: &mut RunSlot) -> Result<Option<KillReason>, NotStarted> {
    while !slot.has_turn() {
        let state = tokio::select! {
            state = slot.changed() => state?,
            () = task.killer.killed() => {
                return Ok(Some(task.killer.switch().reason().unwrap_or(KillReason::Cancelled)));
            }
        };
        match state {
            SlotState::Turn => break,
            // Positions count from 1, as in the queue of a session.
            SlotState::Waiting(before) => {
                let position = before.map_or(1, |runs| runs.saturating_add(1));
                task.log.append(vec![RunEvent::Queued { position }]).await;
            }
            SlotState::Evicted(refused) => return Err(refused.into()),
        }
    }
    Ok(None)
}

/// Executes the run on the calling thread.
fn run_in_turn(task: RunTask, mut prepared: PreparedRun) -> CompletedRun {
    let policy = Arc::clone(&task.policy);
    let Some(cache) = prepared.run_cache.clone() else {
        return CompletedRun { ran: execute(task, prepared), needs_tidying: false };
    };
    let opened = match cache.open(policy.run_as) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "a run has no cache directory");
            return CompletedRun {
                ran: Err(host_failed("the directory of build caches failed")),
                needs_tidying: false,
            };
        }
    };
    prepared.spec.jail.writable_id = Some(opened.id);
    let ran = provide_go_library(&task, &mut prepared, &cache).and_then(|()| execute(task, prepared));
    // Now that no process of the run is left.
    cache.close(opened);
    let needs_tidying = cache.is_fresh() || caches::is_untidy(cache.tenant_dir(), policy.cache_bytes_max);
    CompletedRun { ran, needs_tidying }
}

/// Compiles Go's standard library if the run needs it and it is missing, and links it into the run's cache.
fn provide_go_library(task: &RunTask, prepared: &mut PreparedRun, cache: &RunCache) -> Result<(), NotStarted> {
    let (Some(library), Some(id)) = (prepared.go_library.clone(), random_id()) else { return Ok(()) };
    let spec = &prepared.spec;
    if !library.exists() && library.is_needed_by(spec) {
        let Context { sandbox, toolchain, clock, .. } = &*task.context;
        // The environment holds nothing from the request or the project.
        let env = toolchain.base_env(&home());
        let compile_started = clock.now();
        let attempt = (id.as_str(), task.killer.switch());
        if library.compile(sandbox.as_ref(), &prepared.spec, env, attempt).map_err(start_error)? {
            prepared.spec.jail.read_only.push(library.dir());
            let text = "Go's standard library was compiled once for all workspaces, which took";
            prepared.notes.push(format!("{text} {} s", clock.now().ms_since(compile_started) / 1_000));
        }
    }
    let linked = library.link_into(&cache.dir(), task.policy.run_as, id.as_str());
    if let Err(error) = linked {
        tracing::warn!(%error, "Go's library is not linked into the cache of a workspace, whose runs compile their own");
    }
    Ok(())
}

fn execute(mut task: RunTask, prepared: PreparedRun) -> RunResult {
    let affected = task.affected.take().map(|affected| affected.summary);
    let (quarantine, checked_since) = (prepared.quarantine.clone(), prepared.checked_since.clone());
    task.request.repetition = prepared.repetition;
    let (mut report, measured, conclude) = if task.kind == RunKind::Tests && !task.request.repetition.is_once() {
        let (report, measured) = repeated_run::execute(&mut task, prepared)?;
        (report, measured, task.trace.conclude())
    } else {
        let executed = execute_once(&mut task, prepared, &EarlierExecutions::default())?;
        let conclude = task.trace.conclude();
        task.log.replace_files_blocking(task.spools.settled());
        let (report, measured) = build_report(executed);
        (report, measured, conclude)
    };
    if task.kind == RunKind::Tests {
        let RunRequest { selection, command, framework, .. } = &task.request;
        report.affected = affected;
        quarantine.mark(&mut report, selection.is_whole() && command.is_empty() && framework.is_none());
    }
    if let Some(check) = &mut report.check {
        check.comparison = task.earlier_checks.compare(check);
        report.checked_since = checked_since;
    }
    Ok(RunOutput { report, measured, conclude })
}

/// Executes the commands of a run once, in all of their rounds.
pub(super) fn execute_once(
    task: &mut RunTask,
    prepared: PreparedRun,
    earlier: &EarlierExecutions,
) -> Result<ReportBuilder, NotStarted> {
    let PreparedRun { mut spec, parser, framework, chosen, expected, is_scoped, mut notes, mut env, missed, .. } =
        prepared;
    add_trace_context(task, &mut spec.commands, &mut env);
    add_deadline(&mut spec.commands, spec.limits.wall_ms_max);
    // A custom command runs whole, whatever was selected.
    let selected = chosen.is_some() && (is_scoped || !task.request.selection.is_whole());
    let mut state = RunState::new(task.context.clock.now(), spec.limits, parser, expected).continuing(earlier);
    notes.splice(0..0, std::mem::take(&mut task.notes));
    let mut ending = run_round(task, &mut state, &spec)?;
    task.log.append_blocking(state.record_missed(missed));
    let mut commands = spec.commands.len();
    // A runner may show that further commands are needed; they share the deadline of the first.
    for number in 2.. {
        let steps = state.follow_up();
        let left = spec.limits.wall_ms_max.saturating_sub(state.elapsed_ms());
        if steps.is_empty() || ending.killed.is_some() || ending.worker_lost {
            break;
        }
        let log_left = spec.limits.log_bytes_max.saturating_sub(ending.resources.output_bytes);
        let limits = Limits { wall_ms_max: left.max(1), log_bytes_max: log_left.max(1), ..spec.limits };
        commands += steps.len();
        // The results of the first round stay, whatever becomes of the next.
        let further = build_commands(&task.context, &task.workspace, &spec.jail.read_only, &env, &steps)
            .map_err(NotStarted::from);
        let next = further.and_then(|commands| {
            let stack_requests = vec![shared_request(&spec.stack_requests); commands.len()];
            let spec = RunSpec { commands, stack_requests, limits, ..spec.clone() };
            run_round(task, &mut state, &spec)
        });
        match next {
            Ok(next) => ending = combined_exit::join(ending, next, number),
            Err(why) => {
                tracing::error!(run = %task.run, reason = %why, "a further round of a run did not start");
                ending.worker_lost = true;
                ending.notes.push(NOT_CONTINUED.to_owned());
                break;
            }
        }
    }
    let left = std::mem::take(&mut ending.artifacts);
    let files: Vec<(String, Vec<u8>)> = left.into_iter().map(|file| (file.path, file.bytes)).collect();
    let parsed = task.trace.parse(|| state.parse_files(&files));
    task.log.append_blocking(parsed);
    Ok(ReportBuilder {
        state,
        ending,
        files,
        commands,
        limits: spec.limits,
        framework,
        chosen,
        selected,
        is_scoped,
        notes,
        accepted_at: task.accepted_at,
        ended_at: task.context.clock.now(),
        stdout: task.spools.stdout.reader(),
        stderr: task.spools.stderr.reader(),
        workspace: task.workspace.clone(),
    })
}

/// Lets the processes of a run continue its trace. Done last: neither the preparation nor the fingerprint of a run
/// knows of it, so that it makes no two runs differ. A request's own variable stays.
fn add_trace_context(task: &RunTask, commands: &mut [CommandSpec], env: &mut BTreeMap<String, String>) {
    let Some(context) = task.trace.traceparent().filter(|_| !env.contains_key(TRACEPARENT)) else { return };
    commands.iter_mut().for_each(|command| command.env.push((TRACEPARENT.to_owned(), context.clone())));
    env.insert(TRACEPARENT.to_owned(), context);
}

/// Tells runners that measure lines when the run will be ended, in seconds of the monotonic clock: what they do beside running tests may
/// not exceed the time of these. Not a part of the fingerprint, as above.
fn add_deadline(commands: &mut [CommandSpec], wall_ms_max: u64) {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0).saturating_add(wall_ms_max / 1_000);
    for command in commands.iter_mut().filter(|command| command.env.iter().any(|(name, _)| name == MEASURES_LINES)) {
        command.env.push((DEADLINE.to_owned(), seconds.to_string()));
    }
}

// The request for stacks of a further round, whose commands may be of any framework: that of all commands before, if they
// share one.
fn shared_request(requests: &[Option<StackRequest>]) -> Option<StackRequest> {
    let first = requests.first()?;
    if requests.iter().all(|request| request == first) { first.clone() } else { None }
}

// Runs one sandbox from start to end.
fn run_round(task: &mut RunTask, state: &mut RunState, spec: &RunSpec) -> Result<Ending, NotStarted> {
    let RunTask { context, killer, log, spools, run, trace, .. } = task;
    let mut trace = trace.execution();
    // Set when the run's output, or a file that it left, could not be stored.
    let (mut store_error, mut artifact_store_error) = (None, None);
    let ending = context.sandbox.run(spec, killer.switch(), &mut |event| {
        let stored = match &event {
            // Bytes after a hole do not belong to a complete file.
            SandboxEvent::ArtifactChunk { .. } if artifact_store_error.is_some() || !state.keeps_artifacts() => return,
            SandboxEvent::ArtifactChunk { bytes, .. } => spools.artifacts.append(bytes),
            SandboxEvent::Output { .. } if store_error.is_some() => return,
            SandboxEvent::Output { stream: Stream::Stdout, bytes } => spools.stdout.append(bytes),
            SandboxEvent::Output { stream: Stream::Stderr, bytes } => spools.stderr.append(bytes),
            _ => Ok(0),
        };
        match (stored, &event) {
            (Ok(offset), _) => {
                if let SandboxEvent::Started { isolation } = &event {
                    trace.started(isolation);
                }
                let events = state.ingest(event, offset);
                trace.record(&events);
                log.append_blocking(events);
            }
            (Err(error), SandboxEvent::ArtifactChunk { .. }) => {
                tracing::error!(run = %run, %error, "files that a run left could not be kept");
                artifact_store_error =
                    Some(store_error_note("files that tests left are not kept, or not whole", &error));
            }
            (Err(error), _) => {
                tracing::error!(run = %run, %error, "a run's output could not be kept");
                store_error = Some(store_error_note("the run was ended, as its output could not be kept", &error));
                killer.kill(KillReason::HostFailed);
            }
        }
    });
    context.host.record_run(&ending);
    trace.ended(ending.as_ref());
    let mut ending = ending.map_err(start_error)?;
    if ending.worker_lost {
        tracing::error!(run = %run, "a worker was lost");
    }
    if store_error.is_some() && ending.killed.is_none() {
        // The run had ended already, but its output was not parsed to the end.
        ending.worker_lost = true;
    }
    ending.notes.extend(store_error.into_iter().chain(artifact_store_error));
    let events = state.end(&ending);
    trace.record(&events);
    log.append_blocking(events);
    Ok(ending)
}

/// Variable with the context of a trace, as W3C and OpenTelemetry name it.
const TRACEPARENT: &str = "TRACEPARENT";

/// Variables that say where a runner writes the lines of each test, and when the run will be ended.
const MEASURES_LINES: &str = "PROCTOR_COVERAGE";
const DEADLINE: &str = "PROCTOR_DEADLINE";

/// Note in the report of a run whose further round the host refused.
const NOT_CONTINUED: &str = "the host could not start the rest of the run: earlier results are kept, and the run can be \
    requested again";

/// What was lost and why, in words without a host path.
fn store_error_note(what: &str, error: &std::io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the host's temporary directory is full",
        _ => exhausted_resource(error).unwrap_or("the host's temporary directory failed"),
    };
    format!("{what}: {why}")
}

fn start_error(error: SandboxError) -> NotStarted {
    let text = error.client_text();
    match error {
        SandboxError::LayerMissing { .. } => NotStarted::LayerMissing { text },
        SandboxError::LimitMissing { .. } => NotStarted::LimitMissing { text },
        SandboxError::InvalidSpec { .. } => NotStarted::Invalid { text },
        SandboxError::WorkspaceGone { .. } => PrepareError::WorkspaceReplaced.into(),
        other => {
            tracing::error!(error = %other, source = ?std::error::Error::source(&other), "the sandbox failed");
            if other.is_transient() { PrepareError::HostFailed { text }.into() } else { NotStarted::Host { text } }
        }
    }
}

fn host_failed(error: impl std::fmt::Display) -> NotStarted {
    tracing::error!(%error, "the host failed a run");
    NotStarted::Host { text: "the host failed; its operator finds the reason in the log".to_owned() }
}

impl From<EnterError> for NotStarted {
    fn from(error: EnterError) -> Self {
        match error {
            EnterError::QuotaExceeded(refused) => refused.into(),
            EnterError::Gone => NotStarted::Host { text: error.to_string() },
        }
    }
}
