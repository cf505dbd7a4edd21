//! The system calls that a run may not make, as two tables, and their translation into the kernel's filter language. Read
//! [`ROWS`] from top to bottom, then [`SET_ID_ROWS`]. Must not know who installs it.
//!
//! Tests need much of the kernel, so what is dangerous is denied and the rest is allowed. Whatever is denied here is denied
//! by a missing capability or a namespace as well, or is a part of the kernel that is attacked often and tested rarely.
//! Set-id bits are neither: nothing but this filter keeps them from what a run leaves behind.
//!
//! `ptrace` and `process_vm_*` are allowed: debuggers and leak checkers live on them, and a process reaches nobody but its
//! own run. Others are in another pid namespace and outside of the Landlock domain; init makes itself untraceable here
//! ([`Filter::install`]); and a tracer changes no call behind the filter's back, which looks after the tracer did.

use libc::{c_int, c_long, sock_fprog};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{SecureComputingMode, secure_computing_mode};
use std::collections::BTreeMap;
use std::io;

/// Calls that are denied when all that is said about their arguments holds.
pub(super) struct Row {
    pub(super) calls: &'static [c_long],
    when: &'static [Check],
    pub(super) errno: c_int,
}

/// A statement about one half of an argument. The kernel takes nearly all that are looked at here as 32 bits wide, so what a
/// caller puts above them must not count.
struct Check {
    arg: u8,
    /// Bytes of the argument before the half: 0, or 4 for the upper one.
    offset: u8,
    mask: u32,
    /// Whether the masked argument is one of `values`, or none of them.
    is_one: bool,
    values: &'static [u32],
}

const fn deny(calls: &'static [c_long]) -> Row {
    deny_when(calls, &[])
}

const fn deny_when(calls: &'static [c_long], when: &'static [Check]) -> Row {
    Row { calls, when, errno: libc::EPERM }
}

const fn one_of(arg: u8, values: &'static [u32]) -> Check {
    Check { arg, offset: 0, mask: u32::MAX, is_one: true, values }
}

const fn none_of(arg: u8, values: &'static [u32]) -> Check {
    Check { is_one: false, ..one_of(arg, values) }
}

/// The upper half of an argument that is not null.
const fn upper_half(arg: u8) -> Check {
    Check { offset: 4, ..none_of(arg, &[0]) }
}

const fn any_bit(arg: u8, mask: u32) -> Check {
    Check { mask, ..none_of(arg, &[0]) }
}

const fn no_bit(arg: u8, mask: u32) -> Check {
    Check { mask, ..one_of(arg, &[0]) }
}

const fn is_device(arg: u8) -> Check {
    Check { mask: libc::S_IFMT, ..one_of(arg, &[libc::S_IFCHR, libc::S_IFBLK]) }
}

/// Every kind of namespace that `clone` makes. In its flags, the bit of time namespaces is a part of a signal number.
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

/// Flags with which opening makes a file. What stands for a nameless one has a bit that says "directory" beside its own.
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

/// `F_OFD_GETLK`, by which programs ask whether there are such locks, `F_OFD_SETLK` and `F_OFD_SETLKW`.
const LOCKS_DESCRIPTION: &[u32] = &[36, 37, 38];

const SET_SECCOMP: u32 = libc::PR_SET_SECCOMP.unsigned_abs();

const MAP_HUGE: u32 = libc::MAP_HUGETLB.unsigned_abs();
const SHM_HUGE: u32 = libc::SHM_HUGETLB.unsigned_abs();

const ADDR_NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE.unsigned_abs();
const ASK_ONLY: u32 = u32::MAX;

