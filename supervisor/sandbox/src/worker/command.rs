//! Starts one command: pipes, a session of its own, the working directory, the environment, `execve`. Must not know what
//! becomes of it.

use crate::spec::CommandSpec;
use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, Pid, execve};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The highest signal number of Linux.
const SIGNAL_MAX: i32 = 64;

/// The writing ends of a command's streams.
pub(super) struct Pipes {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Whether a command runs.
pub(super) enum Started {
    /// It was executed.
    Running(Pid),
    /// It could not be executed, for this `errno`.
    Not(i32),
}

/// The reading ends of stdout and stderr, and the writing ends.
pub(super) fn pipes() -> io::Result<(OwnedFd, OwnedFd, Pipes)> {
    let (out_end, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (err_end, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((out_end, err_end, Pipes { stdout, stderr }))
}

/// What `execve` takes, made before the fork.
struct Image {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Image {
    fn of(command: &CommandSpec) -> io::Result<Self> {
        let program = CString::new(command.program.as_os_str().as_bytes())?;
        let mut args = vec![program.clone()];
        for arg in &command.args {
            args.push(CString::new(arg.as_str())?);
        }
        let env = command.env.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
        Ok(Image { env: env.collect::<Result<_, _>>()?, program, args })
    }
}

/// Forks and executes. All writing ends are closed here when it returns.
pub(super) fn start(command: &CommandSpec, pipes: Pipes) -> io::Result<Started> {
    let image = Image::of(command)?;
    // Closed by a successful `execve`; otherwise it carries the errno.
    let (failure, fail) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    let child = match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Parent { child }) => child,
        Ok(ForkResult::Child) => {
            drop(failure);
            let errno = become_command(&image, &command.dir, &pipes);
            let _told = rustix::io::write(&fail, &errno.to_ne_bytes());
            // SAFETY: ends the process without running anything that belongs to init.
            unsafe { libc::_exit(127) }
        }
        // The run is at its limit of processes, perhaps.
        Err(errno) => return Ok(Started::Not(errno as i32)),
    };
    drop((fail, pipes));
    let mut errno = [0; 4];
    match rustix::io::retry_on_intr(|| rustix::io::read(&failure, &mut errno))? {
        4 => Ok(Started::Not(i32::from_ne_bytes(errno))),
        _ => Ok(Started::Running(child)),
    }
}

/// Returns only when it failed, with the errno.
fn become_command(image: &Image, dir: &Path, pipes: &Pipes) -> i32 {
    match prepare(dir, pipes).and_then(|()| execve(&image.program, &image.args, &image.env)) {
        Ok(never) => match never {},
        Err(errno) => errno as i32,
    }
}

fn prepare(dir: &Path, pipes: &Pipes) -> Result<(), Errno> {
    // What the supervisor was started with as ignored would be inherited on, and std ignores SIGPIPE.
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: the default action runs no code of this process. SIGKILL, SIGSTOP and the C library's own two signals
        // are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    SigSet::empty().thread_set_mask()?;
    nix::unistd::setsid()?;
    let null = File::open("/dev/null").map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    nix::unistd::dup2_stdin(null)?;
    nix::unistd::dup2_stdout(&pipes.stdout)?;
    nix::unistd::dup2_stderr(&pipes.stderr)?;
    // Everything else closes on `execve` already; this is for what was forgotten.
    // SAFETY: marks descriptors and closes none.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(marked)?;
    nix::unistd::chdir(dir)
}
