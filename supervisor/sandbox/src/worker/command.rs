//! Starts one command: pipes, a session of its own, the working directory, the environment, `execve`.

use super::confined::confine;
use crate::exec_failure::{ExecFailure, ExecStage};
use crate::sched_slice;
use crate::spec::CommandSpec;
use crate::worker_protocol::Confinement;
use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{chdir, geteuid};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::thread;

/// POSIX_SPAWN_SETSID: the command gets its own session, so that no terminal of others is its controlling one. Defined
/// here because the libc crate keeps changing its type.
const SETSID_BIT: i32 = 0x80;
const SETSID: PosixSpawnFlags = PosixSpawnFlags::from_bits_retain(SETSID_BIT);

/// Writing ends of a command's streams.
pub(super) struct Pipes {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Outcome of starting a command.
pub(super) enum StartOutcome {
    /// The command was executed.
    Running(Pid),
    /// The command could not be executed.
    Failed(ExecFailure),
}

/// Makes the pipes of a command: the reading ends of stdout and stderr, and the writing ends.
pub(super) fn pipes() -> io::Result<(OwnedFd, OwnedFd, Pipes)> {
    let (stdout_reader, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr_reader, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((stdout_reader, stderr_reader, Pipes { stdout, stderr }))
}

/// Starts the program that prints the stacks of the running command, and returns the reading end of its stdout. The pipe is
/// at its end when the program is.
pub(super) fn start_printer(program: &CommandSpec) -> io::Result<OwnedFd> {
    let (reader, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let stderr = File::options().write(true).open("/dev/null")?.into();
    match start(program, Pipes { stdout, stderr })? {
        StartOutcome::Running(_) => Ok(reader),
        StartOutcome::Failed(failure) => Err(io::Error::from_raw_os_error(failure.errno)),
    }
}

/// Arguments of `execve`, made before the spawn.
struct Image {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Image {
    fn new(command: &CommandSpec) -> io::Result<Self> {
        let program = CString::new(command.program.as_os_str().as_bytes())?;
        let mut args = vec![program.clone()];
        for arg in &command.args {
            args.push(CString::new(arg.as_str())?);
        }
        let env = command.env.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
        Ok(Image { env: env.collect::<Result<_, _>>()?, program, args })
    }
}

/// Executes the command. All writing ends are closed in this process when it returns.
///
/// The C library's spawn copies no page tables, and everything that init has open closes on `execve`.
pub(super) fn start(command: &CommandSpec, pipes: Pipes) -> io::Result<StartOutcome> {
    let image = Image::new(command)?;
    let mut attributes = PosixSpawnAttr::init()?;
    // Signals that were ignored when the supervisor was started would be inherited, and std ignores SIGPIPE.
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let signals = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    // The command has the short slice of its init; processes that it starts have the normal one.
    let short_slice = sched_slice::inherit_slice_once(&mut attributes);
    attributes.set_flags(signals | SETSID | short_slice)?;
    let mut files = PosixSpawnFileActions::init()?;
    files.add_open(0, "/dev/null", OFlag::O_RDONLY, Mode::empty())?;
    files.add_dup2(pipes.stdout.as_raw_fd(), 1)?;
    files.add_dup2(pipes.stderr.as_raw_fd(), 2)?;
    // Init's own working directory does not matter.
    if let Err(errno) = chdir(&command.dir) {
        return Ok(failed(ExecStage::EnterDirectory, errno.raw_os_error()));
    }
    let spawned = posix_spawn(image.program.as_c_str(), &files, &attributes, &image.args, &image.env);
    Ok(match spawned {
        Ok(child) => StartOutcome::Running(child),
        Err(errno) => failed(ExecStage::Execute { exists: command.program.exists() }, errno as i32),
    })
}

/// The same for a command that may do less than those of a run.
pub(super) fn start_confined(
    command: &CommandSpec,
    pipes: Pipes,
    confinement: &Confinement,
) -> io::Result<StartOutcome> {
    // What restricts a thread holds for it and for what it starts, and not for init.
    thread::scope(|scope| {
        let confined = || match confine(confinement) {
            Ok(()) => start(command, pipes),
            Err(error) => Ok(failed(ExecStage::Execute { exists: true }, error.raw_os_error().unwrap_or(libc::EIO))),
        };
        let thread = thread::Builder::new().spawn_scoped(scope, confined)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts a command panicked")))
    })
}

fn failed(stage: ExecStage, errno: i32) -> StartOutcome {
    StartOutcome::Failed(ExecFailure { stage, errno, uid: geteuid().as_raw() })
}
