//! The driver of a run: waits for a turn, then lives on a thread of its own, where it runs the sandbox, feeds the parser,
//! writes the log and ends with a report. Must not know sessions or subscribers.

use super::conclude::{Concluding, conclude, without_running};
use super::course::Course;
use super::{Killer, LogWriter, NotStarted, RunEnd, Spools, rounds};
use crate::caches;
use crate::context::{Context, Policy};
use crate::prepare::{PrepareError, Prepared, commands_of, prepare};
use crate::scheduler::{EnterError, Place, Standing};
use crate::workspace::Workspace;
use proctor_core::coverage::Measured;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::id::{RunId, TenantId};
use proctor_core::limits::Limits;
use proctor_core::moment::Moment;
use proctor_core::outcome::KillReason;
use proctor_core::quota::{Amount, Refused};
use proctor_core::report::Report;
use proctor_core::request::{Fingerprint, RunRequest};
use proctor_core::session::RunKind;
use proctor_sandbox::{Ending, RunSpec, SandboxError, SandboxEvent};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// What a driver needs.
pub struct Drive {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// What this run may have.
    pub policy: Arc<Policy>,
    /// Where.
    pub workspace: Workspace,
    /// The run.
    pub run: RunId,
    /// What, with the selection resolved.
    pub request: RunRequest,
    /// What for.
    pub kind: RunKind,
    /// When it was accepted.
    pub accepted_at: Moment,
    /// Where events go.
    pub log: LogWriter,
    /// Where the run's bytes go.
    pub spools: Spools,
    /// Ends the run.
    pub killer: Killer,
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
    pub measured: Vec<Measured>,
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

type Ran = Result<(Report, Vec<Measured>), NotStarted>;

/// What a run's first thread comes to.
enum Came {
    /// It has no turn yet, and holds no thread while it waits.
    Waits(Box<Looked>),
    Ended(Box<Ran>),
}

async fn run_to_end(drive: Drive, began: Began) -> Ran {
    let broke = || Err(host_failed("the thread of a run panicked"));
    let (tell, came) = oneshot::channel();
    // One thread from the first look to the report: each change of threads costs as much as a look.
    drop(spawn_blocking(move || match look(drive, began) {
        Ok(looked) if looked.place.has_turn() => run_in_turn(looked, |ran| _ = tell.send(Came::Ended(Box::new(ran)))),
        Ok(looked) => _ = tell.send(Came::Waits(Box::new(looked))),
        Err(why) => _ = tell.send(Came::Ended(Box::new(Err(why)))),
    }));
    let mut looked = match came.await {
        Ok(Came::Waits(looked)) => looked,
        Ok(Came::Ended(ran)) => return *ran,
        Err(_) => return broke(),
    };
    looked.began();
    let killer = looked.drive.killer.clone();
    let killed = tokio::select! {
        turn = turn(&mut looked) => turn.map(|()| false)?,
        () = killer.killed() => true,
    };
    if killed {
        let reason = killer.switch().reason().unwrap_or(KillReason::Cancelled);
        let note = "ended while it waited for a turn on the host";
        let Looked { drive: Drive { context, policy, .. }, prepared, .. } = *looked;
        let report = without_running(context.clock.now(), policy.defaults, &prepared.framework, reason, note);
        return Ok((report, Vec::new()));
    }
    let (tell, ran) = oneshot::channel();
    drop(spawn_blocking(move || run_in_turn(*looked, |ran| _ = tell.send(ran))));
    ran.await.unwrap_or_else(|_| broke())
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
    place: Place,
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

fn look(drive: Drive, began: Began) -> Result<Looked, NotStarted> {
    let Drive { context, policy, workspace, request, kind, .. } = &drive;
    let look = workspace.look().map_err(|_| PrepareError::WorkspaceReplaced)?;
    let prepared = prepare(context, policy, workspace, &look, request, *kind)?;
    if policy.kept.bytes() >= policy.kept_bytes_max {
        return Err(Refused::KeptBytes { max: policy.kept_bytes_max }.into());
    }
    let tenant = TenantId::new(policy.owner.clone());
    let place = context.scheduler.enter(tenant, policy.quota, Amount::of(&prepared.spec.limits))?;
    Ok(Looked { drive, prepared, fingerprint: look.fingerprint, place, began: Some(began) })
}

/// The rest of the run, on the thread of the caller, who is told the end before everything is put away.
fn run_in_turn(looked: Looked, tell: impl FnOnce(Ran)) {
    let policy = Arc::clone(&looked.drive.policy);
    let in_use = caches::in_use(&policy.cache);
    let end = execute(looked);
    drop(in_use);
    tell(end);
    // Nobody waits for it, and in the usual case it reads one line.
    caches::tidy(&policy.cache, policy.cache_bytes_max);
}

fn execute(looked: Looked) -> Ran {
    let Looked { mut drive, prepared, fingerprint, place: _place, mut began } = looked;
    let Prepared { spec, parser, framework, chosen, notes, env } = prepared;
    let mut course = Course::new(drive.context.clock.now(), spec.limits, parser);
    let mut tell = || {
        if let Some(began) = began.take() {
            _ = began.send(fingerprint);
        }
    };
    let mut ending = round(&mut drive, &mut course, &spec, &mut tell)?;
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
            Ok(then) => ending = rounds::join(ending, then, number),
            Err(why) => {
                tracing::error!(run = %drive.run, reason = %why, "a further round of a run did not start");
                ending.worker_lost = true;
                break;
            }
        }
    }
    let left = std::mem::take(&mut ending.artifacts);
    let files: Vec<(String, Vec<u8>)> = left.into_iter().map(|file| (file.path, file.bytes)).collect();
    drive.log.append_blocking(course.files(&files));
    Ok(conclude(Concluding {
        course,
        ending,
        files,
        commands,
        limits: spec.limits,
        framework,
        chosen,
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
    let Drive { context, killer, log, spools, .. } = drive;
    let ending = context.sandbox.run(spec, killer.switch(), &mut |event| {
        let kept = match &event {
            SandboxEvent::Output { stream: Stream::Stdout, bytes } => spools.stdout.append(bytes),
            SandboxEvent::Output { stream: Stream::Stderr, bytes } => spools.stderr.append(bytes),
            SandboxEvent::Kept { bytes, .. } => spools.artifacts.append(bytes),
            _ => Ok(0),
        };
        match kept {
            Ok(offset) => {
                log.append_blocking(course.take_in(event, offset));
                tell();
            }
            Err(error) => {
                if killer.switch().reason().is_none() {
                    tracing::error!(%error, "a run's output could not be kept");
                }
                killer.kill(KillReason::HostFailed);
            }
        }
    });
    let ending = ending.map_err(refused)?;
    log.append_blocking(course.end(&ending));
    Ok(ending)
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
            NotStarted::Host { text }
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
            EnterError::Refused(refused) => refused.into(),
            EnterError::Gone => NotStarted::Host { text: error.to_string() },
        }
    }
}
