//! The worker: a small single-threaded process that puts on the layers of one run, becomes init of its pid namespace,
//! runs its commands one after the other and reaps everything. It does what its plan says and decides nothing. Must not
//! know limits, deadlines or verdicts; those are the supervisor's.
//!
//! Two kinds of process: the *launcher*, which the supervisor spawned and which makes what all runs of a room share, and
//! for each run an *init*, its child, pid 1 of the run. Each dies with its parent, and everything in the namespace dies
//! with init.

mod attributes;
mod capabilities;
mod command;
mod fork;
mod identity;
mod init;
mod landlock;
mod launcher;
mod layers;
mod mounts;
mod report;
mod root;
mod seccomp;
mod shared;

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
            say("proctor-worker is the part of proctor that runs tests inside a sandbox. \
                 The supervisor starts it; to run tests use `proctor run`.");
            ExitCode::from(2)
        }
    }
}

// Where stderr cannot be written, nobody can be told.
fn say(text: &str) {
    _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
}
