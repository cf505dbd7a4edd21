//! The user of a run: its user namespace, its user and group, and the mapping of another owner's files to it.

use super::mount_attributes::MountAttributes;
use crate::worker_protocol::Identity;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{ForkResult, fork, seteuid, setfsuid};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, geteuid, kill_process, waitpid};
use rustix::thread::{CapabilitySets, Gid, Uid, capabilities, set_capabilities, set_keep_capabilities};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

/// Enters a user namespace in which only the run's user and group exist, under the same numbers.
pub(super) fn user_namespace(identity: Identity, privileged: bool) -> io::Result<()> {
    let uid_map = format!("{0} {0} 1", identity.uid);
    let gid_map = format!("{0} {0} 1", identity.gid);
    if privileged {
        return enter_namespace_mapped_by_child(&uid_map, &gid_map, || {
            set_effective_user(identity.uid)?;
            Ok(unshare(CloneFlags::CLONE_NEWUSER)?)
        });
    }
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without this the kernel does not let an unprivileged user map a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", uid_map)?;
    fs::write("/proc/self/gid_map", gid_map)
}

/// Sets the effective user, and keeps the file-system user and every capability. The kernel also counts the objects of
/// a user namespace, such as inotify watches and pending signals, for the effective user of its creator: runs would use
/// up root's.
fn set_effective_user(uid: u32) -> io::Result<()> {
    let (held, fs_uid) = (capabilities(None)?, geteuid().as_raw());
    seteuid(nix::unistd::Uid::from_raw(uid))?;
    setfsuid(nix::unistd::Uid::from_raw(fs_uid));
    Ok(set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })?)
}

/// Maps users from a child that stays in the parent namespace: only such a process may map another user than its own.
fn enter_namespace_mapped_by_child(
    uid_map: &str,
    gid_map: &str,
    enter: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let (entered_reader, entered_writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let launcher = std::process::id();
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(entered_writer);
            let write_maps = || {
                // Nothing is written if the launcher failed and is gone.
                if rustix::io::read(&entered_reader, &mut [0; 1])? == 1 {
                    fs::write(format!("/proc/{launcher}/gid_map"), gid_map)?;
                    fs::write(format!("/proc/{launcher}/uid_map"), uid_map)?;
                }
                Ok::<_, io::Error>(())
            };
            exit_with(write_maps())
        }
        ForkResult::Parent { child } => {
            let outcome = enter().and_then(|()| Ok(rustix::io::write(&entered_writer, b"!").map(drop)?));
            drop(entered_writer);
            let written = outcome_of(child);
            outcome.and(written)
        }
    }
}

/// Ends a child with the errno of `outcome`.
pub(super) fn exit_with(outcome: io::Result<()>) -> ! {
    let errno = outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    // SAFETY: ends the child without running anything that belongs to the parent. Errnos of the calls that are made in
    // children are below 256.
    unsafe { libc::_exit(errno) }
}

/// Waits for a child that ended by [`exit_with`]. If the child was killed, the launcher kills itself: the failure says
/// nothing about the host's abilities, and another launcher may succeed.
pub(super) fn outcome_of(child: nix::unistd::Pid) -> io::Result<()> {
    let ended = waitpid(Pid::from_raw(child.as_raw()), WaitOptions::empty())?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => {
            kill_process(rustix::process::getpid(), Signal::KILL)?;
            Err(io::Error::other("a child of the launcher was killed"))
        }
    }
}

/// Becomes the run's user and group for good, and keeps the capabilities over the run's own namespaces for the next
/// steps.
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

/// Makes a user namespace that maps `owner` to the run's user, for an idmapped mount.
pub(super) fn id_map(owner: (u32, u32), identity: Identity) -> io::Result<OwnedFd> {
    let (begun_reader, begun_writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let (release_reader, release_writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop((begun_reader, release_writer));
            let hold_namespace = || {
                unshare(CloneFlags::CLONE_NEWUSER)?;
                rustix::io::write(&begun_writer, b"!")?;
                // Until the parent has opened the namespace, or is gone.
                rustix::io::read(&release_reader, &mut [0; 1])?;
                Ok::<_, io::Error>(())
            };
            exit_with(hold_namespace())
        }
        ForkResult::Parent { child } => {
            drop((begun_writer, release_reader));
            let open = || {
                if rustix::io::read(&begun_reader, &mut [0; 1])? == 0 {
                    return Err(io::Error::other("no user namespace for an idmapped mount"));
                }
                fs::write(format!("/proc/{child}/gid_map"), format!("{} {} 1", owner.1, identity.gid))?;
                fs::write(format!("/proc/{child}/uid_map"), format!("{} {} 1", owner.0, identity.uid))?;
                Ok(OwnedFd::from(File::open(format!("/proc/{child}/ns/user"))?))
            };
            let namespace = open();
            drop(release_writer);
            outcome_of(child).and(namespace)
        }
    }
}

/// Applies an id map to the mount `tree`.
pub(super) fn apply_id_map(tree: &OwnedFd, map: &OwnedFd) -> io::Result<()> {
    MountAttributes::idmapped(map).set(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_death_of_a_child_by_a_signal_kills_the_launcher() {
        // SAFETY: the child of a test with threads calls nothing that takes a lock which another thread may hold.
        let ForkResult::Parent { child: launcher } = unsafe { fork() }.unwrap() else {
            // SAFETY: as above.
            let Ok(ForkResult::Parent { child }) = (unsafe { fork() }) else {
                rustix::event::pause();
                exit_with(Ok(()))
            };
            let killed = kill_process(Pid::from_raw(child.as_raw()).unwrap(), Signal::KILL);
            exit_with(killed.map_err(io::Error::from).and_then(|()| outcome_of(child)))
        };
        let (_, status) = waitpid(Pid::from_raw(launcher.as_raw()), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
    }
}
