//! Options of `proctor mutate`.

use super::arguments::Output;
use crate::config::units::Duration;
use clap::Args;
use proctor_core::bounds::{MUTANTS_DEFAULT, MUTANTS_MAX, MUTATE_JOBS_MAX};
use std::path::PathBuf;

const MUTATE_HELP: &str = "\
A mutant is a change of one line that a test should notice: `<` for `<=`, `or`
for `and`, a call left out. The suite runs twice as it is, once to measure which
test executes which line. Then each mutant runs with only the tests that execute
its line. The workspace is never changed: a mutant exists only in the sandbox of
its run. Go, Python, JavaScript and TypeScript.

A survivor is a line that tests execute and none of them checks:

  shop.py:7: `if n < 10:` became `if n <= 10:`, executed by 2 test(s) and none
  failed: test_shop.py/test_price, test_shop.py/test_discount

The next test to write calls this line with 10. Some survivors are no other
program (`i += 1` in a loop that ends anyway), and need none.

Not in the score: what does not compile, and what the bound --max left out. Tests
that fail as they are show nothing and are left out. Tests that write to fixed
places of the workspace disturb each other with several jobs: use --jobs 1.

Exit status: 0 no survivor, 1 survivors, 2 nothing to mutate or no lines by test,
5 some could not be run, 130 cancelled; else that of the suite as it is.

Examples:
  proctor mutate --since main               the lines of this branch
  proctor mutate src/price.py --max 1000    all of one file
  proctor mutate --confirm                  survivors also with the whole suite
  proctor mutate --output json | jq -r '.survivors[] | \"\\(.file):\\(.line)\"'";

/// Options of `mutate`.
#[derive(Debug, Args)]
#[command(after_help = MUTATE_HELP)]
pub(super) struct MutateArgs {
    /// Only these files or directories of the workspace.
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<String>,
    /// Only lines that changed since this git revision.
    #[arg(long, value_name = "REV")]
    pub(super) since: Option<String>,
    /// The workspace directory.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) workspace: PathBuf,
    /// Most mutants, chosen evenly over the lines; the same each time.
    #[arg(long, value_name = "N", default_value_t = MUTANTS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(MUTANTS_MAX)))]
    pub(super) max: u32,
    /// Mutants at a time. [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MUTATE_JOBS_MAX)))]
    pub(super) jobs: Option<u32>,
    /// Run each survivor with the whole suite, too.
    #[arg(long)]
    pub(super) confirm: bool,
    /// The framework (go, pytest, jest); detected from the files if absent.
    #[arg(long, value_name = "NAME")]
    pub(super) framework: Option<String>,
    /// Wall time of each of the two runs of the whole suite. [default: 300s; 900s for frameworks that build a project first]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(super) timeout: Option<Duration>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) output: Output,
}
