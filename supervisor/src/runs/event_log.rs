//! The event log of a run: a task that keeps the run's events in order and answers readers during and after the run.
//!
//! Sequence numbers are assigned as events are stored, so a reader that resumes from any number sees no gap and no
//! duplicate. Readers that are ahead wait inside the log, not in its mailbox.
//!
//! The log owns everything that a run retains: events, report, output and artifacts. Readers hold a part of it only
//! while they pass a batch on, so that dropping the log frees everything; the log counts against its tenant's quota
//! until then.

use super::NotStarted;
use super::output_files::{OutputFiles, Spools};
use crate::clock::Clock;
use crate::tenants::allowance::{MemoryReservation, Reservation};
use proctor_core::bounds::EVENT_OUTPUT_BYTES_MAX;
use proctor_core::event::{Progress, RunEvent};
use proctor_core::limits::Limits;
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Capacity of each mailbox: readers' requests, and batches of events. Senders wait when it is full, so this bounds the
/// driver too.
const MAILBOX: usize = 64;

/// Most events stored. A suite of 100,000 tests has two each. Beyond that the report still lists every test, and the
/// log ends with the number of missing events.
const EVENTS_MAX: usize = 262_144;

/// Most bytes of memory for the events of one run: those of 100,000 tests with 300 bytes of names each, and the longest
/// texts that a report has. Events beyond it, or beyond the tenant's memory quota, count as missed, like those beyond
/// [`EVENTS_MAX`].
const EVENTS_BYTES_MAX: usize = 160 * 1024 * 1024;

/// Bytes that an event takes with its number and its time.
fn memory_bytes(event: &RunEvent) -> usize {
    event.memory_bytes() + size_of::<LoggedEvent>() - size_of::<RunEvent>()
}

/// Most readers that wait, for more events or for the end, at the same time.
const WAITING_READERS_MAX: usize = 1_024;

const TOO_MANY: ReadError = ReadError::TooMany { max: WAITING_READERS_MAX };

/// Most events in one batch: what a client processes before it reads again.
const BATCH_MAX: usize = 256;

/// Most bytes of memory in one batch, unless its first event alone has more: a reader whose client is stalled holds
/// them.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// An event with its number and time.
#[derive(Debug, Clone)]
pub struct LoggedEvent {
    /// From 0, without gaps.
    pub sequence: u64,
    /// When the event was stored.
    pub at: Timestamp,
    /// The event.
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

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a turn.
    Queued {
        /// As in the last [`RunEvent::Queued`]; 0 once the run has its turn.
        position: u32,
    },
    /// Its runner has started.
    Running,
    /// It ended, or never started.
    Finished,
}

/// The state of a run at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Waiting, running or finished.
    pub phase: Phase,
    /// The latest progress event.
    pub progress: Progress,
    /// Limits of the run, once its runner has started.
    pub limits: Option<Limits>,
    /// `None` while the run goes on.
    pub end: Option<RunEnd>,
    /// Number of the next event.
    pub next_sequence: u64,
    /// Output and artifacts.
    pub files: OutputFiles,
}

enum WriteRequest {
    Append(Vec<RunEvent>),
    TurnCame,
    ReplaceFiles(OutputFiles),
    ReserveReport { report: u64, reply: oneshot::Sender<u64> },
    End(RunEnd, Option<Reservation>),
    Forget(oneshot::Sender<()>),
}

/// Carries the answer to a reader.
type Reply<T> = oneshot::Sender<Result<T, ReadError>>;

enum ReadRequest {
    Read { from: u64, reply: Reply<Vec<LoggedEvent>> },
    Files { reply: Reply<OutputFiles> },
    Snapshot { reply: Reply<Snapshot> },
    AwaitEnd { reply: Reply<RunEnd> },
}

/// The writing end, held by the run's driver and its session's actor.
#[derive(Debug, Clone)]
pub struct LogWriter {
    writes: mpsc::Sender<WriteRequest>,
}

impl LogWriter {
    /// Stores `events`. Waits for room in the mailbox, which the log always makes.
    pub async fn append(&self, events: Vec<RunEvent>) {
        if !events.is_empty() {
            _ = self.writes.send(WriteRequest::Append(events)).await;
        }
    }

