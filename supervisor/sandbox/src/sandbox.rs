//! The one real sandbox: what `run` does, from the refusal of a bad specification to the removal of the leaf. Must not
//! know how layers are put on (`worker`) or what is heard during a run (`watch`).

use crate::artifacts;
use crate::cgroup::{self, Leaf, Opened, Places};
use crate::check::check;
use crate::error::SandboxError;
use crate::figures::{self, Watched};
use crate::in_force::{InForce, tmp_bytes_max};
use crate::kill::KillSwitch;
use crate::launch::Worker;
use crate::message::{Plan, PlannedFile};
use crate::plan;
use crate::probe::{HostReport, is_privileged, probe};
use crate::spec::{Ending, RunSpec, Sandbox, SandboxEvent, ScratchFile};
use crate::watch::Watch;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs commands in namespaces and cgroups of this host, each run in a worker process of its own.
///
/// Holds no state of any run; one value serves any number of threads at a time.
#[derive(Debug, Clone)]
pub struct LinuxSandbox {
    worker_binary: PathBuf,
    places: Places,
    /// Whether namespaces can be made without a user namespace.
    privileged: bool,
}

impl LinuxSandbox {
    /// A sandbox whose workers run `worker_binary`: a program that calls [`crate::worker::main`] and nothing else.
    ///
    /// Looks at this process's cgroups now, so call it after the process has moved to where its runs shall be counted.
    pub fn new(worker_binary: PathBuf) -> Result<Self, SandboxError> {
        let binary = fs::canonicalize(&worker_binary)
            .map_err(|source| SandboxError::WorkerMissing { binary: worker_binary, source })?;
        Ok(Self { worker_binary: binary, places: Places::find(), privileged: is_privileged() })
    }

    /// Removes the cgroups of supervisors that were killed: their runs died with them, and a restart clears up. Takes at
    /// most a second, and no time when there is nothing to clear. Then, on a host with cgroup v2, moves this process to
    /// where it does not stand in the way of its runs' limits. Call it once, before the first run.
    ///
    /// Apart from [`Self::new`], since who only looks at a host must not change it.
    pub fn sweep(&self) {
        cgroup::sweep(&self.places);
        cgroup::settle(&self.places);
    }

    /// Undoes the move of [`Self::sweep`] at a clean end, when no run is left. A killed supervisor's group is swept by the
    /// next one.
    pub fn leave(&self) {
        if let Err(error) = cgroup::leave(&self.places) {
            tracing::warn!(%error, "the supervisor's own cgroup could not be removed");
        }
    }

    /// What this host can enforce; see [`crate::probe()`].
    #[must_use]
    pub fn probe(&self) -> HostReport {
        probe(&self.worker_binary)
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
        check(spec)?;
        let plan = self.plan(spec)?;
        look_at_workspace(&spec.jail.workspace)?;
        let (mut run, in_force) = self.launch(spec)?;
        run.worker.tell(&plan, spec)?;
        let watched = Watch::new(spec, kill, &mut run.worker, run.leaf.as_deref(), in_force, sink, begun).watch()?;
        Ok(run.end(spec, watched))
    }
}

/// A worker and its leaf. The order of the fields is the order of their end, also when a sink panics: first everything is
/// dead, then the leaf can be removed.
struct Run {
    worker: Worker,
    leaf: Option<Box<dyn Leaf>>,
}

impl LinuxSandbox {
    fn plan(&self, spec: &RunSpec) -> Result<Plan, SandboxError> {
        let planned = |file: &ScratchFile| PlannedFile {
            path: file.path.clone(),
            len: file.bytes.len(),
            executable: file.executable,
        };
        Ok(Plan {
            supervisor_pid: rustix::process::getpid().as_raw_nonzero().get(),
            rows: plan::rows(spec, self.privileged)?,
            commands: spec.commands.clone(),
            keep: plan::paths_to_keep(spec),
            workspace: spec.jail.workspace.clone(),
            scratch_dirs: spec.scratch_dirs.clone(),
            scratch_files: spec.scratch_files.iter().map(planned).collect(),
            tmp_bytes_max: tmp_bytes_max(&spec.limits),
            tmp_inodes_max: plan::tmp_inodes_max(spec.limits.tmp_bytes_max),
        })
    }

    /// A worker that waits for its plan, inside a leaf whose limits have read back. The leaf is made while the worker is
    /// being loaded, which takes about as long.
    fn launch(&self, spec: &RunSpec) -> Result<(Run, InForce), SandboxError> {
        let worker = Worker::launch(&self.worker_binary)?;
        let Opened { leaf, in_force, missing } = cgroup::open(&self.places, "", &spec.limits);
        let run = Run { worker, leaf };
        let in_force = InForce::new(run.leaf.is_some(), in_force, missing);
        in_force.refuse_without_required(spec)?;
        if let Some(leaf) = &run.leaf {
            leaf.add(run.worker.pid(), false)
                .map_err(SandboxError::kernel("moving the worker into its cgroup leaf"))?;
        }
        Ok((run, in_force))
    }
}

impl Run {
    /// Ends what is left, reads the counters, removes the leaf, reads the artefacts: in this order.
    fn end(mut self, spec: &RunSpec, mut watched: Watched) -> Ending {
        let ended = self.worker.end();
        if let Err(error) = &ended {
            let pids = self.leaf.as_ref().map(|leaf| leaf.pids());
            tracing::error!(%error, ?pids, "a run is still alive after its kill");
            if let Some(leaf) = &self.leaf {
                leaf.kill();
            }
        }
        if watched.worker_lost {
            // A worker that hangs in the kernel holds its stderr open: its last words would never come to an end.
            let said = if ended.is_ok() { self.worker.last_words() } else { String::new() };
            tracing::error!(%said, "a worker was lost");
        }
        watched.tmp_full |= watched.scratch.as_ref().is_some_and(figures::is_full);
        let counters = self.leaf.as_ref().map(|leaf| leaf.counters());
        if let Some(Err(error)) = self.leaf.as_mut().map(|leaf| leaf.remove()) {
            tracing::error!(%error, "a cgroup leaf could not be removed");
        }
        let scratch = watched.scratch.take();
        let files = scratch.map(|scratch| artifacts::collect(scratch.as_fd(), &spec.artifacts)).unwrap_or_default();
        figures::ending(watched, counters, &spec.limits, files)
    }
}

fn look_at_workspace(workspace: &Path) -> Result<(), SandboxError> {
    let found = fs::metadata(workspace).and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
    });
    found.map_err(|source| SandboxError::WorkspaceGone { workspace: workspace.to_owned(), source })
}
