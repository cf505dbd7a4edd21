//! Ends a run from any task: wakes the waiting driver and triggers the sandbox's kill switch.

use proctor_core::outcome::KillReason;
use proctor_sandbox::KillSwitch;
use tokio_util::sync::CancellationToken;

/// Ends one run. Clones end the same run; the first reason is recorded.
#[derive(Debug, Clone)]
pub struct RunKiller {
    switch: KillSwitch,
    token: CancellationToken,
}

impl RunKiller {
    /// A killer for a run that is about to start. Fails when the process has no descriptors left.
    pub fn new() -> std::io::Result<RunKiller> {
        Ok(RunKiller { switch: KillSwitch::new()?, token: CancellationToken::new() })
    }

    /// Ends the run.
    pub fn kill(&self, reason: KillReason) {
        self.switch.kill(reason);
        self.token.cancel();
    }

    /// Waits until the run is killed.
    pub async fn killed(&self) {
        self.token.cancelled().await;
    }

    /// The switch for the sandbox.
    #[must_use]
    pub fn switch(&self) -> &KillSwitch {
        &self.switch
    }
}

/// Kills the run when its driver is dropped, as happens when the session's actor panics.
#[derive(Debug)]
pub struct KillOnDrop(pub RunKiller);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill(KillReason::Closed);
    }
}
