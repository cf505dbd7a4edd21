//! The driver of a run. On a thread of its own it looks at the workspace, runs the sandbox, feeds the parser, writes the log and
//! ends with a report; who has to wait for a turn in between waits without one. Must not know sessions or subscribers.

use super::report_builder::{Concluding, conclude, without_running};
use super::run_state::Course;
use super::{LogWriter, NotStarted, RunEnd, RunKiller, Spools, combined_exit};
use crate::caches::{self, RunCache};
use crate::host::environment::home;
use crate::random_id::random_id;
use crate::runs::context::{Context, Policy, ScanPermit};
use crate::runs::prepare::{PrepareError, Prepared, commands_of, prepare};
use crate::runs::scheduler::{EnterError, RunSlot, SlotRequest, Standing};
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
use proctor_sandbox::{Ending, RunSpec, SandboxError, SandboxEvent, lack, shorten_slice};
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// What a driver needs.
pub struct Drive {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// What this run may have.
    pub policy: Arc<Policy>,
    /// Whose.
    pub session: SessionId,
    /// Where.
    pub workspace: Workspace,
    /// The run.
    pub run: RunId,
    /// What, with the selection resolved.
    pub request: RunRequest,
    /// What its report says before all else.
    pub notes: Vec<String>,
    /// What for.
    pub kind: RunKind,
    /// Which of its tenant's runs it comes before.
    pub priority: Priority,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// That it waits, if it has waited in its session.
    pub waits: Option<Reservation>,
    /// Where events go.
    pub log: LogWriter,
    /// Where the run's bytes go.
    pub spools: Spools,
    /// Ends the run.
    pub killer: RunKiller,
}

/// What a driver ends with. The actor takes it in and then ends the log, so that whoever sees the end finds everything
/// that the session learnt from it.
#[derive(Debug)]
pub struct Finished {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub end: RunEnd,
    /// What it measured of coverage.
    pub measured: Vec<CoverageMeasurement>,
}

/// Told what the workspace looks like once nothing in it refuses the run, and dropped when something does. The caller waits
/// for it, so it is told together with the first event.
type Began = oneshot::Sender<Option<Fingerprint>>;

/// Drives a run to its end.
pub async fn drive(drive: Drive, began: Began) -> Finished {
    let run = drive.run.clone();
    let (end, measured) = match run_to_end(drive, began).await {
        Ok((report, measured)) => (RunEnd::Report(Arc::new(report)), measured),
        Err(not_started) => {
            tracing::info!(run = %run, reason = %not_started, "run not started");
            (RunEnd::NotStarted(not_started), Vec::new())
        }
    };
    Finished { run, end, measured }
}

type Ran = Result<(Report, Vec<CoverageMeasurement>), NotStarted>;

/// Said of a run that was killed before all else.
const NOT_LOOKED: &str = "ended before it looked at its workspace";

/// What the look at a run's workspace comes to.
enum Came {
    /// There is no memory for it now, and nothing has come of it.
    NoRoom(Box<(Drive, Began, ScanPermit)>),
    /// It has no turn yet.
    Waits(Box<Looked>),
    /// It had its turn at once, and is over.
    Ran(Box<Over>),
}

/// A run that had its turn.
struct Over {
    ran: Ran,
    /// Whether it is time to tidy the caches that it used.
    untidy: bool,
}

async fn run_to_end(mut drive: Drive, began: Began) -> Ran {
    let policy = Arc::clone(&drive.policy);
    let context = Arc::clone(&drive.context);
    let killer = drive.killer.clone();
    let mut room = tokio::select! {
        room = ScanPermit::small(&policy.looks, &context.looks) => room,
        () = killer.killed() => return Ok((killed(&drive, "", NOT_LOOKED), Vec::new())),
    };
    let mut began = began;
    let over = loop {
        match on_a_thread(move || come(drive, began, room)).await? {
            Came::Ran(over) => break *over,
            Came::Waits(mut looked) => match wait(&mut looked).await? {
                Some(report) => return Ok((report, Vec::new())),
                None => break on_a_thread(move || Ok(run_in_turn(*looked))).await?,
            },
            Came::NoRoom(back) => {
                (drive, began, room) = *back;
                // A run that waits for the memory of its look waits as one that waits for its turn.
                if drive.waits.is_none() {
                    drive.waits = Some(policy.queued.reserve_queued_run(policy.quota.queued_runs_max)?);
                }
                room = tokio::select! {
                    room = room.grown() => room,
                    () = killer.killed() => return Ok((killed(&drive, "", NOT_LOOKED), Vec::new())),
                };
            }
        }
    };
    let Over { ran, untidy } = over;
    if let Some(cache) = policy.cache.clone().filter(|_| untidy) {
        // Nobody waits for it but the end of this process.
        drop(spawn_blocking(move || caches::tidy(&cache, policy.cache_bytes_max)));
    }
    ran
}

