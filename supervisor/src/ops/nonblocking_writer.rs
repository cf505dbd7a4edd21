//! Hands lines to a writer thread through a bounded queue, so that senders never wait and never fail. Lines that find
//! the queue full or cannot be written are counted; the next written line reports the count.

use proctor_sandbox::use_batch_policy;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// How often `flush` retries while the queue is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// A message to the writer thread.
pub(crate) enum Message<L> {
    Line(L),
    /// Answered once all earlier lines have been handled.
    Flush(SyncSender<()>),
}

/// Number of lost lines that have not been reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct LostCount(Arc<AtomicU64>);

impl LostCount {
    /// Takes the count for a line that reports it. The caller must add it back if that line is not written.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Adds to the count. Returns whether these are the first since the last report.
    pub(crate) fn add(&self, lines: u64) -> bool {
        self.0.fetch_add(lines, Ordering::Relaxed) == 0
    }
}

/// The sending side. Clones share the queue.
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
    /// Starts a thread `name` that runs `write`, with a queue of `lines_max` lines.
    pub(crate) fn open(
        name: &str,
        lines_max: usize,
        write: impl FnOnce(&Receiver<Message<L>>, &LostCount) + Send + 'static,
    ) -> io::Result<NonBlockingWriter<L>> {
        let (queue, messages) = sync_channel(lines_max);
        let writer = NonBlockingWriter { queue, lost: LostCount::default() };
        let lost = writer.lost.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            use_batch_policy();
            write(&messages, &lost);
        })?;
        Ok(writer)
    }

    /// Queues a line without waiting. Returns whether it is the first lost line since the last report.
    pub(crate) fn send(&self, line: L) -> bool {
        self.queue.try_send(Message::Line(line)).is_err() && self.lost.add(1)
    }

    /// Waits until all queued lines have been handled, at most for `time`; returns whether they have. Blocks.
    pub(crate) fn flush(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let (reply, done) = sync_channel(1);
        let mut message = Message::Flush(reply);
        while let Err(TrySendError::Full(unsent)) = self.queue.try_send(message) {
            if Instant::now() >= until {
                return false;
            }
            message = unsent;
            std::thread::sleep(RETRY_INTERVAL);
        }
        done.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_to_a_full_queue_never_waits_and_counts_lost_lines() {
        let (go, gate) = sync_channel::<()>(0);
        let (found, written) = sync_channel(1);
        let writer = NonBlockingWriter::open("test", 2, move |messages, lost| {
            gate.recv().unwrap();
            let mut lines = Vec::new();
            for message in messages {
                match message {
                    Message::Line(line) => lines.push((line, lost.take())),
                    Message::Flush(done) => done.send(()).unwrap(),
                }
            }
            found.send(lines).unwrap();
        })
        .unwrap();
        let first_lost = (0..5).map(|line| writer.send(line)).collect::<Vec<_>>();
        assert_eq!(first_lost, [false, false, true, false, false]);
        assert!(!writer.flush(Duration::from_millis(5)), "the queue has no room for the flush message either");
        go.send(()).unwrap();
        assert!(writer.flush(Duration::from_secs(300)));
        writer.send(5);
        drop(writer);
        assert_eq!(written.recv().unwrap(), [(0, 3), (1, 0), (5, 0)]);
    }
}
