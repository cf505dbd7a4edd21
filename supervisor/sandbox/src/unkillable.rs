//! Processes that are still alive after their kill because the kernel holds them, and the leaves that cannot be removed
//! before they die. Recorded here so that no thread waits for them.

use crate::cgroup::Leaf;
use crate::control_socket::wait_readable;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most recorded processes. A further one is only logged: such a host has stopped serving long before.
const PROCESSES_MAX: usize = 256;

/// How long the removal of a dead process's leaf may take. If it takes longer the leaf stays for the next sweep.
const REMOVE_WAIT: Duration = Duration::from_secs(1);

struct UnkillableProcess {
    /// Readable when the process is dead.
    pidfd: OwnedFd,
    leaf: Option<Box<dyn Leaf>>,
}

/// The unkillable processes of one supervisor.
#[derive(Default)]
pub(crate) struct UnkillableProcesses(Mutex<Vec<UnkillableProcess>>);

impl fmt::Debug for UnkillableProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnkillableProcesses").finish_non_exhaustive()
    }
}

impl UnkillableProcesses {
    /// Records a process that was killed and did not die in time, with its leaf.
    pub(crate) fn add(&self, pidfd: &OwnedFd, mut leaf: Option<Box<dyn Leaf>>) {
        let mut all = self.all();
        match pidfd.try_clone() {
            Ok(pidfd) if all.len() < PROCESSES_MAX => all.push(UnkillableProcess { pidfd, leaf }),
            _ => abandon_leaf(&mut leaf),
        }
    }

    /// Number of recorded processes that are alive. Reaps those that have died and removes their leaves.
    pub(crate) fn count(&self) -> u64 {
        let is_dead = |process: &mut UnkillableProcess| wait_readable(&process.pidfd, Duration::ZERO).is_ok();
        let (dead, alive) = {
            let mut all = self.all();
            let dead: Vec<UnkillableProcess> = all.extract_if(.., is_dead).collect();
            (dead, all.len())
        };
        for UnkillableProcess { pidfd, leaf } in dead {
            // Only launchers are children of this process.
            let _reaped = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            if let Some(Err(error)) = leaf.map(|mut leaf| leaf.remove(REMOVE_WAIT)) {
                tracing::error!(%error, "the leaf of a run that died late could not be removed");
            }
        }
        alive as u64
    }

    fn all(&self) -> MutexGuard<'_, Vec<UnkillableProcess>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves the removal to the next start. Without this attempt the drop of the leaf would wait for its removal.
fn abandon_leaf(leaf: &mut Option<Box<dyn Leaf>>) {
    if let Some(Err(error)) = leaf.as_mut().map(|leaf| leaf.remove(Duration::ZERO)) {
        tracing::error!(%error, "the leaf of a run that does not die stays until the next start");
    }
}

impl Drop for UnkillableProcesses {
    fn drop(&mut self) {
        self.all().iter_mut().for_each(|process| abandon_leaf(&mut process.leaf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process that lives until it is killed")]
    fn counts_a_process_until_it_is_dead_and_reaps_it() {
        let processes = UnkillableProcesses::default();
        assert_eq!(processes.count(), 0);
        let mut child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        processes.add(&pidfd, None);
        assert_eq!((processes.count(), processes.count()), (1, 1));
        child.kill().unwrap();
        wait_readable(&pidfd, Duration::from_secs(120)).unwrap();
        assert_eq!(processes.count(), 0);
        assert!(child.wait().is_err(), "it was reaped");
    }
}
