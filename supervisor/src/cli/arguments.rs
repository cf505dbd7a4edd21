//! The command line: subcommands, options and their help.

use super::check_arguments::CheckArgs;
use super::mutate_arguments::MutateArgs;
use super::report_arguments::{FormatName, RunOutput, RunReportFiles};
use super::resource_arguments::ResourceArgs;
use crate::config::units::{Bytes, Duration, milliseconds};
use clap::{Args, Parser, Subcommand, ValueEnum};
use proctor_core::bounds::{
    AFFECTED_TESTS_PAGE, ANALYSIS_PAGE, DRAIN_GRACE_MAX, FAILURES_PAGE, HISTORY_PAGE, PARALLEL_MAX, REPEAT_MAX,
    RETRY_FAILED_MAX,
};
use std::path::PathBuf;

/// proctor runs the tests of a workspace in a sandbox and reports what broke.
#[derive(Debug, Parser)]
#[command(name = "proctor", version = version(), propagate_version = true, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The version, with the git revision if the build was told one (`PROCTOR_REVISION`).
fn version() -> &'static str {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("PROCTOR_REVISION") {
        // Once in a process: clap keeps the text without copying it.
        Some(revision) if !revision.is_empty() => format!("{version} ({revision})").leak(),
        _ => version,
    }
}

