//! A run: its log, from which everybody reads, and its driver, which alone writes. A run outlives the calls that
//! started it and stays readable until its session forgets it.

mod combined_exit;
pub mod context;
mod driver;
mod event_log;
mod output_files;
pub mod prepare;
pub mod project_file;
mod report_builder;
mod report_limits;
mod run_killer;
mod run_state;
pub mod scheduler;
mod tally;

pub use driver::{Drive, Finished, drive};
pub use event_log::{
    Entry, LogWriter, OUTPUT_BYTES_MAX, Phase, ReadError, RunEnd, RunHandle, Snapshot, TestsStarted, Watch, open,
};
pub use output_files::{FILE_BYTES_MIN, OutputFiles, Spools};
pub use report_builder::without_running;
pub use run_killer::{KillOnDrop, RunKiller};

use thiserror::Error;

/// Why a run that was accepted did not start. Subscribers get it in place of a report.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotStarted {
    /// The workspace changed while the run waited, and can no longer be run.
    #[error(transparent)]
    Prepare(#[from] prepare::PrepareError),
    /// A required layer is not available.
    #[error("{text}")]
    LayerMissing {
        /// Which, why and the remedy.
        text: String,
    },
    /// A limit that must be enforced cannot be.
    #[error("{text}")]
    LimitMissing {
        /// Which, why and the remedy.
        text: String,
    },
    /// It waited, and then there was nothing left to do.
    #[error(transparent)]
    QuotaExceeded(#[from] proctor_core::session::StartRejected),
    /// A quota of its tenant or of the host is used up.
    #[error(transparent)]
    Quota(#[from] proctor_core::quota::QuotaExceeded),
    /// The sandbox cannot carry out what is asked, whoever asks.
    #[error("{text}")]
    Invalid {
        /// What is wrong.
        text: String,
    },
    /// The host failed. The logs have the details.
    #[error("{text}")]
    Host {
        /// What may be told.
        text: String,
    },
}
