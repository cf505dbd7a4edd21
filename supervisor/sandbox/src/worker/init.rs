//! Pid 1 of a run: installs the remaining layers, runs the commands one after the other, reaps every process that they
//! leave behind, and handles messages of the supervisor at any time.

use super::child_deaths::child_death_signals;
use super::command::{self, StartOutcome};
use super::halt::{Halt, failed, print_stderr};
use super::layer_installer::LayerInstaller;
use super::report_fifo::ReportFifo;
use super::run_mounts;
use super::stack_request::{request_stacks, sees_only_its_run};
use crate::cgroup::JOIN_THIS_THREAD;
use crate::control_socket::Channel;
use crate::exec_failure::ExecFailure;
use crate::layer_plan::Stage;
use crate::spec::{CommandSpec, StackRequest};
use crate::worker_protocol::{Confinement, CpuTimes, Failure, FromInit, RunPlan, ToInit, unpack};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use proctor_core::outcome::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, set_parent_process_death_signal, wait};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

/// Target of a signal to everything in the pid namespace but init. Valid only in init.
const ALL_OTHER_PROCESSES: Pid = Pid::from_raw(-1);

/// Descriptor of the control socket; everything above it is closed.
const CONTROL: i32 = 3;

/// Runs as the init of one run, in the process that was forked for it. When it ends, everything that is alive in the
/// namespace dies with it.
pub(super) fn run(socket: OwnedFd, installer: &mut LayerInstaller) -> ! {
    let status = match close_all_but(socket) {
        Ok(control) => match serve(&control, installer) {
            Ok(()) => 0,
            Err(halt) => {
                report_halt(&control, halt);
                1
            }
        },
        Err(error) => {
            print_stderr(&format!("init cannot start: {error}"));
            1
        }
    };
    // SAFETY: ends the process without running anything that belongs to the launcher.
    unsafe { libc::_exit(status) }
}