const EXAMPLES: &str = "\
Examples:
  proctor run                          all tests of this workspace
  proctor run --filter TestParse       only the tests that match the runner's filter
  proctor run --failed                 rerun exactly what failed
  proctor run --affected               only the tests that your changes may affect
  proctor check                        what linters and type checkers find
  proctor failures                     file, line and message of each failure
  proctor analyze                      what the failures have in common, and where to look first
  proctor covering internal/a.go:42    tests that execute this line
  proctor history                      earlier runs: what broke when
  proctor doctor                       what this host can enforce, with remedies";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a workspace's tests in a sandbox; no daemon, no config.
    Run(Box<RunArgs>),
    /// List the tests of a workspace without running them.
    List(ListArgs),
    /// Run the linters and type checkers of a workspace in a sandbox.
    Check(CheckArgs),
    /// Show the failures of the last run in this workspace.
    Failures(FailuresArgs),
    /// Show what the failures of the last run have in common, and where to look first.
    Analyze(AnalyzeArgs),
    /// Show the tests that execute a file or a line, as measured by earlier runs.
    Covering(CoveringArgs),
    /// Show the tests that changes since the last run, or since a git revision, may affect.
    Affected(AffectedArgs),
    /// Show earlier runs of a workspace: what broke when, and which tests are flaky or became slow.
    History(HistoryArgs),
    /// Look for what makes a test fail at times: alone, among all tests, and after the test before its failure.
    Flaky(FlakyArgs),
    /// Change one line of the product at a time, and list the changes that no test notices.
    Mutate(MutateArgs),
    /// Print the report of the last run in this workspace.
    Report(ReportArgs),
    /// Write a project file for a workspace, with every key explained.
    Init(InitArgs),
    /// Serve the gRPC interface to tenants.
    Serve(ServeArgs),
    /// Show what this host can enforce, layer by layer, with a remedy for each missing one.
    Doctor(DoctorArgs),
    /// Create a token, or query or drain a running supervisor.
    Admin(AdminArgs),
    /// Watch a running supervisor: its tenants, its runs and their tests, as they change.
    Top(TopArgs),
    /// Print a shell's completions of this command line.
    Completions(CompletionsArgs),
    /// Write the manual as man pages.
    #[command(hide = true)]
    ManPages(ManPagesArgs),
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(super) struct RunArgs {
    /// The workspace directory.
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// The framework (go, pytest, jest), or `all`; detected from the files if absent.
    #[arg(long, value_name = "NAME")]
    pub(super) framework: Option<String>,
    /// Exactly these tests, by the names that `proctor list` and failures print; `--test=NAME` for a leading dash.
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["filter", "file"])]
    pub(super) test: Vec<String>,
    /// A filter expression of the runner (Go: -run).
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,
    /// Only the packages of these files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) file: Vec<String>,
    /// Wall time until SIGTERM (300s, 5m); the rest is killed five seconds later. At most 30m. [default: 300s; 900s for
    /// frameworks that build a project first or drive a browser or a device]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) resources: ResourceArgs,
    /// How much the workspace and the build caches may grow. [default: 10GiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) disk: Option<Bytes>,
    /// `none` provides loopback only, `host` the host's network.
    #[arg(long, value_enum, default_value = "none")]
    pub(super) network: Network,
    /// Whether to measure which tests execute which lines. `auto` does unless that makes all tests much slower: then one run of
    /// all tests in five measures, and each run of some tests. `on` does in any case, in Python before 3.12 with a tracer.
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) coverage: Coverage,
    /// Rerun exactly what failed in the last run.
    #[arg(long, conflicts_with_all = ["framework", "test", "filter", "file", "command", "parallel", "headed", "browser"])]
    pub(super) failed: bool,
    /// Run only the tests that changes may affect: since the last run of all tests (`last_run`), the last state at which all
    /// passed (`last_green`), or a git revision. All tests run where that is not sure, and the report says why.
    #[arg(long, value_name = "GITREV", num_args = 0..=1, default_missing_value = "last_run", conflicts_with_all = ["failed", "framework", "test", "filter", "file", "command", "parallel", "headed", "browser"])]
    pub(super) affected: Option<String>,
    /// Execute the tests N times; all executions share the timeout. Failed if any failed; a test with both results is
    /// reported as flaky.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEAT_MAX)), conflicts_with_all = ["failed", "fresh"])]
    pub(super) repeat: Option<u32>,
    /// End the repetition at the first execution that differs from those before it.
    #[arg(long, requires = "repeat")]
    pub(super) until_different: bool,
    /// Execute the tests that only failed up to N times more: one that passes then is flaky, and remains failed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RETRY_FAILED_MAX)), conflicts_with_all = ["failed", "fresh"])]
    pub(super) retry_failed: Option<u32>,
    /// Run again whenever a file of the workspace changes: first what this may affect, then all.
    #[arg(long, conflicts_with_all = ["failed", "affected"])]
    pub(super) watch: bool,
    /// What to print.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "human", hide_possible_values = true, help = format!("What to print: {}", RunOutput::names()))]
    pub(super) output: RunOutput,
    #[command(flatten)]
    pub(super) files: RunReportFiles,
    /// Concurrent tests within one package.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARALLEL_MAX)))]
    pub(super) parallel: Option<u32>,
    /// Show the browser's window, for tests that drive a browser on a run with a display.
    #[arg(long)]
    pub(super) headed: bool,
    /// The browser for tests that drive one.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) browser: Option<Browser>,
    /// Use empty build caches and remove them afterwards: checks a result without leftovers of earlier runs.
    #[arg(long)]
    pub(super) fresh: bool,
    /// Set an environment variable; repeatable. Variables that decide what runs are refused.
    #[arg(long, value_name = "K=V")]
    pub(super) env: Vec<String>,
    /// A command to run instead of the framework's; its exit status decides.
    #[arg(last = true, conflicts_with_all = ["framework", "test", "filter", "file", "parallel", "headed", "browser"])]
    pub(super) command: Vec<String>,
}

const RUN_HELP: &str = "\
Exit status:
  0 passed   1 failed   2 usage   3 build or collection failed   4 no tests ran
  5 runner missing, worker lost, or a requested limit that this host cannot enforce
  124 timed out   130 cancelled   137 out of memory, disk, pids or log   128+N crashed by signal N

Examples:
  proctor run services/api                  the workspace in this directory
  proctor run --file internal/a/a.go        the package of this file
  proctor run --test 'test_a.py::test_s[a b]' TestParse
                                            exactly these tests
  proctor run --memory 512MiB --timeout 60s --output json
  proctor run --junit build/junit.xml --html report.html
  proctor run --affected main               what may be affected by the changes since main
  proctor run --watch                       again on every change, until Ctrl-C
  proctor run -- make check                 any command; live output at a terminal
  proctor run --repeat 50 --until-different --test TestPool
                                            look for a test that fails at times

