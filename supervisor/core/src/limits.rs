//! Limits of a run, and the rule for combining them: the smallest wins.

use crate::bounds::{CPU_MILLIS_MIN, DISK_BYTES_MIN, MEMORY_BYTES_MIN, PIDS_MIN};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The bounds of one run, each greater than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes of the run together, page cache and tmpfs included, swap excluded; bytes.
    pub memory_bytes_max: u64,
    /// Processor time per wall time, in thousandths of a processor (2,000 is two processors).
    pub cpu_millis_max: u32,
    /// Processes and threads alive at the same time.
    pub pids_max: u32,
    /// Wall time from the first command's start to the SIGTERM, in milliseconds.
    pub wall_ms_max: u64,
    /// Wall time from SIGTERM to the kill, in milliseconds.
    pub grace_ms: u64,
    /// Bytes that the run may write to stdout and stderr together; one more is an output flood.
    pub log_bytes_max: u64,
    /// Size of the run's private `/tmp`, in bytes. It is charged to the run's memory as well.
    pub tmp_bytes_max: u64,
    /// Bytes by which the workspace and the build caches may grow together. [`Limits::disk_inodes_max`] follows from it.
    pub disk_bytes_max: u64,
    /// Bytes that the run may write to each disk of the host in a second.
    pub write_bytes_per_s_max: u64,
}

const MIB: u64 = 1024 * 1024;

impl Limits {
    /// The limits of a request without any: 2 GiB, 2 processors, 512 pids, 300 s, 5 s of grace, 256 MiB of output, 1
    /// GiB of `/tmp`, 10 GiB more on disk, written at 100 MiB a second.
    pub const DEFAULT: Limits = Limits {
        memory_bytes_max: 2048 * MIB,
        cpu_millis_max: 2_000,
        pids_max: 512,
        wall_ms_max: 300_000,
        grace_ms: 5_000,
        log_bytes_max: 256 * MIB,
        tmp_bytes_max: 1024 * MIB,
        disk_bytes_max: 10 * 1024 * MIB,
        write_bytes_per_s_max: 100 * MIB,
    };

    /// Longest wall time that a caller may request: 1,800 s.
    pub const WALL_MS_CEILING: u64 = 1_800_000;

    /// The ceilings on a host without a host file, used by one person: the kernel's maxima, and
    /// [`Limits::WALL_MS_CEILING`].
    pub const CEILING: Limits = Limits {
        memory_bytes_max: u64::MAX,
        cpu_millis_max: u32::MAX,
        pids_max: u32::MAX,
        wall_ms_max: Limits::WALL_MS_CEILING,
        grace_ms: 60_000,
        log_bytes_max: 1024 * MIB,
        tmp_bytes_max: u64::MAX,
        disk_bytes_max: u64::MAX,
        write_bytes_per_s_max: u64::MAX,
    };

    /// Limits whose enforcement needs a host feature that may be missing: cgroup controllers, and a file system that
    /// reports its free space.
    pub const ENFORCED: [LimitKind; 4] = [LimitKind::Memory, LimitKind::Cpu, LimitKind::Pids, LimitKind::Disk];

    /// Files and directories by which the workspace and the build caches may grow together: one for every 4 KiB of
    /// [`Limits::disk_bytes_max`], at least 100,000 and at most 10 million. A clone of a large repository with its
    /// dependencies has some hundred thousand.
    #[must_use]
    pub fn disk_inodes_max(&self) -> u64 {
        (self.disk_bytes_max / 4_096).clamp(100_000, 10_000_000)
    }

    /// The smaller bound of each pair: how host and tenant ceilings combine.
    #[must_use]
    pub fn min(self, other: Limits) -> Limits {
        Limits {
            memory_bytes_max: self.memory_bytes_max.min(other.memory_bytes_max),
            cpu_millis_max: self.cpu_millis_max.min(other.cpu_millis_max),
            pids_max: self.pids_max.min(other.pids_max),
            wall_ms_max: self.wall_ms_max.min(other.wall_ms_max),
            grace_ms: self.grace_ms.min(other.grace_ms),
            log_bytes_max: self.log_bytes_max.min(other.log_bytes_max),
            tmp_bytes_max: self.tmp_bytes_max.min(other.tmp_bytes_max),
            disk_bytes_max: self.disk_bytes_max.min(other.disk_bytes_max),
            write_bytes_per_s_max: self.write_bytes_per_s_max.min(other.write_bytes_per_s_max),
        }
    }

