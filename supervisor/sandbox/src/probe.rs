//! Probes what this host can enforce, for `proctor doctor` and `GetHost`. Tries features for real if that leaves no
//! trace.

use crate::cgroup::{self, Hierarchies, HierarchyMode, LeafSetup, MissingLimit, TransientFailure};
use crate::error::SandboxError;
use crate::host_report::{HostReport, HostRow, RowGroup, Status};
use crate::layer_plan::LAYERS;
use crate::pool::WorkerFactory;
use crate::spec::{Jail, RunAs};
use crate::workspace_fd::open_workspace;
use crate::zygote::{NOBODY, Worker};
use proctor_core::isolation::Layer;
use proctor_core::limits::{LimitKind, Limits};
use std::fs;
use std::os::unix::fs::chown;

/// CAP_SYS_ADMIN's bit in a capability set (`linux/capability.h`).
const CAP_SYS_ADMIN: u32 = 21;

/// Probes this host as the calling user. Starts one worker that installs every layer, and ends it; takes some
/// milliseconds.
#[must_use]
pub(crate) fn probe(factory: &WorkerFactory) -> HostReport {
    let hierarchies = &factory.hierarchies;
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut rows = cgroup_rows(hierarchies);
    rows.extend([mode_row(hierarchies.mode, cgroup::is_unified_mode())]);
    rows.extend([sockets_row(hierarchies), writes_row(hierarchies), leftovers_row(hierarchies)]);
    rows.extend(layer_rows(factory));
    HostReport {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cgroup_mode: hierarchies.mode.name().to_owned(),
        privileged: is_privileged(),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
        rows,
    }
}

/// Whether the calling process has CAP_SYS_ADMIN.
pub(crate) fn is_privileged() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    set & (1 << CAP_SYS_ADMIN) != 0
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Makes a leaf with the default limits for a moment: controllers whose limits read back are usable.
fn cgroup_rows(hierarchies: &Hierarchies) -> Vec<HostRow> {
    let unavailable = |failure: TransientFailure| {
        let (reason, remedy) = (failure.to_string(), "run the check again in a moment".to_owned());
        let missing = |limit| MissingLimit { limit, reason: reason.clone(), remedy: remedy.clone() };
        LeafSetup { leaf: None, limits: Vec::new(), missing: cgroup::LEAF_LIMITS.map(missing).to_vec() }
    };
    let mut setup = cgroup::open(hierarchies, "", &Limits::DEFAULT, &[]).unwrap_or_else(unavailable);
    // A controller that a supervisor delegates as soon as it runs is not missing.
    setup.missing.retain(|missing| !cgroup::can_delegate(hierarchies, cgroup::controller_name(missing.limit)));
    let has_kill = setup.leaf.as_ref().is_some_and(|leaf| leaf.clone_target().is_some());
    let mut rows: Vec<HostRow> = cgroup::LEAF_LIMITS
        .into_iter()
        .map(|limit| {
            let name = cgroup::controller_name(limit);
            let missing = setup.missing.iter().find(|missing| missing.limit == limit);
            let mounted = hierarchies.v1.contains_key(name) || hierarchies.v2.is_some();
            HostRow {
                name: name.to_owned(),
                group: RowGroup::Cgroup,
                status: match (missing, mounted) {
                    (None, _) => Status::Usable,
                    (Some(_), true) => Status::Present,
                    (Some(_), false) => Status::Missing,
                },
                detail: missing.map_or_else(|| "limits read back".to_owned(), |missing| missing.reason.clone()),
                needed: true,
                remedy: missing.map_or_else(String::new, |missing| missing.remedy.clone()),
            }
        })
        .collect();
    rows.push(HostRow {
        name: "cgroup.kill".to_owned(),
        group: RowGroup::Cgroup,
        status: if has_kill { Status::Usable } else { Status::Missing },
        detail: if has_kill {
            "kills a leaf at once"
        } else {
            "not needed: runs are killed through their pid namespace; a v2 hierarchy and Linux 5.14 would add it"
        }
        .to_owned(),
        needed: false,
        remedy: String::new(),
    });
    rows
}

