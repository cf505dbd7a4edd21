//! The last lines of a run at a terminal: where to look first, what changed since the last run, the slowest tests, flaky tests,
//! and the next command.

use super::history::counted;
use super::terminal_report::dim;
use crate::grpc::convert;
use crate::reports::timed_tests;
use proctor_core::analysis::{Analysis, RootCause};
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_core::request::CUSTOM_FRAMEWORK;
use proctor_core::shell_word::shell_word;
use proctor_proto::printable::{cut, line};
use proctor_proto::test_times::parts_in_brackets;
use proctor_proto::untested_text::{not_known_line, untested_line};
use std::fmt::Write as _;
use std::path::Path;

/// Slowest tests shown.
const SLOWEST_SHOWN: usize = 3;

/// Least time of a test that is worth naming, in seconds.
const SLOW_S_MIN: f64 = 0.1;

/// Columns shown of a sentence.
const COLUMNS_SHOWN: usize = 400;

/// Columns shown of a test's name.
const NAME_COLUMNS: usize = 200;

/// What the command line knows of a run beyond its report.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunView<'a> {
    /// Whether the run's output has been shown already.
    pub(super) output_seen: bool,
    /// The workspace as the command named it.
    pub(super) workspace: &'a Path,
    /// Whether the run was a rerun of failures.
    pub(super) is_rerun: bool,
    /// What the failures have in common.
    pub(super) analysis: &'a Analysis,
}

/// The lines above the verdict.
pub(super) fn summary(report: &Report, view: &RunView<'_>) -> String {
    let mut text = String::new();
    if let Some(cause) = view.analysis.root_cause.as_ref().filter(|cause| cause.is_sandbox || view.analysis.total > 1) {
        let statement = line(&cause.statement);
        let _ = writeln!(text, "look first: {} ({})", cut(&statement, COLUMNS_SHOWN), cause.confidence.name());
    }
    text.push_str(&since_last_run(report));
    if let Some(untested) = report.untested.as_ref().map(convert::untested) {
        let known =
            untested_line(&untested).or_else(|| not_known_line(&untested).map(|line| format!("untested lines {line}")));
        known.into_iter().for_each(|line| text.push_str(&(line + "\n")));
    }
    text.push_str(&slowest(report));
    // Of a repeated run, notes name them.
    if report.flaky_in_run > 0 && report.repetitions.is_none() {
        let _ = writeln!(text, "flaky: {} failed and passed in this run", counted(report.flaky_in_run, "test"));
    }
    text
}

/// What changed since the last run: `2 new, 1 fixed, 3 still failing since the last run`, and how long ago all tests passed if
/// that was another one. Empty if nothing failed then or fails now.
fn since_last_run(report: &Report) -> String {
    let Some(since) = &report.since_last_run else { return String::new() };
    let counts = [(&since.new, "new"), (&since.fixed, "fixed"), (&since.still_failing, "still failing")];
    let counts = counts.iter().filter(|(group, _)| group.total > 0);
    let counts: Vec<String> = counts.map(|(group, what)| format!("{} {what}", group.total)).collect();
    if counts.is_empty() {
        return String::new();
    }
    let green = report.since_last_green.as_ref().filter(|green| green.runs > 1);
    let green = green.map_or_else(String::new, |green| format!("all tests passed {} runs ago\n", green.runs));
    format!("{} since the last run\n{green}", counts.join(", "))
}

/// The slowest tests, where there are enough tests for it to mean something.
fn slowest(report: &Report) -> String {
    let mut timed = timed_tests(report);
    let has_enough = timed.len() > SLOWEST_SHOWN;
    timed.retain(|(_, seconds)| *seconds >= SLOW_S_MIN);
    timed.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    if !has_enough || timed.is_empty() {
        return String::new();
    }
    let mut text = "slowest:\n".to_owned();
    for (test, seconds) in timed.into_iter().take(SLOWEST_SHOWN) {
        let parts = parts_in_brackets(test.setup_s, test.cpu_s);
        let _ = writeln!(text, "  {seconds:6.2}s  {}{parts}", cut(&line(&test.nodeid), NAME_COLUMNS));
    }
    text
}

/// The command that helps next; empty if there is none to name.
pub(super) fn next_command(report: &Report, view: &RunView<'_>) -> String {
    let path = workspace_argument(view.workspace);
    let sandbox = view.analysis.root_cause.as_ref().filter(|cause| cause.is_sandbox);
    if let Some(RootCause { suggestion: Some(suggestion), .. }) = sandbox {
        return format!("{} {}\n", dim("next:"), cut(&line(suggestion), COLUMNS_SHOWN));
    }
    let has_failures = view.analysis.total > 0 && report.framework != CUSTOM_FRAMEWORK;
    let command = match report.outcome {
        Outcome::Passed if view.is_rerun => format!("proctor run{path}"),
        Outcome::NoTests if report.framework != CUSTOM_FRAMEWORK => format!("proctor list{path}"),
        Outcome::RunnerMissing => "proctor doctor".to_owned(),
        Outcome::Failed | Outcome::BuildFailed | Outcome::CollectionFailed if has_failures => {
            let analyze = if view.analysis.error_patterns.len() > 1 {
                format!("proctor analyze{path}, then ")
            } else {
                String::new()
            };
            format!("{analyze}proctor run{path} --failed")
        }
        _ => return String::new(),
    };
    format!("{} {command}\n", dim("next:"))
}

/// The workspace as an argument of a shell line, with a blank before it; empty for the working directory.
fn workspace_argument(workspace: &Path) -> String {
    match workspace.to_string_lossy().as_ref() {
        "." | "" => String::new(),
        path => format!(" {}", line(&shell_word(path))),
    }
}
