//! proctor without a daemon: the same session actor, in this process, for the workspace at hand. Must not know what is
//! asked of it.

use super::Failure;
use super::last_run_store::Remembered;
use super::xdg_dirs;
use crate::caches;
use crate::clock::Clock;
use crate::host::monitor::HostMonitor;
use crate::host::toolchain::{Toolchain, ToolchainConfig};
use crate::ops::audit::Audit;
use crate::random_id::random_id;
use crate::runs::context::{Context, Policy, ScanPermits};
use crate::runs::scheduler::Scheduler;
use crate::sessions::{self, SessionHandle, SessionMemory};
use crate::tenants::allowance::RetainedQuota;
use crate::workspace::{Workspace, WorkspaceError};
use proctor_core::isolation::Network;
use proctor_core::limits::Limits;
use proctor_core::quota::{Amount, Quota};
use proctor_sandbox::{LinuxSandbox, PoolBounds, RunAs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Variable that names the worker binary when it is not beside this one.
const WORKER: &str = "PROCTOR_WORKER";

/// The worker binary: beside this program, unless the environment names another.
pub(super) fn worker() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(WORKER) {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe()
        .map_err(|error| Failure::host(format!("the path of this program cannot be read: {error}")))?;
    Ok(own.with_file_name("proctor-worker"))
}

/// What is one host file's to say about the host.
pub(super) struct Shared {
    /// What there is for runs.
    pub(super) budget: Amount,
    /// Bounds of prepared workers.
    pub(super) pool: PoolBounds,
    /// What runs see of toolchains.
    pub(super) offer: ToolchainConfig,
    /// The one clock.
    pub(super) clock: Clock,
    /// Where it is written who did what, if anywhere.
    pub(super) audit: Option<Audit>,
}

impl Shared {
    /// For one workspace of one user, with workers prepared within `pool`.
    pub(super) fn alone(pool: PoolBounds) -> Shared {
        Shared { budget: Amount::UNBOUNDED, pool, offer: ToolchainConfig::empty(), clock: Clock::new(), audit: None }
    }
}

/// What runs on this host share. Clears up after supervisors that were killed.
pub(super) fn context(shared: Shared) -> Result<Arc<Context>, Failure> {
    raise_descriptors();
    let sandbox = sandbox(shared.pool)?;
    sandbox.sweep();
    Ok(context_of(sandbox, shared))
}

// Each prepared worker holds some twenty descriptors, more together than the 1,024 that a shell gives. A run's own number
// is bounded by its worker.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the soft limit of open files stays as it is");
    }
}

/// The same for a command that only looks at this host.
pub(super) fn context_to_look() -> Result<Arc<Context>, Failure> {
    let shared = Shared::alone(PoolBounds::NONE);
    Ok(context_of(sandbox(shared.pool)?, shared))
}

fn sandbox(pool: PoolBounds) -> Result<LinuxSandbox, Failure> {
    let worker = worker()?;
    let missing =
        || format!("{} is missing: it belongs beside the proctor binary, or where {WORKER} says", worker.display());
    if !worker.is_file() {
        return Err(Failure::host(missing()));
    }
    LinuxSandbox::new(worker.clone(), pool).map_err(|error| Failure::host(error.to_string()))
}

fn context_of(sandbox: LinuxSandbox, Shared { budget, offer, audit, clock, .. }: Shared) -> Arc<Context> {
    Arc::new(Context {
        sandbox: Arc::new(sandbox),
        toolchain: toolchain(offer),
        clock,
        audit: audit.unwrap_or_else(Audit::off),
        host: HostMonitor::new(clock),
        scheduler: Scheduler::start(clock, budget),
        scan_permits: ScanPermits::for_host(),
    })
}

/// The toolchains that this process's own environment leads to.
pub(super) fn toolchain(offer: ToolchainConfig) -> Toolchain {
    Toolchain::from_env(|name| std::env::var_os(name), offer)
}

/// The user id of this process.
pub(super) fn own_uid() -> Result<u32, Failure> {
    let own = std::fs::metadata("/proc/self").map_err(|error| Failure::host(format!("/proc: {error}")))?;
    Ok(own.uid())
}

