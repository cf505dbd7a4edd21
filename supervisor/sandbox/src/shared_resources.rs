//! Kernel resources that all tenants share: the limit of each for one run and for one tenant, and what enforces it; and
//! for every other sysctl of the kernel, why a run cannot take anything through it. `README.md` shows
//! [`markdown_table`].

use crate::layer_plan::{FILES_MAX, FILES_MIN, LOCKED_BYTES_MAX, SIGNALS_MAX, TERMINALS_MAX};
use proctor_core::isolation::Layer;

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcer {
    /// A layer of the run.
    Layer(Layer),
    /// A controller of its cgroup.
    Controller(&'static str),
    /// The run loop's monitors, for what the kernel counts nowhere.
    RunLoop,
    /// The tenant's quotas in the host file.
    Quota,
    /// The kernel's own limit for each user.
    Kernel,
}

/// One kernel resource that a run can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedResource {
    /// Name of the resource.
    pub name: &'static str,
    /// Where the kernel counts or limits it: paths below `/proc/sys`, where `*` stands for any text, and limits of
    /// getrlimit(2).
    pub counters: &'static [&'static str],
    /// Limit for one run.
    pub run: String,
    /// Limit for one tenant.
    pub tenant: &'static str,
    /// Limit for the run of an unprivileged user without a delegated cgroup.
    pub unprivileged: &'static str,
    /// What enforces the limits.
    pub enforced_by: &'static [Enforcer],
}

use Enforcer::{Controller, Kernel, Quota, RunLoop};

const RUNS_AT_ONCE: &str = "one run's limit times its concurrent runs";
const NONE: &str = "none";
const SAME: &str = "the same";
const UNLIMITED: &str = "not limited";
const PER_USER: &str = "the host's limit for a user";
const SECCOMP: &[Enforcer] = &[Enforcer::Layer(Layer::Seccomp)];
const MEMORY: Enforcer = Controller("memory");

/// Every resource that all tenants share.
#[must_use]
pub fn shared_resources() -> Vec<SharedResource> {
    let mut resources = leaf_resources();
    resources.extend(per_user_resources());
    resources.extend(kernel_wide_resources());
    resources
}

fn leaf_resources() -> Vec<SharedResource> {
    vec![
        SharedResource {
            name: "processes and threads",
            counters: &["kernel/pid_max", "kernel/threads-max", "kernel/ns_last_pid", "RLIMIT_NPROC"],
            run: "limit `pids`".to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: "the user's own limit (`ulimit -u`)",
            enforced_by: &[Controller("pids"), Quota],
        },
        SharedResource {
            name: "memory, including kernel memory for files, directories, pipes, timers, terminals",
            counters: &[
                "RLIMIT_AS",
                "RLIMIT_DATA",
                "RLIMIT_RSS",
                "RLIMIT_STACK",
                "fs/dentry-state",
                "fs/inode-nr",
                "fs/inode-state",
            ],
            run: "limit `memory`".to_owned(),
            tenant: "quota `memory`",
            unprivileged: UNLIMITED,
            enforced_by: &[MEMORY, Quota],
        },
        SharedResource {
            name: "socket buffers",
            counters: &["net/core/rmem_*", "net/core/wmem_*", "net/core/optmem_max", "net/core/somaxconn"],
            run: "part of its memory, or (v1) an additional quarter of it; netlink 32 MiB, together with its locks"
                .to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: "only netlink is limited",
            enforced_by: &[MEMORY, RunLoop],
        },
        SharedResource {
            name: "file locks, leases, dnotify",
            counters: &["RLIMIT_LOCKS", "fs/leases-enable", "fs/dir-notify-enable", "kernel/max_lock_depth"],
            run: "32 MiB of kernel memory, some 160,000 locks".to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: SAME,
            enforced_by: &[RunLoop],
        },
        SharedResource {
            name: "processors",
            counters: &["RLIMIT_CPU", "RLIMIT_RTTIME", "RLIMIT_NICE", "RLIMIT_RTPRIO"],
            run: "limit `cpus`, and no priority over others".to_owned(),
            tenant: "quota `cpus`",
            unprivileged: "no priority over others",
            enforced_by: &[Controller("cpu"), Enforcer::Layer(Layer::Rlimits), Quota],
        },
        SharedResource {
            name: "disk",
            counters: &["RLIMIT_FSIZE", "fs/quota/*"],
            run: "limit `disk`".to_owned(),
            tenant: "the same, and `cache`",
            unprivileged: SAME,
            enforced_by: &[RunLoop],
        },
        SharedResource {
            name: "writes to disks",
            counters: &[],
            run: "limit `writes`; on v1 without a v2 hierarchy only for writes that it waits for (fsync, O_DIRECT)"
                .to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: UNLIMITED,
            enforced_by: &[Controller("io"), RunLoop],
        },
        SharedResource {
            name: "open files",
            counters: &["fs/file-max", "fs/file-nr", "fs/nr_open", "RLIMIT_NOFILE"],
            run: format!(
                "each process {}, or less so that all together have half of `fs.file-max`, but at least {}; all together a quarter of it, once \
                 half are open",
                thousands(FILES_MAX),
                thousands(FILES_MIN)
            ),
            tenant: RUNS_AT_ONCE,
            unprivileged: "the same for each process",
            enforced_by: &[Enforcer::Layer(Layer::Rlimits), Controller("pids"), RunLoop],
        },
        SharedResource {
            name: "System V shared memory, semaphores and message queues",
            counters: &["kernel/shm*", "kernel/sem", "kernel/sem_next_id", "kernel/msg*", "kernel/auto_msgmni"],
            run: "the host's limit for an IPC namespace, as part of its memory".to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: "the host's limit for an IPC namespace",
            enforced_by: &[Enforcer::Layer(Layer::IpcNamespace), MEMORY],
        },
    ]
}

