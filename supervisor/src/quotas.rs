//! `[tenant.quota]` and what the host has for runs, as the host file says it. Must not know how any of it is enforced.

use crate::allowance::Allowance;
use crate::units::{Bytes, Cpus};
use proctor_core::limits::Limits;
use proctor_core::quota::{Amount, Quota};
use serde::Deserialize;
use std::num::NonZeroU32;

/// The highest weight. A hundredth of the host is as fine as anybody shares it.
const WEIGHT_MAX: u32 = 1_000;

/// Runs that may wait, of a tenant whose table says nothing: a team of a hundred agents, each with a few sessions.
const QUEUED_RUNS_MAX: u32 = 1_000;

/// Requests in a second of a tenant whose table says nothing: a flood of one tenant leaves half a processor to the others.
pub const REQUESTS_PER_SECOND: u32 = 20_000;

/// Streams of a tenant whose table says nothing: ten for each of the sessions that it may have.
pub const SUBSCRIBERS_MAX: u32 = 10_000;

/// What is kept of the runs of a tenant whose table says nothing: as much as its build caches.
pub const KEPT_BYTES_MAX: u64 = 20 << 30;

/// What one tenant may have of the host at once; what is absent keeps its built-in value.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaTable {
    weight: Option<u32>,
    queued_runs: Option<u32>,
    running_runs: Option<u32>,
    memory: Option<Bytes>,
    cpus: Option<Cpus>,
    requests_per_second: Option<u32>,
    subscribers: Option<u32>,
    kept: Option<Bytes>,
}

impl QuotaTable {
    /// What it may ask of the supervisor.
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        Allowance::new(
            self.requests_per_second.unwrap_or(REQUESTS_PER_SECOND),
            self.subscribers.unwrap_or(SUBSCRIBERS_MAX),
        )
    }

    /// The quota that it describes.
    #[must_use]
    pub fn quota(&self) -> Quota {
        Quota {
            weight: self.weight.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
            queued_runs_max: self.queued_runs.unwrap_or(QUEUED_RUNS_MAX),
            running_runs_max: self.running_runs.unwrap_or(u32::MAX),
            in_use_max: Amount {
                memory_bytes: self.memory.map_or(u64::MAX, |size| size.bytes),
                cpu_millis: self.cpus.map_or(u64::MAX, |cpus| cpus.millis.into()),
            },
        }
    }

    /// Bytes of its runs that have ended and can still be read.
    #[must_use]
    pub fn kept_bytes_max(&self) -> u64 {
        self.kept.map_or(KEPT_BYTES_MAX, |size| size.bytes)
    }

    /// What is wrong with it, one sentence each that begins with the key.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let weight = self.weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight));
        let weight = weight.then(|| format!("quota.weight must be 1 to {WEIGHT_MAX}"));
        let none = [
            ("queued_runs", self.queued_runs),
            ("running_runs", self.running_runs),
            ("requests_per_second", self.requests_per_second),
            ("subscribers", self.subscribers),
        ];
        let none = none.into_iter().filter(|(_, max)| *max == Some(0));
        weight.into_iter().chain(none.map(|(key, _)| format!("quota.{key} must be at least 1"))).collect()
    }
}

/// What a host is made of.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: usize,
    /// Physical memory, in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Machine {
        let info = rustix::system::sysinfo();
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: info.totalram.saturating_mul(info.mem_unit.into()),
        }
    }

    /// What it has for runs unless its operator says otherwise: seven eighths of its memory, since memory that is not there
    /// kills; and for each processor as much as one run gets, since processors that are not there only make runs slower.
    #[must_use]
    pub fn budget(self) -> Amount {
        let processors = u64::try_from(self.processors).unwrap_or(u64::MAX);
        Amount {
            memory_bytes: self.memory_bytes - self.memory_bytes / 8,
            cpu_millis: processors.saturating_mul(Limits::DEFAULT.cpu_millis_max.into()),
        }
    }
}
