//! proctor without a daemon: a session actor in this process, for the workspace at hand.

use super::CommandError;
use super::last_run_store::LastRunStore;
use super::xdg_dirs;
use crate::clock::Clock;
use crate::history::History;
use crate::host::monitor::HostMonitor;
use crate::host::toolchain::{Toolchain, ToolchainConfig};
use crate::ops::audit::Audit;
use crate::random_id::random_id;
use crate::runs::RunThreads;
use crate::runs::context::{Context, ScanPermits};
use crate::runs::scheduler::Scheduler;
use crate::sessions::{self, SessionHandle, SessionMemory};
use crate::tenants::policy::Policy;
use crate::workspace::{Workspace, WorkspaceError};
use proctor_core::quota::{Amount, Quota};
use proctor_sandbox::{LinuxSandbox, PoolBounds, RunAs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names the worker binary if it is not beside this program.
const WORKER: &str = "PROCTOR_WORKER";

/// The worker binary: beside this program, unless the environment names another.
pub(super) fn worker() -> Result<PathBuf, CommandError> {
    if let Some(path) = std::env::var_os(WORKER) {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe()
        .map_err(|error| CommandError::host(format!("the path of this program cannot be read: {error}")))?;
    Ok(own.with_file_name("proctor-worker"))
}

/// Host-wide settings, from a host file or for a single user.
pub(super) struct HostSettings {
    /// Resources for runs.
    pub(super) budget: Amount,
    /// Bounds of prepared workers.
    pub(super) pool: PoolBounds,
    /// Directories of toolchains.
    pub(super) toolchains: ToolchainConfig,
    pub(super) clock: Clock,
    /// The audit log, if there is one.
    pub(super) audit: Option<Audit>,
}

impl HostSettings {
    /// Settings for one workspace of one user, with workers prepared within `pool`.
    pub(super) fn for_single_user(pool: PoolBounds) -> HostSettings {
        HostSettings {
            budget: Amount::UNBOUNDED,
            pool,
            toolchains: ToolchainConfig::empty(),
            clock: Clock::new(),
            audit: None,
        }
    }
}

/// Creates the shared state of runs. Removes leftovers of killed supervisors.
pub(super) fn context(settings: HostSettings) -> Result<Arc<Context>, CommandError> {
    raise_descriptors();
    let sandbox = sandbox(settings.pool)?;
    sandbox.sweep();
    Ok(new_context(sandbox, settings))
}

// Each prepared worker holds some twenty descriptors, together more than the 1,024 that a shell allows. The worker sets
// its run's own limit.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the soft limit of open files cannot be raised");
    }
}

/// Like [`context`], for a command that only inspects this host: removes nothing and prepares no workers.
pub(super) fn read_only_context() -> Result<Arc<Context>, CommandError> {
    let settings = HostSettings::for_single_user(PoolBounds::NONE);
    Ok(new_context(sandbox(settings.pool)?, settings))
}

fn sandbox(pool: PoolBounds) -> Result<LinuxSandbox, CommandError> {
    let worker = worker()?;
    let missing = || {
        format!(
            "{} does not exist: install it beside the proctor binary, or set {WORKER} to its path",
            worker.display()
        )
    };
    if !worker.is_file() {
        return Err(CommandError::host(missing()));
    }
    LinuxSandbox::new(worker.clone(), pool).map_err(|error| CommandError::host(error.to_string()))
}

fn new_context(
    sandbox: LinuxSandbox,
    HostSettings { budget, toolchains, audit, clock, .. }: HostSettings,
) -> Arc<Context> {
    Arc::new(Context {
        sandbox: Arc::new(sandbox),
        toolchain: toolchain(toolchains),
        clock,
        audit: audit.unwrap_or_else(Audit::off),
        host: HostMonitor::new(clock),
        scheduler: Scheduler::start(clock, budget),
        scan_permits: ScanPermits::for_host(),
        counters: Arc::default(),
        history: History::start(),
        run_threads: RunThreads::default(),
    })
}

/// The toolchains found through this process's environment.
pub(super) fn toolchain(toolchain_config: ToolchainConfig) -> Toolchain {
    Toolchain::from_env(|name| std::env::var_os(name), toolchain_config)
}

/// The user id of this process.
pub(super) fn own_uid() -> Result<u32, CommandError> {
    let own = std::fs::metadata("/proc/self").map_err(|error| CommandError::host(format!("/proc: {error}")))?;
    Ok(own.uid())
}

