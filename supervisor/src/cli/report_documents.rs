//! Prints and writes reports in the formats that were asked for.

use super::arguments::RunArgs;
use super::report_arguments::{ReportFiles, RunOutput};
use super::report_target::ReportTarget;
use super::{CommandError, print, xdg_dirs};
use crate::clock::Clock;
use crate::reports::{self, ReportContext, ReportInput};
use crate::workspace::Workspace;
use proctor_core::bounds::REPORT_DOCUMENT_BYTES_MAX;
use proctor_core::coverage::CoverageIndex;
use proctor_core::report::Report;
use proctor_proto::report_format::ReportFormat;
use std::io;
use std::path::{Path, PathBuf};

/// A finished run of a workspace, to be shown.
pub(super) struct ShownRun<'a> {
    pub(super) run_id: &'a str,
    pub(super) report: &'a Report,
    pub(super) workspace: &'a Workspace,
    pub(super) index: &'a CoverageIndex,
}

/// Whether a report that was asked for shows the history of the workspace.
pub(super) fn show_history(arguments: &RunArgs) -> bool {
    let printed = match arguments.output {
        RunOutput::Report(format) => Some(format),
        RunOutput::Human | RunOutput::Events => None,
    };
    arguments.files.0.iter().map(|(format, _)| *format).chain(printed).any(ReportContext::has_history)
}

/// Prints a report on stdout.
pub(super) fn print(format: ReportFormat, run: &ShownRun<'_>) -> Result<(), CommandError> {
    match format {
        // Escaped for a terminal.
        ReportFormat::Json => print::document(&reports::json_document(run.report)),
        format => {
            let mut document = render(format, run)?;
            if document.last() != Some(&b'\n') {
                document.push(b'\n');
            }
            print::bytes(&document)
        }
    }
}

/// A file that was asked for, opened before the run.
#[derive(Debug)]
pub(super) struct OpenedFile {
    format: ReportFormat,
    path: PathBuf,
    /// An error does not keep the tests from running, and is told when the report would be written.
    target: io::Result<ReportTarget>,
}

impl OpenedFile {
    /// The path relative to `root`, if the file is below it.
    pub(super) fn path_below(&self, root: &Path) -> Option<String> {
        let path = self.target.as_ref().ok()?.path()?;
        path.strip_prefix(root).ok()?.to_str().map(str::to_owned)
    }
}

/// Opens the files that were asked for, before a test can put anything in their places.
pub(super) fn open_targets<const OF_CHECK: bool>(files: &ReportFiles<OF_CHECK>) -> Vec<OpenedFile> {
    let open = |(format, path): &(ReportFormat, PathBuf)| OpenedFile {
        format: *format,
        path: path.clone(),
        target: ReportTarget::open(path),
    };
    files.0.iter().map(open).collect()
}

/// Writes every file that was asked for, also after one of them failed. The error is that of the first.
pub(super) fn write_all(files: &[OpenedFile], run: &ShownRun<'_>) -> Result<(), CommandError> {
    let mut written = Ok(());
    for OpenedFile { format, path, target } in files {
        written = written.and(write(*format, run, &format!("--{}", format.name()), path, target));
    }
    written
}

/// Writes the report that `--out` names a file for. No test runs meanwhile.
pub(super) fn write_out(format: ReportFormat, run: &ShownRun<'_>, file: &Path) -> Result<(), CommandError> {
    write(format, run, "--out", file, &ReportTarget::open(file))
}

fn write(
    format: ReportFormat,
    run: &ShownRun<'_>,
    option: &str,
    path: &Path,
    target: &io::Result<ReportTarget>,
) -> Result<(), CommandError> {
    let failure = |error: &io::Error| CommandError::host(format!("{option} {}: {error}", path.display()));
    let target = target.as_ref().map_err(failure)?;
    target.write(&render(format, run)?).map_err(|error| failure(&error))
}

/// Renders a report.
pub(super) fn render(format: ReportFormat, run: &ShownRun<'_>) -> Result<Vec<u8>, CommandError> {
    let ShownRun { run_id, report, workspace, index } = *run;
    let history = xdg_dirs::history();
    let context = ReportContext::look_up(format, report, workspace, history.as_ref(), &Clock::new(), Some(index));
    reports::render(format, ReportInput { run_id, report, context: &context }, REPORT_DOCUMENT_BYTES_MAX)
        .map_err(|error| CommandError::host(format!("the {} report: {error}", format.name())))
}
