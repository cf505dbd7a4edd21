//! Starts one command: pipes, a session of its own, the working directory, the environment, `execve`. Must not know what
//! becomes of it.

use crate::slice;
use crate::spec::CommandSpec;
use crate::unstarted::{Step, Unstarted};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, chdir, geteuid};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A session of its own, so that nobody's terminal is the command's: POSIX_SPAWN_SETSID, whose type the C library's
/// bindings keep changing.
const SETSID_BIT: i32 = 0x80;
const SETSID: PosixSpawnFlags = PosixSpawnFlags::from_bits_retain(SETSID_BIT);

/// The writing ends of a command's streams.
pub(super) struct Pipes {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Whether a command runs.
pub(super) enum Started {
    /// It was executed.
    Running(Pid),
    /// It could not be executed.
    Not(Unstarted),
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

/// Executes. All writing ends are closed here when it returns.
///
/// The C library's spawn copies no page tables, and everything that init has open closes on `execve`.
pub(super) fn start(command: &CommandSpec, pipes: Pipes) -> io::Result<Started> {
    let image = Image::of(command)?;
    let mut attributes = PosixSpawnAttr::init()?;
    // What the supervisor was started with as ignored would be inherited on, and std ignores SIGPIPE.
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let signals = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    // A command begins as promptly as its init; what it starts waits like everybody.
    let prompt = slice::end_with_heir(&mut attributes);
    attributes.set_flags(signals | SETSID | prompt)?;
    let mut files = PosixSpawnFileActions::init()?;
    files.add_open(0, "/dev/null", OFlag::O_RDONLY, Mode::empty())?;
    files.add_dup2(pipes.stdout.as_raw_fd(), 1)?;
    files.add_dup2(pipes.stderr.as_raw_fd(), 2)?;
    let not = |step, errno: Errno| Started::Not(Unstarted { step, errno: errno as i32, uid: geteuid().as_raw() });
    // Init is nowhere in particular.
    if let Err(errno) = chdir(&command.dir) {
        return Ok(not(Step::Enter, errno));
    }
    let spawned = posix_spawn(image.program.as_c_str(), &files, &attributes, &image.args, &image.env);
    Ok(match spawned {
        Ok(child) => Started::Running(child),
        Err(errno) => not(Step::Execute { is_there: command.program.exists() }, errno),
    })
}
