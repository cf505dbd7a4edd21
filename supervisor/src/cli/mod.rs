//! The command line of `proctor`: dispatches subcommands. Exit codes and outputs are a contract with scripts.

mod admin;
mod affected;
mod analyze;
mod arguments;
mod check;
mod check_arguments;
mod check_report;
mod config_reload;
mod doctor;
mod event_lines;
mod failure_groups;
mod file_watcher;
mod flaky;
mod history;
mod in_process;
mod init;
mod last_run;
mod last_run_store;
mod list;
mod live_output;
mod log_writer;
mod logging;
mod mutate;
mod mutate_arguments;
mod print;
mod progress_line;
mod report_arguments;
mod report_documents;
mod report_target;
mod resource_arguments;
mod run;
mod run_summary;
mod serve;
mod shell_files;
mod signals;
mod terminal_report;
mod top;
mod watch;
mod xdg_dirs;

use arguments::{Cli, Command};
use clap::Parser;
use logging::Logs;
use std::process::ExitCode;

/// Exit status for a mistake on the command line.
const USAGE: u8 = 2;

/// Exit status if the host cannot do what was asked.
const HOST: u8 = 5;

/// Exit status of a command that was interrupted.
const CANCELLED: u8 = 130;

/// An error that ends the program: its text and the exit status.
#[derive(Debug)]
struct CommandError {
    code: u8,
    text: String,
}

impl CommandError {
    fn usage(text: impl Into<String>) -> CommandError {
        CommandError { code: USAGE, text: text.into() }
    }

    fn host(text: impl Into<String>) -> CommandError {
        CommandError { code: HOST, text: text.into() }
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // Each run has a thread, and there may be hundreds: limits the allocator's arenas.
    proctor_sandbox::limit_malloc_arenas();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return ExitCode::from(explain(&error));
        }
    };
    let logs = match Logs::init(&cli.command) {
        Ok(logs) => logs,
        Err(error) => {
            print::message(&format!("proctor: the log cannot be opened: {error}"));
            return ExitCode::from(HOST);
        }
    };
    let result = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Failures(arguments) => last_run::failures(&arguments),
        Command::Analyze(arguments) => analyze::analyze(&arguments),
        Command::Affected(arguments) => affected::affected(&arguments),
        Command::Covering(arguments) => last_run::covering(&arguments),
        Command::History(arguments) => history::history(&arguments),
        Command::Flaky(arguments) => flaky::flaky(&arguments),
        Command::Mutate(arguments) => mutate::mutate(&arguments),
        Command::Report(arguments) => last_run::report(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Admin(arguments) => admin::admin(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Completions(arguments) => shell_files::completions(&arguments),
        Command::ManPages(arguments) => shell_files::man_pages(&arguments),
    };
    let code = result.unwrap_or_else(|failure| {
        logs.report(&format!("proctor: {}", failure.text));
        failure.code
    });
    logs.finish();
    ExitCode::from(code)
}

// Help and version were requested and succeed; any other error is a usage mistake.
fn explain(error: &clap::Error) -> u8 {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        print::message(text.trim_end());
        return USAGE;
    }
    print::text(&text).map_or_else(
        |failure| {
            print::message(&format!("proctor: {}", failure.text));
            failure.code
        },
        |()| 0,
    )
}
