//! What this host can enforce, row by row, for `proctor doctor` and `GetHost`. Tries things for real where that leaves no
//! trace. Must not decide what a run needs.

use crate::cgroup::{self, MissingLimit, Opened, Passing, Places};
use crate::error::SandboxError;
use crate::hold::hold;
use crate::plan::LAYERS;
use crate::pool::Maker;
use crate::room::{NOBODY, Worker};
use crate::spec::{Jail, RunAs};
use proctor_core::isolation::Layer;
use proctor_core::limits::{LimitKind, Limits};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::chown;

/// CAP_SYS_ADMIN's bit in a capability set (`linux/capability.h`).
const CAP_SYS_ADMIN: u32 = 21;

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowGroup {
    /// A controller, or what kills and places without one.
    Cgroup,
    /// A kind of namespace.
    Namespace,
    /// A filter on what processes may do.
    Filter,
}

/// Whether runs on this host can have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Tried, and it works for this user.
    Usable,
    /// The kernel has it and this user or this version cannot use it.
    Present,
    /// The kernel does not have it.
    Missing,
}

/// One thing that a host can or cannot enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Its name, as in reports and the host file.
    pub name: String,
    /// What it is about.
    pub group: RowGroup,
    /// Whether runs can have it.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// Whether this version needs it on this host to put on all of its layers and limits. A row that is not needed is
    /// there to be known, and nothing is wrong when it is not usable.
    pub needed: bool,
    /// What a person can do about it; empty when it is usable, or not needed.
    pub remedy: String,
}

/// What a host can enforce.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HostReport {
    /// The kernel's release: `6.1.0-18-amd64`.
    pub kernel: String,
    /// `v2`, `hybrid`, `v1` or `none`.
    pub cgroup_mode: String,
    /// Whether this process may make namespaces without a user namespace.
    pub privileged: bool,
    /// Processors that this process may use.
    pub cpus: u32,
    /// Memory of the host, bytes; 0 when unknown.
    pub memory_bytes: u64,
    /// Row by row.
    pub rows: Vec<HostRow>,
}

