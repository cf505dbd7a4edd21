//! The worker as it was spawned: takes the plan of its room, makes what all runs of the room share, and forks an init for
//! each run that the supervisor asks for. Must not run anything of the tenant.

use super::fork::{self, Forked};
use super::init;
use super::layers::Hands;
use super::shared::{Halt, failed, hear_deaths};
use crate::channel::Channel;
use crate::message::{Failure, FromLauncher, RoomPlan, ToLauncher, unpack};
use crate::plan::{Stage, Step};
use crate::slice;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, set_parent_process_death_signal, wait};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

pub(super) fn run() -> ExitCode {
    slice::shorten();
    let control = match sanitise() {
        Ok(control) => control,
        Err(error) => {
            super::say(&format!("the worker was not started by a supervisor: {error}"));
            return ExitCode::from(2);
        }
    };
    let Err(halt) = serve(&control) else { return ExitCode::SUCCESS };
    let message = match halt {
        Halt::Refused(missing) => FromLauncher::Refused(missing),
        Halt::Failed { step, source } => FromLauncher::Failed(Failure::of(step, &source)),
    };
    if let Err(error) = control.send(&message, &[]) {
        super::say(&format!("{message:?} cannot be told: {error}"));
    }
    ExitCode::FAILURE
}

/// First of all: hold nothing that was inherited, and take the control socket from stdin. Its end is how the launcher learns
/// of the supervisor's: a death signal would come with the end of the thread that spawned it.
fn sanitise() -> io::Result<Channel> {
    // SAFETY: no descriptor above 2 has an owner in this process yet, so none can be closed twice.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // Nothing that the supervisor dies of by accident should take the runs along sooner than their sockets do.
    set_parent_process_death_signal(None)?;
    Ok(Channel::from_fd(control))
}

/// Until the supervisor lets go of the room.
fn serve(control: &Channel) -> Result<(), Halt> {
    let Some((ToLauncher::Room, mut fds)) = control.receive().map_err(failed("receiving the plan"))? else {
        return Ok(());
    };
    let (plan, _) = unpack::<RoomPlan>(fds.pop()).map_err(failed("reading the plan"))?;
    let mut hands = Hands::new(plan);
    hands.put_on_all(Stage::Launcher)?;
    let deaths = hear_deaths().map_err(failed("hearing SIGCHLD"))?;
    control.send(&FromLauncher::Ready, &[]).map_err(failed("telling that the room is ready"))?;
    let mut inits = Vec::new();
    loop {
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(&deaths, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("listening")(error)),
        }
        let [asked, died] = fds.map(|fd| !fd.revents().is_empty());
        if died {
            // Signals of one kind are merged, so what counts is that the descriptor is empty before the reaping.
            while let Ok(Some(_)) = deaths.read_signal() {}
            reap(&mut inits, WaitOptions::NOHANG);
        }
        if asked {
            match control.receive().map_err(failed("hearing the supervisor"))? {
                Some((ToLauncher::Fork, fds)) => inits.push(fork_init(control, &mut hands, fds)?),
                Some((ToLauncher::Room, _)) => {}
                None => break,
            }
        }
    }
    for init in &inits {
        // An init that is dead already is still ours, since only this process reaps it.
        let _killed = rustix::process::kill_process(*init, rustix::process::Signal::KILL);
    }
    reap(&mut inits, WaitOptions::empty());
    Ok(())
}

fn reap(inits: &mut Vec<Pid>, how: WaitOptions) {
    loop {
        match wait(how) {
            Ok(Some((dead, _))) => inits.retain(|init| *init != dead),
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

fn fork_init(control: &Channel, hands: &mut Hands, fds: Vec<OwnedFd>) -> Result<Pid, Halt> {
    let mut fds = fds.into_iter();
    let socket = fds.next().ok_or_else(|| io::Error::other("no socket for init came along"));
    let socket = socket.map_err(failed("forking init"))?;
    let group = fds.next();
    let forked = fork::into_pid_namespace(group.as_ref());
    let told_apart = |error| hands.plan.user_limits.explain(Step::PidNamespace, error);
    match forked.map_err(told_apart).map_err(failed("forking init"))? {
        Forked::Child => init::run(socket, hands),
        Forked::Parent { pid, pidfd } => {
            use std::os::fd::AsFd;
            let number = pid.as_raw_nonzero().get().unsigned_abs();
            let told = control.send(&FromLauncher::Forked { pid: number }, &[pidfd.as_fd()]);
            told.map_err(failed("handing init over"))?;
            Ok(pid)
        }
    }
}