Ctrl-C cancels at once and still prints the partial report. Without root, the
layers that the kernel offers are used and missing ones are listed. The last
report and the coverage index are stored in $XDG_STATE_HOME/proctor, build
caches in $XDG_CACHE_HOME/proctor; --fresh runs without them.";

const LIST_HELP: &str = "\
Exit status: 0 listed, even if there are no tests; 3 something did not build
or load, and the rest is listed; otherwise as for `proctor run`.

Examples:
  proctor list                              tests by package, as named by --test and reports
  proctor list --output json | jq '.tests[].name'";

const FAILURES_HELP: &str = "\
Exit status: 0, even if there are failures; 2 if there is no run yet.

Examples:
  proctor failures                          file, line, message and diff of each failure
  proctor failures --limit 500              up to 500 failures
  proctor run --failed                      rerun exactly these";

const ANALYZE_HELP: &str = "\
Each statement has its evidence and one of three degrees: certain (the kernel,
proctor, or the compiler or runner itself recorded it), likely (the failure's own
message has a known form), possible (only circumstances agree).

Exit status: 0, whatever was found; 2 if there is no run yet.

Examples:
  proctor analyze                           root cause, suggestions, patterns, files
  proctor analyze --output json | jq -r '.root_cause.statement'";

const COVERING_HELP: &str = "\
Exit status: 0, even if no test executes it; 2 if the workspace has no such file.

Examples:
  proctor covering internal/a.go            tests that execute any line of the file
  proctor covering internal/a.go:42         tests that execute line 42
  proctor covering internal/a.go:40-60      tests of these lines, and which lines no test executes
  proctor covering shop/cart.py:Cart.total  the same for a function
  proctor covering shop/cart.py:9 --output json | jq -r '.tests[].name'";

const AFFECTED_HELP: &str = "\
A test is selected if it failed, was flaky or was skipped when it last ran, if it
executed a changed line, or if what it imports changed. Settings, lock files, data
files and whatever cannot be told select all tests, with the reason. It needs a run
of all tests before; tests of cargo, go, jest, mocha, nextest, node, pytest, unittest
and vitest are selected.

Exit status: 0, whatever was found; 2 if there is no such revision.

Examples:
  proctor affected                          since the last run of all or all affected tests
  proctor affected last_green               since every test passed
  proctor affected main                     since a branch, tag or commit
  proctor run --affected                    run them";

const HISTORY_HELP: &str = "\
Each run is compared with the last result of each of its tests: NEW fail now and
passed or had never run, FIXED pass now and failed, STILL fail again. Clones,
worktrees and moved directories of one repository share one history.

Exit status: 0, even if nothing is recorded; 5 if the history cannot be read.

Examples:
  proctor history                           the latest runs, newest first
  proctor history --test TestParse          when this test passed and failed
  proctor history --flaky --slow            tests to distrust, and tests to speed up
  proctor history --output json | jq '.runs[0].new'";

const FLAKY_HELP: &str = "\
The test is executed under one condition after the other, --repeat times each
within one --timeout:

  alone                     a test that fails here needs no other one
  with PYTHONHASHSEED=0, with the seed of a failure, else under cpu pressure
  (0.2 processors)          if it is flaky alone
  among all tests, after the tests before it in an earlier run in which it
  failed, in the reverse order, in random orders: until it fails
  after half of the tests before that failure, and so on, until one is left
  under cpu pressure        if no order makes it fail

A condition that the runner or the host lacks is left out, and named. pytest and
unittest take every order; Go, Jest, Vitest and RSpec random ones; PHPUnit also
the reverse. A conclusion says \"only\" if the 95 % intervals of the rates with
and without the condition have nothing in common.

Exit status: 1 if the test failed at least once, 0 if it had results and no
failure, else that of the outcome that ended a step, 124 for a timeout.

Examples:
  proctor flaky TestPool                    what makes this test fail
  proctor flaky test_a.py::test_s --repeat 100 --timeout 20m";

