//! The log of a run: a task that keeps the run's events in order and answers readers, during and after the run.
//!
//! Sequence numbers are given to events as they are kept, so a reader that goes on from any number sees no gap and no
//! duplicate. Readers that are ahead wait inside the log, not in its mailbox. Must not know what events mean, beyond
//! that a run has one end.

use super::NotStarted;
use crate::clock::Clock;
use proctor_core::event::{Progress, RunEvent, Stream};
use proctor_core::moment::Moment;
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use proctor_sandbox::{Spool, SpoolReader};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Questions, and batches of events, that may wait. Whoever sends waits for room, so this bounds the driver too.
const MAILBOX: usize = 64;

/// Most events kept. A suite of 100,000 tests has two each; beyond that the report still has every test, and the log
/// only the end.
const EVENTS_MAX: usize = 262_144;

/// Most readers that wait, for more or for the end, at the same time.
const WAITING_READERS_MAX: usize = 1_024;

/// Most events handed out at once: what a client takes in before it asks again.
const BATCH_MAX: usize = 256;

/// An event with its number.
#[derive(Debug, Clone)]
pub struct Entry {
    /// From 0, without gaps.
    pub sequence: u64,
    /// When it was kept.
    pub at: Moment,
    /// What happened.
    pub event: RunEvent,
}

/// How a run ended for its subscribers.
#[derive(Debug, Clone)]
pub enum RunEnd {
    /// It ran; the last event of the log is the report.
    Report(Arc<Report>),
    /// It never started.
    NotStarted(NotStarted),
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its turn.
    Queued,
    /// Its runner was started.
    Running,
    /// It ended.
    Finished,
}

/// A run as it is now.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Where it is.
    pub phase: Phase,
    /// The latest progress.
    pub progress: Progress,
    /// How it ended.
    pub end: Option<RunEnd>,
    /// Number of the next event.
    pub next_sequence: u64,
}

enum Write {
    Append(Vec<RunEvent>),
    End(RunEnd),
}

enum Question {
    Read { from: u64, reply: oneshot::Sender<Vec<Entry>> },
    Snapshot { reply: oneshot::Sender<Snapshot> },
    AwaitEnd { reply: oneshot::Sender<RunEnd> },
}

/// The writing end, which the run's driver and its session's actor hold.
#[derive(Debug, Clone)]
pub struct LogWriter {
    writes: mpsc::Sender<Write>,
}

impl LogWriter {
    /// Keeps `events`. Waits for room in the mailbox, which the log always makes.
    pub async fn append(&self, events: Vec<RunEvent>) {
        if !events.is_empty() {
            _ = self.writes.send(Write::Append(events)).await;
        }
    }

    /// The same for the thread of a run. Panics on a tokio thread.
    pub(super) fn append_blocking(&self, events: Vec<RunEvent>) {
        if !events.is_empty() {
            _ = self.writes.blocking_send(Write::Append(events));
        }
    }

    /// Ends the log. Only the first end counts.
    pub async fn end(&self, end: RunEnd) {
        _ = self.writes.send(Write::End(end)).await;
    }
}

/// The reading end, which goes to whoever may read the run.
#[derive(Debug, Clone)]
pub struct RunHandle {
    /// When the run was accepted.
    pub accepted_at: Moment,
    questions: mpsc::Sender<Question>,
    watchers: Arc<AtomicUsize>,
    stdout: SpoolReader,
    stderr: SpoolReader,
    artifacts: SpoolReader,
}

/// Where the bytes of a run go: what it writes, and what it leaves.
#[derive(Debug, Default)]
pub struct Spools {
    /// The runner's stdout.
    pub stdout: Spool,
    /// The runner's stderr.
    pub stderr: Spool,
    /// The contents of the report's artefacts, in its order.
    pub artifacts: Spool,
}

/// The run was forgotten, or its session broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run is no longer known")]
pub struct Forgotten;

impl RunHandle {
    /// Events from number `from` on, at least one unless the run ended before; empty then.
    pub async fn read(&self, from: u64) -> Result<Vec<Entry>, Forgotten> {
        self.ask(|reply| Question::Read { from, reply }).await
    }

    /// The run as it is now.
    pub async fn snapshot(&self) -> Result<Snapshot, Forgotten> {
        self.ask(|reply| Question::Snapshot { reply }).await
    }

    /// Waits for the end.
    pub async fn end(&self) -> Result<RunEnd, Forgotten> {
        self.ask(|reply| Question::AwaitEnd { reply }).await
    }

    /// The tests that the log has seen begin, once it has ended: what a listing lists.
    pub async fn tests_started(&self) -> Result<BTreeSet<TestId>, Forgotten> {
        let mut tests = BTreeSet::new();
        let mut from = 0;
        loop {
            let batch = self.read(from).await?;
            let Some(last) = batch.last() else { return Ok(tests) };
            from = last.sequence + 1;
            tests.extend(batch.into_iter().filter_map(|entry| match entry.event {
                RunEvent::TestStarted(test) => Some(test),
                _ => None,
            }));
        }
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Forgotten> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(question(reply)).await.map_err(|_| Forgotten)?;
        answer.await.map_err(|_| Forgotten)
    }

