//! Calls that the filter refuses, and calls that it allows.

use libc::c_long;

const NO: c_long = -1;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const CLONE_NEWTIME: c_long = 0x80;
const PER_LINUX32: c_long = 8;
const S_IFCHR: c_long = 0o020_000;
const S_IFBLK: c_long = 0o060_000;
const S_IFIFO: c_long = 0o010_000;
const S_IFREG: c_long = 0o100_000;
const SET_UID: c_long = 0o4_755;
const SET_GID: c_long = 0o2_755;
const SET_BOTH: c_long = 0o6_755;
const STICKY: c_long = 0o1_777;
const CREATE: c_long = libc::O_CREAT as c_long | libc::O_WRONLY as c_long;
const NAMELESS: c_long = libc::O_TMPFILE as c_long | libc::O_RDWR as c_long;
const TIOCSTI: c_long = 0x5412;
const TIOCGWINSZ: c_long = 0x5413;
const TIOCLINUX: c_long = 0x541c;
const TIOCSETD: c_long = 0x5423;
/// Bits above those that the kernel reads.
const HIGH: c_long = 1 << 32;
const KEEP_SIZE: c_long = libc::FALLOC_FL_KEEP_SIZE as c_long;
const SOCKET: c_long = libc::SOL_SOCKET as c_long;
const TCP: c_long = libc::IPPROTO_TCP as c_long;
const TCP_MD5SIG: c_long = 14;
const TCP_MD5SIG_EXT: c_long = 32;
const TCP_AO_ADD_KEY: c_long = 38;
const F_OFD_GETLK: c_long = 36;
const F_OFD_SETLK: c_long = 37;
const F_OFD_SETLKW: c_long = 38;
const ANONYMOUS: c_long = (libc::MAP_ANONYMOUS | libc::MAP_PRIVATE) as c_long;
const CORE: c_long = libc::RLIMIT_CORE as c_long;
const CHILD_SIGNAL: c_long = libc::SIGCHLD as c_long;

