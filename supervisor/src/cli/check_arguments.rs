//! The options of `proctor check`.

use super::report_arguments::{CheckOutput, CheckReportFiles};
use super::resource_arguments::ResourceArgs;
use crate::config::units::Duration;
use clap::Args;
use std::path::PathBuf;

const CHECK_HELP: &str = "\
The settings of the workspace select the checkers: those that it has settings
for. A checker that is missing, rejects its settings, crashes or is cut off is
never one without findings. No file is changed: a fix is only shown; only Cargo
writes a missing Cargo.lock. Runs without network, within the same limits as tests.

Exit status:
  0 no errors or warnings, and every checker came to its end; or --since finds
    no changed file to check
  1 errors or warnings   2 usage, or no checker is set up
  3 a checker gave no verdict   5 a checker is not installed, or the host failed
  124 timed out   130 cancelled   137 out of memory, disk, pids or log
  128+N crashed by signal N

Examples:
  proctor check                             every linter and type checker of this workspace
  proctor check --lint src/app.py           what the linters find in this file
  proctor check --checker ruff              this one, even with its defaults alone
  proctor check --since main                only in files changed since main
  proctor check --output github             annotations for GitHub Actions
  proctor check --junit lint.xml            the findings as JUnit XML beside the text
  proctor check --output json | jq -r '.check.findings[].rule' | sort | uniq -c

`new` marks what the check before did not find.";

/// Options of `check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(super) struct CheckArgs {
    /// Only these files and directories, relative to the workspace.
    #[arg(value_name = "FILES")]
    pub(super) files: Vec<String>,
    /// The workspace directory.
    #[arg(long, value_name = "PATH", default_value = ".")]
    pub(super) workspace: PathBuf,
    /// Linters only.
    #[arg(long)]
    pub(super) lint: bool,
    /// Type checkers only.
    #[arg(long)]
    pub(super) typecheck: bool,
    /// This checker; repeatable. [default: those that the workspace has settings for]
    #[arg(long, value_name = "NAME")]
    pub(super) checker: Vec<String>,
    /// Only files that changed since the last run of all tests (`last_run`), the last state at which all passed
    /// (`last_green`), or a git revision. All files where that is not sure; a note says why.
    #[arg(long, value_name = "last_run|last_green|GITREV")]
    pub(super) since: Option<String>,
    /// Wall time until SIGTERM (300s, 5m). At most 30m. [default: 900s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) resources: ResourceArgs,
    /// What to print.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "human")]
    pub(super) output: CheckOutput,
    #[command(flatten)]
    pub(super) reports: CheckReportFiles,
}
