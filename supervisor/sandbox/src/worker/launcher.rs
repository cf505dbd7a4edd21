//! The worker as it was spawned: receives the plan of its zygote, sets up what all runs share, and forks an init for
//! each run that the supervisor requests. Never executes anything of the tenant.

use super::child_deaths::child_death_signals;
use super::fork::{self, ForkOutcome};
use super::halt::{Halt, failed, print_stderr};
use super::init;
use super::layer_installer::LayerInstaller;
use crate::control_socket::Channel;
use crate::layer_plan::{Stage, Step};
use crate::sched_slice;
use crate::worker_protocol::{Failure, FromLauncher, ToLauncher, ZygotePlan, unpack};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, set_parent_process_death_signal, wait};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

pub(super) fn run() -> ExitCode {
    sched_slice::shorten();
    let control = match sanitise() {
        Ok(control) => control,
        Err(error) => {
            print_stderr(&format!("the worker was not started by a supervisor: {error}"));
            return ExitCode::from(2);
        }
    };
    let Err(halt) = serve(&control) else { return ExitCode::SUCCESS };
    let message = match halt {
        Halt::Refused(missing) => FromLauncher::Refused(missing),
        Halt::Failed { step, source } => FromLauncher::Failed(Failure::new(step, &source)),
    };
    if let Err(error) = control.send(&message, &[]) {
        print_stderr(&format!("{message:?} cannot be sent: {error}"));
    }
    ExitCode::FAILURE
}

/// The first step: closes every inherited descriptor and takes the control socket from stdin. The end of that socket is
/// how the launcher learns of the supervisor's end: a death signal would come with the end of the thread that spawned
/// it.
fn sanitise() -> io::Result<Channel> {
    // SAFETY: no descriptor above 2 has an owner in this process yet, so none can be closed twice.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // A death signal inherited from the supervisor must not kill the runs before their sockets close.
    set_parent_process_death_signal(None)?;
    Ok(Channel::from_fd(control))
}

/// Forks inits until the supervisor closes the control socket.
fn serve(control: &Channel) -> Result<(), Halt> {
    let Some((ToLauncher::Plan, mut fds)) = control.receive().map_err(failed("receiving the plan"))? else {
        return Ok(());
    };
    let (plan, _) = unpack::<ZygotePlan>(fds.pop()).map_err(failed("reading the plan"))?;
    let mut installer = LayerInstaller::new(plan);
    installer.install_stage(Stage::Launcher)?;
    let deaths = child_death_signals().map_err(failed("receiving SIGCHLD"))?;
    control.send(&FromLauncher::Ready, &[]).map_err(failed("reporting that the zygote is ready"))?;
    let mut inits = Vec::new();
    loop {
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(&deaths, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("polling")(error)),
        }
        let [has_request, has_death] = fds.map(|fd| !fd.revents().is_empty());
        if has_death {
            // Signals of one kind are merged, so the descriptor must be empty before the reaping.
            while let Ok(Some(_)) = deaths.read_signal() {}
            reap(&mut inits, WaitOptions::NOHANG);
        }
        if has_request {
            match control.receive().map_err(failed("receiving from the supervisor"))? {
                Some((ToLauncher::Fork, fds)) => inits.push(fork_init(control, &mut installer, fds)?),
                Some((ToLauncher::Plan, _)) => {}
                None => break,
            }
        }
    }
    for init in &inits {
        // The pid of a dead init cannot be reused before the reaping, which only this process does.
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

fn fork_init(control: &Channel, installer: &mut LayerInstaller, fds: Vec<OwnedFd>) -> Result<Pid, Halt> {
    let mut fds = fds.into_iter();
    let socket = fds.next().ok_or_else(|| io::Error::other("the message carried no socket for init"));
    let socket = socket.map_err(failed("forking init"))?;
    let group = fds.next();
    let forked = fork::into_pid_namespace(group.as_ref());
    let explain = |error| installer.plan.user_limits.explain(Step::PidNamespace, error);
    match forked.map_err(explain).map_err(failed("forking init"))? {
        ForkOutcome::Child => init::run(socket, installer),
        ForkOutcome::Parent { pid, pidfd } => {
            use std::os::fd::AsFd;
            let number = pid.as_raw_nonzero().get().unsigned_abs();
            let sent = control.send(&FromLauncher::Forked { pid: number }, &[pidfd.as_fd()]);
            sent.map_err(failed("handing init over"))?;
            Ok(pid)
        }
    }
}
