//! The system calls that a run may not make, as two tables, and their translation into a BPF program. Read [`RULES`]
//! from top to bottom, then [`SET_ID_RULES`].
//!
//! Tests need much of the kernel, so dangerous calls are denied and the rest is allowed. Every denied call is also
//! denied by a missing capability or a namespace, or belongs to a part of the kernel that is attacked often and tested
//! rarely. Set-id bits are the exception: only this filter keeps them out of the files that a run leaves behind.
//!
//! `ptrace` and `process_vm_*` are allowed: debuggers and leak checkers need them, and a process reaches only processes
//! of its own run. Others are in another pid namespace and outside of the Landlock domain; init makes itself
//! untraceable here ([`Filter::install`]); and a tracer cannot change a call after the filter, which runs after the
//! tracer.
//!
//! The compiler is our own since seccompiler 0.5 matches only the numbers that it is given, not all from x32's first on
//! which must kill, and has one answer per filter, so that each errno of the tables would need a filter of its own.

use libc::{c_int, c_long, sock_fprog};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{SecureComputingMode, secure_computing_mode};
use std::collections::BTreeMap;
use std::io;

/// System calls that are denied if all checks of their arguments hold.
pub(super) struct FilterRule {
    pub(super) calls: &'static [c_long],
    checks: &'static [ArgCheck],
    pub(super) errno: c_int,
}

/// A condition on one half of an argument. The kernel takes nearly all arguments that are checked here as 32 bits wide,
/// so the bits above them must not matter.
struct ArgCheck {
    arg: u8,
    /// Offset of the half in the argument, bytes: 0, or 4 for the upper half.
    offset: u8,
    mask: u32,
    /// Whether the masked argument must be one of `values`, or none of them.
    is_one_of: bool,
    values: &'static [u32],
}

const fn deny(calls: &'static [c_long]) -> FilterRule {
    deny_when(calls, &[])
}

const fn deny_when(calls: &'static [c_long], checks: &'static [ArgCheck]) -> FilterRule {
    FilterRule { calls, checks, errno: libc::EPERM }
}

const fn one_of(arg: u8, values: &'static [u32]) -> ArgCheck {
    ArgCheck { arg, offset: 0, mask: u32::MAX, is_one_of: true, values }
}

const fn none_of(arg: u8, values: &'static [u32]) -> ArgCheck {
    ArgCheck { is_one_of: false, ..one_of(arg, values) }
}

/// The argument's upper half is not zero.
const fn upper_half(arg: u8) -> ArgCheck {
    ArgCheck { offset: 4, ..none_of(arg, &[0]) }
}

const fn any_bit(arg: u8, mask: u32) -> ArgCheck {
    ArgCheck { mask, ..none_of(arg, &[0]) }
}

const fn no_bit(arg: u8, mask: u32) -> ArgCheck {
    ArgCheck { mask, ..one_of(arg, &[0]) }
}

const fn is_device(arg: u8) -> ArgCheck {
    ArgCheck { mask: libc::S_IFMT, ..one_of(arg, &[libc::S_IFCHR, libc::S_IFBLK]) }
}

/// Flags of every kind of namespace that `clone` makes. In `clone`'s flags the bit of time namespaces is part of a
/// signal number.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .unsigned_abs();
const TIME_NAMESPACE: u32 = 0x80;

/// Since Linux 6.15.
const SYS_OPEN_TREE_ATTR: c_long = 467;

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const TIOCSETD: u32 = 0x5423;

const UNIX: u32 = libc::AF_UNIX.unsigned_abs();
const INET: u32 = libc::AF_INET.unsigned_abs();
const INET6: u32 = libc::AF_INET6.unsigned_abs();
const NETLINK: u32 = libc::AF_NETLINK.unsigned_abs();
const ROUTE: u32 = libc::NETLINK_ROUTE.unsigned_abs();

const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE.unsigned_abs();

const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Flags with which `open` creates a file. The flag for a nameless file includes the bit of `O_DIRECTORY`, which is
/// removed here.
const MAKES_FILE: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs();

const CORE: u32 = libc::RLIMIT_CORE;

