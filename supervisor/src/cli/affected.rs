//! `proctor affected`: which tests the changes of a workspace may affect. Runs no tests.

use super::arguments::{AffectedArgs, Output};
use super::last_run::workspace_of_last_run;
use super::{CommandError, in_process, print};
use crate::grpc::convert;
use crate::runs::affected_tests;
use crate::sessions::{SessionError, SessionHandle};
use crate::workspace::Workspace;
use proctor_core::bounds::AFFECTED_TESTS_PAGE;
use proctor_core::request::{EarlierState, RunRequest, Selection};
use proctor_core::selection::AffectedTests;
use proctor_proto::text;
use serde_json::json;

/// Prints the tests, most likely to fail first. Exit status 0 whatever was found.
pub(super) fn affected(arguments: &AffectedArgs) -> Result<u8, CommandError> {
    let (workspace, _) = workspace_of_last_run(arguments.last_run.workspace.as_deref())?;
    let since = EarlierState::new(&arguments.since).unwrap_or(EarlierState::LastRun);
    let runtime = in_process::runtime()?;
    let found = runtime.block_on(async {
        let (session, _) = in_process::session(workspace.clone())?;
        let found = affected_in(&session, &workspace, &since).await;
        session.close().await;
        found
    })?;
    let answer = convert::affected_tests(&found, AFFECTED_TESTS_PAGE.clamp(arguments.limit));
    match arguments.output {
        Output::Human => print::text(&text::affected_tests(&answer)).map(|()| 0),
        Output::Json => {
            let test = |(test, reason): (&proctor_proto::v1::TestId, &String)| json!({"package": test.package, "name": test.name, "reason": reason});
            let tests: Vec<_> = answer.tests.iter().zip(&answer.reasons).map(test).collect();
            print::document(&json!({
                "affected": found.summary(),
                "tests": tests,
                "new_units": answer.new_units,
                "notes": answer.notes,
            }))
            .map(|()| 0)
        }
    }
}

/// The tests of an open session that the changes since an earlier state may affect.
pub(super) async fn affected_in(
    session: &SessionHandle,
    workspace: &Workspace,
    since: &EarlierState,
) -> Result<AffectedTests, CommandError> {
    let request = RunRequest { selection: Selection::Affected { since: since.clone() }, ..RunRequest::default() };
    let host = |error: SessionError| CommandError::host(error.to_string());
    let settings = session.settings_for(request).await.map_err(host)?;
    let knowledge = session.knowledge().await.map_err(host)?;
    let (workspace, since) = (workspace.clone(), since.clone());
    let select = move || {
        let scan = workspace.scan().map_err(|error| CommandError::host(format!("the workspace {error}")))?;
        affected_tests(&workspace, &scan, &since, &settings, &knowledge)
            .map_err(|error| CommandError::usage(error.to_string()))
    };
    let selected = tokio::task::spawn_blocking(select).await;
    selected.map_err(|_| CommandError::host("the selection of tests failed"))?
}
