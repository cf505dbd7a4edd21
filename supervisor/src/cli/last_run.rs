//! Commands that show what is known: the failures, the coverage and the report of the last run here. The text forms are the
//! ones that agents get. Must not run anything.

use super::arguments::{Covering, Failures, LastRun, Report};
use super::last_run_store::Remembered;
use super::{Failure, in_process, print};
use crate::clock::Clock;
use crate::grpc::convert;
use crate::workspace::{Workspace, WorkspaceError};
use proctor_core::artifact::{self, Artifact};
use proctor_proto::text::{self, Reader};
use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};

/// Most covering tests shown.
const COVERING_SHOWN: usize = 200;

/// `proctor failures`: exit status 0 also when there are some, because they were asked for.
pub(super) fn failures(arguments: &Failures) -> Result<u8, Failure> {
    let (_, remembered) = last_run_at(&arguments.last_run)?;
    let memory = remembered.memory()?.filter(|memory| memory.slot.last().is_some()).ok_or_else(no_run_yet)?;
    let mut answer = convert::last_run(memory.slot.last(), Clock::new().now());
    answer.failures.truncate(usize::try_from(arguments.limit).unwrap_or(usize::MAX));
    print::answer(&text::failures(&answer, Reader::Person)).map(|()| 0)
}

fn no_run_yet() -> Failure {
    Failure::usage("no run here yet: `proctor run` first")
}

/// `proctor covering`.
pub(super) fn covering(arguments: &Covering) -> Result<u8, Failure> {
    let (workspace, remembered) = last_run_at(&arguments.last_run)?;
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
    let below = if arguments.last_run.workspace.is_some() { PathBuf::new() } else { in_process::below(&workspace)? };
    let wrong = |error: WorkspaceError| Failure::usage(error.to_string());
    let file = workspace.relative(&seen_from(&below, file)).map_err(wrong)?;
    let memory = remembered.memory()?.unwrap_or_default();
    let found = memory.index.has_measured().then(|| memory.index.covering(&file, line));
    let measured_at = found.as_ref().and_then(|found| found.measured_at);
    if found.as_ref().is_some_and(|found| found.tests.is_empty()) {
        // A name with an error in it has no coverage either, which would read as if no test executed the file.
        workspace.existing(&file).map_err(wrong)?;
    }
    let file_changed = measured_at.is_some_and(|since| workspace.changed_since(&file, since));
    let answer = convert::covering(found.as_ref(), COVERING_SHOWN, file_changed);
    print::answer(&text::covering(&answer, &file, line, Reader::Person)).map(|()| 0)
}

// What is called `file` in the directory `below` the workspace, from the workspace; what leads out of it stays as it is.
fn seen_from(below: &Path, file: &str) -> String {
    let mut seen = below.to_path_buf();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir if !seen.pop() => return file.to_owned(),
            Component::ParentDir | Component::CurDir => {}
            part => seen.push(part),
        }
    }
    seen.to_str().unwrap_or(file).to_owned()
}

/// `proctor report`.
pub(super) fn report(arguments: &Report) -> Result<u8, Failure> {
    let super::arguments::ReportFormat::Json = arguments.format;
    let (_, remembered) = last_run_at(&arguments.last_run)?;
    let report = remembered.report()?.ok_or_else(no_run_yet)?;
    if let Some(name) = &arguments.artifact {
        return artifact(&remembered, &report.artifacts, name, arguments.out.as_deref());
    }
    print::document(&report).map(|()| 0)
}

// The workspace that is named. Else the one here, or where nothing has run in it, the next above in which something has: who
// asks from a directory below means the run that he has seen.
fn last_run_at(asked: &LastRun) -> Result<(Workspace, Remembered), Failure> {
    let named = asked.workspace.as_deref();
    let here = in_process::workspace(named.unwrap_or(Path::new(".")))?;
    let of = |workspace: Workspace| {
        let remembered = Remembered::of(&workspace);
        (workspace, remembered)
    };
    if named.is_none() {
        for above in here.root().ancestors() {
            let Ok(workspace) = Workspace::open(above) else { continue };
            let found = of(workspace);
            if found.1.has_report() {
                return Ok(found);
            }
        }
    }
    Ok(of(here))
}

// The names are the run's own choice: they are compared, and never become paths.
fn artifact(remembered: &Remembered, all: &[Artifact], name: &str, out: Option<&Path>) -> Result<u8, Failure> {
    let place = artifact::content_range(all, name);
    let place = place.ok_or_else(|| Failure::usage(format!("the last run here left no artefact {name:?}")))?;
    let bytes = remembered.artifact(all, place)?;
    match out {
        Some(file) => std::fs::write(file, bytes)
            .map(|()| 0)
            .map_err(|error| Failure::host(format!("{}: {error}", file.display()))),
        None if std::io::stdout().is_terminal() => Err(Failure::usage(
            "an artefact is not text, so it is not written to a terminal: name a file with --out FILE",
        )),
        None => print::bytes(&bytes).map(|()| 0),
    }
}
