//! Lines on their way to a thread of their own that writes them, in a bounded queue: whoever has a line to tell neither waits nor
//! fails. What finds no room or cannot be written is counted, for the next line that is written to tell. Must not know what a
//! line says, nor where it goes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// How often the end looks for room in a queue that is full.
const ROOM_PAUSE: Duration = Duration::from_millis(1);

/// What the thread is handed.
pub(crate) enum Message<L> {
    Line(L),
    /// Everything that was told before has had its turn.
    End(SyncSender<()>),
}

/// Lines that nobody will see.
#[derive(Debug, Clone, Default)]
pub(crate) struct LostCount(Arc<AtomicU64>);

impl LostCount {
    /// For a line to tell, which has to give them back if it is not written.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Whether they are the first since a line has told of any.
    pub(crate) fn add(&self, lines: u64) -> bool {
        self.0.fetch_add(lines, Ordering::Relaxed) == 0
    }
}

/// The way in of whoever has a line to tell.
#[derive(Debug)]
pub(crate) struct NonBlockingWriter<L> {
    queue: SyncSender<Message<L>>,
    lost: LostCount,
}

impl<L> Clone for NonBlockingWriter<L> {
    fn clone(&self) -> Self {
        NonBlockingWriter { queue: self.queue.clone(), lost: self.lost.clone() }
    }
}

impl<L: Send + 'static> NonBlockingWriter<L> {
    /// A queue with room for so many lines to a thread of this name, which lasts as long as `write` goes on.
    pub(crate) fn open(
        name: &str,
        lines_max: usize,
        write: impl FnOnce(&Receiver<Message<L>>, &LostCount) + Send + 'static,
    ) -> io::Result<NonBlockingWriter<L>> {
        let (queue, messages) = sync_channel(lines_max);
        let outbox = NonBlockingWriter { queue, lost: LostCount::default() };
        let lost = outbox.lost.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || write(&messages, &lost))?;
        Ok(outbox)
    }

    /// Tells a line, without waiting. Whether it is the first that is lost since a line has told of any.
    pub(crate) fn tell(&self, line: L) -> bool {
        self.queue.try_send(Message::Line(line)).is_err() && self.lost.add(1)
    }

    /// Returns when everything that was told is written, or has had `time`; says which. Blocks.
    pub(crate) fn finish(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let (reply, done) = sync_channel(1);
        let mut end = Message::End(reply);
        while let Err(TrySendError::Full(unsent)) = self.queue.try_send(end) {
            if Instant::now() >= until {
                return false;
            }
            end = unsent;
            std::thread::sleep(ROOM_PAUSE);
        }
        done.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_tells_a_full_queue_does_not_wait_and_what_is_lost_is_counted() {
        let (go, gate) = sync_channel::<()>(0);
        let (found, written) = sync_channel(1);
        let outbox = NonBlockingWriter::open("test", 2, move |messages, lost| {
            gate.recv().unwrap();
            let mut lines = Vec::new();
            for message in messages {
                match message {
                    Message::Line(line) => lines.push((line, lost.take())),
                    Message::End(done) => done.send(()).unwrap(),
                }
            }
            found.send(lines).unwrap();
        })
        .unwrap();
        let first_lost = (0..5).map(|line| outbox.tell(line)).collect::<Vec<_>>();
        assert_eq!(first_lost, [false, false, true, false, false]);
        assert!(!outbox.finish(Duration::from_millis(5)), "there is no room even for the question");
        go.send(()).unwrap();
        assert!(outbox.finish(Duration::from_secs(300)));
        outbox.tell(5);
        drop(outbox);
        assert_eq!(written.recv().unwrap(), [(0, 3), (1, 0), (5, 0)]);
    }
}
