//! The signals that end a command: SIGINT, SIGTERM, SIGHUP.

use super::CommandError;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers for these signals, created once so that no signal is lost between two waits.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Installs the handlers; these signals no longer end the process by themselves.
    pub(super) fn new() -> Result<Signals, CommandError> {
        let listen = |kind| signal(kind).map_err(|error| CommandError::host(format!("signals: {error}")));
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for any of these signals.
    pub(super) async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
