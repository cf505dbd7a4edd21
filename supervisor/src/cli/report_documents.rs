//! Prints and writes reports in the formats that were asked for.

use super::arguments::RunArgs;
use super::report_arguments::{ReportFiles, RunOutput};
use super::{CommandError, print, xdg_dirs};
use crate::clock::Clock;
use crate::reports::{self, ReportContext, ReportInput};
use crate::workspace::Workspace;
use proctor_core::bounds::REPORT_DOCUMENT_BYTES_MAX;
use proctor_core::coverage::CoverageIndex;
use proctor_core::report::Report;
use proctor_proto::report_format::ReportFormat;
use std::fs;
use std::io;
use std::path::Path;

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

/// Writes a report to `file`, whose directories are made. The file is replaced as a whole.
pub(super) fn write(format: ReportFormat, run: &ShownRun<'_>, file: &Path) -> Result<(), CommandError> {
    let document = render(format, run)?;
    replace(file, &document)
        .map_err(|error| CommandError::host(format!("--{} {}: {error}", format.name(), file.display())))
}

/// Writes every file that was asked for, also after one of them failed. The error is that of the first.
pub(super) fn write_all(files: &ReportFiles, run: &ShownRun<'_>) -> Result<(), CommandError> {
    let mut written = Ok(());
    for (format, file) in &files.0 {
        written = written.and(write(*format, run, file));
    }
    written
}

/// Renders a report.
pub(super) fn render(format: ReportFormat, run: &ShownRun<'_>) -> Result<Vec<u8>, CommandError> {
    let ShownRun { run_id, report, workspace, index } = *run;
    let began_at = Clock::new().for_file_times(report.started_at);
    let history = xdg_dirs::history();
    let context = ReportContext::look_up(format, report, workspace, history.as_ref(), began_at, Some(index));
    reports::render(format, ReportInput { run_id, report, context: &context }, REPORT_DOCUMENT_BYTES_MAX)
        .map_err(|error| CommandError::host(format!("the {} report: {error}", format.name())))
}

// A reader never sees half of a file. A device or pipe, such as `/dev/stdout`, cannot be replaced.
fn replace(file: &Path, document: &[u8]) -> io::Result<()> {
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return fs::write(file, document);
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    fs::write(&temporary, document).and_then(|()| fs::rename(&temporary, file)).inspect_err(|_| {
        _ = fs::remove_file(&temporary);
    })
}