fn per_user_resources() -> Vec<SharedResource> {
    vec![
        SharedResource {
            name: "inotify instances and watches",
            counters: &["user/max_inotify_*", "fs/inotify/*"],
            run: "its session: half of the host's limit for a user".to_owned(),
            tenant: PER_USER,
            unprivileged: SAME,
            enforced_by: &[Enforcer::Layer(Layer::UserNamespace)],
        },
        SharedResource {
            name: "pending signals and POSIX timers",
            counters: &["RLIMIT_SIGPENDING"],
            run: format!("its session: {}, and at most half of its user's limit", thousands(SIGNALS_MAX)),
            tenant: "the supervisor's own limit",
            unprivileged: SAME,
            enforced_by: &[Enforcer::Layer(Layer::Rlimits), Enforcer::Layer(Layer::UserNamespace)],
        },
        SharedResource {
            name: "POSIX message queues",
            counters: &["fs/mqueue/*", "RLIMIT_MSGQUEUE"],
            run: "none; without Landlock its session has half of its user's limit".to_owned(),
            tenant: "the supervisor's own limit",
            unprivileged: SAME,
            enforced_by: &[
                Enforcer::Layer(Layer::Landlock),
                Enforcer::Layer(Layer::Rlimits),
                Enforcer::Layer(Layer::UserNamespace),
            ],
        },
        SharedResource {
            name: "pipes",
            counters: &["fs/pipe-*"],
            run: "part of its memory; beyond the host's limit for a user each pipe has two pages".to_owned(),
            tenant: PER_USER,
            unprivileged: "the user's own limit",
            enforced_by: &[MEMORY, Kernel],
        },
        SharedResource {
            name: "epoll watches",
            counters: &["fs/epoll/*"],
            run: "part of its memory".to_owned(),
            tenant: PER_USER,
            unprivileged: "the user's own limit",
            enforced_by: &[MEMORY, Kernel],
        },
        SharedResource {
            name: "locked memory (mlock)",
            counters: &["RLIMIT_MEMLOCK"],
            run: format!("{} MiB for each process, as part of its memory", LOCKED_BYTES_MAX >> 20),
            tenant: RUNS_AT_ONCE,
            unprivileged: "the same for each process",
            enforced_by: &[Enforcer::Layer(Layer::Rlimits), MEMORY],
        },
    ]
}

fn kernel_wide_resources() -> Vec<SharedResource> {
    let none = |name, counters, enforced_by| SharedResource {
        name,
        counters,
        run: NONE.to_owned(),
        tenant: NONE,
        unprivileged: SAME,
        enforced_by,
    };
    vec![
        SharedResource {
            name: "namespaces and mounts",
            counters: &["user/max_*_namespaces", "fs/mount-max"],
            run: "only those that its worker makes".to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: SAME,
            enforced_by: &[
                Enforcer::Layer(Layer::Seccomp),
                Enforcer::Layer(Layer::Capabilities),
                Enforcer::Layer(Layer::UserNamespace),
            ],
        },
        SharedResource {
            name: "terminals",
            counters: &["kernel/pty/*"],
            run: TERMINALS_MAX.to_string(),
            tenant: RUNS_AT_ONCE,
            unprivileged: SAME,
            enforced_by: &[Enforcer::Layer(Layer::PivotRoot)],
        },
        SharedResource {
            name: "memory for compiled BPF filters",
            counters: &["net/core/bpf_jit_limit"],
            run: "only its worker's filter".to_owned(),
            tenant: RUNS_AT_ONCE,
            unprivileged: SAME,
            enforced_by: SECCOMP,
        },
        none("huge pages", &[], SECCOMP),
        none("memory policies of files (mbind), TCP keys, open file description locks", &[], SECCOMP),
        none("fanotify", &["user/max_fanotify_*", "fs/fanotify/*"], SECCOMP),
        none("kernel keys", &["kernel/keys/*"], SECCOMP),
        none("asynchronous requests (aio, io_uring)", &["fs/aio-*", "kernel/io_uring_*"], SECCOMP),
        none("performance counters", &["kernel/perf_*"], SECCOMP),
        none(
            "core dumps sent to a program of the host",
            &["kernel/core_*", "RLIMIT_CORE"],
            &[Enforcer::Layer(Layer::Rlimits), Enforcer::Layer(Layer::Seccomp)],
        ),
    ]
}

