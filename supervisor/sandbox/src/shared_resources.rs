//! What of this kernel all tenants share: every resource that a run can take, the bound that one run and one tenant have of
//! it, and what keeps them to it; and of the kernel's other numbers, why a run can take nothing by them. `README.md` shows
//! [`table`]. Must not know how a bound is put in force.

use crate::plan::{FILES_MAX, FILES_MIN, LOCKED_BYTES_MAX, SIGNALS_MAX, TERMINALS_MAX};
use proctor_core::isolation::Layer;

/// What keeps a run to its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// A layer of the run.
    Layer(Layer),
    /// A controller of its cgroup.
    Controller(&'static str),
    /// The run loop, which looks at what the kernel counts nowhere.
    Watch,
    /// The host file's bounds of what a tenant has at once.
    Quota,
    /// The kernel itself, for each user.
    Kernel,
}

/// One resource of the kernel that a run can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedResource {
    /// Its name.
    pub name: &'static str,
    /// By what the kernel counts or bounds it: paths below `/proc/sys`, where `*` stands for anything, and limits
    /// as in getrlimit(2).
    pub counted_by: &'static [&'static str],
    /// The most that one run has.
    pub run: String,
    /// The most that one tenant has.
    pub tenant: &'static str,
    /// The most that a run of an ordinary user has, to whom no cgroup is delegated.
    pub ordinary: &'static str,
    /// What keeps them to it.
    pub kept_by: &'static [Keeper],
}

use Keeper::{Controller, Kernel, Quota, Watch};

const RUNS: &str = "the runs that it has at once";
const NONE: &str = "none";
const SAME: &str = "the same";
const UNBOUND: &str = "not bound";
const OF_A_USER: &str = "what the host gives a user";
const SECCOMP: &[Keeper] = &[Keeper::Layer(Layer::Seccomp)];
const MEMORY: Keeper = Controller("memory");

/// Every resource that all tenants share.
#[must_use]
pub fn shared_resources() -> Vec<SharedResource> {
    let mut resources = bound_by_the_leaf();
    resources.extend(counted_for_a_user());
    resources.extend(of_the_whole_kernel());
    resources
}

