/* Attacks of one system call each: privilege, namespaces, mounts, keys, and kernel interfaces that no test needs. A
 * call that would change the machine has arguments that the kernel rejects after its permission check. */
#define _GNU_SOURCE
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* An unused user and group id. */
#define UNUSED_ID 64998

/* A path that does not exist, so that permitted calls on it fail with ENOENT. */
#define NO_SUCH_PATH "/no/such/thing"

/* ---- privilege ---- */

ATTACK(capabilities) {
    (void)args;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets) != 0) return untried("capget: %s", strerrorname_np(errno));
    for (int half = 0; half < 2; half++) {
        if (sets[half].effective | sets[half].permitted | sets[half].inheritable) {
            return escaped("effective %x, permitted %x, inheritable %x", sets[half].effective, sets[half].permitted,
                           sets[half].inheritable);
        }
    }
    for (int capability = 0; capability < 64; capability++) {
        if (prctl(PR_CAPBSET_READ, capability) == 1) return escaped("capability %d is in the bounding set", capability);
        int is_ambient = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0);
        if (is_ambient == 1) return escaped("capability %d is ambient", capability);
    }
    return held("every set is empty");
}

/* EINVAL means that the user namespace does not map the id, which counts as held. */
static int judge_id(const char *call, long result) {
    return result < 0 && errno == EINVAL ? held("%s: EINVAL", call) : judge(call, result, 0);
}

