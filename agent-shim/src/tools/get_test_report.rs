//! The tool `get_test_report`: the report of the last run, or one of its artifacts.

use super::tool_spec::ToolSpec;
use super::{artifact, get_run, run_rendering};
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, one_of};
use crate::report_json::{self, Context};
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use crate::{run_summary, shortened_text};
use proctor_proto::v1::{GetReportRequest, GetReportResponse, ReportFormat};
use proctor_proto::{reason, text};
use serde_json::json;

const DESCRIPTION: &str = "\
The report of the last run that has ended, without running anything: outcome, counts, resources, limits and isolation. \
Cheaper than run_tests when you only want to know how things stood; last_test_failures is better for the failures \
themselves. Formats of this version: summary (a few lines) and json (the whole document as text). With artifact it shows \
a screenshot, trace or video that the run left, by its name in the document's artifacts.";

pub(super) fn spec() -> ToolSpec {
    let input = [
        ("format", one_of(&["summary", "json"], "summary (default): a few lines. json: the document.")),
        (
            "artifact",
            json_schema::string("A file that the run left, by its name in artifacts, in place of the report."),
        ),
        ("max_tokens", json_schema::max_tokens()),
    ];
    ToolSpec {
        title: "Report of the last run",
        description: DESCRIPTION,
        input: json_schema::arguments(&input, &[]),
        output: report_json::schema(&[]),
        read_only: true,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let format = arguments.choice("format", &["summary", "json"], "summary or json")?.unwrap_or("summary");
    let name = arguments.text("artifact")?;
    let bytes_max = run_rendering::max_tokens(arguments)?.map(shortened_text::token_bytes);
    let fetched = call
        .request_in_session(|mut clients, session_id| {
            let request = GetReportRequest { session_id, format: ReportFormat::Json.into(), run_id: String::new() };
            async move { Ok(clients.results.get_report(request).await?.into_inner()) }
        })
        .await;
    match fetched {
        Ok(fetched) if name.is_some() => {
            artifact::show_artifact(call, &fetched, &name.unwrap_or_default(), bytes_max).await
        }
        Ok(fetched) if format == "json" => json_answer(&fetched, bytes_max),
        Ok(fetched) => summary_answer(call, &fetched, bytes_max).await,
        Err(error) if error.reason().is_some_and(|reason| reason.name == reason::NO_RUN_YET) => Ok(ToolAnswer {
            text: text::NO_RUN_YET.to_owned(),
            summary: vec!["Next: run_tests.".to_owned()],
            structured: json!({"nothing_ran": reason::NO_RUN_YET, "attached": false}),
        }),
        Err(error) => Err(error),
    }
}

fn json_answer(fetched: &GetReportResponse, bytes_max: Option<usize>) -> Result<ToolAnswer, CallError> {
    let structured = report_json::parse_document(&fetched.document, &Context::for_report(fetched, bytes_max))?;
    let whole = String::from_utf8_lossy(&fetched.document);
    let bytes_max = bytes_max.unwrap_or(text::STREAM_BYTES_MAX);
    let shown = shortened_text::first_lines(&whole, bytes_max);
    let mut summary = Vec::new();
    if shown.len() < whole.len() {
        summary.push(format!(
            "The document has {} bytes, of which the first {} are shown; structuredContent is complete JSON with fewer \
             tests.",
            whole.len(),
            shown.len()
        ));
    }
    Ok(ToolAnswer { text: shown.to_owned(), summary, structured })
}

async fn summary_answer(
    call: &ToolCall<'_>,
    fetched: &GetReportResponse,
    bytes_max: Option<usize>,
) -> Result<ToolAnswer, CallError> {
    let structured = report_json::parse_document(&fetched.document, &Context::for_report(fetched, bytes_max))?;
    let run = get_run::status(call, &fetched.run_id, 0).await?;
    let report = run.report.ok_or(CallError::MalformedReport)?;
    let mut lines = vec![run_summary::headline(&report)];
    lines.extend(report.resources.as_ref().map(run_summary::resources));
    lines.extend(report.isolation.as_ref().map(run_summary::isolation));
    let mut hints = run_summary::lines_with_hint(&report, None);
    hints.remove(0); // the text begins with the headline already
    let text = shortened_text::fit_lines(&lines, bytes_max.unwrap_or(usize::MAX));
    Ok(ToolAnswer { text, summary: hints, structured })
}
