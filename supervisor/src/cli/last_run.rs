//! Commands that show stored results: failures, coverage and report of the last run. They run no tests. The text is the
//! same that agents get.

use super::arguments::{CoveringArgs, FailuresArgs, LastRunArgs, Output, ReportArgs};
use super::last_run_store::LastRunStore;
use super::report_documents::ShownRun;
use super::{CommandError, in_process, print, report_documents};
use crate::clock::Clock;
use crate::grpc::convert;
use crate::runs::{AskedLines, CoveringLines, covering_in};
use crate::workspace::{Workspace, WorkspaceError};
use proctor_core::artifact::{self, Artifact};
use proctor_core::bounds::COVERING_TESTS_PAGE;
use proctor_core::coverage::LineSpan;
use proctor_core::untested::SourceLanguage;
use proctor_proto::text::{self, Reader};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};

/// `proctor failures`. Exit status 0 even if there are failures, because they were asked for.
pub(super) fn failures(arguments: &FailuresArgs) -> Result<u8, CommandError> {
    let (_, store) = last_run_at(&arguments.last_run)?;
    let memory = store.memory()?.filter(|memory| memory.slot.last().is_some()).ok_or_else(no_run_yet)?;
    let mut answer = convert::last_run(memory.slot.last(), Clock::new().now());
    answer.failures.truncate(usize::try_from(arguments.limit).unwrap_or(usize::MAX));
    print::text(&text::failures(&answer, Reader::Person))?;
    print::text(&text::changes_line(&answer).unwrap_or_default()).map(|()| 0)
}

pub(super) fn no_run_yet() -> CommandError {
    CommandError::usage("no run here yet: `proctor run` first")
}

/// `proctor covering`.
pub(super) fn covering(arguments: &CoveringArgs) -> Result<u8, CommandError> {
    let (workspace, store) = last_run_at(&arguments.last_run)?;
    let (file, asked) = asked_lines(&arguments.location, arguments.function.as_deref())?;
    let below =
        if arguments.last_run.workspace.is_some() { PathBuf::new() } else { in_process::current_dir_in(&workspace)? };
    let to_failure = |error: WorkspaceError| CommandError::usage(error.to_string());
    let file = workspace.relative(&relative_to_workspace(&below, file)).map_err(to_failure)?;
    let memory = store.memory()?.unwrap_or_default();
    let found = covering_in(&workspace, (&file, &asked), memory.baseline.as_ref(), &memory.index, &Clock::new())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    if found.as_ref().is_some_and(|found| found.found.covering.tests.is_empty()) {
        // A mistyped name has no coverage either, which would read as if no test executed the file.
        workspace.existing(&file).map_err(to_failure)?;
    }
    match arguments.output {
        Output::Human => {
            let answer = convert::covering(found.as_ref(), COVERING_TESTS_PAGE.clamp(0));
            print::text(&text::covering(&answer, &file, Reader::Person)).map(|()| 0)
        }
        Output::Json => print::document(&covering_document(&file, found.as_ref())).map(|()| 0),
    }
}

/// The document of `proctor covering --output json`: all tests, and `null` for what is not known.
fn covering_document(file: &str, found: Option<&CoveringLines>) -> Value {
    let lines = found.and_then(|found| found.lines.as_ref());
    json!({
        "path": file,
        "range": found.and_then(|found| found.range),
        "has_coverage": found.is_some(),
        "tests": found.map_or(&[][..], |found| &found.found.covering.tests),
        "attribution": found.and_then(|found| found.found.covering.attribution),
        "file_changed": found.and_then(|found| found.found.is_edited),
        "line_moved": found.is_some_and(|found| found.found.is_moved),
        "executable_lines": lines.map(|lines| lines.executable),
        "not_executed": lines.map(|lines| &lines.not_executed),
    })
}

