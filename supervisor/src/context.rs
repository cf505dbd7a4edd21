//! What every run of a supervisor shares: the sandbox, the toolchain, the clock, the scheduler. Nothing in it
//! belongs to a session or a tenant.

use crate::allowance::{Count, Kept};
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
use tokio::task::{JoinError, spawn_blocking};

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
    /// Looks of all runs that are on.
    pub looks: Looks,
}

/// Looks at workspaces that go on at once, each on a thread: those of runs, and for a tenant those of its other calls too. A
/// disk that does not answer holds them for as long.
#[derive(Debug, Clone)]
pub struct Looks(Arc<Semaphore>);

impl Looks {
    /// Of all runs: more than the disks of a host serve at a time.
    #[must_use]
    pub fn of_host() -> Looks {
        Looks(Arc::new(Semaphore::new(256)))
    }

    /// Of one tenant: what it cannot read leaves most threads to others.
    #[must_use]
    pub fn of_tenant() -> Looks {
        Looks(Arc::new(Semaphore::new(64)))
    }

    /// Waits until there may be one more; there is until what is returned is dropped.
    pub async fn one_more(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }

    /// Looks, on a thread of the runtime's that may block.
    pub async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        let one_more = self.one_more().await;
        let looked = spawn_blocking(move || {
            // Also when nobody waits for it any more.
            let _one_more = one_more;
            look()
        });
        looked.await
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
    /// What is kept of its runs, all sessions together.
    pub kept: Kept,
    /// Looks at its workspaces that are on.
    pub looks: Looks,
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
    /// Directory that outlives runs, for the build caches of the tenant's workspaces ([`RunCache`](crate::caches::RunCache)).
    /// Without one the caches of a run go with it.
    pub cache: Option<PathBuf>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_look_takes_its_place_until_it_is_over_whoever_waits_for_it() {
        let looks = Looks::of_tenant();
        let others: Vec<_> = (1..looks.0.available_permits()).map(|_| looks.one_more().now_or_never()).collect();
        let (go, gate) = std::sync::mpsc::sync_channel::<()>(0);
        // It is begun, and nobody waits for its end any more.
        assert!(looks.look(move || gate.recv()).now_or_never().is_none());
        assert!(looks.one_more().now_or_never().is_none(), "all of the tenant's are on");
        assert_eq!(Looks::of_tenant().look(|| 7).await.unwrap(), 7, "another tenant's are not");
        go.send(()).unwrap();
        assert!(looks.one_more().await.is_some());
        drop(others);
    }
}
