//! What this host can enforce, row by row, for `proctor doctor` and `GetHost`. Tries things for real where that leaves no
//! trace. Must not decide what a run needs.

use crate::cgroup::{self, Places};
use crate::plan;
use crate::worker::{PROBE, Trial};
use proctor_core::isolation::Layer;
use proctor_core::limits::Limits;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

/// Looks at this host, as the calling user. Starts `worker_binary` once to try the namespaces; takes some milliseconds.
#[must_use]
pub fn probe(worker_binary: &Path) -> HostReport {
    let places = Places::find();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut rows = cgroup_rows(&places);
    rows.extend(namespace_rows(worker_binary));
    rows.extend([landlock_row(), seccomp_row()]);
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
    let mut opened = cgroup::open(places, "", &Limits::DEFAULT);
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

#[expect(clippy::disallowed_methods, reason = "the worker is the one program that the sandbox starts")]
fn namespace_rows(worker_binary: &Path) -> Vec<HostRow> {
    let output = Command::new(worker_binary).arg(PROBE).env_clear().stdin(Stdio::null()).output();
    let trials: Option<Vec<Trial>> = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let Some(trials) = trials else {
        return vec![HostRow {
            name: "worker".to_owned(),
            group: RowGroup::Namespace,
            status: Status::Missing,
            detail: "the worker could not be started to try the namespaces".to_owned(),
            needed: true,
            remedy: "install proctor-worker beside proctor".to_owned(),
        }];
    };
    let privileged = is_privileged();
    trials.into_iter().map(|trial| namespace_row(trial, privileged)).collect()
}

fn namespace_row(trial: Trial, privileged: bool) -> HostRow {
    let needed = plan::puts_on(trial.layer, privileged);
    let file = match trial.layer {
        Layer::UserNamespace => "user",
        Layer::MountNamespace => "mnt",
        Layer::PidNamespace => "pid",
        Layer::NetNamespace => "net",
        Layer::IpcNamespace => "ipc",
        Layer::UtsNamespace => "uts",
        _ => "cgroup",
    };
    let there = Path::new("/proc/self/ns").join(file).exists();
    let (status, detail, remedy) = match (trial.failure, there) {
        (None, _) => (Status::Usable, "tried".to_owned(), ""),
        (Some(reason), true) => (
            Status::Present,
            reason,
            "run as root, or allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1",
        ),
        (Some(reason), false) => (Status::Missing, reason, "use a kernel that is built with this namespace"),
    };
    let (detail, remedy) = match trial.layer {
        _ if needed => (detail, remedy),
        Layer::UserNamespace => (format!("{detail}; not needed, as the supervisor is privileged"), ""),
        _ => (format!("{detail}; not used by this version"), ""),
    };
    let name = trial.layer.name().to_owned();
    HostRow { name, group: RowGroup::Namespace, status, detail, needed, remedy: remedy.to_owned() }
}

fn landlock_row() -> HostRow {
    // SAFETY: with a null attribute, size 0 and this flag the call only returns the ABI's version (landlock(7)).
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) };
    let (status, detail) = match abi {
        1.. => (Status::Present, format!("ABI {abi}; not used by this version")),
        _ => (Status::Missing, format!("{}; not used by this version", std::io::Error::last_os_error())),
    };
    filter_row("landlock", status, detail)
}

fn seccomp_row() -> HostRow {
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the call reads the one number that the pointer points to.
    let known = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    let (status, detail) = match known {
        0 => (Status::Present, "filters can be installed; not used by this version".to_owned()),
        _ => (Status::Missing, format!("{}; not used by this version", std::io::Error::last_os_error())),
    };
    filter_row("seccomp", status, detail)
}

/// A filter that no run of this version has.
fn filter_row(name: &str, status: Status, detail: String) -> HostRow {
    HostRow { name: name.to_owned(), group: RowGroup::Filter, status, detail, needed: false, remedy: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_of_this_user_get_is_needed() {
        let row = |layer, privileged| namespace_row(Trial { layer, failure: Some("no".into()) }, privileged);
        let user = row(Layer::UserNamespace, true);
        assert!(!user.needed && user.remedy.is_empty() && user.status == Status::Present, "{user:?}");
        let user = row(Layer::UserNamespace, false);
        assert!(user.needed && !user.remedy.is_empty(), "{user:?}");
        for privileged in [true, false] {
            assert!(row(Layer::PidNamespace, privileged).needed && row(Layer::NetNamespace, privileged).needed);
            assert!(!row(Layer::CgroupNamespace, privileged).needed);
        }
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
