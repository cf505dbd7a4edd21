//! The driver of a run. On a thread of its own it scans the workspace, runs the sandbox, feeds the parser, writes the
//! log and builds the report. A run that must wait for its turn waits without a thread.

use super::report_builder::{ReportBuilder, build_report, without_running};
use super::run_state::RunState;
use super::{LogWriter, NotStarted, RunEnd, RunKiller, Spools, combined_exit};
use crate::caches::{self, RunCache};
use crate::host::environment::home;
use crate::random_id::random_id;
use crate::runs::context::{Context, Policy, ScanPermit};
use crate::runs::prepare::{PrepareError, PreparedRun, build_commands, prepare};
use crate::runs::scheduler::{EnterError, RunSlot, SlotRequest, SlotState};
use crate::tenants::allowance::Reservation;
use crate::workspace::{Workspace, WorkspaceScan};
use proctor_core::coverage::CoverageMeasurement;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::id::{RunId, SessionId, TenantId};
use proctor_core::limits::Limits;
use proctor_core::outcome::KillReason;
use proctor_core::queue::{Priority, QueueEntry};
use proctor_core::quota::{Amount, QuotaExceeded};
use proctor_core::report::Report;
use proctor_core::request::{Fingerprint, RunKind, RunRequest, Selection};
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::Awaited;
use proctor_sandbox::{Ending, RunSpec, SandboxError, SandboxEvent, exhausted_resource, shorten_slice};
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Everything that the driver of a run needs.
pub struct RunTask {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// What this run may use.
    pub policy: Arc<Policy>,
    /// The session of the run.
    pub session: SessionId,
    /// The session's workspace.
    pub workspace: Workspace,
    /// The ID of the run.
    pub run: RunId,
    /// The request, with its selection resolved.
    pub request: RunRequest,
    /// Notes that come first in the report.
    pub notes: Vec<String>,
    /// Whether tests are run or listed.
    pub kind: RunKind,
    /// Its rank among its tenant's own runs.
    pub priority: Priority,
    /// When the run was accepted, for its queue wait.
    pub accepted_at: Timestamp,
    /// Counts the run as waiting, if it has waited in its session.
    pub queue_reservation: Option<Reservation>,
    /// Receives the run's events.
    pub log: LogWriter,
    /// Receive the run's output and artifacts.
    pub spools: Spools,
    /// Ends the run early.
    pub killer: RunKiller,
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
    pub measured: Vec<CoverageMeasurement>,
}

/// Reports that nothing in the workspace prevents the run, with the fingerprint of its files. Dropped if the run is
/// refused. The caller waits for it, so it is sent together with the first event.
type StartSender = oneshot::Sender<Option<Fingerprint>>;

/// Drives a run to its end.
pub async fn drive(task: RunTask, started: StartSender) -> FinishedRun {
    let run = task.run.clone();
    let (end, measured) = match run_to_end(task, started).await {
        Ok((report, measured)) => (RunEnd::Report(Arc::new(report)), measured),
        Err(not_started) => {
            tracing::info!(run = %run, reason = %not_started, "run not started");
            (RunEnd::NotStarted(not_started), Vec::new())
        }
    };
    FinishedRun { run, end, measured }
}

type RunResult = Result<(Report, Vec<CoverageMeasurement>), NotStarted>;

/// Note in the report of a run that was killed before its workspace was scanned.
const KILLED_BEFORE_SCAN: &str = "ended before its workspace was scanned";

/// The result of the first stage of a run.
enum FirstStage {
    /// No memory permit was available for the scan; nothing has been done.
    NoMemory(Box<(RunTask, StartSender, ScanPermit)>),
    /// The run has no turn yet.
    Waiting(Box<EnteredRun>),
    /// The run had its turn at once and is over.
    Done(Box<CompletedRun>),
}

/// A run that has had its turn.
struct CompletedRun {
    ran: RunResult,
    /// Whether the caches that it used are due for tidying.
    needs_tidying: bool,
}

async fn run_to_end(mut task: RunTask, started: StartSender) -> RunResult {
    let policy = Arc::clone(&task.policy);
    let context = Arc::clone(&task.context);
    let killer = task.killer.clone();
    let mut permit = tokio::select! {
        permit = ScanPermit::acquire(&policy.scan_permits, &context.scan_permits) => permit,
        () = killer.killed() => return Ok((killed_report(&task, "", KILLED_BEFORE_SCAN), Vec::new())),
    };
    let mut started = started;
    let over = loop {
        match run_on_thread(move || scan_and_run(task, started, permit)).await? {
            FirstStage::Done(over) => break *over,
            FirstStage::Waiting(mut run) => match wait_for_turn(&mut run).await? {
                Some(report) => return Ok((report, Vec::new())),
                None => break run_on_thread(move || Ok(run_in_turn(*run))).await?,
            },
            FirstStage::NoMemory(back) => {
                (task, started, permit) = *back;
                // A run that waits for a large scan counts as waiting, like one that waits for its turn.
                if task.queue_reservation.is_none() {
                    task.queue_reservation = Some(policy.queued.reserve_queued_run(policy.quota.queued_runs_max)?);
                }
                permit = tokio::select! {
                    permit = permit.enlarge() => permit,
                    () = killer.killed() => return Ok((killed_report(&task, "", KILLED_BEFORE_SCAN), Vec::new())),
                };
            }
        }
    };
    let CompletedRun { ran, needs_tidying } = over;
    if let Some(cache) = policy.cache.clone().filter(|_| needs_tidying) {
        // Only the end of this process waits for it.
        drop(spawn_blocking(move || caches::tidy(&cache, policy.cache_bytes_max)));
    }
    ran
}

