//! The run loop: one thread that polls the worker, both streams, the kill switch, the out-of-memory event and the
//! timers until the run is over. It decides when a run is killed and records the reason before the first signal.

use crate::buffered_writes::{BufferedWriteLimiter, FIRST_CHECK};
use crate::cgroup::Leaf;
use crate::disk::{DiskCheck, DiskMonitor};
use crate::ending::{RunObservations, is_full};
use crate::error::SandboxError;
use crate::exec_failure::ExecFailure;
use crate::kernel_memory::{KERNEL_MEMORY_BYTES_MAX, KernelMemoryCheck, KernelMemoryMonitor};
use crate::kill_switch::KillSwitch;
use crate::open_files::OpenFileMonitor;
use crate::output_pipes::{OutputPipe, OutputPipes};
use crate::run_processes::{FreezeOwner, FreezeOwners, RunProcesses};
use crate::spec::{RunSpec, SandboxEvent, StackRequest};
use crate::worker_protocol::{Confinement, CpuTimes, Failure, FromInit, RunPlan, ToInit, pack};
use crate::zygote::{self, DEATH_WAIT, Worker};
use proctor_core::event::Stream;
use proctor_core::isolation::{Isolation, Network};
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

/// Most reads of a stream before it is given up: as much as the largest pipe of an unprivileged user holds, 1 MiB.
const FINAL_READS_MAX: usize = 16;

/// How long processes may print their stacks before SIGTERM, at most half of the grace period. Printing takes
/// milliseconds; a process on a loaded host, or at its processor limit, first waits for its turn.
const STACKS_WAIT: Duration = Duration::from_millis(1_500);

/// The same for a program that prints them, at most as long as the grace period, which begins afterwards: a loaded host takes
/// seconds for what an idle one does in a half, and no test must lose its time to clean up. SIGTERM is sent as soon as the program
/// ends.
const STACK_PROGRAM_WAIT: Duration = Duration::from_millis(4_000);

/// Interval between two checks of the leaf's counters.
const TICK: Duration = Duration::from_millis(250);

/// The same after an out-of-memory event: the kernel counts the kill a little later.
const TICK_AFTER_OOM_EVENT: Duration = Duration::from_millis(5);

/// How long the short interval is kept after an out-of-memory event.
const OOM_EVENT_WAIT: Duration = Duration::from_secs(2);

/// How long output gathers before it is read. A runner that reports each test would otherwise wake this thread for
/// each, and on a host with few processors its tests would wait for this thread.
const GATHER_TIME: Duration = Duration::from_millis(3);

/// A read of this many bytes shows a run that would soon wait for space in its pipe.
const BUSY_BYTES: usize = 16 * 1024;

/// How long output does not gather after such a read, so that gathering costs the run at most a thirtieth of its speed.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// Note of a run whose pipes could not be received, usually for lack of file descriptors.
const OUTPUT_UNREADABLE_NOTE: &str = "the host could not receive the run's output: the run was ended";

