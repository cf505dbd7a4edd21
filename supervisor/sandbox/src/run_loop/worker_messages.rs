//! What the run loop does with the messages of the worker, and those that it sends.

use super::{DRAIN_WAIT, PendingExit, Phase, RunLoop, USAGE_INTERVAL, worker_failed_error};
use crate::error::SandboxError;
use crate::exec_failure::ExecFailure;
use crate::spec::SandboxEvent;
use crate::worker_protocol::{CpuTimes, Failure, FromInit, ToInit};
use crate::zygote::DEATH_WAIT;
use proctor_core::outcome::{Exit, KillReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Note of a run whose pipes could not be received, usually for lack of file descriptors.
const OUTPUT_UNREADABLE_NOTE: &str = "the host could not receive the run's output: the run was ended";

impl<'a> RunLoop<'a> {
    pub(super) fn handle_worker_message(&mut self) -> Result<(), SandboxError> {
        let ready_sources = match self.worker.channel.receive_allowing_lost_fds::<FromInit>() {
            Ok(ready_sources) => ready_sources,
            Err(error) => {
                tracing::error!(%error, "the worker sent an invalid message");
                self.is_garbled = true;
                None
            }
        };
        let Some((message, fds)) = ready_sources else {
            self.drain_until = Some(Instant::now() + DRAIN_WAIT);
            // Whatever init died of, the rest of the run dies with it.
            if let Some(leaf) = self.leaf() {
                leaf.lift_throttles();
            }
            self.worker.kill();
            self.phase = Phase::Dying(Instant::now() + DEATH_WAIT);
            return Ok(());
        };
        let mut fds = fds.map(Vec::into_iter);
        let mut fd = || fds.as_mut().and_then(Iterator::next);
        match message {
            // A compromised init cannot report commands out of order.
            FromInit::CommandStarted { index } | FromInit::CommandExited { index, .. }
                if index != self.observations.exits.len() || index >= self.spec.commands.len() =>
            {
                tracing::error!(index, "a worker reported a command out of order");
                self.is_garbled = true;
                self.worker.kill();
            }
            FromInit::CommandStarted { index } => self.command_started(index, [fd(), fd(), fd()]),
            FromInit::PrinterStarted => {
                let opened = fd().map(|stacks| self.pipes.open_stacks(stacks));
                if let Some(Err(error)) = &opened {
                    tracing::warn!(%error, "the stacks of a run cannot be read");
                }
                if !matches!(opened, Some(Ok(_))) {
                    self.observations.before_stacks = None;
                    self.stacks_printed();
                }
            }
            FromInit::CommandExited { index, exit, failure, cpu, is_last } => {
                self.note_exec_failure(index, failure);
                self.command_exited(index, exit, cpu);
                if is_last {
                    self.observations.is_empty = true;
                    // No deadline any more, and no process to kill.
                    self.phase = Phase::Dying(Instant::now() + DRAIN_WAIT);
                }
            }
            FromInit::Failed(Failure { step, reason, errno }) => {
                if self.first_start.is_none() && self.observations.killed.is_none() {
                    let source = errno.map_or_else(|| io::Error::other(reason.clone()), io::Error::from_raw_os_error);
                    return Err(SandboxError::from_io(source, &step, |_| worker_failed_error(&step, reason)));
                }
                tracing::error!(%step, %reason, "a worker failed during a run");
            }
            message @ (FromInit::Ready { .. } | FromInit::Refused(_)) => {
                tracing::error!(?message, "a worker sent an unexpected message");
                self.is_garbled = true;
                self.worker.kill();
            }
        }
        Ok(())
    }

    fn command_started(&mut self, index: usize, ends: [Option<OwnedFd>; 3]) {
        let now = Instant::now();
        if self.first_start.is_none() {
            self.first_start = Some(now);
            self.observations.setup = now - self.started_at;
            self.next_usage = now + USAGE_INTERVAL;
            if let Phase::SettingUp(_) = self.phase {
                self.phase = Phase::Running(now + Duration::from_millis(self.spec.limits.wall_ms_max));
            }
        }
        self.report_isolation();
        (self.sink)(SandboxEvent::CommandStarted { index });
        let result = match ends {
            [Some(stdout), Some(stderr), report] => self.pipes.open(stdout, stderr, report),
            _ => Err(io::Error::other("the message carried no pipes")),
        };
        if let Err(error) = result {
            tracing::error!(%error, "the output of a run cannot be read");
            self.observations.host_notes.push(OUTPUT_UNREADABLE_NOTE.to_owned());
            self.kill(KillReason::HostFailed);
        }
    }

    /// Adds a note, once if several commands fail for the same reason.
    fn note_exec_failure(&mut self, index: usize, failure: Option<ExecFailure>) {
        let Some((failure, command)) = failure.zip(self.spec.commands.get(index)) else { return };
        let note = failure.note(command, &self.spec.jail.workspace);
        if !self.observations.host_notes.contains(&note) {
            self.observations.host_notes.push(note);
        }
    }

    fn command_exited(&mut self, index: usize, exit: Exit, cpu: CpuTimes) {
        self.succeeded = exit == Exit::Code(0) && index + 1 == self.spec.commands.len();
        // The command may have died of the out-of-memory kill that the leaf has just counted.
        self.check_oom_kills();
        let now = Instant::now();
        self.observations.cpu = cpu;
        self.observations.wall = self.first_start.map_or(Duration::ZERO, |start| now - start);
        self.pending = Some(PendingExit { index, exit, until: now + DRAIN_WAIT });
    }

    // While a command's output is still read, the worker's next message waits.
    pub(super) fn listens_to_worker(&self) -> bool {
        self.drain_until.is_none() && self.pending.is_none() && !self.observations.is_empty
    }

    pub(super) fn has_worker_message(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.worker.channel.as_fd(), PollFlags::IN)];
        self.listens_to_worker() && poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Sends a message. A worker that cannot receive is dead, which the end of its socket shows in a moment.
    pub(super) fn send_to_worker(&mut self, message: &ToInit) {
        if let Err(error) = self.worker.channel.send(message, &[]) {
            tracing::debug!(%error, ?message, "a message to the worker could not be sent");
        }
    }
}