    /// The limits of a run: the requested ones or the defaults, and never more than `ceiling`.
    ///
    /// Returns the limits and a sentence for every requested limit above its ceiling.
    #[must_use]
    pub fn resolve(requested: &LimitRequest, defaults: Limits, ceiling: Limits) -> (Limits, Vec<String>) {
        let mut clamped = Vec::new();
        let mut limits = defaults.min(ceiling);
        if let Some(bytes) = requested.memory_bytes {
            limits.memory_bytes_max = clamp(LimitKind::Memory, bytes, ceiling.memory_bytes_max, &mut clamped);
        }
        if let Some(millis) = requested.cpu_millis {
            limits.cpu_millis_max = clamp(LimitKind::Cpu, millis, ceiling.cpu_millis_max, &mut clamped);
        }
        if let Some(pids) = requested.pids {
            limits.pids_max = clamp(LimitKind::Pids, pids, ceiling.pids_max, &mut clamped);
        }
        if let Some(ms) = requested.wall_ms {
            limits.wall_ms_max = clamp(LimitKind::Wall, ms, ceiling.wall_ms_max, &mut clamped);
        }
        if let Some(bytes) = requested.disk_bytes {
            limits.disk_bytes_max = clamp(LimitKind::Disk, bytes, ceiling.disk_bytes_max, &mut clamped);
        }
        (limits, clamped)
    }
}

fn clamp<N: Ord + Copy + Into<u64>>(limit: LimitKind, requested: N, ceiling: N, clamped: &mut Vec<String>) -> N {
    if requested > ceiling {
        let (from, to) = (limit.format_value(requested.into()), limit.format_value(ceiling.into()));
        clamped.push(format!("{} clamped from {from} to {to}, the ceiling here", limit.name()));
    }
    requested.min(ceiling)
}

/// Limits requested by a caller; `None` takes the default. A caller can only request less than the ceilings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimitRequest {
    /// See [`Limits::memory_bytes_max`].
    pub memory_bytes: Option<u64>,
    /// See [`Limits::cpu_millis_max`].
    pub cpu_millis: Option<u32>,
    /// See [`Limits::pids_max`].
    pub pids: Option<u32>,
    /// See [`Limits::wall_ms_max`].
    pub wall_ms: Option<u64>,
    /// See [`Limits::disk_bytes_max`].
    pub disk_bytes: Option<u64>,
}

impl LimitRequest {
    /// Each limit of this request, or else that of `other`.
    #[must_use]
    pub fn or(self, other: LimitRequest) -> LimitRequest {
        LimitRequest {
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            cpu_millis: self.cpu_millis.or(other.cpu_millis),
            pids: self.pids.or(other.pids),
            wall_ms: self.wall_ms.or(other.wall_ms),
            disk_bytes: self.disk_bytes.or(other.disk_bytes),
        }
    }

    /// Rejects zero and values too small to start a runner.
    pub fn check(&self) -> Result<(), LimitError> {
        let too_small = |limit, min: u64, requested: Option<u64>| match requested {
            Some(requested) if requested < min => Err(LimitError::TooSmall { limit, requested, min }),
            _ => Ok(()),
        };
        too_small(LimitKind::Memory, MEMORY_BYTES_MIN, self.memory_bytes)?;
        too_small(LimitKind::Cpu, CPU_MILLIS_MIN.into(), self.cpu_millis.map(u64::from))?;
        too_small(LimitKind::Pids, PIDS_MIN.into(), self.pids.map(u64::from))?;
        too_small(LimitKind::Disk, DISK_BYTES_MIN, self.disk_bytes)?;
        too_small(LimitKind::Wall, 1, self.wall_ms)
    }