/// Why a run cannot take a resource through a sysctl that counts none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NonResource {
    /// How the kernel does something; only privilege over the host changes it.
    Setting,
    /// Information about the kernel or its state.
    Information,
    /// A feature that no run may use: refused by `seccomp`, or for lack of a capability.
    Forbidden,
}

use NonResource::{Forbidden, Information, Setting};

/// Sysctls below `/proc/sys/user`, `fs`, `kernel` and `net/core` that count no resource; `*` stands for any text.
pub const NOT_RESOURCES: &[(NonResource, &[&str])] = &[
    (
        Setting,
        &[
            "fs/binfmt_misc/*",
            "fs/fuse/*",
            "fs/lease-break-time",
            "fs/nfs/*",
            "fs/overflow*",
            "fs/protected_*",
            "fs/suid_dumpable",
            "fs/verity/*",
            "fs/xfs/*",
            "kernel/acct",
            "kernel/acpi_video_flags",
            "kernel/apparmor_*",
            "kernel/bpf_stats_enabled",
            "kernel/cad_pid",
            "kernel/ctrl-alt-del",
            "kernel/domainname",
            "kernel/firmware_config/*",
            "kernel/ftrace_*",
            "kernel/hardlockup_*",
            "kernel/hostname",
            "kernel/hotplug",
            "kernel/hung_task_*",
            "kernel/init_private*",
            "kernel/io_delay_type",
            "kernel/kptr_restrict",
            "kernel/max_rcu_stall_to_panic",
            "kernel/modprobe",
            "kernel/nmi_watchdog",
            "kernel/numa_balancing*",
            "kernel/oops_*",
            "kernel/overflow*",
            "kernel/panic*",
            "kernel/poweroff_cmd",
            "kernel/print-fatal-signals",
            "kernel/printk*",
            "kernel/randomize_va_space",
            "kernel/real-root-dev",
            "kernel/sched_*",
            "kernel/seccomp/actions_logged",
            "kernel/soft_watchdog",
            "kernel/softlockup_*",
            "kernel/split_lock_mitigate",
            "kernel/stack_tracer_enabled",
            "kernel/sysctl_writes_strict",
            "kernel/task_delayacct",
            "kernel/timer_migration",
            "kernel/traceoff_on_warning",
            "kernel/tracepoint_printk",
            "kernel/unknown_nmi_panic",
            "kernel/usermodehelper/*",
            "kernel/warn_limit",
            "kernel/watchdog*",
            "kernel/yama/*",
            "net/core/bpf_jit_enable",
            "net/core/bpf_jit_harden",
            "net/core/bpf_jit_kallsyms",
            "net/core/busy_*",
            "net/core/default_qdisc",
            "net/core/dev_*",
            "net/core/devconf_inherit_init_net",
            "net/core/fb_tunnels_only_for_init_net",
            "net/core/flow_limit_*",
            "net/core/gro_normal_batch",
            "net/core/high_order_alloc_disable",
            "net/core/max_skb_frags",
            "net/core/mem_pcpu_rsv",
            "net/core/message_*",
            "net/core/netdev_*",
            "net/core/rps_*",
            "net/core/skb_defer_max",
            "net/core/tstamp_allow_data",
            "net/core/txrehash",
            "net/core/warnings",
            "net/core/xfrm_*",
        ],
    ),
    (
        Information,
        &[
            "fs/dentry-negative",
            "kernel/arch",
            "kernel/bootloader_*",
            "kernel/cap_last_cap",
            "kernel/ngroups_max",
            "kernel/osrelease",
            "kernel/ostype",
            "kernel/random/*",
            "kernel/seccomp/actions_avail",
            "kernel/tainted",
            "kernel/version",
        ],
    ),
    (
        Forbidden,
        &[
            "kernel/dmesg_restrict",
            "kernel/kexec_*",
            "kernel/modules_disabled",
            "kernel/sysrq",
            "kernel/unprivileged_*",
            "kernel/user_events_max",
        ],
    ),
];

