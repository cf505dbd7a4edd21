//! The options that limit what the processes of a run may take, of tests and of checks.

use super::CommandError;
use crate::config::units::{Bytes, Cpus, Duration};
use clap::Args;
use proctor_core::limits::LimitRequest;

// A doc comment would become the text of the commands.
#[derive(Debug, Args)]
pub(super) struct ResourceArgs {
    /// Memory of all processes together, without swap (512MiB, 2GiB); at least 4MiB. [default: 2GiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) memory: Option<Bytes>,
    /// Processors (0.5, 2); at least 0.01. [default: 2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) cpus: Option<Cpus>,
    /// Concurrent processes and threads; at least 4. [default: 512]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) pids: Option<u32>,
}

impl ResourceArgs {
    /// The limits, with those of options that not every command has.
    pub(super) fn limits(&self, timeout: Option<Duration>, disk: Option<Bytes>) -> Result<LimitRequest, CommandError> {
        let limits = LimitRequest {
            memory_bytes: self.memory.map(|size| size.bytes),
            cpu_millis: self.cpus.map(|cpus| cpus.millis),
            pids: self.pids,
            wall_ms: timeout.map(|timeout| timeout.ms),
            disk_bytes: disk.map(|size| size.bytes),
        };
        limits.check().map_err(|error| CommandError::usage(error.to_string()))?;
        Ok(limits)
    }
}