/// What is denied to every run, and why.
const ROWS: &[Row] = &[
    // A namespace of one's own brings capabilities over parts of the kernel that only root should reach.
    deny_when(&[libc::SYS_clone], &[any_bit(0, NAMESPACES)]),
    deny_when(&[libc::SYS_unshare], &[any_bit(0, NAMESPACES | TIME_NAMESPACE)]),
    // Another's namespace is another's run.
    deny(&[libc::SYS_setns]),
    // Its flags are in memory, where no filter sees them. C libraries fall back to `clone` when it does not exist.
    Row { errno: libc::ENOSYS, ..deny(&[libc::SYS_clone3]) },
    // The tree of files is what the launcher made it.
    deny(&[libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot]),
    deny(&[libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick]),
    deny(&[libc::SYS_open_tree, SYS_OPEN_TREE_ATTR, libc::SYS_move_mount, libc::SYS_mount_setattr]),
    // Opens a file by number, past every directory that hides it.
    deny(&[libc::SYS_open_by_handle_at]),
    // Writes out everybody's files and waits for them, by a thread of the kernel that nobody is charged for on cgroup v1: a run has
    // `fsync` for its own. Nobody hears how the first ended. The second is answered as done, since programs end when it is not,
    // and no run has to outlast a loss of power.
    deny(&[libc::SYS_sync]),
    Row { errno: 0, ..deny(&[libc::SYS_syncfs]) },
    // Takes a whole disk in one call, sooner than anybody can look. Who hears that the file system cannot do it writes
    // instead. Holes give space back.
    Row { errno: libc::EOPNOTSUPP, ..deny_when(&[libc::SYS_fallocate], &[no_bit(1, PUNCH_HOLE)]) },
    // A device is the hardware under any name. Pipes and sockets may be made.
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_mknod], &[is_device(1)]),
    deny_when(&[libc::SYS_mknodat], &[is_device(2)]),
    // Keyrings belong to users, not to namespaces: keys of one run would be there in the next.
    deny(&[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl]),
    // Code inside the kernel, or in its place.
    deny(&[libc::SYS_bpf, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module]),
    deny(&[libc::SYS_kexec_load, libc::SYS_kexec_file_load]),
    // Makes calls that no filter sees.
    deny(&[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]),
    // Stops the kernel at a page fault for as long as it likes, which is how races in it are won.
    deny(&[libc::SYS_userfaultfd]),
    // Measures and traces the kernel and through it the neighbours.
    deny(&[libc::SYS_perf_event_open, libc::SYS_lookup_dcookie, libc::SYS_syslog]),
    // Hears what happens to files on a whole mount; inotify is there for one's own.
    deny(&[libc::SYS_fanotify_init]),
    // Takes a descriptor out of a process, compares the kernel's objects of two. No test needs either.
    deny(&[libc::SYS_pidfd_getfd, libc::SYS_kcmp]),
    // The whole host has one budget of asynchronous requests.
    deny(&[libc::SYS_io_setup]),
    // So has it of compiled filters, which are on sockets and on processes: whoever uses it up keeps the next run from
    // getting its own. The answers are those of a kernel without them.
    Row {
        errno: libc::ENOPROTOOPT,
        ..deny_when(&[libc::SYS_setsockopt], &[one_of(1, &[SOCKET]), one_of(2, ATTACHES_FILTER)])
    },
    Row { errno: libc::EINVAL, ..deny_when(&[libc::SYS_seccomp], &[one_of(0, &[libc::SECCOMP_SET_MODE_FILTER])]) },
    Row {
        errno: libc::EINVAL,
        ..deny_when(&[libc::SYS_prctl], &[one_of(0, &[SET_SECCOMP]), one_of(1, &[libc::SECCOMP_MODE_FILTER])])
    },
    // And one of huge pages, which no limit of memory counts. The answers are those of a host that has none.
    Row { errno: libc::ENOMEM, ..deny_when(&[libc::SYS_mmap], &[any_bit(3, MAP_HUGE)]) },
    Row { errno: libc::ENOMEM, ..deny_when(&[libc::SYS_shmget], &[any_bit(2, SHM_HUGE)]) },
    Row { errno: libc::EINVAL, ..deny_when(&[libc::SYS_memfd_create], &[any_bit(1, libc::MFD_HUGETLB)]) },
    // Keys of TCP connections are memory of the kernel that counts for nobody, 160 KiB for each socket. The answer is that of a
    // kernel without them.
    Row { errno: libc::ENOPROTOOPT, ..deny_when(&[libc::SYS_setsockopt], &[one_of(1, &[TCP]), one_of(2, ADDS_KEY)]) },
    // So is where pages of a shared file shall be, which stays as long as the file when nothing maps it any more.
    deny(&[libc::SYS_mbind]),
    // And locks, which are counted where descriptors are. Those of an open file description outlive its last descriptor in a
    // mapping or in a message, any number of them. The answer is that of a kernel without them.
    Row { errno: libc::EINVAL, ..deny_when(&[libc::SYS_fcntl], &[one_of(1, LOCKS_DESCRIPTION)]) },
    // A limit of 1 byte is what keeps cores from a program that the kernel starts as root. Many programs set it to 0 and end
    // when they cannot: they hear that it is done, and no core is written.
    Row { errno: 0, ..deny_when(&[libc::SYS_setrlimit], &[one_of(0, &[CORE])]) },
    Row { errno: 0, ..deny_when(&[libc::SYS_prlimit64], &[one_of(1, &[CORE]), none_of(2, &[0])]) },
    Row { errno: 0, ..deny_when(&[libc::SYS_prlimit64], &[one_of(1, &[CORE]), upper_half(2)]) },
    // Secret memory breaks up the kernel's own map of all memory, and keeps the host from hibernating.
    deny(&[libc::SYS_memfd_secret]),
    // Moving pages interrupts every processor of the host.
    deny(&[libc::SYS_move_pages, libc::SYS_migrate_pages]),
    // A shorter slice of the processors than others have goes before them. What is asked for is in memory; priorities, which
    // a run may lower, have calls of their own.
    deny(&[libc::SYS_sched_setattr]),
    // The clock is the host's. What an adjustment would change is in memory, so it may not even be read.
    deny(&[libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_clock_adjtime]),
    // So are swap, quotas, accounting and the power switch,
    deny(&[libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl, libc::SYS_quotactl_fd]),
    deny(&[libc::SYS_acct, libc::SYS_reboot]),
    // and its name, where a namespace is missing.
    deny(&[libc::SYS_sethostname, libc::SYS_setdomainname]),
    // Ports of the hardware, and segments from before 64 bits.
    #[cfg(target_arch = "x86_64")]
    deny(&[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt]),
    // Makes memory executable that should not be, or old bugs come back. Debuggers switch off random addresses.
    deny_when(&[libc::SYS_personality], &[none_of(0, &[0, ADDR_NO_RANDOMIZE, ASK_ONLY])]),
    // Types into a terminal that others read, pastes on a console, loads the driver of a modem, hangs up.
    deny_when(&[libc::SYS_ioctl], &[one_of(1, &[TIOCSTI, TIOCLINUX, TIOCSETD])]),
    deny(&[libc::SYS_vhangup]),
    // Local and internet sockets are what tests use, and the route messages that list interfaces. The other families are
    // rarely used code of the kernel, or reach the hypervisor.
    Row {
        errno: libc::EAFNOSUPPORT,
        ..deny_when(&[libc::SYS_socket, libc::SYS_socketpair], &[none_of(0, &[UNIX, INET, INET6, NETLINK])])
    },
    Row {
        errno: libc::EPROTONOSUPPORT,
        ..deny_when(&[libc::SYS_socket], &[one_of(0, &[NETLINK]), none_of(2, &[ROUTE])])
    },
];

