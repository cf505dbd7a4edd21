//! What runs demand of the host, what a tenant may have of it at once, and the refusals that name the quota. Must not know
//! who comes next.

use crate::bound::{HOST_QUEUED_RUNS_MAX, HOST_RUNNING_RUNS_MAX, TENANTS_MAX};
use crate::limits::{LimitKind, Limits};
use crate::quantity::show_bytes;
use std::num::NonZeroU32;
use thiserror::Error;

/// An amount of the two resources that are shared out: what a run demands, what is in use, or what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Processors, in thousandths.
    pub cpu_millis: u64,
}

/// One, in the fixed-point numbers of [`Amount::dominant_share`].
pub const WHOLE_SHARE: u64 = 1 << 32;

/// What a run takes of the host because it is one of those that may go on, however little else it demands.
pub const PLACE_SHARE: u64 = WHOLE_SHARE / HOST_RUNNING_RUNS_MAX as u64;

impl Amount {
    /// More than any host has.
    pub const UNBOUNDED: Amount = Amount { memory_bytes: u64::MAX, cpu_millis: u64::MAX };

    /// What a run with these limits demands: all that it may use.
    #[must_use]
    pub fn of(limits: &Limits) -> Amount {
        Amount { memory_bytes: limits.memory_bytes_max, cpu_millis: limits.cpu_millis_max.into() }
    }

    /// Whether both resources fit into `room`.
    #[must_use]
    pub fn fits(self, room: Amount) -> bool {
        self.memory_bytes <= room.memory_bytes && self.cpu_millis <= room.cpu_millis
    }

    /// Both together; it stays at the largest number there is.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount {
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
        }
    }

    /// As much of both as there is in `room`.
    #[must_use]
    pub fn at_most(self, room: Amount) -> Amount {
        Amount {
            memory_bytes: self.memory_bytes.min(room.memory_bytes),
            cpu_millis: self.cpu_millis.min(room.cpu_millis),
        }
    }

    /// What is left without `other`, and never less than nothing.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        Amount {
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
        }
    }

    /// The larger of the two shares that this is of `budget`, in parts of [`WHOLE_SHARE`], rounded up and at least
    /// [`PLACE_SHARE`], so that no run is free and who has many small ones has had its part of the places too.
    #[must_use]
    pub fn dominant_share(self, budget: Amount) -> u64 {
        let share = |part: u64, whole: u64| {
            let parts = (u128::from(part) * u128::from(WHOLE_SHARE)).div_ceil(u128::from(whole.max(1)));
            u64::try_from(parts).unwrap_or(u64::MAX)
        };
        share(self.memory_bytes, budget.memory_bytes).max(share(self.cpu_millis, budget.cpu_millis)).max(PLACE_SHARE)
    }

    // The first resource that does not fit, with what was asked for and what there is.
    fn lacking(self, room: Amount) -> Option<(LimitKind, u64, u64)> {
        [(LimitKind::Memory, self.memory_bytes, room.memory_bytes), (LimitKind::Cpu, self.cpu_millis, room.cpu_millis)]
            .into_iter()
            .find(|(_, asked, max)| asked > max)
    }
}

/// What one tenant may have at once, and its weight against the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Its part of a contended host is this over the sum of the weights of all tenants whose runs wait.
    pub weight: NonZeroU32,
    /// Runs that wait, in their sessions or for their turn on the host. Who lets runs wait counts them: the queue of the
    /// host sees only those that are first in their sessions.
    pub queued_runs_max: u32,
    /// Runs that are going on. Zero refuses every run.
    pub running_runs_max: u32,
    /// What its running runs may demand together.
    pub in_use_max: Amount,
}

impl Quota {
    /// Weight 1, and no bounds but the host's.
    pub const UNBOUNDED: Quota = Quota {
        weight: NonZeroU32::MIN,
        queued_runs_max: u32::MAX,
        running_runs_max: u32::MAX,
        in_use_max: Amount::UNBOUNDED,
    };

    /// Refuses a run that could not start if it were its tenant's only one.
    ///
    /// # Errors
    /// [`QuotaExceeded::RunningRuns`] or [`QuotaExceeded::AboveTenant`].
    pub fn check(&self, demand: Amount) -> Result<(), QuotaExceeded> {
        if self.running_runs_max == 0 {
            return Err(QuotaExceeded::RunningRuns);
        }
        match demand.lacking(self.in_use_max) {
            Some((limit, asked, max)) => Err(QuotaExceeded::AboveTenant { limit, asked, max }),
            None => Ok(()),
        }
    }
}

