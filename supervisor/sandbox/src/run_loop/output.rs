//! What the run loop does with output: it reads the pipes, passes on what it read, and ends a command once its output has been read.

use super::{PendingExit, RunLoop};
use crate::output_pipes::OutputPipe;
use crate::spec::SandboxEvent;
use proctor_core::event::Stream;
use proctor_core::outcome::KillReason;
use std::time::Instant;

/// Most reads of a stream before it is given up: as much as the largest pipe of an unprivileged user holds, 1 MiB.
const FINAL_READS_MAX: usize = 16;

impl<'a> RunLoop<'a> {
    /// Sends the exit event of a dead command once its output has been sent.
    pub(super) fn flush_pending(&mut self, now: Instant) {
        let is_ready = |pending: &PendingExit| self.pipes.is_closed() || now >= pending.until;
        if !self.pending.as_ref().is_some_and(is_ready) {
            return;
        }
        // The exit stays pending meanwhile, so that no later message is received before its event is sent.
        self.drain_streams();
        self.drain_report();
        if let Some(PendingExit { index, exit, .. }) = self.pending.take() {
            self.pipes.close();
            self.observations.exits.push(exit);
            (self.sink)(SandboxEvent::CommandExited { index, exit });
        }
    }

    /// Reads a pipe once; returns whether there was data.
    pub(super) fn read(&mut self, pipe: OutputPipe) -> bool {
        let read = self.pipes.read(pipe);
        let has_data = read > 0;
        if has_data {
            self.gathering.record_read(read, Instant::now());
            self.handle_oom_event();
            let bytes = self.pipes.last_read(read);
            (self.sink)(match pipe {
                OutputPipe::Stream(stream) => SandboxEvent::Output { stream, bytes },
                OutputPipe::Report => SandboxEvent::Report { bytes },
                OutputPipe::Stacks => SandboxEvent::Stacks { bytes },
            });
        }
        if pipe == OutputPipe::Stacks && self.pipes.fd(pipe).is_none() {
            self.stacks_printed();
        }
        if self.pipes.is_flooded() {
            self.kill(KillReason::OutputFlood);
        }
        has_data
    }

    /// Reads the rest of a dead command's report: all of it is in the FIFO and nothing can be added. Then the stacks of its
    /// processes.
    pub(super) fn drain_report(&mut self) {
        while self.read(OutputPipe::Report) {}
        for _ in 0..FINAL_READS_MAX {
            if !self.read(OutputPipe::Stacks) {
                break;
            }
        }
    }

    /// Reads the rest of a dead command's streams, in case this thread was not scheduled for a while. Bounded, since a
    /// process outside of the run may hold a writing end and go on writing.
    pub(super) fn drain_streams(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..FINAL_READS_MAX {
                if !self.read(OutputPipe::Stream(stream)) {
                    break;
                }
            }
        }
    }
}
