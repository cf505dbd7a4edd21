//! The log of a run: a task that keeps the run's events in order and answers readers, during and after the run.
//!
//! Sequence numbers are given to events as they are kept, so a reader that goes on from any number sees no gap and no
//! duplicate. Readers that are ahead wait inside the log, not in its mailbox. Must not know what events mean, beyond
//! that a run has one end.
//!
//! A log is also where everything is that a run keeps: its events, its report, what it wrote and what it left. Readers hold none
//! of it for longer than they take to pass a batch on, so that it is gone with the log, and the log counts it for as long
//! as it is there.

use super::NotStarted;
use super::output_files::{OutputFiles, Spools};
use crate::clock::Clock;
use crate::tenants::allowance::{MemoryReservation, Reservation};
use proctor_core::event::{Progress, RunEvent};
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Questions, and batches of events, that may wait. Whoever sends waits for room, so this bounds the driver too.
const MAILBOX: usize = 64;

/// Most events kept. A suite of 100,000 tests has two each; beyond that the report still has every test, and the log
/// only the end, with how many events are not there.
const EVENTS_MAX: usize = 262_144;

/// Most bytes of memory for the events of one run: those of 100,000 tests with 300 bytes of names each, and the longest texts
/// that a report has. What is beyond, or beyond what its tenant's runs may have together, is counted like what is beyond
/// [`EVENTS_MAX`].
const EVENTS_BYTES_MAX: usize = 160 * 1024 * 1024;

/// Most bytes of output that one event tells. A runner that writes byte by byte has as many events as one that writes pages,
/// unless somebody reads each as it comes.
pub const OUTPUT_BYTES_MAX: u32 = 64 * 1024;

/// Bytes that an event takes with its number and its time.
fn memory_bytes(event: &RunEvent) -> usize {
    event.memory_bytes() + size_of::<Entry>() - size_of::<RunEvent>()
}

/// Most readers that wait, for more or for the end, at the same time.
const WAITING_READERS_MAX: usize = 1_024;

const TOO_MANY: ReadError = ReadError::TooMany { max: WAITING_READERS_MAX };

/// Most events handed out at once: what a client takes in before it asks again.
const BATCH_MAX: usize = 256;

/// Most bytes of memory of these, unless the first alone has more: a reader whose client takes nothing in keeps them.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// An event with its number.
#[derive(Debug, Clone)]
pub struct Entry {
    /// From 0, without gaps.
    pub sequence: u64,
    /// When it was kept.
    pub at: Timestamp,
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
    /// What it wrote and left.
    pub files: OutputFiles,
}

enum Write {
    Append(Vec<RunEvent>),
    Settle(OutputFiles),
    Weigh { report: u64, reply: oneshot::Sender<u64> },
    End(RunEnd, Option<Reservation>),
    Forget(oneshot::Sender<()>),
}

/// Whom a question is answered to.
type Reply<T> = oneshot::Sender<Result<T, ReadError>>;

enum Question {
    Read { from: u64, reply: Reply<Vec<Entry>> },
    Files { reply: Reply<OutputFiles> },
    Snapshot { reply: Reply<Snapshot> },
    AwaitEnd { reply: Reply<RunEnd> },
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

    /// What the run wrote and left, now that nothing is added to it. Panics on a tokio thread.
    pub(super) fn settle_blocking(&self, files: OutputFiles) {
        _ = self.writes.blocking_send(Write::Settle(files));
    }

    /// Bytes that the log keeps of all that was written to it until now, and of a report of so many, which count from now on.
    pub async fn keep_with(&self, report: u64) -> u64 {
        let (reply, answer) = oneshot::channel();
        _ = self.writes.send(Write::Weigh { report, reply }).await;
        answer.await.unwrap_or(0)
    }

    /// Ends the log. Only the first end counts. What it keeps is counted for as long as it does.
    pub async fn end(&self, end: RunEnd, kept: Option<Reservation>) {
        _ = self.writes.send(Write::End(end, kept)).await;
    }

    /// Forgets everything, whoever is reading it. Returns when it is gone.
    pub async fn forget(&self) {
        let (reply, gone) = oneshot::channel();
        _ = self.writes.send(Write::Forget(reply)).await;
        _ = gone.await;
    }
}

/// The reading end, which goes to whoever may read the run.
#[derive(Debug, Clone)]
pub struct RunHandle {
    /// When the run was accepted.
    pub accepted_at: Timestamp,
    questions: mpsc::Sender<Question>,
    watchers: Arc<AtomicUsize>,
}