const SOCKET: u32 = libc::SOL_SOCKET.unsigned_abs();
const ATTACHES_FILTER: &[u32] = &[
    libc::SO_ATTACH_FILTER.unsigned_abs(),
    libc::SO_ATTACH_BPF.unsigned_abs(),
    libc::SO_ATTACH_REUSEPORT_CBPF.unsigned_abs(),
    libc::SO_ATTACH_REUSEPORT_EBPF.unsigned_abs(),
];
const TCP: u32 = libc::IPPROTO_TCP.unsigned_abs();
/// `TCP_MD5SIG`, `TCP_MD5SIG_EXT` and, since Linux 6.7, `TCP_AO_ADD_KEY`.
const ADDS_KEY: &[u32] = &[14, 32, 38];

/// `F_OFD_GETLK`, by which programs ask whether the kernel has such locks, `F_OFD_SETLK` and `F_OFD_SETLKW`.
const LOCKS_DESCRIPTION: &[u32] = &[36, 37, 38];

const SET_SECCOMP: u32 = libc::PR_SET_SECCOMP.unsigned_abs();

const MAP_HUGE: u32 = libc::MAP_HUGETLB.unsigned_abs();
const SHM_HUGE: u32 = libc::SHM_HUGETLB.unsigned_abs();

const ADDR_NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE.unsigned_abs();
const ASK_ONLY: u32 = u32::MAX;