ATTACK(change_owner) {
    (void)args;
    int fd = open("point/owned", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return untried("creat: %s", strerrorname_np(errno));
    return judge_id("fchown", fchown(fd, UNUSED_ID, (gid_t)-1));
}

/* Creates and opens a second /dev/null. */
ATTACK(make_device) {
    (void)args;
    if (mknod("point/device", S_IFCHR | 0666, makedev(1, 3)) != 0) return judge("mknod", -1, 0);
    return judge("opening the device", open("point/device", O_RDONLY | O_CLOEXEC), 0);
}

ATTACK(become_another) {
    (void)args;
    uid_t other = getuid() == 0 ? UNUSED_ID : 0;
    return judge_id("setresuid", setresuid(other, other, other));
}

ATTACK(add_group) {
    (void)args;
    gid_t group = getgid() == 0 ? UNUSED_ID : 0;
    return judge_id("setgroups", syscall(SYS_setgroups, 1, &group));
}

/* ---- namespaces ---- */

/* The kernel answers ENOSPC if the allowed number of namespaces is reached. */
static int judge_namespace(const char *call, long result) {
    return result < 0 && (errno == ENOSPC || errno == EUSERS) ? held("%s: the number of namespaces is limited", call)
                                                              : judge(call, result, 0);
}

ATTACK(unshare_user) {
    (void)args;
    return judge_namespace("unshare", unshare(CLONE_NEWUSER));
}

static int judge_clone(const char *call, long child) {
    if (child == 0) _exit(0);
    int verdict = judge_namespace(call, child);
    if (child > 0) waitpid((pid_t)child, NULL, 0);
    return verdict;
}

ATTACK(clone_user) {
    (void)args;
    return judge_clone("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}

ATTACK(clone3_user) {
    (void)args;
    struct clone_args clone = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    return judge_clone("clone3", syscall(SYS_clone3, &clone, sizeof clone));
}

ATTACK(unshare_mounts) {
    (void)args;
    return judge_namespace("unshare", unshare(CLONE_NEWNS));
}

/* ---- mounts: on the directory `point` of the workspace; a mount that succeeds is removed at once ---- */

static int judge_mount(const char *call, int result, const char *point) {
    int verdict = judge(call, result, 0);
    if (result == 0) umount2(point, MNT_DETACH);
    return verdict;
}

/* `TYPE` */
ATTACK(mount_file_system) {
    return judge_mount("mount", mount("none", "point", args[0], 0, NULL), "point");
}

ATTACK(mount_bind) {
    (void)args;
    return judge_mount("mount", mount("/usr", "point", NULL, MS_BIND, NULL), "point");
}

/* `DIRECTORY FILE`: remounts a read-only bind as writable and writes the file in it. Outside a sandbox the directory is
 * not a mount, which gives EINVAL. */
ATTACK(remount_writable) {
    if (mount(NULL, args[0], NULL, MS_REMOUNT | MS_BIND, NULL) != 0) return judge("mount", -1, EINVAL);
    return write_file(args + 1);
}

/* The directory is not a mount: EINVAL follows the permission check. */
ATTACK(unmount) {
    (void)args;
    return judge("umount2", umount2("point", MNT_DETACH), EINVAL);
}

ATTACK(pivot) {
    (void)args;
    return judge("pivot_root", syscall(SYS_pivot_root, NO_SUCH_PATH, NO_SUCH_PATH), ENOENT);
}

ATTACK(clone_tree) {
    (void)args;
    return judge("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), 0);
}

ATTACK(open_file_system) {
    (void)args;
    return judge("fsopen", syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), 0);
}

/* ---- kernel interfaces that no test needs ---- */

ATTACK(key_add) {
    (void)args;
    long key = syscall(SYS_add_key, "user", "proctor-escape", "x", 1, KEY_SPEC_USER_KEYRING);
    int verdict = judge("add_key", key, 0);
    if (key > 0) syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING);
    return verdict;
}

ATTACK(key_session) {
    (void)args;
    return judge("keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0), 0);
}

ATTACK(bpf_map) {
    (void)args;
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return judge("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map), 0);
}

ATTACK(bpf_program) {
    (void)args;
    struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr program = {
        .prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
        .insn_cnt = 2,
        .insns = (uint64_t)(uintptr_t)code,
        .license = (uint64_t)(uintptr_t) "GPL",
    };
    return judge("bpf", syscall(SYS_bpf, BPF_PROG_LOAD, &program, sizeof program), 0);
}

ATTACK(io_uring) {
    (void)args;
    struct io_uring_params parameters = {0};
    return judge("io_uring_setup", syscall(SYS_io_uring_setup, 1, &parameters), 0);
}

ATTACK(userfault) {
    (void)args;
    return judge("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), 0);
}

/* `FAMILY TYPE PROTOCOL`, as numbers. */
ATTACK(open_socket) {
    return judge("socket", socket((int)number(args[0]), (int)number(args[1]), (int)number(args[2])), 0);
}

/* Calls getpid like a 32-bit program (asm/unistd_32.h). A kernel without support for these sends SIGSEGV. */
static int getpid_32_bit(char **args) {
    (void)args;
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "cc", "r8", "r9", "r10", "r11");
    errno = result < 0 ? (int)-result : 0;
    return judge("int 0x80", result < 0 ? -1 : 0, 0);
}

ATTACK(call_32_bit) { return in_child(getpid_32_bit, args); }

static int getpid_x32(char **args) {
    (void)args;
    return judge("x32 getpid", syscall(0x40000000L | SYS_getpid), 0);
}

ATTACK(call_x32) { return in_child(getpid_x32, args); }

/* Types into a terminal of its own, so that the input reaches no program. The seccomp filter is tested first, on a
 * descriptor that is not a terminal. */
static int type_into_terminal(char **args) {
    (void)args;
    if (ioctl(0, TIOCSTI, "x") == 0 || errno != ENOTTY) return judge("TIOCSTI on stdin", -1, 0);
    int main_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (main_end < 0 || grantpt(main_end) != 0 || unlockpt(main_end) != 0) return held("no terminal can be created");
    setsid();
    int terminal = open(ptsname(main_end), O_RDWR | O_CLOEXEC);
    if (terminal < 0) return held("no terminal can be opened: %s", strerrorname_np(errno));
    if (ioctl(terminal, TIOCSCTTY, 0) != 0) return untried("TIOCSCTTY: %s", strerrorname_np(errno));
    int result = ioctl(terminal, TIOCSTI, "x");
    return result != 0 && errno == EIO ? absent("TIOCSTI: EIO") : judge("TIOCSTI", result, 0);
}

ATTACK(terminal_input) { return in_child(type_into_terminal, args); }

/* Sends a subcode of TIOCLINUX that does not exist: EINVAL comes from the console itself. */
ATTACK(console_control) {
    (void)args;
    static const char *const consoles[] = {"/dev/tty0", "/dev/tty1", "/dev/console", NULL};
    for (const char *const *console = consoles; *console != NULL; console++) {
        char subcode = 127;
        int fd = open(*console, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        int result = ioctl(fd, TIOCLINUX, &subcode);
        if (result != 0 && errno == ENOTTY) continue;
        return judge("TIOCLINUX", result, EINVAL);
    }
    return held("no console can be opened");
}

ATTACK(module_load) {
    (void)args;
    return judge("init_module", syscall(SYS_init_module, NULL, 0UL, ""), ENOEXEC);
}

ATTACK(module_load_file) {
    (void)args;
    return judge("finit_module", syscall(SYS_finit_module, -1, "", 0), EBADF);
}

ATTACK(module_unload) {
    (void)args;
    return judge("delete_module", syscall(SYS_delete_module, "no_such_module", O_NONBLOCK), ENOENT);
}

/* Longer than the limit for names: EINVAL follows the permission check. */
static const char long_name[4096] = "x";

ATTACK(host_name_set) {
    (void)args;
    return judge("sethostname", sethostname(long_name, sizeof long_name), EINVAL);
}

ATTACK(domain_name_set) {
    (void)args;
    return judge("setdomainname", setdomainname(long_name, sizeof long_name), EINVAL);
}

/* `KIND NAMESPACE`: checks whether this process is in the host's namespace of that kind, which has this name. */
ATTACK(share_namespace) {
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/ns/%s", args[0]);
    if (readlink(path, name, sizeof name - 1) < 0) return untried("%s: %s", path, strerrorname_np(errno));
    return strcmp(name, args[1]) == 0 ? escaped("this is %s of the host", name) : held("this is %s", name);
}

ATTACK(enter_namespace) {
    (void)args;
    return judge("setns", syscall(SYS_setns, -1, CLONE_NEWNS), EBADF);
}

ATTACK(asynchronous_io) {
    (void)args;
    unsigned long context = 0;
    return judge("io_setup", syscall(SYS_io_setup, 1, &context), 0);
}

ATTACK(watch_mount) {
    (void)args;
    return judge("fanotify_init", syscall(SYS_fanotify_init, 0, O_RDONLY), 0);
}

ATTACK(hide_memory) {
    (void)args;
    return judge("memfd_secret", syscall(SYS_memfd_secret, 0), 0);
}

/* Reads the local descriptor table, which is empty. */
ATTACK(segment_table) {
    (void)args;
    char table[16];
    return judge("modify_ldt", syscall(SYS_modify_ldt, 0, table, sizeof table), 0);
}

/* Neither time nor zone is given: the kernel checks permission and sets nothing. */
ATTACK(clock_set) {
    (void)args;
    return judge("settimeofday", syscall(SYS_settimeofday, NULL, NULL), 0);
}

/* A tick outside the valid range: EINVAL follows the permission check. */
ATTACK(clock_adjust) {
    (void)args;
    struct timex adjustment = {.modes = ADJ_TICK, .tick = 1};
    return judge("adjtimex", adjtimex(&adjustment), EINVAL);
}

ATTACK(perf_event) {
    (void)args;
    struct perf_event_attr event = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof event,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return judge("perf_event_open", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0), 0);
}

/* More segments than the kernel accepts: EINVAL follows the permission check. */
ATTACK(kexec) {
    (void)args;
    return judge("kexec_load", syscall(SYS_kexec_load, 0, 1000, NULL, 0), EINVAL);
}

/* Without the magic numbers: EINVAL follows the permission check. */
ATTACK(reboot_machine) {
    (void)args;
    return judge("reboot", syscall(SYS_reboot, 0, 0, 0, NULL), EINVAL);
}

ATTACK(swap_on) {
    (void)args;
    return judge("swapon", swapon(NO_SUCH_PATH, 0), ENOENT);
}

/* The kernel looks up the device first, so ENOENT means that the call itself is allowed. */
ATTACK(quota) {
    (void)args;
    return judge("quotactl", quotactl(QCMD(Q_GETFMT, USRQUOTA), NO_SUCH_PATH, 0, NULL), ENOENT);
}

ATTACK(kernel_log) {
    (void)args;
    char line[256];
    return judge("syslog", klogctl(3 /* SYSLOG_ACTION_READ_ALL */, line, sizeof line), 0);
}

ATTACK(change_personality) {
    (void)args;
    return judge("personality", personality(READ_IMPLIES_EXEC), 0);
}

static int run_in_real_time(char **args) {
    (void)args;
    struct sched_param lowest = {.sched_priority = 1};
    return judge("sched_setscheduler", sched_setscheduler(0, SCHED_FIFO, &lowest), 0);
}

ATTACK(real_time) { return in_child(run_in_real_time, args); }

/* `struct sched_attr` of linux/sched/types.h, which some C libraries also declare. */
struct slice {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static int run_in_short_slices(char **args) {
    (void)args;
    struct slice shortest = {.size = sizeof shortest, .nice = getpriority(PRIO_PROCESS, 0), .runtime_ns = 100000};
    return judge("sched_setattr", syscall(SYS_sched_setattr, 0, &shortest, 0), 0);
}

ATTACK(short_slice) { return in_child(run_in_short_slices, args); }

ATTACK(process_accounting) {
    (void)args;
    return judge("acct", acct(NO_SUCH_PATH), ENOENT);
}
