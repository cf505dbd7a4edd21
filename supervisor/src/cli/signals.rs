//! The signals by which a person or a terminal ends a command: SIGINT, SIGTERM, SIGHUP. Must not know what they end.

use super::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// All of them. Made once, so that none is lost between two waits.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on none of them ends the process by itself.
    pub(super) fn new() -> Result<Signals, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::host(format!("signals: {error}")));
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for any of them.
    pub(super) async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