    /// The run has waited, and has its turn: no event says so, as that of its start follows.
    pub async fn record_turn(&self) {
        _ = self.writes.send(WriteRequest::TurnCame).await;
    }

    /// Blocking [`append`](Self::append) for the run's thread. Panics on a tokio thread.
    pub(super) fn append_blocking(&self, events: Vec<RunEvent>) {
        if !events.is_empty() {
            _ = self.writes.blocking_send(WriteRequest::Append(events));
        }
    }

    /// Replaces the files of the run by their final form, once nothing more is written. Panics on a tokio thread.
    pub(super) fn replace_files_blocking(&self, files: OutputFiles) {
        _ = self.writes.blocking_send(WriteRequest::ReplaceFiles(files));
    }

    /// Reserves memory for a report of `report` bytes and returns the bytes that the log retains including it.
    pub async fn reserve_report(&self, report: u64) -> u64 {
        let (reply, answer) = oneshot::channel();
        _ = self.writes.send(WriteRequest::ReserveReport { report, reply }).await;
        answer.await.unwrap_or(0)
    }

    /// Ends the log; a second call has no effect. `retained` counts the log against its tenant until it is forgotten.
    pub async fn end(&self, end: RunEnd, retained: Option<Reservation>) {
        _ = self.writes.send(WriteRequest::End(end, retained)).await;
    }

    /// Drops everything, also for current readers. Returns when it is gone.
    pub async fn forget(&self) {
        let (reply, gone) = oneshot::channel();
        _ = self.writes.send(WriteRequest::Forget(reply)).await;
        _ = gone.await;
    }
}

/// The reading end, for callers that may read the run.
#[derive(Debug, Clone)]
pub struct RunHandle {
    /// When the run was accepted.
    pub accepted_at: Timestamp,
    requests: mpsc::Sender<ReadRequest>,
    watchers: Arc<AtomicUsize>,
}

/// Why a run could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The run was forgotten, perhaps while it was read.
    #[error("the run is no longer kept: its session has forgotten it for later ones")]
    Forgotten,
    /// The limit of waiting readers is reached.
    #[error("{max} readers wait for this run already")]
    TooMany {
        /// The limit.
        max: usize,
    },
}

/// The tests of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartedTests {
    /// Tests that were reported as started.
    pub tests: BTreeSet<TestId>,
    /// Number of events that the log had no room for. If it is not 0, `tests` may be incomplete.
    pub missed: u64,
}

impl RunHandle {
    /// Events from number `from` on: at least one, or none if the run ended before `from`.
    pub async fn read(&self, from: u64) -> Result<Vec<LoggedEvent>, ReadError> {
        self.request(|reply| ReadRequest::Read { from, reply }).await
    }

    /// Output and artifacts until now. Holding the result keeps the files on disk, so drop it soon.
    pub async fn files(&self) -> Result<OutputFiles, ReadError> {
        self.request(|reply| ReadRequest::Files { reply }).await
    }

    /// The run's state at this moment.
    pub async fn snapshot(&self) -> Result<Snapshot, ReadError> {
        self.request(|reply| ReadRequest::Snapshot { reply }).await
    }

    /// Waits for the end.
    pub async fn end(&self) -> Result<RunEnd, ReadError> {
        self.request(|reply| ReadRequest::AwaitEnd { reply }).await
    }

    /// The tests that have started, once the run has ended.
    pub async fn tests_started(&self) -> Result<StartedTests, ReadError> {
        let mut started = StartedTests::default();
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

    async fn request<T>(&self, request: impl FnOnce(Reply<T>) -> ReadRequest) -> Result<T, ReadError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| ReadError::Forgotten)?;
        answer.await.map_err(|_| ReadError::Forgotten)?
    }

    /// Registers a watcher until the returned guard is dropped.
    #[must_use]
    pub fn watch(&self) -> WatchGuard {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        WatchGuard(Arc::clone(&self.watchers))
    }

    /// Number of current watchers.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }
}

