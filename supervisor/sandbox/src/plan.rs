//! The layers of a run as one ordered table, and the pure decision which of its rows a run gets. Read [`ORDER`] from top
//! to bottom: that is what stands between a run and the host. Must not know how a row is carried out (`worker::layers`).

use crate::check::{SHM, TMP};
use crate::error::SandboxError;
use crate::spec::{Jail, RunAs, SCRATCH};
use proctor_core::isolation::{Layer, Network};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One thing that the worker does to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    NoCores,
    HostTrees,
    UserNamespace,
    MountNamespace,
    NetNamespace,
    Loopback,
    UtsNamespace,
    HostName,
    NoNestedUsers,
    ShareOfWatches,
    RootTree,
    Filter,
    PidNamespace,
    RunMounts,
    IpcNamespace,
    CgroupNamespace,
    TenantUid,
    OwnProc,
    SealedProc,
    OwnCgroup,
    OwnTerminals,
    PrivateTmp,
    PrivateShm,
    HiddenInit,
    Rlimits,
    Capabilities,
    NoNewPrivs,
    Landlock,
    Seccomp,
}

/// Which process carries a row out. All rows of the launcher come before all rows of init.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The worker as it was spawned, once for all runs of a room.
    Launcher,
    /// The launcher's child, pid 1 of one run.
    Init,
}

/// What it means when a row fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Demand {
    /// The worker itself stands on it: no run without it.
    Structural,
    /// No run without it: it keeps a run from what more than itself would pay for, or the caller named its layer.
    Required,
    /// No run that is user 0 of the host without it.
    RequiredOfRoot,
    /// The run goes on without it and says so.
    Wanted,
}

/// Which supervisors a row is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Everybody,
    Privileged,
    Ordinary,
}

/// One row of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) step: Step,
    /// The layer that this step is a part of. A layer is in force when all of its steps are.
    pub(crate) layer: Layer,
    pub(crate) stage: Stage,
    pub(crate) demand: Demand,
}

const fn row(step: Step, layer: Layer, stage: Stage, demand: Demand) -> Row {
    Row { step, layer, stage, demand }
}

use Demand::{Required, RequiredOfRoot, Structural, Wanted};
use Stage::{Init, Launcher};
use Whose::{Everybody, Ordinary, Privileged};

