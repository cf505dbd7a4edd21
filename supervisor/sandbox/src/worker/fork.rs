//! A fork into a new pid namespace and into a cgroup: a system call that no library wraps.

use rustix::process::Pid;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Which process returns from the fork.
pub(super) enum ForkOutcome {
    /// The new process.
    Child,
    /// The calling process, with the child's pid in its own pid namespace.
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Forks a child that is pid 1 of a new pid namespace and, given `group`, is born in that cgroup of the v2 hierarchy:
/// moving it there afterwards could take milliseconds.
pub(super) fn into_pid_namespace(group: Option<&OwnedFd>) -> io::Result<ForkOutcome> {
    let flag = |flag: libc::c_int| u64::from(flag.unsigned_abs());
    let mut pidfd: RawFd = -1;
    // SAFETY: all zeroes is a valid `clone_args`: no flag, no pointer.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flag(libc::CLONE_NEWPID) | flag(libc::CLONE_PIDFD);
    args.pidfd = (&raw mut pidfd).addr() as u64;
    args.exit_signal = flag(libc::SIGCHLD);
    if let Some(group) = group {
        // CLONE_INTO_CGROUP, bit 33, does not fit the C library's `int`.
        args.flags |= 1 << 33;
        args.cgroup = u64::try_from(group.as_raw_fd()).map_err(io::Error::other)?;
    }
    // SAFETY: without CLONE_VM the child has a copy of everything, as after a fork, and this process has one thread, so
    // it may do anything that the parent could. The arguments are as large as the kernel is told.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of_val(&args)) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkOutcome::Child),
        pid => {
            // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            Ok(ForkOutcome::Parent { pid: pid.ok_or_else(|| io::Error::other("a child without a pid"))?, pidfd })
        }
    }
}
