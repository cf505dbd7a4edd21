//! The layers of a run as one ordered table, and the pure decision which of its rows a run gets. Read [`ORDER`] from top
//! to bottom: that is what stands between a run and the host. Must not know how a row is carried out (`worker::layers`).

use crate::check::{SHM, TMP};
use crate::error::SandboxError;
use crate::spec::{RunSpec, SCRATCH};
use proctor_core::isolation::{Layer, Network};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One thing that the worker does to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    UserNamespace,
    MountNamespace,
    PidNamespace,
    NetNamespace,
    IpcNamespace,
    UtsNamespace,
    OwnProc,
    PrivateTmp,
    PrivateShm,
    Loopback,
    HostName,
    NoNewPrivs,
    Rlimits,
}

/// Which process carries a row out. All rows of the launcher come before all rows of init.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The worker as it was spawned; it makes the namespaces and waits.
    Launcher,
    /// The worker's child, pid 1 of the run.
    Init,
}

/// What it means when a row fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Demand {
    /// The worker itself stands on it: no run without it.
    Structural,
    /// The caller named its layer: no run without it.
    Required,
    /// The run goes on without it and says so.
    Wanted,
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

use Demand::{Structural, Wanted};
use Stage::{Init, Launcher};

/// Every row, in the order in which it is carried out. The pid namespace is structural because its init kills with
/// `kill(-1)`; the mount namespace because [`SCRATCH`] is the same path in every run.
///
/// Places kept for the layers to come: the cgroup namespace after `UtsNamespace`; `pivot_root` after `HostName`; then
/// the tenant's uid and the capabilities, before `NoNewPrivs`; landlock and seccomp last, after `Rlimits`.
const ORDER: [Row; 13] = [
    row(Step::UserNamespace, Layer::UserNamespace, Launcher, Structural),
    row(Step::MountNamespace, Layer::MountNamespace, Launcher, Structural),
    row(Step::PidNamespace, Layer::PidNamespace, Launcher, Structural),
    row(Step::NetNamespace, Layer::NetNamespace, Launcher, Wanted),
    row(Step::IpcNamespace, Layer::IpcNamespace, Launcher, Wanted),
    row(Step::UtsNamespace, Layer::UtsNamespace, Launcher, Wanted),
    row(Step::OwnProc, Layer::MountNamespace, Init, Wanted),
    row(Step::PrivateTmp, Layer::MountNamespace, Init, Structural),
    row(Step::PrivateShm, Layer::MountNamespace, Init, Wanted),
    row(Step::Loopback, Layer::NetNamespace, Init, Wanted),
    row(Step::HostName, Layer::UtsNamespace, Init, Wanted),
    row(Step::NoNewPrivs, Layer::NoNewPrivs, Init, Wanted),
    row(Step::Rlimits, Layer::Rlimits, Init, Wanted),
];

/// Layers that no row puts on: the leaf is the supervisor's, and a command's environment is only what its
/// specification says, by construction.
const NOT_IN_ROWS: [Layer; 2] = [Layer::Cgroup, Layer::CleanEnvironment];

/// Every layer that a privileged launcher puts on, in the order in which reports name them. Whoever requires all that
/// this version has requires these.
pub const LAYERS: [Layer; 9] = [
    Layer::Cgroup,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::NoNewPrivs,
    Layer::Rlimits,
    Layer::CleanEnvironment,
];

/// Whether every run gets a part of `layer` from a launcher with or without privilege, as far as the host allows and
/// unless the run itself asks for less.
pub(crate) fn puts_on(layer: Layer, privileged: bool) -> bool {
    (layer != Layer::UserNamespace || !privileged) && ORDER.iter().any(|row| row.layer == layer)
}

