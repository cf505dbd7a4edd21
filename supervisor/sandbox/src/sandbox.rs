//! The one real sandbox: what `run` does, from the refusal of a bad specification to the removal of the leaf. Must not
//! know how layers are put on (`worker`) or what is heard during a run (`watch`).

use crate::artifacts;
use crate::cgroup::{self, Places};
use crate::check::check;
use crate::error::SandboxError;
use crate::figures::{self, Watched};
use crate::hold::{Id, hold};
use crate::kill::KillSwitch;
use crate::pool::{Maker, Pool, PoolBounds};
use crate::probe::{HostReport, is_privileged, probe, try_worker};
use crate::room::Worker;
use crate::slice;
use crate::spec::{Ending, Jail, RunSpec, Sandbox, SandboxEvent};
use crate::watch::Watch;
use std::error::Error as _;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Workers that a run may get before its first command has started, the one that was prepared included.
const TRIES: u32 = 3;

/// Said of a run whose worker was lost.
const LOST: &str = "the process that ran the tests for proctor was killed or ended before they did, and they ended with it: \
                    what they had not told by then is not known, and the run can be asked for again";

/// Runs commands in namespaces and cgroups of this host, each run in a worker process of its own.
///
/// One value serves any number of threads at a time. What it has prepared ends with it.
pub struct LinuxSandbox {
    maker: Maker,
    /// `None` when nothing is kept between runs.
    pool: Option<Pool>,
}

impl LinuxSandbox {
    /// A sandbox whose workers run `worker_binary`: a program that calls [`crate::worker::main`] and nothing else. It keeps
    /// prepared workers within `bounds`.
    ///
    /// Looks at this process's cgroups now, so call it after the process has moved to where its runs shall be counted.
    pub fn new(worker_binary: PathBuf, bounds: PoolBounds) -> Result<Self, SandboxError> {
        let worker_binary = fs::canonicalize(&worker_binary)
            .map_err(|source| SandboxError::WorkerMissing { binary: worker_binary, source })?;
        let (places, privileged) = (Places::find(), is_privileged());
        let maker = Maker { worker_binary, places, ledger: Arc::default(), undead: Arc::default(), privileged };
        let pool = match bounds.workers_max {
            0 => None,
            _ => Some(Pool::new(maker.clone(), bounds).map_err(SandboxError::kernel("starting a thread"))?),
        };
        Ok(Self { maker, pool })
    }

    /// Removes the cgroups of supervisors that were killed: their runs died with them, and a restart clears up. Takes
    /// some five seconds at most, and no time when there is nothing to clear. Then, on a host with cgroup v2, moves this
    /// process to where it does not stand in the way of its runs' limits. Call it once, before the first run.
    ///
    /// Apart from [`Self::new`], since who only looks at a host must not change it.
    pub fn sweep(&self) {
        cgroup::sweep(&self.maker.places);
        cgroup::settle(&self.maker.places);
    }

    /// What is prepared for the next run of this kind, unless there will be none: a run of no session is alone.
    fn pool_for(&self, jail: &Jail) -> Option<&Pool> {
        self.pool.as_ref().filter(|_| !jail.session.is_empty())
    }

    /// A room, which the next run of the session finds, and a worker in it.
    fn make(&self, spec: &RunSpec, id: Id) -> Result<Worker, SandboxError> {
        let room = self.maker.open(&spec.jail, id)?;
        let worker = self.maker.prepare(&room, &spec.jail, &spec.limits)?;
        if let Some(pool) = self.pool_for(&spec.jail) {
            pool.keep(&spec.jail, id, room);
        }
        Ok(worker)
    }

    fn serve(
        &self,
        mut worker: Worker,
        spec: &RunSpec,
        (workspace, id): (&OwnedFd, Id),
        kill: &KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
        begun: Instant,
    ) -> Result<Ending, SandboxError> {
        worker.look_up_favour();
        let watched = Watch::new(spec, workspace, kill, &worker, sink, begun).watch()?;
        let is_dead = watched.is_empty || is_dead(&worker);
        let ending = end(&mut worker, spec, watched, sink);
        // The keeper serves everybody, so what may take long to die is waited for here.
        if let Some(pool) = self.pool_for(&spec.jail).filter(|_| is_dead) {
            pool.follow(&spec.jail, id, &spec.limits, worker);
        }
        Ok(ending)
    }
}

