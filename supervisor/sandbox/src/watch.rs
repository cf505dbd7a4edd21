//! The run loop: one thread that hears the worker, both streams, the kill switch, the out-of-memory bell and the clocks
//! until nothing of the run is left to hear. It decides when a run is killed and records why before the first signal.
//! Must not know how a layer, a limit or a kill is made.

use crate::buffered_writes::{BufferedWrites, FIRST_LOOK};
use crate::cgroup::Leaf;
use crate::disk::{Disk, Seen};
use crate::error::SandboxError;
use crate::figures::{Watched, is_full};
use crate::kill::KillSwitch;
use crate::message::{CpuTimes, Failure, FromInit, RunPlan, ToInit, pack};
use crate::open_files::OpenFiles;
use crate::processes::{Holder, Holders, Processes};
use crate::room::{self, DEATH_WAIT, Worker};
use crate::spec::{RunSpec, SandboxEvent};
use crate::streams::{Outlet, Streams};
use crate::uncharged::{Counted, KernelMemory, UNCHARGED_BYTES_MAX};
use crate::unstarted::Unstarted;
use proctor_core::event::Stream;
use proctor_core::isolation::{Isolation, Network};
use proctor_core::outcome::{Exit, KillReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a worker may take to begin with the first command. It takes less than a millisecond; writing many scratch files
/// or a frozen host takes longer.
const SETUP_WAIT: Duration = Duration::from_secs(30);

/// How long the streams of a dead command may stay open. Only a process outside of the run can hold one.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// Reads of a stream before it is given up: as much as the largest pipe holds that an ordinary user may make, 1 MiB.
const LAST_READS: usize = 16;

/// Pause between two looks at the leaf's counters.
const TICK: Duration = Duration::from_millis(250);

/// The same after the out-of-memory bell, whose kill is counted a little later.
const TICK_AFTER_BELL: Duration = Duration::from_millis(5);

/// How long after the bell the quick ticks go on.
const BELL_WAIT: Duration = Duration::from_secs(2);

/// How long what a run writes may gather before it is read. A runner that tells of each test would wake us for each, and be
/// waited for by its own tests on a host with few processors.
const REST: Duration = Duration::from_millis(3);

/// A read of so many bytes shows a run that would soon wait for room in its pipe.
const BUSY_BYTES: usize = 16 * 1024;

/// For how long nothing gathers after such a read: resting costs it a thirtieth of its speed at most.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// Said of a run whose pipes could not be taken, for want of descriptors as a rule.
const UNREAD: &str = "the host could not take the run's output: the run was ended";

/// Pause between two looks of a count of locks.
const COUNT_PAUSE: Duration = Duration::from_millis(5);

/// Pause between two `Usage` events.
const USAGE_PAUSE: Duration = Duration::from_secs(1);

/// Where a run is. Each phase ends at its instant at the latest.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The worker unpacks its plan.
    SettingUp(Instant),
    /// Commands run, until the deadline.
    Running(Instant),
    /// SIGTERM was sent, until the end of the grace.
    Terminating(Instant),
    /// Everything was killed, or has ended by itself; until it is given up.
    Dying(Instant),
}

/// A command that is dead and whose output is not yet at its end.
struct Pending {
    index: usize,
    exit: Exit,
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Control,
    Outlet(Outlet),
    Switch,
    Bell,
}