/// The policy for a run in `workspace` that only its own user bounds: the available layers, and the network on request.
pub(super) fn policy(workspace: &Workspace) -> Result<Policy, CommandError> {
    let run_as = run_as(workspace)?;
    Ok(Policy {
        quota: Quota { running_runs_max: 1, ..Quota::UNBOUNDED },
        run_as,
        may_use_network: true,
        cache: xdg_dirs::cache(run_as),
        history: xdg_dirs::history(),
        ..Policy::new("private")
    })
}

// As root, tests never run as root: they run as the workspace's owner, or as an unprivileged user if root owns it.
fn run_as(workspace: &Workspace) -> Result<RunAs, CommandError> {
    let found = std::fs::symlink_metadata(workspace.root());
    let found = found.map_err(|error| CommandError::host(format!("the workspace: {error}")))?;
    Ok(match (own_uid()?, found.uid(), found.gid()) {
        (1.., _, _) => RunAs::Supervisor,
        (0, 0, gid) => RunAs::Nobody { owner_uid: 0, owner_gid: gid },
        // Root's group is never used, whatever the directory's group is.
        (0, uid, 0) => RunAs::User { uid, gid: uid },
        (0, uid, gid) => RunAs::User { uid, gid },
    })
}

/// Converts the error of a path given by the user.
pub(super) fn path_failure(what: &str, error: &WorkspaceError) -> CommandError {
    match error {
        WorkspaceError::Host(_) => CommandError::host(format!("{what}: {error}")),
        _ => CommandError::usage(format!("{what}: {error}")),
    }
}

/// Opens the workspace at `path`.
pub(super) fn workspace(path: &Path) -> Result<Workspace, CommandError> {
    let absolute =
        std::path::absolute(path).map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
    Workspace::open(&absolute).map_err(|error| path_failure(&format!("workspace {}", path.display()), &error))
}

/// The working directory relative to `workspace`; empty if it is elsewhere.
pub(super) fn current_dir_in(workspace: &Workspace) -> Result<PathBuf, CommandError> {
    let here =
        std::env::current_dir().map_err(|error| CommandError::host(format!("the working directory: {error}")))?;
    Ok(here.strip_prefix(workspace.root()).map(Path::to_path_buf).unwrap_or_default())
}

/// Opens a session on `workspace` with the memory of the last command there.
pub(super) fn session(workspace: Workspace) -> Result<(SessionHandle, LastRunStore), CommandError> {
    let store = LastRunStore::for_workspace(&workspace);
    let context = context(HostSettings::for_single_user(PoolBounds::NONE))?;
    let id = random_id().ok_or_else(|| CommandError::host("the kernel gives no random numbers"))?;
    let memory: SessionMemory = store.memory()?.unwrap_or_default();
    let policy = policy(&workspace)?;
    let (handle, _actor) = sessions::open(id, context, policy, workspace, memory);
    Ok((handle, store))
}

/// Opens `count` sessions on `workspace` whose runs can go on at the same time. They know nothing of earlier runs, and their
/// own are recorded nowhere.
pub(super) fn unrecorded_sessions(workspace: &Workspace, count: usize) -> Result<Vec<SessionHandle>, CommandError> {
    let context = context(HostSettings::for_single_user(PoolBounds::NONE))?;
    let quota = Quota { running_runs_max: u32::try_from(count).unwrap_or(u32::MAX), ..Quota::UNBOUNDED };
    let policy = Policy { quota, history: None, ..policy(workspace)? };
    let open = |_| {
        let id = random_id().ok_or_else(|| CommandError::host("the kernel gives no random numbers"))?;
        let memory = SessionMemory::default();
        let (handle, _actor) = sessions::open(id, Arc::clone(&context), policy.clone(), workspace.clone(), memory);
        Ok(handle)
    };
    (0..count.max(1)).map(open).collect()
}

/// A runtime with one thread per two processors: its tasks only pass data on, and idle threads looking for work slow
/// the runs down.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.div_ceil(2))
        .enable_all()
        .build()
        .map_err(|error| CommandError::host(format!("no runtime: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn raises_the_soft_limit_of_open_files() {
        let limit = getrlimit(Resource::Nofile);
        let lower = Some(limit.maximum.map_or(4_096, |most| most - 1));
        setrlimit(Resource::Nofile, Rlimit { current: lower, ..limit }).unwrap();
        raise_descriptors();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: limit.maximum, ..limit });
    }

    #[test]
    fn root_runs_tests_as_the_owner_of_the_workspace() {
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
