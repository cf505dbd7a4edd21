//! Callers that wait for the end of a session, by `drain` or `close`, and the number of runs that they are told.

use crate::ops::drain::ClosedRuns;
use tokio::sync::oneshot;

/// The end of a session as its callers wait for it.
#[derive(Default)]
pub(super) struct Shutdown {
    drainers: Vec<oneshot::Sender<()>>,
    /// Unfinished runs at the first `drain`.
    runs_at_drain: Option<usize>,
    closers: Vec<oneshot::Sender<ClosedRuns>>,
    closed: ClosedRuns,
}

impl Shutdown {
    /// Adds a caller that waits for the last of `unfinished` runs.
    pub(super) fn add_drainer(&mut self, reply: oneshot::Sender<()>, unfinished: usize) {
        self.runs_at_drain.get_or_insert(unfinished);
        self.drainers.push(reply);
    }

    /// Adds a caller that waits for the end of the actor. The first one cancels the runs that are `unfinished`; those
    /// that ended since the drain have finished.
    pub(super) fn add_closer(&mut self, reply: oneshot::Sender<ClosedRuns>, unfinished: usize) {
        if self.closers.is_empty() {
            let finished = self.runs_at_drain.unwrap_or(unfinished).saturating_sub(unfinished);
            self.closed = ClosedRuns { finished, cancelled: unfinished };
        }
        self.closers.push(reply);
    }

    /// Answers the callers of `drain`: no run is left.
    pub(super) fn answer_drainers(&mut self) {
        self.drainers.drain(..).for_each(|drainer| _ = drainer.send(()));
    }

    /// Answers the callers of `drain` after a crash: none of the runs has finished.
    pub(super) fn abort_drain(&mut self) {
        self.runs_at_drain = None;
        self.answer_drainers();
    }

    /// Answers the callers of `close`: nothing of the session is left.
    pub(super) fn answer_closers(&mut self) {
        self.closers.drain(..).for_each(|closer| _ = closer.send(self.closed));
    }
}
