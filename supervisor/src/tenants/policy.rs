//! What a tenant's runs may use, and what they use now. A reload replaces the [`Policy`] as a whole and keeps the
//! [`TenantUsage`].

use crate::config::{Config, TenantTable, UidRange};
use crate::history::HistoryLocation;
use crate::runs::context::ScanPermits;
use crate::telemetry::counters::OutcomeCounters;
use crate::tenants::allowance::{Gauge, RetainedUsage};
use proctor_core::bounds::TENANT_CACHE_BYTES_MAX;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::quota::Quota;
use proctor_sandbox::RunAs;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// What the runs of one tenant may use, already narrowed by the host's own bounds. Never changed, only replaced.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The tenant's name. A worker that the sandbox prepares for one owner never serves another.
    pub owner: String,
    /// What the tenant's runs may use of the host together, and the tenant's weight against others.
    pub quota: Quota,
    /// The user that the runs have on this host.
    pub run_as: RunAs,
    /// UIDs allowed to own a workspace; `None` allows any.
    pub owner_uids: Option<RangeInclusive<u32>>,
    /// Limits of a run that asks for none.
    pub defaults: Limits,
    /// Default wall time in milliseconds by framework, where the operator has set one.
    pub timeouts: BTreeMap<String, u64>,
    /// Upper bounds for what a run may ask for.
    pub ceiling: Limits,
    /// Layers without which no run starts.
    pub required_layers: Vec<Layer>,
    /// Layers that the operator has switched off.
    pub left_off: Vec<Layer>,
    /// Whether limits must be enforced even if the request does not name them.
    pub require_limits: bool,
    /// Whether a run may have the host's network. A run that does not ask for it has none.
    pub may_use_network: bool,
    /// Directory for the build caches of the tenant's workspaces, which outlive runs
    /// ([`RunCache`](crate::caches::RunCache)). With `None`, the caches of a run are removed with it.
    pub cache: Option<PathBuf>,
    /// Bytes that all of these caches may hold between two runs.
    pub cache_bytes_max: u64,
    /// The history of the tenant's runs; `None` records nothing.
    pub history: Option<HistoryLocation>,
}

impl Policy {
    /// The policy of a single user without a host file: built-in limits, no quota, the available layers, no network, no
    /// caches and no history.
    #[must_use]
    pub fn new(owner: impl Into<String>) -> Policy {
        Policy {
            owner: owner.into(),
            quota: Quota::UNBOUNDED,
            run_as: RunAs::Supervisor,
            owner_uids: None,
            defaults: Limits::DEFAULT,
            timeouts: BTreeMap::new(),
            ceiling: Limits::CEILING,
            required_layers: Vec::new(),
            left_off: Vec::new(),
            require_limits: false,
            may_use_network: false,
            cache: None,
            cache_bytes_max: TENANT_CACHE_BYTES_MAX,
            history: None,
        }
    }

    /// The policy of the tenant in `table`, whose runs use the UIDs of `range` if there is one.
    #[must_use]
    pub(super) fn from_config(config: &Config, table: &TenantTable, range: Option<UidRange>) -> Policy {
        Policy {
            owner: table.id.clone(),
            quota: table.quota.quota(),
            run_as: range.map_or(RunAs::Supervisor, |range| RunAs::User { uid: range.first, gid: range.first }),
            owner_uids: range.map(UidRange::uids),
            defaults: config.defaults.apply_to(Limits::DEFAULT),
            timeouts: config.timeouts.iter().map(|(name, timeout)| (name.clone(), timeout.ms)).collect(),
            ceiling: config.ceiling(table),
            required_layers: config.sandbox.required(),
            left_off: config.sandbox.left_off.clone(),
            require_limits: true,
            may_use_network: table.network == Network::Host,
            cache: Some(config.state_dir.join("tenants").join(&table.id).join("cache")),
            cache_bytes_max: table.cache.map_or(TENANT_CACHE_BYTES_MAX, |size| size.bytes),
            history: Some(HistoryLocation::new(
                config.state_dir.join("tenants").join(&table.id).join("history"),
                table.quota.history_bytes_max(),
            )),
        }
    }

    /// Whether runs may work in a directory owned by UID `owner`.
    #[must_use]
    pub fn admits(&self, owner: u32) -> bool {
        self.owner_uids.as_ref().is_none_or(|owner_uids| owner_uids.contains(&owner))
    }
}

/// What the runs of one tenant use now: counters and permits, shared by all of its sessions.
#[derive(Debug)]
pub struct TenantUsage {
    /// Counts the runs that wait, in their sessions or for a turn on the host.
    pub queued: Arc<Gauge>,
    /// Counts what is retained of runs, all sessions together.
    pub retained: RetainedUsage,
    /// Limits the tenant's concurrent workspace scans.
    pub scan_permits: ScanPermits,
    /// Counts the ended test runs.
    pub runs: OutcomeCounters,
}

impl Default for TenantUsage {
    fn default() -> TenantUsage {
        TenantUsage {
            queued: Arc::default(),
            retained: RetainedUsage::default(),
            scan_permits: ScanPermits::for_tenant(),
            runs: OutcomeCounters::default(),
        }
    }
}

/// The tenant's policy, which changes when the operator edits the host file, and its usage.
#[derive(Debug, Clone)]
pub struct CurrentPolicy {
    policies: watch::Receiver<Arc<Policy>>,
    /// The tenant's usage.
    pub usage: Arc<TenantUsage>,
}

impl CurrentPolicy {
    /// The policies that `policies` sends.
    #[must_use]
    pub(super) fn new(policies: &watch::Sender<Arc<Policy>>, usage: &Arc<TenantUsage>) -> CurrentPolicy {
        CurrentPolicy { policies: policies.subscribe(), usage: Arc::clone(usage) }
    }

    /// The policy for a run that starts now.
    #[must_use]
    pub fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.policies.borrow())
    }
}

/// A policy that never changes, of a tenant that uses nothing yet.
impl From<Policy> for CurrentPolicy {
    fn from(policy: Policy) -> CurrentPolicy {
        CurrentPolicy { policies: watch::channel(Arc::new(policy)).1, usage: Arc::default() }
    }
}
