//! The end of a session whose actor panicked: kills its runs, tells their watchers, writes the audit records, and
//! answers for a while how each run ended. The state machine is not used, since the panic may have left it
//! inconsistent.

use super::SessionMessage;
use super::actor::Actor;
use super::pending_scans::PendingScans;
use crate::runs::{NotStarted, RunEnd};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long the ends of the runs stay readable: an agent that waited asks again within minutes.
const READABLE: Duration = Duration::from_secs(10 * 60);

/// The reported reason for the end of the runs.
const CRASH_TEXT: &str =
    "the supervisor failed while it served this run's session; its operator finds the reason in the log";

impl Actor {
    /// Ends everything of a crashed session, then answers queries about its runs for [`READABLE`].
    pub(super) async fn serve_crashed(mut self, messages: mpsc::Receiver<Box<SessionMessage>>) {
        tracing::error!(session = %self.shared.id, "a session's actor panicked");
        self.shared.crashed.store(true, Ordering::Relaxed);
        self.shared.busy.store(false, Ordering::Relaxed);
        *self.scans = PendingScans::default();
        let runs: Vec<_> = self.runs.keys().cloned().collect();
        for run in runs {
            let end = RunEnd::NotStarted(NotStarted::Host { text: CRASH_TEXT.to_owned() });
            if let Some(entry) = self.runs.get_mut(&run) {
                // Dropping these kills the run and releases its reservations and files.
                (entry.killer, entry.place, entry.spools) = (None, None, None);
            }
            self.audit_end(&run, &end);
            self.end_log(&run, end).await;
        }
        // Their killers are dropped, so the drivers end.
        while self.drivers.join_next().await.is_some() {}
        self.shutdown.abort_drain();
        self.answer_queries(messages).await;
        self.end().await;
    }

    async fn answer_queries(&mut self, mut messages: mpsc::Receiver<Box<SessionMessage>>) {
        let until = Instant::now() + READABLE;
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = sleep_until(until) => return,
            };
            match message.map(|message| *message) {
                Some(SessionMessage::Run { run, reply }) => {
                    _ = reply.send(self.runs.get(&run).map(|entry| entry.handle.clone()));
                }
                Some(SessionMessage::Cancel { run, reply }) => _ = reply.send(self.runs.contains_key(&run)),
                Some(SessionMessage::Drain { reply }) => _ = reply.send(()),
                Some(SessionMessage::Close { reply }) => {
                    self.shutdown.add_closer(reply, 0);
                    return;
                }
                // Dropping the reply tells the caller that the session is gone.
                Some(_) => {}
                None => return,
            }
        }
    }
}