/// Options of `flaky`.
#[derive(Debug, Args)]
#[command(after_help = FLAKY_HELP)]
pub(super) struct FlakyArgs {
    /// The test, by the name that `proctor list` and failures print.
    #[arg(value_name = "TEST")]
    pub(super) test: String,
    /// The workspace directory.
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// Executions under each condition.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=i64::from(REPEAT_MAX)))]
    pub(super) repeat: u32,
    /// The framework (go, pytest, jest); detected from the files if absent.
    #[arg(long, value_name = "NAME")]
    pub(super) framework: Option<String>,
    /// Wall time of each step. [default: 300s; 900s for frameworks that build a project first]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) timeout: Option<Duration>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

const REPORT_HELP: &str = "\
Exit status: 0 printed; 2 if there is no run yet.

Examples:
  proctor report | jq .summary
  proctor report | jq -r '.tests[] | select(.outcome == \"failed\") | .nodeid'
  proctor report --format html --out report.html
  proctor report --artifact shop/test-failed-1.png --out shot.png";

const INIT_HELP: &str = "\
Exit status: 0 written; 2 if there is a project file and --force is absent; 5 if
it cannot be written.

Examples:
  proctor init                              write .proctor.yaml, every key a comment
  proctor init --schema > .proctor.schema.json
                                            for `# yaml-language-server: $schema=`";

const SERVE_HELP: &str = "\
SIGHUP reloads the host file. SIGTERM drains: new work is refused, runs may
finish within `[host] drain`, and the rest is cancelled. A second SIGTERM
cancels at once. Traces go to the collector of `[telemetry.traces]`, metrics to
that of `[telemetry.metrics]`, or both to that of the standard variable
OTEL_EXPORTER_OTLP_ENDPOINT.

Examples:
  proctor serve --config /etc/proctor/proctor.toml --check
  proctor serve --config /etc/proctor/proctor.toml";

const DOCTOR_HELP: &str = "\
Exit status: 0 if every layer and limit is available, 1 if one is missing.
Changes nothing on the host.";

const TOP_HELP: &str = "\
Keys: up and down select a run, s stops it (y confirms), q or Esc leaves.
The caller's user id must be listed in [operators] of the host file.
Without a terminal, use `proctor admin runs`.";

const ADMIN_HELP: &str = "\
All subcommands except `token` query a running supervisor over its unix socket.
The caller's user id must be listed in [operators] of its host file.

Examples:
  proctor admin token                       a token for a tenant, with its hash for the host file
  proctor admin runs                        running and waiting runs
  proctor admin usage --output json         what each tenant uses, for a program
  proctor admin stop RUN                    cancel a run of any tenant
  proctor admin drain --deadline 2m         let runs finish for two minutes, then stop";

const COMPLETIONS_HELP: &str = "\
Examples:
  proctor completions bash > ~/.local/share/bash-completion/completions/proctor
  proctor completions fish > ~/.config/fish/completions/proctor.fish
  proctor completions zsh > ~/.zfunc/_proctor";

const MAN_PAGES_HELP: &str = "\
Example:
  proctor man-pages man/man1                proctor.1, proctor-run.1 and so on";

/// Options of `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(super) struct CompletionsArgs {
    /// The shell that reads them.
    pub(super) shell: clap_complete::Shell,
}

/// Options of `man-pages`.
#[derive(Debug, Args)]
#[command(after_help = MAN_PAGES_HELP)]
pub(super) struct ManPagesArgs {
    /// A directory that exists.
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// The workspace directory.
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// The framework (go, pytest, jest); detected from the files if absent.
    #[arg(long, value_name = "NAME")]
    pub(super) framework: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

/// Selects the workspace whose last run is meant.
#[derive(Debug, Args)]
pub(super) struct LastRunArgs {
    /// The workspace; by default this directory, or the nearest parent that has had a run.
    #[arg(long, value_name = "PATH")]
    pub(super) workspace: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = AFFECTED_HELP)]
