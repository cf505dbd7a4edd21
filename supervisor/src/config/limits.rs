//! Tables of limits for runs, and default wall times by framework.

use super::Problem;
use crate::config::units::{Bytes, Cpus, Duration};
use proctor_core::bounds::{DISK_BYTES_CEILING, LOG_BYTES_MIN, PIDS_CEILING, TMP_BYTES_MIN, WRITE_BYTES_PER_S_MIN};
use proctor_core::limits::{LimitError, LimitKind, LimitRequest, Limits};
use proctor_core::quota::Amount;
use proctor_frameworks::{FRAMEWORKS, runners::custom};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The ceiling of a run if `[max]` names none, on a host with budget `all`: never more than the budget, or a request
/// would be promised what does not exist. `/tmp` is charged to the run's memory.
pub(super) fn built_in_max(all: Amount) -> Limits {
    Limits {
        memory_bytes_max: all.memory_bytes,
        cpu_millis_max: u32::try_from(all.cpu_millis).unwrap_or(u32::MAX),
        pids_max: PIDS_CEILING,
        tmp_bytes_max: all.memory_bytes,
        disk_bytes_max: DISK_BYTES_CEILING,
        ..Limits::CEILING
    }
}

/// Limits by name; absent keys keep the value of the layer below.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    timeout: Option<Duration>,
    kill_grace: Option<Duration>,
    memory: Option<Bytes>,
    cpus: Option<Cpus>,
    pids: Option<u32>,
    log: Option<Bytes>,
    tmp: Option<Bytes>,
    disk: Option<Bytes>,
    writes: Option<Bytes>,
}

impl LimitsTable {
    /// `base` with the limits of this table.
    #[must_use]
    pub fn apply_to(&self, base: Limits) -> Limits {
        Limits {
            memory_bytes_max: self.memory.map_or(base.memory_bytes_max, |size| size.bytes),
            cpu_millis_max: self.cpus.map_or(base.cpu_millis_max, |cpus| cpus.millis),
            pids_max: self.pids.unwrap_or(base.pids_max),
            wall_ms_max: self.timeout.map_or(base.wall_ms_max, |timeout| timeout.ms),
            grace_ms: self.kill_grace.map_or(base.grace_ms, |grace| grace.ms),
            log_bytes_max: self.log.map_or(base.log_bytes_max, |size| size.bytes),
            tmp_bytes_max: self.tmp.map_or(base.tmp_bytes_max, |size| size.bytes),
            disk_bytes_max: self.disk.map_or(base.disk_bytes_max, |size| size.bytes),
            write_bytes_per_s_max: self.writes.map_or(base.write_bytes_per_s_max, |size| size.bytes),
        }
    }

    /// Checks that a run could start within these limits. Each problem comes with its key.
    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let most = LimitRequest {
            memory_bytes: self.memory.map(|size| size.bytes),
            cpu_millis: self.cpus.map(|cpus| cpus.millis),
            pids: self.pids,
            wall_ms: None,
            disk_bytes: self.disk.map(|size| size.bytes),
        };
        let too_long = self.timeout.is_some_and(|timeout| timeout.ms > Limits::WALL_MS_CEILING);
        let too_long = too_long.then(|| format!("timeout must be at most {}s", Limits::WALL_MS_CEILING / 1_000));
        let least = [
            ("log", LimitKind::Log, self.log, LOG_BYTES_MIN),
            ("tmp", LimitKind::Tmp, self.tmp, TMP_BYTES_MIN),
            ("writes", LimitKind::Writes, self.writes, WRITE_BYTES_PER_S_MIN),
        ];
        let least = least.into_iter().filter_map(|(key, limit, requested, min)| {
            let requested = requested.map(|size| size.bytes).filter(|requested| *requested < min)?;
            Some((key, LimitError::TooSmall { limit, requested, min }.to_string()))
        });
        too_small(&most).chain(least).chain(too_long.map(|text| ("timeout", text))).collect()
    }
}

impl LimitsTable {
    /// The limits above `most`, which applies instead. Each note comes with its key.
    pub(super) fn excess_over(&self, most: Limits) -> impl Iterator<Item = (&'static str, String)> + use<> {
        use LimitKind::{Cpu, Disk, Log, Memory, Pids, Tmp, Wall, Writes};
        let named = self.apply_to(most);
        let rows = [
            ("timeout", Wall, named.wall_ms_max, most.wall_ms_max),
            ("kill_grace", Wall, named.grace_ms, most.grace_ms),
            ("memory", Memory, named.memory_bytes_max, most.memory_bytes_max),
            ("cpus", Cpu, named.cpu_millis_max.into(), most.cpu_millis_max.into()),
            ("pids", Pids, named.pids_max.into(), most.pids_max.into()),
            ("log", Log, named.log_bytes_max, most.log_bytes_max),
            ("tmp", Tmp, named.tmp_bytes_max, most.tmp_bytes_max),
            ("disk", Disk, named.disk_bytes_max, most.disk_bytes_max),
            ("writes", Writes, named.write_bytes_per_s_max, most.write_bytes_per_s_max),
        ];
        rows.into_iter().filter(|(_, _, named, most)| named > most).map(|(key, kind, named, most)| {
            (key, format!("{key} {} exceeds [max]: runs get {}", kind.format_value(named), kind.format_value(most)))
        })
    }
}

/// Limits below the minimum of any run. Each problem comes with its key.
pub(super) fn too_small(most: &LimitRequest) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let none = LimitRequest::default();
    let each = [
        ("memory", LimitRequest { memory_bytes: most.memory_bytes, ..none }),
        ("cpus", LimitRequest { cpu_millis: most.cpu_millis, ..none }),
        ("pids", LimitRequest { pids: most.pids, ..none }),
        ("disk", LimitRequest { disk_bytes: most.disk_bytes, ..none }),
    ];
    each.into_iter().filter_map(|(key, one)| Some((key, one.check().err()?.to_string())))
}

/// Problems with the wall times by framework; runs get at most `most`.
pub(super) fn timeout_problems(timeouts: &BTreeMap<String, Duration>, most: Limits) -> Vec<Problem> {
    let framework_names = || FRAMEWORKS.iter().map(|framework| framework.name()).chain([custom::NAME]);
    let mut problems = Vec::new();
    for (name, timeout) in timeouts {
        let at = format!("timeouts.{name}");
        if !framework_names().any(|framework| framework == name) {
            let names = framework_names().collect::<Vec<_>>().join(", ");
            problems.push(Problem::new(&at, format!("{at}: no such framework; known are {names}")));
        }
        if timeout.ms > Limits::WALL_MS_CEILING {
            problems.push(Problem::new(&at, format!("{at}: must be at most {}s", Limits::WALL_MS_CEILING / 1_000)));
        } else if timeout.ms > most.wall_ms_max {
            let [named, most] = [timeout.ms, most.wall_ms_max].map(|ms| LimitKind::Wall.format_value(ms));
            problems.push(Problem::note(&at, format!("{at}: {named} exceeds [max]: runs get {most}")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> LimitsTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn rejects_limits_too_small_for_any_run() {
        let messages = |text: &str| parse(text).problems().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(messages("log = \"64KiB\"\ntmp = \"1MiB\"\nmemory = \"4MiB\"\ndisk = \"1MiB\""), [""; 0]);
        assert_eq!(
            messages("log = 1\ntmp = \"4KiB\""),
            ["log must be at least 64 KiB, got 1 B", "tmp must be at least 1 MiB, got 4 KiB"]
        );
    }
}
