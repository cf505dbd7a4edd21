//! The isolation layers of a run as one ordered table, and the pure decision which of its rows a run gets. Read
//! [`ORDER`] from top to bottom: these rows stand between a run and the host.

use crate::error::SandboxError;
use crate::spec::{Jail, RunAs, SCRATCH};
use crate::spec_validation::{SHM, TMP};
use proctor_core::isolation::{Layer, Network};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One isolation step that the worker carries out on itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    NoCoreDumps,
    HostTrees,
    UserNamespace,
    MountNamespace,
    NetNamespace,
    Loopback,
    UtsNamespace,
    HostName,
    NoNestedUserNamespaces,
    InotifyShare,
    RootTree,
    CompileFilter,
    PidNamespace,
    RunMountNamespace,
    IpcNamespace,
    CgroupNamespace,
    TenantUid,
    PrivateProc,
    ReadOnlyProc,
    CgroupMount,
    PrivatePts,
    PrivateTmp,
    PrivateShm,
    ReplacedFile,
    UntraceableInit,
    Rlimits,
    Capabilities,
    NoNewPrivs,
    Landlock,
    Seccomp,
}

/// Process that carries out a row. All rows of the launcher come before all rows of init.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The worker process that the supervisor spawns. It carries out its rows once, for all runs of its zygote.
    Launcher,
    /// The launcher's child, pid 1 of one run.
    Init,
}

/// What follows from the failure of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Demand {
    /// No run without it: the worker itself depends on it.
    Structural,
    /// No run without it: it protects others than the run itself, or the caller requires its layer.
    Required,
    /// Like `Required` for a run as user 0 of the host, else like `Optional`.
    RequiredOfRoot,
    /// The run goes on without it and its report says so.
    Optional,
}

/// Supervisors that a row applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SupervisorKind {
    Any,
    Privileged,
    Unprivileged,
}

/// One row of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanRow {
    pub(crate) step: Step,
    /// Layer that this step is a part of. A layer is in force when all of its steps succeeded.
    pub(crate) layer: Layer,
    pub(crate) stage: Stage,
    pub(crate) demand: Demand,
}

const fn row(step: Step, layer: Layer, stage: Stage, demand: Demand) -> PlanRow {
    PlanRow { step, layer, stage, demand }
}

use Demand::{Optional, Required, RequiredOfRoot, Structural};
use Stage::{Init, Launcher};
use SupervisorKind::{Any, Privileged, Unprivileged};