/// Counts as one watcher until dropped.
#[derive(Debug)]
pub struct WatchGuard(Arc<AtomicUsize>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens the log of an accepted run. It ingests events while there are writers. When the last writer is gone, a log
/// that has its end stays readable while handles exist; one without an end stops, and its readers get
/// [`ReadError::Forgotten`].
#[must_use]
pub fn open(clock: Clock, spools: &Spools, memory: MemoryReservation) -> (LogWriter, RunHandle) {
    let (writes, writes_rx) = mpsc::channel(MAILBOX);
    let (requests, requests_rx) = mpsc::channel(MAILBOX);
    let log = Log {
        clock,
        entries: Vec::new(),
        bytes: 0,
        memory,
        seen: 0,
        files: spools.files(),
        missed: 0,
        readers: Vec::new(),
        end_waiters: Vec::new(),
        phase: Phase::Queued { position: 0 },
        progress: Progress::default(),
        limits: None,
        end: None,
        _retained: None,
    };
    tokio::spawn(log.serve(writes_rx, requests_rx));
    (LogWriter { writes }, RunHandle { accepted_at: clock.now(), requests, watchers: Arc::default() })
}

struct Log {
    clock: Clock,
    entries: Vec<LoggedEvent>,
    /// Bytes of memory of `entries`.
    bytes: usize,
    /// The memory of entries and report, reserved from the tenant's quota.
    memory: MemoryReservation,
    /// Number of entries that a reader may have seen; these no longer change.
    seen: usize,
    files: OutputFiles,
    /// Events for which there was no room.
    missed: u64,
    readers: Vec<(u64, Reply<Vec<LoggedEvent>>)>,
    end_waiters: Vec<Reply<RunEnd>>,
    phase: Phase,
    progress: Progress,
    limits: Option<Limits>,
    end: Option<RunEnd>,
    /// Counts the log against its tenant after its end.
    _retained: Option<Reservation>,
}

impl Log {
    async fn serve(
        mut self,
        mut writes_rx: mpsc::Receiver<WriteRequest>,
        mut requests_rx: mpsc::Receiver<ReadRequest>,
    ) {
        let mut writing = true;
        loop {
            tokio::select! {
                biased;
                write = writes_rx.recv(), if writing => match write {
                    Some(WriteRequest::Append(events)) => self.append(events),
                    Some(WriteRequest::TurnCame) => self.set_position(0),
                    Some(WriteRequest::ReplaceFiles(files)) => self.files = files,
                    Some(WriteRequest::ReserveReport { report, reply }) => _ = reply.send(self.reserve_report(report)),
                    Some(WriteRequest::End(end, retained)) => self.finish(end, retained),
                    Some(WriteRequest::Forget(reply)) => {
                        // Everything is dropped before the reply.
                        drop((self, requests_rx));
                        _ = reply.send(());
                        return;
                    }
                    None if self.end.is_none() => return,
                    None => writing = false,
                },
                request = requests_rx.recv() => match request {
                    Some(request) => self.answer(request),
                    None => return,
                },
            }
        }
    }

    fn answer(&mut self, request: ReadRequest) {
        match request {
            ReadRequest::Read { from, reply } => self.read(from, reply),
            ReadRequest::Files { reply } => _ = reply.send(Ok(self.files.clone())),
            ReadRequest::Snapshot { reply } => _ = reply.send(Ok(self.snapshot())),
            ReadRequest::AwaitEnd { reply } => match &self.end {
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
                RunEvent::Queued { position } => self.set_position(*position),
                RunEvent::Started { limits, .. } => (self.phase, self.limits) = (Phase::Running, Some(*limits)),
                RunEvent::Progress(progress) => self.progress = progress.clone(),
                _ => {}
            }
            if self.merge_output(&event) {
                continue;
            }
            let bytes = memory_bytes(&event);
            // Only stored events are numbered, so a full log has no gap; its end has the number of missing events.
            if self.entries.len() < EVENTS_MAX && self.bytes < EVENTS_BYTES_MAX && self.memory.try_grow(bytes as u64) {
                self.bytes += bytes;
                self.store(event);
            } else {
                self.missed += 1;
            }
        }
        self.wake();
    }

    fn set_position(&mut self, position: u32) {
        if matches!(self.phase, Phase::Queued { .. }) {
            self.phase = Phase::Queued { position };
        }
    }

    // Merges output into the last event if it is adjacent and no reader has seen that event.
    fn merge_output(&mut self, event: &RunEvent) -> bool {
        let RunEvent::Output { stream, offset, len: more } = event else { return false };
        if self.entries.len() <= self.seen {
            return false;
        }
        let Some(LoggedEvent { event: RunEvent::Output { stream: same, offset: begin, len }, .. }) =
            self.entries.last_mut()
        else {
            return false;
        };
        let together = len.saturating_add(*more);
        let adjacent = same == stream && *begin + u64::from(*len) == *offset && together <= EVENT_OUTPUT_BYTES_MAX;
        if adjacent {
            *len = together;
        }
        adjacent
    }

    fn reserve_report(&self, report: u64) -> u64 {
        self.memory.grow(report);
        self.files.quota_bytes().saturating_add(self.bytes as u64).saturating_add(report)
    }

    fn store(&mut self, event: RunEvent) {
        let sequence = self.entries.len() as u64;
        self.entries.push(LoggedEvent { sequence, at: self.clock.now(), event });
    }

    fn finish(&mut self, end: RunEnd, retained: Option<Reservation>) {
        if self.end.is_some() {
            return;
        }
        if let RunEnd::Report(report) = &end {
            if self.missed > 0 {
                self.store(RunEvent::Missed { events: self.missed });
            }
            self.store(RunEvent::Finished(Arc::clone(report)));
        }
        self.entries.shrink_to_fit();
        self._retained = retained;
        self.phase = Phase::Finished;
        for waiter in self.end_waiters.drain(..) {
            _ = waiter.send(Ok(end.clone()));
        }
        self.end = Some(end);
        self.wake();
    }

    fn read(&mut self, from: u64, reply: Reply<Vec<LoggedEvent>>) {
        if self.end.is_some() || from < self.entries.len() as u64 {
            self.send_batch(from, reply);
            return;
        }
        // Remove readers that gave up: they have closed their end.
        self.readers.retain(|(_, reply)| !reply.is_closed());
        if self.readers.len() < WAITING_READERS_MAX {
            self.readers.push((from, reply));
        } else {
            _ = reply.send(Err(TOO_MANY));
        }
    }

    fn send_batch(&mut self, from: u64, reply: Reply<Vec<LoggedEvent>>) {
        let batch = self.batch(from);
        let until = from.saturating_add(batch.len() as u64);
        self.seen = self.seen.max(usize::try_from(until).unwrap_or(usize::MAX).min(self.entries.len()));
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

    // A report is a batch of its own: it is the one event that may be as large as all others together.
    fn batch(&self, from: u64) -> Vec<LoggedEvent> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.entries.len());
        let mut bytes = 0;
        let within = |(index, entry): &(usize, &LoggedEvent)| {
            bytes += entry.event.memory_bytes();
            *index == 0 || (bytes <= BATCH_BYTES_MAX && !matches!(entry.event, RunEvent::Finished(_)))
        };
        let some = self.entries[from..].iter().take(BATCH_MAX).enumerate().take_while(within);
        some.map(|(_, entry)| entry.clone()).collect()
    }

    // Readers that are further ahead keep waiting: each costs one comparison per event.
    fn wake(&mut self) {
        let (over, next) = (self.end.is_some(), self.entries.len() as u64);
        let served: Vec<_> = self.readers.extract_if(.., |(from, _)| over || *from < next).collect();
        for (from, reply) in served {
            self.send_batch(from, reply);
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        // A reader that resumes from `next_sequence` counts as having seen everything before it.
        self.seen = self.entries.len();
        Snapshot {
            files: self.files.clone(),
            phase: self.phase,
            progress: self.progress.clone(),
            limits: self.limits,
            end: self.end.clone(),
            next_sequence: self.entries.len() as u64,
        }
    }
}

#[cfg(test)]
#[path = "event_log_tests.rs"]
mod tests;
