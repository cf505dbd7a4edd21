//! Who a run is: its user namespace, its user and group, and whose files are shown as its own. Must not know what the run
//! does with them.

use super::attributes::Attributes;
use crate::message::Identity;
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, geteuid, seteuid, setfsuid};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{CapabilitySets, Gid, Uid, capabilities, set_capabilities, set_keep_capabilities};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

/// A user namespace in which the run's user and group exist, under the same numbers, and nobody else.
pub(super) fn user_namespace(identity: Identity, privileged: bool) -> io::Result<()> {
    let uid_map = format!("{0} {0} 1", identity.uid);
    let gid_map = format!("{0} {0} 1", identity.gid);
    if privileged {
        return mapped_from_outside(&uid_map, &gid_map, || {
            act_as(identity.uid)?;
            Ok(unshare(CloneFlags::CLONE_NEWUSER)?)
        });
    }
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without this the kernel does not let an ordinary user map a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", uid_map)?;
    fs::write("/proc/self/gid_map", gid_map)
}

/// Takes `uid` as the effective user, and stays the same for files and with every capability. What is counted in a user
/// namespace, such as watches and pending signals, is counted once more for the effective user of whoever made it: root's own
/// would be used up by runs.
fn act_as(uid: u32) -> io::Result<()> {
    let (held, of_files) = (capabilities(None)?, geteuid());
    seteuid(nix::unistd::Uid::from_raw(uid))?;
    setfsuid(of_files);
    Ok(set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })?)
}

/// Only a process of the parent namespace may map another user than one's own, so a child that stays behind does it.
fn mapped_from_outside(uid_map: &str, gid_map: &str, enter: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (entered, told) = pipe_with(PipeFlags::CLOEXEC)?;
    let launcher = std::process::id();
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(told);
            let write_maps = || {
                // Nothing is written when the launcher failed and is gone.
                if rustix::io::read(&entered, &mut [0; 1])? == 1 {
                    fs::write(format!("/proc/{launcher}/gid_map"), gid_map)?;
                    fs::write(format!("/proc/{launcher}/uid_map"), uid_map)?;
                }
                Ok::<_, io::Error>(())
            };
            exit_with(write_maps())
        }
        ForkResult::Parent { child } => {
            let outcome = enter().and_then(|()| Ok(rustix::io::write(&told, b"!").map(drop)?));
            drop(told);
            let written = outcome_of(child);
            outcome.and(written)
        }
    }
}

/// Ends a child with the errno of what failed.
pub(super) fn exit_with(outcome: io::Result<()>) -> ! {
    let errno = outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    // SAFETY: ends the child without running anything that belongs to the parent. Errnos of the calls that are made in
    // children are below 256.
    unsafe { libc::_exit(errno) }
}

/// Waits for a child that ended by [`exit_with`]. Who kills it kills the launcher: that says nothing about what the host can
/// do, and another launcher may do it.
pub(super) fn outcome_of(child: Pid) -> io::Result<()> {
    match waitpid(child, None)? {
        WaitStatus::Exited(_, 0) => Ok(()),
        WaitStatus::Exited(_, errno) => Err(io::Error::from_raw_os_error(errno)),
        _ => {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
            Err(io::Error::other("a child of the launcher was killed"))
        }
    }
}

/// Becomes the run's user and group for good, and keeps the capabilities over the run's own namespaces for the rows that
/// follow.
pub(super) fn become_user(identity: Identity) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    let permitted = capabilities(None)?.permitted;
    set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let inheritable = rustix::thread::CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?)
}

/// A user namespace that stands for "files of `owner` belong to the run", as an idmapped mount takes it.
pub(super) fn id_map(owner: (u32, u32), identity: Identity) -> io::Result<OwnedFd> {
    let (begun, told) = pipe_with(PipeFlags::CLOEXEC)?;
    let (held, release) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop((begun, release));
            let hold = || {
                unshare(CloneFlags::CLONE_NEWUSER)?;
                rustix::io::write(&told, b"!")?;
                // Until the parent has opened the namespace, or is gone.
                rustix::io::read(&held, &mut [0; 1])?;
                Ok::<_, io::Error>(())
            };
            exit_with(hold())
        }
        ForkResult::Parent { child } => {
            drop((told, held));
            let open = || {
                if rustix::io::read(&begun, &mut [0; 1])? == 0 {
                    return Err(io::Error::other("no user namespace for an idmapped mount"));
                }
                fs::write(format!("/proc/{child}/gid_map"), format!("{} {} 1", owner.1, identity.gid))?;
                fs::write(format!("/proc/{child}/uid_map"), format!("{} {} 1", owner.0, identity.uid))?;
                Ok(OwnedFd::from(File::open(format!("/proc/{child}/ns/user"))?))
            };
            let namespace = open();
            drop(release);
            outcome_of(child).and(namespace)
        }
    }
}

/// Shows the files below `tree` that belong to another user as the run's own.
pub(super) fn show_as_own(tree: &OwnedFd, map: &OwnedFd) -> io::Result<()> {
    Attributes::idmapped(map).set(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, kill};

    #[test]
    fn whoever_kills_a_child_of_the_launcher_kills_the_launcher() {
        // SAFETY: the child of a test with threads calls nothing that takes a lock which another thread may hold.
        let ForkResult::Parent { child: launcher } = unsafe { fork() }.unwrap() else {
            // SAFETY: as above.
            let Ok(ForkResult::Parent { child }) = (unsafe { fork() }) else {
                nix::unistd::pause();
                exit_with(Ok(()))
            };
            exit_with(kill(child, Signal::SIGKILL).map_err(io::Error::from).and_then(|()| outcome_of(child)))
        };
        assert_eq!(waitpid(launcher, None).unwrap(), WaitStatus::Signaled(launcher, Signal::SIGKILL, false));
    }
}
