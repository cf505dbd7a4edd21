//! The history of runs: outcome, counts and figures of each run, outcome and time of each test, in one SQLite database
//! per tenant. It survives restarts and never fails a run: what goes wrong here ends as a note in the report, and for a
//! command of the request, which does not wait, in the log.
//!
//! One thread writes, behind a bounded queue in which each tenant has a bounded share. A run's own thread hands it the
//! finished run and waits at most [`HISTORY_WAIT`](proctor_core::bounds::HISTORY_WAIT) for the comparison with earlier
//! runs, so a run's report may come that much later; the session's actor never waits. Readers open the database themselves:
//! in WAL mode they and the writer do not block each other. The statistics are in [`proctor_core::history`].

mod comparison;
mod database;
pub mod query;
mod recorder;
mod retention;
pub mod run_record;
mod workspace_key;
mod writer;

#[cfg(test)]
mod tests;

pub use database::stored_bytes;
pub use recorder::RunRecorder;
pub use workspace_key::{DirectoryKey, WorkspaceKey};

use crate::tenants::allowance::{Gauge, Reservation};
use proctor_core::bounds::{HISTORY_QUEUED_RUNS_MAX, HISTORY_QUEUED_RUNS_OF_TENANT_MAX, HISTORY_WAIT};
use proctor_core::history::{SinceLastGreen, SinceLastRun};
use proctor_sandbox::use_batch_policy;
use run_record::RunRecord;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Interval between the tries to enter a full queue: as long as some records take.
const FLUSH_RETRY: Duration = Duration::from_millis(20);

/// Interval between two looks at whether the runs of a tenant are written.
const WRITTEN_POLL: Duration = Duration::from_millis(2);

/// Where the history of one tenant is, and how large it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLocation {
    /// Its directory, of this process alone.
    pub dir: PathBuf,
    /// Most bytes of the database file.
    pub bytes_max: u64,
    queued: QueueShare,
}

impl HistoryLocation {
    /// The history in the directory `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, bytes_max: u64) -> HistoryLocation {
        HistoryLocation { dir, bytes_max, queued: QueueShare::default() }
    }

    /// Whether runs wait to be written to it.
    fn has_queued(&self) -> bool {
        self.queued.0.now() > 0
    }

    /// Waits until no run waits to be written to it, at most [`HISTORY_WAIT`]; then the reader goes on without the last ones.
    /// Blocks. It takes no place in the writer's queue, which the tenants share.
    pub fn wait_until_written(&self) {
        let deadline = Instant::now() + HISTORY_WAIT;
        while self.has_queued() {
            if Instant::now() >= deadline {
                tracing::warn!(dir = %self.dir.display(), "a history is read without its last runs, which wait to be written");
                return;
            }
            std::thread::sleep(WRITTEN_POLL);
        }
    }
}

/// Counts the runs of one tenant that wait to be written; clones of a location share it.
#[derive(Debug, Clone, Default)]
struct QueueShare(Arc<Gauge>);

/// Equal, whatever waits: it is no part of the location.
impl PartialEq for QueueShare {
    fn eq(&self, _: &QueueShare) -> bool {
        true
    }
}

impl Eq for QueueShare {}

/// Why there is no history for a run or a query. The texts name no path of the host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// The database has a schema that this version does not know.
    #[error("a newer version of proctor wrote it")]
    Newer,
    /// Another process holds its lock.
    #[error("another process is writing to it")]
    Locked,
    /// Neither the disk nor the quota has room.
    #[error("its disk is full")]
    Full,
    /// The file is no database, or is damaged.
    #[error("its file is damaged")]
    Damaged,
    /// Too many runs wait to be written.
    #[error("too many runs wait to be written already")]
    Busy,
    /// The writer did not answer in time. The run is written later.
    #[error("it did not answer within {} ms", HISTORY_WAIT.as_millis())]
    Slow,
    /// The disk or the directory failed.
    #[error("the host failed to read or write it")]
    Host,
}

/// How a recorded run compares with earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// `None` for the first run of its framework in the workspace.
    pub since_last_run: Option<SinceLastRun>,
    /// `None` if no run of all tests has passed before.
    pub since_last_green: Option<SinceLastGreen>,
    /// Set if the earlier history was damaged: it is kept beside the new one.
    pub began_anew: bool,
}

type Reply = SyncSender<Result<Comparison, HistoryError>>;

enum Job {
    /// Without a reply for a run that is compared with nothing.
    Record {
        location: HistoryLocation,
        run: Box<RunRecord>,
        reply: Option<Reply>,
        place: Reservation,
    },
    Flush {
        reply: SyncSender<()>,
    },
}

/// A handle to the writer. The writer ends with its last handle, after what was queued.
#[derive(Debug, Clone)]
pub struct History(Option<SyncSender<Job>>);

impl History {
    /// Starts the writer.
    #[must_use]
    pub fn start() -> History {
        let (jobs, queue) = sync_channel(HISTORY_QUEUED_RUNS_MAX);
        let thread = std::thread::Builder::new().name("history".to_owned());
        let write = move || {
            use_batch_policy();
            writer::write_all(&queue);
        };
        match thread.spawn(write) {
            Ok(_) => History(Some(jobs)),
            Err(error) => {
                tracing::error!(%error, "no thread for the history: nothing is recorded");
                History(None)
            }
        }
    }

    /// A history that records nothing.
    #[must_use]
    pub fn off() -> History {
        History(None)
    }

    /// Records a run and compares it with the earlier ones. Blocks for at most [`HISTORY_WAIT`], so it is for the thread
    /// of a run. A run that is compared with nothing is recorded later, unless another one of its tenant waits already.
    ///
    /// # Errors
    /// After [`HistoryError::Slow`] the run is recorded later; after all others it is not.
    pub fn record(&self, location: HistoryLocation, run: RunRecord) -> Result<Comparison, HistoryError> {
        self.record_within(HISTORY_WAIT, location, run)
    }

    fn record_within(
        &self,
        at_most: Duration,
        location: HistoryLocation,
        run: RunRecord,
    ) -> Result<Comparison, HistoryError> {
        let Some(jobs) = &self.0 else { return Err(HistoryError::Host) };
        let waits = !run.is_of_command() || location.has_queued();
        let place = location.queued.0.try_add_one(HISTORY_QUEUED_RUNS_OF_TENANT_MAX).ok_or(HistoryError::Busy)?;
        let (reply, answer) = sync_channel(1);
        let job = Job::Record { location, run: Box::new(run), reply: waits.then_some(reply), place };
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => HistoryError::Busy,
            TrySendError::Disconnected(_) => HistoryError::Host,
        })?;
        if !waits {
            return Ok(Comparison::default());
        }
        answer.recv_timeout(at_most).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(HistoryError::Slow),
            RecvTimeoutError::Disconnected => Err(HistoryError::Host),
        })
    }

    /// Waits until everything queued is written, at most this long. Returns whether it is. Blocks.
    #[must_use]
    pub fn flush(&self, at_most: Duration) -> bool {
        let Some(jobs) = &self.0 else { return true };
        let deadline = Instant::now() + at_most;
        let left = || deadline.saturating_duration_since(Instant::now());
        let (reply, answer) = sync_channel(1);
        let mut job = Job::Flush { reply };
        loop {
            match jobs.try_send(job) {
                Ok(()) => return answer.recv_timeout(left()).is_ok(),
                // The queue is full: it has room again when the writer has written one run.
                Err(TrySendError::Full(refused)) if !left().is_zero() => job = refused,
                Err(_) => return false,
            }
            std::thread::sleep(FLUSH_RETRY.min(left()));
        }
    }
}