fn matches(pattern: &str, setting: &str) -> bool {
    match pattern.split_once('*') {
        Some((beginning, end)) => setting.strip_prefix(beginning).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == setting,
    }
}

/// Whether the tables list the sysctl or limit `setting`, as a resource or as none.
#[must_use]
pub fn is_listed(setting: &str) -> bool {
    let counted = shared_resources().into_iter().flat_map(|resource| resource.counters);
    counted.chain(NOT_RESOURCES.iter().flat_map(|(_, settings)| *settings)).any(|pattern| matches(pattern, setting))
}

impl Enforcer {
    fn label(self) -> String {
        match self {
            Enforcer::Layer(layer) => format!("`{}`", layer.name()),
            Controller(controller) => format!("controller `{controller}`"),
            RunLoop => "run loop".to_owned(),
            Quota => "tenant's quota".to_owned(),
            Kernel => "kernel".to_owned(),
        }
    }
}

/// Formats 16384 as "16,384".
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// The resources as a Markdown table, as in `README.md`.
#[must_use]
pub fn markdown_table() -> String {
    let mut markdown_table = String::from(
        "| resource | limit for one run | limit for one tenant | unprivileged user's run | enforced by |\n|---|---|---|---|---|\n",
    );
    for SharedResource { name, run, tenant, unprivileged, enforced_by, .. } in shared_resources() {
        let enforcers: Vec<String> = enforced_by.iter().map(|enforcer| enforcer.label()).collect();
        markdown_table.push_str(&format!(
            "| {name} | {run} | {tenant} | {unprivileged} | {} |\n",
            if enforcers.is_empty() { "nothing".to_owned() } else { enforcers.join(", ") }
        ));
    }
    markdown_table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// In the order of their numbers (`asm-generic/resource.h`).
    const RLIMITS: [&str; 16] = [
        "RLIMIT_CPU",
        "RLIMIT_FSIZE",
        "RLIMIT_DATA",
        "RLIMIT_STACK",
        "RLIMIT_CORE",
        "RLIMIT_RSS",
        "RLIMIT_NPROC",
        "RLIMIT_NOFILE",
        "RLIMIT_MEMLOCK",
        "RLIMIT_AS",
        "RLIMIT_LOCKS",
        "RLIMIT_SIGPENDING",
        "RLIMIT_MSGQUEUE",
        "RLIMIT_NICE",
        "RLIMIT_RTPRIO",
        "RLIMIT_RTTIME",
    ];

    fn settings_below(dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => settings_below(&path, found),
                false => found.push(path.strip_prefix("/proc/sys").unwrap().to_str().unwrap().to_owned()),
            }
        }
    }

    #[test]
    fn lists_every_sysctl_of_this_kernel() {
        let mut settings = Vec::new();
        for dir in ["user", "fs", "kernel", "net/core"] {
            settings_below(&Path::new("/proc/sys").join(dir), &mut settings);
        }
        assert!(settings.len() > 100, "{settings:?}");
        let unknown: Vec<&String> = settings.iter().filter(|setting| !is_listed(setting)).collect();
        assert!(unknown.is_empty(), "no row lists {unknown:?}");
    }

    #[test]
    fn lists_every_limit_of_getrlimit() {
        let exists = |limit: usize| {
            let mut value = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel writes a limit to memory that has room for it.
            unsafe { libc::syscall(libc::SYS_getrlimit, limit, &raw mut value) == 0 }
        };
        let limits: Vec<usize> = (0..64).filter(|limit| exists(*limit)).collect();
        assert!(limits.len() >= RLIMITS.len(), "{limits:?}");
        let unknown: Vec<&usize> =
            limits.iter().filter(|limit| RLIMITS.get(**limit).is_none_or(|name| !is_listed(name))).collect();
        assert!(unknown.is_empty(), "no row has the limits {unknown:?}");
    }

    #[test]
    fn lists_no_sysctl_both_as_a_resource_and_as_none() {
        let resources = shared_resources();
        for (_, settings) in NOT_RESOURCES {
            for setting in *settings {
                let rows = resources.iter().flat_map(|resource| resource.counters);
                assert!(!rows.into_iter().any(|pattern| matches(pattern, setting)), "{setting} is listed as both");
            }
        }
        assert!(!is_listed("kernel/of_another_kernel"));
    }

    #[test]
    fn the_readme_shows_the_table() {
        let readme = include_str!("../README.md");
        assert!(readme.contains(&markdown_table()), "put this into the README of the sandbox:\n{}", markdown_table());
    }
}
