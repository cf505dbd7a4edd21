//! A run: its driver, which alone writes the event log, and the log, which all readers share.
//!
//! A run outlives the calls that started it and stays readable until its session forgets it.

mod affected;
mod changed_paths;
mod changed_tests;
mod combined_exit;
pub mod context;
mod driver;
mod event_log;
mod failure_analysis;
mod output_files;
pub mod prepare;
pub mod project_file;
mod python_reports;
mod quarantine;
mod repeated_report;
mod repeated_run;
mod report_builder;
mod report_limits;
mod run_killer;
mod run_state;
mod run_threads;
pub mod scheduler;
mod seen_files;
mod stack_capture;
mod tally;
mod untested;

pub use affected::{AskedLines, CoveringLines, FunctionError, SinceError, affected_tests, covering_in, request_for};
pub use changed_paths::{CheckScope, changed_since};
pub use driver::{FinishedRun, RunTask, drive};
pub use event_log::{
    LogWriter, LoggedEvent, Phase, ReadError, RunEnd, RunHandle, Snapshot, StartedTests, WatchGuard, open,
};
pub use failure_analysis::{FailingTests, add_suspects, analyze_run, changes_since, failing_sources};
pub use output_files::{OutputFiles, Spools};
pub use report_builder::without_running;
pub use run_killer::{KillOnDrop, RunKiller};
pub use run_threads::RunThreads;
pub use seen_files::{other_tool, tools_of};

use thiserror::Error;

/// Why an accepted run did not start. Subscribers get it in place of a report.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotStarted {
    /// The workspace changed while the run waited, or the host failed before its first process started.
    #[error(transparent)]
    Prepare(#[from] prepare::PrepareError),
    /// A layer that the policy requires is not available.
    #[error("{text}")]
    LayerMissing {
        /// Which layer, why, and the remedy.
        text: String,
    },
    /// A limit that must be enforced cannot be enforced.
    #[error("{text}")]
    LimitMissing {
        /// Which limit, why, and the remedy.
        text: String,
    },
    /// The session found nothing left to do when the run's turn came.
    #[error(transparent)]
    Rejected(#[from] proctor_core::session::StartRejected),
    /// A quota of the tenant or of the host is used up.
    #[error(transparent)]
    Quota(#[from] proctor_core::quota::QuotaExceeded),
    /// The sandbox rejects the specification of the run as invalid, whoever makes the request.
    #[error("{text}")]
    Invalid {
        /// What is wrong.
        text: String,
    },
    /// The host failed. The log has the details.
    #[error("{text}")]
    Host {
        /// Text for the client, without host paths.
        text: String,
    },
}