/// Every row, in the order in which it is carried out.
///
/// The rows of the launcher make what all runs of a room share and none of them can change. Who is privileged takes hold of
/// the host's directories before it gives its privilege up for that of a user namespace; everybody else has none before.
/// The rows of init make what one run has for itself; the filters come last, since they would forbid the rest.
///
/// The pid namespace is structural because its init kills with `kill(-1)`; the mount namespace because [`SCRATCH`] is the
/// same path in every run; the user namespace is, for an ordinary user, where the right to make the others comes from.
///
/// Where somebody else than the run would pay, nobody has to ask for a layer: whatever the host is like, no run has a
/// capability or gains one (`no_new_privs`), and none that root starts goes without the filter, which alone keeps set-id
/// programs out of what it leaves, or hands its memory to a program that the kernel starts as root. An ordinary user whose
/// kernel has no filters puts nobody's privilege but his own at stake, and is told.
const ORDER: [(Whose, Row); 34] = [
    (Privileged, row(Step::NoCores, Layer::Rlimits, Launcher, Required)),
    (Ordinary, row(Step::NoCores, Layer::Rlimits, Launcher, Wanted)),
    (Privileged, row(Step::HostTrees, Layer::PivotRoot, Launcher, RequiredOfRoot)),
    (Privileged, row(Step::UserNamespace, Layer::UserNamespace, Launcher, Wanted)),
    (Ordinary, row(Step::UserNamespace, Layer::UserNamespace, Launcher, Structural)),
    (Everybody, row(Step::MountNamespace, Layer::MountNamespace, Launcher, Structural)),
    (Ordinary, row(Step::HostTrees, Layer::PivotRoot, Launcher, Wanted)),
    (Everybody, row(Step::NetNamespace, Layer::NetNamespace, Launcher, Wanted)),
    (Everybody, row(Step::Loopback, Layer::NetNamespace, Launcher, Wanted)),
    (Everybody, row(Step::UtsNamespace, Layer::UtsNamespace, Launcher, Wanted)),
    (Everybody, row(Step::HostName, Layer::UtsNamespace, Launcher, Wanted)),
    (Everybody, row(Step::NoNestedUsers, Layer::UserNamespace, Launcher, Wanted)),
    (Everybody, row(Step::ShareOfWatches, Layer::UserNamespace, Launcher, Wanted)),
    (Everybody, row(Step::RootTree, Layer::PivotRoot, Launcher, RequiredOfRoot)),
    (Privileged, row(Step::Filter, Layer::Seccomp, Launcher, Required)),
    (Ordinary, row(Step::Filter, Layer::Seccomp, Launcher, Wanted)),
    (Everybody, row(Step::PidNamespace, Layer::PidNamespace, Init, Structural)),
    (Everybody, row(Step::RunMounts, Layer::MountNamespace, Init, Structural)),
    (Everybody, row(Step::IpcNamespace, Layer::IpcNamespace, Init, Wanted)),
    (Everybody, row(Step::CgroupNamespace, Layer::CgroupNamespace, Init, Wanted)),
    (Everybody, row(Step::TenantUid, Layer::TenantUid, Init, Wanted)),
    (Everybody, row(Step::OwnProc, Layer::MountNamespace, Init, Wanted)),
    (Everybody, row(Step::SealedProc, Layer::PivotRoot, Init, RequiredOfRoot)),
    (Everybody, row(Step::OwnCgroup, Layer::CgroupNamespace, Init, Wanted)),
    (Everybody, row(Step::OwnTerminals, Layer::PivotRoot, Init, RequiredOfRoot)),
    (Everybody, row(Step::PrivateTmp, Layer::MountNamespace, Init, Structural)),
    (Everybody, row(Step::PrivateShm, Layer::MountNamespace, Init, Wanted)),
    (Everybody, row(Step::HiddenInit, Layer::PidNamespace, Init, Structural)),
    (Everybody, row(Step::Rlimits, Layer::Rlimits, Init, Wanted)),
    (Everybody, row(Step::Capabilities, Layer::Capabilities, Init, Required)),
    (Everybody, row(Step::NoNewPrivs, Layer::NoNewPrivs, Init, Required)),
    (Everybody, row(Step::Landlock, Layer::Landlock, Init, Wanted)),
    (Privileged, row(Step::Seccomp, Layer::Seccomp, Init, Required)),
    (Ordinary, row(Step::Seccomp, Layer::Seccomp, Init, Wanted)),
];

/// Every layer, in the order in which reports name them. Whoever requires all that there is requires these.
pub const LAYERS: [Layer; 16] = [
    Layer::Cgroup,
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
    Layer::PivotRoot,
    Layer::TenantUid,
    Layer::Capabilities,
    Layer::NoNewPrivs,
    Layer::Rlimits,
    Layer::Landlock,
    Layer::Seccomp,
    Layer::CleanEnvironment,
];