/// What a run in `workspace` may have when nobody but its own user sets bounds: what is available, and the network if
/// asked for.
pub(super) fn policy(workspace: &Workspace) -> Result<Policy, Failure> {
    let run_as = run_as(workspace)?;
    Ok(Policy {
        owner: "private".to_owned(),
        quota: Quota { running_runs_max: 1, ..Quota::UNBOUNDED },
        queued: Arc::default(),
        retained: RetainedQuota::unbounded(),
        scan_permits: ScanPermits::for_tenant(),
        run_as,
        owner_uids: None,
        defaults: Limits::DEFAULT,
        timeouts: BTreeMap::new(),
        ceiling: Limits::CEILING,
        required_layers: Vec::new(),
        left_off: Vec::new(),
        require_limits: false,
        may_use_network: true,
        network: Network::None,
        cache: xdg_dirs::cache(run_as),
        cache_bytes_max: caches::BYTES_MAX,
    })
}

// Root runs nobody's tests as root: a workspace's own user runs them, or for root's own workspaces nobody at all.
fn run_as(workspace: &Workspace) -> Result<RunAs, Failure> {
    let found = std::fs::symlink_metadata(workspace.root());
    let found = found.map_err(|error| Failure::host(format!("the workspace: {error}")))?;
    Ok(match (own_uid()?, found.uid(), found.gid()) {
        (1.., _, _) => RunAs::Supervisor,
        (0, 0, gid) => RunAs::Nobody { owner_uid: 0, owner_gid: gid },
        // Root's group is no other user's, whatever a directory says.
        (0, uid, 0) => RunAs::User { uid, gid: uid },
        (0, uid, gid) => RunAs::User { uid, gid },
    })
}

/// How a path that somebody named and that cannot be had ends a command.
pub(super) fn unseen(what: &str, error: &WorkspaceError) -> Failure {
    match error {
        WorkspaceError::Host(_) => Failure::host(format!("{what}: {error}")),
        _ => Failure::usage(format!("{what}: {error}")),
    }
}

/// The workspace at `path`.
pub(super) fn workspace(path: &Path) -> Result<Workspace, Failure> {
    let absolute = std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Workspace::open(&absolute).map_err(|error| unseen(&format!("workspace {}", path.display()), &error))
}

/// Where in `workspace` this process is; nowhere, if it is elsewhere.
pub(super) fn below(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|error| Failure::host(format!("the working directory: {error}")))?;
    Ok(here.strip_prefix(workspace.root()).map(Path::to_path_buf).unwrap_or_default())
}

/// A session on `workspace` that remembers what the last command here knew.
pub(super) fn session(workspace: Workspace) -> Result<(SessionHandle, Remembered), Failure> {
    let remembered = Remembered::of(&workspace);
    let context = context(Shared::alone(PoolBounds::NONE))?;
    let id = random_id().ok_or_else(|| Failure::host("the kernel gives no random numbers"))?;
    let memory: SessionMemory = remembered.memory()?.unwrap_or_default();
    let policy = Arc::new(policy(&workspace)?);
    let (handle, _actor) = sessions::open(id, context, policy, workspace, memory);
    Ok((handle, remembered))
}

/// A runtime with a thread for every second processor: its tasks only hand on what others have made, and threads that look
/// for such work stand in the way of the runs.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.div_ceil(2))
        .enable_all()
        .build()
        .map_err(|error| Failure::host(format!("no runtime: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn as_many_files_may_be_open_as_the_host_allows() {
        let limit = getrlimit(Resource::Nofile);
        let lower = Some(limit.maximum.map_or(4_096, |most| most - 1));
        setrlimit(Resource::Nofile, Rlimit { current: lower, ..limit }).unwrap();
        raise_descriptors();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: limit.maximum, ..limit });
    }

    #[test]
    fn root_runs_a_workspace_as_the_user_to_whom_it_belongs() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        if own_uid().unwrap() != 0 {
            assert_eq!(run_as(&workspace).unwrap(), RunAs::Supervisor);
            return;
        }
        for (owner, expected) in [
            ((0, 0), RunAs::Nobody { owner_uid: 0, owner_gid: 0 }),
            ((1_000, 1_001), RunAs::User { uid: 1_000, gid: 1_001 }),
            ((1_000, 0), RunAs::User { uid: 1_000, gid: 1_000 }),
        ] {
            chown(dir.path(), Some(owner.0), Some(owner.1)).unwrap();
            assert_eq!(run_as(&workspace).unwrap(), expected);
        }
    }
}
