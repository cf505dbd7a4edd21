//! Pid 1 of a run: puts on the rest of the layers, runs the commands one after the other, reaps everything that is left
//! behind, and hears the supervisor at any time. Must not know clocks or limits.

use super::command::{self, Started};
use super::layers::Hands;
use super::mounts;
use super::report::Report;
use super::shared::{Halt, failed, hear_deaths};
use crate::cgroup::THIS_THREAD;
use crate::channel::Channel;
use crate::message::{CpuTimes, Failure, FromInit, RunPlan, ToInit, unpack};
use crate::plan::Stage;
use crate::spec::CommandSpec;
use crate::unstarted::Unstarted;
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

/// Everything in the pid namespace but its init. Only init may say so.
const EVERYBODY_ELSE: Pid = Pid::from_raw(-1);

/// The descriptor of the control socket; everything above it is closed.
const CONTROL: i32 = 3;

/// Lives as the init of one run, in the process that was forked for it. Whatever is still alive in the namespace dies with
/// it.
pub(super) fn run(socket: OwnedFd, hands: &mut Hands) -> ! {
    let status = match keep_only(socket) {
        Ok(control) => match live(&control, hands) {
            Ok(()) => 0,
            Err(halt) => {
                tell(&control, halt);
                1
            }
        },
        Err(error) => {
            super::say(&format!("init cannot begin: {error}"));
            1
        }
    };
    // SAFETY: ends the process without running anything that belongs to the launcher.
    unsafe { libc::_exit(status) }
}

