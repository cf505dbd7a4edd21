//! The worker as it was spawned: takes its plan, makes the namespaces, forks init, and waits for it. Must not run
//! anything of the tenant.

use super::init;
use super::layers::Hands;
use crate::channel::Channel;
use crate::message::{FromWorker, MissingLayer, Plan, ToWorker};
use crate::plan::Stage;
use nix::unistd::ForkResult;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, set_parent_process_death_signal, waitpid};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// Why the worker cannot go on.
pub(super) enum Halt {
    /// A layer without which there is no run.
    Refused(MissingLayer),
    /// Something that should not fail.
    Failed { step: &'static str, source: io::Error },
}

/// Turns what the kernel said at `step` into a [`Halt`].
pub(super) fn failed<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Halt {
    move |error| Halt::Failed { step, source: error.into() }
}

pub(super) fn run() -> ExitCode {
    let control = match sanitise() {
        Ok(control) => control,
        Err(error) => {
            eprintln!("the worker was not started by a supervisor: {error}");
            return ExitCode::from(2);
        }
    };
    match launch(&control) {
        Ok(Role::Launcher { init }) => {
            // Init's end of the socket must be the last one, so that its death is heard at once.
            drop(control);
            while let Err(rustix::io::Errno::INTR) = waitpid(Some(init), WaitOptions::empty()) {}
            ExitCode::SUCCESS
        }
        Ok(Role::Init { hands, released }) => init::run(&control, hands, &released),
        Ok(Role::Orphan) => ExitCode::SUCCESS,
        Err(halt) => {
            tell(&control, halt);
            ExitCode::FAILURE
        }
    }
}

/// What a process of the worker is after the fork.
enum Role {
    Launcher {
        init: Pid,
    },
    Init {
        hands: Box<Hands>,
        released: OwnedFd,
    },
    /// The supervisor is gone.
    Orphan,
}

/// Tells the supervisor why there will be no (further) command.
pub(super) fn tell(control: &Channel, halt: Halt) {
    let message = match halt {
        Halt::Refused(missing) => FromWorker::Refused(missing),
        Halt::Failed { step, source } => FromWorker::Failed { step: step.to_owned(), reason: source.to_string() },
    };
    if let Err(error) = control.send(&message, &[]) {
        eprintln!("{message:?} cannot be told: {error}");
    }
}

/// First of all: die with the supervisor, hold nothing that was inherited, and take the control socket from stdin.
fn sanitise() -> io::Result<Channel> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // SAFETY: no descriptor above 2 has an owner in this process yet, so none can be closed twice.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    Ok(Channel::from_fd(control))
}

fn launch(control: &Channel) -> Result<Role, Halt> {
    let Some((ToWorker::Plan, mut fds)) = control.receive().map_err(failed("receiving the plan"))? else {
        return Ok(Role::Orphan);
    };
    let packed = fds.pop().ok_or_else(|| io::Error::other("no plan came along"));
    let (plan, files) = packed.and_then(Plan::unpack).map_err(failed("reading the plan"))?;
    let supervisor_pid = plan.supervisor_pid;
    let mut hands = Box::new(Hands::new(plan, files));
    hands.put_on_all(Stage::Launcher)?;

    // A new user namespace brings new credentials, and those take the death signal away.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("dying with the supervisor"))?;
    if rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(supervisor_pid) {
        return Ok(Role::Orphan);
    }
    let (released, release) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("making a pipe"))?;
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { nix::unistd::fork() }.map_err(failed("forking init"))? {
        ForkResult::Child => Ok(Role::Init { hands, released }),
        ForkResult::Parent { child } => {
            let init = Pid::from_raw(child.as_raw()).ok_or_else(|| io::Error::other("init has no pid"));
            let init = init.map_err(failed("forking init"))?;
            let handle = pidfd_open(init, PidfdFlags::empty()).map_err(failed("opening a pidfd"))?;
            control.send(&FromWorker::InitForked, &[handle.as_fd()]).map_err(failed("handing init over"))?;
            rustix::io::write(&release, b"!").map_err(failed("releasing init"))?;
            Ok(Role::Launcher { init })
        }
    }
}
