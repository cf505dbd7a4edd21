//! The worker: a small single-threaded process that isolates one run and becomes init of the run's pid namespace.
//!
//! It carries out its plan, runs the commands one after the other and reaps every process. It decides nothing: limits,
//! deadlines and verdicts are the supervisor's.
//!
//! Two kinds of process: the *launcher*, which the supervisor spawned and which sets up what all runs of a zygote
//! share, and for each run an *init*, its child, pid 1 of the run. Each dies with its parent, and everything in the
//! namespace dies with init.

mod capabilities;
mod child_deaths;
mod command;
mod confined;
mod fork;
mod halt;
mod identity;
mod init;
mod landlock;
mod launcher;
mod layer_installer;
mod mount_attributes;
mod report_fifo;
mod root_fs;
mod run_mounts;
mod seccomp;
mod stack_request;

use std::process::ExitCode;

/// The argument with which the supervisor starts a worker for a run.
pub(crate) const RUN: &str = "run";

/// The whole of `proctor-worker`. Returns the status to exit with: 2 when a person started it by hand.
#[must_use]
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some(RUN), None) => launcher::run(),
        _ => {
            halt::print_stderr(
                "proctor-worker is the part of proctor that runs tests inside a sandbox. \
                 The supervisor starts it; to run tests use `proctor run`.",
            );
            ExitCode::from(2)
        }
    }
}
