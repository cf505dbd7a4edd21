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
use crate::probe::{HostReport, is_privileged, probe};
use crate::room::Worker;
use crate::slice;
use crate::spec::{Ending, RunSpec, Sandbox, SandboxEvent};
use crate::watch::Watch;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

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
        let maker =
            Maker { worker_binary, places: Places::find(), ledger: Arc::default(), privileged: is_privileged() };
        let pool = match bounds.workers_max {
            0 => None,
            _ => Some(Pool::new(maker.clone(), bounds).map_err(SandboxError::kernel("starting a thread"))?),
        };
        Ok(Self { maker, pool })
    }

    /// Removes the cgroups of supervisors that were killed: their runs died with them, and a restart clears up. Takes at
    /// most a second, and no time when there is nothing to clear. Then, on a host with cgroup v2, moves this process to
    /// where it does not stand in the way of its runs' limits. Call it once, before the first run.
    ///
    /// Apart from [`Self::new`], since who only looks at a host must not change it.
    pub fn sweep(&self) {
        cgroup::sweep(&self.maker.places);
        cgroup::settle(&self.maker.places);
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
        let ending = end(&mut worker, spec, watched, sink);
        if let Some(pool) = &self.pool {
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
        let held = hold(&spec.jail.workspace, spec.jail.workspace_id);
        let (workspace, id) =
            held.map_err(|source| SandboxError::WorkspaceGone { workspace: spec.jail.workspace.clone(), source })?;
        if let Some(worker) = self.pool.as_ref().and_then(|pool| pool.take(&spec.jail, id, &spec.limits)) {
            match self.serve(worker, spec, (&workspace, id), kill, sink, begun) {
                // Whatever it died of while it waited, no command was started.
                Err(SandboxError::WorkerFailed { reason, .. }) => tracing::warn!(%reason, "a prepared worker was dead"),
                outcome => return outcome,
            }
        }
        let room = self.maker.open(&spec.jail, id)?;
        let worker = self.maker.prepare(&room, &spec.jail, &spec.limits)?;
        // The next run of the session finds the room.
        if let Some(pool) = &self.pool {
            pool.keep(&spec.jail, id, room);
        }
        self.serve(worker, spec, (&workspace, id), kill, sink, begun)
    }

    fn probe(&self) -> HostReport {
        probe(&self.maker)
    }

    fn retire(&self, owner: &str, workspace: &Path) {
        if let Some(pool) = &self.pool {
            pool.retire(owner, workspace);
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

/// Ends what is left, reads the counters, reads the artefacts. An init that is alone, and the leaf, end with the worker.
fn end(worker: &mut Worker, spec: &RunSpec, mut watched: Watched, sink: &mut dyn FnMut(SandboxEvent<'_>)) -> Ending {
    if !watched.is_empty
        && let Err(error) = worker.end()
    {
        let pids = worker.leaf.as_ref().map(|leaf| leaf.pids());
        tracing::error!(%error, ?pids, "a run is still alive after its kill");
        if let Some(leaf) = &worker.leaf {
            leaf.kill();
        }
    }
    if watched.worker_lost {
        tracing::error!("a worker was lost");
    }
    watched.tmp_full |= worker.scratch.as_ref().is_some_and(figures::is_full);
    let counters = worker.count();
    let scratch = worker.scratch.take();
    let files = scratch.map(|scratch| artifacts::collect(scratch.as_fd(), &spec.artifacts, sink)).unwrap_or_default();
    figures::ending(watched, counters, &spec.limits, files)
}
