/* All attacks of the suite `sandbox_escape` in one program: `attack NAME [ARGUMENT...]`. It prints its finding in one
 * line, and its exit status is the verdict (attack.h). Payloads are harmless: a successful attack makes no lasting
 * change. */
#define _GNU_SOURCE
#include "attack.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(char **args);
    int arguments;
} attacks[] = {
    {"read_file", read_file, 1},
    {"read_below_proc", read_below_proc, 2},
    {"read_file_descriptors", read_file_descriptors, 0},
    {"read_environments", read_environments, 0},
    {"write_file", write_file, 1},
    {"make_file", make_file, 1},
    {"make_set_id_file", make_set_id_file, 0},
    {"open_only", open_only, 2},
    {"open_block_device", open_block_device, 0},
    {"odd_devices", odd_devices, 0},
    {"leaked_descriptors", leaked_descriptors, 0},
    {"environment", environment, 1},
    {"run_program", run_program, 2},
    {"chroot_and_climb", chroot_and_climb, 1},
    {"open_by_handle", open_by_handle, 0},
    {"cgroup_limits", cgroup_limits, 0},
    {"cgroup_procs", cgroup_procs, 0},
    {"release_agent", release_agent, 0},
    {"grant_file_capability", grant_file_capability, 1},

    {"capabilities", capabilities, 0},
    {"change_owner", change_owner, 0},
    {"make_device", make_device, 0},
    {"become_another", become_another, 0},
    {"add_group", add_group, 0},
    {"unshare_user", unshare_user, 0},
    {"clone_user", clone_user, 0},
    {"clone3_user", clone3_user, 0},
    {"unshare_mounts", unshare_mounts, 0},
    {"mount_file_system", mount_file_system, 1},
    {"mount_bind", mount_bind, 0},
    {"remount_writable", remount_writable, 2},
    {"unmount", unmount, 0},
    {"pivot", pivot, 0},
    {"clone_tree", clone_tree, 0},
    {"open_file_system", open_file_system, 0},
    {"key_add", key_add, 0},
    {"key_session", key_session, 0},
    {"bpf_map", bpf_map, 0},
    {"bpf_program", bpf_program, 0},
    {"io_uring", io_uring, 0},
    {"userfault", userfault, 0},
    {"open_socket", open_socket, 3},
    {"call_32_bit", call_32_bit, 0},
    {"call_x32", call_x32, 0},
    {"terminal_input", terminal_input, 0},
    {"console_control", console_control, 0},
    {"module_load", module_load, 0},
    {"module_load_file", module_load_file, 0},
    {"module_unload", module_unload, 0},
    {"host_name_set", host_name_set, 0},
    {"share_namespace", share_namespace, 2},
    {"enter_namespace", enter_namespace, 0},
    {"asynchronous_io", asynchronous_io, 0},
    {"watch_mount", watch_mount, 0},
    {"hide_memory", hide_memory, 0},
    {"segment_table", segment_table, 0},
    {"domain_name_set", domain_name_set, 0},
    {"clock_set", clock_set, 0},
    {"clock_adjust", clock_adjust, 0},
    {"perf_event", perf_event, 0},
    {"kexec", kexec, 0},
    {"reboot_machine", reboot_machine, 0},
    {"swap_on", swap_on, 0},
    {"quota", quota, 0},
    {"kernel_log", kernel_log, 0},
    {"change_personality", change_personality, 0},
    {"real_time", real_time, 0},
    {"short_slice", short_slice, 0},
    {"process_accounting", process_accounting, 0},

    {"see_process", see_process, 1},
    {"signal_process", signal_process, 1},
    {"signal_with_everything", signal_with_everything, 1},
    {"trace", trace, 1},
    {"read_memory", read_memory, 1},
    {"write_memory", write_memory, 1},
    {"open_memory", open_memory, 1},
    {"steal_descriptor", steal_descriptor, 1},
    {"connect_unix", connect_unix, 1},
    {"connect_abstract", connect_abstract, 1},
    {"connect_tcp", connect_tcp, 1},
    {"send_outside", send_outside, 0},
    {"read_shared_memory", read_shared_memory, 1},
    {"leave_shared_memory", leave_shared_memory, 1},
    {"remove_shared_memory", remove_shared_memory, 1},
    {"victim", victim, 2},

    {"fork_bomb", fork_bomb, 1},
    {"thread_bomb", thread_bomb, 1},
    {"fill_heap", fill_heap, 1},
    {"fill_mapping", fill_mapping, 1},
    {"fill_memfd", fill_memfd, 1},
    {"fill_shared_memory", fill_shared_memory, 1},
    {"fill_file", fill_file, 3},
    {"make_files", make_files, 2},
    {"open_descriptors", open_descriptors, 1},
    {"flood_output", flood_output, 1},
    {"spin", spin, 1},
    {"oversleep", oversleep, 1},
    {"oversleep_deaf", oversleep_deaf, 1},
    {"oversleep_stopped", oversleep_stopped, 1},
    {"outlive_daemon", outlive_daemon, 0},
    {"outlive_deaf", outlive_deaf, 0},
    {"outlive_stopped", outlive_stopped, 0},
    {"outlive_holding_output", outlive_holding_output, 0},
    {"outlive_by_forking", outlive_by_forking, 0},
    {"dump_core", dump_core, 0},

    {"attach_filter", attach_filter, 1},
    {"filter_calls", filter_calls, 0},
    {"filter_calls_of_old", filter_calls_of_old, 0},
    {"huge_mapping", huge_mapping, 0},
    {"huge_segment", huge_segment, 0},
    {"huge_memfd", huge_memfd, 0},
    {"dump_core_to_program", dump_core_to_program, 0},
    {"hoard", hoard, 2},
    {"take", take, 1},
};