/// The rows that `jail` gets from a supervisor with or without privilege over the host's namespaces.
///
/// A layer that is required and that no row of this run puts on is refused here, before anything is started.
pub(crate) fn rows(jail: &Jail, privileged: bool) -> Result<Vec<Row>, SandboxError> {
    let required = |layer: Layer| jail.required_layers.contains(&layer);
    let is_here = |layer: Layer| match layer {
        Layer::NetNamespace if jail.network == Network::Host => false,
        _ => !jail.left_off.contains(&layer),
    };
    let rows: Vec<Row> = ORDER
        .into_iter()
        .filter(|(whose, _)| *whose == Everybody || (*whose == Privileged) == privileged)
        .map(|(_, row)| row)
        .filter(|row| is_here(row.layer) || row.demand == Structural)
        .map(|row| Row {
            demand: match row.demand {
                Wanted | RequiredOfRoot if required(row.layer) => Required,
                demand => demand,
            },
            ..row
        })
        .collect();
    for &layer in &jail.required_layers {
        if !is_here(layer) {
            let (reason, remedy) = if layer == Layer::NetNamespace && !jail.left_off.contains(&layer) {
                ("the run asks for the host's network", "ask for network none, or do not require this layer")
            } else {
                ("it is required and left off at once", "do either")
            };
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
    }
    let cannot_be_left_off = |row: &&Row| row.demand == Structural && jail.left_off.contains(&row.layer);
    if let Some(row) = rows.iter().find(cannot_be_left_off) {
        let reason = format!("layer {} cannot be left off: the worker stands on it", row.layer.name());
        return Err(SandboxError::InvalidSpec { reason });
    }
    if jail.run_as != RunAs::Supervisor && !privileged {
        return Err(SandboxError::LayerMissing {
            layer: Layer::TenantUid,
            reason: "only a privileged supervisor can run tests as another user".into(),
            remedy: Step::TenantUid.remedy().into(),
        });
    }
    Ok(rows)
}

/// The paths that the private directories would hide and that must be bound back: the workspace and what the caller
/// names. A path inside another one is left out, since binds are recursive.
pub(crate) fn paths_to_keep(jail: &Jail) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::iter::once(&jail.workspace)
        .chain(&jail.read_only)
        .chain(&jail.writable)
        .filter(|path| is_hidden(path))
        .cloned()
        .collect();
    // Ancestors sort before what lies below them.
    paths.sort_unstable();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|ancestor| path.starts_with(ancestor)) {
            kept.push(path);
        }
    }
    kept
}

/// Whether a private directory hides `path`. The private directories and the scratch directory themselves are the run's
/// own.
pub(crate) fn is_hidden(path: &Path) -> bool {
    let own = [TMP, SHM, SCRATCH].map(Path::new);
    (path.starts_with(TMP) || path.starts_with(SHM)) && !own.contains(&path)
}

/// Most inodes of the private `/tmp`: one for every 4 KiB, at least 1,024 and at most a million (1 GiB of kernel memory,
/// which is charged to the run).
pub(crate) fn tmp_inodes_max(tmp_bytes_max: u64) -> u64 {
    (tmp_bytes_max / 4096).clamp(1_024, 1_000_000)
}

/// Most signals and POSIX timers of a session's runs that are pending.
pub(crate) const SIGNALS_MAX: u64 = 16_384;

/// Most bytes of POSIX message queues of a session's runs: what Linux gives a user.
pub(crate) const QUEUE_BYTES_MAX: u64 = 819_200;

/// Most bytes that a process of a run keeps from being moved.
pub(crate) const LOCKED_BYTES_MAX: u64 = 64 << 20;

/// Most terminals of a run, of the 3,072 that the kernel has beside those of the host's own `/dev/pts`.
pub(crate) const TERMINALS_MAX: u32 = 256;

/// Most open files of each process of a run, whatever the host has: build tools and browsers open some thousands.
pub(crate) const FILES_MAX: u64 = 65_536;

/// Open files that every process of a run may have, however few the host has.
pub(crate) const FILES_MIN: u64 = 4_096;

/// Most open files of each process of a run with `pids_max` of them, on a host that has `of_host` (`fs.file-max`): together
/// they have half of it at most, and each at least [`FILES_MIN`].
pub(crate) fn files_max(pids_max: u32, of_host: u64) -> u64 {
    (of_host / 2 / u64::from(pids_max.max(1))).clamp(FILES_MIN, FILES_MAX)
}