/// Looks at this host, as the calling user. Has a worker put on every layer once, and ends it; takes some milliseconds.
#[must_use]
pub(crate) fn probe(maker: &Maker) -> HostReport {
    let places = &maker.places;
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut rows = cgroup_rows(places);
    rows.extend([sockets_row(places), writes_row(places), leftovers_row(places)]);
    rows.extend(layer_rows(maker));
    HostReport {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cgroup_mode: places.mode.name().to_owned(),
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

/// Makes a leaf with the default limits for a moment: what reads back is usable.
fn cgroup_rows(places: &Places) -> Vec<HostRow> {
    let passing = |passing: Passing| {
        let (reason, remedy) = (passing.to_string(), "look again in a moment".to_owned());
        let missing = |limit| MissingLimit { limit, reason: reason.clone(), remedy: remedy.clone() };
        Opened { leaf: None, in_force: Vec::new(), missing: cgroup::LEAF_LIMITS.map(missing).to_vec() }
    };
    let mut opened = cgroup::open(places, "", &Limits::DEFAULT, &[]).unwrap_or_else(passing);
    // Nothing is wrong with what a supervisor does as soon as it runs.
    opened.missing.retain(|missing| !cgroup::would_hand_down(places, cgroup::controller(missing.limit)));
    let has_kill = opened.leaf.as_ref().is_some_and(|leaf| leaf.birth().is_some());
    let mut rows: Vec<HostRow> = cgroup::LEAF_LIMITS
        .into_iter()
        .map(|limit| {
            let name = cgroup::controller(limit);
            let missing = opened.missing.iter().find(|missing| missing.limit == limit);
            let there = places.v1.contains_key(name) || places.v2.is_some();
            HostRow {
                name: name.to_owned(),
                group: RowGroup::Cgroup,
                status: match (missing, there) {
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

/// What a worker says after it has tried everything, in an empty workspace of its own.
///
/// The workspace belongs to the run's user. Whether one of somebody else can be shown as the run's own is up to its file
/// system, and told by the run.
fn layer_rows(maker: &Maker) -> Vec<HostRow> {
    match try_worker(maker) {
        Ok(worker) => {
            let row = |layer| layer_row(layer, worker.in_force.why_not(layer), maker.privileged);
            LAYERS.into_iter().map(row).collect()
        }
        Err(reason) => vec![HostRow {
            name: "worker".to_owned(),
            group: RowGroup::Namespace,
            status: Status::Missing,
            detail: format!("no worker could put on any layer: {reason}"),
            needed: true,
            remedy: "install proctor-worker beside proctor, and allow namespaces".to_owned(),
        }],
    }
}

/// A worker that has put on every layer in an empty workspace.
pub(crate) fn try_worker(maker: &Maker) -> Result<Worker, SandboxError> {
    let empty = || {
        let workspace = tempfile::tempdir()?;
        if maker.privileged {
            chown(workspace.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let jail = Jail::at(workspace.path().canonicalize()?);
        let (_, id) = hold(&jail.workspace, None)?;
        Ok((workspace, jail, id))
    };
    let (_workspace, mut jail, id) = empty().map_err(SandboxError::kernel("making an empty workspace"))?;
    if maker.privileged {
        jail.run_as = RunAs::User { uid: NOBODY, gid: NOBODY };
    }
    maker.open(&jail, id).and_then(|room| maker.prepare(&room, &jail, &Limits::DEFAULT))
}

/// Groups that dead supervisors have left and that cannot be removed.
fn leftovers_row(places: &Places) -> HostRow {
    let stuck = cgroup::given_up(places);
    let (status, detail, remedy) = match stuck {
        0 => (Status::Usable, "none that cannot be removed".to_owned(), ""),
        _ => (
            Status::Present,
            format!("{stuck} groups of dead supervisors cannot be removed: something in them does not die"),
            "look for processes in state D (ps -eo pid,stat,wchan,args) and for the kernel's own words (dmesg); a restart of \
             the host ends them",
        ),
    };
    let (name, group, remedy) = ("leftover groups".to_owned(), RowGroup::Cgroup, remedy.to_owned());
    HostRow { name, group, status, detail, needed: false, remedy }
}

/// Whether a run's writes to the host's disks have a bound, tried on all of them.
fn writes_row(places: &Places) -> HostRow {
    let limit = LimitKind::Writes;
    let opened = cgroup::open(places, "", &Limits::DEFAULT, &cgroup::all_disks());
    let missing = match opened {
        Ok(opened) => opened.missing.into_iter().find(|missing| missing.limit == limit),
        Err(passing) => {
            Some(MissingLimit { limit, reason: passing.to_string(), remedy: "look again in a moment".to_owned() })
        }
    };
    // Nothing is wrong with what a supervisor does as soon as it runs.
    let missing = missing.filter(|_| !cgroup::would_hand_down(places, cgroup::controller(limit)));
    let (status, detail, remedy) = match missing {
        Some(MissingLimit { reason, remedy, .. }) => (Status::Present, reason, remedy),
        None => (Status::Usable, cgroup::scope_of_writes(places).to_owned(), String::new()),
    };
    HostRow { name: limit.name().to_owned(), group: RowGroup::Cgroup, status, detail, needed: true, remedy }
}

/// Whether the buffers of a run's sockets are bounded with its memory.
fn sockets_row(places: &Places) -> HostRow {
    let (status, detail, remedy) = match places.v1.get("memory") {
        Some(own) if !own.join(cgroup::SOCKETS).exists() => (
            Status::Missing,
            "a run's sockets can take memory of the host beside its limit",
            "boot without cgroup.memory=nokmem, or with cgroup v2",
        ),
        Some(_) => (Status::Usable, "a quarter of the memory limit beside it, at least 8 MiB", ""),
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
    // An ordinary user has no other user to run as; nothing is wrong with the host.
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
    fn a_layer_that_is_missing_has_a_remedy_unless_the_user_cannot_have_it() {
        let why = || Some(("no".to_owned(), "do".to_owned()));
        let row = layer_row(Layer::Seccomp, why(), false);
        assert!(row.needed && row.status == Status::Present && row.remedy == "do", "{row:?}");
        let row = layer_row(Layer::TenantUid, why(), false);
        assert!(!row.needed && row.remedy.is_empty(), "{row:?}");
        assert!(layer_row(Layer::TenantUid, why(), true).needed);
        assert_eq!(layer_row(Layer::Landlock, None, true).status, Status::Usable);
    }

    #[test]
    fn a_host_without_a_v2_hierarchy_lacks_nothing_that_is_needed_for_killing() {
        let places = Places { v2: None, ..Places::find() };
        let rows = cgroup_rows(&places);
        let kill = rows.iter().find(|row| row.name == "cgroup.kill").unwrap();
        assert!(!kill.needed && kill.status == Status::Missing && kill.remedy.is_empty(), "{kill:?}");
        assert_eq!(rows.iter().filter(|row| row.needed).count(), 3);
    }
}
