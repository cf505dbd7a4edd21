//! `proctor analyze`: what the failures of the last run here have in common, and where to look first. Runs no tests.

use super::arguments::{AnalyzeArgs, Output};
use super::last_run::{no_run_yet, workspace_of_last_run};
use super::{CommandError, print};
use crate::clock::Clock;
use crate::grpc::convert_analysis;
use crate::runs::analyze_run;
use proctor_core::bounds::ANALYSIS_PAGE;
use proctor_proto::analysis_text;

/// Prints the analysis. Exit status 0 whatever was found.
pub(super) fn analyze(arguments: &AnalyzeArgs) -> Result<u8, CommandError> {
    let (workspace, store) = workspace_of_last_run(arguments.path.as_deref())?;
    let report = store.report()?.ok_or_else(no_run_yet)?;
    let began_at = Clock::new().for_file_times(report.started_at);
    let analysis = analyze_run(&report, &workspace, began_at, ANALYSIS_PAGE.clamp(arguments.limit));
    match arguments.output {
        Output::Human => {
            let mut answer = convert_analysis::analysis(String::new(), analysis);
            // Their patterns name them.
            answer.failed_tests.clear();
            print::text(&analysis_text::analysis(&answer)).map(|()| 0)
        }
        Output::Json => print::document(&analysis).map(|()| 0),
    }
}
