//! The switch that ends a run from another thread.

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
    state: Arc<SwitchState>,
}

#[derive(Debug)]
struct SwitchState {
    reason: AtomicUsize,
    /// Eventfd, readable after the first `kill`; never reset, so that every waiter sees it.
    event: OwnedFd,
}

impl KillSwitch {
    /// A switch that is not pressed yet. Uses one file descriptor until the last clone is dropped.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { state: Arc::new(SwitchState { reason: AtomicUsize::new(0), event }) })
    }

    /// Requests the end of the run. Never blocks; a second call changes nothing.
    pub fn kill(&self, reason: KillReason) {
        let code = KillReason::ALL.iter().position(|&candidate| candidate == reason).map_or(1, |position| position + 1);
        if self.state.reason.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // The counter is at most one, so the write can neither block nor overflow.
            let _rung = rustix::io::write(&self.state.event, &1_u64.to_ne_bytes());
        }
    }

    /// The first reason; `None` while the switch is not pressed.
    #[must_use]
    pub fn reason(&self) -> Option<KillReason> {
        let code = self.state.reason.load(Ordering::Acquire);
        code.checked_sub(1).and_then(|position| KillReason::ALL.get(position).copied())
    }

    /// Waits at most `timeout` for the switch to be pressed. For fakes; the real run loop polls the descriptor.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<KillReason> {
        let mut fds = [PollFd::new(&self.state.event, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        // An interrupted wait ends early; the reason is read in any case.
        let _woken = poll(&mut fds, timeout.as_ref());
        self.reason()
    }
}

impl AsFd for KillSwitch {
    /// Readable once the switch is pressed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_wins_for_every_clone() {
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
    fn returns_every_reason_unchanged() {
        for reason in KillReason::ALL {
            let switch = KillSwitch::new().unwrap();
            switch.kill(reason);
            assert_eq!(switch.reason(), Some(reason));
        }
    }
}