/// Calls that root may make, if with wrong arguments, and the filter refuses. None would change anything that outlives
/// the child.
pub(crate) const REFUSED: &[(c_long, [c_long; 5])] = &[
    (libc::SYS_clone, [libc::CLONE_NEWUSER as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [libc::CLONE_NEWNS as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [libc::CLONE_NEWCGROUP as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [libc::CLONE_NEWUTS as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [libc::CLONE_NEWIPC as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [libc::CLONE_NEWPID as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [libc::CLONE_NEWNET as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [HIGH | libc::CLONE_NEWUSER as c_long | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWUSER as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWNS as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWCGROUP as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWUTS as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWIPC as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWPID as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_NEWNET as c_long, 0, 0, 0, 0]),
    (libc::SYS_unshare, [CLONE_NEWTIME, 0, 0, 0, 0]),
    (libc::SYS_setns, [NO, 0, 0, 0, 0]),
    (libc::SYS_clone3, [0; 5]),
    (libc::SYS_mount, [0; 5]),
    (libc::SYS_umount2, [0; 5]),
    (libc::SYS_pivot_root, [0; 5]),
    (libc::SYS_chroot, [0; 5]),
    (libc::SYS_fsopen, [0; 5]),
    (libc::SYS_fsconfig, [NO, 0, 0, 0, 0]),
    (libc::SYS_fsmount, [NO, 0, 0, 0, 0]),
    (libc::SYS_fspick, [NO, 0, 0, 0, 0]),
    (libc::SYS_open_tree, [NO, 0, 0, 0, 0]),
    (SYS_OPEN_TREE_ATTR, [NO, 0, 0, 0, 0]),
    (libc::SYS_move_mount, [NO, 0, NO, 0, 0]),
    (libc::SYS_mount_setattr, [NO, 0, 0, 0, 0]),
    (libc::SYS_open_by_handle_at, [NO, 0, 0, 0, 0]),
    (libc::SYS_sync, [0; 5]),
    (libc::SYS_syncfs, [NO, 0, 0, 0, 0]),
    (libc::SYS_fallocate, [NO, 0, 0, 1, 0]),
    (libc::SYS_fallocate, [NO, HIGH, 0, 1, 0]),
    (libc::SYS_fallocate, [NO, KEEP_SIZE, 0, 1, 0]),
    (libc::SYS_fallocate, [NO, libc::FALLOC_FL_ZERO_RANGE as c_long | KEEP_SIZE, 0, 1, 0]),
    (libc::SYS_fallocate, [NO, libc::FALLOC_FL_INSERT_RANGE as c_long, 0, 1, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, [0, S_IFCHR | 0o600, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, [0, HIGH | S_IFBLK | 0o600, 0, 0, 0]),
    (libc::SYS_mknodat, [NO, 0, S_IFCHR, 0, 0]),
    (libc::SYS_mknodat, [NO, 0, S_IFBLK, 0, 0]),
    (libc::SYS_add_key, [0; 5]),
    (libc::SYS_request_key, [0; 5]),
    (libc::SYS_keyctl, [9_999, 0, 0, 0, 0]),
    (libc::SYS_bpf, [NO, 0, 0, 0, 0]),
    (libc::SYS_init_module, [0; 5]),
    (libc::SYS_finit_module, [NO, 0, 0, 0, 0]),
    (libc::SYS_delete_module, [0; 5]),
    (libc::SYS_kexec_load, [0, 0, 0, NO, 0]),
    (libc::SYS_kexec_file_load, [NO, NO, 0, 0, NO]),
    (libc::SYS_io_uring_setup, [0; 5]),
    (libc::SYS_io_uring_enter, [NO, 0, 0, 0, 0]),
    (libc::SYS_io_uring_register, [NO, 0, 0, 0, 0]),
    (libc::SYS_userfaultfd, [NO, 0, 0, 0, 0]),
    (libc::SYS_perf_event_open, [0; 5]),
    (libc::SYS_lookup_dcookie, [0; 5]),
    (libc::SYS_syslog, [10, 0, 0, 0, 0]),
    (libc::SYS_fanotify_init, [NO, 0, 0, 0, 0]),
    (libc::SYS_pidfd_getfd, [NO, NO, 0, 0, 0]),
    (libc::SYS_kcmp, [0, 0, 9, 0, 0]),
    (libc::SYS_io_setup, [0; 5]),
    (libc::SYS_setsockopt, [NO, SOCKET, libc::SO_ATTACH_FILTER as c_long, 0, 0]),
    (libc::SYS_setsockopt, [NO, HIGH | SOCKET, HIGH | libc::SO_ATTACH_BPF as c_long, 0, 0]),
    (libc::SYS_setsockopt, [NO, SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF as c_long, 0, 0]),
    (libc::SYS_setsockopt, [NO, SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF as c_long, 0, 0]),
    (libc::SYS_setsockopt, [NO, TCP, TCP_MD5SIG, 0, 0]),
    (libc::SYS_setsockopt, [NO, HIGH | TCP, HIGH | TCP_MD5SIG_EXT, 0, 0]),
    (libc::SYS_setsockopt, [NO, TCP, TCP_AO_ADD_KEY, 0, 0]),
    (libc::SYS_mbind, [0; 5]),
    (libc::SYS_fcntl, [NO, F_OFD_GETLK, 0, 0, 0]),
    (libc::SYS_fcntl, [NO, F_OFD_SETLK, 0, 0, 0]),
    (libc::SYS_fcntl, [NO, HIGH | F_OFD_SETLKW, 0, 0, 0]),
    (libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_FILTER as c_long, 0, 0, 0, 0]),
    (libc::SYS_prctl, [libc::PR_SET_SECCOMP as c_long, libc::SECCOMP_MODE_FILTER as c_long, 0, 0, 0]),
    (libc::SYS_mmap, [0, 0, 0, ANONYMOUS | libc::MAP_HUGETLB as c_long, NO]),
    (libc::SYS_shmget, [0, 0, libc::SHM_HUGETLB as c_long, 0, 0]),
    (libc::SYS_memfd_create, [0, libc::MFD_HUGETLB as c_long, 0, 0, 0]),
    (libc::SYS_setrlimit, [CORE, 0, 0, 0, 0]),
    (libc::SYS_prlimit64, [0, CORE, 8, 0, 0]),
    (libc::SYS_prlimit64, [0, CORE, HIGH, 0, 0]),
    (libc::SYS_memfd_secret, [NO, 0, 0, 0, 0]),
    (libc::SYS_move_pages, [0; 5]),
    (libc::SYS_migrate_pages, [0; 5]),
    (libc::SYS_sched_setattr, [0; 5]),
    (libc::SYS_settimeofday, [0; 5]),
    (libc::SYS_clock_settime, [9_999, 0, 0, 0, 0]),
    (libc::SYS_adjtimex, [0; 5]),
    (libc::SYS_clock_adjtime, [9_999, 0, 0, 0, 0]),
    (libc::SYS_swapon, [0; 5]),
    (libc::SYS_swapoff, [0; 5]),
    (libc::SYS_quotactl, [0; 5]),
    (libc::SYS_quotactl_fd, [NO, 0, 0, 0, 0]),
    // A null path would switch accounting off.
    (libc::SYS_acct, [1, 0, 0, 0, 0]),
    (libc::SYS_reboot, [0; 5]),
    (libc::SYS_sethostname, [0, NO, 0, 0, 0]),
    (libc::SYS_setdomainname, [0, NO, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, [4, 0, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, [0, 0, 1, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, [9, 0, 0, 0, 0]),
    (libc::SYS_personality, [libc::READ_IMPLIES_EXEC as c_long, 0, 0, 0, 0]),
    (libc::SYS_personality, [libc::ADDR_COMPAT_LAYOUT as c_long | libc::ADDR_NO_RANDOMIZE as c_long, 0, 0, 0, 0]),
    (libc::SYS_personality, [HIGH | PER_LINUX32, 0, 0, 0, 0]),
    (libc::SYS_ioctl, [NO, TIOCSTI, 0, 0, 0]),
    (libc::SYS_ioctl, [NO, HIGH | TIOCSTI, 0, 0, 0]),
    (libc::SYS_ioctl, [NO, TIOCLINUX, 0, 0, 0]),
    (libc::SYS_ioctl, [NO, TIOCSETD, 0, 0, 0]),
    (libc::SYS_vhangup, [0; 5]),
    (libc::SYS_socket, [libc::AF_PACKET as c_long, libc::SOCK_RAW as c_long, 0, 0, 0]),
    (libc::SYS_socket, [HIGH | libc::AF_PACKET as c_long, libc::SOCK_RAW as c_long, 0, 0, 0]),
    (libc::SYS_socketpair, [libc::AF_PACKET as c_long, libc::SOCK_RAW as c_long, 0, 0, 0]),
    (libc::SYS_socket, [libc::AF_NETLINK as c_long, libc::SOCK_RAW as c_long, libc::NETLINK_GENERIC as c_long, 0, 0]),
    (libc::SYS_socket, [libc::AF_NETLINK as c_long, libc::SOCK_RAW as c_long, libc::NETLINK_AUDIT as c_long, 0, 0]),
];

/// Allowed calls that resemble a refused one, or that tests are known to need.
pub(crate) const ALLOWED: &[(c_long, [c_long; 5])] = &[
    (libc::SYS_clone, [CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_clone, [CLONE_NEWTIME | CHILD_SIGNAL, 0, 0, 0, 0]),
    (libc::SYS_unshare, [libc::CLONE_FILES as c_long | libc::CLONE_FS as c_long, 0, 0, 0, 0]),
    (libc::SYS_fallocate, [NO, libc::FALLOC_FL_PUNCH_HOLE as c_long | KEEP_SIZE, 0, 1, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, [0, S_IFIFO | 0o600, 0, 0, 0]),
    (libc::SYS_mknodat, [NO, 0, S_IFIFO, 0, 0]),
    (libc::SYS_personality, [0; 5]),
    (libc::SYS_personality, [libc::ADDR_NO_RANDOMIZE as c_long, 0, 0, 0, 0]),
    (libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0]),
    (libc::SYS_ioctl, [NO, TIOCGWINSZ, 0, 0, 0]),
    (libc::SYS_socket, [libc::AF_UNIX as c_long, libc::SOCK_STREAM as c_long, 0, 0, 0]),
    (libc::SYS_socket, [libc::AF_INET as c_long, libc::SOCK_DGRAM as c_long, 0, 0, 0]),
    (libc::SYS_socket, [libc::AF_INET6 as c_long, libc::SOCK_STREAM as c_long, 0, 0, 0]),
    (libc::SYS_socket, [libc::AF_NETLINK as c_long, libc::SOCK_RAW as c_long, libc::NETLINK_ROUTE as c_long, 0, 0]),
    (libc::SYS_socketpair, [libc::AF_UNIX as c_long, libc::SOCK_STREAM as c_long, 0, 0, 0]),
    (libc::SYS_ptrace, [libc::PTRACE_TRACEME as c_long, 0, 0, 0, 0]),
    (libc::SYS_process_vm_readv, [0; 5]),
    (libc::SYS_name_to_handle_at, [NO, 0, 0, 0, 0]),
    (libc::SYS_memfd_create, [0; 5]),
    (libc::SYS_setsockopt, [NO, SOCKET, libc::SO_DETACH_FILTER as c_long, 0, 0]),
    (libc::SYS_setsockopt, [NO, TCP, libc::SO_ATTACH_FILTER as c_long, 0, 0]),
    (libc::SYS_setsockopt, [NO, SOCKET, TCP_MD5SIG, 0, 0]),
    (libc::SYS_fcntl, [NO, libc::F_SETLK as c_long, 0, 0, 0]),
    // Asks which actions the kernel supports.
    (libc::SYS_seccomp, [2, 0, 0, 0, 0]),
    (libc::SYS_prctl, [libc::PR_SET_DUMPABLE as c_long, 0, 0, 0, 0]),
    (libc::SYS_mmap, [0, 0, 0, ANONYMOUS, NO]),
    (libc::SYS_shmget, [0, 0, 0, 0, 0]),
    (libc::SYS_setrlimit, [libc::RLIMIT_NOFILE as c_long, 0, 0, 0, 0]),
    (libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as c_long, 8, 0, 0]),
    (libc::SYS_prlimit64, [0, CORE, 0, 0, 0]),
    (libc::SYS_inotify_init1, [0; 5]),
    (libc::SYS_membarrier, [0; 5]),
    (libc::SYS_copy_file_range, [NO, 0, NO, 0, 0]),
    (libc::SYS_flock, [NO, 0, 0, 0, 0]),
    // A call that a tracer has cancelled.
    (-1, [0; 5]),
];

/// Calls that are refused only with [`SetId::Denied`](crate::seccomp::SetId).
pub(crate) const REFUSED_SET_ID: &[(c_long, [c_long; 5])] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, [0, SET_UID, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, [0, SET_GID, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, [0, HIGH | 0xffff_0000 | SET_UID, 0, 0, 0]),
    (libc::SYS_fchmod, [NO, SET_UID, 0, 0, 0]),
    (libc::SYS_fchmod, [NO, SET_GID, 0, 0, 0]),
    (libc::SYS_fchmodat, [NO, 0, SET_UID, 0, 0]),
    (libc::SYS_fchmodat, [NO, 0, HIGH | SET_GID, 0, 0]),
    (libc::SYS_fchmodat2, [NO, 0, SET_UID, 0, 0]),
    (libc::SYS_fchmodat2, [NO, 0, SET_GID, libc::AT_SYMLINK_NOFOLLOW as c_long, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, [0, SET_BOTH, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, [0, CREATE, SET_UID, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, [0, NAMELESS, SET_GID, 0, 0]),
    (libc::SYS_openat, [NO, 0, CREATE, SET_UID, 0]),
    (libc::SYS_openat, [NO, 0, HIGH | CREATE, HIGH | SET_GID, 0]),
    (libc::SYS_openat, [NO, 0, NAMELESS, SET_UID, 0]),
    (libc::SYS_openat2, [NO, 0, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, [0, S_IFREG | SET_UID, 0, 0, 0]),
    (libc::SYS_mknodat, [NO, 0, S_IFREG | SET_UID, 0, 0]),
    (libc::SYS_mknodat, [NO, 0, SET_GID, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, [0, SET_GID, 0, 0, 0]),
    (libc::SYS_mkdirat, [NO, 0, SET_GID, 0, 0]),
];

/// Allowed calls that resemble one of those.
pub(crate) const ALLOWED_WITHOUT_SET_ID: &[(c_long, [c_long; 5])] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, [0, STICKY, 0, 0, 0]),
    (libc::SYS_fchmod, [NO, STICKY, 0, 0, 0]),
    // Bits in the position where a similar call has its mode.
    (libc::SYS_fchmod, [NO, 0o755, SET_UID, 0, 0]),
    (libc::SYS_fchmodat, [NO, SET_UID, STICKY, 0, 0]),
    (libc::SYS_fchmodat2, [NO, SET_UID, STICKY, SET_UID, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, [0, STICKY, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, [0, CREATE, STICKY, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, [0, libc::O_DIRECTORY as c_long, SET_BOTH, 0, 0]),
    (libc::SYS_openat, [NO, 0, CREATE, STICKY, 0]),
    (libc::SYS_openat, [NO, 0, NAMELESS, STICKY, 0]),
    (libc::SYS_openat, [NO, 0, libc::O_DIRECTORY as c_long, SET_BOTH, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, [0, S_IFREG | STICKY, 0, 0, 0]),
    (libc::SYS_mknodat, [NO, 0, S_IFIFO | STICKY, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, [0, STICKY, 0, 0, 0]),
    (libc::SYS_mkdirat, [NO, 0, STICKY, 0, 0]),
];
