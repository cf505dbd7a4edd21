//! What every run of a supervisor shares: the sandbox, the toolchain, the clock, the scheduler. Nothing in it
//! belongs to a session or a tenant.

use crate::allowance::Count;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::scheduler::Scheduler;
use crate::toolchain::Toolchain;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::quota::Quota;
use proctor_sandbox::{RunAs, Sandbox};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Shared by all sessions.
pub struct Context {
    /// The environment that runs tests.
    pub sandbox: Arc<dyn Sandbox>,
    /// Programs and the environment of runs.
    pub toolchain: Toolchain,
    /// The one clock.
    pub clock: Clock,
    /// Who did what, as far as it is kept.
    pub audit: Audit,
    /// Turns on the host.
    pub scheduler: Scheduler,
    /// Looks at workspaces that are on.
    pub looks: Looks,
}

/// Runs that look at their workspaces at once, each on its thread: more than the disks of a host serve at a time.
const LOOKS_MAX: usize = 256;

/// How many runs look at their workspaces.
pub struct Looks(Arc<Semaphore>);

impl Default for Looks {
    fn default() -> Looks {
        Looks(Arc::new(Semaphore::new(LOOKS_MAX)))
    }
}

impl Looks {
    /// Waits until one more run may look; it does until what is returned is dropped.
    pub async fn one_more(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

/// What one session's runs may have: the tenant's policy, already narrowed by the host's.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Whose policy it is: the tenant's name. What the sandbox prepares for one owner never serves another.
    pub owner: String,
    /// What its runs may have of the host together, and its weight against other tenants.
    pub quota: Quota,
    /// How many of its runs wait, in their sessions or for their turn on the host.
    pub queued: Arc<Count>,
    /// What is kept of its runs that have ended, in bytes.
    pub kept: Arc<Count>,
    /// How many bytes that may be, all sessions together.
    pub kept_bytes_max: u64,
    /// Who the runs are on this host.
    pub run_as: RunAs,
    /// The users of this host to one of whom a workspace must belong; `None` for whoever it belongs to.
    pub owners: Option<RangeInclusive<u32>>,
    /// Limits of a run that asks for nothing.
    pub defaults: Limits,
    /// Milliseconds of wall time of a run that asks for none, by framework, where the operator has set them.
    pub timeouts: BTreeMap<String, u64>,
    /// Limits of a run that asks for everything.
    pub ceiling: Limits,
    /// Layers without which no run starts.
    pub required_layers: Vec<Layer>,
    /// Layers that no run shall have.
    pub left_off: Vec<Layer>,
    /// Whether limits must be enforced although nobody asked for them by name.
    pub require_limits: bool,
    /// Whether a run may have the host's network.
    pub may_use_network: bool,
    /// The network of a run that asks for nothing.
    pub network: Network,
    /// Directory that outlives runs, for build caches. The tenant's own.
    pub cache: PathBuf,
    /// Bytes that its caches may have between two runs, all together.
    pub cache_bytes_max: u64,
}

/// A tenant's policy as it is now: it changes when its operator changes the host file.
#[derive(Debug, Clone)]
pub struct CurrentPolicy(watch::Receiver<Arc<Policy>>);

impl CurrentPolicy {
    /// The policy for a run that begins now.
    #[must_use]
    pub fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.borrow())
    }
}

impl From<watch::Receiver<Arc<Policy>>> for CurrentPolicy {
    fn from(policies: watch::Receiver<Arc<Policy>>) -> CurrentPolicy {
        CurrentPolicy(policies)
    }
}

/// One that stays as it is.
impl From<Arc<Policy>> for CurrentPolicy {
    fn from(policy: Arc<Policy>) -> CurrentPolicy {
        CurrentPolicy(watch::channel(policy).1)
    }
}

impl Policy {
    /// Whether runs may work in a directory that belongs to this user.
    #[must_use]
    pub fn admits(&self, owner: u32) -> bool {
        self.owners.as_ref().is_none_or(|owners| owners.contains(&owner))
    }
}