/// Interval between two steps of a count of locks.
const COUNT_INTERVAL: Duration = Duration::from_millis(5);

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
    /// Until when output gathers.
    gather_until: Instant,
    busy_until: Instant,
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
            gather_until: started_at,
            busy_until: started_at,
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

    /// Freezes a run that makes buffered writes faster than its limit until the time for them has passed.
    fn check_writes(&mut self, now: Instant) {
        if now < self.next_writes_check || self.first_start.is_none() || !self.limits_buffered_writes() {
            return;
        }
        let (run, leaf) = (self.processes(FreezeOwner::Writes), self.leaf());
        let writes = self.writes.get_or_insert_with(|| zygote::buffered_writes(self.spec, now));
        let dirty_bytes = || leaf.and_then(Leaf::dirty_bytes);
        self.next_writes_check = now + writes.check(now, &run, run.init, dirty_bytes);
    }

    fn limits_buffered_writes(&self) -> bool {
        self.worker.enforcement.writes_are_limited_by_v1()
    }

    /// Waits for the first event or the next timer.
    fn wait(&self, now: Instant) -> io::Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(5);
        let mut fds = Vec::with_capacity(5);
        let mut add_source = |source, fd| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        };
        for pipe in OutputPipe::ALL.into_iter().filter(|_| !self.is_gathering(now)) {
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
        let is_gathering = self.is_gathering(now).then_some(self.gather_until);
        let writes = (self.limits_buffered_writes() && self.first_start.is_some()).then_some(self.next_writes_check);
        [Some(until), Some(self.next_tick), draining, is_gathering, writes].into_iter().flatten().min().unwrap_or(until)
    }

    // Output does not gather when nothing can be added to it.
    fn is_gathering(&self, now: Instant) -> bool {
        now < self.gather_until && self.pending.is_none() && self.drain_until.is_none()
    }

    fn gather_after(&mut self, read: usize) {
        let now = Instant::now();
        if read >= BUSY_BYTES {
            self.busy_until = now + BUSY_FOR;
        } else if now >= self.busy_until {
            self.gather_until = now + GATHER_TIME;
        }
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

    /// Sends the exit event of a dead command once its output has been sent.
    fn flush_pending(&mut self, now: Instant) {
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
    fn read(&mut self, pipe: OutputPipe) -> bool {
        let read = self.pipes.read(pipe);
        let has_data = read > 0;
        if has_data {
            self.gather_after(read);
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
    fn drain_report(&mut self) {
        while self.read(OutputPipe::Report) {}
        for _ in 0..FINAL_READS_MAX {
            if !self.read(OutputPipe::Stacks) {
                break;
            }
        }
    }

    /// Reads the rest of a dead command's streams, in case this thread was not scheduled for a while. Bounded, since a
    /// process outside of the run may hold a writing end and go on writing.
    fn drain_streams(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..FINAL_READS_MAX {
                if !self.read(OutputPipe::Stream(stream)) {
                    break;
                }
            }
        }
    }

    fn handle_worker_message(&mut self) -> Result<(), SandboxError> {
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

    fn handle_oom_event(&mut self) {
        let now = Instant::now();
        if self.leaf().is_some_and(Leaf::clear_oom_event) {
            self.quick_ticks_until = now + OOM_EVENT_WAIT;
            self.next_tick = now + TICK_AFTER_OOM_EVENT;
        }
        if now >= self.quick_ticks_until {
            return;
        }
        // The output just read may be the runner's report of the kill.
        self.handle_worker_then_check_leaf();
    }

    /// Handles a waiting message first: if this thread was not scheduled for a while, the run may already have ended
    /// well.
    fn handle_worker_then_check_leaf(&mut self) {
        if self.first_start.is_some() && self.has_worker_message() {
            // Cannot fail after the first command: the worker can refuse a run only before it.
            _ = self.handle_worker_message();
        }
        self.check_oom_kills();
    }

    // While a command's output is still read, the worker's next message waits.
    fn listens_to_worker(&self) -> bool {
        self.drain_until.is_none() && self.pending.is_none() && !self.observations.is_empty
    }

    fn has_worker_message(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.worker.channel.as_fd(), PollFlags::IN)];
        self.listens_to_worker() && poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Kills the run if the kernel has killed one of its processes for memory. On v1 the kernel kills one process at a
    /// time; the rest of the run must not go on without it.
    ///
    /// A kill that is first seen after the last command has exited with 0 becomes a limit hit and leaves the outcome
    /// alone. So a runner that survives the kill of one of its children is killed as out of memory unless it exits with
    /// 0 within the milliseconds until this check: until the event wakes this thread, or [`TICK_AFTER_OOM_EVENT`], or
    /// [`TICK`] where there is no event. Between two commands the run is not over, whatever the first of them exited
    /// with.
    fn check_oom_kills(&mut self) {
        if !self.is_decided() && self.leaf().is_some_and(|leaf| leaf.oom_kills() > 0) {
            self.kill(KillReason::OutOfMemory);
        }
    }

    fn check_tmp(&mut self) {
        if let Some(scratch) = &self.worker.scratch {
            self.observations.tmp_full |= is_full(scratch);
        }
    }

    /// Kills a run that has put too much on disk, also in the grace period after its deadline.
    fn check_disk(&mut self) {
        let run = self.processes(FreezeOwner::Disk);
        match self.disk.check(&run) {
            DiskCheck::Within(pause) => self.next_tick = self.next_tick.min(Instant::now() + pause),
            DiskCheck::Exceeded => {
                if !self.succeeded {
                    self.kill(KillReason::DiskFull);
                }
                // After the kill, before which it would go on writing.
                self.disk.release(&run);
            }
        }
    }

    /// Kills a run that holds more kernel memory, of the kinds that no controller counts, than it may.
    fn check_kernel_memory(&mut self, now: Instant) {
        // A disk walk has the run frozen and relies on it.
        if now < self.next_memory_check || self.disk.has_frozen_run() || self.first_start.is_none() {
            return;
        }
        let run = self.processes(FreezeOwner::KernelMemory);
        let has_own_network = self.spec.jail.network == Network::None;
        let sockets = has_own_network.then(|| format!("/proc/{}/net/netlink", run.init));
        self.next_memory_check = now + TICK;
        match self.kernel_memory.check(&run, sockets.as_deref()) {
            KernelMemoryCheck::Within => {}
            KernelMemoryCheck::Counting => {
                self.next_memory_check = now + COUNT_INTERVAL;
                self.next_tick = self.next_tick.min(self.next_memory_check);
            }
            KernelMemoryCheck::Exceeded(found) => {
                if !self.is_decided() {
                    self.kill_for_kernel_resource(found.note(KERNEL_MEMORY_BYTES_MAX));
                }
                self.kernel_memory.release(&run);
            }
        }
    }

    /// Kills a run that leaves the host's other users few files to open.
    fn check_open_files(&mut self) {
        if !self.is_decided()
            && let Some(note) = self.open_files.check(&self.processes(FreezeOwner::KernelMemory))
        {
            self.kill_for_kernel_resource(note);
        }
    }

    /// Whether the outcome no longer depends on the run's resource use.
    fn is_decided(&self) -> bool {
        self.observations.killed.is_some() || self.succeeded
    }

    /// Kills a run for its use of a kernel resource, which `note` explains.
    fn kill_for_kernel_resource(&mut self, note: String) {
        self.observations.host_notes.push(note);
        self.kill(KillReason::KernelMemory);
    }

    /// Handles the deadline: the processes may print their stacks, and then get SIGTERM.
    fn handle_deadline(&mut self, now: Instant) {
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
    fn stacks_printed(&mut self) {
        if let Phase::PrintingStacks(until) = &mut self.phase {
            *until = Instant::now().min(*until);
        }
    }

    /// Sends SIGTERM to everything, for the rest of the grace period.
    fn terminate(&mut self, now: Instant) {
        let grace_until = self.grace_until.unwrap_or(now + self.grace());
        self.thaw_writes();
        self.send_to_worker(&ToInit::Terminate);
        self.phase = Phase::Terminating(grace_until.max(now));
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.spec.limits.grace_ms)
    }

    /// Lifts the freeze of a run that writes too fast: a frozen run could not handle a signal.
    fn thaw_writes(&mut self) {
        let run = self.processes(FreezeOwner::Writes);
        if let Some(writes) = &mut self.writes {
            writes.release(Instant::now(), &run);
        }
    }

    /// Kills everything at once.
    fn kill(&mut self, reason: KillReason) {
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

    /// Sends a message. A worker that cannot receive is dead, which the end of its socket shows in a moment.
    fn send_to_worker(&mut self, message: &ToInit) {
        if let Err(error) = self.worker.channel.send(message, &[]) {
            tracing::debug!(%error, ?message, "a message to the worker could not be sent");
        }
    }

    /// Sends the `Started` event: before all other events, and not before the run starts, since a prepared worker may
    /// be dead.
    fn report_isolation(&mut self) {
        if let Some(isolation) = self.unreported_isolation.take() {
            (self.sink)(SandboxEvent::Started { isolation });
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