/// Closes what the launcher had open, its own control socket first of all.
fn keep_only(socket: OwnedFd) -> io::Result<Channel> {
    let raw = socket.into_raw_fd();
    if raw != CONTROL {
        // SAFETY: what was open at this number belonged to the launcher, whose values are never dropped here.
        if unsafe { libc::dup3(raw, CONTROL, libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: as above.
    if unsafe { libc::syscall(libc::SYS_close_range, CONTROL + 1, u32::MAX, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and nobody else in this process will use it.
    Ok(Channel::from_fd(unsafe { OwnedFd::from_raw_fd(CONTROL) }))
}

/// Tells the supervisor why there will be no (further) command.
fn tell(control: &Channel, halt: Halt) {
    let message = match halt {
        Halt::Refused(missing) => FromInit::Refused(missing),
        Halt::Failed { step, source } => FromInit::Failed(Failure::of(step, &source)),
    };
    if let Err(error) = control.send(&message, &[]) {
        super::say(&format!("{message:?} cannot be told: {error}"));
    }
}

fn live(control: &Channel, hands: &mut Hands) -> Result<(), Halt> {
    // Set once more when the user has changed, which takes it away.
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed("dying with the launcher"))?;
    // The end of the socket is the end of the supervisor.
    let Some((ToInit::Begin(allotment), doors)) = control.receive().map_err(failed("waiting to begin"))? else {
        return Ok(());
    };
    // Nothing is done before the leaf holds this process.
    for door in doors {
        rustix::io::write(&door, THIS_THREAD).map_err(failed("moving into its cgroup leaf"))?;
    }
    hands.allotment = Some(allotment);
    hands.put_on_all(Stage::Init)?;
    let deaths = hear_deaths().map_err(failed("hearing SIGCHLD"))?;
    let ready = FromInit::Ready { applied: hands.applied(), missing: std::mem::take(&mut hands.missing) };
    let handed: Vec<BorrowedFd<'_>> = hands.scratch.iter().chain(&hands.mounts).map(AsFd::as_fd).collect();
    control.send(&ready, &handed).map_err(failed("telling that everything is ready"))?;
    let Some((ToInit::Run, mut fds)) = control.receive().map_err(failed("waiting for a run"))? else {
        return Ok(());
    };
    // Both are the supervisor's now.
    (hands.scratch, hands.mounts) = (None, None);
    let (plan, files) = unpack::<RunPlan>(fds.pop()).map_err(failed("reading the plan"))?;
    let no_scratch = || Halt::Failed { step: "finding the scratch directory", source: Errno::NOENT.into() };
    let helpers = hands.helpers.take().ok_or_else(no_scratch)?;
    mounts::fill_scratch(&plan, &files, &helpers).map_err(failed("writing the scratch files"))?;
    drop(files);
    let open = |after| Report::open(&helpers, after).map_err(failed("making the report"));
    let mut report = if plan.report { Some(open(None)?) } else { None };
    let mut init = Init { control, deaths, is_terminating: false };
    for (index, command) in plan.commands.iter().enumerate() {
        let ended = init.run_command(index, command, report.as_ref())?;
        let Some((exit, unstarted)) = ended else { return Ok(()) };
        let is_last = init.is_terminating || index + 1 == plan.commands.len();
        let exited = FromInit::CommandExited { index, exit, unstarted, cpu: cpu_of_the_dead(), is_last };
        control.send(&exited, &[]).map_err(failed("telling how a command ended"))?;
        if is_last {
            break;
        }
        report = report.map(|before| open(Some(before))).transpose()?;
    }
    // Taking its namespaces apart takes longer than all that the supervisor still does for the run. So it waits until it is
    // killed, or the supervisor is gone.
    while control.receive::<ToInit>().map_err(failed("waiting for the end"))?.is_some() {}
    Ok(())
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
    /// Runs one command until it and everything it has left behind is dead: how it ended, or why it did not start. `None` when the supervisor is gone.
    fn run_command(
        &mut self,
        index: usize,
        command: &CommandSpec,
        report: Option<&Report>,
    ) -> Result<Option<(Exit, Option<Unstarted>)>, Halt> {
        let (stdout, stderr, pipes) = command::pipes().map_err(failed("making the pipes of a command"))?;
        let ends: Vec<BorrowedFd<'_>> =
            [stdout.as_fd(), stderr.as_fd()].into_iter().chain(report.map(AsFd::as_fd)).collect();
        let told = self.control.send(&FromInit::CommandStarted { index }, &ends);
        told.map_err(failed("telling that a command starts"))?;
        drop((stdout, stderr));
        let ended = match command::start(command, pipes).map_err(failed("starting a command"))? {
            Started::Running(main) => match self.wait_for(main)? {
                Some(exit) => (exit, None),
                None => return Ok(None),
            },
            Started::Not(why) => (Exit::NotStarted(why.errno), Some(why)),
        };
        end_everybody_else();
        Ok(Some(ended))
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
            match self.control.receive::<ToInit>().map_err(failed("hearing the supervisor"))? {
                None => return Ok(Heard::Orphaned),
                Some((ToInit::Terminate, _)) => {
                    self.is_terminating = true;
                    // Fails only when there is nobody else.
                    let _sent = kill(EVERYBODY_ELSE, Signal::SIGTERM);
                }
                Some((ToInit::Begin(_) | ToInit::Run, _)) => {}
            }
        }
        Ok(Heard::Other)
    }
}

/// Reaps every child that is dead and notes how `main` ended. Tells whether no child is left.
fn reap(main: Pid, exit: &mut Option<Exit>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if pid.as_raw_nonzero().get() == main.as_raw() {
                    *exit = exit_of(status).or(*exit);
                }
            }
            Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// `None` for a child that has only stopped, which one that asked to be traced tells.
fn exit_of(status: WaitStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// Kills what a command has left behind, and waits until the namespace is empty. Orphans are children of init, so it is
/// empty when there is no child. A process that is being forked meanwhile is hit too: the kernel refuses a fork to a
/// parent with a pending SIGKILL.
fn end_everybody_else() {
    if is_alone() {
        // The signal would be offered to every process of the host.
        return;
    }
    let _killed = kill(EVERYBODY_ELSE, Signal::SIGKILL);
    while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
}

/// Whether there is no child, alive or dead.
fn is_alone() -> bool {
    matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD))
}

fn cpu_of_the_dead() -> CpuTimes {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return CpuTimes::default() };
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0)
    };
    CpuTimes { user_us: micros(usage.user_time()), system_us: micros(usage.system_time()) }
}
