//! The run loop: one thread that polls the worker, both streams, the kill switch, the out-of-memory event and the
//! timers until the run is over. It decides when a run is killed and records the reason before the first signal.

mod killing;
mod limit_checks;
mod output;
mod output_gathering;
mod worker_messages;

use crate::buffered_writes::{BufferedWriteLimiter, FIRST_CHECK};
use crate::cgroup::Leaf;
use crate::disk::DiskMonitor;
use crate::ending::RunObservations;
use crate::error::SandboxError;
use crate::kernel_memory::{KERNEL_MEMORY_BYTES_MAX, KernelMemoryMonitor};
use crate::kill_switch::KillSwitch;
use crate::open_files::OpenFileMonitor;
use crate::output_pipes::{OutputPipe, OutputPipes};
use crate::run_processes::{FreezeOwner, FreezeOwners, RunProcesses};
use crate::spec::{RunSpec, SandboxEvent};
use crate::worker_protocol::{Confinement, RunPlan, ToInit, pack};
use crate::zygote::Worker;
use output_gathering::OutputGathering;
use proctor_core::isolation::Isolation;
use proctor_core::outcome::{Exit, KillReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a worker may take to start the first command. It takes less than a millisecond; writing many scratch files
/// or a frozen host takes longer.
const FIRST_COMMAND_WAIT: Duration = Duration::from_secs(30);

/// How long the streams of a dead command may stay open. Only a process outside of the run can hold one.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// Interval between two checks of the leaf's counters.
const TICK: Duration = Duration::from_millis(250);

/// The same after an out-of-memory event: the kernel counts the kill a little later.
const TICK_AFTER_OOM_EVENT: Duration = Duration::from_millis(5);

/// Interval between two `Usage` events.
const USAGE_INTERVAL: Duration = Duration::from_secs(1);

/// Phase of a run. Each phase ends at its instant at the latest.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The worker unpacks its plan.
    SettingUp(Instant),
    /// Commands run until the deadline.
    Running(Instant),
    /// The processes were asked for their stacks; lasts until SIGTERM is sent.
    PrintingStacks(Instant),
    /// SIGTERM was sent; lasts until the end of the grace period.
    Terminating(Instant),
    /// Everything was killed or has ended; lasts until the run is given up.
    Dying(Instant),
}

/// Exit of a command whose output is not read to its end yet.
struct PendingExit {
    index: usize,
    exit: Exit,
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Control,
    Pipe(OutputPipe),
    Switch,
    OomEvent,
}

/// The loop and its state.
pub(crate) struct RunLoop<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) switch: &'a KillSwitch,
    pub(crate) worker: &'a Worker,
    pub(crate) sink: &'a mut dyn FnMut(SandboxEvent<'_>),
    started_at: Instant,
    phase: Phase,
    pipes: OutputPipes,
    pending: Option<PendingExit>,
    first_start: Option<Instant>,
    /// Layers and limits in force, until the event is sent.
    unreported_isolation: Option<Isolation>,
    /// Whether the worker has sent an invalid message, so that it is unknown which commands it has started.
    is_garbled: bool,
    /// Set when init is gone: the time at which streams that are still open are given up.
    drain_until: Option<Instant>,
    /// Whether the last command has exited with 0. From then on the leaf's counters are evidence and not a verdict.
    succeeded: bool,
    next_tick: Instant,
    next_usage: Instant,
    /// End of the grace period, if it has begun before SIGTERM: processes that print their stacks at a signal do so in it.
    grace_until: Option<Instant>,
    quick_ticks_until: Instant,
    gathering: OutputGathering,
    observations: RunObservations,
    disk: DiskMonitor,
    kernel_memory: KernelMemoryMonitor,
    next_memory_check: Instant,
    open_files: OpenFileMonitor,
    /// `None` before the first check, and if the kernel limits all writes of the run or nothing limits them.
    writes: Option<BufferedWriteLimiter>,
    next_writes_check: Instant,
    freeze_owners: FreezeOwners,
    confinement: Option<&'a Confinement>,
}

