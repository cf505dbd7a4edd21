/* Attacks on limited resources: processes, memory, files, descriptors, output, time, and the end of the run. Each
 * counts as escaped at a ceiling given as argument, and ends by itself. */
#define _GNU_SOURCE
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)

/* Largest number of processes or threads that a bomb creates. */
#define BOMB_MAX 4096

ATTACK(fork_bomb) {
    static pid_t children[BOMB_MAX];
    int wanted = (int)number(args[0]), count = 0, error = 0;
    if (wanted > BOMB_MAX) return untried("at most %d", BOMB_MAX);
    for (; count < wanted; count++) {
        pid_t child = fork();
        if (child < 0) {
            error = errno;
            break;
        }
        if (child == 0) {
            sleep_ms(LIFETIME_S * 1000);
            _exit(0);
        }
        children[count] = child;
    }
    for (int i = 0; i < count; i++) kill(children[i], SIGKILL);
    for (int i = 0; i < count; i++) waitpid(children[i], NULL, 0);
    if (count == wanted) return escaped("%d processes", count);
    return held("%s after %d processes", strerrorname_np(error), count);
}

static void *idle(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

ATTACK(thread_bomb) {
    static pthread_t threads[BOMB_MAX];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small;
    int wanted = (int)number(args[0]), count = 0, error = 0;
    if (wanted > BOMB_MAX) return untried("at most %d", BOMB_MAX);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    pthread_mutex_lock(&gate);
    while (count < wanted && (error = pthread_create(&threads[count], &small, idle, &gate)) == 0) count++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return count == wanted ? escaped("%d threads", count) : held("%s after %d threads", strerrorname_np(error), count);
}

/* Touches every page, so that it is charged to the memory limit. */
static int fill(const char *kind, volatile char *bytes, size_t length) {
    for (size_t at = 0; at < length; at += 4096) bytes[at] = 1;
    return escaped("%zu MiB of %s", length / MIB, kind);
}

ATTACK(fill_heap) {
    size_t length = (size_t)number(args[0]);
    char *bytes = malloc(length);
    return bytes == NULL ? held("malloc: %s", strerrorname_np(errno)) : fill("heap", bytes, length);
}

static int fill_mapped(const char *kind, int fd, size_t length) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, 0);
    return bytes == MAP_FAILED ? held("mmap: %s", strerrorname_np(errno)) : fill(kind, bytes, length);
}

ATTACK(fill_mapping) { return fill_mapped("anonymous memory", -1, (size_t)number(args[0])); }

ATTACK(fill_memfd) {
    int fd = memfd_create("proctor-escape", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, number(args[0])) != 0) return judge("memfd_create", -1, 0);
    return fill_mapped("memfd", fd, (size_t)number(args[0]));
}

ATTACK(fill_shared_memory) {
    size_t length = (size_t)number(args[0]);
    int id = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
    char *bytes = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
    if (bytes == (void *)-1) return held("shared memory: %s", strerrorname_np(errno));
    shmctl(id, IPC_RMID, NULL);
    return fill("System V shared memory", bytes, length);
}