fn bound_by_the_leaf() -> Vec<SharedResource> {
    vec![
        SharedResource {
            name: "processes and threads",
            counted_by: &["kernel/pid_max", "kernel/threads-max", "kernel/ns_last_pid", "RLIMIT_NPROC"],
            run: "limit `pids`".to_owned(),
            tenant: RUNS,
            ordinary: "what the user has (`ulimit -u`)",
            kept_by: &[Controller("pids"), Quota],
        },
        SharedResource {
            name: "memory, and what the kernel keeps in it for files, directories, pipes, timers, terminals",
            counted_by: &[
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
            ordinary: UNBOUND,
            kept_by: &[MEMORY, Quota],
        },
        SharedResource {
            name: "buffers of sockets",
            counted_by: &["net/core/rmem_*", "net/core/wmem_*", "net/core/optmem_max", "net/core/somaxconn"],
            run:
                "out of its memory, or (v1) a quarter of it beside it; those of netlink 32 MiB, together with its locks"
                    .to_owned(),
            tenant: RUNS,
            ordinary: "those of netlink alone",
            kept_by: &[MEMORY, Watch],
        },
        SharedResource {
            name: "locks on files, leases, notices of changes (dnotify)",
            counted_by: &["RLIMIT_LOCKS", "fs/leases-enable", "fs/dir-notify-enable", "kernel/max_lock_depth"],
            run: "32 MiB of the kernel's memory, some 160,000 locks".to_owned(),
            tenant: RUNS,
            ordinary: SAME,
            kept_by: &[Watch],
        },
        SharedResource {
            name: "processors",
            counted_by: &["RLIMIT_CPU", "RLIMIT_RTTIME", "RLIMIT_NICE", "RLIMIT_RTPRIO"],
            run: "limit `cpus`, and no priority over others".to_owned(),
            tenant: "quota `cpus`",
            ordinary: "no priority over others",
            kept_by: &[Controller("cpu"), Keeper::Layer(Layer::Rlimits), Quota],
        },
        SharedResource {
            name: "disk",
            counted_by: &["RLIMIT_FSIZE", "fs/quota/*"],
            run: "limit `disk`".to_owned(),
            tenant: "the same, and `cache`",
            ordinary: SAME,
            kept_by: &[Watch],
        },
        SharedResource {
            name: "writes to disks",
            counted_by: &[],
            run: "limit `writes`; on v1 without a v2 hierarchy of what it waits for (fsync, O_DIRECT) alone".to_owned(),
            tenant: RUNS,
            ordinary: UNBOUND,
            kept_by: &[Controller("io"), Watch],
        },
        SharedResource {
            name: "open files",
            counted_by: &["fs/file-max", "fs/file-nr", "fs/nr_open", "RLIMIT_NOFILE"],
            run: format!(
                "for each process {}, or what leaves all of them half of `fs.file-max`, but {}; all together a quarter of it, once \
                 half is open",
                thousands(FILES_MAX),
                thousands(FILES_MIN)
            ),
            tenant: RUNS,
            ordinary: "the same for each process",
            kept_by: &[Keeper::Layer(Layer::Rlimits), Controller("pids"), Watch],
        },
        SharedResource {
            name: "System V segments, semaphores and queues",
            counted_by: &["kernel/shm*", "kernel/sem", "kernel/sem_next_id", "kernel/msg*", "kernel/auto_msgmni"],
            run: "what the host gives an IPC namespace, out of its memory".to_owned(),
            tenant: RUNS,
            ordinary: "what the host gives an IPC namespace",
            kept_by: &[Keeper::Layer(Layer::IpcNamespace), MEMORY],
        },
    ]
}

fn counted_for_a_user() -> Vec<SharedResource> {
    vec![
        SharedResource {
            name: "watches on files (inotify)",
            counted_by: &["user/max_inotify_*", "fs/inotify/*"],
            run: "half of what the host gives a user (its session)".to_owned(),
            tenant: OF_A_USER,
            ordinary: SAME,
            kept_by: &[Keeper::Layer(Layer::UserNamespace)],
        },
        SharedResource {
            name: "pending signals and POSIX timers",
            counted_by: &["RLIMIT_SIGPENDING"],
            run: format!("{}, and half of what its user has (its session)", thousands(SIGNALS_MAX)),
            tenant: "the supervisor's own limit",
            ordinary: SAME,
            kept_by: &[Keeper::Layer(Layer::Rlimits), Keeper::Layer(Layer::UserNamespace)],
        },
        SharedResource {
            name: "POSIX message queues",
            counted_by: &["fs/mqueue/*", "RLIMIT_MSGQUEUE"],
            run: "none; without Landlock half of what its user has (its session)".to_owned(),
            tenant: "the supervisor's own limit",
            ordinary: SAME,
            kept_by: &[
                Keeper::Layer(Layer::Landlock),
                Keeper::Layer(Layer::Rlimits),
                Keeper::Layer(Layer::UserNamespace),
            ],
        },
        SharedResource {
            name: "pipes",
            counted_by: &["fs/pipe-*"],
            run: "out of its memory; beyond what the host gives a user each has two pages".to_owned(),
            tenant: OF_A_USER,
            ordinary: "the user's own",
            kept_by: &[MEMORY, Kernel],
        },
        SharedResource {
            name: "descriptors that are polled (epoll)",
            counted_by: &["fs/epoll/*"],
            run: "out of its memory".to_owned(),
            tenant: OF_A_USER,
            ordinary: "the user's own",
            kept_by: &[MEMORY, Kernel],
        },
        SharedResource {
            name: "memory that cannot be moved",
            counted_by: &["RLIMIT_MEMLOCK"],
            run: format!("{} MiB for each process, out of its memory", LOCKED_BYTES_MAX >> 20),
            tenant: RUNS,
            ordinary: "the same for each process",
            kept_by: &[Keeper::Layer(Layer::Rlimits), MEMORY],
        },
    ]
}

fn of_the_whole_kernel() -> Vec<SharedResource> {
    let none = |name, counted_by, kept_by| SharedResource {
        name,
        counted_by,
        run: NONE.to_owned(),
        tenant: NONE,
        ordinary: SAME,
        kept_by,
    };
    vec![
        SharedResource {
            name: "namespaces and mounts",
            counted_by: &["user/max_*_namespaces", "fs/mount-max"],
            run: "those that its worker makes".to_owned(),
            tenant: RUNS,
            ordinary: SAME,
            kept_by: &[
                Keeper::Layer(Layer::Seccomp),
                Keeper::Layer(Layer::Capabilities),
                Keeper::Layer(Layer::UserNamespace),
            ],
        },
        SharedResource {
            name: "terminals",
            counted_by: &["kernel/pty/*"],
            run: TERMINALS_MAX.to_string(),
            tenant: RUNS,
            ordinary: SAME,
            kept_by: &[Keeper::Layer(Layer::PivotRoot)],
        },
        SharedResource {
            name: "memory for compiled filters",
            counted_by: &["net/core/bpf_jit_limit"],
            run: "its worker's own filter".to_owned(),
            tenant: RUNS,
            ordinary: SAME,
            kept_by: SECCOMP,
        },
        none("huge pages", &[], SECCOMP),
        none(
            "where the pages of a file lie (mbind), keys of TCP connections, locks of open file descriptions",
            &[],
            SECCOMP,
        ),
        none("watches on mounts (fanotify)", &["user/max_fanotify_*", "fs/fanotify/*"], SECCOMP),
        none("keys", &["kernel/keys/*"], SECCOMP),
        none("asynchronous requests (aio, io_uring)", &["fs/aio-*", "kernel/io_uring_*"], SECCOMP),
        none("counters of performance", &["kernel/perf_*"], SECCOMP),
        none(
            "programs that the host gives cores to",
            &["kernel/core_*", "RLIMIT_CORE"],
            &[Keeper::Layer(Layer::Rlimits), Keeper::Layer(Layer::Seccomp)],
        ),
    ]
}

/// Why a run can take nothing by a number of the kernel that counts no resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harmless {
    /// How the kernel does something; only privilege over the host changes it.
    Setting,
    /// What the kernel is or how it fares; nothing is taken by it.
    Reading,
    /// What of the kernel no run may ask for: refused by `seccomp`, or without a capability.
    Refused,
}