pub(super) struct AffectedArgs {
    /// The state to compare with: `last_run`, `last_green` or a git revision.
    #[arg(value_name = "GITREV", default_value = "last_run")]
    pub(super) since: String,
    #[command(flatten)]
    pub(super) last_run: LastRunArgs,
    /// Maximum number of tests to list, 1 to 10,000.
    #[arg(long, value_name = "N", default_value_t = AFFECTED_TESTS_PAGE.default, value_parser = clap::value_parser!(u32).range(1..=i64::from(AFFECTED_TESTS_PAGE.max)))]
    pub(super) limit: u32,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = FAILURES_HELP)]
pub(super) struct FailuresArgs {
    #[command(flatten)]
    pub(super) last_run: LastRunArgs,
    /// Maximum number of failures to show, 1 to 500.
    #[arg(long, default_value_t = FAILURES_PAGE.default, value_parser = clap::value_parser!(u32).range(1..=i64::from(FAILURES_PAGE.max)))]
    pub(super) limit: u32,
}

#[derive(Debug, Args)]
#[command(after_help = ANALYZE_HELP)]
pub(super) struct AnalyzeArgs {
    /// The workspace; by default this directory, or the nearest parent that has had a run.
    pub(super) path: Option<PathBuf>,
    /// Maximum number of patterns and failed tests, 1 to 500.
    #[arg(long, value_name = "N", default_value_t = ANALYSIS_PAGE.default, value_parser = clap::value_parser!(u32).range(1..=i64::from(ANALYSIS_PAGE.max)))]
    pub(super) limit: u32,
    /// Also show the files that changed since the run before (`last_run`), the last run of all tests that passed
    /// (`last_green`), or a git revision.
    #[arg(long, value_name = "last_run|last_green|GITREV")]
    pub(super) since: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = COVERING_HELP)]
