/* Attacks on other processes, sockets and shared memory, and the victim process that they are tried on. Only the
 * process that the caller names is touched. */
#define _GNU_SOURCE
#include "attack.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Name of the initial pid namespace (linux/proc_ns.h), in which process 1 is the machine's init. */
#define INITIAL_PID_NAMESPACE "pid:[4026531836]"

/* The process to attack. Process 1 is allowed if it is a sandbox's init, never if it is the machine's. */
static pid_t target(const char *text) {
    pid_t pid = (pid_t)number(text);
    char namespace[64] = "";
    if (pid > 1) return pid;
    ssize_t length = readlink("/proc/self/ns/pid", namespace, sizeof namespace - 1);
    int is_machine = length <= 0 || strcmp(namespace, INITIAL_PID_NAMESPACE) == 0;
    if (pid != 1 || is_machine) exit(untried("process %d must not be attacked", pid));
    return pid;
}

/* Finds a process with this word in its command line. */
ATTACK(see_process) {
    DIR *proc = opendir("/proc");
    if (proc == NULL) return held("opendir /proc: %s", strerrorname_np(errno));
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid()) continue;
        char path[300], line[4096];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, line, sizeof line);
        if (fd >= 0) close(fd);
        if (length > 0 && memmem(line, (size_t)length, args[0], strlen(args[0])) != NULL) {
            return escaped("process %s matches", entry->d_name);
        }
    }
    closedir(proc);
    return held("no process matches");
}

ATTACK(signal_process) { return judge("kill", kill(target(args[0]), SIGKILL), 0); }

/* The suite checks afterwards whether the process is still alive. */
ATTACK(signal_with_everything) {
    pid_t pid = target(args[0]);
    int refused = 0;
    for (int signal = 1; signal <= SIGRTMAX; signal++) refused += kill(pid, signal) != 0;
    printf("%d of %d signals refused\n", refused, SIGRTMAX);
    return ESCAPED;
}

/* Unlike PTRACE_ATTACH, this does not stop the process, and the tracer's end detaches it. */
ATTACK(trace) { return judge("ptrace", ptrace(PTRACE_SEIZE, target(args[0]), NULL, NULL), 0); }

/* Nothing is mapped at the lowest addresses, so a permitted access fails with EFAULT. */
static struct iovec unmapped = {(void *)8, 8};

ATTACK(read_memory) {
    char bytes[8];
    struct iovec own = {bytes, sizeof bytes};
    return judge("process_vm_readv", process_vm_readv(target(args[0]), &own, 1, &unmapped, 1, 0), EFAULT);
}

ATTACK(write_memory) {
    char bytes[8] = "";
    struct iovec own = {bytes, sizeof bytes};
    return judge("process_vm_writev", process_vm_writev(target(args[0]), &own, 1, &unmapped, 1, 0), EFAULT);
}

ATTACK(open_memory) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", target(args[0]));
    return judge(path, open(path, O_RDWR | O_CLOEXEC), 0);
}

ATTACK(steal_descriptor) {
    long process = syscall(SYS_pidfd_open, target(args[0]), 0);
    if (process < 0) return judge("pidfd_open", -1, 0);
    return judge("pidfd_getfd", syscall(SYS_pidfd_getfd, process, 0, 0), 0);
}

static int unix_address(struct sockaddr_un *address, size_t offset, const char *name) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(name) + offset + 1 > sizeof address->sun_path) return -1;
    memcpy(address->sun_path + offset, name, strlen(name));
    return (int)(offsetof(struct sockaddr_un, sun_path) + offset + strlen(name));
}

static int connect_to(int domain, const void *address, int length) {
    int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return judge("socket", -1, 0);
    int result = connect(fd, address, (socklen_t)length);
    int error = errno;
    close(fd);
    errno = error;
    return judge("connect", result, 0);
}

ATTACK(connect_unix) {
    struct sockaddr_un address;
    int length = unix_address(&address, 0, args[0]);
    return length < 0 ? untried("the path is too long") : connect_to(AF_UNIX, &address, length + 1);
}

ATTACK(connect_abstract) {
    struct sockaddr_un address;
    int length = unix_address(&address, 1, args[0]);
    return length < 0 ? untried("the name is too long") : connect_to(AF_UNIX, &address, length);
}

ATTACK(connect_tcp) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)number(args[0])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    return connect_to(AF_INET, &address, sizeof address);
}

/* To 192.0.2.1, which is reserved for documentation (RFC 5737). A datagram that is sent is proof enough. */
ATTACK(send_outside) {
    (void)args;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(9),
        .sin_addr.s_addr = htonl(0xc0000201),
    };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return judge("socket", -1, 0);
    return judge("sendto", sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof address), 0);
}

ATTACK(read_shared_memory) {
    char *bytes = shmat((int)number(args[0]), NULL, SHM_RDONLY);
    if (bytes == (void *)-1) return errno == EINVAL ? held("shmat: EINVAL") : judge("shmat", -1, 0);
    if (strncmp(bytes, CANARY, strlen(CANARY)) == 0) return escaped("the segment holds %s", bytes);
    return held("it is another segment");
}

/* `KEY`: the suite checks afterwards whether the segment outlives the run. */
ATTACK(leave_shared_memory) {
    int id = shmget((key_t)number(args[0]), 4096, IPC_CREAT | IPC_EXCL | 0600);
    if (id < 0) return untried("shmget: %s", strerrorname_np(errno));
    printf("segment %d created\n", id);
    return ESCAPED;
}

/* Not an attack: removes the segment that leave_shared_memory left. */
ATTACK(remove_shared_memory) {
    return judge("shmctl", shmctl(shmget((key_t)number(args[0]), 0, 0), IPC_RMID, NULL), 0);
}

/* `FILE SECRET`: not an attack, but the target of attacks. Holds the file open and the secret in a shared segment.
 * Prints `ready SEGMENT`, answers every input byte with `!`, and lives until its caller ends. */
ATTACK(victim) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return untried("prctl: %s", strerrorname_np(errno));
    if (open(args[0], O_RDONLY) < 0) return untried("open: %s", strerrorname_np(errno));
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0666);
    char *bytes = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
    if (bytes == (void *)-1) return untried("shared memory: %s", strerrorname_np(errno));
    snprintf(bytes, 4096, "%s", args[1]);
    /* The segment can still be attached by its id, and is freed when this process ends. */
    shmctl(id, IPC_RMID, NULL);
    printf("ready %d\n", id);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) == 1 && write(1, "!", 1) == 1) continue;
    return HELD;
}