/// Why a run could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The run was forgotten, perhaps while it was read.
    #[error("the run is no longer kept: its session has forgotten it for later ones")]
    Forgotten,
    /// Nobody else may wait for it now.
    #[error("{max} readers wait for this run already")]
    TooMany {
        /// How many may.
        max: usize,
    },
}

/// What a listing lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestsStarted {
    /// The tests that began.
    pub tests: BTreeSet<TestId>,
    /// Events that the log had no room for, among which may be more of them.
    pub missed: u64,
}

impl RunHandle {
    /// Events from number `from` on, at least one unless the run ended before; empty then.
    pub async fn read(&self, from: u64) -> Result<Vec<Entry>, ReadError> {
        self.ask(|reply| Question::Read { from, reply }).await
    }

    /// What it has written and left until now. Whoever holds this keeps it from being gone, so nobody holds it for long.
    pub async fn files(&self) -> Result<OutputFiles, ReadError> {
        self.ask(|reply| Question::Files { reply }).await
    }

    /// The run as it is now.
    pub async fn snapshot(&self) -> Result<Snapshot, ReadError> {
        self.ask(|reply| Question::Snapshot { reply }).await
    }

    /// Waits for the end.
    pub async fn end(&self) -> Result<RunEnd, ReadError> {
        self.ask(|reply| Question::AwaitEnd { reply }).await
    }