impl Sandbox for LinuxSandbox {
    fn run(
        &self,
        spec: &RunSpec,
        kill: &KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
    ) -> Result<Ending, SandboxError> {
        let begun = Instant::now();
        // The run waits for this thread again and again.
        slice::shorten();
        check(spec)?;
        let (workspace, id) = held(&spec.jail, spec.jail.workspace_id)?;
        let mut prepared = self.pool_for(&spec.jail).and_then(|pool| pool.take(&spec.jail, id, &spec.limits));
        let mut tries = 0;
        loop {
            tries += 1;
            let was_prepared = prepared.is_some();
            let worker = prepared.take().map_or_else(|| self.make(spec, id), Ok);
            let outcome = worker.and_then(|worker| self.serve(worker, spec, (&workspace, id), kill, sink, begun));
            match outcome {
                Err(error) if tries < TRIES && is_worth_another(&error, was_prepared) => {
                    tracing::warn!(%error, source = ?error.source(), "a run gets another worker before it has begun");
                }
                outcome => return outcome.map_err(|error| or_replaced(error, &spec.jail, id)),
            }
        }
    }

    fn probe(&self) -> HostReport {
        probe(&self.maker)
    }

    fn try_worker(&self) -> Result<(), SandboxError> {
        let worker = try_worker(&self.maker)?;
        worker.end_unused().map_err(|error| SandboxError::WorkerStuck {
            step: "its end".to_owned(),
            state: format!("it is alive after its kill: {error}"),
        })
    }

    fn undead(&self) -> u64 {
        self.maker.undead.count()
    }

    fn retire(&self, session: &str) {
        if let Some(pool) = &self.pool {
            pool.retire(session);
        }
    }

    fn close(&self) {
        if let Some(pool) = &self.pool {
            pool.close();
        }
        if let Err(error) = cgroup::leave(&self.maker.places) {
            tracing::warn!(%error, "the supervisor's own cgroup could not be removed");
        }
    }
}

impl Drop for LinuxSandbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether another worker may do what this one did not: an error means that none of the run's commands was started, and
/// nothing of its own either.
///
/// One that was killed may have been in somebody's way by mistake, and its successor is another process. A group that was
/// removed is made anew under another name, and its limits are read back anew; who goes on removing them is told of in the
/// end. Of a worker that waited for its run, any failure may come of the wait. What the host is short of is for the caller to
/// ask for later, since there is no more of it at once.
fn is_worth_another(error: &SandboxError, was_prepared: bool) -> bool {
    match error {
        SandboxError::WorkerDied { .. } | SandboxError::GroupGone { .. } => true,
        SandboxError::WorkerFailed { .. } => was_prepared,
        _ => false,
    }
}

/// The workspace, as long as it is the `wanted` one.
fn held(jail: &Jail, wanted: Option<Id>) -> Result<(OwnedFd, Id), SandboxError> {
    hold(&jail.workspace, wanted).map_err(|source| {
        let gone = |source| SandboxError::WorkspaceGone { workspace: jail.workspace.clone(), source };
        SandboxError::of(source, "holding the workspace", gone)
    })
}

/// The error, or that the workspace was replaced while the worker was made, of which it came then.
fn or_replaced(error: SandboxError, jail: &Jail, id: Id) -> SandboxError {
    match held(jail, Some(id)) {
        Err(replaced @ SandboxError::WorkspaceGone { .. }) if !error.is_passing() => {
            tracing::warn!(%error, "a workspace was replaced while a run's worker was made");
            replaced
        }
        _ => error,
    }
}

/// Ends what is left, and tells whether that has succeeded.
fn is_dead(worker: &Worker) -> bool {
    let Err(error) = worker.end() else { return true };
    let pids = worker.leaf.as_ref().map(|leaf| leaf.pids());
    tracing::error!(%error, ?pids, "a run is still alive after its kill");
    if let Some(leaf) = &worker.leaf {
        leaf.kill();
    }
    false
}

/// Reads the counters, reads the artefacts. An init that is alone, and the leaf, end with the worker.
fn end(worker: &mut Worker, spec: &RunSpec, mut watched: Watched, sink: &mut dyn FnMut(SandboxEvent<'_>)) -> Ending {
    if watched.worker_lost {
        watched.host_notes.push(LOST.to_owned());
    }
    watched.tmp_full |= worker.scratch.as_ref().is_some_and(figures::is_full);
    let counters = worker.count();
    let scratch = worker.scratch.take();
    let files = scratch.map(|scratch| artifacts::collect(scratch.as_fd(), &spec.artifacts, sink)).unwrap_or_default();
    figures::ending(watched, counters, &spec.limits, files)
}