/// Every row, in the order in which it is carried out.
///
/// The launcher rows set up what all runs of a zygote share and none of them can change. A privileged launcher clones
/// the host's directories before it enters the user namespace and so gives up its privilege; an unprivileged launcher
/// gains the right to clone them only in its user namespace. The init rows set up what one run has for itself; the
/// filters come last, since they would forbid the other steps.
///
/// The pid namespace is structural because its init kills with `kill(-1)`; the mount namespace because [`SCRATCH`] is
/// the same path in every run; the user namespace, for an unprivileged supervisor, because it grants the right to make
/// the other namespaces; the replaced file because without it the run would test another program.
///
/// Rows that protect others than the run itself are required even if the caller does not require their layer. On any
/// host, no run has or gains a capability (`no_new_privs`). No run that root starts goes without the filter: nothing
/// else keeps set-id programs out of the files that it leaves, or its core dumps from a program that the kernel starts
/// as root. An unprivileged user on a kernel without filters risks only his own privilege, and the report says so.
const ORDER: [(SupervisorKind, PlanRow); 35] = [
    (Privileged, row(Step::NoCoreDumps, Layer::Rlimits, Launcher, Required)),
    (Unprivileged, row(Step::NoCoreDumps, Layer::Rlimits, Launcher, Optional)),
    (Privileged, row(Step::HostTrees, Layer::PivotRoot, Launcher, RequiredOfRoot)),
    (Privileged, row(Step::UserNamespace, Layer::UserNamespace, Launcher, Optional)),
    (Unprivileged, row(Step::UserNamespace, Layer::UserNamespace, Launcher, Structural)),
    (Any, row(Step::MountNamespace, Layer::MountNamespace, Launcher, Structural)),
    (Unprivileged, row(Step::HostTrees, Layer::PivotRoot, Launcher, Optional)),
    (Any, row(Step::NetNamespace, Layer::NetNamespace, Launcher, Optional)),
    (Any, row(Step::Loopback, Layer::NetNamespace, Launcher, Optional)),
    (Any, row(Step::UtsNamespace, Layer::UtsNamespace, Launcher, Optional)),
    (Any, row(Step::HostName, Layer::UtsNamespace, Launcher, Optional)),
    (Any, row(Step::NoNestedUserNamespaces, Layer::UserNamespace, Launcher, Optional)),
    (Any, row(Step::InotifyShare, Layer::UserNamespace, Launcher, Optional)),
    (Any, row(Step::RootTree, Layer::PivotRoot, Launcher, RequiredOfRoot)),
    (Privileged, row(Step::CompileFilter, Layer::Seccomp, Launcher, Required)),
    (Unprivileged, row(Step::CompileFilter, Layer::Seccomp, Launcher, Optional)),
    (Any, row(Step::PidNamespace, Layer::PidNamespace, Init, Structural)),
    (Any, row(Step::RunMountNamespace, Layer::MountNamespace, Init, Structural)),
    (Any, row(Step::IpcNamespace, Layer::IpcNamespace, Init, Optional)),
    (Any, row(Step::CgroupNamespace, Layer::CgroupNamespace, Init, Optional)),
    (Any, row(Step::TenantUid, Layer::TenantUid, Init, Optional)),
    (Any, row(Step::PrivateProc, Layer::MountNamespace, Init, Optional)),
    (Any, row(Step::ReadOnlyProc, Layer::PivotRoot, Init, RequiredOfRoot)),
    (Any, row(Step::CgroupMount, Layer::CgroupNamespace, Init, Optional)),
    (Any, row(Step::PrivatePts, Layer::PivotRoot, Init, RequiredOfRoot)),
    (Any, row(Step::PrivateTmp, Layer::MountNamespace, Init, Structural)),
    (Any, row(Step::PrivateShm, Layer::MountNamespace, Init, Optional)),
    (Any, row(Step::ReplacedFile, Layer::MountNamespace, Init, Structural)),
    (Any, row(Step::UntraceableInit, Layer::PidNamespace, Init, Structural)),
    (Any, row(Step::Rlimits, Layer::Rlimits, Init, Optional)),
    (Any, row(Step::Capabilities, Layer::Capabilities, Init, Required)),
    (Any, row(Step::NoNewPrivs, Layer::NoNewPrivs, Init, Required)),
    (Any, row(Step::Landlock, Layer::Landlock, Init, Optional)),
    (Privileged, row(Step::Seccomp, Layer::Seccomp, Init, Required)),
    (Unprivileged, row(Step::Seccomp, Layer::Seccomp, Init, Optional)),
];

/// Every layer, in the order in which reports name them; the default of the host file requires all of them.
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