/// What is denied as well to whom [`SetId::Denied`] goes, and why.
///
/// No filter sees whether a path is a directory's, so a directory's group bit is denied with the rest. A directory that is
/// made in one with the bit still inherits it, unasked: it hands on a group and executes nothing, and files inherit no bit.
const SET_ID_ROWS: &[Row] = &[
    // Gives the bits to a file that is there,
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_chmod], &[any_bit(1, SET_ID)]),
    deny_when(&[libc::SYS_fchmod], &[any_bit(1, SET_ID)]),
    deny_when(&[libc::SYS_fchmodat, libc::SYS_fchmodat2], &[any_bit(2, SET_ID)]),
    // or makes one that has them. Who opens what is there may say any mode.
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_creat], &[any_bit(1, SET_ID)]),
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_open], &[any_bit(1, MAKES_FILE), any_bit(2, SET_ID)]),
    deny_when(&[libc::SYS_openat], &[any_bit(2, MAKES_FILE), any_bit(3, SET_ID)]),
    #[cfg(target_arch = "x86_64")]
    deny_when(&[libc::SYS_mknod, libc::SYS_mkdir], &[any_bit(1, SET_ID)]),
    deny_when(&[libc::SYS_mknodat, libc::SYS_mkdirat], &[any_bit(2, SET_ID)]),
    // Its mode is in memory, where no filter sees it. Callers fall back to `openat` when it does not exist.
    Row { errno: libc::ENOSYS, ..deny(&[libc::SYS_openat2]) },
];

/// Whether a run may make programs that whoever executes them runs as their owner or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetId {
    /// They would belong to the run's own user, who is nobody else's.
    Allowed,
    /// They would belong to somebody who is more on the host than the run may be.
    Denied,
}

impl SetId {
    /// Every row that holds then.
    pub(super) fn rows(self) -> impl Iterator<Item = &'static Row> {
        let more: &[Row] = match self {
            SetId::Allowed => &[],
            SetId::Denied => SET_ID_ROWS,
        };
        ROWS.iter().chain(more)
    }
}

/// The tables as the kernel reads them.
pub(super) struct Filter {
    program: Code,
}