/// Looks at the workspace, and runs at once what has its turn: each change of threads costs as much as a look.
fn come(drive: Drive, began: Began, mut room: ScanPermit) -> Result<Came, NotStarted> {
    if let Some(text) = drive.context.host.refusal() {
        return Err(PrepareError::HostFailed { text }.into());
    }
    let Some(look) = drive.workspace.look_within(&mut || room.grow()).map_err(PrepareError::from)? else {
        return Ok(Came::NoRoom(Box::new((drive, began, room))));
    };
    let looked = enter(drive, began, look)?;
    drop(room);
    Ok(if looked.place.has_turn() { Came::Ran(Box::new(run_in_turn(looked))) } else { Came::Waits(Box::new(looked)) })
}

/// Work on a thread that is its own. Runs do not share the threads of the runtime, which are bounded and which nobody may take
/// for as long as a run lasts; how many have one is bounded by the looks that go on and by those that have their turn.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NotStarted> + Send + 'static,
) -> Result<T, NotStarted> {
    let (tell, done) = oneshot::channel();
    // What a thread that is not made has taken is gone with it: the run's turn, and its place in the workspace.
    let thread = move || {
        // The run waits for it.
        shorten_slice();
        _ = tell.send(work());
    };
    if let Err(error) = std::thread::Builder::new().name("run".to_owned()).spawn(thread) {
        tracing::error!(%error, "no thread for a run");
        let text = lack(&error).unwrap_or("the host has no thread left").to_owned();
        return Err(PrepareError::HostFailed { text }.into());
    }
    done.await.unwrap_or_else(|_| Err(host_failed("the thread of a run panicked")))
}

/// Waits for the run's turn, or until it is killed: then with the report of that.
async fn wait(looked: &mut Looked) -> Result<Option<Report>, NotStarted> {
    looked.began();
    let killer = looked.drive.killer.clone();
    tokio::select! {
        turn = turn(looked) => return turn.map(|()| None),
        () = killer.killed() => {}
    }
    Ok(Some(killed(&looked.drive, &looked.prepared.framework, "ended while it waited for a turn on the host")))
}

/// The report of a run that was killed before anything of it was started.
fn killed(drive: &Drive, framework: &str, note: &str) -> Report {
    let Drive { context, policy, killer, .. } = drive;
    let reason = killer.switch().reason().unwrap_or(KillReason::Cancelled);
    without_running(context.clock.now(), policy.defaults, framework, reason, note)
}

/// Waits for the run's turn and tells how many come before it.
async fn turn(looked: &mut Looked) -> Result<(), NotStarted> {
    while !looked.place.has_turn() {
        match looked.place.changed().await? {
            Standing::Turn => break,
            // Told as in a session: the next to start is the first.
            Standing::Waiting(before) => {
                let position = before.map_or(1, |runs| runs.saturating_add(1));
                looked.drive.log.append(vec![RunEvent::Queued { position }]).await;
            }
            Standing::Evicted(refused) => return Err(refused.into()),
        }
    }
    Ok(())
}

/// A run that nothing in its workspace refuses, with its place on the host.
struct Looked {
    drive: Drive,
    prepared: Prepared,
    fingerprint: Option<Fingerprint>,
    place: RunSlot,
    /// Who has not been told yet.
    began: Option<Began>,
}

impl Looked {
    fn began(&mut self) {
        if let Some(began) = self.began.take() {
            _ = began.send(self.fingerprint);
        }
    }
}

/// Prepares the run, which nothing in its workspace refuses, and has it take its place on the host.
fn enter(mut drive: Drive, began: Began, look: WorkspaceScan) -> Result<Looked, NotStarted> {
    let waits = drive.waits.take();
    let Drive { context, policy, session, workspace, request, kind, .. } = &drive;
    let prepared = prepare(context, policy, session, workspace, &look, request, *kind)?;
    if let Some(full) = policy.kept.exceeded() {
        return Err(full.into());
    }
    if policy.cache.as_deref().is_some_and(|cache| caches::are_overfull(cache, policy.cache_bytes_max)) {
        return Err(QuotaExceeded::Cache { max: policy.cache_bytes_max }.into());
    }
    let tenant = TenantId::new(policy.owner.clone());
    let entry = QueueEntry { tenant, demand: Amount::from_limits(&prepared.spec.limits), priority: drive.priority };
    let wanted = SlotRequest { entry, quota: policy.quota, queued: Arc::clone(&policy.queued), waits };
    let place = context.scheduler.enter(wanted)?;
    Ok(Looked { drive, prepared, fingerprint: look.fingerprint, place, began: Some(began) })
}