/// The rows for `jail`; `privileged` is whether the supervisor is privileged over the host's namespaces.
///
/// # Errors
/// A required layer is disabled for this run, or a layer that the worker depends on is left off.
pub(crate) fn rows_for(jail: &Jail, privileged: bool) -> Result<Vec<PlanRow>, SandboxError> {
    let required = |layer: Layer| jail.required_layers.contains(&layer);
    let is_enabled = |layer: Layer| match layer {
        Layer::NetNamespace if jail.network == Network::Host => false,
        _ => !jail.left_off.contains(&layer),
    };
    let rows: Vec<PlanRow> = ORDER
        .into_iter()
        .filter(|(kind, _)| *kind == Any || (*kind == Privileged) == privileged)
        .map(|(_, row)| row)
        .filter(|row| is_enabled(row.layer) || row.demand == Structural)
        .map(|row| PlanRow {
            demand: match row.demand {
                Optional | RequiredOfRoot if required(row.layer) => Required,
                demand => demand,
            },
            ..row
        })
        .collect();
    for &layer in &jail.required_layers {
        if !is_enabled(layer) {
            let (reason, remedy) = if layer == Layer::NetNamespace && !jail.left_off.contains(&layer) {
                ("the run asks for the host's network", "ask for network none, or do not require this layer")
            } else {
                ("it is both required and left off", "require it or leave it off, not both")
            };
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
    }
    let cannot_be_left_off = |row: &&PlanRow| row.demand == Structural && jail.left_off.contains(&row.layer);
    if let Some(row) = rows.iter().find(cannot_be_left_off) {
        let reason = format!("layer {} cannot be left off: the worker depends on it", row.layer.name());
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

/// Paths that the private directories would hide and that must be bound back: the workspace and the jail's read-only
/// and writable paths. Paths inside another one are left out, since the binds are recursive.
pub(crate) fn paths_to_keep(jail: &Jail) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::iter::once(&jail.workspace)
        .chain(&jail.read_only)
        .chain(&jail.writable)
        .filter(|path| is_hidden(path))
        .cloned()
        .collect();
    // Ancestors sort before their descendants.
    paths.sort_unstable();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !outermost.iter().any(|ancestor| path.starts_with(ancestor)) {
            outermost.push(path);
        }
    }
    outermost
}

/// Whether a private directory hides `path`. The private directories and the scratch directory themselves belong to the
/// run.
pub(crate) fn is_hidden(path: &Path) -> bool {
    let private_dirs = [TMP, SHM, SCRATCH].map(Path::new);
    (path.starts_with(TMP) || path.starts_with(SHM)) && !private_dirs.contains(&path)
}

/// Most inodes of the private `/tmp`: one for every 4 KiB, at least 1,024 and at most a million (1 GiB of kernel
/// memory, which is charged to the run).
pub(crate) fn tmp_inodes_max(tmp_bytes_max: u64) -> u64 {
    (tmp_bytes_max / 4096).clamp(1_024, 1_000_000)
}

/// Most pending signals and POSIX timers of a session's runs.
pub(crate) const SIGNALS_MAX: u64 = 16_384;

/// Most bytes of POSIX message queues of a session's runs: Linux's default for a user.
pub(crate) const QUEUE_BYTES_MAX: u64 = 819_200;

/// Most bytes of locked memory (mlock) of each process of a run.
pub(crate) const LOCKED_BYTES_MAX: u64 = 64 << 20;

/// Most terminals of a run. The kernel has 3,072 for all mounts of devpts but the host's own.
pub(crate) const TERMINALS_MAX: u32 = 256;

/// Most open files of each process of a run, however many the host allows: build tools and browsers open some
/// thousands.
pub(crate) const FILES_MAX: u64 = 65_536;

/// Open files that each process of a run may have on any host.
pub(crate) const FILES_MIN: u64 = 4_096;

/// Most open files of each process of a run of `pids_max` processes, on a host that allows `host_files_max`
/// (`fs.file-max`): all processes together have at most half of that, and each at least [`FILES_MIN`].
pub(crate) fn files_max(pids_max: u32, host_files_max: u64) -> u64 {
    (host_files_max / 2 / u64::from(pids_max.max(1))).clamp(FILES_MIN, FILES_MAX)
}

impl Step {
    /// Name of the step in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::NoCoreDumps => "no core dumps",
            Step::HostTrees => "cloning the host's directories",
            Step::UserNamespace => "user namespace",
            Step::MountNamespace => "mount namespace",
            Step::NetNamespace => "network namespace",
            Step::Loopback => "loopback interface",
            Step::UtsNamespace => "UTS namespace",
            Step::HostName => "host name",
            Step::NoNestedUserNamespaces => "no nested user namespaces",
            Step::InotifyShare => "share of the user's inotify limits",
            Step::RootTree => "private root",
            Step::CompileFilter => "system call filter",
            Step::PidNamespace => "pid namespace",
            Step::RunMountNamespace => "private mount namespace",
            Step::IpcNamespace => "IPC namespace",
            Step::CgroupNamespace => "cgroup namespace",
            Step::TenantUid => "user of the run",
            Step::PrivateProc => "private /proc",
            Step::ReadOnlyProc => "read-only host settings in /proc",
            Step::CgroupMount => "private /sys/fs/cgroup",
            Step::PrivatePts => "private /dev/pts",
            Step::PrivateTmp => "private /tmp",
            Step::PrivateShm => "private /dev/shm",
            Step::ReplacedFile => "replaced source file",
            Step::UntraceableInit => "untraceable init",
            Step::Rlimits => "resource limits",
            Step::Capabilities => "no capabilities",
            Step::NoNewPrivs => "no_new_privs",
            Step::Landlock => "landlock",
            Step::Seccomp => "seccomp",
        }
    }

    /// Kind of namespace that the step makes, as in the sysctl `user.max_KIND_namespaces`.
    pub(crate) fn namespace(self) -> Option<&'static str> {
        match self {
            Step::UserNamespace => Some("user"),
            Step::MountNamespace | Step::RunMountNamespace => Some("mnt"),
            Step::NetNamespace => Some("net"),
            Step::UtsNamespace => Some("uts"),
            Step::PidNamespace => Some("pid"),
            Step::IpcNamespace => Some("ipc"),
            Step::CgroupNamespace => Some("cgroup"),
            _ => None,
        }
    }

    /// What a person can do when the step fails.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Step::UserNamespace => {
                "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, \
                 kernel.apparmor_restrict_unprivileged_userns=0"
            }
            Step::NoCoreDumps => {
                "allow core files of 1 byte, which writes none (ulimit -H -c 1, LimitCORE=1), or send cores to no program \
                 (sysctl kernel.core_pattern)"
            }
            Step::TenantUid => {
                "run proctor as root: serve with a uid range for the tenant, run in a workspace of another user or on a \
                 file system with idmapped mounts"
            }
            Step::PrivateProc => "in a container, run it with an unmasked /proc",
            Step::PrivateTmp => "check that the workspace exists and that tmpfs can be mounted",
            Step::PrivateShm => "check that /dev/shm exists and that tmpfs can be mounted",
            Step::ReplacedFile => "check that the file still exists, and that no directory above it is a link",
            Step::PrivatePts => "use a kernel with devpts",
            Step::Landlock => "use a kernel with landlock, and name it in the boot parameter lsm=",
            Step::Seccomp | Step::CompileFilter => "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)",
            Step::NoNewPrivs | Step::Rlimits | Step::Capabilities | Step::UntraceableInit => {
                "use a Linux kernel of 5.14 or later"
            }
            _ => "run as root or with CAP_SYS_ADMIN, or allow user namespaces; check sysctl user.max_*_namespaces",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers that no row installs: the supervisor makes the leaf, and a command's environment is only what its
    /// specification says.
    const NOT_IN_ROWS: [Layer; 2] = [Layer::Cgroup, Layer::CleanEnvironment];

    fn jail() -> Jail {
        Jail {
            read_only: vec!["/opt/go".into(), "/tmp".into(), "/tmpfile".into(), "/tmp/tools/run".into()],
            writable: vec!["/tmp/ws/.cache".into(), "/dev/shm/cache".into()],
            ..Jail::new("/tmp/ws")
        }
    }

    fn jail_requiring(layers: &[Layer]) -> Jail {
        Jail { required_layers: layers.to_vec(), ..jail() }
    }

    #[test]
    fn all_launcher_rows_come_before_init_rows() {
        let first_of_init = ORDER.iter().position(|(_, row)| row.stage == Init).unwrap();
        assert!(ORDER[first_of_init..].iter().all(|(_, row)| row.stage == Init));
    }

    #[test]
    fn every_layer_has_a_row_for_any_supervisor() {
        for privileged in [true, false] {
            let rows = rows_for(&jail(), privileged).unwrap();
            for layer in LAYERS.into_iter().filter(|layer| !NOT_IN_ROWS.contains(layer)) {
                assert!(rows.iter().any(|row| row.layer == layer), "{layer:?}");
            }
        }
    }

    #[test]
    fn host_trees_are_cloned_before_a_privileged_and_after_an_unprivileged_user_namespace() {
        let position =
            |privileged, step| rows_for(&jail(), privileged).unwrap().iter().position(|row| row.step == step).unwrap();
        assert!(position(true, Step::HostTrees) < position(true, Step::UserNamespace));
        assert!(position(false, Step::HostTrees) > position(false, Step::MountNamespace));
    }

    #[test]
    fn refuses_a_required_layer_that_is_disabled_and_names_it() {
        let host = Jail { network: Network::Host, ..jail_requiring(&[Layer::NetNamespace]) };
        assert!(matches!(rows_for(&host, true), Err(SandboxError::LayerMissing { layer: Layer::NetNamespace, .. })));
        let both = Jail { left_off: vec![Layer::Seccomp], ..jail_requiring(&[Layer::Seccomp]) };
        assert!(matches!(rows_for(&both, true), Err(SandboxError::LayerMissing { layer: Layer::Seccomp, .. })));
        let rows = rows_for(&jail_requiring(&[Layer::NetNamespace, Layer::Cgroup]), true).unwrap();
        assert!(rows.iter().filter(|row| row.layer == Layer::NetNamespace).all(|row| row.demand == Required));
    }

    /// Invariant 6: layers that protect other users' privilege are required without a request.
    #[test]
    fn requires_dropped_privileges_always_and_the_filter_for_root() {
        let demands = |privileged, layer| -> Vec<Demand> {
            let rows = rows_for(&jail(), privileged).unwrap();
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
        assert_eq!(demands(false, Layer::Seccomp), [Optional, Optional]);
        assert!(demands(true, Layer::PivotRoot).iter().all(|demand| *demand == RequiredOfRoot));
        let disabled = Jail { left_off: vec![Layer::Seccomp], ..jail() };
        assert!(
            rows_for(&disabled, true).unwrap().iter().all(|row| row.layer != Layer::Seccomp),
            "an operator may leave it off"
        );
    }

    #[test]
    fn refuses_to_leave_off_layers_that_the_worker_depends_on() {
        let disabled = |layer| Jail { left_off: vec![layer], ..jail() };
        for layer in [Layer::PidNamespace, Layer::MountNamespace] {
            assert!(matches!(rows_for(&disabled(layer), true), Err(SandboxError::InvalidSpec { .. })), "{layer:?}");
        }
        assert!(rows_for(&disabled(Layer::UserNamespace), false).is_err());
        let rows = rows_for(&disabled(Layer::UserNamespace), true).unwrap();
        assert!(!rows.iter().any(|row| row.layer == Layer::UserNamespace));
    }

    #[test]
    fn only_a_privileged_supervisor_runs_as_another_user() {
        let other = Jail { run_as: RunAs::User { uid: 7, gid: 7 }, ..jail() };
        assert!(rows_for(&other, true).is_ok());
        assert!(matches!(rows_for(&other, false), Err(SandboxError::LayerMissing { layer: Layer::TenantUid, .. })));
    }

    #[test]
    fn keeps_only_hidden_paths_and_each_once() {
        assert_eq!(paths_to_keep(&jail()), ["/dev/shm/cache", "/tmp/tools/run", "/tmp/ws"].map(PathBuf::from));
    }

    #[test]
    fn all_processes_of_a_run_share_half_of_the_hosts_open_files() {
        assert_eq!(files_max(512, u64::MAX), FILES_MAX);
        assert_eq!(files_max(100, 2_000_000), 10_000);
        assert_eq!(files_max(u32::MAX, 2_000_000), FILES_MIN);
        assert_eq!(files_max(0, 2_000_000), FILES_MAX);
        // A small host: each process gets the minimum that programs need, and the limit `pids` bounds how many have it.
        assert_eq!(files_max(512, 50_000), FILES_MIN);
        assert_eq!(files_max(4, 50_000), 6_250);
    }

    #[test]
    fn tmp_inodes_scale_with_its_size_within_bounds() {
        assert_eq!(tmp_inodes_max(1), 1_024);
        assert_eq!(tmp_inodes_max(1 << 30), 262_144);
        assert_eq!(tmp_inodes_max(u64::MAX), 1_000_000);
    }
}