/// Compares the mode that proctor reads from `/proc` with the file system at `/sys/fs/cgroup`: programs that look only there,
/// such as runtimes, would otherwise find other limits than those in force.
fn mode_row(mode: HierarchyMode, is_unified: bool) -> HostRow {
    let kind = if is_unified { "cgroup v2" } else { "no cgroup v2" };
    let (status, detail, remedy) = if is_unified == (mode == HierarchyMode::V2) {
        (Status::Usable, format!("/proc and /sys/fs/cgroup agree on {}", mode.name()), "")
    } else {
        (
            Status::Present,
            format!("/proc shows mode {}, but {kind} is mounted at /sys/fs/cgroup", mode.name()),
            "mount the hierarchies of /proc/self/cgroup at /sys/fs/cgroup",
        )
    };
    let (name, group, remedy) = ("cgroup mounts".to_owned(), RowGroup::Cgroup, remedy.to_owned());
    HostRow { name, group, status, detail, needed: false, remedy }
}

/// One row for each layer, from a worker that has tried all of them in an empty workspace.
///
/// The workspace belongs to the run's user. Whether a workspace of another user can be shown as the run's own depends
/// on its file system; the run itself reports that.
fn layer_rows(factory: &WorkerFactory) -> Vec<HostRow> {
    match try_worker(factory) {
        Ok(worker) => {
            let row = |layer| layer_row(layer, worker.enforcement.missing_reason(layer), factory.privileged);
            LAYERS.into_iter().map(row).collect()
        }
        Err(reason) => vec![HostRow {
            name: "worker".to_owned(),
            group: RowGroup::Namespace,
            status: Status::Missing,
            detail: format!("no worker could be prepared: {reason}"),
            needed: true,
            remedy: "install proctor-worker beside proctor, and allow namespaces".to_owned(),
        }],
    }
}