/// The file and the lines of `FILE`, `FILE:LINE`, `FILE:LINE-LINE` and `FILE:FUNCTION`.
fn asked_lines<'a>(location: &'a str, function: Option<&str>) -> Result<(&'a str, AskedLines), CommandError> {
    if let Some(name) = function {
        return Ok((location, AskedLines::Function(name.to_owned())));
    }
    let Some((file, place)) = location.rsplit_once(':') else { return Ok((location, AskedLines::Any)) };
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let (first, last) = place.split_once('-').unwrap_or((place, place));
    if is_number(first) && is_number(last) {
        let number =
            |text: &str| text.parse::<u32>().map_err(|_| CommandError::usage(format!("line {text} is too large")));
        let span = LineSpan { first: number(first)?, last: number(last)? };
        return match span {
            LineSpan { first: 0, .. } => Err(CommandError::usage("lines are counted from 1")),
            LineSpan { first, last } if last < first => {
                Err(CommandError::usage(format!("line {last} is before line {first}")))
            }
            span => Ok((file, AskedLines::Span(span))),
        };
    }
    // A file's name may have a colon, and then it ends with an extension that is not there before the colon.
    let is_name = |text: &str| {
        text.chars().all(|c| c.is_alphanumeric() || "_$.".contains(c))
            && !text.starts_with(|c: char| c.is_ascii_digit())
    };
    if !place.is_empty() && is_name(place) && SourceLanguage::of_path(file).is_some() {
        return Ok((file, AskedLines::Function(place.to_owned())));
    }
    Ok((location, AskedLines::Any))
}

// Makes `file`, given relative to the directory `below`, relative to the workspace. A path that leads out stays as it
// is.
fn relative_to_workspace(below: &Path, file: &str) -> String {
    let mut relative = below.to_path_buf();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir if !relative.pop() => return file.to_owned(),
            Component::ParentDir | Component::CurDir => {}
            part => relative.push(part),
        }
    }
    relative.to_str().unwrap_or(file).to_owned()
}

/// `proctor report`.
pub(super) fn report(arguments: &ReportArgs) -> Result<u8, CommandError> {
    let (workspace, store) = last_run_at(&arguments.last_run)?;
    let report = store.report()?.ok_or_else(no_run_yet)?;
    if let Some(name) = &arguments.artifact {
        return artifact(&store, &report.artifacts, name, arguments.out.as_deref());
    }
    let memory = store.memory()?.unwrap_or_default();
    let run_id = memory.slot.last().map_or("", |last| last.run.as_str());
    let run = ShownRun { run_id, report: &report, workspace: &workspace, index: &memory.index };
    match &arguments.out {
        Some(file) => report_documents::write_out(arguments.format.0, &run, file)?,
        None => report_documents::print(arguments.format.0, &run)?,
    }
    Ok(0)
}

fn last_run_at(arguments: &LastRunArgs) -> Result<(Workspace, LastRunStore), CommandError> {
    workspace_of_last_run(arguments.workspace.as_deref())
}

/// The named workspace; otherwise the nearest directory from here upwards that has had a run, as a person in a
/// subdirectory means the run of the workspace above; otherwise this directory.
pub(super) fn workspace_of_last_run(named: Option<&Path>) -> Result<(Workspace, LastRunStore), CommandError> {
    let here = in_process::workspace(named.unwrap_or(Path::new(".")))?;
    let with_store = |workspace: Workspace| {
        let store = LastRunStore::for_workspace(&workspace);
        (workspace, store)
    };
    if named.is_none() {
        for above in here.root().ancestors() {
            let Ok(workspace) = Workspace::open(above) else { continue };
            let found = with_store(workspace);
            if found.1.has_report() {
                return Ok(found);
            }
        }
    }
    Ok(with_store(here))
}

// The run chose these names: they are compared, and never used as paths.
fn artifact(store: &LastRunStore, all: &[Artifact], name: &str, out: Option<&Path>) -> Result<u8, CommandError> {
    let range = artifact::content_range(all, name);
    let range = range.ok_or_else(|| CommandError::usage(format!("the last run here left no artifact {name:?}")))?;
    let bytes = store.artifact(all, range)?;
    match out {
        Some(file) => std::fs::write(file, bytes)
            .map(|()| 0)
            .map_err(|error| CommandError::host(format!("{}: {error}", file.display()))),
        None if std::io::stdout().is_terminal() => Err(CommandError::usage(
            "an artifact is binary and is not written to a terminal: name a file with --out FILE",
        )),
        None => print::bytes(&bytes).map(|()| 0),
    }
}