int main(int count, char **args) {
    for (size_t i = 0; count > 1 && i < sizeof attacks / sizeof *attacks; i++) {
        if (strcmp(args[1], attacks[i].name) == 0 && count - 2 == attacks[i].arguments) return attacks[i].run(args + 2);
    }
    fprintf(stderr, "usage: attack NAME [ARGUMENT...]; no attack has this name and number of arguments\n");
    return USAGE;
}

static int report(enum verdict verdict, const char *word, const char *format, va_list arguments) {
    printf("%s: ", word);
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    return verdict;
}

#define DEFINE_REPORT(name, verdict)                                                                                   \
    int name(const char *format, ...) {                                                                                \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        report(verdict, #name, format, arguments);                                                                     \
        va_end(arguments);                                                                                             \
        return verdict;                                                                                                \
    }
DEFINE_REPORT(escaped, ESCAPED)
DEFINE_REPORT(held, HELD)
DEFINE_REPORT(untried, UNTRIED)
DEFINE_REPORT(absent, ABSENT)

int judge(const char *call, long result, int past) {
    if (result >= 0) return escaped("%s: succeeded", call);
    if (errno == past) return escaped("%s: %s, which follows the permission check", call, strerrorname_np(errno));
    switch (errno) {
    case EPERM:
    case EACCES:
    case EROFS:
    case ENOENT:
    case ENXIO:
    case ESRCH:
    case ECONNREFUSED:
        return held("%s: %s", call, strerrorname_np(errno));
    case ENOSYS:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
    case ESOCKTNOSUPPORT:
    case ENETUNREACH:
        return absent("%s: %s", call, strerrorname_np(errno));
    default:
        return untried("%s: %s", call, strerrorname_np(errno));
    }
}

int in_child(int (*attack)(char **), char **args) {
    pid_t child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child == 0) _exit(attack(args));
    int status;
    if (waitpid(child, &status, 0) != child) return untried("waitpid: %s", strerrorname_np(errno));
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WTERMSIG(status) == SIGSYS) return held("ended by SIGSYS");
    if (WTERMSIG(status) == SIGSEGV) return absent("ended by SIGSEGV");
    return untried("ended by signal %d", WTERMSIG(status));
}

long number(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0') exit(untried("%s is not a number", text));
    return value;
}

void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

int write_all(int fd, const void *bytes, size_t length) {
    for (size_t written = 0; written < length;) {
        ssize_t more = write(fd, (const char *)bytes + written, length - written);
        if (more < 0 && errno != EINTR) return -1;
        if (more > 0) written += (size_t)more;
    }
    return 0;
}
