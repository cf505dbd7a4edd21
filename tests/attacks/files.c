/* Attacks on files: the host's, other tenants', devices, cgroups, and what was inherited. Must not change a file that
 * the suite has not made. */
#define _GNU_SOURCE
#include "attack.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

/* The first bytes of a file that can be read; -1 with errno. */
static ssize_t first_bytes(const char *path, char *bytes, size_t size) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t length = read(fd, bytes, size - 1);
    int error = errno;
    close(fd);
    errno = error;
    if (length >= 0) bytes[length] = '\0';
    return length;
}

/* Whether `path` holds a secret of the host, which is then told. */
static int is_canary(const char *path) {
    char bytes[64];
    if (first_bytes(path, bytes, sizeof bytes) < 0 || strncmp(bytes, CANARY, strlen(CANARY)) != 0) return 0;
    bytes[strcspn(bytes, "\n")] = '\0';
    escaped("%s is %s", path, bytes);
    return 1;
}

ATTACK(read_file) {
    errno = 0;
    if (is_canary(args[0])) return ESCAPED;
    return errno == 0 ? held("%s is another file", args[0]) : judge("open", -1, 0);
}

/* Calls `look` with every process that /proc shows, until it says yes. */
static int each_process(int (*look)(const char *pid, char **args), char **args) {
    DIR *proc = opendir("/proc");
    if (proc == NULL) return held("opendir /proc: %s", strerrorname_np(errno));
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        seen++;
        if (look(entry->d_name, args)) {
            closedir(proc);
            return ESCAPED;
        }
    }
    closedir(proc);
    return held("%d processes seen, and nothing through them", seen);
}

static int reads_below(const char *pid, char **args) {
    char path[4096];
    snprintf(path, sizeof path, "/proc/%s/%s/%s", pid, args[0], args[1]);
    return is_canary(path);
}

/* `root PATH` or `cwd PATH`: through the magic links of every process. */
ATTACK(read_below_proc) { return each_process(reads_below, args); }

static int reads_descriptors(const char *pid, char **args) {
    (void)args;
    for (int fd = 0; fd < 32; fd++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/fd/%d", pid, fd);
        struct stat file;
        if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && is_canary(path)) return 1;
    }
    return 0;
}

ATTACK(read_file_descriptors) { return each_process(reads_descriptors, args); }

static int reads_environment(const char *pid, char **args) {
    (void)args;
    char path[64], bytes[65536];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    ssize_t length = first_bytes(path, bytes, sizeof bytes);
    char *found = length > 0 ? memmem(bytes, (size_t)length, CANARY, strlen(CANARY)) : NULL;
    if (found != NULL) escaped("%s has %s", path, found);
    return found != NULL;
}

ATTACK(read_environments) { return each_process(reads_environment, args); }