impl Step {
    /// The step's name in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::NoCores => "no core dumps",
            Step::HostTrees => "taking hold of the host's directories",
            Step::UserNamespace => "user namespace",
            Step::MountNamespace => "mount namespace",
            Step::NetNamespace => "network namespace",
            Step::Loopback => "loopback interface",
            Step::UtsNamespace => "UTS namespace",
            Step::HostName => "host name",
            Step::NoNestedUsers => "no user namespaces inside",
            Step::ShareOfWatches => "a share of the watches on files",
            Step::RootTree => "root of its own",
            Step::Filter => "system call filter",
            Step::PidNamespace => "pid namespace",
            Step::RunMounts => "mounts of its own",
            Step::IpcNamespace => "IPC namespace",
            Step::CgroupNamespace => "cgroup namespace",
            Step::TenantUid => "user of its own",
            Step::OwnProc => "own /proc",
            Step::SealedProc => "nothing of the host to write in /proc",
            Step::OwnCgroup => "own /sys/fs/cgroup",
            Step::OwnTerminals => "own /dev/pts",
            Step::PrivateTmp => "private /tmp",
            Step::PrivateShm => "private /dev/shm",
            Step::HiddenInit => "init that nobody can trace",
            Step::Rlimits => "resource limits",
            Step::Capabilities => "no capabilities",
            Step::NoNewPrivs => "no_new_privs",
            Step::Landlock => "landlock",
            Step::Seccomp => "seccomp",
        }
    }

    /// The kind of namespace that it makes, as in the sysctl `user.max_KIND_namespaces`.
    pub(crate) fn namespace(self) -> Option<&'static str> {
        match self {
            Step::UserNamespace => Some("user"),
            Step::MountNamespace | Step::RunMounts => Some("mnt"),
            Step::NetNamespace => Some("net"),
            Step::UtsNamespace => Some("uts"),
            Step::PidNamespace => Some("pid"),
            Step::IpcNamespace => Some("ipc"),
            Step::CgroupNamespace => Some("cgroup"),
            _ => None,
        }
    }

    /// What a person can do when it fails.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Step::UserNamespace => {
                "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, \
                 kernel.apparmor_restrict_unprivileged_userns=0"
            }
            Step::NoCores => {
                "allow core files of 1 byte, which are none (ulimit -H -c 1, LimitCORE=1), or let no program have cores \
                 (sysctl kernel.core_pattern)"
            }
            Step::TenantUid => {
                "run proctor as root: serve with a uid range for the tenant, run in a workspace of another user or on a \
                 file system with idmapped mounts"
            }
            Step::OwnProc => "in a container, run it with an unmasked /proc",
            Step::PrivateTmp => "check that the workspace exists and that tmpfs can be mounted",
            Step::PrivateShm => "check that /dev/shm exists and that tmpfs can be mounted",
            Step::OwnTerminals => "use a kernel with devpts",
            Step::Landlock => "use a kernel with landlock, and name it in the boot parameter lsm=",
            Step::Seccomp | Step::Filter => "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)",
            Step::NoNewPrivs | Step::Rlimits | Step::Capabilities | Step::HiddenInit => {
                "use a Linux kernel of 5.14 or later"
            }
            _ => "run as root or with CAP_SYS_ADMIN, or allow user namespaces; check sysctl user.max_*_namespaces",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers that no row puts on: the leaf is the supervisor's, and a command's environment is only what its specification
    /// says, by construction.
    const NOT_IN_ROWS: [Layer; 2] = [Layer::Cgroup, Layer::CleanEnvironment];

    fn jail() -> Jail {
        Jail {
            read_only: vec!["/opt/go".into(), "/tmp".into(), "/tmpfile".into(), "/tmp/tools/run".into()],
            writable: vec!["/tmp/ws/.cache".into(), "/dev/shm/cache".into()],
            ..Jail::at("/tmp/ws")
        }
    }

    fn requiring(layers: &[Layer]) -> Jail {
        Jail { required_layers: layers.to_vec(), ..jail() }
    }

    #[test]
    fn the_launcher_is_done_before_init_begins() {
        let first_of_init = ORDER.iter().position(|(_, row)| row.stage == Init).unwrap();
        assert!(ORDER[first_of_init..].iter().all(|(_, row)| row.stage == Init));
    }

    #[test]
    fn every_layer_is_put_on_by_a_row_of_everybody() {
        for privileged in [true, false] {
            let rows = rows(&jail(), privileged).unwrap();
            for layer in LAYERS.into_iter().filter(|layer| !NOT_IN_ROWS.contains(layer)) {
                assert!(rows.iter().any(|row| row.layer == layer), "{layer:?}");
            }
        }
    }

    #[test]
    fn privilege_is_used_before_it_is_given_up_and_an_ordinary_user_has_it_only_then() {
        let place =
            |privileged, step| rows(&jail(), privileged).unwrap().iter().position(|row| row.step == step).unwrap();
        assert!(place(true, Step::HostTrees) < place(true, Step::UserNamespace));
        assert!(place(false, Step::HostTrees) > place(false, Step::MountNamespace));
    }

    #[test]
    fn a_required_layer_that_this_run_does_not_get_is_refused_by_name() {
        let host = Jail { network: Network::Host, ..requiring(&[Layer::NetNamespace]) };
        assert!(matches!(rows(&host, true), Err(SandboxError::LayerMissing { layer: Layer::NetNamespace, .. })));
        let both = Jail { left_off: vec![Layer::Seccomp], ..requiring(&[Layer::Seccomp]) };
        assert!(matches!(rows(&both, true), Err(SandboxError::LayerMissing { layer: Layer::Seccomp, .. })));
        let rows = rows(&requiring(&[Layer::NetNamespace, Layer::Cgroup]), true).unwrap();
        assert!(rows.iter().filter(|row| row.layer == Layer::NetNamespace).all(|row| row.demand == Required));
    }

    /// Invariant 6: nobody has to ask for what keeps a run from other people's privilege.
    #[test]
    fn no_run_goes_on_with_privilege_and_none_of_root_without_the_filter() {
        let demands = |privileged, layer| -> Vec<Demand> {
            let rows = rows(&jail(), privileged).unwrap();
            rows.iter().filter(|row| row.layer == layer).map(|row| row.demand).collect()
        };
        for layer in [Layer::Capabilities, Layer::NoNewPrivs] {
            assert_eq!(
                [true, false].map(|privileged| demands(privileged, layer)),
                [[Required], [Required]],
                "{layer:?}"
            );
        }
        assert_eq!(demands(true, Layer::Seccomp), [Required, Required]);
        assert_eq!(demands(false, Layer::Seccomp), [Wanted, Wanted]);
        assert!(demands(true, Layer::PivotRoot).iter().all(|demand| *demand == RequiredOfRoot));
        let off = Jail { left_off: vec![Layer::Seccomp], ..jail() };
        assert!(
            rows(&off, true).unwrap().iter().all(|row| row.layer != Layer::Seccomp),
            "an operator may leave it off"
        );
    }

    #[test]
    fn what_the_worker_stands_on_cannot_be_left_off() {
        let off = |layer| Jail { left_off: vec![layer], ..jail() };
        for layer in [Layer::PidNamespace, Layer::MountNamespace] {
            assert!(matches!(rows(&off(layer), true), Err(SandboxError::InvalidSpec { .. })), "{layer:?}");
        }
        assert!(rows(&off(Layer::UserNamespace), false).is_err());
        let rows = rows(&off(Layer::UserNamespace), true).unwrap();
        assert!(!rows.iter().any(|row| row.layer == Layer::UserNamespace));
    }

    #[test]
    fn only_privilege_can_run_as_another_user() {
        let other = Jail { run_as: RunAs::User { uid: 7, gid: 7 }, ..jail() };
        assert!(rows(&other, true).is_ok());
        assert!(matches!(rows(&other, false), Err(SandboxError::LayerMissing { layer: Layer::TenantUid, .. })));
    }

    #[test]
    fn only_what_a_private_directory_hides_is_kept_and_nothing_twice() {
        assert_eq!(paths_to_keep(&jail()), ["/dev/shm/cache", "/tmp/tools/run", "/tmp/ws"].map(PathBuf::from));
    }

    #[test]
    fn all_processes_of_a_run_have_half_of_the_hosts_files_together() {
        assert_eq!(files_max(512, u64::MAX), FILES_MAX);
        assert_eq!(files_max(100, 2_000_000), 10_000);
        assert_eq!(files_max(u32::MAX, 2_000_000), FILES_MIN);
        assert_eq!(files_max(0, 2_000_000), FILES_MAX);
        // A host with few: what a run needs to get anywhere goes before, and `pids` bounds how many have it.
        assert_eq!(files_max(512, 50_000), FILES_MIN);
        assert_eq!(files_max(4, 50_000), 6_250);
    }

    #[test]
    fn inodes_follow_the_size_within_bounds() {
        assert_eq!(tmp_inodes_max(1), 1_024);
        assert_eq!(tmp_inodes_max(1 << 30), 262_144);
        assert_eq!(tmp_inodes_max(u64::MAX), 1_000_000);
    }
}
