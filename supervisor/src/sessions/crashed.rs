//! What is left of a session whose actor panicked: its runs are killed, whoever watches them is told, the audit log has how
//! each ended, and that can be read for a while. Must not use what the panic may have left unfinished: the state machine.

use super::actor::Actor;
use super::pending_scans::Looking;
use super::{Message, SessionError};
use crate::runs::{NotStarted, RunEnd};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long it can be read what became of the runs: an agent that waited asks again within minutes.
const READABLE: Duration = Duration::from_secs(10 * 60);

/// What is told of a run.
const TOLD: &str = "the supervisor failed while it kept this run's session; its operator finds the reason in the log";

impl Actor {
    /// Ends everything of a session that broke, and says so to whoever asks until nobody does.
    pub(super) async fn wreck(mut self, messages: mpsc::Receiver<Box<Message>>) {
        tracing::error!(session = %self.about.id, "a session broke");
        self.about.broken.store(true, Ordering::Relaxed);
        self.about.busy.store(false, Ordering::Relaxed);
        *self.looking = Looking::default();
        if let Some(caller) = self.caller.take() {
            _ = caller.reply.send(Err(SessionError::Host));
        }
        let runs: Vec<_> = self.runs.keys().cloned().collect();
        for run in runs {
            let end = RunEnd::NotStarted(NotStarted::Host { text: TOLD.to_owned() });
            if let Some(known) = self.runs.get_mut(&run) {
                // The one kills what goes on, the others give back what it held.
                (known.killer, known.waits, known.spools) = (None, None, None);
            }
            self.tell_end(&run, &end);
            self.end_log(&run, end).await;
        }
        // Their killers are gone, so they come to their ends.
        while self.drivers.join_next().await.is_some() {}
        self.drainers.drain(..).for_each(|drainer| _ = drainer.send(()));
        self.tell(messages).await;
        self.end().await;
    }

    async fn tell(&mut self, mut messages: mpsc::Receiver<Box<Message>>) {
        let until = Instant::now() + READABLE;
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = sleep_until(until) => return,
            };
            match message.map(|message| *message) {
                Some(Message::Run { run, reply }) => {
                    _ = reply.send(self.runs.get(&run).map(|known| known.handle.clone()));
                }
                Some(Message::Cancel { run, reply }) => _ = reply.send(self.runs.contains_key(&run)),
                Some(Message::Drain { reply }) => _ = reply.send(()),
                Some(Message::Close { reply }) => {
                    self.closers.push(reply);
                    return;
                }
                // Whoever asks anything else is told that there is no such session.
                Some(_) => {}
                None => return,
            }
        }
    }
}
