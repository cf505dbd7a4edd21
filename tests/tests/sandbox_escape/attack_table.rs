//! The table of attacks: what hostile test code would try, and the layers and limits that prevent it.

use crate::attack_row::{AttackRow, End, ROOMY, Without, row};
use Layer::{
    Capabilities, CgroupNamespace, IpcNamespace, Landlock, NetNamespace, PivotRoot, Rlimits, Seccomp, TenantUid,
    UserNamespace, UtsNamespace,
};
use proctor_core::isolation::Layer;
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::KillReason;

/// Layers that keep a run from files that every user of the host may write. Landlock lets a run read what it sees.
const TREE: &[Layer] = &[PivotRoot, Landlock];

/// Layers that keep a run from privileged calls: it is not root, and seccomp refuses the calls. The tenant's user is the only
/// one in its user namespace, so there is no root in it as long as both layers are on.
const ROOT: &[Layer] = &[TenantUid, Capabilities, Seccomp];

/// Layers that keep a run from mounts. Landlock refuses any change of the mount tree.
const MOUNTS: &[Layer] = &[TenantUid, Capabilities, Seccomp, Landlock];

/// The same for calls whose arguments a seccomp filter cannot judge.
const IDENTITY: &[Layer] = &[TenantUid, Capabilities];

/// The same with the user namespace, in which there is no root.
const WHOLE_IDENTITY: &[Layer] = &[UserNamespace, TenantUid, Capabilities];

/// Layers that keep a run from files that only root may write.
const ROOTS_FILES: &[Layer] = &[UserNamespace, Capabilities, Landlock, PivotRoot];

/// Without systemd no cgroup is delegated to an ordinary user, and v1 controllers never are.
const NO_CGROUP: &str = "an ordinary user has no cgroup of its own unless one is delegated";

const MIB: u64 = 1024 * 1024;

const FEW_PIDS: Limits = Limits { pids_max: 32, ..ROOMY };
const LITTLE_MEMORY: Limits = Limits { memory_bytes_max: 32 * MIB, ..ROOMY };
const LITTLE_TMP: Limits = Limits { tmp_bytes_max: 4 * MIB, ..ROOMY };
const LITTLE_DISK: Limits = Limits { disk_bytes_max: 8 * MIB, ..ROOMY };
const LITTLE_LOG: Limits = Limits { log_bytes_max: MIB, ..ROOMY };
const LITTLE_TIME: Limits = Limits { wall_ms_max: 300, ..ROOMY };
const LITTLE_CPU: Limits = Limits { cpu_millis_max: 200, ..ROOMY };

