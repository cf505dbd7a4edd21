//! The one real sandbox: what `run` does, from the refusal of a bad specification to the removal of the leaf. Must not
//! know how layers are put on (`worker`) or what is heard during a run (`watch`).

use crate::artifacts;
use crate::cgroup::{self, Opened, Places};
use crate::check::check;
use crate::error::SandboxError;
use crate::figures;
use crate::kill::KillSwitch;
use crate::launch::Worker;
use crate::message::{MissingLayer, Plan, PlannedFile};
use crate::plan;
use crate::probe::{HostReport, is_privileged, probe};
use crate::spec::{Ending, RunSpec, Sandbox, SandboxEvent};
use crate::watch::Watch;
use proctor_core::isolation::{Isolation, Layer, LimitInForce, Missing, Network};
use proctor_core::limits::{LimitKind, Limits};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

/// tmpfs counts pages in a signed long; nobody has a pebibyte of memory.
const TMP_BYTES_CEILING: u64 = 1 << 50;

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
        let rows = plan::rows(spec, self.privileged)?;
        let workspace = fs::metadata(&spec.workspace).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        });
        workspace.map_err(|source| SandboxError::WorkspaceGone { workspace: spec.workspace.clone(), source })?;

        // Dropped in reverse order: the worker is dead before its leaf is removed, whatever happens in between.
        let Opened { mut leaf, in_force, missing } = cgroup::open(&self.places, &spec.limits);
        let in_force = InForce { has_leaf: leaf.is_some(), limits: in_force, missing };
        in_force.refuse_without_required(spec)?;
        let mut worker = Worker::launch(&self.worker_binary)?;
        if let Some(leaf) = &leaf {
            leaf.add(worker.pid()).map_err(SandboxError::kernel("moving the worker into its cgroup leaf"))?;
        }
        let plan = Plan {
            supervisor_pid: rustix::process::getpid().as_raw_nonzero().get(),
            rows,
            commands: spec.commands.clone(),
            keep: plan::paths_to_keep(spec),
            workspace: spec.workspace.clone(),
            scratch_dirs: spec.scratch_dirs.clone(),
            scratch_files: spec
                .scratch_files
                .iter()
                .map(|file| PlannedFile { path: file.path.clone(), len: file.bytes.len(), executable: file.executable })
                .collect(),
            tmp_bytes_max: tmp_bytes_max(&spec.limits),
            tmp_inodes_max: plan::tmp_inodes_max(spec.limits.tmp_bytes_max),
        };
        worker.tell(&plan, spec).map_err(SandboxError::kernel("handing the plan to the worker"))?;

        let mut watched = Watch::new(spec, kill, &mut worker, leaf.as_deref(), in_force, sink, begun).watch()?;
        if let Err(error) = worker.end() {
            tracing::error!(%error, "a run is still alive after its kill");
        }
        if watched.worker_lost {
            tracing::error!(said = %worker.last_words(), "a worker was lost");
        }
        watched.tmp_full |= watched.scratch.as_ref().is_some_and(figures::is_full);
        let counters = leaf.as_ref().map(|leaf| leaf.counters());
        if let Some(Err(error)) = leaf.as_mut().map(|leaf| leaf.remove()) {
            tracing::error!(%error, "a cgroup leaf could not be removed");
        }
        let scratch = watched.scratch.take();
        let files = scratch.map(|scratch| artifacts::collect(scratch.as_fd(), &spec.artifacts)).unwrap_or_default();
        Ok(figures::ending(watched, counters, &spec.limits, files))
    }
}

fn tmp_bytes_max(limits: &Limits) -> u64 {
    limits.tmp_bytes_max.min(TMP_BYTES_CEILING)
}

/// What the supervisor itself has put in force, before the worker tells its part.
#[derive(Debug)]
pub(crate) struct InForce {
    has_leaf: bool,
    limits: Vec<LimitInForce>,
    missing: Vec<cgroup::MissingLimit>,
}

impl InForce {
    /// Fails closed on what the leaf could not give.
    fn refuse_without_required(&self, spec: &RunSpec) -> Result<(), SandboxError> {
        let required = |missing: &&cgroup::MissingLimit| spec.required_limits.contains(&missing.limit);
        if let Some(cgroup::MissingLimit { limit, reason, remedy }) = self.missing.iter().find(required) {
            return Err(SandboxError::LimitMissing { limit: *limit, reason: reason.clone(), remedy: remedy.clone() });
        }
        if !self.has_leaf && spec.required_layers.contains(&Layer::Cgroup) {
            let why = self.missing.first();
            return Err(SandboxError::LayerMissing {
                layer: Layer::Cgroup,
                reason: why.map_or_else(String::new, |missing| missing.reason.clone()),
                remedy: why.map_or_else(String::new, |missing| missing.remedy.clone()),
            });
        }
        Ok(())
    }

    /// Everything that is in force, once the worker has put on its layers. Fails closed a second time: a worker that
    /// left out a required layer without a word must not get its `Go`.
    pub(crate) fn complete(
        &mut self,
        spec: &RunSpec,
        applied: &[Layer],
        missing: &[MissingLayer],
        scratch: Option<&OwnedFd>,
    ) -> Result<Isolation, SandboxError> {
        let mut layers = applied.to_vec();
        layers.push(Layer::CleanEnvironment);
        if self.has_leaf {
            layers.push(Layer::Cgroup);
        }
        layers.sort_unstable();
        if let Some(&layer) = spec.required_layers.iter().find(|layer| !layers.contains(layer)) {
            let why = missing.iter().find(|missing| missing.layer == layer);
            let reason = why.map_or("the worker did not put it on", |missing| missing.reason.as_str());
            let remedy = why.map_or("repair the installation", |missing| missing.remedy.as_str());
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
        let mut limits = std::mem::take(&mut self.limits);
        limits.extend(own_limits(&spec.limits));
        limits.push(tmp_limit(&spec.limits, scratch)?);
        let of_limits = self.missing.iter().map(|missing| Missing {
            name: missing.limit.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let of_layers = missing.iter().map(|missing| Missing {
            name: missing.layer.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let missing = of_limits.chain(of_layers).collect();
        // Whatever was asked for, a run without a network namespace could reach the network.
        let network = if layers.contains(&Layer::NetNamespace) { Network::None } else { Network::Host };
        Ok(Isolation { layers, limits, missing, network })
    }
}

/// The limits that the run loop enforces.
fn own_limits(limits: &Limits) -> [LimitInForce; 2] {
    let own = |limit, max| LimitInForce { limit, max, by: "supervisor".to_owned() };
    [own(LimitKind::Wall, limits.wall_ms_max), own(LimitKind::Log, limits.log_bytes_max)]
}

/// The size of the private `/tmp`, read back; the kernel rounds it up to whole pages of at most 64 KiB.
fn tmp_limit(limits: &Limits, scratch: Option<&OwnedFd>) -> Result<LimitInForce, SandboxError> {
    let wanted = tmp_bytes_max(limits);
    match scratch.and_then(figures::size_bytes) {
        Some(max) if max >= wanted && max - wanted < 65_536 => {
            Ok(LimitInForce { limit: LimitKind::Tmp, max, by: "tmpfs".to_owned() })
        }
        other => Err(SandboxError::LimitMissing {
            limit: LimitKind::Tmp,
            reason: format!("the private /tmp reads {other:?} bytes after {wanted} were asked for"),
            remedy: "check that tmpfs can be mounted".to_owned(),
        }),
    }
}