/// The rest of the run, on the thread of the caller.
fn run_in_turn(mut looked: Looked) -> Over {
    let policy = Arc::clone(&looked.drive.policy);
    let Some(cache) = looked.prepared.run_cache.clone() else { return Over { ran: execute(looked), untidy: false } };
    let opened = match cache.open(policy.run_as) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "a run has no cache directory");
            return Over { ran: Err(host_failed("the directory of build caches failed")), untidy: false };
        }
    };
    looked.prepared.spec.jail.writable_id = Some(opened.id);
    let ran = settle_go_library(&mut looked, &cache).and_then(|()| execute(looked));
    // Now that nothing of the run goes on any more.
    cache.close(opened);
    let untidy = cache.is_fresh() || caches::is_untidy(cache.of_tenant(), policy.cache_bytes_max);
    Over { ran, untidy }
}

/// Compiles Go's library where the run needs it and it is not there, and links it into the run's cache.
fn settle_go_library(looked: &mut Looked, cache: &RunCache) -> Result<(), NotStarted> {
    let (Some(library), Some(id)) = (looked.prepared.go_library.clone(), random_id()) else { return Ok(()) };
    let spec = &looked.prepared.spec;
    if !library.is_there() && library.serves(spec) {
        // It takes a while, and nothing refuses the run any more.
        looked.began();
        let Looked { drive, prepared, .. } = looked;
        let Context { sandbox, toolchain, clock, .. } = &*drive.context;
        // Nothing of the request's or the project's.
        let env = toolchain.base_env(&home());
        let began = clock.now();
        let attempt = (id.as_str(), drive.killer.switch());
        if library.compile(sandbox.as_ref(), &prepared.spec, env, attempt).map_err(refused)? {
            prepared.spec.jail.read_only.push(library.dir());
            let text = "Go's standard library was compiled once for all workspaces, which took";
            prepared.notes.push(format!("{text} {} s", clock.now().ms_since(began) / 1_000));
        }
    }
    let linked = library.link_into(&cache.dir(), looked.drive.policy.run_as, id.as_str());
    if let Err(error) = linked {
        tracing::warn!(%error, "Go's library is not linked into the cache of a workspace, whose runs compile their own");
    }
    Ok(())
}

fn execute(looked: Looked) -> Ran {
    let Looked { mut drive, prepared, fingerprint, place: _place, mut began } = looked;
    let Prepared { spec, parser, framework, chosen, mut notes, env, missed, .. } = prepared;
    // A command of one's own runs whole, whatever was selected.
    let awaited = chosen.as_ref().map(|_| Awaited::of(&drive.request.selection)).unwrap_or_default();
    let mut course = Course::new(drive.context.clock.now(), spec.limits, parser, awaited);
    notes.splice(0..0, std::mem::take(&mut drive.notes));
    let mut tell = || {
        if let Some(began) = began.take() {
            _ = began.send(fingerprint);
        }
    };
    let mut ending = round(&mut drive, &mut course, &spec, &mut tell)?;
    drive.log.append_blocking(course.miss(missed));
    let mut commands = spec.commands.len();
    // A runner may show that further commands are needed; they share the deadline of the first.
    for number in 2.. {
        let steps = course.follow_up();
        let left = spec.limits.wall_ms_max.saturating_sub(course.elapsed_ms());
        if steps.is_empty() || ending.killed.is_some() || ending.worker_lost {
            break;
        }
        let log_left = spec.limits.log_bytes_max.saturating_sub(ending.resources.output_bytes);
        let limits = Limits { wall_ms_max: left.max(1), log_bytes_max: log_left.max(1), ..spec.limits };
        commands += steps.len();
        // What the first round brought to light stays, whatever becomes of the next.
        let again =
            commands_of(&drive.context, &drive.workspace, &spec.jail.read_only, &env, &steps).map_err(NotStarted::from);
        let then = again.and_then(|commands| {
            let spec = RunSpec { commands, limits, ..spec.clone() };
            round(&mut drive, &mut course, &spec, &mut tell)
        });
        match then {
            Ok(then) => ending = combined_exit::join(ending, then, number),
            Err(why) => {
                tracing::error!(run = %drive.run, reason = %why, "a further round of a run did not start");
                ending.worker_lost = true;
                ending.notes.push(NOT_GONE_ON.to_owned());
                break;
            }
        }
    }
    let left = std::mem::take(&mut ending.artifacts);
    let files: Vec<(String, Vec<u8>)> = left.into_iter().map(|file| (file.path, file.bytes)).collect();
    drive.log.append_blocking(course.files(&files));
    drive.log.settle_blocking(drive.spools.settled());
    Ok(conclude(Concluding {
        course,
        ending,
        files,
        commands,
        limits: spec.limits,
        framework,
        chosen,
        filtered: matches!(drive.request.selection, Selection::Matching { filter: Some(_), .. }),
        notes,
        accepted_at: drive.accepted_at,
        ended_at: drive.context.clock.now(),
        stdout: drive.spools.stdout.reader(),
        stderr: drive.spools.stderr.reader(),
        workspace: drive.workspace,
    }))
}

