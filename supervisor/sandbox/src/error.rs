//! Why a run was refused or could not be begun. Must not know who reads it; [`SandboxError::client_text`] is what may
//! leave the host.

use crate::lack::lack;
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
        /// Which rule, without host paths.
        reason: String,
    },
    /// The workspace is not a directory (any more).
    #[error("workspace {} is gone", workspace.display())]
    WorkspaceGone {
        /// Its path.
        workspace: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A required layer is not in force.
    #[error("layer {} is not in force: {reason}; {remedy}", layer.name())]
    LayerMissing {
        /// Which layer.
        layer: Layer,
        /// Why, without host paths.
        reason: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// A required limit did not read back from the kernel.
    #[error("limit {} cannot be enforced: {reason}; {remedy}", limit.name())]
    LimitMissing {
        /// Which limit.
        limit: LimitKind,
        /// Why, without host paths.
        reason: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// The worker binary cannot be started.
    #[error("worker {} cannot be started", binary.display())]
    WorkerMissing {
        /// Its path.
        binary: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The worker said that it cannot go on before the first command.
    #[error("worker failed at {step}: {reason}; it said: {stderr:?}")]
    WorkerFailed {
        /// What it was doing.
        step: String,
        /// Why it failed.
        reason: String,
        /// The beginning of its own stderr, at most 4 KiB.
        stderr: String,
    },
    /// The worker ended without a word before the first command: somebody or something has killed it.
    #[error("worker ended at {step}; it said: {stderr:?}")]
    WorkerDied {
        /// What it was doing.
        step: String,
        /// The beginning of its own stderr, at most 4 KiB.
        stderr: String,
    },
    /// The worker says nothing and the kernel holds it, or it took far too long before the first command.
    #[error("worker does not go on at {step}: {state}")]
    WorkerStuck {
        /// What it was doing.
        step: String,
        /// How long it was waited for and what the kernel says that it does; no host paths.
        state: String,
    },
    /// Somebody has removed a group of the run's leaf before the first command.
    #[error("the run's cgroup was removed at {step}")]
    GroupGone {
        /// What was tried in it.
        step: String,
    },
    /// The host was short of something, or failed, whatever was asked for.
    #[error("{operation}: {}", lack(source).unwrap_or("the host failed"))]
    HostLacks {
        /// What was tried.
        operation: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something that the supervisor itself needs.
    #[error("{operation} failed")]
    Kernel {
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SandboxError {
    /// The text for clients: what and why and the remedy, no path of this host.
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
            Self::GroupGone { .. } => "the run's cgroup was removed from outside".to_owned(),
            Self::HostLacks { source, .. } => lack(source).unwrap_or("the host failed").to_owned(),
            Self::Kernel { operation, .. } => format!("{operation} failed on the host; see its log"),
        }
    }

    /// Whether the host is the cause and the same run may be asked for again: none of its commands was started.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::WorkerDied { .. } | Self::WorkerStuck { .. } | Self::GroupGone { .. } | Self::HostLacks { .. }
        )
    }

    /// Whether the host may be the cause, whatever was asked for: a worker of anybody else might fail alike.
    #[must_use]
    pub fn is_hosts(&self) -> bool {
        match self {
            Self::InvalidSpec { .. }
            | Self::WorkspaceGone { .. }
            | Self::LayerMissing { .. }
            | Self::LimitMissing { .. }
            | Self::GroupGone { .. } => false,
            Self::WorkerMissing { .. }
            | Self::WorkerFailed { .. }
            | Self::WorkerDied { .. }
            | Self::WorkerStuck { .. }
            | Self::HostLacks { .. }
            | Self::Kernel { .. } => true,
        }
    }

    /// Wraps what the kernel said about something that the supervisor itself needs.
    pub(crate) fn kernel(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::of(source, operation, |source| Self::Kernel { operation, source })
    }

    /// What `source` means: that the host is short of something, or what `otherwise` makes of it.
    pub(crate) fn of(source: io::Error, operation: &str, otherwise: impl FnOnce(io::Error) -> Self) -> Self {
        match lack(&source) {
            Some(_) => Self::HostLacks { operation: operation.to_owned(), source },
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
            assert!(!error.client_text().contains("/srv") && !error.is_passing(), "{error}");
        }
        let no_descriptor = || io::Error::from_raw_os_error(libc::EMFILE);
        let short = SandboxError::of(no_descriptor(), "holding the workspace", |source| SandboxError::WorkspaceGone {
            workspace: secret.clone(),
            source,
        });
        assert!(short.is_passing());
        assert_eq!(short.client_text(), "the supervisor has no file descriptor left");
        assert!(SandboxError::kernel("opening a cgroup leaf")(no_descriptor()).is_passing());
        let missing =
            SandboxError::LayerMissing { layer: Layer::Seccomp, reason: "off".into(), remedy: "turn it on".into() };
        assert_eq!(missing.client_text(), "layer seccomp is not in force: off; turn it on");
    }
}