/// The loop and its state.
pub(crate) struct Watch<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) switch: &'a KillSwitch,
    pub(crate) worker: &'a Worker,
    pub(crate) sink: &'a mut dyn FnMut(SandboxEvent<'_>),
    begun: Instant,
    phase: Phase,
    streams: Streams,
    pending: Option<Pending>,
    first_start: Option<Instant>,
    /// What is in force, until it is told.
    untold: Option<Isolation>,
    /// Whether the worker was heard to say something that made no sense, so that nobody knows what it has begun.
    is_garbled: bool,
    /// Set once init is gone: when streams that are still open are given up.
    control_gone: Option<Instant>,
    /// Whether the last command has exited with 0. What the leaf counts is evidence from then on, not a verdict.
    ended_well: bool,
    next_tick: Instant,
    next_usage: Instant,
    quick_until: Instant,
    /// Until when what is written gathers.
    rests_until: Instant,
    busy_until: Instant,
    seen: Watched,
    disk: Disk,
    kernel_memory: KernelMemory,
    next_count: Instant,
    open_files: OpenFiles,
    /// `None` before the first look, and where the kernel bounds all that a run writes, or nothing does.
    writes: Option<BufferedWrites>,
    next_writes: Instant,
    holders: Holders,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        spec: &'a RunSpec,
        workspace: &OwnedFd,
        switch: &'a KillSwitch,
        worker: &'a Worker,
        sink: &'a mut dyn FnMut(SandboxEvent<'_>),
        begun: Instant,
    ) -> Self {
        let disk = Disk::watch(&spec.jail, workspace, &spec.limits);
        Self {
            spec,
            switch,
            worker,
            sink,
            begun,
            phase: Phase::SettingUp(Instant::now() + SETUP_WAIT),
            streams: Streams::new(spec.limits.log_bytes_max),
            pending: None,
            first_start: None,
            untold: None,
            is_garbled: false,
            control_gone: None,
            ended_well: false,
            next_tick: begun + TICK.min(disk.first_pause()),
            next_usage: begun + USAGE_PAUSE,
            quick_until: begun,
            rests_until: begun,
            busy_until: begun,
            seen: Watched::default(),
            disk,
            kernel_memory: KernelMemory::new(UNCHARGED_BYTES_MAX),
            next_count: begun + TICK,
            open_files: OpenFiles::new(spec.limits.pids_max),
            writes: None,
            next_writes: begun + FIRST_LOOK,
            holders: Holders::default(),
        }
    }

    /// Runs to the end. An error means that no command was started.
    pub(crate) fn watch(mut self) -> Result<Watched, SandboxError> {
        self.begin()?;
        loop {
            let now = Instant::now();
            self.clocks(now)?;
            self.flush_pending(now);
            if self.is_over(now) {
                break;
            }
            let heard = match self.wait(now) {
                Ok(heard) => heard,
                Err(error) if self.first_start.is_none() => return Err(SandboxError::kernel("polling a run")(error)),
                Err(error) => {
                    tracing::error!(%error, "a run can no longer be heard");
                    break;
                }
            };
            for source in heard {
                match source {
                    Source::Switch => self.kill(self.switch.reason().unwrap_or(KillReason::Cancelled)),
                    Source::Bell => self.hear_bell(),
                    Source::Outlet(outlet) => _ = self.read(outlet),
                    // What a bell was about may have been asked for already.
                    Source::Control if self.worker_speaks() => self.hear_worker()?,
                    Source::Control => {}
                }
            }
        }
        self.finish()
    }

    /// Lets the worker go unless the run is over already.
    fn begin(&mut self) -> Result<(), SandboxError> {
        self.untold = Some(self.worker.in_force.isolation(self.spec, &self.disk)?);
        if let Some(reason) = self.switch.reason() {
            self.kill(reason);
            return Ok(());
        }
        let files = self.spec.scratch_files.iter().map(|file| file.bytes.as_slice());
        let packed = pack(&RunPlan::of(self.spec), files).map_err(SandboxError::kernel("packing a plan"))?;
        self.worker.channel.send(&ToInit::Run, &[packed.as_fd()]).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => worker_died("taking its plan"),
            _ => {
                SandboxError::of(error, "taking its plan", |error| worker_failed("taking its plan", error.to_string()))
            }
        })
    }

    fn finish(mut self) -> Result<Watched, SandboxError> {
        self.look_at_leaf();
        self.drain_streams();
        self.drain_report();
        self.seen.disk_touched = self.disk.last_look();
        if self.first_start.is_none() && self.seen.killed.is_none() {
            // What it said has all been heard: it says that a command starts before it starts it.
            return Err(if self.is_garbled { garbled() } else { worker_died("set-up") });
        }
        self.seen.worker_lost = !self.seen.is_empty && self.seen.killed.is_none();
        self.seen.output_bytes = self.streams.bytes;
        self.seen.host_notes.extend(self.writes.as_ref().and_then(|writes| writes.note(Instant::now())));
        Ok(self.seen)
    }

    /// Everything that happens because time has passed.
    fn clocks(&mut self, now: Instant) -> Result<(), SandboxError> {
        match self.phase {
            // Whoever stood still that long himself may find the answer waiting for him, and it is heard first.
            Phase::SettingUp(until) | Phase::Running(until) | Phase::Terminating(until)
                if now >= until && self.worker_speaks() => {}
            Phase::SettingUp(until) if now >= until => {
                let silent = io::Error::from(io::ErrorKind::TimedOut);
                return Err(SandboxError::kernel("waiting for a worker's first command")(silent));
            }
            Phase::Running(deadline) if now >= deadline => self.terminate(now),
            Phase::Terminating(until) if now >= until => self.kill(KillReason::Deadline),
            _ => {}
        }
        if now >= self.next_tick {
            let quick = now < self.quick_until;
            self.next_tick = now + if quick { TICK_AFTER_BELL } else { TICK };
            // What it has used so far is charged now, not when it ends.
            self.worker.count();
            self.hear_and_look_at_leaf();
            self.look_at_tmp();
            self.look_at_disk();
            self.look_at_kernel_memory(now);
            self.look_at_open_files();
        }
        self.look_at_writes(now);
        if now >= self.next_usage && self.first_start.is_some() {
            self.next_usage = now + USAGE_PAUSE;
            let memory_bytes = self.leaf().and_then(Leaf::memory_bytes);
            (self.sink)(SandboxEvent::Usage { memory_bytes });
        }
        Ok(())
    }

    /// A run that writes faster than it may behind the page cache stands still until the time for it is over.
    fn look_at_writes(&mut self, now: Instant) {
        if now < self.next_writes || self.first_start.is_none() || !self.watches_writes() {
            return;
        }
        let (run, leaf) = (self.processes(Holder::Writes), self.leaf());
        let writes = self.writes.get_or_insert_with(|| room::buffered_writes(self.spec, now));
        let unwritten = || leaf.and_then(Leaf::unwritten_bytes);
        self.next_writes = now + writes.look(now, &run, run.init, unwritten);
    }

    fn watches_writes(&self) -> bool {
        self.worker.in_force.bounds_writes_in_v1()
    }

    /// Waits for the first thing to hear, or for the next clock.
    fn wait(&self, now: Instant) -> io::Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(5);
        let mut fds = Vec::with_capacity(5);
        let mut listen = |source, fd| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        };
        for outlet in Outlet::ALL.into_iter().filter(|_| !self.rests(now)) {
            if let Some(fd) = self.streams.fd(outlet) {
                listen(Source::Outlet(outlet), fd);
            }
        }
        if self.hears_worker() {
            listen(Source::Control, self.worker.channel.as_fd());
        }
        if !matches!(self.phase, Phase::Dying(_)) {
            listen(Source::Switch, self.switch.as_fd());
            if let Some(bell) = self.leaf().and_then(Leaf::oom_bell) {
                listen(Source::Bell, bell);
            }
        }
        let timeout = Timespec::try_from(self.next_clock(now).saturating_duration_since(now)).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let heard = fds.iter().zip(sources).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(heard.map(|(_, source)| source).collect())
    }

    fn next_clock(&self, now: Instant) -> Instant {
        let (Phase::SettingUp(until) | Phase::Running(until) | Phase::Terminating(until) | Phase::Dying(until)) =
            self.phase;
        let draining = self.pending.as_ref().map(|pending| pending.until).or(self.control_gone);
        let rests = self.rests(now).then_some(self.rests_until);
        let writes = (self.watches_writes() && self.first_start.is_some()).then_some(self.next_writes);
        [Some(until), Some(self.next_tick), draining, rests, writes].into_iter().flatten().min().unwrap_or(until)
    }

    // Nothing gathers that nobody will add to.
    fn rests(&self, now: Instant) -> bool {
        now < self.rests_until && self.pending.is_none() && self.control_gone.is_none()
    }

    fn rest(&mut self, taken: usize) {
        let now = Instant::now();
        if taken >= BUSY_BYTES {
            self.busy_until = now + BUSY_FOR;
        } else if now >= self.busy_until {
            self.rests_until = now + REST;
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        if self.seen.is_empty {
            return self.pending.is_none();
        }
        match (self.control_gone, self.phase) {
            (Some(drain_until), _) => self.pending.is_none() && (self.streams.is_closed() || now >= drain_until),
            (None, Phase::Dying(give_up)) => now >= give_up,
            (None, _) => false,
        }
    }

    /// Tells of a dead command once its output has been passed on.
    fn flush_pending(&mut self, now: Instant) {
        let is_ready = |pending: &Pending| self.streams.is_closed() || now >= pending.until;
        if !self.pending.as_ref().is_some_and(is_ready) {
            return;
        }
        // While it is pending: nothing that comes after it may be heard before it is told.
        self.drain_streams();
        self.drain_report();
        if let Some(Pending { index, exit, .. }) = self.pending.take() {
            self.streams.close();
            self.seen.exits.push(exit);
            (self.sink)(SandboxEvent::CommandExited { index, exit });
        }
    }

    /// Whether there was something.
    fn read(&mut self, outlet: Outlet) -> bool {
        let taken = self.streams.read(outlet);
        let any = taken > 0;
        if any {
            self.rest(taken);
            self.hear_bell();
            let bytes = self.streams.taken(taken);
            (self.sink)(match outlet {
                Outlet::Stream(stream) => SandboxEvent::Output { stream, bytes },
                Outlet::Report => SandboxEvent::Report { bytes },
            });
        }
        if self.streams.is_flooded() {
            self.kill(KillReason::OutputFlood);
        }
        any
    }

    /// What a command that is dead has reported: all of it is in the FIFO, and nobody is left to add to it.
    fn drain_report(&mut self) {
        while self.read(Outlet::Report) {}
    }

    /// What is left in the pipes of a command that is dead, for a supervisor that stood still while it should have read. Bounded,
    /// since somebody outside of the run may hold a writing end and go on.
    fn drain_streams(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..LAST_READS {
                if !self.read(Outlet::Stream(stream)) {
                    break;
                }
            }
        }
    }

    fn hear_worker(&mut self) -> Result<(), SandboxError> {
        let heard = match self.worker.channel.receive_word::<FromInit>() {
            Ok(heard) => heard,
            Err(error) => {
                tracing::error!(%error, "the worker's words make no sense");
                self.is_garbled = true;
                None
            }
        };
        let Some((message, fds)) = heard else {
            self.control_gone = Some(Instant::now() + DRAIN_WAIT);
            // Whatever init died of, the rest of the run dies with it.
            if let Some(leaf) = self.leaf() {
                leaf.lift();
            }
            self.worker.kill();
            self.phase = Phase::Dying(Instant::now() + DEATH_WAIT);
            return Ok(());
        };
        let mut fds = fds.map(Vec::into_iter);
        let mut fd = || fds.as_mut().and_then(Iterator::next);
        match message {
            // Whatever a run might have made of its init: its commands start and end one after the other.
            FromInit::CommandStarted { index } | FromInit::CommandExited { index, .. }
                if index != self.seen.exits.len() || index >= self.spec.commands.len() =>
            {
                tracing::error!(index, "a worker speaks of a command that is not its turn");
                self.is_garbled = true;
                self.worker.kill();
            }
            FromInit::CommandStarted { index } => self.command_started(index, [fd(), fd(), fd()]),
            FromInit::CommandExited { index, exit, unstarted, cpu, is_last } => {
                self.note_unstarted(index, unstarted);
                self.command_exited(index, exit, cpu);
                if is_last {
                    self.seen.is_empty = true;
                    // No deadline any more, and nobody to kill.
                    self.phase = Phase::Dying(Instant::now() + DRAIN_WAIT);
                }
            }
            FromInit::Failed(Failure { step, reason, errno }) => {
                if self.first_start.is_none() && self.seen.killed.is_none() {
                    let source = errno.map_or_else(|| io::Error::other(reason.clone()), io::Error::from_raw_os_error);
                    return Err(SandboxError::of(source, &step, |_| worker_failed(&step, reason)));
                }
                tracing::error!(%step, %reason, "a worker failed in the middle of a run");
            }
            said @ (FromInit::Ready { .. } | FromInit::Refused(_)) => {
                tracing::error!(?said, "a worker speaks out of turn");
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
            self.seen.setup = now - self.begun;
            self.next_usage = now + USAGE_PAUSE;
            if let Phase::SettingUp(_) = self.phase {
                self.phase = Phase::Running(now + Duration::from_millis(self.spec.limits.wall_ms_max));
            }
        }
        self.tell_what_is_in_force();
        (self.sink)(SandboxEvent::CommandStarted { index });
        let opened = match ends {
            [Some(stdout), Some(stderr), report] => self.streams.open(stdout, stderr, report),
            _ => Err(io::Error::other("no pipes came along")),
        };
        if let Err(error) = opened {
            tracing::error!(%error, "a run cannot be read");
            self.seen.host_notes.push(UNREAD.to_owned());
            self.kill(KillReason::HostFailed);
        }
    }

    /// Many commands may have one and the same reason.
    fn note_unstarted(&mut self, index: usize, unstarted: Option<Unstarted>) {
        let Some((unstarted, command)) = unstarted.zip(self.spec.commands.get(index)) else { return };
        let note = unstarted.note(command, &self.spec.jail.workspace);
        if !self.seen.host_notes.contains(&note) {
            self.seen.host_notes.push(note);
        }
    }

    fn command_exited(&mut self, index: usize, exit: Exit, cpu: CpuTimes) {
        self.ended_well = exit == Exit::Code(0) && index + 1 == self.spec.commands.len();
        // The command may have died of the very kill that the leaf has just counted.
        self.look_at_leaf();
        let now = Instant::now();
        self.seen.cpu = cpu;
        self.seen.wall = self.first_start.map_or(Duration::ZERO, |start| now - start);
        self.pending = Some(Pending { index, exit, until: now + DRAIN_WAIT });
    }

    fn hear_bell(&mut self) {
        let now = Instant::now();
        if self.leaf().is_some_and(Leaf::hush) {
            self.quick_until = now + BELL_WAIT;
            self.next_tick = now + TICK_AFTER_BELL;
        }
        if now >= self.quick_until {
            return;
        }
        // What was just read may be what the runner has to say of the kill.
        self.hear_and_look_at_leaf();
    }

    /// Whoever stood still meanwhile may find that the run is over already, and well, whatever is counted now.
    fn hear_and_look_at_leaf(&mut self) {
        if self.first_start.is_some() && self.worker_speaks() {
            // It can refuse a run only before the first command.
            _ = self.hear_worker();
        }
        self.look_at_leaf();
    }

    // While a command's output is still coming, what the worker says next has to wait.
    fn hears_worker(&self) -> bool {
        self.control_gone.is_none() && self.pending.is_none() && !self.seen.is_empty
    }

    fn worker_speaks(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.worker.channel.as_fd(), PollFlags::IN)];
        self.hears_worker() && poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// v1 kills one process at a time. The first kill is the verdict; the rest of the run must not go on without it.
    ///
    /// Unless the run has got over it: a kill that is first seen when the last command has exited with 0 stays in the
    /// counters, from which it becomes a limit hit, and leaves the outcome alone. So a runner that survives the kill of
    /// one of its children has the milliseconds from that kill to this look to exit with 0 (the bell's wake-up, or
    /// [`TICK_AFTER_BELL`]; [`TICK`] where there is no bell), and is killed as out of memory when it takes longer. Between
    /// two commands the run is not over, whatever the first of them exited with.
    fn look_at_leaf(&mut self) {
        if !self.is_decided() && self.leaf().is_some_and(|leaf| leaf.oom_kills() > 0) {
            self.kill(KillReason::OutOfMemory);
        }
    }

    fn look_at_tmp(&mut self) {
        if let Some(scratch) = &self.worker.scratch {
            self.seen.tmp_full |= is_full(scratch);
        }
    }

    /// A run that has put too much on disk is killed, also in the grace after its deadline.
    fn look_at_disk(&mut self) {
        let run = self.processes(Holder::Disk);
        match self.disk.look(&run) {
            Seen::Again(pause) => self.next_tick = self.next_tick.min(Instant::now() + pause),
            Seen::Beyond => {
                if !self.ended_well {
                    self.kill(KillReason::DiskFull);
                }
                // After the kill, before which it would go on writing.
                self.disk.release(&run);
            }
        }
    }

    /// A run that has taken more of the kernel's memory than it may, where nothing else counts it, is killed.
    fn look_at_kernel_memory(&mut self, now: Instant) {
        // A walk of the disk has the run frozen, and must find it so.
        if now < self.next_count || self.disk.holds_the_run() || self.first_start.is_none() {
            return;
        }
        let run = self.processes(Holder::KernelMemory);
        let has_own_network = self.spec.jail.network == Network::None;
        let sockets = has_own_network.then(|| format!("/proc/{}/net/netlink", run.init));
        self.next_count = now + TICK;
        match self.kernel_memory.look(&run, sockets.as_deref()) {
            Counted::Within => {}
            Counted::Counting => {
                self.next_count = now + COUNT_PAUSE;
                self.next_tick = self.next_tick.min(self.next_count);
            }
            Counted::Beyond(found) => {
                if !self.is_decided() {
                    self.blame(found.note(UNCHARGED_BYTES_MAX));
                }
                self.kernel_memory.release(&run);
            }
        }
    }

    /// A run that leaves the host's other users few files to open is killed.
    fn look_at_open_files(&mut self) {
        if !self.is_decided()
            && let Some(note) = self.open_files.look(&self.processes(Holder::KernelMemory))
        {
            self.blame(note);
        }
    }

    /// Whether the outcome no longer depends on what the run takes.
    fn is_decided(&self) -> bool {
        self.seen.killed.is_some() || self.ended_well
    }

    /// Ends a run for what it has taken of the kernel, which `note` says.
    fn blame(&mut self, note: String) {
        self.seen.host_notes.push(note);
        self.kill(KillReason::KernelMemory);
    }

    /// The deadline: SIGTERM to everything, then the grace.
    fn terminate(&mut self, now: Instant) {
        if self.spec.limits.grace_ms == 0 {
            return self.kill(KillReason::Deadline);
        }
        self.record(KillReason::Deadline);
        let run = self.processes(Holder::Writes);
        if let Some(writes) = &mut self.writes {
            // It could not hear it.
            writes.release(Instant::now(), &run);
        }
        self.say(&ToInit::Terminate);
        self.phase = Phase::Terminating(now + Duration::from_millis(self.spec.limits.grace_ms));
    }

    /// Kills everything at once.
    fn kill(&mut self, reason: KillReason) {
        if self.seen.is_empty || self.control_gone.is_some() {
            // The commands have ended by themselves; only an out-of-memory kill that ended them is still news. One that
            // they survived does not come here (`look_at_leaf`).
            if reason == KillReason::OutOfMemory {
                self.record(reason);
            }
            return;
        }
        self.record(reason);
        if let Phase::Dying(_) = self.phase {
            return;
        }
        self.phase = Phase::Dying(Instant::now() + DEATH_WAIT);
        if let Some(start) = self.first_start {
            self.seen.wall = start.elapsed();
        }
        if let Some(leaf) = self.leaf() {
            leaf.lift();
        }
        self.worker.kill();
    }

    /// Notes why, before the first signal. The first reason stays.
    fn record(&mut self, reason: KillReason) {
        if self.seen.killed.is_none() {
            self.seen.killed = Some(reason);
            self.tell_what_is_in_force();
            (self.sink)(SandboxEvent::Killing { reason });
        }
    }

    /// A worker that cannot be told anything is dead, which its end of the socket tells in a moment.
    fn say(&mut self, message: &ToInit) {
        if let Err(error) = self.worker.channel.send(message, &[]) {
            tracing::debug!(%error, ?message, "the worker does not listen");
        }
    }

    /// Before everything else that is told, and not before there is a run: a prepared worker may turn out to be dead.
    fn tell_what_is_in_force(&mut self) {
        if let Some(isolation) = self.untold.take() {
            (self.sink)(SandboxEvent::Started { isolation });
        }
    }

    fn leaf(&self) -> Option<&'a dyn Leaf> {
        self.worker.leaf.as_deref()
    }

    fn processes(&self, holder: Holder) -> Processes<'a> {
        Processes { init: self.worker.pid, leaf: self.leaf(), holder, holders: self.holders.clone() }
    }
}

fn worker_died(step: &str) -> SandboxError {
    SandboxError::WorkerDied { step: step.to_owned(), stderr: String::new() }
}

/// Not to be tried again: a command may have been started.
fn garbled() -> SandboxError {
    let source = io::Error::other("the worker's words make no sense");
    SandboxError::Kernel { operation: "hearing a worker", source }
}

/// Its own words, if it had any, are in the log of its launcher.
fn worker_failed(step: &str, reason: String) -> SandboxError {
    SandboxError::WorkerFailed { step: step.to_owned(), reason, stderr: String::new() }
}