/// Calls that are denied to every run, and why.
const RULES: &[FilterRule] = &[
    // A new namespace brings capabilities over parts of the kernel that only root should reach.
    deny_when(&[libc::SYS_clone], &[any_bit(0, NAMESPACES)]),
    deny_when(&[libc::SYS_unshare], &[any_bit(0, NAMESPACES | TIME_NAMESPACE)]),
    // Another namespace belongs to another run.
    deny(&[libc::SYS_setns]),
    // Its flags are in memory, where no filter sees them. C libraries fall back to `clone` when it does not exist.
    FilterRule { errno: libc::ENOSYS, ..deny(&[libc::SYS_clone3]) },
    // The mounts must stay as the launcher has made them.
    deny(&[libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot]),
    deny(&[libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick]),
    deny(&[libc::SYS_open_tree, SYS_OPEN_TREE_ATTR, libc::SYS_move_mount, libc::SYS_mount_setattr]),
    // Opens a file by number, past every directory that hides it.
    deny(&[libc::SYS_open_by_handle_at]),
    // Writes out the files of all users and waits for them, in a kernel thread that is charged to nobody on cgroup v1;
    // a run has `fsync` for its own files. `sync` returns no result. `syncfs` is answered with success, since programs
    // end when it fails, and no run has to survive a loss of power.
    deny(&[libc::SYS_sync]),
    FilterRule { errno: 0, ..deny(&[libc::SYS_syncfs]) },
    // Takes a whole disk in one call, before any monitor can see it. A program that is told that the file system does
    // not support it writes instead. Punching holes gives space back.
    FilterRule { errno: libc::EOPNOTSUPP, ..deny_when(&[libc::SYS_fallocate], &[no_bit(1, PUNCH_HOLE)]) },
    // A device node is the hardware under any name. FIFOs and sockets may be made.
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_mknod], &[is_device(1)]),
    deny_when(&[libc::SYS_mknodat], &[is_device(2)]),
    // Keyrings belong to users, not to namespaces: keys of one run would still exist in the next.
    deny(&[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl]),
    // Load code into the kernel, or replace the kernel.
    deny(&[libc::SYS_bpf, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module]),
    deny(&[libc::SYS_kexec_load, libc::SYS_kexec_file_load]),
    // Makes calls that no filter sees.
    deny(&[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]),
    // Stops the kernel at a page fault for any time, which is how races in it are won.
    deny(&[libc::SYS_userfaultfd]),
    // Measure and trace the kernel, and through it other tenants.
    deny(&[libc::SYS_perf_event_open, libc::SYS_lookup_dcookie, libc::SYS_syslog]),
    // Reports events of files on a whole mount; inotify exists for a run's own files.
    deny(&[libc::SYS_fanotify_init]),
    // Take a descriptor out of a process, compare kernel objects of two processes. No test needs either.
    deny(&[libc::SYS_pidfd_getfd, libc::SYS_kcmp]),
    // The whole host has one budget of asynchronous requests.
    deny(&[libc::SYS_io_setup]),
    // The whole host has one budget of memory for compiled filters, of sockets and processes: a run that used it up
    // would keep the next run from getting its own filter. The errors are those of a kernel without filters.
    FilterRule {
        errno: libc::ENOPROTOOPT,
        ..deny_when(&[libc::SYS_setsockopt], &[one_of(1, &[SOCKET]), one_of(2, ATTACHES_FILTER)])
    },
    FilterRule {
        errno: libc::EINVAL,
        ..deny_when(&[libc::SYS_seccomp], &[one_of(0, &[libc::SECCOMP_SET_MODE_FILTER])])
    },
    FilterRule {
        errno: libc::EINVAL,
        ..deny_when(&[libc::SYS_prctl], &[one_of(0, &[SET_SECCOMP]), one_of(1, &[libc::SECCOMP_MODE_FILTER])])
    },
    // The whole host has one budget of huge pages, which no memory limit counts. The errors are those of a host without
    // huge pages.
    FilterRule { errno: libc::ENOMEM, ..deny_when(&[libc::SYS_mmap], &[any_bit(3, MAP_HUGE)]) },
    FilterRule { errno: libc::ENOMEM, ..deny_when(&[libc::SYS_shmget], &[any_bit(2, SHM_HUGE)]) },
    FilterRule { errno: libc::EINVAL, ..deny_when(&[libc::SYS_memfd_create], &[any_bit(1, libc::MFD_HUGETLB)]) },
    // TCP keys are kernel memory that is charged to nobody, 160 KiB for each socket. The error is that of a kernel
    // without them.
    FilterRule {
        errno: libc::ENOPROTOOPT,
        ..deny_when(&[libc::SYS_setsockopt], &[one_of(1, &[TCP]), one_of(2, ADDS_KEY)])
    },
    // So is the memory policy of a shared file, which stays as long as the file, also if nothing maps it any more.
    deny(&[libc::SYS_mbind]),
    // Locks are counted through descriptors, but any number of open file description locks can outlive their last
    // descriptor in a mapping or in a message. The error is that of a kernel without them.
    FilterRule { errno: libc::EINVAL, ..deny_when(&[libc::SYS_fcntl], &[one_of(1, LOCKS_DESCRIPTION)]) },
    // A limit of 1 byte keeps core dumps from a program that the kernel starts as root. Many programs set the limit to
    // 0 and end if they cannot: they are answered with success, and no core is written.
    FilterRule { errno: 0, ..deny_when(&[libc::SYS_setrlimit], &[one_of(0, &[CORE])]) },
    FilterRule { errno: 0, ..deny_when(&[libc::SYS_prlimit64], &[one_of(1, &[CORE]), none_of(2, &[0])]) },
    FilterRule { errno: 0, ..deny_when(&[libc::SYS_prlimit64], &[one_of(1, &[CORE]), upper_half(2)]) },
    // Secret memory splits the kernel's direct map of all memory, and keeps the host from hibernating.
    deny(&[libc::SYS_memfd_secret]),
    // Moving pages interrupts every processor of the host.
    deny(&[libc::SYS_move_pages, libc::SYS_migrate_pages]),
    // A shorter scheduler slice runs before others. The requested slice is in memory, where no filter sees it;
    // priorities, which a run may lower, have calls of their own.
    deny(&[libc::SYS_sched_setattr]),
    // The clock is the host's. Whether an adjustment would change it is in memory, so even reading by these calls is
    // denied.
    deny(&[libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_clock_adjtime]),
    // Swap, quotas, accounting and the power switch are the host's,
    deny(&[libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl, libc::SYS_quotactl_fd]),
    deny(&[libc::SYS_acct, libc::SYS_reboot]),
    // and so is its name, where a UTS namespace is missing.
    deny(&[libc::SYS_sethostname, libc::SYS_setdomainname]),
    // Ports of the hardware, and segments from before 64 bits.
    #[cfg(target_arch = "x86_64")]
    deny(&[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt]),
    // Makes memory executable that should not be, or brings old bugs back. Debuggers switch off random addresses.
    deny_when(&[libc::SYS_personality], &[none_of(0, &[0, ADDR_NO_RANDOMIZE, ASK_ONLY])]),
    // Types into a terminal that others read, pastes on a console, loads the driver of a modem, hangs up.
    deny_when(&[libc::SYS_ioctl], &[one_of(1, &[TIOCSTI, TIOCLINUX, TIOCSETD])]),
    deny(&[libc::SYS_vhangup]),
    // Tests use local and internet sockets, and the route messages that list interfaces. The other families are rarely
    // used code of the kernel, or reach the hypervisor.
    FilterRule {
        errno: libc::EAFNOSUPPORT,
        ..deny_when(&[libc::SYS_socket, libc::SYS_socketpair], &[none_of(0, &[UNIX, INET, INET6, NETLINK])])
    },
    FilterRule {
        errno: libc::EPROTONOSUPPORT,
        ..deny_when(&[libc::SYS_socket], &[one_of(0, &[NETLINK]), none_of(2, &[ROUTE])])
    },
];

