//! `proctor mutate`: changes one line of the product at a time and looks whether a test notices it.
//!
//! [`baseline`] runs the tests as they are, [`candidates`] makes the mutants of what they executed, [`campaign`] runs each
//! with its covering tests, [`verdict`] says what a run showed, and [`report`] prints it. No mutant is ever written to the
//! workspace: each run sees its changed file by a mount of its own.

mod baseline;
mod campaign;
mod candidates;
mod report;
#[cfg(test)]
mod tests;
mod verdict;

use super::arguments::Output;
use super::mutate_arguments::MutateArgs;
use super::signals::Signals;
use super::{CommandError, in_process, print};
use crate::sessions::SessionHandle;
use crate::workspace::Workspace;
use baseline::Baseline;
use campaign::Campaign;
use candidates::Candidates;
use proctor_core::bounds::MUTATE_JOBS_MAX;
use report::MutationReport;

/// Runs the command. Exit status 2 if there is nothing to mutate, else that of the report.
pub(super) fn mutate(arguments: &MutateArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.workspace)?;
    let files = candidates::named_files(&workspace, &arguments.files)?;
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let jobs = usize::try_from(arguments.jobs.unwrap_or_else(default_jobs)).unwrap_or(1);
        let sessions = in_process::unrecorded_sessions(&workspace, jobs)?;
        let report = judge_mutants(arguments, (&workspace, &files), &sessions, &mut signals).await;
        for session in &sessions {
            session.close().await;
        }
        let report = report?;
        match arguments.output {
            Output::Human => print::text(&report.text())?,
            Output::Json => print::document(&report.document())?,
        }
        Ok(report.exit_status())
    })
}

async fn judge_mutants(
    arguments: &MutateArgs,
    (workspace, files): (&Workspace, &[String]),
    sessions: &[SessionHandle],
    signals: &mut Signals,
) -> Result<MutationReport, CommandError> {
    let [session, ..] = sessions else { return Err(CommandError::host("no session was opened")) };
    let baseline = Baseline::measure(session, arguments, signals).await?;
    let candidates = Candidates::find(workspace, &baseline, files, arguments)?;
    let results = Campaign::new(sessions, &baseline, arguments).run(&candidates, signals).await?;
    Ok(MutationReport::new(workspace, &baseline, candidates, results, arguments.confirm))
}

/// Mutants at a time: one for each processor, as most runners use one.
fn default_jobs() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(processors).unwrap_or(1).min(MUTATE_JOBS_MAX)
}
