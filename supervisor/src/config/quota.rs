//! `[tenant.quota]`: what one tenant may have of the host and of the supervisor at once. Must not know how any of it is
//! enforced.

use super::limits::too_small;
use crate::config::units::{Bytes, Cpus};
use crate::tenants::allowance::{Allowance, RetainedQuota};
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::quota::{Amount, Quota};
use serde::Deserialize;
use std::num::NonZeroU32;

/// The highest weight. A hundredth of the host is as fine as anybody shares it.
const WEIGHT_MAX: u32 = 1_000;

/// Runs that may wait, of a tenant whose table says nothing: a team of a hundred agents, each with a few sessions.
const QUEUED_RUNS_MAX: u32 = 1_000;

/// Requests in a second of a tenant whose table says nothing: a flood of one tenant leaves half a processor to the others.
const REQUESTS_PER_SECOND: u32 = 20_000;

/// Streams of a tenant whose table says nothing: ten for each of the sessions that it may have.
const SUBSCRIBERS_MAX: u32 = 10_000;

/// What is kept of the runs of a tenant whose table says nothing: as much as its build caches.
const KEPT_BYTES_MAX: u64 = 20 << 30;

/// What of it may be memory where nothing is said: the last runs of a hundred agents, with 10,000 tests each.
const KEPT_MEMORY_MAX: u64 = 2 << 30;

/// What one tenant may have of the host at once; what is absent keeps its built-in value. Who is refused is told the key.
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
    kept_memory: Option<Bytes>,
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

    /// `ceiling`, and no more than all of the tenant's runs may use together: a single one of them that could use more would
    /// never have its turn.
    #[must_use]
    pub fn within(&self, ceiling: Limits) -> Limits {
        Limits {
            memory_bytes_max: self.memory.map_or(u64::MAX, |size| size.bytes).min(ceiling.memory_bytes_max),
            cpu_millis_max: self.cpus.map_or(u32::MAX, |cpus| cpus.millis).min(ceiling.cpu_millis_max),
            ..ceiling
        }
    }

    /// What may be kept of its runs, with what is kept of those `before`, which goes on to be counted.
    #[must_use]
    pub fn kept(&self, before: Option<&RetainedQuota>) -> RetainedQuota {
        let bytes_max = self.kept.map_or(KEPT_BYTES_MAX, |size| size.bytes);
        let memory_max = self.kept_memory.map_or(KEPT_MEMORY_MAX, |size| size.bytes);
        RetainedQuota { bytes_max, memory_max, ..before.cloned().unwrap_or_else(RetainedQuota::unbounded) }
    }

    /// What is wrong with it. Each with its key.
    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let weight = self.weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight));
        let weight = weight.then(|| ("weight", format!("weight must be 1 to {WEIGHT_MAX}")));
        let none = [
            ("queued_runs", self.queued_runs),
            ("running_runs", self.running_runs),
            ("requests_per_second", self.requests_per_second),
            ("subscribers", self.subscribers),
        ];
        let none = none.into_iter().filter(|(_, max)| *max == Some(0));
        let none = none.map(|(key, _)| (key, format!("{key} must be at least 1")));
        let one_run = LimitRequest {
            memory_bytes: self.memory.map(|size| size.bytes),
            cpu_millis: self.cpus.map(|cpus| cpus.millis),
            ..LimitRequest::default()
        };
        weight.into_iter().chain(none).chain(too_small(&one_run)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> QuotaTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_run_may_use_what_all_of_its_tenants_may_use_together() {
        let ceiling = Limits::CEILING;
        assert_eq!(of("").within(ceiling), ceiling);
        let quota = of("memory = \"1GiB\"\ncpus = 0.5");
        let expected = Limits { memory_bytes_max: 1 << 30, cpu_millis_max: 500, ..ceiling };
        assert_eq!(quota.within(ceiling), expected);
        let lower = Limits { memory_bytes_max: 1 << 20, cpu_millis_max: 100, ..ceiling };
        assert_eq!(quota.within(lower), lower);
        let (defaults, _) = Limits::resolve(&LimitRequest::default(), Limits::DEFAULT, quota.within(ceiling));
        assert_eq!(quota.quota().check(Amount::from_limits(&defaults)), Ok(()), "a run that asks for nothing starts");
    }

    #[test]
    fn a_quota_with_which_no_run_could_start_is_a_mistake() {
        let told = |text: &str| of(text).problems().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(
            told("memory = \"4MiB\"\ncpus = 0.01\nkept = 1\nweight = 1000\nqueued_runs = 1\nrunning_runs = 1"),
            [""; 0]
        );
        assert_eq!(
            told("memory = \"1MiB\"\ncpus = 0.009\nweight = 0\nsubscribers = 0"),
            [
                "weight must be 1 to 1000",
                "subscribers must be at least 1",
                "memory must be at least 4 MiB, got 1 MiB",
                "cpus must be at least 0.01 processors, got 0.009 processors",
            ]
        );
    }
}
