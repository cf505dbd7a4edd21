//! The one real sandbox: `run` from the validation of the specification to the removal of the leaf.

use crate::alone_commands::EndedRun;
use crate::artifacts;
use crate::cgroup::{self, Hierarchies};
use crate::disk::ChangeCheck;
use crate::ending::{self, RunObservations};
use crate::error::SandboxError;
use crate::host_report::HostReport;
use crate::kill_switch::KillSwitch;
use crate::pool::{Pool, PoolBounds, WorkerFactory};
use crate::probe::{is_privileged, probe, try_worker};
use crate::run_loop::RunLoop;
use crate::sched_slice;
use crate::spec::{Ending, Jail, RunSpec, Sandbox, SandboxEvent};
use crate::spec_validation::validate;
use crate::worker_counts::WorkerCounts;
use crate::workspace_fd::{DirId, open_workspace};
use crate::zygote::Worker;
use std::error::Error as _;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Workers that a run may get before its first command has started, the prepared one included.
const ATTEMPTS_MAX: u32 = 3;

/// Note of a run whose worker was lost.
const WORKER_LOST_NOTE: &str = "proctor's worker process was killed or ended before the tests did, and they ended with it: \
                    what they had not reported by then is lost, and the run can be asked for again";

/// Runs commands in namespaces and cgroups of this host, each run in its own worker process.
///
/// One value serves any number of threads at a time. Dropping it ends the prepared workers.
pub struct LinuxSandbox {
    factory: WorkerFactory,
    /// `None` if nothing is prepared ahead of runs.
    pool: Option<Pool>,
    counts: WorkerCounts,
}

impl LinuxSandbox {
    /// Creates a sandbox whose workers run `worker_binary`, a program that only calls [`crate::worker::main`]. It keeps
    /// prepared workers within `bounds`.
    ///
    /// Reads this process's cgroups, so call it after the process has moved to where its runs shall be counted.
    pub fn new(worker_binary: PathBuf, bounds: PoolBounds) -> Result<Self, SandboxError> {
        let worker_binary = fs::canonicalize(&worker_binary)
            .map_err(|source| SandboxError::WorkerMissing { binary: worker_binary, source })?;
        let (hierarchies, privileged) = (Hierarchies::detect(), is_privileged());
        let factory = WorkerFactory {
            worker_binary,
            hierarchies,
            ledger: Arc::default(),
            unkillable: Arc::default(),
            privileged,
        };
        let pool = match bounds.workers_max {
            0 => None,
            _ => Some(Pool::new(factory.clone(), bounds).map_err(SandboxError::kernel("starting a thread"))?),
        };
        Ok(Self { factory, pool, counts: WorkerCounts::default() })
    }

    /// Removes the cgroups of killed supervisors, whose runs died with them. Then, on a host with cgroup v2, moves this
    /// process into a group beside its leaves, so that controllers can be delegated to them.
    ///
    /// Takes at most some five seconds, and no time if there is nothing to remove. Call it once, before the first run.
    ///
    /// Separate from [`Self::new`], since a caller that only probes a host must not change it.
    pub fn sweep(&self) {
        cgroup::sweep(&self.factory.hierarchies);
        cgroup::delegate_controllers(&self.factory.hierarchies);
    }

    /// The pool, if workers are prepared for this jail. A run without a session is the only one of its kind.
    fn pool_for(&self, jail: &Jail) -> Option<&Pool> {
        self.pool.as_ref().filter(|_| !jail.session.is_empty())
    }

    /// Starts a zygote, which goes to the pool for the session's next run, and prepares a worker in it.
    fn prepare_worker(&self, spec: &RunSpec, workspace_id: DirId) -> Result<Worker, SandboxError> {
        let zygote = self.factory.start_zygote(&spec.jail, workspace_id)?;
        let worker = self.factory.prepare(&zygote, &spec.jail, &spec.limits)?;
        if let Some(pool) = self.pool_for(&spec.jail) {
            pool.insert(&spec.jail, workspace_id, zygote);
        }
        Ok(worker)
    }