impl<'a> RunLoop<'a> {
    pub(crate) fn new(
        spec: &'a RunSpec,
        workspace: &OwnedFd,
        switch: &'a KillSwitch,
        worker: &'a Worker,
        sink: &'a mut dyn FnMut(SandboxEvent<'_>),
        started_at: Instant,
    ) -> Self {
        let disk = DiskMonitor::start(&spec.jail, workspace, &spec.limits);
        Self {
            spec,
            switch,
            worker,
            sink,
            started_at,
            phase: Phase::SettingUp(Instant::now() + FIRST_COMMAND_WAIT),
            pipes: OutputPipes::new(spec.limits.log_bytes_max),
            pending: None,
            first_start: None,
            unreported_isolation: None,
            is_garbled: false,
            drain_until: None,
            succeeded: false,
            next_tick: started_at + TICK.min(disk.first_check_delay()),
            next_usage: started_at + USAGE_INTERVAL,
            grace_until: None,
            quick_ticks_until: started_at,
            gathering: OutputGathering::new(started_at),
            observations: RunObservations::default(),
            disk,
            kernel_memory: KernelMemoryMonitor::new(KERNEL_MEMORY_BYTES_MAX),
            next_memory_check: started_at + TICK,
            open_files: OpenFileMonitor::new(spec.limits.pids_max),
            writes: None,
            next_writes_check: started_at + FIRST_CHECK,
            freeze_owners: FreezeOwners::default(),
            confinement: None,
        }
    }

    /// The same for commands that may do less than those of a run.
    pub(crate) fn confined(self, confinement: &'a Confinement) -> Self {
        Self { confinement: Some(confinement), ..self }
    }

    /// Runs to the end. An error means that no command was started.
    pub(crate) fn run(mut self) -> Result<RunObservations, SandboxError> {
        self.begin()?;
        loop {
            let now = Instant::now();
            self.handle_timers(now)?;
            self.flush_pending(now);
            if self.is_over(now) {
                break;
            }
            let ready_sources = match self.wait(now) {
                Ok(ready_sources) => ready_sources,
                Err(error) if self.first_start.is_none() => return Err(SandboxError::kernel("polling a run")(error)),
                Err(error) => {
                    tracing::error!(%error, "a run can no longer be polled");
                    break;
                }
            };
            for source in ready_sources {
                match source {
                    Source::Switch => self.kill(self.switch.reason().unwrap_or(KillReason::Cancelled)),
                    Source::OomEvent => self.handle_oom_event(),
                    Source::Pipe(pipe) => _ = self.read(pipe),
                    // The handling of another event may have received the message already.
                    Source::Control if self.has_worker_message() => self.handle_worker_message()?,
                    Source::Control => {}
                }
            }
        }
        self.finish()
    }

    /// Starts the commands unless the run is cancelled already.
    fn begin(&mut self) -> Result<(), SandboxError> {
        self.unreported_isolation = Some(self.worker.enforcement.isolation(self.spec, &self.disk)?);
        if let Some(reason) = self.switch.reason() {
            self.kill(reason);
            return Ok(());
        }
        let files = self.spec.scratch_files.iter().map(|file| file.bytes.as_slice());
        let plan = RunPlan::new(self.spec, self.confinement);
        let packed = pack(&plan, files).map_err(SandboxError::kernel("packing a plan"))?;
        self.worker.channel.send(&ToInit::Run, &[packed.as_fd()]).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => worker_died_error("taking its plan"),
            _ => SandboxError::from_io(error, "taking its plan", |error| {
                worker_failed_error("taking its plan", error.to_string())
            }),
        })
    }

    fn finish(mut self) -> Result<RunObservations, SandboxError> {
        self.check_oom_kills();
        self.drain_streams();
        self.drain_report();
        self.observations.disk_touched = self.disk.final_check();
        if self.first_start.is_none() && self.observations.killed.is_none() {
            // All its messages were received, and it reports a command before it starts it.
            return Err(if self.is_garbled { garbled_error() } else { worker_died_error("set-up") });
        }
        self.observations.worker_lost = !self.observations.is_empty && self.observations.killed.is_none();
        self.observations.output_bytes = self.pipes.bytes;
        self.observations.host_notes.extend(self.writes.as_ref().and_then(|writes| writes.note(Instant::now())));
        Ok(self.observations)
    }

    /// Handles everything that is due at a time.
    fn handle_timers(&mut self, now: Instant) -> Result<(), SandboxError> {
        match self.phase {
            // If this thread was not scheduled for a while, the worker's message may already be there, and is handled
            // first.
            Phase::SettingUp(until)
            | Phase::Running(until)
            | Phase::PrintingStacks(until)
            | Phase::Terminating(until)
                if now >= until && self.has_worker_message() => {}
            Phase::SettingUp(until) if now >= until => {
                let silent = io::Error::from(io::ErrorKind::TimedOut);
                return Err(SandboxError::kernel("waiting for a worker's first command")(silent));
            }
            Phase::Running(deadline) if now >= deadline => self.handle_deadline(now),
            Phase::PrintingStacks(until) if now >= until => self.terminate(now),
            Phase::Terminating(until) if now >= until => self.kill(KillReason::Deadline),
            _ => {}
        }
        if now >= self.next_tick {
            let quick = now < self.quick_ticks_until;
            self.next_tick = now + if quick { TICK_AFTER_OOM_EVENT } else { TICK };
            // Processor time is charged now and not only at the end.
            self.worker.charge_and_read_counters();
            self.handle_worker_then_check_leaf();
            self.check_tmp();
            self.check_disk();
            self.check_kernel_memory(now);
            self.check_open_files();
        }
        self.check_writes(now);
        if now >= self.next_usage && self.first_start.is_some() {
            self.next_usage = now + USAGE_INTERVAL;
            let usage = usage_of(self.leaf());
            (self.sink)(usage);
        }
        Ok(())
    }

    /// Waits for the first event or the next timer.
    fn wait(&self, now: Instant) -> io::Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(5);
        let mut fds = Vec::with_capacity(5);
        let mut add_source = |source, fd| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        };
        for pipe in OutputPipe::ALL.into_iter().filter(|_| self.gathers_until(now).is_none()) {
            if let Some(fd) = self.pipes.fd(pipe) {
                add_source(Source::Pipe(pipe), fd);
            }
        }
        if self.listens_to_worker() {
            add_source(Source::Control, self.worker.channel.as_fd());
        }
        if !matches!(self.phase, Phase::Dying(_)) {
            add_source(Source::Switch, self.switch.as_fd());
            if let Some(event) = self.leaf().and_then(Leaf::oom_event_fd) {
                add_source(Source::OomEvent, event);
            }
        }
        let timeout = Timespec::try_from(self.next_timer(now).saturating_duration_since(now)).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready_sources = fds.iter().zip(sources).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready_sources.map(|(_, source)| source).collect())
    }

    fn next_timer(&self, now: Instant) -> Instant {
        let (Phase::SettingUp(until)
        | Phase::Running(until)
        | Phase::PrintingStacks(until)
        | Phase::Terminating(until)
        | Phase::Dying(until)) = self.phase;
        let draining = self.pending.as_ref().map(|pending| pending.until).or(self.drain_until);
        let writes = (self.limits_buffered_writes() && self.first_start.is_some()).then_some(self.next_writes_check);
        [Some(until), Some(self.next_tick), draining, self.gathers_until(now), writes]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(until)
    }

    // When output gathers no more, if it does now: not when nothing can be added to it.
    fn gathers_until(&self, now: Instant) -> Option<Instant> {
        self.gathering.end(now).filter(|_| self.pending.is_none() && self.drain_until.is_none())
    }

    fn is_over(&self, now: Instant) -> bool {
        if self.observations.is_empty {
            return self.pending.is_none();
        }
        match (self.drain_until, self.phase) {
            (Some(drain_until), _) => self.pending.is_none() && (self.pipes.is_closed() || now >= drain_until),
            (None, Phase::Dying(give_up)) => now >= give_up,
            (None, _) => false,
        }
    }

    fn leaf(&self) -> Option<&'a dyn Leaf> {
        self.worker.leaf.as_deref()
    }

    fn processes(&self, owner: FreezeOwner) -> RunProcesses<'a> {
        RunProcesses { init: self.worker.pid, leaf: self.leaf(), owner, owners: self.freeze_owners.clone() }
    }
}

