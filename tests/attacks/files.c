/* Attacks on files: those of the host and of other tenants, devices, cgroups, and inherited descriptors. They change
 * only files that the suite created. */
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

/* Reads the first bytes of a file; returns -1 and sets errno on failure. */
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

/* Returns 1 and reports an escape if `path` holds a secret of the host. */
static int report_canary(const char *path) {
    char bytes[64];
    if (first_bytes(path, bytes, sizeof bytes) < 0 || strncmp(bytes, CANARY, strlen(CANARY)) != 0) return 0;
    bytes[strcspn(bytes, "\n")] = '\0';
    escaped("%s is %s", path, bytes);
    return 1;
}

ATTACK(read_file) {
    errno = 0;
    if (report_canary(args[0])) return ESCAPED;
    return errno == 0 ? held("%s is another file", args[0]) : judge("open", -1, 0);
}

/* Calls `probe` for every process in /proc until it returns true. */
static int each_process(int (*probe)(const char *pid, char **args), char **args) {
    DIR *proc = opendir("/proc");
    if (proc == NULL) return held("opendir /proc: %s", strerrorname_np(errno));
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        seen++;
        if (probe(entry->d_name, args)) {
            closedir(proc);
            return ESCAPED;
        }
    }
    closedir(proc);
    return held("%d processes seen, none gives access", seen);
}

static int read_below(const char *pid, char **args) {
    char path[4096];
    snprintf(path, sizeof path, "/proc/%s/%s/%s", pid, args[0], args[1]);
    return report_canary(path);
}

/* `root PATH` or `cwd PATH`: through the magic links of every process. */
ATTACK(read_below_proc) { return each_process(read_below, args); }

static int read_descriptors(const char *pid, char **args) {
    (void)args;
    for (int fd = 0; fd < 32; fd++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/fd/%d", pid, fd);
        struct stat file;
        if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && report_canary(path)) return 1;
    }
    return 0;
}

ATTACK(read_file_descriptors) { return each_process(read_descriptors, args); }

static int read_environment(const char *pid, char **args) {
    (void)args;
    char path[64], bytes[65536];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    ssize_t length = first_bytes(path, bytes, sizeof bytes);
    char *found = length > 0 ? memmem(bytes, (size_t)length, CANARY, strlen(CANARY)) : NULL;
    if (found != NULL) escaped("%s has %s", path, found);
    return found != NULL;
}

ATTACK(read_environments) { return each_process(read_environment, args); }

ATTACK(write_file) {
    int fd = open(args[0], O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return judge("open for writing", -1, 0);
    return judge("write", write_all(fd, "harmed\n", 7), 0);
}

ATTACK(make_file) { return judge("creat", open(args[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), 0); }

/* A set-id file in the workspace runs with the identity of the workspace's owner. Tries both to create one and to turn
 * a file into one. */
ATTACK(make_set_id_file) {
    (void)args;
    int fd = open("created_set_id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 04755);
    if (fd >= 0) return escaped("a set-id file was created");
    fd = open("changed_set_id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd < 0) return judge("creat", fd, 0);
    return judge("fchmod", fchmod(fd, 04755), 0);
}

/* `r PATH` or `w PATH`: for kernel files. Opening them is proof enough, and anything more would do harm. */
ATTACK(open_only) {
    int mode = args[0][0] == 'w' ? O_WRONLY : O_RDONLY;
    int fd = open(args[1], mode | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 && errno == ENOENT ? absent("%s does not exist", args[1]) : judge(args[1], fd, 0);
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

/* Finds a file in /dev that tests do not need. */
ATTACK(odd_devices) {
    static const char *const minimal = " null zero full random urandom tty ptmx pts shm mqueue fd stdin stdout stderr ";
    (void)args;
    DIR *dev = opendir("/dev");
    if (dev == NULL) return held("opendir /dev: %s", strerrorname_np(errno));
    for (struct dirent *entry; (entry = readdir(dev)) != NULL;) {
        char word[300];
        snprintf(word, sizeof word, " %s ", entry->d_name);
        if (entry->d_name[0] != '.' && strstr(minimal, word) == NULL) return escaped("/dev/%s exists", entry->d_name);
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
    return held("only the three standard streams are open");
}

/* `MARK`: finds a variable other than MARK, which is the only one that the run was given. */
ATTACK(environment) {
    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");
        if (strlen(args[0]) != length || strncmp(*variable, args[0], length) != 0) {
            return escaped("%.*s is set", (int)length, *variable);
        }
    }
    return held("only %s is set", args[0]);
}

/* `PROGRAM FILE`: reads FILE through PROGRAM, a copy of this program that carries a privilege. */
ATTACK(run_program) {
    execl(args[0], args[0], "read_file", args[1], (char *)NULL);
    return judge("execve", -1, 0);
}

/* The classic way out of a chroot: keep the working directory outside a second chroot, and go up. */
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
    } file = {.handle.handle_bytes = MAX_HANDLE_SZ};
    int mount, here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (here < 0) return untried("open .: %s", strerrorname_np(errno));
    if (name_to_handle_at(here, "", &file.handle, &mount, AT_EMPTY_PATH) != 0) {
        if (errno == EPERM || errno == ENOSYS) return judge("name_to_handle_at", -1, 0);
        return untried("name_to_handle_at: %s", strerrorname_np(errno));
    }
    return judge("open_by_handle_at", open_by_handle_at(here, &file.handle, O_RDONLY | O_CLOEXEC), 0);
}

/* Opens any of `names` for writing, in the own group of each mounted hierarchy and in its root. */
static int open_in_own_group(const char *const *names) {
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
    return held("%d hierarchies seen, nothing writable in them", hierarchies);
}

ATTACK(cgroup_limits) {
    (void)args;
    static const char *const names[] = {"memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", NULL};
    return open_in_own_group(names);
}

ATTACK(cgroup_procs) {
    (void)args;
    static const char *const names[] = {"cgroup.procs", "tasks", NULL};
    return open_in_own_group(names);
}

ATTACK(release_agent) {
    (void)args;
    static const char *const names[] = {"release_agent", NULL};
    char groups[4096];
    ssize_t length = first_bytes("/proc/self/cgroup", groups, sizeof groups);
    if (length > 0 && strncmp(groups, "0::", 3) == 0) return absent("no v1 hierarchy is mounted");
    return open_in_own_group(names);
}

/* Not an attack: gives FILE the capability to read everything, for `run_program`. */
ATTACK(grant_file_capability) {
    struct vfs_cap_data grant = {
        .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
        .data[0].permitted = 1U << CAP_DAC_OVERRIDE,
    };
    return judge("setxattr", setxattr(args[0], "security.capability", &grant, sizeof grant, 0), 0);
}
