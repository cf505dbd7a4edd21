//! Pid 1 of a run: puts on the rest of the layers, runs the commands one after the other, reaps everything that is left
//! behind, and hears the supervisor at any time. Must not know clocks or limits.

use super::command::{self, Started};
use super::launcher::{Halt, failed, tell};
use super::layers::Hands;
use crate::channel::Channel;
use crate::message::{CpuTimes, FromWorker, ToWorker};
use crate::plan::Stage;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use proctor_core::outcome::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, set_parent_process_death_signal, wait};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

/// Everything in the pid namespace but its init. Only init may say so.
const EVERYBODY_ELSE: Pid = Pid::from_raw(-1);

pub(super) fn run(control: &Channel, hands: Box<Hands>, released: &OwnedFd) -> ExitCode {
    match live(control, hands, released) {
        Ok(()) => ExitCode::SUCCESS,
        Err(halt) => {
            tell(control, halt);
            ExitCode::FAILURE
        }
    }
    // Whatever is still alive in the namespace dies with this process.
}

fn live(control: &Channel, mut hands: Box<Hands>, released: &OwnedFd) -> Result<(), Halt> {
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed("dying with the launcher"))?;
    // The launcher releases init once the supervisor holds its pidfd. If the launcher is dead, so should this be.
    if rustix::io::read(released, &mut [0; 1]).map_err(failed("waiting for the launcher"))? == 0 {
        return Ok(());
    }
    // `kill(-1)` outside of a pid namespace of one's own would end the host.
    if std::process::id() != 1 {
        return Err(Halt::Failed { step: "becoming init", source: io::Error::other("this is not pid 1") });
    }
    hands.put_on_all(Stage::Init)?;
    let mut child_died = SigSet::empty();
    child_died.add(Signal::SIGCHLD);
    child_died.thread_block().map_err(failed("blocking SIGCHLD"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let deaths = SignalFd::with_flags(&child_died, flags).map_err(failed("hearing SIGCHLD"))?;

    let ready = FromWorker::Ready { applied: hands.applied(), missing: std::mem::take(&mut hands.missing) };
    let scratch: Vec<BorrowedFd<'_>> = hands.scratch.iter().map(AsFd::as_fd).collect();
    control.send(&ready, &scratch).map_err(failed("telling that everything is ready"))?;
    let Some((ToWorker::Go, _)) = control.receive().map_err(failed("waiting for the word to go"))? else {
        return Ok(());
    };
    // The scratch directory is the supervisor's to read now.
    let Hands { plan, .. } = *hands;
    let mut init = Init { control, deaths, is_terminating: false };
    for (index, command) in plan.commands.iter().enumerate() {
        let Some(exit) = init.run_command(index, command)? else { return Ok(()) };
        let cpu = cpu_of_the_dead();
        let told = control.send(&FromWorker::CommandExited { index, exit, cpu }, &[]);
        told.map_err(failed("telling how a command ended"))?;
        if init.is_terminating {
            break;
        }
    }
    control.send(&FromWorker::Done, &[]).map_err(failed("telling the end"))
}

/// What was heard while a command runs.
enum Heard {
    /// The supervisor is gone: end everything.
    Orphaned,
    /// A child died, or SIGTERM was passed on, or nothing of interest.
    Other,
}

struct Init<'a> {
    control: &'a Channel,
    deaths: SignalFd,
    is_terminating: bool,
}

impl Init<'_> {
    /// Runs one command until it and everything it has left behind is dead; `None` when the supervisor is gone.
    fn run_command(&mut self, index: usize, command: &crate::spec::CommandSpec) -> Result<Option<Exit>, Halt> {
        let (stdout, stderr, pipes) = command::pipes().map_err(failed("making the pipes of a command"))?;
        self.control
            .send(&FromWorker::CommandStarted { index }, &[stdout.as_fd(), stderr.as_fd()])
            .map_err(failed("telling that a command starts"))?;
        drop((stdout, stderr));
        let exit = match command::start(command, pipes).map_err(failed("starting a command"))? {
            Started::Running(main) => match self.wait_for(main)? {
                Some(exit) => exit,
                None => return Ok(None),
            },
            Started::Not(errno) => Exit::NotStarted(errno),
        };
        end_everybody_else();
        Ok(Some(exit))
    }

    /// Reaps until `main` is dead. During the grace everybody may use it, so then until nobody is left.
    fn wait_for(&mut self, main: Pid) -> Result<Option<Exit>, Halt> {
        let mut exit = None;
        loop {
            let is_alone = reap(main, &mut exit);
            match exit {
                Some(exit) if is_alone || !self.is_terminating => return Ok(Some(exit)),
                // Nobody is left and `main` was not among the dead: somebody else's namespace, which cannot be.
                None if is_alone => {
                    return Err(Halt::Failed { step: "reaping", source: Errno::CHILD.into() });
                }
                _ => {}
            }
            if let Heard::Orphaned = self.listen()? {
                return Ok(None);
            }
        }
    }

    /// Waits for a death or a word of the supervisor.
    fn listen(&mut self) -> Result<Heard, Halt> {
        let mut fds = [PollFd::new(self.control, PollFlags::IN), PollFd::new(&self.deaths, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("listening")(error)),
        }
        let [control, deaths] = fds.map(|fd| !fd.revents().is_empty());
        if deaths {
            // Signals of one kind are merged, so what counts is that the descriptor is empty before the next reaping.
            while let Ok(Some(_)) = self.deaths.read_signal() {}
        }
        if control {
            match self.control.receive::<ToWorker>().map_err(failed("hearing the supervisor"))? {
                None => return Ok(Heard::Orphaned),
                Some((ToWorker::Terminate, _)) => {
                    self.is_terminating = true;
                    // Fails only when there is nobody else.
                    let _sent = kill(EVERYBODY_ELSE, Signal::SIGTERM);
                }
                Some((ToWorker::Plan | ToWorker::Go, _)) => {}
            }
        }
        Ok(Heard::Other)
    }
}

/// Reaps every child that is dead and notes how `main` ended. Tells whether no child is left.
fn reap(main: Pid, exit: &mut Option<Exit>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == main.as_raw() => *exit = Some(exit_of(status)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // Neither is asked for, so the kernel does not report it.
        (None, None) => Exit::Signal(0),
    }
}

/// Kills what a command has left behind, and waits until the namespace is empty. Orphans are children of init, so it is
/// empty when there is no child. A process that is being forked meanwhile is hit too: the kernel refuses a fork to a
/// parent with a pending SIGKILL.
fn end_everybody_else() {
    let _killed = kill(EVERYBODY_ELSE, Signal::SIGKILL);
    while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
}

fn cpu_of_the_dead() -> CpuTimes {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return CpuTimes::default() };
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0)
    };
    CpuTimes { user_us: micros(usage.user_time()), system_us: micros(usage.system_time()) }
}