    /// Limits that were requested by name: each must be enforced or the run is refused.
    #[must_use]
    pub fn named(&self) -> Vec<LimitKind> {
        [
            (LimitKind::Memory, self.memory_bytes.is_some()),
            (LimitKind::Cpu, self.cpu_millis.is_some()),
            (LimitKind::Pids, self.pids.is_some()),
            (LimitKind::Disk, self.disk_bytes.is_some()),
        ]
        .into_iter()
        .filter_map(|(kind, requested)| requested.then_some(kind))
        .collect()
    }
}

/// One field of [`Limits`], by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// [`Limits::memory_bytes_max`]
    Memory,
    /// [`Limits::cpu_millis_max`]
    #[serde(rename = "cpus")]
    Cpu,
    /// [`Limits::pids_max`]
    Pids,
    /// [`Limits::wall_ms_max`]
    #[serde(rename = "timeout")]
    Wall,
    /// [`Limits::log_bytes_max`]
    Log,
    /// [`Limits::tmp_bytes_max`]
    Tmp,
    /// [`Limits::disk_bytes_max`]
    Disk,
    /// [`Limits::write_bytes_per_s_max`]
    Writes,
}

impl LimitKind {
    /// The name in reports and of the option or field that sets the limit.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::Memory => "memory",
            LimitKind::Cpu => "cpus",
            LimitKind::Pids => "pids",
            LimitKind::Wall => "timeout",
            LimitKind::Log => "log",
            LimitKind::Tmp => "tmp",
            LimitKind::Disk => "disk",
            LimitKind::Writes => "writes",
        }
    }
}

/// Why requested limits are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    /// The value is zero or too small for any runner.
    #[error("{} must be at least {}, got {}", limit.name(), limit.format_value(*min), limit.format_value(*requested))]
    TooSmall {
        /// Which limit.
        limit: LimitKind,
        /// The requested value.
        requested: u64,
        /// The least accepted value.
        min: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> impl Strategy<Value = LimitRequest> {
        (any::<[Option<u64>; 3]>(), any::<[Option<u32>; 2]>()).prop_map(
            |([memory_bytes, wall_ms, disk_bytes], [cpu_millis, pids])| LimitRequest {
                memory_bytes,
                cpu_millis,
                pids,
                wall_ms,
                disk_bytes,
            },
        )
    }

    proptest! {
        /// Invariant 2: limits = min(host, tenant policy, request).
        #[test]
        fn a_caller_can_only_request_less_than_the_ceiling(requested in request()) {
            let ceiling = Limits {
                memory_bytes_max: 1 << 30, cpu_millis_max: 1_500, pids_max: 100, disk_bytes_max: 1 << 33, ..Limits::CEILING
            };
            let (limits, clamped) = Limits::resolve(&requested, Limits::DEFAULT, ceiling);
            prop_assert_eq!(limits.min(ceiling), limits);
            prop_assert_eq!(requested.memory_bytes.is_some_and(|bytes| bytes > 1 << 30),
                            clamped.iter().any(|note| note.starts_with("memory")));
            prop_assert_eq!(requested.disk_bytes.is_some_and(|bytes| bytes > 1 << 33),
                            clamped.iter().any(|note| note.starts_with("disk")));
        }

        #[test]
        fn the_inode_limit_follows_the_byte_limit(disk_bytes_max: u64) {
            let inodes = Limits { disk_bytes_max, ..Limits::DEFAULT }.disk_inodes_max();
            prop_assert!((100_000..=10_000_000).contains(&inodes));
            prop_assert!(inodes == 100_000 || inodes <= disk_bytes_max / 4_096);
        }
    }

    #[test]
    fn the_serialised_name_of_a_limit_is_its_shown_name() {
        use LimitKind::{Cpu, Disk, Log, Memory, Pids, Tmp, Wall, Writes};
        for kind in [Memory, Cpu, Pids, Wall, Log, Tmp, Disk, Writes] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn rejects_values_below_the_minimum_by_name() {
        let requested = LimitRequest { pids: Some(0), ..LimitRequest::default() };
        assert_eq!(requested.check().unwrap_err().to_string(), "pids must be at least 4 processes, got 0 processes");
        let requested = LimitRequest { disk_bytes: Some(4_096), ..LimitRequest::default() };
        assert_eq!(requested.check().unwrap_err().to_string(), "disk must be at least 1 MiB, got 4 KiB");
    }
}
