//! Resource demands of runs, quotas of tenants, and the errors that name the exceeded quota.

use crate::bounds::{HOST_QUEUED_RUNS_MAX, HOST_RUNNING_RUNS_MAX, TENANTS_MAX};
use crate::human_units::format_bytes;
use crate::limits::{LimitKind, Limits};
use std::num::NonZeroU32;
use thiserror::Error;

/// An amount of the two scheduled resources: a run's demand, the usage, or the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Processors, in thousandths.
    pub cpu_millis: u64,
}

/// One whole, in the fixed-point numbers of [`Amount::dominant_share`].
pub const WHOLE_SHARE: u64 = 1 << 32;

/// Least share of a run: it takes one of the [`HOST_RUNNING_RUNS_MAX`] run slots, however little else it demands.
pub const RUN_SLOT_SHARE: u64 = WHOLE_SHARE / HOST_RUNNING_RUNS_MAX as u64;

impl Amount {
    /// More than any host has.
    pub const UNBOUNDED: Amount = Amount { memory_bytes: u64::MAX, cpu_millis: u64::MAX };

    /// The demand of a run with these limits: all that it may use.
    #[must_use]
    pub fn from_limits(limits: &Limits) -> Amount {
        Amount { memory_bytes: limits.memory_bytes_max, cpu_millis: limits.cpu_millis_max.into() }
    }

    /// Whether both resources fit into `available`.
    #[must_use]
    pub fn fits(self, available: Amount) -> bool {
        self.memory_bytes <= available.memory_bytes && self.cpu_millis <= available.cpu_millis
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount {
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
        }
    }

    /// The smaller of the two amounts for each resource.
    #[must_use]
    pub fn at_most(self, available: Amount) -> Amount {
        Amount {
            memory_bytes: self.memory_bytes.min(available.memory_bytes),
            cpu_millis: self.cpu_millis.min(available.cpu_millis),
        }
    }

    /// The difference, saturating at zero.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        Amount {
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
        }
    }

    /// The larger of the memory and cpu shares of `budget`, in parts of [`WHOLE_SHARE`], rounded up and at least
    /// [`RUN_SLOT_SHARE`], so that no run is free and a tenant with many small runs pays for their run slots too.
    #[must_use]
    pub fn dominant_share(self, budget: Amount) -> u64 {
        let share = |part: u64, whole: u64| {
            let parts = (u128::from(part) * u128::from(WHOLE_SHARE)).div_ceil(u128::from(whole.max(1)));
            u64::try_from(parts).unwrap_or(u64::MAX)
        };
        share(self.memory_bytes, budget.memory_bytes).max(share(self.cpu_millis, budget.cpu_millis)).max(RUN_SLOT_SHARE)
    }

    // The first resource that does not fit, with the demand and the available amount.
    fn first_shortage(self, available: Amount) -> Option<(LimitKind, u64, u64)> {
        [
            (LimitKind::Memory, self.memory_bytes, available.memory_bytes),
            (LimitKind::Cpu, self.cpu_millis, available.cpu_millis),
        ]
        .into_iter()
        .find(|(_, demanded, max)| demanded > max)
    }
}

/// Bounds on the runs of one tenant and on what is retained of them, and its weight against other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Its share of a contended host is this over the sum of the weights of all tenants with waiting runs.
    pub weight: NonZeroU32,
    /// Runs waiting in sessions or for their turn on the host. The caller counts them: the host's queue sees only the
    /// first waiting run of each session.
    pub queued_runs_max: u32,
    /// Runs in progress. Zero refuses every run.
    pub running_runs_max: u32,
    /// Sum of the demands of its running runs.
    pub in_use_max: Amount,
    /// Bytes retained of its ended runs: events, reports, output and artefacts.
    pub retained_bytes_max: u64,
    /// Bytes of memory among these, of coverage indexes, and of the events of running runs.
    pub retained_memory_bytes_max: u64,
}

impl Quota {
    /// Weight 1 and no bounds but the host's.
    pub const UNBOUNDED: Quota = Quota {
        weight: NonZeroU32::MIN,
        queued_runs_max: u32::MAX,
        running_runs_max: u32::MAX,
        in_use_max: Amount::UNBOUNDED,
        retained_bytes_max: u64::MAX,
        retained_memory_bytes_max: u64::MAX,
    };