/// Why a run does not wait. A full queue has room again with time; the rest stays until somebody configures otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    /// Nobody has configured the tenant.
    #[error("the tenant is not known here")]
    UnknownTenant,
    /// The tenant's queue is full.
    #[error("{max} runs of this tenant wait already")]
    QueuedRuns {
        /// How many may wait.
        max: u32,
    },
    /// The queue of the whole host is full.
    #[error("{HOST_QUEUED_RUNS_MAX} runs wait on this host already")]
    HostQueuedRuns,
    /// As many tenants as a host may have have runs that wait or go on, and the tenant is none of them.
    #[error("runs of {TENANTS_MAX} tenants wait or go on already")]
    HostTenants,
    /// What the tenant keeps of runs that have ended takes all that it may.
    #[error("this tenant's ended runs keep {} or more: close sessions that nobody needs", show_bytes(*max))]
    KeptBytes {
        /// How much it may keep.
        max: u64,
    },
    /// What the tenant's runs have told, and the reports of those that have ended, take all the memory that they may.
    #[error("this tenant's runs keep {} of memory or more: close sessions that nobody needs", show_bytes(*max))]
    KeptMemory {
        /// How much they may keep.
        max: u64,
    },
    /// The tenant's build caches are far beyond their bound, and runs of its use them.
    #[error(
        "this tenant's build caches have more than twice the {} that they may, and are tidied when its runs have ended",
        show_bytes(*max)
    )]
    Cache {
        /// How much they may have.
        max: u64,
    },
    /// The tenant may run nothing.
    #[error("this tenant may have no runs")]
    RunningRuns,
    /// The run alone demands more than its tenant may have in use.
    #[error(
        "{}: the run may use {}, all runs of its tenant together {}; ask for less, or for a larger quota `{}`",
        limit.name(), limit.show(*asked), limit.show(*max), self.quota()
    )]
    AboveTenant {
        /// Memory (bytes) or cpu (thousandths of a processor).
        limit: LimitKind,
        /// What the run demands.
        asked: u64,
        /// What the tenant may use.
        max: u64,
    },
}

impl QuotaExceeded {
    /// The quota's name, as users see it in `RESOURCE_EXHAUSTED`: what is a tenant's is called as its key in the host file.
    #[must_use]
    pub fn quota(&self) -> &'static str {
        match self {
            QuotaExceeded::UnknownTenant => "tenant",
            QuotaExceeded::QueuedRuns { .. } => "queued_runs",
            QuotaExceeded::HostQueuedRuns => "host_queued_runs",
            QuotaExceeded::HostTenants => "host_tenants",
            QuotaExceeded::KeptBytes { .. } => "kept",
            QuotaExceeded::KeptMemory { .. } => "kept_memory",
            QuotaExceeded::Cache { .. } => "cache",
            QuotaExceeded::RunningRuns => "running_runs",
            QuotaExceeded::AboveTenant { limit: LimitKind::Memory, .. } => "memory",
            QuotaExceeded::AboveTenant { .. } => "cpus",
        }
    }

    /// Whether the same run may be accepted later although nobody configures anything: worth a retry hint.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            QuotaExceeded::QueuedRuns { .. }
                | QuotaExceeded::HostQueuedRuns
                | QuotaExceeded::HostTenants
                | QuotaExceeded::KeptBytes { .. }
                | QuotaExceeded::KeptMemory { .. }
                | QuotaExceeded::Cache { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_demands_too_much_is_told_in_units_and_what_helps() {
        let told = |limit, asked, max| QuotaExceeded::AboveTenant { limit, asked, max }.to_string();
        let told_of_memory = told(LimitKind::Memory, 2 << 30, 1_536 << 20);
        assert_eq!(
            told_of_memory,
            "memory: the run may use 2 GiB, all runs of its tenant together 1.5 GiB; ask for less, or for a larger quota `memory`"
        );
        let told_of_cpus = told(LimitKind::Cpu, 2_000, 1_250);
        assert!(
            told_of_cpus.contains("2 processors, all runs of its tenant together 1.25 processors"),
            "{told_of_cpus}"
        );
    }
}
