//! What the command line accepts, with the help that teaches it. Must not know what is done with it.

use crate::config::units::{Bytes, Cpus, Duration, milliseconds};
use crate::ops::drain::GRACE_MAX;
use clap::{Args, Parser, Subcommand, ValueEnum};
use proctor_core::bounds::PARALLEL_MAX;
use std::path::PathBuf;

/// proctor runs the tests of a workspace in a sandbox and tells what broke.
#[derive(Debug, Parser)]
#[command(name = "proctor", version, propagate_version = true, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  proctor run                          all tests of the workspace here
  proctor run --filter TestParse       only those that the runner's filter picks
  proctor run --failed                 again exactly what failed
  proctor failures                     file, line and message of what failed
  proctor covering internal/a.go:42    which tests execute that line
  proctor doctor                       what this host can enforce, and how to get what is missing";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a workspace's tests in a sandbox; no daemon, no config.
    Run(Run),
    /// List the tests of a workspace without running them.
    List(List),
    /// Show the failures of the last run here.
    Failures(Failures),
    /// Show the tests that execute a file or a line, as the runs here measured it.
    Covering(Covering),
    /// Print the report of the last run here.
    Report(Report),
    /// Serve the gRPC interface to tenants.
    Serve(Serve),
    /// Show what this host can enforce, layer by layer, with the remedy for what is missing.
    Doctor(Doctor),
    /// Draw a token, or ask a running supervisor: tenants, sessions, runs, drain.
    Admin(Admin),
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(super) struct Run {
    /// The workspace.
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// Framework by name (go, pytest, jest), or `all`; found by looking at the files when absent.
    #[arg(long, value_name = "NAME")]
    pub(super) framework: Option<String>,
    /// The runner's own filter expression (Go: -run).
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,
    /// Only the packages of these files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) file: Vec<String>,
    /// Wall time until SIGTERM (300s, 5m); five seconds later everything is killed. At most 30m. [default: 300s; 900s for
    /// frameworks that build a project first or drive a browser or a device]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) timeout: Option<Duration>,
    /// Memory of all processes together, without swap (512MiB, 2GiB), from 4MiB on. [default: 2GiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) memory: Option<Bytes>,
    /// Processors, to a thousandth (0.5, 2), from 0.01 on. [default: 2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) cpus: Option<Cpus>,
    /// Processes and threads at the same time, from 4 on. [default: 512]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) pids: Option<u32>,
    /// How much the workspace and the build caches may grow. [default: 10GiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) disk: Option<Bytes>,
    /// `none` has only loopback, `host` the host's network.
    #[arg(long, value_enum, default_value = "none")]
    pub(super) network: Network,
    /// Whether to measure which tests execute which lines.
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) coverage: Coverage,
    /// Run again exactly what failed in the last run here.
    #[arg(long, conflicts_with_all = ["framework", "filter", "file", "command", "parallel", "headed", "browser"])]
    pub(super) failed: bool,
    /// What to print.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
    /// Tests at the same time within one package.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARALLEL_MAX)))]
    pub(super) parallel: Option<u32>,
    /// Show the browser's window, where tests drive one and the run has a display.
    #[arg(long)]
    pub(super) headed: bool,
    /// The browser of tests that drive one.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) browser: Option<Browser>,
    /// Run with empty build caches, which are removed afterwards: checks a verdict without what earlier runs have left.
    #[arg(long)]
    pub(super) fresh: bool,
    /// A variable for the run; may be given several times. Those that decide what runs are refused.
    #[arg(long, value_name = "K=V")]
    pub(super) env: Vec<String>,
    /// A command that replaces the framework's own; its exit status decides.
    #[arg(last = true, conflicts_with_all = ["framework", "filter", "file", "parallel", "headed", "browser"])]
    pub(super) command: Vec<String>,
}

const RUN_HELP: &str = "\
Exit status:
  0 passed   1 failed   2 usage   3 build or collection failed   4 no tests ran
  5 runner missing, worker lost, or a limit asked for by name that this host cannot enforce
  124 timed out   130 cancelled   137 out of memory, disk, pids or log   128+N crashed by signal N

Examples:
  proctor run services/api                  the workspace there
  proctor run --file internal/a/a.go        the packages of these files
  proctor run --memory 512MiB --timeout 60s --output json
  proctor run -- make check                 any command, shown live at a terminal

Ctrl-C cancels at once and still prints what is known. Without root, what the
kernel gives is used and what is missing is listed. The last report and the
coverage index stay under $XDG_STATE_HOME/proctor, each workspace's
build caches under $XDG_CACHE_HOME/proctor; --fresh runs without these.";

const LIST_HELP: &str = "\
Exit status: 0 listed, also where there are no tests; 3 something did not build
or load, and the rest is listed; else as that of `proctor run`.

Examples:
  proctor list                              by package, each test as --filter and reports name it
  proctor list --output json | jq '.tests[].name'";

const FAILURES_HELP: &str = "\
Exit status: 0, also when there are failures; 2 when nothing has run here yet.

Examples:
  proctor failures                          file, line, message and difference of each
  proctor failures --limit 500              more of them
  proctor run --failed                      runs exactly these again";

const COVERING_HELP: &str = "\
Exit status: 0, also when no test executes it; 2 when the workspace has no such file.

Examples:
  proctor covering internal/a.go            the tests that execute some line of it
  proctor covering internal/a.go:42         those that execute line 42";

const REPORT_HELP: &str = "\
Exit status: 0 printed; 2 when nothing has run here yet.

Examples:
  proctor report | jq .summary
  proctor report | jq -r '.tests[] | select(.outcome == \"failed\") | .nodeid'
  proctor report --artifact shop/test-failed-1.png --out shot.png";

