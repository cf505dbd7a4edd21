//! `proctor list`: asks the runner for the tests of a workspace without running them.

use super::arguments::{ListArgs, Output};
use super::run::{failure, report_of};
use super::signals::Signals;
use super::{CANCELLED, CommandError, in_process, print};
use crate::grpc::convert;
use crate::runs::StartedTests;
use proctor_core::outcome::Outcome;
use proctor_core::request::{IfBusy, RunKind, RunRequest};
use proctor_core::test_case::{Collector, TestId};
use proctor_proto::text;
use serde::Serialize;
use std::collections::BTreeSet;

/// The document of `proctor list --output json`.
#[derive(Serialize)]
struct Listing<'a> {
    framework: &'a str,
    outcome: Outcome,
    partial: bool,
    tests: &'a BTreeSet<TestId>,
    collectors: &'a [Collector],
}

/// `proctor list`: exit status 0 if everything was listed, 3 if something could not be built, otherwise as `run`.
pub(super) fn list(arguments: &ListArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.path)?;
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, _) = in_process::session(workspace)?;
        let request = RunRequest { framework: arguments.framework.clone(), ..RunRequest::default() };
        let started = session.start(request, RunKind::Listing, IfBusy::Queue).await.map_err(|error| failure(&error))?;
        let _watch = started.handle.watch();
        let crashed = |_| CommandError::host("the session crashed");
        let end = tokio::select! {
            end = started.handle.end() => end.map_err(crashed)?,
            () = signals.any() => {
                session.close().await;
                return Err(CommandError { code: CANCELLED, text: "cancelled".to_owned() });
            }
        };
        let report = report_of(end)?;
        let StartedTests { tests, missed } = started.handle.tests_started().await.map_err(crashed)?;
        session.close().await;
        match arguments.output {
            Output::Human => {
                let mut listing = convert::listing(&report, &tests, usize::MAX);
                listing.partial |= missed > 0;
                print::text(&text::test_list(&listing))?;
            }
            Output::Json => {
                let listing = Listing {
                    framework: &report.framework,
                    outcome: report.outcome,
                    partial: report.partial || missed > 0,
                    tests: &tests,
                    collectors: &report.collectors,
                };
                print::document(&listing)?;
            }
        };
        Ok(match report.outcome {
            // No test ran, as intended.
            Outcome::Passed | Outcome::NoTests => 0,
            other => other.exit_code(report.evidence.signal),
        })
    })
}
