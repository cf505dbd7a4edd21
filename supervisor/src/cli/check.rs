//! `proctor check`: linters and type checkers of a workspace, in a sandbox.

use super::check_arguments::CheckArgs;
use super::report_arguments::CheckOutput;
use super::report_documents::{OpenedFile, ShownRun};
use super::signals::Signals;
use super::{CommandError, check_report, in_process, print, report_documents, run};
use crate::runs::prepare::PrepareError;
use crate::sessions::{SessionError, SessionHandle};
use crate::workspace::Workspace;
use proctor_core::check::{CheckKind, CheckRequest};
use proctor_core::coverage::CoverageIndex;
use proctor_core::isolation::Network;
use proctor_core::outcome::Evidence;
use proctor_core::request::{EarlierState, RequestedCheck, RunKind, RunRequest};
use proctor_proto::reason;
use proctor_proto::report_format::ReportFormat;
use serde_json::json;

/// Runs the command; returns the exit status of the program.
pub(super) fn check(arguments: &CheckArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.workspace)?;
    let request = request(arguments, &workspace)?;
    let targets = report_documents::open_targets(&arguments.reports);
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, store) = in_process::session(workspace.clone())?;
        let status = check_in(arguments, &workspace, &targets, &session, request, &mut signals).await;
        let memory = session.memory().await.map_err(|error| CommandError::host(error.to_string()));
        // A failure to store what was found for the next check does not fail this one.
        if let Err(failure) = memory.and_then(|memory| store.write_memory(&memory)) {
            print::message(&format!("proctor: this check is not stored for the next one: {}", failure.text));
        }
        session.close().await;
        status
    })
}

async fn check_in(
    arguments: &CheckArgs,
    workspace: &Workspace,
    targets: &[OpenedFile],
    session: &SessionHandle,
    request: RunRequest,
    signals: &mut Signals,
) -> Result<u8, CommandError> {
    let is_human = arguments.output == CheckOutput::Human;
    let (run_id, report) = match run::execute(session, request, RunKind::Check, is_human, signals).await {
        Ok(ended) => ended,
        Err(run::ExecuteError::NotAccepted(SessionError::Prepare(error @ PrepareError::NothingToCheck { .. }))) => {
            return nothing_ran(&error.to_string(), arguments.output).map(|()| 0);
        }
        Err(error) => return Err(error.into()),
    };
    // A check measures no coverage, and no report of one shows any.
    let run = ShownRun { run_id: run_id.as_str(), report: &report, workspace, index: &CoverageIndex::default() };
    let printed = match arguments.output {
        CheckOutput::Human => print::text(&check_report::report(&report)),
        CheckOutput::Report(format) => report_documents::print(format, &run),
    };
    report_documents::write_all(targets, &run)?;
    printed?;
    Ok(report.outcome.exit_code(report.evidence.signal))
}

fn request(arguments: &CheckArgs, workspace: &Workspace) -> Result<RunRequest, CommandError> {
    let limits = arguments.resources.limits(arguments.timeout, None)?;
    let kinds = match (arguments.lint, arguments.typecheck) {
        (true, false) => vec![CheckKind::Lint],
        (false, true) => vec![CheckKind::Typecheck],
        _ => Vec::new(),
    };
    let existing = |file: &String| {
        workspace.existing(file).map_err(|error| in_process::path_failure(&format!("{file:?}"), &error))
    };
    let files = arguments.files.iter().map(existing).collect::<Result<Vec<_>, _>>()?;
    let request = CheckRequest { kinds, checkers: arguments.checker.clone(), files };
    let since = arguments.since.as_deref().and_then(EarlierState::new);
    Ok(RunRequest {
        limits,
        network: Some(Network::None),
        check: Some(Box::new(RequestedCheck { request, since })),
        ..RunRequest::default()
    })
}

// Nothing that is checked changed, so there is no outcome, and no report is written.
fn nothing_ran(note: &str, output: CheckOutput) -> Result<(), CommandError> {
    match output {
        CheckOutput::Human => print::text(note),
        CheckOutput::Report(ReportFormat::Json) => print::document(&json!({
            "nothing_ran": reason::NOTHING_AFFECTED,
            "outcome": null,
            "exit_code": 0,
            "raw_exit_code": null,
            "partial": false,
            "evidence": Evidence { notes: vec![note.to_owned()], ..Evidence::default() },
        })),
        CheckOutput::Report(_) => {
            print::message(note);
            Ok(())
        }
    }
}
