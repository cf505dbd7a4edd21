//! The command line of `proctor`: what can be asked, and where each question goes. Exit codes and outputs are a contract
//! with scripts. Must not know how runs go on.

mod admin;
mod arguments;
mod config_reload;
mod doctor;
mod in_process;
mod last_run;
mod last_run_store;
mod list;
mod live_output;
mod log_writer;
mod logging;
mod print;
mod progress_line;
mod run;
mod serve;
mod signals;
mod terminal_report;
mod token;
mod xdg_dirs;

use arguments::{Cli, Command};
use clap::Parser;
use logging::Logs;
use std::process::ExitCode;

/// Exit status for a mistake on the command line.
const USAGE: u8 = 2;

/// Exit status when the host cannot do what was asked.
const HOST: u8 = 5;

/// Exit status of a command that somebody ended.
const CANCELLED: u8 = 130;

/// A failure that ends the program: what to say and the exit status.
#[derive(Debug)]
struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    fn usage(text: impl Into<String>) -> Failure {
        Failure { code: USAGE, text: text.into() }
    }

    fn host(text: impl Into<String>) -> Failure {
        Failure { code: HOST, text: text.into() }
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // Each run has a thread, and there may be hundreds.
    proctor_sandbox::share_arenas();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return ExitCode::from(explain(&error));
        }
    };
    let logs = match Logs::begin(&cli.command) {
        Ok(logs) => logs,
        Err(error) => {
            Logs::Direct.say(&format!("proctor: no log can be begun: {error}"));
            return ExitCode::from(HOST);
        }
    };
    let answered = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Failures(arguments) => last_run::failures(&arguments),
        Command::Covering(arguments) => last_run::covering(&arguments),
        Command::Report(arguments) => last_run::report(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Admin(arguments) => admin::admin(&arguments),
    };
    let code = answered.unwrap_or_else(|failure| {
        logs.say(&format!("proctor: {}", failure.text));
        failure.code
    });
    logs.finish();
    ExitCode::from(code)
}

// Help and version are asked for and succeed; everything else is a mistake, which may quote what was given.
fn explain(error: &clap::Error) -> u8 {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        print::beside(text.trim_end());
        return USAGE;
    }
    print::answer(&text).map_or_else(
        |failure| {
            print::beside(&format!("proctor: {}", failure.text));
            failure.code
        },
        |()| 0,
    )
}
