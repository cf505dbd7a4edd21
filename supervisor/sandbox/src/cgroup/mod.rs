//! The cgroup leaf of a run: the limits that it holds, its counters and its removal. One trait, [`Leaf`], with one
//! implementation for each kind of host.

mod cgroups_rs_controllers;
mod cpu_ledger;
mod delegation;
mod group;
mod group_name;
mod hierarchy;
mod hybrid;
mod leaf;
mod leaf_limits;
mod sweep;
mod v1;
mod v2;
mod write_limit;

#[cfg(test)]
mod tests;

pub(crate) use cgroups_rs_controllers::{SOCKET_BUFFERS_LIMIT, is_unified_mode};
pub(crate) use cpu_ledger::{CpuLedger, CpuMeter};
pub(crate) use delegation::{can_delegate, delegate_controllers, undo_delegation};
pub(crate) use group::{REMOVE_WAIT, TransientFailure};
pub(crate) use hierarchy::{Hierarchies, HierarchyMode};
pub(crate) use leaf::{Counters, JOIN_THIS_THREAD, Leaf};
pub(crate) use leaf_limits::{LEAF_LIMITS, MissingLimit, controller_name};
pub(crate) use sweep::{count_abandoned, sweep};
pub(crate) use v1::V1;
pub(crate) use write_limit::{BlockDevice, all_block_devices, block_devices_of};

use hybrid::HybridLeaf;
use leaf_limits::LeafLimits;
use proctor_core::isolation::LimitInForce;
use proctor_core::limits::{LimitKind, Limits};

/// Result of making a leaf: the leaf, the limits that read back, and the limits that this host cannot enforce.
pub(crate) struct LeafSetup {
    /// `None` if not even one controller can be used.
    pub(crate) leaf: Option<Box<dyn Leaf>>,
    pub(crate) limits: Vec<LimitInForce>,
    pub(crate) missing: Vec<MissingLimit>,
}

/// Makes a leaf for a run of `owner` below the supervisor's own group, with `limits` written and read back.
///
/// Each limit is set in v1 if its controller is mounted there, else in v2. `devices` are the disks that the run can
/// write to. `owner` may be any text; every owner has an equal share of the processors, however many leaves it has.
///
/// # Errors
/// A limit that this host cannot enforce is listed in [`LeafSetup::missing`] and the caller decides. An error
/// is a failure that says nothing about the host's abilities; no group is left behind then.
pub(crate) fn open(
    hierarchies: &Hierarchies,
    owner: &str,
    limits: &Limits,
    devices: &[BlockDevice],
) -> Result<LeafSetup, TransientFailure> {
    let is_in_v1 = |limit: &LimitKind| hierarchies.v1.contains_key(v1::controller_name(*limit));
    let has_write_limit = !devices.is_empty() && limits.write_bytes_per_s_max < u64::MAX;
    let kinds = LEAF_LIMITS.into_iter().chain(has_write_limit.then_some(LimitKind::Writes));
    let (v1_kinds, v2_kinds): (Vec<LimitKind>, Vec<LimitKind>) = kinds.partition(is_in_v1);
    let leaf_limits = LeafLimits { limits, devices };
    let (v2, v2_outcomes) = match &hierarchies.v2 {
        Some(own) => v2::open(hierarchies, own, owner, leaf_limits, &v2_kinds)?,
        None => (None, v2_kinds.iter().map(|limit| Err(not_mounted(hierarchies.mode, *limit))).collect()),
    };
    // A v2 group counts processor time without any controller; a v1 group does not.
    let (v1, v1_outcomes) = v1::open(hierarchies, owner, leaf_limits, &v1_kinds, v2.is_none())?;
    let (mut in_force, mut missing) = (Vec::new(), Vec::new());
    for outcome in v1_outcomes.into_iter().chain(v2_outcomes) {
        match outcome {
            Ok(limit) => in_force.push(limit),
            Err(limit) => missing.push(limit),
        }
    }
    let leaf: Option<Box<dyn Leaf>> = match (v1, v2) {
        (Some(v1), Some(v2)) => Some(Box::new(HybridLeaf { v2, v1 })),
        (Some(v1), None) => Some(Box::new(v1)),
        (None, Some(v2)) => Some(Box::new(v2)),
        (None, None) => None,
    };
    Ok(LeafSetup { leaf, limits: in_force, missing })
}

/// Which of a run's writes the write limit covers on this host.
pub(crate) fn write_limit_scope(hierarchies: &Hierarchies) -> &'static str {
    if !hierarchies.v1.contains_key(v1::controller_name(LimitKind::Writes)) {
        "covers everything that a run writes to a disk"
    } else if hierarchies.v2.is_some() {
        "covers everything that a run writes to a disk; cgroup v1 does not limit buffered writes, so a run that exceeds the limit \
         by them is frozen for a time"
    } else {
        "covers only writes that a run waits for (fsync, O_DIRECT): cgroup v1 does not limit buffered writes, and without a v2 \
         hierarchy a run cannot be frozen"
    }
}

fn not_mounted(mode: HierarchyMode, limit: LimitKind) -> MissingLimit {
    let controller = controller_name(limit);
    let (reason, remedy) = match mode {
        HierarchyMode::None => {
            ("no cgroup hierarchy is mounted".to_owned(), "mount cgroups, or run on a host that has them".to_owned())
        }
        _ => (
            format!("the {controller} controller is not mounted"),
            format!("mount the {controller} controller, or boot the host with it enabled"),
        ),
    };
    MissingLimit { limit, reason, remedy }
}
