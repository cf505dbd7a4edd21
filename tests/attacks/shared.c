/* Attacks on kernel resources that all tenants share: one call each where the call itself must be refused, and taking
 * as much as possible where the amount is bounded. */
#define _GNU_SOURCE
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- memory for compiled filters: every argument is invalid, so nothing is ever attached ---- */

/* `OPTION` of SOL_SOCKET, as a number. A program without instructions gives EINVAL, an invalid descriptor EBADF, both
 * after the permission check. */
ATTACK(attach_filter) {
    int option = (int)number(args[0]), on = 1, none = -1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
        return untried("socket: %s", strerrorname_np(errno));
    }
    struct sock_fprog empty = {0};
    int is_classic = option == SO_ATTACH_FILTER || option == SO_ATTACH_REUSEPORT_CBPF;
    int result = is_classic ? setsockopt(fd, SOL_SOCKET, option, &empty, sizeof empty)
                            : setsockopt(fd, SOL_SOCKET, option, &none, sizeof none);
    if (result != 0 && errno == ENOPROTOOPT) return held("setsockopt: ENOPROTOOPT");
    return judge("setsockopt", result, is_classic ? EINVAL : EBADF);
}

static int judge_filter(const char *call, long result) {
    return result != 0 && errno == EINVAL ? held("%s: EINVAL", call) : judge(call, result, EFAULT);
}

ATTACK(filter_calls) {
    (void)args;
    return judge_filter("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
}

ATTACK(filter_calls_of_old) {
    (void)args;
    return judge_filter("prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0));
}

/* ---- huge pages: none is touched, so the machine need not have any ---- */

#define HUGE (2UL << 20)

static int judge_huge(const char *call, long result, int refusal) {
    return result < 0 && errno == refusal ? held("%s: %s", call, strerrorname_np(errno)) : judge(call, result, 0);
}

ATTACK(huge_mapping) {
    (void)args;
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_HUGETLB;
    return judge_huge("mmap", mmap(NULL, HUGE, PROT_READ, how, -1, 0) == MAP_FAILED ? -1 : 0, ENOMEM);
}

ATTACK(huge_segment) {
    (void)args;
    int id = shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | SHM_NORESERVE | 0600);
    if (id >= 0) shmctl(id, IPC_RMID, NULL);
    return judge_huge("shmget", id, ENOMEM);
}

ATTACK(huge_memfd) {
    (void)args;
    return judge_huge("memfd_create", memfd_create("huge", MFD_HUGETLB | MFD_CLOEXEC), EINVAL);
}

/* ---- the host program that the kernel pipes cores to ---- */

/* A core limit of 0 does not keep the kernel from piping the core to a program; a limit of 1 byte does. The wait status
 * shows whether a core was dumped. */
ATTACK(dump_core_to_program) {
    (void)args;
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    char first = 0;
    if (fd < 0 || read(fd, &first, 1) != 1) return untried("core_pattern: %s", strerrorname_np(errno));
    if (first != '|') return absent("core_pattern names no program");
    pid_t child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        abort();
    }
    int status;
    waitpid(child, &status, 0);
    int is_dumped = WIFSIGNALED(status) && WCOREDUMP(status);
    return is_dumped ? escaped("a program received the core") : held("no program received the core");
}

/* ---- counted resources: `hoard KIND` takes as many as possible, `take KIND` takes one ---- */

static int take_inotify(long i) {
    (void)i;
    return inotify_init1(IN_CLOEXEC);
}

static int take_watch(long i) {
    static int fd = -1;
    char name[32];
    if (fd < 0) fd = inotify_init1(IN_CLOEXEC);
    snprintf(name, sizeof name, "watched-%ld", i);
    int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || file < 0) return -1;
    close(file);
    return inotify_add_watch(fd, name, IN_MODIFY);
}

static int take_timer(long i) {
    (void)i;
    timer_t timer;
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    return timer_create(CLOCK_MONOTONIC, &none, &timer);
}

static int take_signal(long i) {
    (void)i;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    union sigval value = {0};
    return sigqueue(getpid(), SIGRTMIN, value);
}

