//! Child processes for one action each.

use crate::seccomp::Filter;
use libc::c_long;
use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::set_no_new_privs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Result of an action in a child.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Answer {
    Done,
    Errno(i32),
    Killed(i32),
}

/// Does `work` in a child without a terminal. Changes of the child to itself end with it.
pub(crate) fn in_child(work: impl FnOnce() -> io::Result<()>) -> Answer {
    // SAFETY: the child only makes system calls and allocates, which this C library allows after a fork.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let answer = rustix::process::setsid().map_err(io::Error::from).and_then(|_| work());
            let errno = answer.err().map_or(0, |error| error.raw_os_error().unwrap_or(255));
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(errno) }
        }
        ForkResult::Parent { child } => {
            let (_, status) = waitpid(Pid::from_raw(child.as_raw()), WaitOptions::empty()).unwrap().unwrap();
            match (status.exit_status(), status.terminating_signal()) {
                (Some(0), _) => Answer::Done,
                (Some(errno), _) => Answer::Errno(errno),
                (None, Some(signal)) => Answer::Killed(signal),
                (None, None) => panic!("{status:?}"),
            }
        }
    }
}

pub(crate) fn call(number: c_long, args: [c_long; 5]) -> io::Result<()> {
    let [a, b, c, d, e] = args;
    // SAFETY: the only valid pointer in these tests is read by the kernel and points to a program that outlives the
    // call.
    if unsafe { libc::syscall(number, a, b, c, d, e) } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn install(filter: &Filter) -> io::Result<()> {
    set_no_new_privs(true)?;
    filter.install()
}

pub(crate) fn needs_root() {
    assert!(rustix::process::geteuid().is_root(), "to show what happens without the filters, this needs root");
}

#[expect(clippy::disallowed_methods, reason = "the test is init, and starts its commands")]
pub(crate) fn program(name: &str) -> Command {
    Command::new(name)
}

pub(crate) fn before_exec(command: &mut Command, work: impl FnMut() -> io::Result<()> + Send + Sync + 'static) {
    // SAFETY: the closure makes system calls and allocates, which this C library allows after a fork.
    unsafe { command.pre_exec(work) };
}