    /// Refuses a run that could not start even as its tenant's only one.
    ///
    /// # Errors
    /// [`QuotaExceeded::RunningRuns`] or [`QuotaExceeded::AboveTenant`].
    pub fn check(&self, demand: Amount) -> Result<(), QuotaExceeded> {
        if self.running_runs_max == 0 {
            return Err(QuotaExceeded::RunningRuns);
        }
        match demand.first_shortage(self.in_use_max) {
            Some((limit, demanded, max)) => Err(QuotaExceeded::AboveTenant { limit, demanded, max }),
            None => Ok(()),
        }
    }
}

/// Why a run is not queued. A full queue empties with time; the other reasons stay until the configuration changes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    /// The tenant is not configured.
    #[error("the tenant is not known here")]
    UnknownTenant,
    /// The tenant's queue is full.
    #[error("{max} runs of this tenant wait already")]
    QueuedRuns {
        /// Most runs that may wait.
        max: u32,
    },
    /// The queue of the whole host is full.
    #[error("{HOST_QUEUED_RUNS_MAX} runs wait on this host already")]
    HostQueuedRuns,
    /// [`TENANTS_MAX`] other tenants have runs waiting or in progress.
    #[error("{TENANTS_MAX} tenants have waiting or running runs already")]
    HostTenants,
    /// The files kept of the tenant's ended runs reach their bound.
    #[error("this tenant's ended runs keep {} or more: close sessions that are no longer needed", format_bytes(*max))]
    RetainedBytes {
        /// The bound in bytes.
        max: u64,
    },
    /// The events of the tenant's runs and the reports of its ended runs reach their memory bound.
    #[error("this tenant's runs keep {} of memory or more: close sessions that are no longer needed", format_bytes(*max))]
    RetainedMemory {
        /// The bound in bytes.
        max: u64,
    },
    /// The tenant's build caches exceed twice their bound and cannot be trimmed while its runs use them.
    #[error(
        "this tenant's build caches exceed twice their bound of {}; they are trimmed when its runs have ended",
        format_bytes(*max)
    )]
    Cache {
        /// The bound in bytes.
        max: u64,
    },
    /// The tenant's quota allows no runs.
    #[error("this tenant may have no runs")]
    RunningRuns,
    /// The run alone demands more than all runs of its tenant may use.
    #[error(
        "{}: the run may use {}, all runs of its tenant together {}; ask for less, or for a larger quota `{}`",
        limit.name(), limit.format_value(*demanded), limit.format_value(*max), self.quota()
    )]
    AboveTenant {
        /// Memory (bytes) or cpu (thousandths of a processor).
        limit: LimitKind,
        /// The run's demand.
        demanded: u64,
        /// The tenant's bound.
        max: u64,
    },
}

impl QuotaExceeded {
    /// The quota's name in `RESOURCE_EXHAUSTED`; a tenant's quota has the name of its key in the host file.
    #[must_use]
    pub fn quota(&self) -> &'static str {
        match self {
            QuotaExceeded::UnknownTenant => "tenant",
            QuotaExceeded::QueuedRuns { .. } => "queued_runs",
            QuotaExceeded::HostQueuedRuns => "host_queued_runs",
            QuotaExceeded::HostTenants => "host_tenants",
            QuotaExceeded::RetainedBytes { .. } => "kept",
            QuotaExceeded::RetainedMemory { .. } => "kept_memory",
            QuotaExceeded::Cache { .. } => "cache",
            QuotaExceeded::RunningRuns => "running_runs",
            QuotaExceeded::AboveTenant { limit: LimitKind::Memory, .. } => "memory",
            QuotaExceeded::AboveTenant { .. } => "cpus",
        }
    }

    /// Whether the same run may be accepted later without a configuration change, so that a retry hint is worth
    /// sending.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            QuotaExceeded::QueuedRuns { .. }
                | QuotaExceeded::HostQueuedRuns
                | QuotaExceeded::HostTenants
                | QuotaExceeded::RetainedBytes { .. }
                | QuotaExceeded::RetainedMemory { .. }
                | QuotaExceeded::Cache { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_above_the_tenants_quota_is_reported_in_units_with_a_remedy() {
        let message = |limit, demanded, max| QuotaExceeded::AboveTenant { limit, demanded, max }.to_string();
        let memory_message = message(LimitKind::Memory, 2 << 30, 1_536 << 20);
        assert_eq!(
            memory_message,
            "memory: the run may use 2 GiB, all runs of its tenant together 1.5 GiB; ask for less, or for a larger quota `memory`"
        );
        let cpu_message = message(LimitKind::Cpu, 2_000, 1_250);
        assert!(cpu_message.contains("2 processors, all runs of its tenant together 1.25 processors"), "{cpu_message}");
    }
}
