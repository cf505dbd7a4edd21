//! The `[tenant.quota]` table: the share of one tenant in the host and in the supervisor.

use super::limits::too_small;
use crate::config::units::{Bytes, Cpus};
use crate::tenants::allowance::Allowance;
use proctor_core::bounds::{
    TENANT_HISTORY_BYTES_MAX, TENANT_HISTORY_BYTES_MIN, TENANT_QUEUED_RUNS_MAX, TENANT_REQUESTS_PER_S_MAX,
    TENANT_RETAINED_BYTES_MAX, TENANT_RETAINED_MEMORY_BYTES_MAX, TENANT_SUBSCRIBERS_MAX, TENANT_WEIGHT_MAX,
};
use proctor_core::human_units::format_bytes;
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::quota::{Amount, Quota};
use serde::Deserialize;
use std::num::NonZeroU32;

/// The share of one tenant; absent keys keep their built-in value. A refusal names the key.
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
    history: Option<Bytes>,
}

impl QuotaTable {
    /// Limits on what the tenant uses of the supervisor itself: requests per second, and subscribers at a time.
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        Allowance::new(
            self.requests_per_second.unwrap_or(TENANT_REQUESTS_PER_S_MAX),
            self.subscribers.unwrap_or(TENANT_SUBSCRIBERS_MAX),
        )
    }

    /// The quota for runs.
    #[must_use]
    pub fn quota(&self) -> Quota {
        Quota {
            weight: self.weight.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
            queued_runs_max: self.queued_runs.unwrap_or(TENANT_QUEUED_RUNS_MAX),
            running_runs_max: self.running_runs.unwrap_or(u32::MAX),
            in_use_max: Amount {
                memory_bytes: self.memory.map_or(u64::MAX, |size| size.bytes),
                cpu_millis: self.cpus.map_or(u64::MAX, |cpus| cpus.millis.into()),
            },
            retained_bytes_max: self.kept.map_or(TENANT_RETAINED_BYTES_MAX, |size| size.bytes),
            retained_memory_bytes_max: self.kept_memory.map_or(TENANT_RETAINED_MEMORY_BYTES_MAX, |size| size.bytes),
        }
    }

    /// Most bytes of the tenant's history of runs.
    #[must_use]
    pub fn history_bytes_max(&self) -> u64 {
        self.history.map_or(TENANT_HISTORY_BYTES_MAX, |size| size.bytes)
    }

    /// `ceiling`, lowered to what all of the tenant's runs may use together: a run that needed more would never start.
    #[must_use]
    pub fn clamp(&self, ceiling: Limits) -> Limits {
        Limits {
            memory_bytes_max: self.memory.map_or(u64::MAX, |size| size.bytes).min(ceiling.memory_bytes_max),
            cpu_millis_max: self.cpus.map_or(u32::MAX, |cpus| cpus.millis).min(ceiling.cpu_millis_max),
            ..ceiling
        }
    }

    /// Checks the table. Each problem comes with its key.
    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let weight = self.weight.is_some_and(|weight| !(1..=TENANT_WEIGHT_MAX).contains(&weight));
        let weight = weight.then(|| ("weight", format!("weight must be 1 to {TENANT_WEIGHT_MAX}")));
        let none = [
            ("queued_runs", self.queued_runs),
            ("running_runs", self.running_runs),
            ("requests_per_second", self.requests_per_second),
            ("subscribers", self.subscribers),
        ];
        let none = none.into_iter().filter(|(_, max)| *max == Some(0));
        let none = none.map(|(key, _)| (key, format!("{key} must be at least 1")));
        let history = self.history_bytes_max() < TENANT_HISTORY_BYTES_MIN;
        let history = history
            .then(|| ("history", format!("history must be at least {}", format_bytes(TENANT_HISTORY_BYTES_MIN))));
        let one_run = LimitRequest {
            memory_bytes: self.memory.map(|size| size.bytes),
            cpu_millis: self.cpus.map(|cpus| cpus.millis),
            ..LimitRequest::default()
        };
        weight.into_iter().chain(none).chain(history).chain(too_small(&one_run)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> QuotaTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_quota_also_bounds_a_single_run() {
        let ceiling = Limits::CEILING;
        assert_eq!(parse("").clamp(ceiling), ceiling);
        let quota = parse("memory = \"1GiB\"\ncpus = 0.5");
        let expected = Limits { memory_bytes_max: 1 << 30, cpu_millis_max: 500, ..ceiling };
        assert_eq!(quota.clamp(ceiling), expected);
        let lower = Limits { memory_bytes_max: 1 << 20, cpu_millis_max: 100, ..ceiling };
        assert_eq!(quota.clamp(lower), lower);
        let (defaults, _) = Limits::resolve(&LimitRequest::default(), Limits::DEFAULT, quota.clamp(ceiling));
        assert_eq!(quota.quota().check(Amount::from_limits(&defaults)), Ok(()), "a run that asks for nothing starts");
    }

    #[test]
    fn rejects_a_quota_too_small_for_any_run() {
        let messages = |text: &str| parse(text).problems().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(
            messages(
                "memory = \"4MiB\"\ncpus = 0.01\nkept = 1\nhistory = \"16MiB\"\nweight = 1000\nqueued_runs = 1\nrunning_runs = 1"
            ),
            [""; 0]
        );
        assert_eq!(
            messages("memory = \"1MiB\"\ncpus = 0.009\nweight = 0\nsubscribers = 0\nhistory = \"15MiB\""),
            [
                "weight must be 1 to 1000",
                "subscribers must be at least 1",
                "history must be at least 16 MiB",
                "memory must be at least 4 MiB, got 1 MiB",
                "cpus must be at least 0.01 processors, got 0.009 processors",
            ]
        );
    }
}
