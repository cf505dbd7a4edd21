//! The switch that ends a run from another thread. Must not know what is killed or how.

use proctor_core::outcome::KillReason;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Ends a run from any thread. Clones are the same switch; the first reason wins.
#[derive(Debug, Clone)]
pub struct KillSwitch {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    reason: AtomicUsize,
    /// Readable from the first `kill` on; never read empty, so that every waiter sees it.
    bell: OwnedFd,
}

impl KillSwitch {
    /// A switch that nobody has pressed. Costs one file descriptor until the last clone is dropped.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { shared: Arc::new(Shared { reason: AtomicUsize::new(0), bell }) })
    }

    /// Asks for the end of the run. Never blocks; a second call changes nothing.
    pub fn kill(&self, reason: KillReason) {
        let code = KillReason::ALL.iter().position(|&known| known == reason).map_or(1, |place| place + 1);
        if self.shared.reason.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // The counter is at most one, so the write can neither block nor overflow.
            let _rung = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
        }
    }

    /// The first reason, once somebody has asked.
    #[must_use]
    pub fn reason(&self) -> Option<KillReason> {
        let code = self.shared.reason.load(Ordering::Acquire);
        code.checked_sub(1).and_then(|place| KillReason::ALL.get(place).copied())
    }

    /// Waits until somebody asks, at most `timeout`. For fakes; the real run loop polls the descriptor.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<KillReason> {
        let mut fds = [PollFd::new(&self.shared.bell, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        // An interrupted wait is a short one; the reason is read either way.
        let _woken = poll(&mut fds, timeout.as_ref());
        self.reason()
    }
}

impl AsFd for KillSwitch {
    /// Readable once somebody has asked.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_wins_and_every_clone_hears_it() {
        let switch = KillSwitch::new().unwrap();
        let clone = switch.clone();
        assert_eq!(clone.reason(), None);
        assert_eq!(clone.wait(Duration::ZERO), None);
        let waiter = std::thread::spawn(move || clone.wait(Duration::from_secs(120)));
        switch.kill(KillReason::Closed);
        switch.kill(KillReason::Cancelled);
        assert_eq!(waiter.join().unwrap(), Some(KillReason::Closed));
        assert_eq!(switch.wait(Duration::ZERO), Some(KillReason::Closed));
    }

    #[test]
    fn every_reason_survives_the_switch() {
        for reason in KillReason::ALL {
            let switch = KillSwitch::new().unwrap();
            switch.kill(reason);
            assert_eq!(switch.reason(), Some(reason));
        }
    }
}
