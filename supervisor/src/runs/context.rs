//! State that all runs of a supervisor share: sandbox, toolchain, clock, scheduler. Nothing here belongs to one session
//! or tenant.

use crate::clock::Clock;
use crate::history::History;
use crate::host::monitor::HostMonitor;
use crate::host::toolchain::Toolchain;
use crate::ops::audit::Audit;
use crate::runs::RunThreads;
use crate::runs::scheduler::Scheduler;
use crate::telemetry::counters::Counters;
use proctor_sandbox::{Sandbox, release_memory};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

/// State that all sessions share.
pub struct Context {
    /// Runs the tests in isolation.
    pub sandbox: Arc<dyn Sandbox>,
    /// Finds programs and builds the environment of runs.
    pub toolchain: Toolchain,
    /// The supervisor's clock.
    pub clock: Clock,
    /// Records security-relevant events.
    pub audit: Audit,
    /// Hands out turns on the host.
    pub scheduler: Scheduler,
    /// Tracks whether this host can run anything.
    pub host: HostMonitor,
    /// Limits the workspace scans of all tenants together.
    pub scan_permits: ScanPermits,
    /// Counts calls, runs and scans.
    pub counters: Arc<Counters>,
    /// Records finished runs.
    pub history: History,
    /// Executes the runs.
    pub run_threads: RunThreads,
}

/// Limits concurrent workspace scans, each of which occupies a thread for as long as the disk takes to answer. Scans of
/// runs take permits of the tenant and of the host, as do the other calls of a tenant.
///
/// Each scan has a memory budget: [`SCAN_BYTES_SMALL`](proctor_core::bounds::SCAN_BYTES_SMALL), and a few
/// [`SCAN_BYTES_LARGE`](proctor_core::bounds::SCAN_BYTES_LARGE). All scans of a host together take at most 512 MiB, those of one
/// tenant 128 MiB.
#[derive(Debug, Clone)]
pub struct ScanPermits {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl ScanPermits {
    /// Permits for all tenants together: more than the disks of a host serve at a time.
    #[must_use]
    pub fn for_host() -> ScanPermits {
        ScanPermits::new(256, 4)
    }

    /// Permits for one tenant. A tenant with unreadable disks or large workspaces leaves most threads and memory to
    /// others.
    #[must_use]
    pub fn for_tenant() -> ScanPermits {
        ScanPermits::new(64, 1)
    }

    fn new(all: usize, large: usize) -> ScanPermits {
        ScanPermits { all: Arc::new(Semaphore::new(all)), large: Arc::new(Semaphore::new(large)) }
    }

    /// Waits for a permit for one scan. Dropping it releases it.
    pub async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// Runs `scan` under a permit on a runtime thread that may block.
    pub async fn scan<T: Send + 'static>(&self, scan: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        let permit = self.acquire().await;
        let handle = spawn_blocking(move || {
            // The scan keeps its permit even if its caller has gone away.
            let _permit = permit;
            scan()
        });
        handle.await
    }
}

/// Permits of the tenant and of the host for one workspace scan. Dropping them releases them.
#[derive(Debug)]
pub struct ScanPermit {
    sources: [ScanPermits; 2],
    all: [Option<OwnedSemaphorePermit>; 2],
    large: Option<[OwnedSemaphorePermit; 2]>,
}

impl ScanPermit {
    /// Waits for permits for a small scan.
    pub async fn acquire(tenant: &ScanPermits, host: &ScanPermits) -> ScanPermit {
        // The tenant's permit first: a caller that waits for its own tenant must not hold a permit of the host.
        let all = [tenant.acquire().await, host.acquire().await];
        ScanPermit { sources: [tenant.clone(), host.clone()], all, large: None }
    }

    /// Tries to upgrade to a large scan. Returns whether the permits are large now.
    pub fn try_enlarge(&mut self) -> bool {
        let more = |permits: &ScanPermits| Arc::clone(&permits.large).try_acquire_owned().ok();
        let [tenant, host] = &self.sources;
        self.large = self.large.take().or_else(|| Some([more(tenant)?, more(host)?]));
        self.large.is_some()
    }

    /// Waits for permits for a large scan. The small ones are released meanwhile.
    pub async fn enlarge(mut self) -> ScanPermit {
        self.all = [None, None];
        let [tenant, host] = self.sources.clone().map(|permits| permits.large);
        if let (Ok(tenant), Ok(host)) = (tenant.acquire_owned().await, host.acquire_owned().await) {
            self.large = Some([tenant, host]);
        }
        let [tenant, host] = &self.sources;
        self.all = [tenant.acquire().await, host.acquire().await];
        self
    }
}

impl Drop for ScanPermit {
    fn drop(&mut self) {
        // A large scan leaves freed memory in the allocator that the small scans after it cannot use.
        if self.large.is_some() {
            release_memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_scan_keeps_its_permit_when_its_caller_goes_away() {
        let permits = ScanPermits::for_tenant();
        let others: Vec<_> = (1..permits.all.available_permits()).map(|_| permits.acquire().now_or_never()).collect();
        let (go, gate) = std::sync::mpsc::sync_channel::<()>(0);
        // The scan has begun, and its caller goes away.
        assert!(permits.scan(move || gate.recv()).now_or_never().is_none());
        assert!(permits.acquire().now_or_never().is_none(), "the tenant has no permit left");
        assert_eq!(ScanPermits::for_tenant().scan(|| 7).await.unwrap(), 7, "another tenant's scans are not affected");
        go.send(()).unwrap();
        assert!(permits.acquire().await.is_some());
        drop(others);
    }

    #[tokio::test]
    async fn large_scans_are_limited_per_tenant_and_per_host() {
        let (host, tenant) = (ScanPermits::for_host(), ScanPermits::for_tenant());
        let small = async |tenant: &ScanPermits| ScanPermit::acquire(tenant, &host).await;
        let (mut first, mut second) = (small(&tenant).await, small(&tenant).await);
        assert!(first.try_enlarge() && first.try_enlarge() && !second.try_enlarge(), "a tenant has one large permit");
        let mut others = Vec::new();
        for _ in 1..4 {
            let mut other = small(&ScanPermits::for_tenant()).await;
            assert!(other.try_enlarge());
            others.push(other);
        }
        assert!(!small(&ScanPermits::for_tenant()).await.try_enlarge(), "the host has four large permits");
        // A scan that waits for a large permit holds no small one.
        let mut waiting = Box::pin(second.enlarge());
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
