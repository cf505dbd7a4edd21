//! The escape suite: every attack of one table must be held by the sandbox, and must succeed without the layer that holds
//! it, which shows that the row can fail. The rows run on this host as root and as an ordinary user, and in a guest with
//! another kernel and cgroup v2 only.
//!
//! Without options all environments run; `--place host|user|guest` selects one. Other words select rows by parts of their
//! names, and `--skip NAME` leaves rows out, as in Rust's test runner. `--attack PROGRAM` and `--worker PROGRAM` give built
//! programs, which a guest needs. With `--base DIRECTORY` and `--gifts DIRECTORY` in addition, the layout exists and the rows
//! run in this process, which an ordinary user needs. `--survey` shows how each attack ends outside and inside of the sandbox
//! without checking it. A test runner that gives each test a process lists the environments with `--list` and runs one with
//! `--exact`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a suite that cannot set up what it needs must fail")]

mod attack_attempt;
mod attack_row;
mod attack_table;
mod environments;
mod host_targets;
mod program_layout;

use environments::{Environment, SuiteOptions};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        list(arguments.iter().any(|argument| argument == "--ignored"));
        return ExitCode::SUCCESS;
    }
    let options = SuiteOptions::parse(arguments.into_iter());
    let tally = match options.environment {
        Some(Environment::Guest) if !options.has_programs() => environments::run_in_guest(&options),
        Some(environment) => environments::run_here(&options, environment),
        None => environments::run_in_processes(&options, &[Environment::Host, Environment::User])
            .add(&environments::run_in_guest(&options)),
    };
    println!("\n{}", tally.summary_line());
    if tally.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lists the places as the tests of this program, in the form of libtest, for a test runner that gives each test a process.
/// None of them is ignored.
fn list(ignored: bool) {
    for place in Environment::ALL.iter().filter(|_| !ignored) {
        println!("{}: test", place.name());
    }
}