const SERVE_HELP: &str = "\
SIGHUP reads the host file anew. SIGTERM drains: nothing new is taken on, runs
may finish until `[host] drain`, the rest is cancelled; a second one cancels at
once.

Examples:
  proctor serve --config /etc/proctor/proctor.toml --check
  proctor serve --config /etc/proctor/proctor.toml";

const DOCTOR_HELP: &str = "\
Exit status: 0 when runs get every layer and limit, 1 when one is missing.
Nothing on the host is changed.";

const ADMIN_HELP: &str = "\
All but `token` ask a running supervisor over its unix socket, as a user whom
its host file names below [operators].

Examples:
  proctor admin token                       a token for a tenant, and its hash for the host file
  proctor admin runs                        what goes on and what waits
  proctor admin drain --deadline 2m         an orderly end";

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct List {
    /// The workspace.
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// Framework by name.
    #[arg(long, value_name = "NAME")]
    pub(super) framework: Option<String>,
    /// What to print.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

/// Of which workspace the last run is asked about.
#[derive(Debug, Args)]
pub(super) struct LastRun {
    /// The workspace; else this directory, or the next one above that had a run.
    #[arg(long, value_name = "PATH")]
    pub(super) workspace: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = FAILURES_HELP)]
pub(super) struct Failures {
    #[command(flatten)]
    pub(super) last_run: LastRun,
    /// Most failures to show, 1 to 500.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) limit: u32,
}

#[derive(Debug, Args)]
#[command(after_help = COVERING_HELP)]
pub(super) struct Covering {
    /// A file, seen from the workspace if one is named and else from here, and a line of it if wanted.
    #[arg(value_name = "FILE[:LINE]")]
    pub(super) place: String,
    #[command(flatten)]
    pub(super) last_run: LastRun,
}

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(super) struct Report {
    #[command(flatten)]
    pub(super) last_run: LastRun,
    /// The form of the report.
    #[arg(long, value_enum, default_value = "json")]
    pub(super) format: ReportFormat,
    /// A file that the run left (a screenshot, a trace, a video) in place of the report, by its name in `artifacts`.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, conflicts_with = "format")]
    pub(super) artifact: Option<String>,
    /// Where to write it; standard output otherwise.
    #[arg(long, value_name = "FILE", requires = "artifact")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(super) struct Serve {
    /// The host file. `deploy/proctor.toml` documents every key.
    #[arg(long, value_name = "FILE", required_unless_present = "private")]
    pub(super) config: Option<PathBuf>,
    /// Only check the host file and list everything that is wrong with it.
    #[arg(long, requires = "config")]
    pub(super) check: bool,
    /// Serve one caller over the connected unix socket that is file descriptor 0, and end with it.
    #[arg(long, conflicts_with = "config", requires = "root")]
    pub(super) private: bool,
    /// With --private: the directory below which workspaces are.
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(super) struct Doctor {
    /// What to print.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = ADMIN_HELP)]
pub(super) struct Admin {
    #[command(subcommand)]
    pub(super) command: AdminCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum AdminCommand {
    /// Generate a bearer token and its hash for the host file.
    Token,
    /// List the tenants of a running supervisor, with their sessions and runs.
    Tenants(Asked),
    /// List the sessions of a running supervisor, with the runs that wait in each.
    Sessions(Asked),
    /// List the runs of a running supervisor that go on or wait.
    Runs(Asked),
    /// End a running supervisor: no new work, runs may finish until the deadline, the rest is cancelled.
    Drain(Drain),
}

#[derive(Debug, Args)]
pub(super) struct Asked {
    /// The supervisor's unix socket; the caller's user must be an operator.
    #[arg(long, value_name = "PATH", default_value = "/run/proctor/proctor.sock")]
    pub(super) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Drain {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// How long runs may go on, at most 24h; 0 cancels them at once. [default: what the host file says]
    #[arg(long = "deadline", value_name = "DURATION", allow_hyphen_values = true, value_parser = deadline)]
    pub(super) deadline_ms: Option<u64>,
}

fn deadline(text: &str) -> Result<u64, String> {
    let ms = milliseconds(text)?;
    let too_long = std::time::Duration::from_millis(ms) > GRACE_MAX;
    if too_long { Err(format!("at most {}h", GRACE_MAX.as_secs() / 3_600)) } else { Ok(ms) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Network {
    None,
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Coverage {
    Auto,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Browser {
    Chromium,
    Firefox,
    Webkit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For a person.
    Human,
    /// One JSON document.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    /// The document of `proctor run --output json`.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself_within_a_terminal() {
        fn check(command: &mut clap::Command) {
            let help = command.render_help().to_string();
            assert!(help.contains("Usage: "), "{help}");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines() {
                assert!(line.len() <= 100, "{}: {line}", command.get_name());
            }
            assert!(command.get_about().is_some(), "{help}");
            command.get_subcommands_mut().for_each(check);
        }
        let mut cli = Cli::command();
        cli.build();
        check(&mut cli);
        for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_after_help().is_some(), "{} teaches nothing", command.get_name());
        }
    }

    #[test]
    fn runs_get_a_day_at_most_or_no_time_at_all() {
        let asked = |deadline: &str| {
            let cli = Cli::try_parse_from(["proctor", "admin", "drain", "--deadline", deadline])
                .map_err(|error| error.to_string())?;
            let Command::Admin(Admin { command: AdminCommand::Drain(drain) }) = cli.command else { panic!("no drain") };
            Ok(drain.deadline_ms)
        };
        for (text, ms) in [("0", 0), ("24h", 86_400_000), ("1.5s", 1_500)] {
            assert_eq!(asked(text), Ok(Some(ms)));
        }
        for (text, told) in [("25h", "at most 24h"), ("86401s", "at most 24h"), ("-1", "got \"-1\"")] {
            let error: String = asked(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
