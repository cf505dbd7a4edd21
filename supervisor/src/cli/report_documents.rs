//! Prints and writes reports in the formats that were asked for.

use super::report_arguments::ReportFiles;
use super::{CommandError, print};
use crate::reports::{self, ReportInput};
use proctor_core::bounds::REPORT_DOCUMENT_BYTES_MAX;
use proctor_proto::report_format::ReportFormat;
use std::fs;
use std::io;
use std::path::Path;

/// Prints a report on stdout.
pub(super) fn print(format: ReportFormat, input: ReportInput<'_>) -> Result<(), CommandError> {
    match format {
        // Escaped for a terminal.
        ReportFormat::Json => print::document(&reports::json_document(input.report)),
        format => {
            let mut document = render(format, input)?;
            if document.last() != Some(&b'\n') {
                document.push(b'\n');
            }
            print::bytes(&document)
        }
    }
}

/// Writes a report to `file`, whose directories are made. The file is replaced as a whole.
pub(super) fn write(format: ReportFormat, input: ReportInput<'_>, file: &Path) -> Result<(), CommandError> {
    let document = render(format, input)?;
    replace(file, &document)
        .map_err(|error| CommandError::host(format!("--{} {}: {error}", format.name(), file.display())))
}

/// Writes every file that was asked for, also after one of them failed. The error is that of the first.
pub(super) fn write_all(files: &ReportFiles, input: ReportInput<'_>) -> Result<(), CommandError> {
    let mut written = Ok(());
    for (format, file) in &files.0 {
        written = written.and(write(*format, input, file));
    }
    written
}

fn render(format: ReportFormat, input: ReportInput<'_>) -> Result<Vec<u8>, CommandError> {
    reports::render(format, input, REPORT_DOCUMENT_BYTES_MAX)
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