/// Every attack.
pub(crate) const ROWS: &[AttackRow] = &[
    // Files of the host.
    row("read a file of the host", &["read_file", "{outside}/canary"]).each(&[PivotRoot]).also(&[Landlock]).anyone(),
    row("read through a symlink in the workspace", &["read_file", "link"])
        .each(&[PivotRoot])
        .also(&[Landlock])
        .anyone(),
    row("read through /proc/self/root", &["read_file", "/proc/self/root{outside}/canary"])
        .each(&[PivotRoot])
        .also(&[Landlock])
        .anyone(),
    row("read through /proc/PID/root", &["read_below_proc", "root", "{outside}/canary"])
        .each(&[PivotRoot])
        .also(&[Landlock])
        .anyone(),
    row("read through /proc/PID/cwd", &["read_below_proc", "cwd", "canary"]).anyone(),
    row("read through /proc/PID/fd", &["read_file_descriptors"]).anyone(),
    row("read in /tmp of the host", &["read_file", "{tmp}"]).anyone(),
    row("read in /dev/shm of the host", &["read_file", "{shm}"]).anyone(),
    row("write a file of the host", &["write_file", "{outside}/open/file"]).each(TREE).anyone(),
    row("make a file on the host", &["make_file", "{outside}/open/made"]).each(TREE).anyone(),
    row("write a toolchain", &["write_file", "{toolchain}/tool"]).each(TREE).anyone(),
    row("make a file in a toolchain", &["make_file", "{toolchain}/made"]).each(TREE).anyone(),
    row("make a set-id file that belongs to another", &["make_set_id_file"]).each(&[Seccomp]).only_as_nobody(),
    row("climb out of a second root", &["chroot_and_climb", "{outside}/canary"])
        .each(&[TenantUid, Capabilities, Seccomp, PivotRoot])
        .also(&[UserNamespace, Landlock]),
    row("open a file by its handle", &["open_by_handle"]).each(ROOT).also(&[UserNamespace]),
    // Inherited resources.
    row("inherited descriptors", &["leaked_descriptors"]).anyone(),
    row("inherited environment", &["environment", "PROCTOR_ESCAPE"]).anyone(),
    // Other tenants, their processes, and the supervisor.
    row("read another tenant's workspace", &["read_file", "{neighbour}/canary"])
        .each(&[PivotRoot])
        .also(&[Landlock])
        .anyone(),
    row("write another tenant's workspace", &["write_file", "{neighbour}/open"]).each(TREE).anyone(),
    row("see processes of the host", &["see_process", "{outside}/canary"]).anyone(),
    row("read the environment of others", &["read_environments"]).anyone(),
    row("kill a process of the host", &["signal_process", "{victim}"]).anyone(),
    row("connect to a socket of the host", &["connect_unix", "{outside}/socket"]).each(&[PivotRoot]).anyone(),
    row("connect to the supervisor's socket", &["connect_unix", "{supervisor}"]).each(&[PivotRoot]).anyone(),
    row("connect to an abstract socket", &["connect_abstract", "{abstract}"])
        .each(&[NetNamespace])
        .also(&[Landlock])
        .anyone(),
    row("connect to the host's loopback", &["connect_tcp", "{port}"]).each(&[NetNamespace]).also(&[Landlock]).anyone(),
    row("send to the outside", &["send_outside"])
        .each(&[NetNamespace])
        .also(&[Landlock])
        .anyone()
        .host_may_lack("a route to the outside"),
    row("read shared memory of others", &["read_shared_memory", "{segment}"]).each(&[IpcNamespace]).anyone(),
    row("leave shared memory behind", &["leave_shared_memory", "{key}"])
        .each(&[IpcNamespace])
        .end(End::Harmless)
        .anyone(),
    row("share the host's name", &["share_namespace", "uts", "{uts}"]).each(&[UtsNamespace]).anyone(),
    row("share the host's network", &["share_namespace", "net", "{net}"]).each(&[NetNamespace]).anyone(),
    row("share the host's IPC", &["share_namespace", "ipc", "{ipc}"]).each(&[IpcNamespace]).anyone(),
    row("see the host's cgroups", &["share_namespace", "cgroup", "{cgroup}"]).each(&[CgroupNamespace]).anyone(),
    // The run's init, which talks to the supervisor. Outside of a sandbox the victim process takes its part.
    row("trace init", &["trace", "{init}"]),
    row("read memory of init", &["read_memory", "{init}"]),
    row("write memory of init", &["write_memory", "{init}"]),
    row("open memory of init", &["open_memory", "{init}"]),
    row("take a descriptor of init", &["steal_descriptor", "{init}"]),
    row("every signal to init", &["signal_with_everything", "{init}"]).end(End::Harmless).anyone(),
    // Privilege.
    row("any capability in any set", &["capabilities"]).each(&[Capabilities]).anyone(),
    row("gain by a set-user-id program", &["run_program", "{gifts}/setuid", "{gifts}/canary"])
        .without(Without::SandboxAndPrivilege)
        .anyone(),
    row("gain by file capabilities", &["run_program", "{gifts}/capable", "{gifts}/canary"])
        .without(Without::SandboxAndPrivilege)
        .anyone(),
    row("give a file away", &["change_owner"]).each(IDENTITY).also(&[UserNamespace]),
    row("make a device", &["make_device"]).each(ROOT).also(&[UserNamespace, PivotRoot, Landlock]),
    row("become another user", &["become_another"]).each(IDENTITY).also(&[UserNamespace]),
    row("join a group", &["add_group"]).each(IDENTITY).also(&[UserNamespace]),
    row("real-time priority", &["real_time"]),
    row("a shorter slice than others have", &["short_slice"]).each(&[Seccomp]).anyone(),
    // Namespaces and mounts.
    row("nested user namespace by unshare", &["unshare_user"]).each(&[UserNamespace, Seccomp]).anyone(),
    row("nested user namespace by clone", &["clone_user"]).each(&[UserNamespace, Seccomp]).anyone(),
    row("nested user namespace by clone3", &["clone3_user"]).each(&[UserNamespace, Seccomp]).anyone(),
    row("nested mount namespace", &["unshare_mounts"]).each(ROOT).also(&[UserNamespace]),
    row("enter a namespace", &["enter_namespace"]).each(&[Seccomp]).anyone(),
    row("mount a tmpfs", &["mount_file_system", "tmpfs"]).each(MOUNTS).also(&[UserNamespace]),
    row("mount cgroups", &["mount_file_system", "cgroup2"]).each(MOUNTS).also(&[UserNamespace]),
    row("mount another place", &["mount_bind"]).each(MOUNTS).also(&[UserNamespace]),
    row("make a toolchain writable", &["remount_writable", "{toolchain}", "{toolchain}/tool"])
        .each(MOUNTS)
        .also(&[UserNamespace]),
    row("unmount what hides", &["unmount"]).each(ROOT).also(&[UserNamespace]),
    row("pivot_root", &["pivot"]).each(ROOT).also(&[UserNamespace]),
    row("clone a tree of mounts", &["clone_tree"]).each(ROOT).also(&[UserNamespace]),
    row("open a file system", &["open_file_system"]).each(ROOT).also(&[UserNamespace]),
    // Cgroups.
    row("raise the own limits", &["cgroup_limits"]).each(&[PivotRoot, Landlock, TenantUid]).also(&[
        UserNamespace,
        Capabilities,
        CgroupNamespace,
    ]),
    row("move out of the own cgroup", &["cgroup_procs"]).each(&[PivotRoot, Landlock, TenantUid]).also(&[
        UserNamespace,
        Capabilities,
        CgroupNamespace,
    ]),
    row("release_agent", &["release_agent"])
        .each(&[PivotRoot, Landlock, TenantUid])
        .also(&[UserNamespace, Capabilities, CgroupNamespace])
        .host_may_lack("cgroup v1"),
    // Kernel interfaces that no test needs.
    row("add a key", &["key_add"]).each(&[Seccomp]).anyone(),
    row("session keyring", &["key_session"]).each(&[Seccomp]).anyone(),
    row("bpf map", &["bpf_map"]).each(&[Seccomp]).also(WHOLE_IDENTITY),
    row("bpf program", &["bpf_program"]).each(&[Seccomp]).also(WHOLE_IDENTITY),
    row("io_uring", &["io_uring"]).each(&[Seccomp]).anyone(),
    row("userfaultfd", &["userfault"]).each(&[Seccomp]).anyone(),
    row("asynchronous I/O of old", &["asynchronous_io"]).each(&[Seccomp]).anyone(),
    row("fanotify", &["watch_mount"]).each(&[Seccomp]).also(WHOLE_IDENTITY),
    row("secret memory", &["hide_memory"])
        .each(&[Seccomp])
        .anyone()
        .host_may_lack("memfd_secret, which is switched on at boot"),
    row("segment table", &["segment_table"]).each(&[Seccomp]).anyone().host_may_lack("CONFIG_MODIFY_LDT_SYSCALL"),
    row("vsock", &["open_socket", "40", "1", "0"]).each(&[Seccomp]).anyone().host_may_lack("CONFIG_VSOCKETS"),
    row("packet socket", &["open_socket", "17", "3", "0"])
        .each(ROOT)
        .also(&[UserNamespace])
        .host_may_lack("CONFIG_PACKET"),
    row("kernel crypto socket", &["open_socket", "38", "5", "0"])
        .each(&[Seccomp])
        .anyone()
        .host_may_lack("CONFIG_CRYPTO_USER_API"),
    row("raw socket", &["open_socket", "2", "3", "1"]).each(IDENTITY).also(&[UserNamespace]),
    row("32-bit call", &["call_32_bit"]).each(&[Seccomp]).anyone().host_may_lack("CONFIG_IA32_EMULATION"),
    row("x32 call", &["call_x32"]).each(&[Seccomp]).anyone().host_may_lack("CONFIG_X86_X32_ABI"),
    row("type into a terminal", &["terminal_input"]).each(&[Seccomp]).anyone().host_may_lack("CONFIG_LEGACY_TIOCSTI"),
    row("control a console", &["console_control"]).each(&[PivotRoot, Seccomp]).also(&[
        UserNamespace,
        TenantUid,
        Capabilities,
        Landlock,
    ]),
    row("load a module", &["module_load"]).each(ROOT).also(&[UserNamespace]).host_may_lack("CONFIG_MODULES"),
    row("load a module's file", &["module_load_file"])
        .each(ROOT)
        .also(&[UserNamespace])
        .host_may_lack("CONFIG_MODULES"),
    row("unload a module", &["module_unload"]).each(ROOT).also(&[UserNamespace]).host_may_lack("CONFIG_MODULES"),
    row("set the host name", &["host_name_set"]).each(ROOT).also(&[UserNamespace]),
    row("set the domain name", &["domain_name_set"]).each(ROOT).also(&[UserNamespace]),
    row("set the clock", &["clock_set"]).each(ROOT).also(&[UserNamespace]),
    row("adjust the clock", &["clock_adjust"]).each(ROOT).also(&[UserNamespace]),
    row("perf events", &["perf_event"]).each(&[Seccomp]).also(WHOLE_IDENTITY),
    row("kexec", &["kexec"]).each(ROOT).also(&[UserNamespace]).host_may_lack("CONFIG_KEXEC"),
    row("reboot", &["reboot_machine"]).each(ROOT).also(&[UserNamespace]),
    row("swapon", &["swap_on"]).each(ROOT).also(&[UserNamespace]),
    row("quotactl", &["quota"]).each(&[Seccomp]).anyone().host_may_lack("CONFIG_QUOTACTL"),
    row("kernel log", &["kernel_log"]).each(&[Seccomp]).also(WHOLE_IDENTITY),
    row("personality", &["change_personality"]).each(&[Seccomp]).anyone(),
    row("process accounting", &["process_accounting"])
        .each(ROOT)
        .also(&[UserNamespace])
        .host_may_lack("CONFIG_BSD_PROCESS_ACCT"),
    // Devices, sysctls, /sys.
    row("devices that no test needs", &["odd_devices"]).each(&[PivotRoot]).anyone(),
    row("block devices", &["open_block_device"]).each(&[PivotRoot]).also(&[
        UserNamespace,
        TenantUid,
        Capabilities,
        Landlock,
    ]),
    row("/dev/mem", &["open_only", "r", "/dev/mem"])
        .each(&[PivotRoot])
        .also(&[UserNamespace, TenantUid, Capabilities, Landlock])
        .host_may_lack("CONFIG_DEVMEM"),
    row("/dev/kmsg", &["open_only", "r", "/dev/kmsg"]).each(&[PivotRoot]).also(&[
        UserNamespace,
        TenantUid,
        Capabilities,
        Landlock,
    ]),
    row("/proc/kcore", &["open_only", "r", "/proc/kcore"])
        .each(&[Capabilities])
        .also(&[UserNamespace, TenantUid, Landlock])
        .host_may_lack("CONFIG_PROC_KCORE"),
    row("core_pattern", &["open_only", "w", "/proc/sys/kernel/core_pattern"]).each(&[TenantUid]).also(ROOTS_FILES),
    row("sysrq", &["open_only", "w", "/proc/sysrq-trigger"])
        .each(&[TenantUid])
        .also(ROOTS_FILES)
        .host_may_lack("CONFIG_MAGIC_SYSRQ"),
    row("write in /sys", &["open_only", "w", "/sys/kernel/mm/transparent_hugepage/enabled"])
        .each(&[PivotRoot, TenantUid, Landlock])
        .also(WHOLE_IDENTITY)
        .host_may_lack("CONFIG_TRANSPARENT_HUGEPAGE"),
    row("core file", &["dump_core"]).each(&[Rlimits]).also(&[Seccomp]),
    row("core handed to a program of the host", &["dump_core_to_program"])
        .each(&[Rlimits])
        .also(&[Seccomp])
        .anyone()
        .host_may_lack("a core_pattern that names a program"),
    // Resources that all tenants share and one run could exhaust.
    row("socket filter", &["attach_filter", "26"]).each(&[Seccomp]).anyone(),
    row("socket filter by descriptor", &["attach_filter", "50"]).each(&[Seccomp]).anyone(),
    row("filter of a group of sockets", &["attach_filter", "51"]).each(&[Seccomp]).anyone(),
    row("filter of a group of sockets by descriptor", &["attach_filter", "52"]).each(&[Seccomp]).anyone(),
    row("filter of calls", &["filter_calls"]).each(&[Seccomp]).anyone(),
    row("filter of calls by prctl", &["filter_calls_of_old"]).each(&[Seccomp]).anyone(),
    row("huge pages by mmap", &["huge_mapping"]).each(&[Seccomp]).anyone(),
    row("huge pages by memfd", &["huge_memfd"]).each(&[Seccomp]).anyone(),
    row("huge pages by a System V segment", &["huge_segment"]).each(&[Seccomp]).also(WHOLE_IDENTITY),
    // Processes, memory, files, descriptors, output, time.
    row("fork bomb", &["fork_bomb", "64"]).limits(FEW_PIDS).end(End::Hit(LimitKind::Pids)).needs_privilege(NO_CGROUP),
    row("thread bomb", &["thread_bomb", "64"])
        .limits(FEW_PIDS)
        .end(End::Hit(LimitKind::Pids))
        .needs_privilege(NO_CGROUP),
    row("memory by heap", &["fill_heap", "67108864"])
        .limits(LITTLE_MEMORY)
        .end(End::Killed(KillReason::OutOfMemory))
        .needs_privilege(NO_CGROUP),
    row("memory by mmap", &["fill_mapping", "67108864"])
        .limits(LITTLE_MEMORY)
        .end(End::Killed(KillReason::OutOfMemory))
        .needs_privilege(NO_CGROUP),
    row("memory by memfd", &["fill_memfd", "67108864"])
        .limits(LITTLE_MEMORY)
        .end(End::Killed(KillReason::OutOfMemory))
        .needs_privilege(NO_CGROUP),
    row("memory by System V segments", &["fill_shared_memory", "67108864"])
        .limits(LITTLE_MEMORY)
        .end(End::Killed(KillReason::OutOfMemory))
        .needs_privilege(NO_CGROUP),
    row("memory by /tmp", &["fill_file", "/tmp/flood", "67108864", "0"])
        .limits(LITTLE_MEMORY)
        .end(End::Killed(KillReason::OutOfMemory))
        .needs_privilege(NO_CGROUP),
    row("memory by /dev/shm", &["fill_file", "/dev/shm/flood", "67108864", "0"])
        .limits(LITTLE_MEMORY)
        .end(End::Killed(KillReason::OutOfMemory))
        .needs_privilege(NO_CGROUP),
    row("fill /tmp", &["fill_file", "/tmp/flood", "8388608", "0"]).limits(LITTLE_TMP).end(End::Hit(LimitKind::Tmp)),
    row("fill /dev/shm", &["fill_file", "/dev/shm/flood", "67108864", "0"]).limits(LITTLE_TMP),
    row("fill the workspace", &["fill_file", "flood", "67108864", "4000"])
        .limits(LITTLE_DISK)
        .end(End::Killed(KillReason::DiskFull)),
    row("inodes of /tmp", &["make_files", "/tmp", "4096"]).limits(LITTLE_TMP).end(End::Hit(LimitKind::Tmp)),
    row("inodes of /dev/shm", &["make_files", "/dev/shm", "4096"]).limits(LITTLE_TMP),
    row("descriptors", &["open_descriptors", "70000"])
        .also(&[Rlimits, UserNamespace, TenantUid, Capabilities])
        .host_may_lack("a hard limit above 65,536 descriptors"),
    row("output flood", &["flood_output", "4194304"]).limits(LITTLE_LOG).end(End::Killed(KillReason::OutputFlood)),
    row("more than its share of processors", &["spin", "500"])
        .limits(LITTLE_CPU)
        .end(End::Throttled)
        .needs_privilege(NO_CGROUP),
    row("sleep past the deadline", &["oversleep", "4000"]).limits(LITTLE_TIME).end(End::Killed(KillReason::Deadline)),
    row("ignore SIGTERM at the deadline", &["oversleep_deaf", "4000"])
        .limits(LITTLE_TIME)
        .end(End::Killed(KillReason::Deadline)),
    row("stand still at the deadline", &["oversleep_stopped", "4000"])
        .limits(LITTLE_TIME)
        .end(End::Killed(KillReason::Deadline)),
    // Processes that try to outlive the run.
    row("a daemon stays", &["outlive_daemon"]).end(End::Harmless).anyone(),
    row("an orphan ignores every signal", &["outlive_deaf"]).end(End::Harmless).anyone(),
    row("a stopped child stays", &["outlive_stopped"]).end(End::Harmless).anyone(),
    row("a child holds stdout open", &["outlive_holding_output"]).end(End::Harmless).anyone(),
    row("a chain of forks stays", &["outlive_by_forking"]).end(End::Harmless).anyone(),
];