/// Scans the workspace and runs at once if the run has its turn: a change of threads costs as much as a scan.
fn scan_and_run(task: RunTask, started: StartSender, mut permit: ScanPermit) -> Result<FirstStage, NotStarted> {
    if let Some(text) = task.context.host.refusal() {
        return Err(PrepareError::HostFailed { text }.into());
    }
    let Some(scan) = task.workspace.scan_within(&mut || permit.try_enlarge()).map_err(PrepareError::from)? else {
        return Ok(FirstStage::NoMemory(Box::new((task, started, permit))));
    };
    let run = enter_queue(task, started, scan)?;
    drop(permit);
    Ok(if run.slot.has_turn() {
        FirstStage::Done(Box::new(run_in_turn(run)))
    } else {
        FirstStage::Waiting(Box::new(run))
    })
}

/// Runs `work` on a thread of its own. Runs do not share the runtime's threads, which are bounded and must not be
/// occupied for as long as a run lasts. The number of these threads is bounded by the scan permits and by the turns.
async fn run_on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NotStarted> + Send + 'static,
) -> Result<T, NotStarted> {
    let (reply, done) = oneshot::channel();
    // If the thread cannot be created, dropping the closure releases the run's turn and its scan permits.
    let thread = move || {
        // Callers wait for this run: reduce this thread's scheduling latency.
        shorten_slice();
        _ = reply.send(work());
    };
    if let Err(error) = std::thread::Builder::new().name("run".to_owned()).spawn(thread) {
        tracing::error!(%error, "no thread for a run");
        let text = exhausted_resource(&error).unwrap_or("the host has no thread left").to_owned();
        return Err(PrepareError::HostFailed { text }.into());
    }
    done.await.unwrap_or_else(|_| Err(host_failed("the thread of a run panicked")))
}

/// Waits for the run's turn. Returns a report if the run is killed first.
async fn wait_for_turn(run: &mut EnteredRun) -> Result<Option<Report>, NotStarted> {
    run.report_start();
    let killer = run.task.killer.clone();
    tokio::select! {
        turn = await_turn(run) => return turn.map(|()| None),
        () = killer.killed() => {}
    }
    Ok(Some(killed_report(&run.task, &run.prepared.framework, "ended while it waited for a turn on the host")))
}

/// The report of a run that was killed before anything was started.
fn killed_report(task: &RunTask, framework: &str, note: &str) -> Report {
    let RunTask { context, policy, killer, .. } = task;
    let reason = killer.switch().reason().unwrap_or(KillReason::Cancelled);
    without_running(context.clock.now(), policy.defaults, framework, reason, note)
}

/// Waits for the run's turn and reports its queue position.
async fn await_turn(run: &mut EnteredRun) -> Result<(), NotStarted> {
    while !run.slot.has_turn() {
        match run.slot.changed().await? {
            SlotState::Turn => break,
            // Positions count from 1, as in the queue of a session.
            SlotState::Waiting(before) => {
                let position = before.map_or(1, |runs| runs.saturating_add(1));
                run.task.log.append(vec![RunEvent::Queued { position }]).await;
            }
            SlotState::Evicted(refused) => return Err(refused.into()),
        }
    }
    Ok(())
}

/// A prepared run with its slot on the host.
struct EnteredRun {
    task: RunTask,
    prepared: PreparedRun,
    fingerprint: Option<Fingerprint>,
    slot: RunSlot,
    /// Taken once the start has been reported.
    started: Option<StartSender>,
}

impl EnteredRun {
    fn report_start(&mut self) {
        if let Some(started) = self.started.take() {
            _ = started.send(self.fingerprint);
        }
    }
}

/// Prepares the run and enters it into the host's queue.
fn enter_queue(mut task: RunTask, started: StartSender, scan: WorkspaceScan) -> Result<EnteredRun, NotStarted> {
    let queue_reservation = task.queue_reservation.take();
    let RunTask { context, policy, session, workspace, request, kind, .. } = &task;
    let prepared = prepare(context, policy, session, workspace, &scan, request, *kind)?;
    if let Some(full) = policy.retained.exceeded() {
        return Err(full.into());
    }
    if policy.cache.as_deref().is_some_and(|cache| caches::are_overfull(cache, policy.cache_bytes_max)) {
        return Err(QuotaExceeded::Cache { max: policy.cache_bytes_max }.into());
    }
    let tenant = TenantId::new(policy.owner.clone());
    let entry = QueueEntry { tenant, demand: Amount::from_limits(&prepared.spec.limits), priority: task.priority };
    let slot_request =
        SlotRequest { entry, quota: policy.quota, queued: Arc::clone(&policy.queued), queue_reservation };
    let slot = context.scheduler.enter(slot_request)?;
    Ok(EnteredRun { task, prepared, fingerprint: scan.fingerprint, slot, started: Some(started) })
}

