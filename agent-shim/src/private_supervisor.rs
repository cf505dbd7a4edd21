//! Starts and ends a private supervisor for one workspace.
//!
//! The supervisor serves the socket that is its stdin and ends when the other end is closed, so it also ends when this
//! process is killed.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// How long a private supervisor gets to kill its runs and clean up.
const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

/// Why no private supervisor could be started.
#[derive(Debug, Error)]
pub(crate) enum PrivateError {
    #[error("cannot start the supervisor program {}", binary.display())]
    Spawn { binary: PathBuf, source: std::io::Error },
    #[error("cannot make a socket for the private supervisor")]
    Socket(#[source] std::io::Error),
}

/// A supervisor process that serves this shim alone.
pub(crate) struct PrivateSupervisor {
    child: Child,
    // The socket that the channel uses too: shutting it down ends the supervisor even while other clones are open.
    lifeline: StdUnixStream,
}

impl PrivateSupervisor {
    /// Starts a supervisor; returns it and the connected socket.
    pub(crate) fn start(
        binary: Option<&Path>,
        workspace: &Path,
    ) -> Result<(PrivateSupervisor, UnixStream), PrivateError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(PrivateError::Socket)?;
        ours.set_nonblocking(true).map_err(PrivateError::Socket)?;
        let lifeline = ours.try_clone().map_err(PrivateError::Socket)?;
        let stream = UnixStream::from_std(ours).map_err(PrivateError::Socket)?;
        let binary = binary.map_or_else(default_binary, Path::to_owned);
        let child = spawn(&binary, workspace, theirs).map_err(|source| PrivateError::Spawn { binary, source })?;
        tracing::info!(pid = child.id(), "private supervisor started");
        Ok((PrivateSupervisor { child, lifeline }, stream))
    }

    /// Whether the process has ended by itself; reaps it if so.
    pub(crate) fn has_ended(&mut self) -> bool {
        match self.child.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => {
                tracing::warn!(%status, "the private supervisor has ended by itself");
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the private supervisor cannot be watched");
                true
            }
        }
    }

    /// Ends the supervisor and waits until it has cleaned up.
    pub(crate) async fn shut_down(mut self) {
        if let Err(error) = self.lifeline.shutdown(Shutdown::Both) {
            tracing::debug!(%error, "the socket was closed already");
        }
        match tokio::time::timeout(SHUTDOWN_MAX, self.child.wait()).await {
            Ok(ended) => tracing::info!(?ended, "private supervisor ended"),
            Err(_) => {
                tracing::warn!(?SHUTDOWN_MAX, "the private supervisor does not end: killing it");
                drop(self.child.kill().await);
            }
        }
    }
}

// stdout is null, not inherited: one line of the supervisor there would break the protocol.
#[expect(clippy::disallowed_methods, reason = "the shim starts its own supervisor, never anything of a workspace")]
fn spawn(binary: &Path, workspace: &Path, socket: StdUnixStream) -> std::io::Result<Child> {
    Command::new(binary)
        .args(["serve", "--private", "--root"])
        .arg(workspace)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
}

// Prefers the program beside this one, so that both are of the same installation.
fn default_binary() -> PathBuf {
    std::env::current_exe()
        .ok()
        .map(|shim| shim.with_file_name("proctor"))
        .filter(|beside| beside.is_file())
        .unwrap_or_else(|| PathBuf::from("proctor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tokio::io::AsyncReadExt;

    // A stand-in that writes its arguments to the socket, then lives as long as its stdin.
    fn stand_in(dir: &Path) -> PathBuf {
        let path = dir.join("proctor");
        std::fs::write(&path, "#!/bin/sh\necho \"$@\" >&0\nexec cat >/dev/null\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    // One test, not two: a concurrent fork in a second test could hold the freshly written file open (ETXTBSY).
    #[tokio::test]
    async fn is_started_with_the_workspace_and_ends_with_its_socket() {
        let Err(error) = PrivateSupervisor::start(Some(Path::new("/none/proctor")), Path::new("/w")) else {
            panic!("it started");
        };
        assert_eq!(error.to_string(), "cannot start the supervisor program /none/proctor");

        let dir = tempfile::tempdir().unwrap();
        let (mut supervisor, mut stream) =
            PrivateSupervisor::start(Some(&stand_in(dir.path())), Path::new("/w")).unwrap();
        let mut arguments = [0; 26];
        stream.read_exact(&mut arguments).await.unwrap();
        assert_eq!(&arguments, b"serve --private --root /w\n");
        assert!(!supervisor.has_ended());
        tokio::time::timeout(Duration::from_secs(60), supervisor.shut_down()).await.unwrap();
    }
}
