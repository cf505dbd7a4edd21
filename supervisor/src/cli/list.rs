//! `proctor list`: the tests of the workspace at hand, which its runner is asked for. Must not run one of them.

use super::arguments::{List, Output};
use super::run::{ended, failure};
use super::signals::Signals;
use super::{CANCELLED, Failure, in_process, print};
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

/// `proctor list`: exit status 0 when everything was listed, 3 when something could not be built, else as `run`.
pub(super) fn list(arguments: &List) -> Result<u8, Failure> {
    let workspace = in_process::workspace(&arguments.path)?;
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, _) = in_process::session(workspace)?;
        let request = RunRequest { framework: arguments.framework.clone(), ..RunRequest::default() };
        let started = session.start(request, RunKind::Listing, IfBusy::Queue).await.map_err(|error| failure(&error))?;
        let _watch = started.handle.watch();
        let lost = |_| Failure::host("the session broke");
        let end = tokio::select! {
            end = started.handle.end() => end.map_err(lost)?,
            () = signals.any() => {
                session.close().await;
                return Err(Failure { code: CANCELLED, text: "cancelled".to_owned() });
            }
        };
        let report = ended(end)?;
        let StartedTests { tests, missed } = started.handle.tests_started().await.map_err(lost)?;
        session.close().await;
        match arguments.output {
            Output::Human => {
                let mut listing = convert::listing(&report, &tests, usize::MAX);
                listing.partial |= missed > 0;
                print::answer(&text::listed(&listing))?;
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
            // Nothing ran, which is what was asked for.
            Outcome::Passed | Outcome::NoTests => 0,
            other => other.exit_code(report.evidence.signal),
        })
    })
}
