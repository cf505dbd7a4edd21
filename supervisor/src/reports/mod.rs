//! Reports in the formats that people and their tools use: one file for each format, and one table of them,
//! [`ReportFormat`], from which every entrance takes its list.
//!
//! Rendering is pure: a finished run and what is known beside it become bytes. Whatever a run printed or is named is
//! hostile: each format escapes it in its own way, and every document has a bound and says what it leaves out. A run that
//! did not pass is red in every format, also if no test failed.

mod budget;
mod check_entries;
mod context;
mod ctrf;
mod entries;
mod escaped_json;
mod github;
mod html;
mod json;
mod junit;
mod optimization;
mod parallelism;
mod tap;

#[cfg(test)]
mod tests;

pub use context::ReportContext;
pub use escaped_json::EscapeHidden;
pub use json::document as json_document;
pub use parallelism::timed_tests;

use proctor_core::bounds::{REPORT_DOCUMENT_BYTES_MAX, REPORT_DOCUMENT_BYTES_MIN};
use proctor_core::report::Report;
use proctor_proto::report_format::ReportFormat;
use thiserror::Error;

/// A finished run, and what is known beside its report.
#[derive(Debug, Clone, Copy)]
pub struct ReportInput<'a> {
    /// Id of the run; empty if it is not known.
    pub run_id: &'a str,
    /// The report.
    pub report: &'a Report,
    /// What the pages for people show beside it.
    pub context: &'a ReportContext,
}

/// Why a document could not be written.
#[derive(Debug, Error)]
pub enum RenderError {
    /// A value has no JSON form.
    #[error("the report has no JSON form")]
    Json(#[from] serde_json::Error),
    /// A value has no XML form.
    #[error("the report has no XML form")]
    Xml(#[from] quick_junit::SerializeError),
}

/// The content security policy of the HTML report, for a server that sends it.
#[must_use]
pub fn html_policy() -> String {
    html::content_policy()
}

/// Renders a report. All formats but JSON keep to `bytes_max`, which is clamped to what the formats can do.
///
/// # Errors
/// None that a report causes: every text has a form in every format.
pub fn render(format: ReportFormat, input: ReportInput<'_>, bytes_max: usize) -> Result<Vec<u8>, RenderError> {
    let bytes_max = bytes_max.clamp(REPORT_DOCUMENT_BYTES_MIN, REPORT_DOCUMENT_BYTES_MAX);
    match format {
        ReportFormat::Json => json::render(input),
        ReportFormat::Junit => junit::render(input, bytes_max),
        ReportFormat::Ctrf => ctrf::render(input, bytes_max),
        ReportFormat::Tap => Ok(tap::render(input, bytes_max).into_bytes()),
        ReportFormat::Github => Ok(github::render(input, bytes_max).into_bytes()),
        ReportFormat::Html => html::render(input, bytes_max),
        ReportFormat::Optimization => Ok(optimization::render(input, bytes_max).into_bytes()),
    }
}