    /// Counts as a watcher until the returned value is dropped.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        Watch(Arc::clone(&self.watchers))
    }

    /// How many watch now.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// At most `len` bytes of a stream from `offset` on. Reads a file: not for a tokio thread.
    pub fn read_output(&self, stream: Stream, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.spool(stream).read_at(offset, len)
    }

    /// Bytes of a stream so far.
    #[must_use]
    pub fn output_len(&self, stream: Stream) -> u64 {
        self.spool(stream).len()
    }

    /// Bytes of files that it keeps.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        [&self.stdout, &self.stderr, &self.artifacts].into_iter().map(SpoolReader::len).sum()
    }

    /// At most `len` bytes from `offset` on, of the contents of all artefacts. Reads a file: not for a tokio thread.
    pub fn read_artifacts(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.artifacts.read_at(offset, len)
    }

    fn spool(&self, stream: Stream) -> &SpoolReader {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

/// Somebody watches a run for as long as this lives.
#[derive(Debug)]
pub struct Watch(Arc<AtomicUsize>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens the log of a run that was just accepted. While there are writers it takes in events; when the last is gone, a
/// log that has its end stays readable for whoever holds a handle, and one that has none is broken and says so.
#[must_use]
pub fn open(clock: Clock, spools: &Spools) -> (LogWriter, RunHandle) {
    let (writes, written) = mpsc::channel(MAILBOX);
    let (questions, asked) = mpsc::channel(MAILBOX);
    let log = Log {
        clock,
        entries: Vec::new(),
        readers: Vec::new(),
        end_waiters: Vec::new(),
        phase: Phase::Queued,
        progress: Progress::default(),
        end: None,
    };
    tokio::spawn(log.serve(written, asked));
    let accepted_at = clock.now();
    let (stdout, stderr, artifacts) = (spools.stdout.reader(), spools.stderr.reader(), spools.artifacts.reader());
    (LogWriter { writes }, RunHandle { accepted_at, questions, watchers: Arc::default(), stdout, stderr, artifacts })
}

struct Log {
    clock: Clock,
    entries: Vec<Entry>,
    readers: Vec<(u64, oneshot::Sender<Vec<Entry>>)>,
    end_waiters: Vec<oneshot::Sender<RunEnd>>,
    phase: Phase,
    progress: Progress,
    end: Option<RunEnd>,
}

impl Log {
    async fn serve(mut self, mut written: mpsc::Receiver<Write>, mut asked: mpsc::Receiver<Question>) {
        let mut writing = true;
        loop {
            tokio::select! {
                biased;
                write = written.recv(), if writing => match write {
                    Some(Write::Append(events)) => self.append(events),
                    Some(Write::End(end)) => self.finish(end),
                    None if self.end.is_none() => return,
                    None => writing = false,
                },
                question = asked.recv() => match question {
                    Some(question) => self.answer(question),
                    None => return,
                },
            }
        }
    }

    fn answer(&mut self, question: Question) {
        match question {
            Question::Read { from, reply } => self.read(from, reply),
            Question::Snapshot { reply } => _ = reply.send(self.snapshot()),
            Question::AwaitEnd { reply } => match &self.end {
                Some(end) => _ = reply.send(end.clone()),
                None => self.await_end(reply),
            },
        }
    }

    fn append(&mut self, events: Vec<RunEvent>) {
        if self.end.is_some() {
            return;
        }
        for event in events {
            match &event {
                RunEvent::Started { .. } => self.phase = Phase::Running,
                RunEvent::Progress(progress) => self.progress = progress.clone(),
                _ => {}
            }
            // Nothing is numbered that is not kept, so a full log has no gap: it only says less.
            if self.entries.len() < EVENTS_MAX {
                self.keep(event);
            }
        }
        self.wake();
    }

    fn keep(&mut self, event: RunEvent) {
        let sequence = self.entries.len() as u64;
        self.entries.push(Entry { sequence, at: self.clock.now(), event });
    }

    fn finish(&mut self, end: RunEnd) {
        if self.end.is_some() {
            return;
        }
        if let RunEnd::Report(report) = &end {
            self.keep(RunEvent::Finished(Arc::clone(report)));
        }
        self.phase = Phase::Finished;
        for waiter in self.end_waiters.drain(..) {
            _ = waiter.send(end.clone());
        }
        self.end = Some(end);
        self.wake();
    }

    fn read(&mut self, from: u64, reply: oneshot::Sender<Vec<Entry>>) {
        let batch = self.batch(from);
        if !batch.is_empty() || self.end.is_some() {
            _ = reply.send(batch);
            return;
        }
        // A reader that gave up has closed its end; its place is free. One too many is told nothing and asks again.
        self.readers.retain(|(_, reply)| !reply.is_closed());
        if self.readers.len() < WAITING_READERS_MAX {
            self.readers.push((from, reply));
        }
    }

    fn await_end(&mut self, reply: oneshot::Sender<RunEnd>) {
        self.end_waiters.retain(|waiter| !waiter.is_closed());
        if self.end_waiters.len() < WAITING_READERS_MAX {
            self.end_waiters.push(reply);
        }
    }

    fn batch(&self, from: u64) -> Vec<Entry> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.entries.len());
        self.entries[from..].iter().take(BATCH_MAX).cloned().collect()
    }

    fn wake(&mut self) {
        for (from, reply) in std::mem::take(&mut self.readers) {
            self.read(from, reply);
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            phase: self.phase,
            progress: self.progress.clone(),
            end: self.end.clone(),
            next_sequence: self.entries.len() as u64,
        }
    }
}