static int take_descriptor(long i) {
    (void)i;
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int take_terminal(long i) {
    (void)i;
    return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int take_queue(long i) {
    char name[32];
    snprintf(name, sizeof name, "/queue-%d-%ld", getpid(), i);
    int queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, NULL);
    if (queue >= 0) mq_unlink(name);
    return queue;
}

/* Each lock lies before all earlier ones of the file, so that the kernel inserts it without walking the list. */
static int take_lock(long i) {
    enum { LOCKS_PER_FILE = 2500 };
    static int file = -1;
    if (i % LOCKS_PER_FILE == 0) {
        char name[32];
        snprintf(name, sizeof name, "locked-%ld", i / LOCKS_PER_FILE);
        file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    struct flock lock = {.l_type = F_WRLCK, .l_start = 2 * (LOCKS_PER_FILE - i % LOCKS_PER_FILE), .l_len = 1};
    return file < 0 ? -1 : fcntl(file, F_SETLK, &lock);
}

/* Leaves one answer of the kernel unread. Kernels differ in how many a socket keeps, so many sockets are used. */
static int take_netlink(long i) {
    enum { ANSWERS_PER_SOCKET = 1000, BUFFER = 4 << 20 };
    static int fd = -1;
    struct {
        struct nlmsghdr header;
        struct ifinfomsg interface;
    } request = {
        .header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
        .interface = {.ifi_index = 1},
    };
    if (i % ANSWERS_PER_SOCKET == 0) {
        int bytes = BUFFER;
        fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0) return -1;
    }
    if (send(fd, &request, sizeof request, 0) < 0) return -1;
    char first;
    return i == 0 && recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* Unread bytes of a datagram or a stream: as much as two sockets buffer by default. */
enum { UNREAD_BYTES = 60000 };
static const char unread[UNREAD_BYTES];

/* Returns a socket bound to the loopback interface and stores its address in `address`. */
static int bound_socket(int type, struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, size) != 0) return -1;
    return getsockname(fd, (struct sockaddr *)address, &size) == 0 ? fd : -1;
}

/* The kernel drops a datagram without an error, so its arrival is checked. */
static int take_datagram(long i) {
    (void)i;
    struct sockaddr_in address;
    char first;
    int receiver = bound_socket(SOCK_DGRAM, &address), sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (receiver < 0 || sender < 0) return -1;
    if (sendto(sender, unread, sizeof unread, MSG_DONTWAIT, (struct sockaddr *)&address, sizeof address) < 0) return -1;
    return recv(receiver, &first, 1, MSG_PEEK | MSG_DONTWAIT) < 0 ? -1 : receiver;
}

static int take_stream(long i) {
    (void)i;
    static int listener = -1;
    static struct sockaddr_in address;
    if (listener < 0 && ((listener = bound_socket(SOCK_STREAM, &address)) < 0 || listen(listener, 8) != 0)) return -1;
    int sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sender < 0 || connect(sender, (struct sockaddr *)&address, sizeof address) != 0) return -1;
    if (accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0) return -1;
    ssize_t sent = send(sender, unread, sizeof unread, MSG_DONTWAIT);
    if (sent >= 0 && sent < UNREAD_BYTES) errno = EAGAIN;
    return sent == UNREAD_BYTES ? sender : -1;
}

static const struct {
    const char *name;
    int (*take)(long);
} kinds[] = {
    {"inotify", take_inotify}, {"watches", take_watch},      {"timers", take_timer}, {"signals", take_signal},
    {"descriptors", take_descriptor}, {"terminals", take_terminal}, {"queues", take_queue},
    {"locks", take_lock}, {"netlink", take_netlink}, {"datagrams", take_datagram}, {"streams", take_stream},
};

static int (*kind(const char *name))(long) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) return kinds[i].take;
    }
    exit(untried("unknown resource kind %s", name));
}

/* `KIND MAX`: takes up to MAX, reports the number taken and the error that stopped it, and keeps them until it is
 * killed. */
ATTACK(hoard) {
    int (*take)(long) = kind(args[0]);
    long max = number(args[1]), count = 0;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    while (count < max && take(count) >= 0) count++;
    int verdict = count < max ? held("%ld, then %s", count, strerrorname_np(errno)) : escaped("%ld", count);
    sleep_ms(LIFETIME_S * 1000);
    return verdict;
}

/* `KIND`: takes one. */
ATTACK(take) {
    return kind(args[0])(0) >= 0 ? escaped("one") : held("%s", strerrorname_np(errno));
}