pub(super) struct CoveringArgs {
    /// A file and optionally a line, a range or a function. Relative to --workspace if given, otherwise to this directory.
    #[arg(value_name = "FILE[:LINE[-LINE]|:FUNCTION]")]
    pub(super) location: String,
    /// A function or method of the file, `total` or `Cart.total`: the same as behind a colon.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) last_run: LastRunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = HISTORY_HELP)]
pub(super) struct HistoryArgs {
    /// The workspace; by default this directory, or the nearest parent that has had a run.
    pub(super) path: Option<PathBuf>,
    /// Show how one test fared instead: its name, alone or behind its package, or a part of it.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(super) test: Option<String>,
    /// Show tests whose result changed and came back on the same files, command and environment.
    #[arg(long)]
    pub(super) flaky: bool,
    /// Show tests whose latest three runs each took 30 % and 50 ms longer than the median before, beyond their noise.
    #[arg(long)]
    pub(super) slow: bool,
    /// Maximum number of runs or tests to show, 1 to 500.
    #[arg(long, value_name = "N", default_value_t = HISTORY_PAGE.default, value_parser = clap::value_parser!(u32).range(1..=i64::from(HISTORY_PAGE.max)))]
    pub(super) limit: u32,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    pub(super) last_run: LastRunArgs,
    /// Format of the report.
    #[arg(long, value_enum, default_value = "json")]
    pub(super) format: FormatName,
    /// Write an artifact of the run (screenshot, trace, video) instead of the report; named as in `artifacts`.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, conflicts_with = "format")]
    pub(super) artifact: Option<String>,
    /// Output file; standard output if absent.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = INIT_HELP)]
pub(super) struct InitArgs {
    /// The workspace directory.
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// Replace the project file that is there.
    #[arg(long)]
    pub(super) force: bool,
    /// Print the JSON schema of the project file instead, for editors.
    #[arg(long, conflicts_with_all = ["path", "force"])]
    pub(super) schema: bool,
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(super) struct ServeArgs {
    /// The host file. `deploy/proctor.toml` documents every key.
    #[arg(long, value_name = "FILE", required_unless_present = "private")]
    pub(super) config: Option<PathBuf>,
    /// Only check the host file and list its problems.
    #[arg(long, requires = "config")]
    pub(super) check: bool,
    /// Serve one caller over the connected unix socket on file descriptor 0, and exit with it.
    #[arg(long, conflicts_with = "config", requires = "root")]
    pub(super) private: bool,
    /// With --private: the directory that contains the workspaces.
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(super) struct DoctorArgs {
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = ADMIN_HELP)]
pub(super) struct AdminArgs {
    #[command(subcommand)]
    pub(super) command: AdminCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum AdminCommand {
    /// Create a bearer token and its hash for the host file.
    Token,
    /// List the tenants of a running supervisor with their sessions and runs.
    Tenants(AdminListArgs),
    /// List what each tenant uses now, with its quota: sessions, runs, memory, retained bytes, event streams.
    Usage(AdminListArgs),
    /// List the sessions of a running supervisor with their waiting runs.
    Sessions(AdminListArgs),
    /// List the running and waiting runs of a running supervisor.
    Runs(AdminListArgs),
    /// Cancel a run of any tenant. It ends as cancelled and keeps its partial results.
    Stop(StopArgs),
    /// Stop a running supervisor: refuse new work, let runs finish until the deadline, cancel the rest.
    Drain(DrainArgs),
}

#[derive(Debug, Args)]
pub(super) struct SupervisorSocket {
    /// The supervisor's unix socket; the caller's user id must be an operator's.
    #[arg(long, value_name = "PATH", default_value = "/run/proctor/proctor.sock")]
    pub(super) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct AdminListArgs {
    #[command(flatten)]
    pub(super) socket: SupervisorSocket,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    pub(super) socket: SupervisorSocket,
    /// The run's id, as `proctor admin runs` lists it.
    #[arg(value_name = "RUN")]
    pub(super) run: String,
}

#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(super) struct TopArgs {
    #[command(flatten)]
    pub(super) socket: SupervisorSocket,
    /// Time between two updates (500ms, 2s), at least 100ms.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub(super) interval: Interval,
}

/// Time between two updates of a live view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval(pub(super) std::time::Duration);

fn interval(text: &str) -> Result<Interval, String> {
    let ms = milliseconds(text)?;
    let is_valid = (100..=3_600_000).contains(&ms);
    is_valid.then(|| Interval(std::time::Duration::from_millis(ms))).ok_or_else(|| "from 100ms to 1h".to_owned())
}

#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    pub(super) socket: SupervisorSocket,
    /// How long runs may continue, at most 24h; 0 cancels them at once. [default: as in the host file]
    #[arg(long = "deadline", value_name = "DURATION", allow_hyphen_values = true, value_parser = deadline)]
    pub(super) deadline_ms: Option<u64>,
}

fn deadline(text: &str) -> Result<u64, String> {
    let ms = milliseconds(text)?;
    let too_long = std::time::Duration::from_millis(ms) > DRAIN_GRACE_MAX;
    if too_long { Err(format!("at most {}h", DRAIN_GRACE_MAX.as_secs() / 3_600)) } else { Ok(ms) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Network {
    None,
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Coverage {
    Auto,
    On,
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
    /// Text for a person.
    Human,
    /// One JSON document.
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
    fn every_command_has_help_that_fits_a_terminal() {
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
            assert!(command.get_after_help().is_some(), "{} has no help text", command.get_name());
        }
    }

    #[test]
    fn a_drain_deadline_is_at_most_a_day() {
        let parse = |deadline: &str| {
            let cli = Cli::try_parse_from(["proctor", "admin", "drain", "--deadline", deadline])
                .map_err(|error| error.to_string())?;
            let Command::Admin(AdminArgs { command: AdminCommand::Drain(drain) }) = cli.command else {
                panic!("no drain")
            };
            Ok(drain.deadline_ms)
        };
        for (text, ms) in [("0", 0), ("24h", 86_400_000), ("1.5s", 1_500)] {
            assert_eq!(parse(text), Ok(Some(ms)));
        }
        for (text, expected) in [("25h", "at most 24h"), ("86401s", "at most 24h"), ("-1", "got \"-1\"")] {
            let error: String = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