// One sandbox from its start to its end.
fn round(drive: &mut Drive, course: &mut Course, spec: &RunSpec, tell: &mut dyn FnMut()) -> Result<Ending, NotStarted> {
    let Drive { context, killer, log, spools, run, .. } = drive;
    // What could not be kept of what the run wrote, and of the files that it left.
    let (mut unkept, mut unkept_files) = (None, None);
    let ending = context.sandbox.run(spec, killer.switch(), &mut |event| {
        let kept = match &event {
            // What comes after a hole is no file of the run's.
            SandboxEvent::Kept { .. } if unkept_files.is_some() => return,
            SandboxEvent::Kept { bytes, .. } => spools.artifacts.append(bytes),
            SandboxEvent::Output { .. } if unkept.is_some() => return,
            SandboxEvent::Output { stream: Stream::Stdout, bytes } => spools.stdout.append(bytes),
            SandboxEvent::Output { stream: Stream::Stderr, bytes } => spools.stderr.append(bytes),
            _ => Ok(0),
        };
        match (kept, &event) {
            (Ok(offset), _) => {
                log.append_blocking(course.take_in(event, offset));
                tell();
            }
            (Err(error), SandboxEvent::Kept { .. }) => {
                tracing::error!(run = %run, %error, "files that a run left could not be kept");
                unkept_files = Some(unkept_note("files that tests left are not kept, or not whole", &error));
            }
            (Err(error), _) => {
                tracing::error!(run = %run, %error, "a run's output could not be kept");
                unkept = Some(unkept_note("the run was ended, as its output could not be kept", &error));
                killer.kill(KillReason::HostFailed);
            }
        }
    });
    context.host.ran(&ending);
    let mut ending = ending.map_err(refused)?;
    if ending.worker_lost {
        tracing::error!(run = %run, "a worker was lost");
    }
    if unkept.is_some() && ending.killed.is_none() {
        // It had ended already; but what it said of its tests was not heard to the end.
        ending.worker_lost = true;
    }
    ending.notes.extend(unkept.into_iter().chain(unkept_files));
    log.append_blocking(course.end(&ending));
    Ok(ending)
}

/// Said of a run whose further round the host refused.
const NOT_GONE_ON: &str = "the host could not start the rest of the run: what was told before is kept, and the run can be \
                           asked for again";

/// What became of it and why, in words that hold no path.
fn unkept_note(what: &str, error: &std::io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the host's temporary directory is full",
        _ => lack(error).unwrap_or("the host's temporary directory failed"),
    };
    format!("{what}: {why}")
}

fn refused(error: SandboxError) -> NotStarted {
    let text = error.client_text();
    match error {
        SandboxError::LayerMissing { .. } => NotStarted::LayerMissing { text },
        SandboxError::LimitMissing { .. } => NotStarted::LimitMissing { text },
        SandboxError::InvalidSpec { .. } => NotStarted::Invalid { text },
        SandboxError::WorkspaceGone { .. } => PrepareError::WorkspaceReplaced.into(),
        other => {
            tracing::error!(error = %other, source = ?std::error::Error::source(&other), "the sandbox failed");
            if other.is_passing() { PrepareError::HostFailed { text }.into() } else { NotStarted::Host { text } }
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