/// Prepares a worker with every layer in an empty workspace.
pub(crate) fn try_worker(factory: &WorkerFactory) -> Result<Worker, SandboxError> {
    let empty = || {
        let workspace = tempfile::tempdir()?;
        if factory.privileged {
            chown(workspace.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let jail = Jail::new(workspace.path().canonicalize()?);
        let (_, id) = open_workspace(&jail.workspace, None)?;
        Ok((workspace, jail, id))
    };
    let (_workspace, mut jail, id) = empty().map_err(SandboxError::kernel("making an empty workspace"))?;
    if factory.privileged {
        jail.run_as = RunAs::User { uid: NOBODY, gid: NOBODY };
    }
    factory.start_zygote(&jail, id).and_then(|zygote| factory.prepare(&zygote, &jail, &Limits::DEFAULT))
}

/// Groups of dead supervisors that cannot be removed.
fn leftovers_row(hierarchies: &Hierarchies) -> HostRow {
    let abandoned = cgroup::count_abandoned(hierarchies);
    let (status, detail, remedy) = match abandoned {
        0 => (Status::Usable, "none".to_owned(), ""),
        _ => (
            Status::Present,
            format!("{abandoned} groups of dead supervisors cannot be removed: something in them does not die"),
            "look for processes in state D (ps -eo pid,stat,wchan,args) and for messages of the kernel (dmesg); a restart of \
             the host ends them",
        ),
    };
    let (name, group, remedy) = ("leftover groups".to_owned(), RowGroup::Cgroup, remedy.to_owned());
    HostRow { name, group, status, detail, needed: false, remedy }
}

/// Whether a run's writes can be limited, tried on all disks of the host.
fn writes_row(hierarchies: &Hierarchies) -> HostRow {
    let limit = LimitKind::Writes;
    let setup = cgroup::open(hierarchies, "", &Limits::DEFAULT, &cgroup::all_block_devices());
    let missing = match setup {
        Ok(setup) => setup.missing.into_iter().find(|missing| missing.limit == limit),
        Err(failure) => Some(MissingLimit {
            limit,
            reason: failure.to_string(),
            remedy: "run the check again in a moment".to_owned(),
        }),
    };
    // A controller that a supervisor delegates as soon as it runs is not missing.
    let missing = missing.filter(|_| !cgroup::can_delegate(hierarchies, cgroup::controller_name(limit)));
    let (status, detail, remedy) = match missing {
        Some(MissingLimit { reason, remedy, .. }) => (Status::Present, reason, remedy),
        None => (Status::Usable, cgroup::write_limit_scope(hierarchies).to_owned(), String::new()),
    };
    HostRow { name: limit.name().to_owned(), group: RowGroup::Cgroup, status, detail, needed: true, remedy }
}

/// Whether the buffers of a run's sockets are limited together with its memory.
fn sockets_row(hierarchies: &Hierarchies) -> HostRow {
    let (status, detail, remedy) = match hierarchies.v1.get("memory") {
        Some(own_group) if !own_group.join(cgroup::SOCKET_BUFFERS_LIMIT).exists() => (
            Status::Missing,
            "a run's socket buffers are not covered by its memory limit",
            "boot without cgroup.memory=nokmem, or with cgroup v2",
        ),
        Some(_) => (Status::Usable, "limited to a quarter of the memory limit in addition to it, at least 8 MiB", ""),
        None => (Status::Usable, "counted as memory", ""),
    };
    HostRow {
        name: "socket buffers".to_owned(),
        group: RowGroup::Cgroup,
        status,
        detail: detail.to_owned(),
        needed: true,
        remedy: remedy.to_owned(),
    }
}

fn layer_row(layer: Layer, missing: Option<(String, String)>, privileged: bool) -> HostRow {
    let group = match layer {
        Layer::Cgroup => RowGroup::Cgroup,
        Layer::Capabilities | Layer::NoNewPrivs | Layer::Rlimits | Layer::Landlock | Layer::Seccomp => RowGroup::Filter,
        Layer::CleanEnvironment | Layer::TenantUid => RowGroup::Filter,
        _ => RowGroup::Namespace,
    };
    // An unprivileged user has no other user to run as, which is no fault of the host.
    let needed = privileged || layer != Layer::TenantUid;
    let (status, detail, remedy) = match missing {
        None => (Status::Usable, layer.purpose().to_owned(), String::new()),
        Some((reason, remedy)) => (Status::Present, reason, if needed { remedy } else { String::new() }),
    };
    HostRow { name: layer.name().to_owned(), group, status, detail, needed, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_layer_has_a_remedy_unless_the_user_cannot_have_it() {
        let reason = || Some(("no".to_owned(), "do".to_owned()));
        let row = layer_row(Layer::Seccomp, reason(), false);
        assert!(row.needed && row.status == Status::Present && row.remedy == "do", "{row:?}");
        let row = layer_row(Layer::TenantUid, reason(), false);
        assert!(!row.needed && row.remedy.is_empty(), "{row:?}");
        assert!(layer_row(Layer::TenantUid, reason(), true).needed);
        assert_eq!(layer_row(Layer::Landlock, None, true).status, Status::Usable);
    }

    #[test]
    fn reports_a_mode_that_differs_from_the_mount_at_sys_fs_cgroup() {
        use HierarchyMode::{Hybrid, None, V1, V2};
        let agrees = |mode, is_unified| mode_row(mode, is_unified).status == Status::Usable;
        assert!(agrees(V2, true) && agrees(Hybrid, false) && agrees(V1, false) && agrees(None, false));
        assert!(!agrees(V2, false) && !agrees(Hybrid, true) && !agrees(V1, true) && !agrees(None, true));
        let row = mode_row(Hierarchies::detect().mode, cgroup::is_unified_mode());
        assert_eq!(row.status, Status::Usable, "{row:?}");
    }

    #[test]
    fn a_host_without_a_v2_hierarchy_does_not_need_cgroup_kill() {
        let hierarchies = Hierarchies { v2: None, ..Hierarchies::detect() };
        let rows = cgroup_rows(&hierarchies);
        let kill = rows.iter().find(|row| row.name == "cgroup.kill").unwrap();
        assert!(!kill.needed && kill.status == Status::Missing && kill.remedy.is_empty(), "{kill:?}");
        assert_eq!(rows.iter().filter(|row| row.needed).count(), 3);
    }
}