    fn run_in(
        &self,
        mut worker: Worker,
        spec: &RunSpec,
        (workspace, workspace_id): (&OwnedFd, DirId),
        kill: &KillSwitch,
        sink: &mut dyn FnMut(SandboxEvent<'_>),
        started_at: Instant,
    ) -> Result<Ending, SandboxError> {
        worker.refresh_cpu_boost();
        let change_check = spec.alone.then(|| ChangeCheck::start(workspace)).and_then(Result::ok);
        let observations = RunLoop::new(spec, workspace, kill, &worker, sink, started_at).run()?;
        let mut is_dead = observations.is_empty || is_dead(&worker);
        let (is_idle, wall) = (observations.is_empty && observations.killed.is_none(), observations.wall);
        let scratch = worker.scratch.take();
        let mut ending = finish(&worker, spec, observations, scratch.as_ref(), sink);
        if let Some((change_check, scratch)) = change_check.zip(scratch).filter(|_| is_idle) {
            let scratch = scratch.as_fd();
            // Each has keys of its own.
            let nonce = RandomState::new().hash_one(0);
            let run = EndedRun { spec, workspace, change_check, kill, worker: &worker, scratch, wall, nonce };
            is_dead = run.execute_commands(&mut ending.artifacts) || self::is_dead(&worker);
        }
        // The pool's thread serves all sessions, so a run that is slow to die is waited for on this thread.
        if let Some(pool) = self.pool_for(&spec.jail).filter(|_| is_dead) {
            pool.replenish(&spec.jail, workspace_id, &spec.limits, worker);
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
        let started_at = Instant::now();
        // The run waits for this thread again and again.
        sched_slice::shorten();
        validate(spec)?;
        let (workspace, workspace_id) = workspace_handle(&spec.jail, spec.jail.workspace_id)?;
        let mut prepared = self.pool_for(&spec.jail).and_then(|pool| pool.take(&spec.jail, workspace_id, &spec.limits));
        if self.pool_for(&spec.jail).is_some() {
            self.counts.record_request(prepared.is_some());
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            let was_prepared = prepared.is_some();
            let worker = prepared.take().map_or_else(|| self.prepare_worker(spec, workspace_id), Ok);
            let outcome =
                worker.and_then(|worker| self.run_in(worker, spec, (&workspace, workspace_id), kill, sink, started_at));
            match outcome {
                Err(error) if attempts < ATTEMPTS_MAX && is_worth_retrying(&error, was_prepared) => {
                    tracing::warn!(%error, source = ?error.source(), "a run is tried again with another worker");
                }
                outcome => {
                    if let Ok(ending) = &outcome {
                        self.counts.record_setup(was_prepared, ending.resources.setup_s);
                    }
                    return outcome.map_err(|error| or_workspace_replaced(error, &spec.jail, workspace_id));
                }
            }
        }
    }

    fn worker_counts(&self) -> Option<&WorkerCounts> {
        Some(&self.counts)
    }

    fn probe(&self) -> HostReport {
        probe(&self.factory)
    }

    fn try_worker(&self) -> Result<(), SandboxError> {
        let worker = try_worker(&self.factory)?;
        worker.end_unused().map_err(|error| SandboxError::WorkerStuck {
            step: "its end".to_owned(),
            state: format!("it is alive after its kill: {error}"),
        })
    }

    fn unkillable_workers(&self) -> u64 {
        self.factory.unkillable.count()
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
        if let Err(error) = cgroup::undo_delegation(&self.factory.hierarchies) {
            tracing::warn!(%error, "the supervisor's own cgroup could not be removed");
        }
    }
}

impl Drop for LinuxSandbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether the run may be tried again with another worker. An error means that none of the run's commands was started.
///
/// A worker may be killed by mistake, and its successor is another process. A removed group is made again under another
/// name and its limits are read back again; if somebody keeps removing groups, the last error says so. Any failure of a
/// worker that was prepared ahead may be caused by the wait. When the host is short of a resource the caller has to
/// retry later: an immediate retry would find no more of it.
fn is_worth_retrying(error: &SandboxError, was_prepared: bool) -> bool {
    match error {
        SandboxError::WorkerDied { .. } | SandboxError::GroupRemoved { .. } => true,
        SandboxError::WorkerFailed { .. } => was_prepared,
        _ => false,
    }
}

/// Opens the workspace; fails if it is not the `expected` one.
fn workspace_handle(jail: &Jail, expected: Option<DirId>) -> Result<(OwnedFd, DirId), SandboxError> {
    open_workspace(&jail.workspace, expected).map_err(|source| {
        let gone = |source| SandboxError::WorkspaceGone { workspace: jail.workspace.clone(), source };
        SandboxError::from_io(source, "opening the workspace", gone)
    })
}

/// Returns the error, or that the workspace was replaced while the worker was prepared, which then caused the error.
fn or_workspace_replaced(error: SandboxError, jail: &Jail, workspace_id: DirId) -> SandboxError {
    match workspace_handle(jail, Some(workspace_id)) {
        Err(replaced @ SandboxError::WorkspaceGone { .. }) if !error.is_transient() => {
            tracing::warn!(%error, "a workspace was replaced while a run's worker was prepared");
            replaced
        }
        _ => error,
    }
}

/// Kills what is left and returns whether everything is dead.
fn is_dead(worker: &Worker) -> bool {
    let Err(error) = worker.kill_and_wait() else { return true };
    let pids = worker.leaf.as_ref().map(|leaf| leaf.pids());
    tracing::error!(%error, ?pids, "a run is still alive after its kill");
    if let Some(leaf) = &worker.leaf {
        leaf.kill();
    }
    false
}

/// Reads the counters and the artefacts. An idle init and the leaf end when the worker is dropped.
fn finish(
    worker: &Worker,
    spec: &RunSpec,
    mut observations: RunObservations,
    scratch: Option<&OwnedFd>,
    sink: &mut dyn FnMut(SandboxEvent<'_>),
) -> Ending {
    if observations.worker_lost {
        observations.host_notes.push(WORKER_LOST_NOTE.to_owned());
    }
    observations.tmp_full |= scratch.is_some_and(ending::is_full);
    let counters = worker.charge_and_read_counters();
    let files = scratch.map(|scratch| artifacts::collect(scratch.as_fd(), &spec.artifacts, sink)).unwrap_or_default();
    ending::build(observations, counters, &spec.limits, files)
}
