//! What every run of a supervisor shares: the sandbox, the toolchain, the clock, the scheduler. Nothing in it
//! belongs to a session or a tenant.

use crate::clock::Clock;
use crate::host::monitor::HostMonitor;
use crate::host::toolchain::Toolchain;
use crate::ops::audit::Audit;
use crate::runs::scheduler::Scheduler;
use crate::tenants::allowance::{Gauge, RetainedQuota};
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::quota::Quota;
use proctor_sandbox::{RunAs, Sandbox, release_memory};
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
    /// Whether this host can run anything.
    pub host: HostMonitor,
    /// ScanPermits that are on, of all tenants.
    pub looks: ScanPermits,
}

/// ScanPermits at workspaces that go on at once, each on a thread: those of runs, and for a tenant those of its other calls too. A
/// disk that does not answer holds them for as long.
///
/// Each has its memory: [`BYTES_SMALL`](crate::workspace::BYTES_SMALL), and a few of them
/// [`BYTES_LARGE`](crate::workspace::BYTES_LARGE). So the looks of a host take at most 512 MiB together, those of a tenant 128.
#[derive(Debug, Clone)]
pub struct ScanPermits {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl ScanPermits {
    /// Of all tenants: more than the disks of a host serve at a time.
    #[must_use]
    pub fn of_host() -> ScanPermits {
        ScanPermits::new(256, 4)
    }

    /// Of one tenant: what it cannot read, and what is large, leaves most threads and memory to others.
    #[must_use]
    pub fn of_tenant() -> ScanPermits {
        ScanPermits::new(64, 1)
    }

    fn new(all: usize, large: usize) -> ScanPermits {
        ScanPermits { all: Arc::new(Semaphore::new(all)), large: Arc::new(Semaphore::new(large)) }
    }

    /// Waits until there may be one more; there is until what is returned is dropped.
    pub async fn one_more(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// ScanPermits, on a thread of the runtime's that may block.
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

/// Room for one look at all files of a workspace, of its tenant's and of the host's, until this is dropped.
#[derive(Debug)]
pub struct ScanPermit {
    looks: [ScanPermits; 2],
    all: [Option<OwnedSemaphorePermit>; 2],
    large: Option<[OwnedSemaphorePermit; 2]>,
}

impl ScanPermit {
    /// Waits for room for a small look.
    pub async fn small(tenant: &ScanPermits, host: &ScanPermits) -> ScanPermit {
        // The tenant's first: who waits for its own holds nothing of the host's.
        let all = [tenant.one_more().await, host.one_more().await];
        ScanPermit { looks: [tenant.clone(), host.clone()], all, large: None }
    }

    /// Makes it room for a large look, if there is any now.
    pub fn grow(&mut self) -> bool {
        let more = |looks: &ScanPermits| Arc::clone(&looks.large).try_acquire_owned().ok();
        let [tenant, host] = &self.looks;
        self.large = self.large.take().or_else(|| Some([more(tenant)?, more(host)?]));
        self.large.is_some()
    }

    /// Waits until it is room for a large look, and meanwhile is none for a small one.
    pub async fn grown(mut self) -> ScanPermit {
        self.all = [None, None];
        let [tenant, host] = self.looks.clone().map(|looks| looks.large);
        if let (Ok(of_tenant), Ok(of_host)) = (tenant.acquire_owned().await, host.acquire_owned().await) {
            self.large = Some([of_tenant, of_host]);
        }
        let [tenant, host] = &self.looks;
        self.all = [tenant.one_more().await, host.one_more().await];
        self
    }
}

impl Drop for ScanPermit {
    fn drop(&mut self) {
        // What a large look has taken is of no use to what comes next, which is small.
        if self.large.is_some() {
            release_memory();
        }
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
    pub queued: Arc<Gauge>,
    /// What is kept of its runs, all sessions together.
    pub kept: RetainedQuota,
    /// ScanPermits at its workspaces that are on.
    pub looks: ScanPermits,
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
        let looks = ScanPermits::of_tenant();
        let others: Vec<_> = (1..looks.all.available_permits()).map(|_| looks.one_more().now_or_never()).collect();
        let (go, gate) = std::sync::mpsc::sync_channel::<()>(0);
        // It is begun, and nobody waits for its end any more.
        assert!(looks.look(move || gate.recv()).now_or_never().is_none());
        assert!(looks.one_more().now_or_never().is_none(), "all of the tenant's are on");
        assert_eq!(ScanPermits::of_tenant().look(|| 7).await.unwrap(), 7, "another tenant's are not");
        go.send(()).unwrap();
        assert!(looks.one_more().await.is_some());
        drop(others);
    }

    #[tokio::test]
    async fn large_looks_are_few_of_a_tenant_and_of_the_host_and_the_next_waits_for_one_to_end() {
        let (host, tenant) = (ScanPermits::of_host(), ScanPermits::of_tenant());
        let small = async |tenant: &ScanPermits| ScanPermit::small(tenant, &host).await;
        let (mut first, mut second) = (small(&tenant).await, small(&tenant).await);
        assert!(first.grow() && first.grow() && !second.grow(), "its tenant has one");
        let mut others = Vec::new();
        for _ in 1..4 {
            let mut other = small(&ScanPermits::of_tenant()).await;
            assert!(other.grow());
            others.push(other);
        }
        assert!(!small(&ScanPermits::of_tenant()).await.grow(), "the host has four");
        // It holds no place of a small one while it waits.
        let mut waiting = Box::pin(second.grown());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(tenant.all.available_permits(), 63);
        drop(first);
        let second = waiting.await;
        assert_eq!((tenant.large.available_permits(), host.large.available_permits()), (0, 0));
        drop((second, others));
        assert_eq!((tenant.all.available_permits(), tenant.large.available_permits()), (64, 1));
        assert_eq!((host.all.available_permits(), host.large.available_permits()), (256, 4));
    }
}