ATTACK(write_file) {
    int fd = open(args[0], O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return judge("open for writing", -1, 0);
    return judge("write", write_all(fd, "harmed\n", 7), 0);
}

ATTACK(make_file) { return judge("creat", open(args[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), 0); }

/* In the workspace, whose owner then lends who he is to whoever executes it: born as one, or made one. */
ATTACK(make_set_id_file) {
    (void)args;
    if (open("born", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 04755) >= 0) return escaped("a file was born set-id");
    int fd = open("made", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd < 0) return judge("creat", fd, 0);
    return judge("fchmod", fchmod(fd, 04755), 0);
}

/* `r PATH` or `w PATH`: for files of the kernel where opening is proof enough and anything more would do harm. */
ATTACK(open_only) {
    int how = args[0][0] == 'w' ? O_WRONLY : O_RDONLY;
    int fd = open(args[1], how | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 && errno == ENOENT ? absent("there is no %s", args[1]) : judge(args[1], fd, 0);
}

ATTACK(open_block_device) {
    (void)args;
    DIR *dev = opendir("/dev");
    if (dev == NULL) return held("opendir /dev: %s", strerrorname_np(errno));
    struct stat found;
    for (struct dirent *entry; (entry = readdir(dev)) != NULL;) {
        if (fstatat(dirfd(dev), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISBLK(found.st_mode)) continue;
        if (openat(dirfd(dev), entry->d_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC) >= 0) {
            return escaped("/dev/%s can be read", entry->d_name);
        }
    }
    closedir(dev);
    return held("no block device can be opened");
}

/* Anything in /dev that no test needs. */
ATTACK(odd_devices) {
    static const char *const minimal = " null zero full random urandom tty ptmx pts shm mqueue fd stdin stdout stderr ";
    (void)args;
    DIR *dev = opendir("/dev");
    if (dev == NULL) return held("opendir /dev: %s", strerrorname_np(errno));
    for (struct dirent *entry; (entry = readdir(dev)) != NULL;) {
        char word[300];
        snprintf(word, sizeof word, " %s ", entry->d_name);
        if (entry->d_name[0] != '.' && strstr(minimal, word) == NULL) return escaped("there is /dev/%s", entry->d_name);
    }
    closedir(dev);
    return held("/dev is minimal");
}

ATTACK(leaked_descriptors) {
    (void)args;
    struct stat in;
    if (fstat(0, &in) != 0) return untried("stdin: %s", strerrorname_np(errno));
    if (!S_ISCHR(in.st_mode) || in.st_rdev != makedev(1, 3)) return escaped("stdin is not /dev/null");
    for (int fd = 3; fd < 65536; fd++) {
        if (fcntl(fd, F_GETFD) < 0) continue;
        char link[32], path[256] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        return readlink(link, path, sizeof path - 1) < 0 ? escaped("descriptor %d is open", fd)
                                                         : escaped("descriptor %d is %s", fd, path);
    }
    return held("nothing but the three streams is open");
}

/* `MARK`: any variable but MARK is one that was not meant for the run. */
ATTACK(environment) {
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");
        if (strlen(args[0]) != length || strncmp(*variable, args[0], length) != 0) {
            return escaped("there is %.*s", (int)length, *variable);
        }
    }
    return held("only %s is there", args[0]);
}

/* `PROGRAM FILE`: a copy of this program that somebody has given privilege reads FILE. */
ATTACK(run_program) {
    execl(args[0], args[0], "read_file", args[1], (char *)NULL);
    return judge("execve", -1, 0);
}

/* The classic way out of a root that was only changed: stay outside of a second one, and climb. */
ATTACK(chroot_and_climb) {
    if (chroot("point") != 0) return judge("chroot", -1, 0);
    for (int depth = 0; depth < 64; depth++) {
        if (chdir("..") != 0) return untried("chdir: %s", strerrorname_np(errno));
    }
    if (chroot(".") != 0) return untried("the second chroot: %s", strerrorname_np(errno));
    return read_file(args);
}

ATTACK(open_by_handle) {
    (void)args;
    union {
        struct file_handle handle;
        char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } of = {.handle.handle_bytes = MAX_HANDLE_SZ};
    int mount, here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0) return untried("open .: %s", strerrorname_np(errno));
    if (name_to_handle_at(here, "", &of.handle, &mount, AT_EMPTY_PATH) != 0) {
        if (errno == EPERM || errno == ENOSYS) return judge("name_to_handle_at", -1, 0);
        return untried("name_to_handle_at: %s", strerrorname_np(errno));
    }
    return judge("open_by_handle_at", open_by_handle_at(here, &of.handle, O_RDONLY | O_CLOEXEC), 0);
}

/* Opens for writing any of `names` in the own group of any hierarchy that is mounted, or above it. */
static int opens_in_own_group(const char *const *names) {
    FILE *mounts = fopen("/proc/self/mountinfo", "re"), *groups = fopen("/proc/self/cgroup", "re");
    if (mounts == NULL || groups == NULL) return held("/proc/self cannot be read");
    char mount[4096], group[4096], point[1024];
    int hierarchies = 0;
    while (fgets(mount, sizeof mount, mounts) != NULL) {
        if (strstr(mount, " - cgroup") == NULL || sscanf(mount, "%*s %*s %*s %*s %1023s", point) != 1) continue;
        hierarchies++;
        rewind(groups);
        while (fgets(group, sizeof group, groups) != NULL) {
            char *own = strchr(group, '/');
            if (own == NULL) continue;
            own[strcspn(own, "\n")] = '\0';
            for (const char *const *name = names; *name != NULL; name++) {
                char path[8192];
                snprintf(path, sizeof path, "%s%s/%s", point, own, *name);
                if (open(path, O_WRONLY | O_CLOEXEC) >= 0) return escaped("%s can be written", path);
                snprintf(path, sizeof path, "%s/%s", point, *name);
                if (open(path, O_WRONLY | O_CLOEXEC) >= 0) return escaped("%s can be written", path);
            }
        }
    }
    return held("%d hierarchies seen, and nothing to be written in them", hierarchies);
}

ATTACK(cgroup_limits) {
    (void)args;
    static const char *const names[] = {"memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", NULL};
    return opens_in_own_group(names);
}

ATTACK(cgroup_procs) {
    (void)args;
    static const char *const names[] = {"cgroup.procs", "tasks", NULL};
    return opens_in_own_group(names);
}

ATTACK(release_agent) {
    (void)args;
    static const char *const names[] = {"release_agent", NULL};
    char groups[4096];
    ssize_t length = first_bytes("/proc/self/cgroup", groups, sizeof groups);
    if (length > 0 && strncmp(groups, "0::", 3) == 0) return absent("there is no v1 hierarchy");
    return opens_in_own_group(names);
}

/* Not an attack: lets FILE read everything, for the attack that executes it. */
ATTACK(grant_file_capability) {
    struct vfs_cap_data grant = {
        .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
        .data[0].permitted = 1U << CAP_DAC_OVERRIDE,
    };
    return judge("setxattr", setxattr(args[0], "security.capability", &grant, sizeof grant, 0), 0);
}
