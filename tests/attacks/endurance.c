/* Attacks on what is limited: processes, memory, files, descriptors, output, time, and the end of the run. Each has a
 * ceiling at which it has succeeded, and ends by itself. */
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

/* Most processes or threads that a bomb may ask for. */
#define BOMB_MAX 4096

ATTACK(fork_bomb) {
    static pid_t children[BOMB_MAX];
    int wanted = (int)number(args[0]), born = 0, error = 0;
    if (wanted > BOMB_MAX) return untried("at most %d", BOMB_MAX);
    for (; born < wanted; born++) {
        pid_t child = fork();
        if (child < 0) {
            error = errno;
            break;
        }
        if (child == 0) {
            sleep_ms(LIFETIME_S * 1000);
            _exit(0);
        }
        children[born] = child;
    }
    for (int i = 0; i < born; i++) kill(children[i], SIGKILL);
    for (int i = 0; i < born; i++) waitpid(children[i], NULL, 0);
    return born == wanted ? escaped("%d processes", born) : held("%s after %d processes", strerrorname_np(error), born);
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
    int wanted = (int)number(args[0]), born = 0, error = 0;
    if (wanted > BOMB_MAX) return untried("at most %d", BOMB_MAX);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    pthread_mutex_lock(&gate);
    while (born < wanted && (error = pthread_create(&threads[born], &small, idle, &gate)) == 0) born++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < born; i++) pthread_join(threads[i], NULL);
    return born == wanted ? escaped("%d threads", born) : held("%s after %d threads", strerrorname_np(error), born);
}

/* Touches every page, so that it counts. */
static int fill(const char *what, volatile char *bytes, size_t length) {
    for (size_t at = 0; at < length; at += 4096) bytes[at] = 1;
    return escaped("%zu MiB of %s", length / MIB, what);
}

ATTACK(fill_heap) {
    size_t length = (size_t)number(args[0]);
    char *bytes = malloc(length);
    return bytes == NULL ? held("malloc: %s", strerrorname_np(errno)) : fill("heap", bytes, length);
}

static int fill_mapped(const char *what, int fd, size_t length) {
    int how = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, how, fd, 0);
    return bytes == MAP_FAILED ? held("mmap: %s", strerrorname_np(errno)) : fill(what, bytes, length);
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

/* `FILE BYTES MILLISECONDS`: how long the file stays, for whom only looks at what is there and may look late. */
ATTACK(fill_file) {
    static char bytes[65536];
    size_t length = (size_t)number(args[1]);
    int fd = open(args[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return untried("%s: %s", args[0], strerrorname_np(errno));
    for (size_t written = 0; written < length; written += sizeof bytes) {
        if (write_all(fd, bytes, sizeof bytes) == 0) continue;
        /* What is full is seen as full only as long as the file is there. */
        int error = errno;
        sleep_ms(400);
        return held("%s after %zu KiB", strerrorname_np(error), written / 1024);
    }
    sleep_ms(number(args[2]));
    unlink(args[0]);
    return escaped("%zu MiB in %s", length / MIB, args[0]);
}

/* `DIRECTORY COUNT` */
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

/* `COUNT`: with as many as the process can make the kernel allow it. Where nobody may have as many, it is no proof. */
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

/* `MS`: uses as much processor time. Whether it was slowed down, only others can see. */
ATTACK(spin) {
    struct timespec used = {0};
    long wanted_ms = number(args[0]);
    while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < wanted_ms) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return escaped("%ld ms of a processor", wanted_ms);
}

/* ---- the deadline ---- */

/* Every signal that can be ignored. */
static void go_deaf(void) {
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number != SIGCHLD) signal(number, SIG_IGN);
    }
}

ATTACK(oversleep) {
    sleep_ms(number(args[0]));
    return escaped("slept for %s ms", args[0]);
}

ATTACK(oversleep_deaf) {
    go_deaf();
    return oversleep(args);
}

/* Stops itself; a deaf child would let it go on after MS. */
ATTACK(oversleep_stopped) {
    pid_t self = getpid(), child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child == 0) {
        go_deaf();
        sleep_ms(number(args[0]));
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(child, NULL, 0);
    return escaped("stood still for %s ms", args[0]);
}

/* ---- the end of the run: whether anybody outlives it, only others can see, by the lock on the file `alive` ---- */

static void leave_streams(void) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
}

static int leave_behind(void (*child_does)(void)) {
    int alive = open("alive", O_RDWR | O_CREAT, 0600);
    if (alive < 0 || flock(alive, LOCK_EX | LOCK_NB) != 0) return untried("alive: %s", strerrorname_np(errno));
    pid_t child = fork();
    if (child < 0) return untried("fork: %s", strerrorname_np(errno));
    if (child > 0) {
        printf("left %d behind\n", child);
        return ESCAPED;
    }
    child_does();
    sleep_ms(LIFETIME_S * 1000);
    _exit(0);
}

static void become_daemon(void) {
    setsid();
    if (fork() != 0) _exit(0);
    leave_streams();
}

static void become_deaf(void) {
    setsid();
    leave_streams();
    go_deaf();
}

static void become_stopped(void) {
    leave_streams();
    /* In the session of its parent it would be sent SIGHUP at its parent's end. */
    setsid();
    raise(SIGSTOP);
}

/* Every process lives for a moment and is replaced by its child, so that nobody can be found and ended by its id. */
static void become_a_chain(void) {
    leave_streams();
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
    return leave_behind(become_deaf);
}

ATTACK(outlive_stopped) {
    (void)args;
    return leave_behind(become_stopped);
}

ATTACK(outlive_holding_output) {
    (void)args;
    return leave_behind(go_deaf);
}

ATTACK(outlive_by_forking) {
    (void)args;
    return leave_behind(become_a_chain);
}

/* A core file in the working directory, or wherever the host's pattern sends it. */
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