/// Calls that are also denied with [`SetId::Denied`], and why.
///
/// No filter sees whether a path is a directory's, so the set-group-id bit of directories is denied as well. A
/// directory that is made inside one with the bit still inherits it: it passes on a group and executes nothing, and
/// files inherit no bit.
const SET_ID_RULES: &[FilterRule] = &[
    // Set the bits of an existing file,
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_chmod], &[any_bit(1, SET_ID)]),
    deny_when(&[libc::SYS_fchmod], &[any_bit(1, SET_ID)]),
    deny_when(&[libc::SYS_fchmodat, libc::SYS_fchmodat2], &[any_bit(2, SET_ID)]),
    // or create a file that has them. The mode is ignored when an existing file is opened.
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_creat], &[any_bit(1, SET_ID)]),
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_open], &[any_bit(1, MAKES_FILE), any_bit(2, SET_ID)]),
    deny_when(&[libc::SYS_openat], &[any_bit(2, MAKES_FILE), any_bit(3, SET_ID)]),
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_mknod, libc::SYS_mkdir], &[any_bit(1, SET_ID)]),
    deny_when(&[libc::SYS_mknodat, libc::SYS_mkdirat], &[any_bit(2, SET_ID)]),
    // Its mode is in memory, where no filter sees it. Callers fall back to `openat` when it does not exist.
    FilterRule { errno: libc::ENOSYS, ..deny(&[libc::SYS_openat2]) },
];

/// Whether a run may make programs with set-user-id or set-group-id bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetId {
    /// The files would belong to the run's own user, which no other run has.
    Allowed,
    /// The files would belong to a user with more rights on the host than the run may have.
    Denied,
}

impl SetId {
    /// Every rule that applies.
    pub(super) fn rules(self) -> impl Iterator<Item = &'static FilterRule> {
        let more: &[FilterRule] = match self {
            SetId::Allowed => &[],
            SetId::Denied => SET_ID_RULES,
        };
        RULES.iter().chain(more)
    }
}

/// The rules as a BPF program.
pub(super) struct Filter {
    program: Code,
}

impl Filter {
    /// Compiles [`RULES`], and [`SET_ID_RULES`] with [`SetId::Denied`]. The result depends on nothing else.
    ///
    /// # Errors
    ///
    /// If a rule is too long for a jump, which only a change of the tables can cause.
    pub(super) fn compile(set_id: SetId) -> io::Result<Self> {
        Ok(Filter { program: program(set_id).map_err(io::Error::other)? })
    }

    /// Installs the filter on the calling thread and all that it starts, for good. Makes the process untraceable until
    /// it executes a program: the filter allows `ptrace`, and a tracer of init could send messages in its name.
    ///
    /// # Errors
    ///
    /// `EACCES` without `no_new_privs`, `EINVAL` if the kernel has no filters.
    pub(super) fn install(&self) -> io::Result<()> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let len = self.program.len().try_into().map_err(io::Error::other)?;
        let program = sock_fprog { len, filter: self.program.as_ptr().cast_mut().cast() };
        // SAFETY: the kernel copies `len` instructions from `filter`, which are there, and writes nothing.
        let done =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, &raw const program) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        match secure_computing_mode()? {
            SecureComputingMode::Filter => Ok(()),
            mode => Err(io::Error::other(format!("seccomp is in mode {mode:?}"))),
        }
    }
}

