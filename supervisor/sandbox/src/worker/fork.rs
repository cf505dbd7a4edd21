//! The one system call that no library has: a fork into new namespaces and into a cgroup. Must not know what for.

use rustix::process::Pid;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Who returns.
pub(super) enum Forked {
    /// The new process.
    Child,
    /// The one that asked, with the new one's pid as it sees it itself.
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Forks a child that is pid 1 of a new pid namespace and, given `group`, is born in that cgroup of the v2 hierarchy:
/// moving it there afterwards could wait for milliseconds.
pub(super) fn into_pid_namespace(group: Option<&OwnedFd>) -> io::Result<Forked> {
    let flag = |flag: libc::c_int| u64::from(flag.unsigned_abs());
    let mut pidfd: RawFd = -1;
    // SAFETY: all zeroes is a valid `clone_args`: no flag, no pointer.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flag(libc::CLONE_NEWPID) | flag(libc::CLONE_PIDFD);
    args.pidfd = (&raw mut pidfd).addr() as u64;
    args.exit_signal = flag(libc::SIGCHLD);
    if let Some(group) = group {
        // Bit 33, which does not fit the C library's `int`.
        args.flags |= 1 << 33;
        args.cgroup = u64::try_from(group.as_raw_fd()).map_err(io::Error::other)?;
    }
    // SAFETY: without CLONE_VM the child has a copy of everything, as after a fork, and this process has one thread, so
    // it may do anything that the parent could. The arguments are as large as the kernel is told.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of_val(&args)) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => {
            // SAFETY: the kernel has just opened it for this process, and nobody else knows it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            Ok(Forked::Parent { pid: pid.ok_or_else(|| io::Error::other("a child without a pid"))?, pidfd })
        }
    }
}