/* `FILE BYTES MILLISECONDS`: the file stays for that long, since disk limits are enforced by periodic scans. */
ATTACK(fill_file) {
    static char bytes[65536];
    size_t length = (size_t)number(args[1]);
    int fd = open(args[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return untried("%s: %s", args[0], strerrorname_np(errno));
    for (size_t written = 0; written < length; written += sizeof bytes) {
        if (write_all(fd, bytes, sizeof bytes) == 0) continue;
        /* The scan of the disk limits must see the full file. */
        int error = errno;
        sleep_ms(400);
        return held("%s after %zu KiB", strerrorname_np(error), written / 1024);
    }
    sleep_ms(number(args[2]));
    unlink(args[0]);
    return escaped("%zu MiB in %s", length / MIB, args[0]);
}

/* `DIRECTORY COUNT`: creates that many empty files. */
ATTACK(make_files) {
    long wanted = number(args[1]);
    if (chdir(args[0]) != 0) return untried("%s: %s", args[0], strerrorname_np(errno));
    for (long made = 0; made < wanted; made++) {
        char name[64];
        snprintf(name, sizeof name, "proctor-escape-%ld", made);
        int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) {
            int error = errno;
            sleep_ms(400);
            return held("%s after %ld files", strerrorname_np(error), made);
        }
        close(fd);
    }
    for (long made = 0; made < wanted; made++) {
        char name[64];
        snprintf(name, sizeof name, "proctor-escape-%ld", made);
        unlink(name);
    }
    return escaped("%ld files in %s", wanted, args[0]);
}

/* `COUNT`: raises its own limit as far as the kernel allows first. If the kernel allows fewer, nothing is proven. */
ATTACK(open_descriptors) {
    int wanted = (int)number(args[0]);
    struct rlimit most = {(rlim_t)wanted + 16, (rlim_t)wanted + 16};
    if (setrlimit(RLIMIT_NOFILE, &most) != 0) {
        getrlimit(RLIMIT_NOFILE, &most);
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
    for (int opened = 0; opened < wanted; opened++) {
        if (dup(0) < 0) return absent("%s after %d descriptors", strerrorname_np(errno), opened);
    }
    return escaped("%d descriptors", wanted);
}

ATTACK(flood_output) {
    static char bytes[65536];
    memset(bytes, '.', sizeof bytes);
    size_t length = (size_t)number(args[0]);
    for (size_t written = 0; written < length; written += sizeof bytes) {
        if (write_all(1, bytes, sizeof bytes) != 0) return HELD;
    }
    printf("\n");
    return escaped("%zu MiB of output", length / MIB);
}

/* `MS`: uses that much processor time. The suite reads from cgroup counters whether it was throttled. */
ATTACK(spin) {
    struct timespec used = {0};
    long wanted_ms = number(args[0]);
    while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < wanted_ms) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return escaped("%ld ms of a processor", wanted_ms);
}

/* ---- the deadline ---- */

/* Ignores every signal that can be ignored. */
static void ignore_signals(void) {
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number != SIGCHLD) signal(number, SIG_IGN);
    }
}

ATTACK(oversleep) {
    sleep_ms(number(args[0]));
    return escaped("slept for %s ms", args[0]);
}

ATTACK(oversleep_deaf) {
    ignore_signals();
    return oversleep(args);
}

/* Stops itself; a child that ignores signals continues it after MS. */
ATTACK(oversleep_stopped) {
    pid_t self = getpid(), child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child == 0) {
        ignore_signals();
        sleep_ms(number(args[0]));
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(child, NULL, 0);
    return escaped("was stopped for %s ms", args[0]);
}

/* ---- the end of the run: the suite detects survivors by their lock on the file `alive` ---- */

/* Redirects the standard streams to /dev/null, so that no pipe to the supervisor stays open. */
static void detach_streams(void) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
}

static int leave_behind(void (*prepare_child)(void)) {
    int alive = open("alive", O_RDWR | O_CREAT, 0600);
    if (alive < 0 || flock(alive, LOCK_EX | LOCK_NB) != 0) return untried("alive: %s", strerrorname_np(errno));
    pid_t child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child > 0) {
        printf("left %d behind\n", child);
        return ESCAPED;
    }
    prepare_child();
    sleep_ms(LIFETIME_S * 1000);
    _exit(0);
}

static void become_daemon(void) {
    setsid();
    if (fork() != 0) _exit(0);
    detach_streams();
}

static void become_signal_proof(void) {
    setsid();
    detach_streams();
    ignore_signals();
}

static void become_stopped(void) {
    detach_streams();
    /* In the parent's session it would receive SIGHUP when the parent ends. */
    setsid();
    raise(SIGSTOP);
}

/* Every process lives for 1 ms and is replaced by its child, so that killing by process id always comes too late. */
static void fork_continuously(void) {
    detach_streams();
    time_t until = time(NULL) + LIFETIME_S;
    while (time(NULL) < until) {
        if (fork() > 0) _exit(0);
        sleep_ms(1);
    }
}

ATTACK(outlive_daemon) {
    (void)args;
    return leave_behind(become_daemon);
}

ATTACK(outlive_deaf) {
    (void)args;
    return leave_behind(become_signal_proof);
}

ATTACK(outlive_stopped) {
    (void)args;
    return leave_behind(become_stopped);
}

ATTACK(outlive_holding_output) {
    (void)args;
    return leave_behind(ignore_signals);
}

ATTACK(outlive_by_forking) {
    (void)args;
    return leave_behind(fork_continuously);
}

/* Dumps a core into the working directory, or to the destination in the host's core_pattern. */
ATTACK(dump_core) {
    (void)args;
    pid_t child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child == 0) {
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, most;
        if (setrlimit(RLIMIT_CORE, &all) != 0 && getrlimit(RLIMIT_CORE, &most) == 0) {
            most.rlim_cur = most.rlim_max;
            setrlimit(RLIMIT_CORE, &most);
        }
        abort();
    }
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WCOREDUMP(status) ? escaped("a core was dumped") : held("no core was dumped");
}
