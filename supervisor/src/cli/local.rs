//! proctor without a daemon: the same session actor, in this process, for the workspace at hand. Must not know what is
//! asked of it.

use super::Failure;
use super::home;
use super::remember::Remembered;
use crate::caches;
use crate::clock::Clock;
use crate::context::{Context, Policy};
use crate::registry::random_id;
use crate::session::{self, Memory, SessionHandle};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use proctor_core::isolation::Network;
use proctor_core::limits::Limits;
use proctor_sandbox::{LinuxSandbox, RunAs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Variable that names the worker binary when it is not beside this one.
const WORKER: &str = "PROCTOR_WORKER";

/// The worker binary: beside this program, unless the environment names another.
pub(super) fn worker() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(WORKER) {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe().map_err(|error| Failure::host(format!("where am I: {error}")))?;
    Ok(own.with_file_name("proctor-worker"))
}

/// What runs on this host share, for `runs_max` of them at the same time. Clears up after supervisors that were killed.
pub(super) fn context(runs_max: usize) -> Result<Arc<Context>, Failure> {
    let sandbox = sandbox()?;
    sandbox.sweep();
    Ok(context_of(sandbox, runs_max))
}

/// The same for a command that only looks at this host.
pub(super) fn context_to_look() -> Result<Arc<Context>, Failure> {
    Ok(context_of(sandbox()?, 1))
}

fn sandbox() -> Result<LinuxSandbox, Failure> {
    let worker = worker()?;
    let missing =
        || format!("{} is missing: it belongs beside the proctor binary, or where {WORKER} says", worker.display());
    if !worker.is_file() {
        return Err(Failure::host(missing()));
    }
    LinuxSandbox::new(worker.clone()).map_err(|error| Failure::host(error.to_string()))
}

fn context_of(sandbox: LinuxSandbox, runs_max: usize) -> Arc<Context> {
    Arc::new(Context {
        sandbox: Arc::new(sandbox),
        toolchain: Toolchain::from_env(|name| std::env::var_os(name)),
        clock: Clock::new(),
        turns: Arc::new(Semaphore::new(runs_max)),
    })
}

/// What a run may have when nobody but its own user sets bounds: what is available, and the network if asked for.
pub(super) fn policy(cache: PathBuf) -> Policy {
    Policy {
        owner: "private".to_owned(),
        run_as: RunAs::Supervisor,
        defaults: Limits::DEFAULT,
        ceiling: Limits::CEILING,
        required_layers: Vec::new(),
        require_limits: false,
        may_use_network: true,
        network: Network::None,
        cache,
        cache_bytes_max: caches::BYTES_MAX,
    }
}

/// The workspace at `path`.
pub(super) fn workspace(path: &Path) -> Result<Workspace, Failure> {
    let absolute = std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Workspace::open(&absolute).map_err(|error| Failure::usage(format!("workspace {}: {error}", path.display())))
}

/// A session on `workspace` that remembers what the last command here knew.
pub(super) fn session(workspace: Workspace) -> Result<(SessionHandle, Remembered), Failure> {
    let remembered = Remembered::of(&workspace);
    let context = context(1)?;
    let id = random_id().ok_or_else(|| Failure::host("no random numbers"))?;
    let memory: Memory = remembered.memory()?.unwrap_or_default();
    let policy = Arc::new(policy(home::cache()));
    let (handle, _actor) = session::open(id, context, policy, workspace, memory);
    Ok((handle, remembered))
}

/// A runtime with a thread per processor.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::host(format!("no runtime: {error}")))
}
