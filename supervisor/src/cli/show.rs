//! Commands that show what is known: the failures, the coverage and the report of the last run here, and the list of
//! tests. The text forms are the ones that agents get. Must not run tests.

use super::arguments::{Covering, Failures, List, Output, Report};
use super::remember::Remembered;
use super::run::failure;
use super::signals::Signals;
use super::{CANCELLED, Failure, local};
use crate::clock::Clock;
use crate::convert;
use crate::run::RunEnd;
use proctor_core::artifact::{self, Artifact};
use proctor_core::outcome::Outcome;
use proctor_core::request::{IfBusy, RunRequest};
use proctor_core::session::RunKind;
use proctor_core::test_case::{Collector, TestId};
use proctor_proto::text;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// The document of `proctor list --output json`.
#[derive(Serialize)]
struct Listing<'a> {
    framework: &'a str,
    outcome: Outcome,
    partial: bool,
    tests: &'a BTreeSet<TestId>,
    collectors: &'a [Collector],
}

/// Most covering tests shown.
const COVERING_SHOWN: usize = 200;

/// `proctor failures`: exit status 0 also when there are some, because they were asked for.
pub(super) fn failures(arguments: &Failures) -> Result<u8, Failure> {
    let remembered = Remembered::of(&local::workspace(&arguments.workspace)?);
    let memory = remembered.memory()?.unwrap_or_default();
    let mut answer = convert::last_run(memory.slot.last(), Clock::new().now());
    answer.failures.truncate(usize::try_from(arguments.limit).unwrap_or(usize::MAX));
    say(&text::failures(&answer))
}

/// `proctor covering`.
pub(super) fn covering(arguments: &Covering) -> Result<u8, Failure> {
    let workspace = local::workspace(&arguments.workspace)?;
    let (file, line) = match arguments.place.rsplit_once(':') {
        Some((file, line)) if line.chars().all(|c| c.is_ascii_digit()) && !line.is_empty() => {
            let line: u32 = line.parse().map_err(|_| Failure::usage(format!("line {line} is too large")))?;
            (file, Some(line))
        }
        _ => (arguments.place.as_str(), None),
    };
    if line == Some(0) {
        return Err(Failure::usage("lines are counted from 1"));
    }
    let file = workspace.relative(file).map_err(|error| Failure::usage(error.to_string()))?;
    let memory = Remembered::of(&workspace).memory()?.unwrap_or_default();
    let found = memory.index.has_measured().then(|| memory.index.covering(&file, line));
    let measured_at = found.as_ref().and_then(|found| found.measured_at);
    let file_changed = measured_at.is_some_and(|since| workspace.changed_since(&file, since));
    let answer = convert::covering(found.as_ref(), COVERING_SHOWN, file_changed);
    say(&text::covering(&answer, &file, line))
}

/// `proctor report`.
pub(super) fn report(arguments: &Report) -> Result<u8, Failure> {
    let super::arguments::ReportFormat::Json = arguments.format;
    let remembered = Remembered::of(&local::workspace(&arguments.workspace)?);
    let report = remembered.report()?.ok_or_else(|| Failure::usage("no run here yet: `proctor run` first"))?;
    if let Some(name) = &arguments.artifact {
        return artifact(&remembered, &report.artifacts, name, arguments.out.as_deref());
    }
    let document = serde_json::to_string(&report).map_err(|error| Failure::host(error.to_string()))?;
    say(&document)
}

/// `proctor list`: exit status 0 when everything was listed, 3 when something could not be built, else as `run`.
pub(super) fn list(arguments: &List) -> Result<u8, Failure> {
    let workspace = local::workspace(&arguments.path)?;
    local::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, _) = local::session(workspace)?;
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
        let report = match end {
            RunEnd::Report(report) => report,
            RunEnd::NotStarted(why) => return Err(Failure::host(why.to_string())),
        };
        let tests = started.handle.tests_started().await.map_err(lost)?;
        session.close().await;
        match arguments.output {
            Output::Human => say(&text::listed(&convert::listing(&report, &tests, usize::MAX)))?,
            Output::Json => {
                let listing = Listing {
                    framework: &report.framework,
                    outcome: report.outcome,
                    partial: report.partial,
                    tests: &tests,
                    collectors: &report.collectors,
                };
                say(&serde_json::to_string(&listing).map_err(|error| Failure::host(error.to_string()))?)?
            }
        };
        Ok(match report.outcome {
            // Nothing ran, which is what was asked for.
            Outcome::Passed | Outcome::NoTests => 0,
            other => other.exit_code(report.evidence.signal),
        })
    })
}

// The names are the run's own choice: they are compared, and never become paths.
fn artifact(remembered: &Remembered, all: &[Artifact], name: &str, out: Option<&Path>) -> Result<u8, Failure> {
    let place = artifact::place(all, name);
    let place = place.ok_or_else(|| Failure::usage(format!("the last run here left no artefact {name:?}")))?;
    let bytes = remembered.artifact(all, place)?;
    match out {
        Some(file) => std::fs::write(file, bytes)
            .map(|()| 0)
            .map_err(|error| Failure::host(format!("{}: {error}", file.display()))),
        None if std::io::stdout().is_terminal() => {
            Err(Failure::usage("an artefact is no text: say where with --out FILE"))
        }
        None => match std::io::stdout().lock().write_all(&bytes) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::host(error.to_string())),
            _ => Ok(0),
        },
    }
}

// A reader that goes away, as `head` does, is no failure of ours.
fn say(text: &str) -> Result<u8, Failure> {
    let mut stdout = anstream::stdout().lock();
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    match write!(stdout, "{text}{end}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::host(error.to_string())),
        _ => Ok(0),
    }
}