/// The rows that `spec` gets from a launcher with or without privilege over the host's namespaces.
///
/// A layer that is required and that no row of this run puts on is refused here, before anything is started.
pub(crate) fn rows(spec: &RunSpec, privileged: bool) -> Result<Vec<Row>, SandboxError> {
    let required = |layer: Layer| spec.jail.required_layers.contains(&layer);
    let rows: Vec<Row> = ORDER
        .into_iter()
        .filter(|row| match row.layer {
            Layer::UserNamespace => !privileged || required(Layer::UserNamespace),
            Layer::NetNamespace => spec.jail.network == Network::None,
            _ => true,
        })
        .map(|row| Row {
            demand: if row.demand == Wanted && required(row.layer) { Demand::Required } else { row.demand },
            ..row
        })
        .collect();
    for &layer in &spec.jail.required_layers {
        if !NOT_IN_ROWS.contains(&layer) && !rows.iter().any(|row| row.layer == layer) {
            let (reason, remedy) = if layer == Layer::NetNamespace {
                ("the run asks for the host's network", "ask for network none, or do not require this layer")
            } else {
                ("this version does not put it on", "do not require this layer")
            };
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
    }
    Ok(rows)
}

/// The paths that the private directories would hide and that must be bound back: the workspace, what the caller names,
/// and programs. A path inside another one is left out, since binds are recursive.
pub(crate) fn paths_to_keep(spec: &RunSpec) -> Vec<PathBuf> {
    let programs = spec.commands.iter().map(|command| &command.program);
    let mut paths: Vec<PathBuf> = std::iter::once(&spec.jail.workspace)
        .chain(&spec.jail.read_only)
        .chain(&spec.jail.writable)
        .chain(programs)
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

impl Step {
    /// The step's name in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::UserNamespace => "user namespace",
            Step::MountNamespace => "mount namespace",
            Step::PidNamespace => "pid namespace",
            Step::NetNamespace => "network namespace",
            Step::IpcNamespace => "IPC namespace",
            Step::UtsNamespace => "UTS namespace",
            Step::OwnProc => "own /proc",
            Step::PrivateTmp => "private /tmp",
            Step::PrivateShm => "private /dev/shm",
            Step::Loopback => "loopback interface",
            Step::HostName => "host name",
            Step::NoNewPrivs => "no_new_privs",
            Step::Rlimits => "resource limits",
        }
    }

    /// What a person can do when it fails.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Step::UserNamespace => {
                "run as root, or allow user namespaces: sysctl user.max_user_namespaces, \
                 kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0"
            }
            Step::OwnProc => "in a container, run it with an unmasked /proc",
            Step::PrivateTmp => "check that the workspace exists and that tmpfs can be mounted",
            Step::PrivateShm => "check that /dev/shm exists and that tmpfs can be mounted",
            Step::NoNewPrivs | Step::Rlimits => "use a Linux kernel of 5.14 or later",
            _ => "run as root or with CAP_SYS_ADMIN, or allow user namespaces; check sysctl user.max_*_namespaces",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{CommandSpec, Jail};
    use proctor_core::limits::Limits;

    fn spec() -> RunSpec {
        RunSpec {
            commands: vec![CommandSpec {
                program: "/tmp/tools/run".into(),
                args: vec![],
                dir: "/".into(),
                env: vec![],
            }],
            jail: Jail {
                read_only: vec!["/opt/go".into(), "/tmp".into(), "/tmpfile".into()],
                writable: vec!["/tmp/ws/.cache".into(), "/dev/shm/cache".into()],
                ..Jail::at("/tmp/ws")
            },
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            limits: Limits::DEFAULT,
            required_limits: vec![],
        }
    }

    fn requiring(layers: &[Layer]) -> RunSpec {
        let spec = spec();
        RunSpec { jail: Jail { required_layers: layers.to_vec(), ..spec.jail }, ..spec }
    }

    #[test]
    fn the_launcher_is_done_before_init_begins() {
        let first_of_init = ORDER.iter().position(|row| row.stage == Init).unwrap();
        assert!(ORDER[first_of_init..].iter().all(|row| row.stage == Init));
    }

    #[test]
    fn only_a_launcher_without_privilege_gets_a_user_namespace_unless_it_is_required() {
        let has_user = |rows: Vec<Row>| rows.iter().any(|row| row.step == Step::UserNamespace);
        assert!(has_user(rows(&spec(), false).unwrap()));
        assert!(!has_user(rows(&spec(), true).unwrap()));
        let required = requiring(&[Layer::UserNamespace]);
        assert!(has_user(rows(&required, true).unwrap()));
    }

    #[test]
    fn a_required_layer_that_no_row_puts_on_is_refused_by_name() {
        let seccomp = requiring(&[Layer::Seccomp]);
        assert!(matches!(rows(&seccomp, true), Err(SandboxError::LayerMissing { layer: Layer::Seccomp, .. })));
        let host =
            RunSpec { jail: Jail { network: Network::Host, ..requiring(&[Layer::NetNamespace]).jail }, ..spec() };
        assert!(matches!(rows(&host, true), Err(SandboxError::LayerMissing { layer: Layer::NetNamespace, .. })));
        let required = requiring(&[Layer::NetNamespace, Layer::Cgroup]);
        let rows = rows(&required, true).unwrap();
        assert!(rows.iter().filter(|row| row.layer == Layer::NetNamespace).all(|row| row.demand == Demand::Required));
    }

    #[test]
    fn only_what_a_private_directory_hides_is_kept_and_nothing_twice() {
        assert_eq!(paths_to_keep(&spec()), ["/dev/shm/cache", "/tmp/tools/run", "/tmp/ws"].map(PathBuf::from));
    }

    #[test]
    fn inodes_follow_the_size_within_bounds() {
        assert_eq!(tmp_inodes_max(1), 1_024);
        assert_eq!(tmp_inodes_max(1 << 30), 262_144);
        assert_eq!(tmp_inodes_max(u64::MAX), 1_000_000);
    }
}
