//! The sandbox layers between a run and the host, and the layers and limits in force for a run.

use serde::{Deserialize, Serialize};

/// One layer of the sandbox, in the order in which a worker applies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A cgroup leaf of its own, from which usage and verdicts are read.
    Cgroup,
    /// A user namespace with only the run's own user, in which no further user namespace can be made.
    UserNamespace,
    /// A mount namespace with private propagation, its own `/proc`, and a `/tmp` and `/dev/shm` of bounded size.
    MountNamespace,
    /// A pid namespace whose init is proctor's worker.
    PidNamespace,
    /// A network namespace with only `lo`.
    NetNamespace,
    /// A System V IPC and POSIX message queue namespace.
    IpcNamespace,
    /// A host name of its own.
    UtsNamespace,
    /// A view of cgroups rooted at the leaf.
    CgroupNamespace,
    /// A root directory with only what the run needs.
    PivotRoot,
    /// A user id of the tenant's own.
    TenantUid,
    /// No capabilities in any set.
    Capabilities,
    /// `no_new_privs`: set-user-id programs gain nothing.
    NoNewPrivs,
    /// Resource limits of each process: core files, descriptors.
    Rlimits,
    /// File access restricted by landlock.
    Landlock,
    /// Dangerous system calls refused by seccomp.
    Seccomp,
    /// An environment built from an allow-list.
    CleanEnvironment,
}

impl Layer {
    /// The name in reports and in the host file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Cgroup => "cgroup",
            Layer::UserNamespace => "user_namespace",
            Layer::MountNamespace => "mount_namespace",
            Layer::PidNamespace => "pid_namespace",
            Layer::NetNamespace => "net_namespace",
            Layer::IpcNamespace => "ipc_namespace",
            Layer::UtsNamespace => "uts_namespace",
            Layer::CgroupNamespace => "cgroup_namespace",
            Layer::PivotRoot => "pivot_root",
            Layer::TenantUid => "tenant_uid",
            Layer::Capabilities => "capabilities",
            Layer::NoNewPrivs => "no_new_privs",
            Layer::Rlimits => "rlimits",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::CleanEnvironment => "clean_environment",
        }
    }

    /// What the layer protects, in a few words for people.
    #[must_use]
    pub fn purpose(self) -> &'static str {
        match self {
            Layer::Cgroup => "memory, processors and processes are limited and counted",
            Layer::UserNamespace => "no user of the host but the run's own, no further user namespaces",
            Layer::MountNamespace => "mounts, /proc, /tmp and /dev/shm of the run's own",
            Layer::PidNamespace => "only the run's own processes, all dead at its end",
            Layer::NetNamespace => "no network but lo",
            Layer::IpcNamespace => "no shared memory or queues of others",
            Layer::UtsNamespace => "a host name of its own",
            Layer::CgroupNamespace => "no view of other cgroups",
            Layer::PivotRoot => "only system directories, toolchains, caches and the workspace are there",
            Layer::TenantUid => "a user who owns nothing else on this host",
            Layer::Capabilities => "no privilege of root",
            Layer::NoNewPrivs => "set-user-id programs gain nothing",
            Layer::Rlimits => "no core files, bounded descriptors",
            Layer::Landlock => "writes only in the workspace, the caches and /tmp",
            Layer::Seccomp => "dangerous system calls are refused",
            Layer::CleanEnvironment => "no variable of the supervisor but an allow-list",
        }
    }
}

/// Whether a run may reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A network namespace with only `lo`, which is up.
    #[default]
    None,
    /// The host's network.
    Host,
}

/// A limit as read back from the kernel before the run started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitInForce {
    /// Which limit.
    pub limit: crate::limits::LimitKind,
    /// The bound, in the unit of its [`crate::limits::Limits`] field.
    pub max: u64,
    /// What enforces the limit: `cgroup-v1`, `cgroup-v2`, `supervisor`, `tmpfs`.
    pub by: String,
}

/// A layer or limit that is not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the layer or limit.
    pub name: String,
    /// Why it is not in force.
    pub reason: String,
    /// What an operator can do about it.
    pub remedy: String,
}

/// The layers and limits in force, for the report (invariant 6).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Isolation {
    /// Layers in force, in the order in which they were applied.
    pub layers: Vec<Layer>,
    /// Limits in force.
    pub limits: Vec<LimitInForce>,
    /// Requested layers and limits that are not in force, with their remedies.
    pub missing: Vec<Missing>,
    /// Whether the run could reach the network.
    pub network: Network,
}