    /// The tests that the log has seen begin, once it has ended.
    pub async fn tests_started(&self) -> Result<TestsStarted, ReadError> {
        let mut started = TestsStarted::default();
        let mut from = 0;
        loop {
            let batch = self.read(from).await?;
            let Some(last) = batch.last() else { return Ok(started) };
            from = last.sequence + 1;
            for entry in batch {
                match entry.event {
                    RunEvent::TestStarted(test) => _ = started.tests.insert(test),
                    RunEvent::Missed { events } => started.missed += events,
                    _ => {}
                }
            }
        }
    }

    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Result<T, ReadError> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(question(reply)).await.map_err(|_| ReadError::Forgotten)?;
        answer.await.map_err(|_| ReadError::Forgotten)?
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
pub fn open(clock: Clock, spools: &Spools, room: MemoryReservation) -> (LogWriter, RunHandle) {
    let (writes, written) = mpsc::channel(MAILBOX);
    let (questions, asked) = mpsc::channel(MAILBOX);
    let log = Log {
        clock,
        entries: Vec::new(),
        bytes: 0,
        room,
        told: 0,
        files: spools.files(),
        missed: 0,
        readers: Vec::new(),
        end_waiters: Vec::new(),
        phase: Phase::Queued,
        progress: Progress::default(),
        end: None,
        _kept: None,
    };
    tokio::spawn(log.serve(written, asked));
    (LogWriter { writes }, RunHandle { accepted_at: clock.now(), questions, watchers: Arc::default() })
}

struct Log {
    clock: Clock,
    entries: Vec<Entry>,
    /// Memory of these.
    bytes: usize,
    /// The same and the report's, as the tenant counts it.
    room: MemoryReservation,
    /// How many of them somebody may have seen, and knows by their numbers.
    told: usize,
    files: OutputFiles,
    /// Events that found no room.
    missed: u64,
    readers: Vec<(u64, Reply<Vec<Entry>>)>,
    end_waiters: Vec<Reply<RunEnd>>,
    phase: Phase,
    progress: Progress,
    end: Option<RunEnd>,
    /// What is kept since it has ended.
    _kept: Option<Reservation>,
}

impl Log {
    async fn serve(mut self, mut written: mpsc::Receiver<Write>, mut asked: mpsc::Receiver<Question>) {
        let mut writing = true;
        loop {
            tokio::select! {
                biased;
                write = written.recv(), if writing => match write {
                    Some(Write::Append(events)) => self.append(events),
                    Some(Write::Settle(files)) => self.files = files,
                    Some(Write::Weigh { report, reply }) => _ = reply.send(self.kept_with(report)),
                    Some(Write::End(end, kept)) => self.finish(end, kept),
                    Some(Write::Forget(reply)) => {
                        // First everything, then the word that it is gone.
                        drop((self, asked));
                        _ = reply.send(());
                        return;
                    }
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
            Question::Files { reply } => _ = reply.send(Ok(self.files.clone())),
            Question::Snapshot { reply } => _ = reply.send(Ok(self.snapshot())),
            Question::AwaitEnd { reply } => match &self.end {
                Some(end) => _ = reply.send(Ok(end.clone())),
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
            if self.goes_on(&event) {
                continue;
            }
            let bytes = memory_bytes(&event);
            // Nothing is numbered that is not kept, so a full log has no gap: it says less, and in the end how much less.
            if self.entries.len() < EVENTS_MAX && self.bytes < EVENTS_BYTES_MAX && self.room.try_grow(bytes as u64) {
                self.bytes += bytes;
                self.keep(event);
            } else {
                self.missed += 1;
            }
        }
        self.wake();
    }

    // Whether it is output that the last event tells from now on, too, which nobody knows yet.
    fn goes_on(&mut self, event: &RunEvent) -> bool {
        let RunEvent::Output { stream, offset, len: more } = event else { return false };
        if self.entries.len() <= self.told {
            return false;
        }
        let Some(Entry { event: RunEvent::Output { stream: same, offset: begin, len }, .. }) = self.entries.last_mut()
        else {
            return false;
        };
        let together = len.saturating_add(*more);
        let adjacent = same == stream && *begin + u64::from(*len) == *offset && together <= OUTPUT_BYTES_MAX;
        if adjacent {
            *len = together;
        }
        adjacent
    }

    fn kept_with(&self, report: u64) -> u64 {
        self.room.grow(report);
        self.files.kept_bytes().saturating_add(self.bytes as u64).saturating_add(report)
    }

    fn keep(&mut self, event: RunEvent) {
        let sequence = self.entries.len() as u64;
        self.entries.push(Entry { sequence, at: self.clock.now(), event });
    }

    fn finish(&mut self, end: RunEnd, kept: Option<Reservation>) {
        if self.end.is_some() {
            return;
        }
        if let RunEnd::Report(report) = &end {
            if self.missed > 0 {
                self.keep(RunEvent::Missed { events: self.missed });
            }
            self.keep(RunEvent::Finished(Arc::clone(report)));
        }
        self.entries.shrink_to_fit();
        self._kept = kept;
        self.phase = Phase::Finished;
        for waiter in self.end_waiters.drain(..) {
            _ = waiter.send(Ok(end.clone()));
        }
        self.end = Some(end);
        self.wake();
    }

    fn read(&mut self, from: u64, reply: Reply<Vec<Entry>>) {
        if self.end.is_some() || from < self.entries.len() as u64 {
            self.hand_out(from, reply);
            return;
        }
        // A reader that gave up has closed its end; its place is free.
        self.readers.retain(|(_, reply)| !reply.is_closed());
        if self.readers.len() < WAITING_READERS_MAX {
            self.readers.push((from, reply));
        } else {
            _ = reply.send(Err(TOO_MANY));
        }
    }

    fn hand_out(&mut self, from: u64, reply: Reply<Vec<Entry>>) {
        let batch = self.batch(from);
        let until = from.saturating_add(batch.len() as u64);
        self.told = self.told.max(usize::try_from(until).unwrap_or(usize::MAX).min(self.entries.len()));
        _ = reply.send(Ok(batch));
    }

    fn await_end(&mut self, reply: Reply<RunEnd>) {
        self.end_waiters.retain(|waiter| !waiter.is_closed());
        if self.end_waiters.len() < WAITING_READERS_MAX {
            self.end_waiters.push(reply);
        } else {
            _ = reply.send(Err(TOO_MANY));
        }
    }

    // A report comes alone: it is the one event that is as large as everything before it.
    fn batch(&self, from: u64) -> Vec<Entry> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.entries.len());
        let mut bytes = 0;
        let within = |(place, entry): &(usize, &Entry)| {
            bytes += entry.event.memory_bytes();
            *place == 0 || (bytes <= BATCH_BYTES_MAX && !matches!(entry.event, RunEvent::Finished(_)))
        };
        let some = self.entries[from..].iter().take(BATCH_MAX).enumerate().take_while(within);
        some.map(|(_, entry)| entry.clone()).collect()
    }

    // Those who are further ahead stay where they are: with many of them, an event costs no more than a look at each.
    fn wake(&mut self) {
        let (over, next) = (self.end.is_some(), self.entries.len() as u64);
        let served: Vec<_> = self.readers.extract_if(.., |(from, _)| over || *from < next).collect();
        for (from, reply) in served {
            self.hand_out(from, reply);
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        // Whoever goes on from the number that it names has seen everything before.
        self.told = self.entries.len();
        Snapshot {
            files: self.files.clone(),
            phase: self.phase,
            progress: self.progress.clone(),
            end: self.end.clone(),
            next_sequence: self.entries.len() as u64,
        }
    }
}

#[cfg(test)]
#[path = "event_log_tests.rs"]
mod tests;