/// What a leaf uses now; nothing is known without one.
fn usage_of(leaf: Option<&dyn Leaf>) -> SandboxEvent<'static> {
    let counters = leaf.map(Leaf::counters).unwrap_or_default();
    let cpu = counters.cpu_user_s.zip(counters.cpu_system_s);
    let cpu = cpu.and_then(|(user, system)| Duration::try_from_secs_f64(user + system).ok());
    SandboxEvent::Usage {
        memory_bytes: leaf.and_then(Leaf::memory_bytes),
        cpu_ms: cpu.and_then(|cpu| u64::try_from(cpu.as_millis()).ok()),
        processes: leaf.and_then(|leaf| u32::try_from(leaf.pids().len()).ok()),
    }
}

fn worker_died_error(step: &str) -> SandboxError {
    SandboxError::WorkerDied { step: step.to_owned(), stderr: String::new() }
}

/// Error that is not retried, since a command may have been started.
fn garbled_error() -> SandboxError {
    let source = io::Error::other("the worker sent an invalid message");
    SandboxError::Kernel { operation: "receiving from a worker", source }
}

/// Error of a worker; its stderr, if any, is in the log of its launcher.
fn worker_failed_error(step: &str, reason: String) -> SandboxError {
    SandboxError::WorkerFailed { step: step.to_owned(), reason, stderr: String::new() }
}
