//! `proctor analyze`: what the failures of the last run here have in common, and where to look first. Runs no tests.

use super::arguments::{AnalyzeArgs, Output};
use super::last_run::{no_run_yet, workspace_of_last_run};
use super::{CommandError, print};
use crate::clock::Clock;
use crate::grpc::convert_analysis;
use crate::runs::{FailingTests, add_suspects, analyze_run, changes_since, failing_sources};
use proctor_core::bounds::ANALYSIS_PAGE;
use proctor_core::request::EarlierState;
use proctor_proto::analysis_text;

/// Names of tests that a person is shown in a pattern; the JSON document has more.
const NAMES_SHOWN: usize = 3;

/// Prints the analysis. Exit status 0 whatever was found.
pub(super) fn analyze(arguments: &AnalyzeArgs) -> Result<u8, CommandError> {
    let (workspace, store) = workspace_of_last_run(arguments.path.as_deref())?;
    let report = store.report()?.ok_or_else(no_run_yet)?;
    let clock = Clock::new();
    let memory = store.memory()?.unwrap_or_default();
    let limit = ANALYSIS_PAGE.clamp(arguments.limit);
    let mut analysis = analyze_run(&report, &workspace, &clock, limit);
    add_suspects(&mut analysis, &report, &memory.index, &workspace, &clock);
    if let Some(earlier) = arguments.since.as_deref().and_then(EarlierState::new) {
        let changes = changes_since(&earlier, &report, &workspace, &clock);
        let failing = FailingTests::of(&report);
        let is_covered = |path: &str| failing.has_any(&memory.index.covering(path, None).tests);
        analysis.rank_changes(changes, is_covered, &failing_sources(&report, &workspace));
    }
    match arguments.output {
        Output::Human => {
            let mut answer = convert_analysis::analysis(String::new(), analysis, &report);
            // Their patterns name them.
            answer.failed_tests.clear();
            answer.error_patterns.iter_mut().for_each(|pattern| pattern.test_names.truncate(NAMES_SHOWN));
            print::text(&analysis_text::analysis(&answer)).map(|()| 0)
        }
        Output::Json => {
            analysis.notes.extend(convert_analysis::changes_note(&report));
            print::document(&analysis).map(|()| 0)
        }
    }
}
