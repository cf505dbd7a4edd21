//! How the run loop ends a run: the stacks at the deadline, SIGTERM, the grace period, and SIGKILL. The reason is recorded and reported
//! before the first signal.

use super::{Phase, RunLoop};
use crate::cgroup::Leaf;
use crate::spec::{SandboxEvent, StackRequest};
use crate::worker_protocol::ToInit;
use crate::zygote::DEATH_WAIT;
use proctor_core::outcome::KillReason;
use std::time::{Duration, Instant};

/// How long processes may print their stacks before SIGTERM, at most half of the grace period. Printing takes
/// milliseconds; a process on a loaded host, or at its processor limit, first waits for its turn.
const STACKS_WAIT: Duration = Duration::from_millis(1_500);

/// The same for a program that prints them, at most as long as the grace period, which begins afterwards: a loaded host takes
/// seconds for what an idle one does in a half, and no test must lose its time to clean up. SIGTERM is sent as soon as the program
/// ends.
const STACK_PROGRAM_WAIT: Duration = Duration::from_millis(4_000);

impl<'a> RunLoop<'a> {
    /// Handles the deadline: the processes may print their stacks, and then get SIGTERM.
    pub(super) fn handle_deadline(&mut self, now: Instant) {
        if self.spec.limits.grace_ms == 0 {
            return self.kill(KillReason::Deadline);
        }
        self.record_kill(KillReason::Deadline);
        let Some(request) = self.stack_request() else { return self.terminate(now) };
        let grace = self.grace();
        let (by_signal, wait) = match request {
            StackRequest::Signal(_) => {
                self.grace_until = Some(now + grace);
                (true, STACKS_WAIT.min(grace / 2))
            }
            StackRequest::Program(_) => {
                self.observations.before_stacks = self.leaf().map(Leaf::counters);
                (false, STACK_PROGRAM_WAIT.min(grace))
            }
        };
        (self.sink)(SandboxEvent::StacksRequested { by_signal });
        self.thaw_writes();
        self.send_to_worker(&ToInit::PrintStacks);
        self.phase = Phase::PrintingStacks(now + wait);
    }

    /// How the processes of the current command are asked for their stacks.
    fn stack_request(&self) -> Option<&'a StackRequest> {
        // The next command has not started, if its output is still read.
        let request = self.spec.stack_requests.get(self.observations.exits.len())?.as_ref();
        request.filter(|_| self.pending.is_none())
    }

    /// Handles the end of the program that prints stacks: nothing is waited for any more.
    pub(super) fn stacks_printed(&mut self) {
        if let Phase::PrintingStacks(until) = &mut self.phase {
            *until = Instant::now().min(*until);
        }
    }

    /// Sends SIGTERM to everything, for the rest of the grace period.
    pub(super) fn terminate(&mut self, now: Instant) {
        let grace_until = self.grace_until.unwrap_or(now + self.grace());
        self.thaw_writes();
        self.send_to_worker(&ToInit::Terminate);
        self.phase = Phase::Terminating(grace_until.max(now));
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.spec.limits.grace_ms)
    }

    /// Kills everything at once.
    pub(super) fn kill(&mut self, reason: KillReason) {
        if self.observations.is_empty || self.drain_until.is_some() {
            // The commands have ended by themselves; only an out-of-memory kill that ended them still matters. One that
            // they survived does not come here (`check_oom_kills`).
            if reason == KillReason::OutOfMemory {
                self.record_kill(reason);
            }
            return;
        }
        self.record_kill(reason);
        if let Phase::Dying(_) = self.phase {
            return;
        }
        self.phase = Phase::Dying(Instant::now() + DEATH_WAIT);
        if let Some(start) = self.first_start {
            self.observations.wall = start.elapsed();
        }
        if let Some(leaf) = self.leaf() {
            leaf.lift_throttles();
        }
        self.worker.kill();
    }

    /// Records the reason of the kill and reports it before the first signal. The first reason stays.
    fn record_kill(&mut self, reason: KillReason) {
        if self.observations.killed.is_none() {
            self.observations.killed = Some(reason);
            self.report_isolation();
            (self.sink)(SandboxEvent::Killing { reason });
        }
    }

    /// Sends the `Started` event: before all other events, and not before the run starts, since a prepared worker may
    /// be dead.
    pub(super) fn report_isolation(&mut self) {
        if let Some(isolation) = self.unreported_isolation.take() {
            (self.sink)(SandboxEvent::Started { isolation });
        }
    }
}
