//! The limits of a leaf and how they are written to a group: what v1 and v2 have in common.

use super::cgroups_rs_controllers;
use super::group::{GroupError, TransientFailure};
use super::write_limit::{BlockDevice, WriteThrottle};
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};
use std::path::Path;

/// Limits that every leaf enforces; a leaf that can write to a disk also has [`LimitKind::Writes`].
pub(crate) const LEAF_LIMITS: [LimitKind; 3] = [LimitKind::Memory, LimitKind::Cpu, LimitKind::Pids];

/// Largest memory limit: the kernel clips larger ones to its largest page counter, which v2 reads back as no limit.
const MEMORY_BYTES_CEILING: u64 = 0x7FFF_FFFF_FFFF_0000;

/// Largest number of processes that the kernel accepts.
const PIDS_CEILING: u64 = 4_194_304;

/// Largest processor quota that the kernel accepts, in thousandths of a processor: 100,000 processors.
const CPU_MILLIS_CEILING: u64 = 100_000_000;

/// Period of the cpu controller, microseconds. A quota is a share of it.
const PERIOD_US: u64 = 100_000;

/// A limit that this host cannot enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingLimit {
    pub(crate) limit: LimitKind,
    /// Contains no host path.
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

/// The kernel's v2 name of the controller that enforces `limit`.
pub(crate) fn controller_name(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Memory => "memory",
        LimitKind::Cpu => "cpu",
        LimitKind::Writes => "io",
        _ => "pids",
    }
}

/// The limits of a run and the disks to which its write limit applies.
#[derive(Clone, Copy)]
pub(super) struct LeafLimits<'a> {
    pub(super) limits: &'a Limits,
    pub(super) devices: &'a [BlockDevice],
}

/// Functions of one kind of hierarchy that write a limit into a group and return the value that read back.
pub(super) struct LimitWriters {
    pub(super) memory: fn(&Path, u64) -> Result<u64, GroupError>,
    pub(super) cpu: fn(&Path, u64) -> Result<u64, GroupError>,
    pub(super) writes: WriteThrottle,
}

/// The part of a leaf in one kind of hierarchy, and for each of its limits whether it is in force.
pub(super) type LeafPart<L> = Result<(Option<L>, Vec<Result<LimitInForce, MissingLimit>>), TransientFailure>;

/// Writes one limit into the group `dir` and returns the value that read back. The file for pids is the same in v1 and
/// v2.
pub(super) fn apply_limit(
    dir: &Path,
    limit: LimitKind,
    LeafLimits { limits, devices }: LeafLimits<'_>,
    writers: &LimitWriters,
) -> Result<u64, GroupError> {
    match limit {
        LimitKind::Memory => (writers.memory)(dir, limits.memory_bytes_max.min(MEMORY_BYTES_CEILING)),
        LimitKind::Cpu => (writers.cpu)(dir, limits.cpu_millis_max.into()),
        LimitKind::Writes => writers.writes.set(dir, devices, limits.write_bytes_per_s_max),
        // Init counts as one of them.
        _ => cgroups_rs_controllers::set_pids(dir, PIDS_CEILING.min(limits.pids_max.into())),
    }
}

/// Quota and period, microseconds, for a limit in thousandths of a processor.
pub(super) fn quota_us(cpu_millis_max: u64) -> (u64, u64) {
    (cpu_millis_max.min(CPU_MILLIS_CEILING) * PERIOD_US / 1_000, PERIOD_US)
}
