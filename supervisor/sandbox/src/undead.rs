//! Processes that are alive after their kill, since the kernel does not let go of them, and the leaves that cannot be removed
//! before they die. Kept so that nobody waits for them. Must not kill anything.

use crate::cgroup::Leaf;
use crate::channel::wait_readable;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Processes that are kept. One more is only logged: such a host has stopped serving long before.
const KEPT_MAX: usize = 256;

/// How long the removal of a dead process's leaf may take. One that takes longer stays for the next sweep.
const REMOVE_WAIT: Duration = Duration::from_secs(1);

struct Process {
    /// Readable when it is dead.
    pidfd: OwnedFd,
    leaf: Option<Box<dyn Leaf>>,
}

/// The processes of one supervisor that do not die.
#[derive(Default)]
pub(crate) struct Undead(Mutex<Vec<Process>>);

impl fmt::Debug for Undead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undead").finish_non_exhaustive()
    }
}

impl Undead {
    /// Takes over a process that was killed and did not die in time, with its leaf.
    pub(crate) fn add(&self, pidfd: &OwnedFd, mut leaf: Option<Box<dyn Leaf>>) {
        let mut all = self.all();
        match pidfd.try_clone() {
            Ok(pidfd) if all.len() < KEPT_MAX => all.push(Process { pidfd, leaf }),
            _ => give_up(&mut leaf),
        }
    }

    /// How many are still alive. Those that have died meanwhile are reaped, and their leaves removed.
    pub(crate) fn count(&self) -> u64 {
        let is_dead = |process: &mut Process| wait_readable(&process.pidfd, Duration::ZERO).is_ok();
        let (dead, alive) = {
            let mut all = self.all();
            let dead: Vec<Process> = all.extract_if(.., is_dead).collect();
            (dead, all.len())
        };
        for Process { pidfd, leaf } in dead {
            // Only launchers are children of this process.
            let _reaped = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            if let Some(Err(error)) = leaf.map(|mut leaf| leaf.remove(REMOVE_WAIT)) {
                tracing::error!(%error, "the leaf of a run that died late could not be removed");
            }
        }
        alive as u64
    }

    fn all(&self) -> MutexGuard<'_, Vec<Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A leaf that is dropped waits for its removal, unless that was tried.
fn give_up(leaf: &mut Option<Box<dyn Leaf>>) {
    if let Some(Err(error)) = leaf.as_mut().map(|leaf| leaf.remove(Duration::ZERO)) {
        tracing::error!(%error, "the leaf of a run that does not die stays until the next start");
    }
}

impl Drop for Undead {
    fn drop(&mut self) {
        self.all().iter_mut().for_each(|process| give_up(&mut process.leaf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process that lives for as long as it is asked to")]
    fn a_process_counts_until_it_is_dead_and_is_reaped_then() {
        let undead = Undead::default();
        assert_eq!(undead.count(), 0);
        let mut child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        undead.add(&pidfd, None);
        assert_eq!((undead.count(), undead.count()), (1, 1));
        child.kill().unwrap();
        wait_readable(&pidfd, Duration::from_secs(120)).unwrap();
        assert_eq!(undead.count(), 0);
        assert!(child.wait().is_err(), "it was reaped");
    }
}