/// Executes the run on the calling thread.
fn run_in_turn(mut run: EnteredRun) -> CompletedRun {
    let policy = Arc::clone(&run.task.policy);
    let Some(cache) = run.prepared.run_cache.clone() else {
        return CompletedRun { ran: execute(run), needs_tidying: false };
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
    run.prepared.spec.jail.writable_id = Some(opened.id);
    let ran = provide_go_library(&mut run, &cache).and_then(|()| execute(run));
    // Now that no process of the run is left.
    cache.close(opened);
    let needs_tidying = cache.is_fresh() || caches::is_untidy(cache.tenant_dir(), policy.cache_bytes_max);
    CompletedRun { ran, needs_tidying }
}

/// Compiles Go's standard library if the run needs it and it is missing, and links it into the run's cache.
fn provide_go_library(run: &mut EnteredRun, cache: &RunCache) -> Result<(), NotStarted> {
    let (Some(library), Some(id)) = (run.prepared.go_library.clone(), random_id()) else { return Ok(()) };
    let spec = &run.prepared.spec;
    if !library.exists() && library.is_needed_by(spec) {
        // Compilation takes a while, and nothing can refuse the run any more.
        run.report_start();
        let EnteredRun { task, prepared, .. } = run;
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
    let linked = library.link_into(&cache.dir(), run.task.policy.run_as, id.as_str());
    if let Err(error) = linked {
        tracing::warn!(%error, "Go's library is not linked into the cache of a workspace, whose runs compile their own");
    }
    Ok(())
}

fn execute(run: EnteredRun) -> RunResult {
    let EnteredRun { mut task, prepared, fingerprint, slot: _slot, mut started } = run;
    let PreparedRun { spec, parser, framework, chosen, mut notes, env, missed, .. } = prepared;
    // A custom command runs whole, whatever was selected.
    let awaited = chosen.as_ref().map(|_| Awaited::of(&task.request.selection)).unwrap_or_default();
    let mut state = RunState::new(task.context.clock.now(), spec.limits, parser, awaited);
    notes.splice(0..0, std::mem::take(&mut task.notes));
    let mut report_start = || {
        if let Some(started) = started.take() {
            _ = started.send(fingerprint);
        }
    };
    let mut ending = run_round(&mut task, &mut state, &spec, &mut report_start)?;
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
            let spec = RunSpec { commands, limits, ..spec.clone() };
            run_round(&mut task, &mut state, &spec, &mut report_start)
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
    task.log.append_blocking(state.parse_files(&files));
    task.log.replace_files_blocking(task.spools.settled());
    Ok(build_report(ReportBuilder {
        state,
        ending,
        files,
        commands,
        limits: spec.limits,
        framework,
        chosen,
        filtered: matches!(task.request.selection, Selection::Matching { filter: Some(_), .. }),
        notes,
        accepted_at: task.accepted_at,
        ended_at: task.context.clock.now(),
        stdout: task.spools.stdout.reader(),
        stderr: task.spools.stderr.reader(),
        workspace: task.workspace,
    }))
}

// Runs one sandbox from start to end.
fn run_round(
    task: &mut RunTask,
    state: &mut RunState,
    spec: &RunSpec,
    report_start: &mut dyn FnMut(),
) -> Result<Ending, NotStarted> {
    let RunTask { context, killer, log, spools, run, .. } = task;
    // Set when the run's output, or a file that it left, could not be stored.
    let (mut store_error, mut artifact_store_error) = (None, None);
    let ending = context.sandbox.run(spec, killer.switch(), &mut |event| {
        let stored = match &event {
            // Bytes after a hole do not belong to a complete file.
            SandboxEvent::ArtifactChunk { .. } if artifact_store_error.is_some() => return,
            SandboxEvent::ArtifactChunk { bytes, .. } => spools.artifacts.append(bytes),
            SandboxEvent::Output { .. } if store_error.is_some() => return,
            SandboxEvent::Output { stream: Stream::Stdout, bytes } => spools.stdout.append(bytes),
            SandboxEvent::Output { stream: Stream::Stderr, bytes } => spools.stderr.append(bytes),
            _ => Ok(0),
        };
        match (stored, &event) {
            (Ok(offset), _) => {
                log.append_blocking(state.ingest(event, offset));
                report_start();
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
    let mut ending = ending.map_err(start_error)?;
    if ending.worker_lost {
        tracing::error!(run = %run, "a worker was lost");
    }
    if store_error.is_some() && ending.killed.is_none() {
        // The run had ended already, but its output was not parsed to the end.
        ending.worker_lost = true;
    }
    ending.notes.extend(store_error.into_iter().chain(artifact_store_error));
    log.append_blocking(state.end(&ending));
    Ok(ending)
}

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
