//! The worker as the supervisor holds it: spawned, told, killed, and waited for. Must not know what a run is.

use crate::channel::Channel;
use crate::error::SandboxError;
use crate::message::{Plan, ToWorker};
use crate::spec::RunSpec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a killed run may take to be dead. A namespace of a thousand spinning processes takes about a second; a
/// process inside a hanging disk or network file system takes as long as that hangs.
pub(crate) const DEATH_WAIT: Duration = Duration::from_secs(60);

/// How long the launcher may take to reap init and exit, once init is dead.
const LAUNCHER_WAIT: Duration = Duration::from_secs(2);

/// Bytes of the worker's own stderr that are kept for the log.
const STDERR_BYTES_MAX: u64 = 4 * 1024;

/// A running worker. Dropping it kills the whole run and waits for its death.
pub(crate) struct Worker {
    child: Child,
    /// Readable when the launcher is dead.
    launcher: OwnedFd,
    /// Init's pidfd, once the launcher has handed it over. Killing init kills its pid namespace.
    init: Option<OwnedFd>,
    stderr: ChildStderr,
    pub(crate) channel: Channel,
}

impl Worker {
    /// Spawns `binary`; it then waits for its plan.
    ///
    /// Nothing of the supervisor is forked: std spawns without copying page tables as long as there is no `pre_exec`.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    pub(crate) fn launch(binary: &Path) -> Result<Worker, SandboxError> {
        let (channel, theirs) = Channel::pair().map_err(SandboxError::kernel("making a control socket"))?;
        let missing = |source| SandboxError::WorkerMissing { binary: binary.to_owned(), source };
        let mut child = Command::new(binary)
            .arg(crate::worker::RUN)
            .env_clear()
            // Ctrl-C in a terminal is for the supervisor, which then ends the run in its own way.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(missing)?;
        let stderr = child.stderr.take();
        match (stderr, pidfd(&child)) {
            (Some(stderr), Ok(launcher)) => Ok(Worker { child, launcher, init: None, stderr, channel }),
            (_, outcome) => {
                // Without a pidfd nobody could wait for it with a bound.
                let _gone = child.kill().and_then(|()| child.wait());
                let source = outcome.err().unwrap_or_else(|| io::Error::other("the worker has no stderr"));
                Err(SandboxError::Kernel { operation: "opening a pidfd", source })
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Hands the plan over.
    pub(crate) fn tell(&mut self, plan: &Plan, spec: &RunSpec) -> Result<(), SandboxError> {
        let told = plan.pack(spec).and_then(|packed| self.channel.send(&ToWorker::Plan, &[packed.as_fd()]));
        told.map_err(|error| self.failed("taking its plan", error.to_string()))
    }

    /// Ends a worker that cannot go on, and says why with its own last words.
    pub(crate) fn failed(&mut self, step: &str, reason: String) -> SandboxError {
        // While it lives, its stderr has no end.
        let stderr = if self.end().is_ok() { self.last_words() } else { String::new() };
        SandboxError::WorkerFailed { step: step.to_owned(), reason, stderr }
    }

    /// Takes the pidfd of init.
    pub(crate) fn adopt(&mut self, init: OwnedFd) {
        self.init = Some(init);
    }

    /// Kills the whole run. The launcher is left to reap init; before there is an init, it is the run.
    pub(crate) fn kill(&mut self) {
        // Both fail only when there is nobody left to kill.
        match &self.init {
            Some(init) => drop(pidfd_send_signal(init, Signal::KILL)),
            None => drop(self.child.kill()),
        }
    }

    /// Kills what is left of the run and waits until the last process is dead and reaped.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.kill();
        if let Some(init) = &self.init {
            // A pidfd of a namespace's init becomes readable only after everything in the namespace is dead.
            wait_readable(init, DEATH_WAIT)?;
        }
        if wait_readable(&self.launcher, LAUNCHER_WAIT).is_err() {
            self.child.kill()?;
            wait_readable(&self.launcher, LAUNCHER_WAIT)?;
        }
        self.child.wait().map(drop)
    }

    /// The beginning of what the worker said on stderr. Only after its end, since it blocks until then.
    pub(crate) fn last_words(&mut self) -> String {
        let mut said = Vec::new();
        // A read error leaves the words that came before it.
        let _read = self.stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "a worker could not be ended");
        }
    }
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process id that is none"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn wait_readable(fd: &OwnedFd, at_most: Duration) -> io::Result<()> {
    let until = Instant::now() + at_most;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