/// One BPF instruction, laid out as `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

type Code = Vec<Instruction>;
type Fallible<T> = Result<T, std::num::TryFromIntError>;

const fn instruction(code: u16, k: u32) -> Instruction {
    jump(code, k, 0, 0)
}

const fn jump(code: u16, k: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, if_true, if_false, k }
}

// Opcodes that are used here; the machine has one register.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const SKIP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_NOT_BELOW: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: Instruction = instruction(RETURN, libc::SECCOMP_RET_ALLOW);
const KILL: Instruction = instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS);

// Offsets in the machine's input, `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// First number of x32, which has the same calls under other numbers. A call that a tracer has cancelled has the number
/// -1.
const X32: u32 = 0x4000_0000;
const CANCELLED: u32 = u32::MAX;

/// Compiles the program. A call of another architecture kills the process, since its numbers mean other calls.
fn program(set_id: SetId) -> Fallible<Code> {
    let mut calls: BTreeMap<u32, Code> = BTreeMap::new();
    for rule in set_id.rules() {
        for &call in rule.calls {
            calls.entry(call.try_into()?).or_default().extend(rule.code()?);
        }
    }
    let mut program = vec![
        instruction(LOAD, ARCHITECTURE),
        jump(IF_EQUAL, NATIVE, 1, 0),
        KILL,
        instruction(LOAD, NUMBER),
        jump(IF_NOT_BELOW, X32, 0, 3),
        jump(IF_EQUAL, CANCELLED, 0, 1),
        ALLOW,
        KILL,
    ];
    program.extend(search(&ranges(calls))?);
    Ok(program)
}

/// All numbers from 0 on, as the first number of each range with the same code.
fn ranges(calls: BTreeMap<u32, Code>) -> Vec<(u32, Code)> {
    let mut ranges = vec![(0, vec![ALLOW])];
    for (number, mut code) in calls {
        // A rule with checks may not match.
        if code.len() > 1 {
            code.push(ALLOW);
        }
        // The range of the call before ends where this one starts.
        ranges.pop_if(|(first, _)| *first == number);
        ranges.push((number, code));
        ranges.push((number + 1, vec![ALLOW]));
    }
    ranges.dedup_by(|next, before| next.1 == before.1);
    ranges
}

/// Code of a binary search for the range of the number in the register. The cost of a filter is its installation: the
/// kernel compiles every instruction, and tries every number to find those that are always allowed.
fn search(ranges: &[(u32, Code)]) -> Fallible<Code> {
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let Some((middle, single)) = above.first() else { return Ok(vec![]) };
    if below.is_empty() {
        return Ok(single.clone());
    }
    let below = search(below)?;
    let mut code = vec![jump(IF_NOT_BELOW, *middle, below.len().try_into()?, 0)];
    code.extend(below);
    code.extend(search(above)?);
    Ok(code)
}

impl FilterRule {
    /// Code that denies the call if every check holds, and else continues behind itself.
    fn code(&self) -> Fallible<Code> {
        let answer = instruction(RETURN, libc::SECCOMP_RET_ERRNO | self.errno.unsigned_abs());
        self.checks.iter().rev().try_fold(vec![answer], |on_match, check| check.code(on_match))
    }
}

impl ArgCheck {
    /// Code that runs into `on_match` if the check holds, and else jumps over it. Both supported architectures have the
    /// low half of an argument first.
    fn code(&self, on_match: Code) -> Fallible<Code> {
        let mut code = vec![
            instruction(LOAD, ARGUMENTS + 8 * u32::from(self.arg) + u32::from(self.offset)),
            instruction(AND, self.mask),
        ];
        let mut rest = self.values.len();
        for &value in self.values {
            rest -= 1;
            let over = if self.is_one_of { 1 } else { on_match.len() };
            code.push(jump(IF_EQUAL, value, (rest + over).try_into()?, 0));
        }
        if self.is_one_of {
            code.push(instruction(SKIP, on_match.len().try_into()?));
        }
        code.extend(on_match);
        Ok(code)
    }
}
