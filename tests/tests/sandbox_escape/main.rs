//! The escape suite: every attack of one table, held by the sandbox, and shown to succeed with its layer left off, so
//! that each row is known to be able to fail. The same rows in every place: on this host as root, as an ordinary user,
//! and in a guest with another kernel and cgroup v2 alone. Must not know how a layer works.
//!
//! `escape` runs all places, `escape --place host|user|guest` one. Names, or parts of names, choose rows, and
//! `--skip NAME` leaves out, as of any test. With `--attack PROGRAM` and `--worker PROGRAM` nothing is built, which a guest
//! needs. `--exact host` is `--place host`, as test runners ask for it. With `--base DIRECTORY` and `--gifts DIRECTORY` as well, nothing is laid out and the rows run in this very process,
//! which an ordinary user needs. `--survey` judges nothing and shows how each attack goes outside and inside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a suite that cannot set up what it needs must fail")]

mod attack_attempt;
mod attack_programs;
mod attack_row;
mod attack_table;
mod environments;
mod host_targets;

use environments::{Environment, SuiteOptions};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        list(arguments.iter().any(|argument| argument == "--ignored"));
        return ExitCode::SUCCESS;
    }
    let asked = SuiteOptions::from(arguments.into_iter());
    let tally = match asked.place {
        Some(Environment::Guest) if !asked.is_in_place() => environments::in_guest(&asked),
        Some(place) => environments::here(&asked, place),
        None => environments::everywhere(&asked, &[Environment::Host, Environment::User])
            .with(&environments::in_guest(&asked)),
    };
    println!("\n{}", tally.closing());
    if tally.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lists the places as the tests of this program, in the form of libtest, for a test runner that gives each test a process.
/// None of them is ignored.
fn list(ignored: bool) {
    for place in Environment::ALL.iter().filter(|_| !ignored) {
        println!("{}: test", place.name());
    }
}