use Harmless::{Reading, Refused, Setting};

/// The numbers below `/proc/sys/user`, `fs`, `kernel` and `net/core` that count no resource; `*` stands for anything.
pub const NOT_RESOURCES: &[(Harmless, &[&str])] = &[
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
        Reading,
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
        Refused,
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

fn is_named_by(pattern: &str, number: &str) -> bool {
    match pattern.split_once('*') {
        Some((beginning, end)) => number.strip_prefix(beginning).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == number,
    }
}

/// Whether the table knows the kernel's `number`, as a resource or as none.
#[must_use]
pub fn is_known(number: &str) -> bool {
    let counted = shared_resources().into_iter().flat_map(|resource| resource.counted_by);
    counted.chain(NOT_RESOURCES.iter().flat_map(|(_, numbers)| *numbers)).any(|pattern| is_named_by(pattern, number))
}

impl Keeper {
    fn show(self) -> String {
        match self {
            Keeper::Layer(layer) => format!("`{}`", layer.name()),
            Controller(controller) => format!("the controller `{controller}`"),
            Watch => "proctor's watch".to_owned(),
            Quota => "the tenant's quota".to_owned(),
            Kernel => "the kernel".to_owned(),
        }
    }
}

/// 16384 as "16,384".
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// The resources as `README.md` has them.
#[must_use]
pub fn table() -> String {
    let mut table = String::from(
        "| resource | one run has at most | one tenant | an ordinary user's run | kept by |\n|---|---|---|---|---|\n",
    );
    for SharedResource { name, run, tenant, ordinary, kept_by, .. } in shared_resources() {
        let keepers: Vec<String> = kept_by.iter().map(|keeper| keeper.show()).collect();
        table.push_str(&format!(
            "| {name} | {run} | {tenant} | {ordinary} | {} |\n",
            if keepers.is_empty() { "nothing".to_owned() } else { keepers.join(", ") }
        ));
    }
    table
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

    fn numbers_below(dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => numbers_below(&path, found),
                false => found.push(path.strip_prefix("/proc/sys").unwrap().to_str().unwrap().to_owned()),
            }
        }
    }

    #[test]
    fn every_number_of_this_kernel_is_known() {
        let mut numbers = Vec::new();
        for dir in ["user", "fs", "kernel", "net/core"] {
            numbers_below(&Path::new("/proc/sys").join(dir), &mut numbers);
        }
        assert!(numbers.len() > 100, "{numbers:?}");
        let unknown: Vec<&String> = numbers.iter().filter(|number| !is_known(number)).collect();
        assert!(unknown.is_empty(), "no row says what a run can take by them: {unknown:?}");
    }

    #[test]
    fn every_limit_of_getrlimit_is_known() {
        let is_there = |number: usize| {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel writes a limit to a place that has room for it.
            unsafe { libc::syscall(libc::SYS_getrlimit, number, &raw mut limit) == 0 }
        };
        let limits: Vec<usize> = (0..64).filter(|number| is_there(*number)).collect();
        assert!(limits.len() >= RLIMITS.len(), "{limits:?}");
        let unknown: Vec<&usize> =
            limits.iter().filter(|limit| RLIMITS.get(**limit).is_none_or(|name| !is_known(name))).collect();
        assert!(unknown.is_empty(), "no row has the limits {unknown:?}");
    }

    #[test]
    fn a_number_is_a_resource_or_none() {
        let resources = shared_resources();
        for (_, numbers) in NOT_RESOURCES {
            for number in *numbers {
                let rows = resources.iter().flat_map(|resource| resource.counted_by);
                assert!(!rows.into_iter().any(|pattern| is_named_by(pattern, number)), "{number} is both");
            }
        }
        assert!(!is_known("kernel/of_another_kernel"));
    }

    #[test]
    fn the_readme_has_the_table() {
        let readme = include_str!("../README.md");
        assert!(readme.contains(&table()), "put this into the README of the sandbox:\n{}", table());
    }
}
