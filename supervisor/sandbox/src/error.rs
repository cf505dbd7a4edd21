//! Errors that refuse a run or prevent its start. [`SandboxError::client_text`] is the text that may leave the host.

use crate::exhausted_resource::exhausted_resource;
use proctor_core::isolation::Layer;
use proctor_core::limits::LimitKind;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why no command of a run was started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The specification breaks one of its own rules; nothing was started.
    #[error("invalid run: {reason}")]
    InvalidSpec {
        /// The broken rule; contains no host path.
        reason: String,
    },
    /// The workspace is not a directory any more, or not the expected one.
    #[error("workspace {} is gone", workspace.display())]
    WorkspaceGone {
        /// Path of the workspace.
        workspace: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A required layer is not in force.
    #[error("layer {} is not in force: {reason}; {remedy}", layer.name())]
    LayerMissing {
        /// The missing layer.
        layer: Layer,
        /// Why it is missing; contains no host path.
        reason: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// A required limit did not read back from the kernel.
    #[error("limit {} cannot be enforced: {reason}; {remedy}", limit.name())]
    LimitMissing {
        /// The missing limit.
        limit: LimitKind,
        /// Why it is missing; contains no host path.
        reason: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// The worker binary cannot be started.
    #[error("worker {} cannot be started", binary.display())]
    WorkerMissing {
        /// Path of the worker binary.
        binary: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The worker reported a failure before the first command.
    #[error("worker failed at {step}: {reason}; its stderr: {stderr:?}")]
    WorkerFailed {
        /// Step that the worker was at.
        step: String,
        /// Why it failed.
        reason: String,
        /// Beginning of the worker's stderr, at most 4 KiB.
        stderr: String,
    },
    /// The worker was killed before the first command.
    #[error("worker was killed at {step}; its stderr: {stderr:?}")]
    WorkerDied {
        /// Step that the worker was at.
        step: String,
        /// Beginning of the worker's stderr, at most 4 KiB.
        stderr: String,
    },
    /// The worker did not answer in time before the first command: the kernel holds it, or the host is too slow.
    #[error("worker does not go on at {step}: {state}")]
    WorkerStuck {
        /// Step that the worker was at.
        step: String,
        /// How long it was waited for, and its state in the kernel; contains no host path.
        state: String,
    },
    /// A group of the run's leaf was removed from outside before the first command.
    #[error("the run's cgroup was removed at {step}")]
    GroupRemoved {
        /// Operation that met the removal.
        step: String,
    },
    /// The host was short of a resource, or failed, independent of the run.
    #[error("{operation}: {}", exhausted_resource(source).unwrap_or("the host failed"))]
    HostExhausted {
        /// Operation that failed.
        operation: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel refused something that the supervisor itself needs.
    #[error("{operation} failed")]
    Kernel {
        /// Operation that failed.
        operation: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

impl SandboxError {
    /// Text for clients: what failed, why, and the remedy. Contains no host path.
    #[must_use]
    pub fn client_text(&self) -> String {
        match self {
            Self::InvalidSpec { .. } | Self::LayerMissing { .. } | Self::LimitMissing { .. } => self.to_string(),
            Self::WorkspaceGone { .. } => "the workspace is gone".to_owned(),
            Self::WorkerMissing { .. } => {
                "the sandbox worker cannot be started; the host's operator must repair the installation".to_owned()
            }
            Self::WorkerFailed { step, .. } => format!("the sandbox worker failed at {step}; see the host's log"),
            Self::WorkerDied { step, .. } => format!("the sandbox worker was killed at {step}"),
            Self::WorkerStuck { step, state } => format!("the sandbox worker does not go on at {step}: {state}"),
            Self::GroupRemoved { .. } => "the run's cgroup was removed from outside".to_owned(),
            Self::HostExhausted { source, .. } => exhausted_resource(source).unwrap_or("the host failed").to_owned(),
            Self::Kernel { operation, .. } => format!("{operation} failed on the host; see its log"),
        }
    }

    /// Whether the same run may be requested again later: the host is the cause and no command was started.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::WorkerDied { .. } | Self::WorkerStuck { .. } | Self::GroupRemoved { .. } | Self::HostExhausted { .. }
        )
    }

    /// Whether the host may be at fault, so that any other run might fail the same way.
    #[must_use]
    pub fn is_host_fault(&self) -> bool {
        match self {
            Self::InvalidSpec { .. }
            | Self::WorkspaceGone { .. }
            | Self::LayerMissing { .. }
            | Self::LimitMissing { .. }
            | Self::GroupRemoved { .. } => false,
            Self::WorkerMissing { .. }
            | Self::WorkerFailed { .. }
            | Self::WorkerDied { .. }
            | Self::WorkerStuck { .. }
            | Self::HostExhausted { .. }
            | Self::Kernel { .. } => true,
        }
    }

    /// Returns a function that wraps an error of the kernel in something that the supervisor itself needs.
    pub(crate) fn kernel(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::from_io(source, operation, |source| Self::Kernel { operation, source })
    }

    /// [`Self::HostExhausted`] if `source` says so, else the error that `otherwise` makes of it.
    pub(crate) fn from_io(source: io::Error, operation: &str, otherwise: impl FnOnce(io::Error) -> Self) -> Self {
        match exhausted_resource(&source) {
            Some(_) => Self::HostExhausted { operation: operation.to_owned(), source },
            None => otherwise(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_texts_name_the_remedy_and_no_host_path() {
        let secret = PathBuf::from("/srv/tenants/acme");
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let errors = [
            SandboxError::WorkspaceGone { workspace: secret.clone(), source: gone() },
            SandboxError::WorkerMissing { binary: secret.clone(), source: gone() },
            SandboxError::WorkerFailed {
                step: "proc".into(),
                reason: "/srv/tenants".into(),
                stderr: "/srv/tenants".into(),
            },
            SandboxError::LimitMissing {
                limit: LimitKind::Memory,
                reason: "no controller".into(),
                remedy: "run as root".into(),
            },
        ];
        for error in errors {
            assert!(!error.client_text().contains("/srv") && !error.is_transient(), "{error}");
        }
        let no_descriptor = || io::Error::from_raw_os_error(libc::EMFILE);
        let short = SandboxError::from_io(no_descriptor(), "opening the workspace", |source| {
            SandboxError::WorkspaceGone { workspace: secret.clone(), source }
        });
        assert!(short.is_transient());
        assert_eq!(short.client_text(), "the supervisor has no file descriptor left");
        assert!(SandboxError::kernel("opening a cgroup leaf")(no_descriptor()).is_transient());
        let missing =
            SandboxError::LayerMissing { layer: Layer::Seccomp, reason: "off".into(), remedy: "turn it on".into() };
        assert_eq!(missing.client_text(), "layer seccomp is not in force: off; turn it on");
    }
}