/// Closes every descriptor of the launcher, its own control socket first of all.
fn close_all_but(socket: OwnedFd) -> io::Result<Channel> {
    let raw = socket.into_raw_fd();
    if raw != CONTROL {
        // SAFETY: the descriptor at this number belonged to the launcher, whose values are never dropped here.
        if unsafe { libc::dup3(raw, CONTROL, libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: as above.
    if unsafe { libc::syscall(libc::SYS_close_range, CONTROL + 1, u32::MAX, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and nothing else in this process will use it.
    Ok(Channel::from_fd(unsafe { OwnedFd::from_raw_fd(CONTROL) }))
}

/// Reports to the supervisor why there will be no (further) command.
fn report_halt(control: &Channel, halt: Halt) {
    let message = match halt {
        Halt::Refused(missing) => FromInit::Refused(missing),
        Halt::Failed { step, source } => FromInit::Failed(Failure::new(step, &source)),
    };
    if let Err(error) = control.send(&message, &[]) {
        print_stderr(&format!("{message:?} cannot be sent: {error}"));
    }
}

fn serve(control: &Channel, installer: &mut LayerInstaller) -> Result<(), Halt> {
    // Set once more after the change of user, which clears it.
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed("dying with the launcher"))?;
    // The end of the socket is the end of the supervisor.
    let Some((ToInit::Begin(init_limits), join_files)) =
        control.receive().map_err(failed("waiting for the start message"))?
    else {
        return Ok(());
    };
    // Nothing is done before this process is in the leaf.
    for join_file in join_files {
        rustix::io::write(&join_file, JOIN_THIS_THREAD).map_err(failed("moving into its cgroup leaf"))?;
    }
    installer.init_limits = Some(init_limits);
    installer.install_stage(Stage::Init)?;
    let deaths = child_death_signals().map_err(failed("receiving SIGCHLD"))?;
    let ready = FromInit::Ready { applied: installer.applied(), missing: std::mem::take(&mut installer.missing) };
    let fds_to_send: Vec<BorrowedFd<'_>> = installer.scratch.iter().chain(&installer.mounts).map(AsFd::as_fd).collect();
    control.send(&ready, &fds_to_send).map_err(failed("reporting that all layers are installed"))?;
    // Taking the namespaces apart takes longer than everything that the supervisor still does for the run. So init
    // waits until it is killed, or the supervisor is gone.
    while let Some((message, mut fds)) = control.receive().map_err(failed("waiting for a run"))? {
        // A signal for a command that has ended meanwhile concerns none.
        let ToInit::Run = message else { continue };
        // The supervisor owns both now.
        (installer.scratch, installer.mounts) = (None, None);
        let (plan, files) = unpack::<RunPlan>(fds.pop()).map_err(failed("reading the plan"))?;
        let no_scratch = || Halt::Failed { step: "finding the scratch directory", source: Errno::NOENT.into() };
        let scratch_root = installer.scratch_root.as_ref().ok_or_else(no_scratch)?;
        run_mounts::fill_scratch(&plan, &files, scratch_root).map_err(failed("writing the scratch files"))?;
        drop(files);
        let mut init = Init { control, deaths: &deaths, is_terminating: false, stack_request: None };
        if let Commands::Orphaned = init.run_commands(&plan, scratch_root)? {
            break;
        }
    }
    Ok(())
}

/// How the commands of a plan ended.
enum Commands {
    /// All that were to be started have.
    Ended,
    /// The supervisor is gone.
    Orphaned,
}

/// Why a wait has ended.
enum Wakeup {
    /// The supervisor is gone: end everything.
    Orphaned,
    /// A child died, SIGTERM was passed on, or nothing of interest.
    Other,
}

struct Init<'a> {
    control: &'a Channel,
    deaths: &'a SignalFd,
    is_terminating: bool,
    /// How the processes of the current command are asked for their stacks; `None` once they were asked.
    stack_request: Option<&'a StackRequest>,
}

impl<'a> Init<'a> {
    /// Runs the commands of a plan one after the other, and reports the exit of each.
    fn run_commands(&mut self, plan: &'a RunPlan, scratch_root: &OwnedFd) -> Result<Commands, Halt> {
        let open = |previous| ReportFifo::open(scratch_root, previous).map_err(failed("making the report FIFO"));
        let mut report = if plan.report { Some(open(None)?) } else { None };
        for (index, command) in plan.commands.iter().enumerate() {
            self.stack_request = plan.stack_requests.get(index).and_then(Option::as_ref);
            let ended = self.run_command(index, command, (report.as_ref(), plan.confinement.as_ref()))?;
            let Some((exit, failure)) = ended else { return Ok(Commands::Orphaned) };
            let is_last = self.is_terminating || index + 1 == plan.commands.len();
            let exited = FromInit::CommandExited { index, exit, failure, cpu: reaped_cpu_times(), is_last };
            self.control.send(&exited, &[]).map_err(failed("reporting the exit of a command"))?;
            if is_last {
                break;
            }
            report = report.map(|previous| open(Some(previous))).transpose()?;
        }
        Ok(Commands::Ended)
    }

    /// Runs one command until it and everything that it has left behind is dead. Returns its exit, and the failure if
    /// it could not be started; `None` if the supervisor is gone.
    fn run_command(
        &mut self,
        index: usize,
        command: &CommandSpec,
        (report, confinement): (Option<&ReportFifo>, Option<&Confinement>),
    ) -> Result<Option<(Exit, Option<ExecFailure>)>, Halt> {
        let (stdout, stderr, pipes) = command::pipes().map_err(failed("making the pipes of a command"))?;
        let ends: Vec<BorrowedFd<'_>> =
            [stdout.as_fd(), stderr.as_fd()].into_iter().chain(report.map(AsFd::as_fd)).collect();
        let sent = self.control.send(&FromInit::CommandStarted { index }, &ends);
        sent.map_err(failed("reporting the start of a command"))?;
        drop((stdout, stderr));
        let started = match confinement {
            None => command::start(command, pipes),
            Some(confinement) => command::start_confined(command, pipes, confinement),
        };
        let ended = match started.map_err(failed("starting a command"))? {
            StartOutcome::Running(main) => match self.wait_for(main)? {
                Some(exit) => (exit, None),
                None => return Ok(None),
            },
            StartOutcome::Failed(failure) => (Exit::NotStarted(failure.errno), Some(failure)),
        };
        kill_all_others();
        Ok(Some(ended))
    }

    /// Reaps until `main` is dead, or in the grace period, which all processes may use, until all are dead.
    fn wait_for(&mut self, main: Pid) -> Result<Option<Exit>, Halt> {
        let mut exit = None;
        loop {
            let is_alone = reap(main, &mut exit);
            match exit {
                Some(exit) if is_alone || !self.is_terminating => return Ok(Some(exit)),
                // No child is left and `main` was not among the dead, which cannot happen.
                None if is_alone => {
                    return Err(Halt::Failed { step: "reaping", source: Errno::CHILD.into() });
                }
                _ => {}
            }
            if let Wakeup::Orphaned = self.wait_event()? {
                return Ok(None);
            }
        }
    }

    /// Waits for the death of a child or a message of the supervisor.
    fn wait_event(&mut self) -> Result<Wakeup, Halt> {
        let mut fds = [PollFd::new(self.control, PollFlags::IN), PollFd::new(self.deaths, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("polling")(error)),
        }
        let [control, deaths] = fds.map(|fd| !fd.revents().is_empty());
        if deaths {
            // Signals of one kind are merged, so the descriptor must be empty before the next reaping.
            while let Ok(Some(_)) = self.deaths.read_signal() {}
        }
        if control {
            match self.control.receive::<ToInit>().map_err(failed("receiving from the supervisor"))? {
                None => return Ok(Wakeup::Orphaned),
                Some((ToInit::PrintStacks, _)) => {
                    self.is_terminating = true;
                    self.print_stacks()?;
                }
                Some((ToInit::Terminate, _)) => {
                    self.is_terminating = true;
                    // Fails only if there is no other process.
                    let _sent = kill(ALL_OTHER_PROCESSES, Signal::SIGTERM);
                }
                Some((ToInit::Begin(_) | ToInit::Run, _)) => {}
            }
        }
        Ok(Wakeup::Other)
    }

    /// Asks the processes of the current command for their stacks. If no program can be started for it, the answer has no pipe:
    /// the supervisor waits for nothing.
    fn print_stacks(&mut self) -> Result<(), Halt> {
        match self.stack_request.take() {
            None => Ok(()),
            Some(StackRequest::Signal(signal)) => {
                request_stacks(*signal);
                Ok(())
            }
            Some(StackRequest::Program(program)) => {
                let reader = start_printer(program);
                let ends: Vec<BorrowedFd<'_>> = reader.as_ref().map(AsFd::as_fd).into_iter().collect();
                let sent = self.control.send(&FromInit::PrinterStarted, &ends);
                sent.map_err(failed("reporting the program that prints stacks"))
            }
        }
    }
}

/// Starts a program that prints stacks and returns the pipe that it prints to; `None` if it cannot be started, or would see
/// processes of others.
fn start_printer(program: &CommandSpec) -> Option<OwnedFd> {
    if !sees_only_its_run() {
        return None;
    }
    command::start_printer(program)
        .inspect_err(|error| print_stderr(&format!("the program that prints stacks cannot be started: {error}")))
        .ok()
}

/// Reaps every dead child and records how `main` ended. Returns whether no child is left.
fn reap(main: Pid, exit: &mut Option<Exit>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if pid.as_raw_nonzero().get() == main.as_raw() {
                    *exit = exit_from_status(status).or(*exit);
                }
            }
            Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// `None` for a child that has only stopped, which a child that asked to be traced reports.
fn exit_from_status(status: WaitStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// Kills what a command has left behind, and waits until the namespace is empty. Orphans are children of init, so it is
/// empty when init has no child. A process that is being forked meanwhile is killed too: the kernel refuses a fork to a
/// parent with a pending SIGKILL.
fn kill_all_others() {
    if is_alone() {
        // The kernel would offer the signal to every process of the host.
        return;
    }
    let _killed = kill(ALL_OTHER_PROCESSES, Signal::SIGKILL);
    while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
}

/// Whether there is no child, alive or dead.
fn is_alone() -> bool {
    matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD))
}

fn reaped_cpu_times() -> CpuTimes {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return CpuTimes::default() };
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0)
    };
    CpuTimes { user_us: micros(usage.user_time()), system_us: micros(usage.system_time()) }
}