impl Filter {
    /// Translates [`ROWS`], and [`SET_ID_ROWS`] where they hold. Nothing else about a run changes the result.
    ///
    /// # Errors
    ///
    /// When a row is too long for a jump, which only a change of the table can bring about.
    pub(super) fn compile(set_id: SetId) -> io::Result<Self> {
        Ok(Filter { program: program(set_id).map_err(io::Error::other)? })
    }

    /// Puts the filter on the calling thread and all that it starts, for good, and makes the process itself untraceable
    /// until it executes something: the filter allows `ptrace`, and who traces init speaks with its voice.
    ///
    /// # Errors
    ///
    /// `EACCES` without `no_new_privs`, `EINVAL` when the kernel has no filters.
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

/// One instruction of the kernel's filter machine, laid out as `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Step {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

const _: () = assert!(size_of::<Step>() == size_of::<libc::sock_filter>());

type Code = Vec<Step>;
type Fallible<T> = Result<T, std::num::TryFromIntError>;

const fn step(code: u16, k: u32) -> Step {
    jump(code, k, 0, 0)
}

const fn jump(code: u16, k: u32, if_true: u8, if_false: u8) -> Step {
    Step { code, if_true, if_false, k }
}

// The instructions that are used here; there is one register.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const SKIP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_NOT_BELOW: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: Step = step(RETURN, libc::SECCOMP_RET_ALLOW);
const KILL: Step = step(RETURN, libc::SECCOMP_RET_KILL_PROCESS);

// Where the machine finds what it is asked about: `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// From here on numbers are those of x32, the same calls under other numbers. What a tracer cancels has the number -1.
const X32: u32 = 0x4000_0000;
const CANCELLED: u32 = u32::MAX;

/// Calls of another architecture end the process, since their numbers mean something else.
fn program(set_id: SetId) -> Fallible<Code> {
    let mut calls: BTreeMap<u32, Code> = BTreeMap::new();
    for row in set_id.rows() {
        for &call in row.calls {
            calls.entry(call.try_into()?).or_default().extend(row.code()?);
        }
    }
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        jump(IF_EQUAL, NATIVE, 1, 0),
        KILL,
        step(LOAD, NUMBER),
        jump(IF_NOT_BELOW, X32, 0, 3),
        jump(IF_EQUAL, CANCELLED, 0, 1),
        ALLOW,
        KILL,
    ];
    program.extend(search(&ranges(calls))?);
    Ok(program)
}

/// All numbers from 0 on, as the first of each range of neighbours that are treated alike.
fn ranges(calls: BTreeMap<u32, Code>) -> Vec<(u32, Code)> {
    let mut ranges = vec![(0, vec![ALLOW])];
    for (number, mut code) in calls {
        // What looks at arguments may not deny.
        if code.len() > 1 {
            code.push(ALLOW);
        }
        // The call before left off where this one begins.
        ranges.pop_if(|(first, _)| *first == number);
        ranges.push((number, code));
        ranges.push((number + 1, vec![ALLOW]));
    }
    ranges.dedup_by(|next, before| next.1 == before.1);
    ranges
}

/// A binary search for the range of the number in the register. What a filter costs is the installing of it: the kernel
/// compiles every instruction, and tries every number to answer those that are always allowed without running it.
fn search(ranges: &[(u32, Code)]) -> Fallible<Code> {
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let Some((middle, alone)) = above.first() else { return Ok(vec![]) };
    if below.is_empty() {
        return Ok(alone.clone());
    }
    let below = search(below)?;
    let mut code = vec![jump(IF_NOT_BELOW, *middle, below.len().try_into()?, 0)];
    code.extend(below);
    code.extend(search(above)?);
    Ok(code)
}

impl Row {
    /// Denies when every check holds, otherwise goes on behind itself.
    fn code(&self) -> Fallible<Code> {
        let answer = step(RETURN, libc::SECCOMP_RET_ERRNO | self.errno.unsigned_abs());
        self.when.iter().rev().try_fold(vec![answer], |then, check| check.code(then))
    }
}

impl Check {
    /// Runs into `then` when the check holds, otherwise jumps over it. The architectures that there are have the low half
    /// of an argument first.
    fn code(&self, then: Code) -> Fallible<Code> {
        let mut code =
            vec![step(LOAD, ARGUMENTS + 8 * u32::from(self.arg) + u32::from(self.offset)), step(AND, self.mask)];
        let mut rest = self.values.len();
        for &value in self.values {
            rest -= 1;
            let over = if self.is_one { 1 } else { then.len() };
            code.push(jump(IF_EQUAL, value, (rest + over).try_into()?, 0));
        }
        if self.is_one {
            code.push(step(SKIP, then.len().try_into()?));
        }
        code.extend(then);
        Ok(code)
    }
}
