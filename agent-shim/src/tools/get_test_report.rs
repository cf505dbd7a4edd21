//! The tool `get_test_report`: the report of the last run, or one of its artifacts.

use super::tool_spec::ToolSpec;
use super::{Answer, artifact, get_run, report_lists};
use crate::answer::budget::{Detail, Draw};
use crate::answer::{ReportMembers, ToolAnswer, run_headline, run_text};
use crate::answer::{failure, next_call};
use crate::arguments::Arguments;
use crate::bounded_report;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{one_of, string};
use crate::run_uri;
use proctor_proto::reason;
use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::GetReportResponse;
use std::sync::Arc;

const DESCRIPTION: &str = "\
The report of the last run of tests: outcome, counts, resources, limits, isolation. Runs nothing. For failures \
last_test_failures is better. Formats: summary (a few lines), history (earlier runs), slowest and flaky (tests), \
optimization (what to improve), whole documents (set a large max_tokens). artifact shows a screenshot, trace or \
video of it.";

/// Members of the document that the summary has.
const SUMMARY: [&str; 7] = ["outcome", "summary", "exit_code", "resources", "limits", "isolation", "coverage"];

// A picture has no structured content, so there is no output schema: clients refuse answers that do not conform.
pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Report of the last run",
        description: DESCRIPTION,
        input: vec![
            ("format", one_of(&formats(), "summary is the default.")),
            ("artifact", string("Name of a file that the run left, as the document's artifacts list it.")),
        ],
        required: &[],
        output: None,
        read_only: true,
    }
}

/// Name of the format that is no document.
const SUMMARY_FORMAT: &str = "summary";

/// The names of all formats: the summary, the lists, then the documents.
fn formats() -> Vec<&'static str> {
    let documents = ReportFormat::ALL.iter().map(|format| format.name());
    [SUMMARY_FORMAT].into_iter().chain(report_lists::NAMES).chain(documents).collect()
}

/// The same for a person.
const FORMATS_TEXT: &str = "summary, history, slowest, flaky, json, junit, ctrf, tap, github, html or optimization";

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let chosen = arguments.choice("format", &formats(), FORMATS_TEXT)?;
    let name = arguments.text("artifact")?;
    if let (Some(list), None) = (chosen.filter(|chosen| report_lists::NAMES.contains(chosen)), &name) {
        return or_no_run_yet(report_lists::call(call, list).await);
    }
    let format = chosen.and_then(ReportFormat::from_name);
    let fetched = match (&name, format) {
        (None, Some(format)) => call.fetch_document("", format, DOCUMENT_BYTES_MAX).await,
        _ => call.fetch_report("").await,
    };
    match (fetched, name, format) {
        (Ok(fetched), Some(name), _) => artifact::show_artifact(call, &fetched, &name).await,
        (Ok(fetched), None, Some(format)) => Ok(Box::new(Document::new(&fetched, format)?)),
        (Ok(fetched), None, None) => Ok(Box::new(summary_answer(call, &fetched).await?)),
        (Err(error), _, _) => or_no_run_yet(Err(error)),
    }
}

/// The answer, or that there is no run yet.
fn or_no_run_yet(answer: Result<Answer, CallError>) -> Result<Answer, CallError> {
    match answer {
        Err(error) if error.reason().is_some_and(|reason| reason.name == reason::NO_RUN_YET) => {
            Ok(Box::new(ToolAnswer::no_run_yet()))
        }
        answer => answer,
    }
}

/// Most bytes of a document that a model gets: clients refuse lines of more than a few MiB.
const DOCUMENT_BYTES_MAX: u32 = 1024 * 1024;

/// A whole document. Half of one would not parse, so it is shown whole or not at all.
struct Document {
    run_id: String,
    format: ReportFormat,
    text: String,
    /// The members of the JSON document.
    members: Option<Arc<ReportMembers>>,
}

impl Document {
    fn new(fetched: &GetReportResponse, format: ReportFormat) -> Result<Document, CallError> {
        let members = match format {
            ReportFormat::Json => Some(ReportMembers::new(bounded_report::parse_and_bound(&fetched.document)?)),
            _ => None,
        };
        let (run_id, text) = (fetched.run_id.clone(), String::from_utf8_lossy(&fetched.document).into_owned());
        Ok(Document { run_id, format, text, members })
    }
}

impl Draw for Document {
    fn items(&self) -> usize {
        1
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let (bytes, name) = (self.text.len(), self.format.name());
        let what = if self.format == ReportFormat::Json { "JSON" } else { name };
        if detail.is_verbose {
            let members = match self.members {
                Some(_) => Vec::new(),
                None => vec![("format", name.into()), ("document", self.text.as_str().into())],
            };
            let whole = ToolAnswer::fixed(format!("the report, {bytes} bytes of {what}"), self.text.clone(), members);
            return ToolAnswer { report: self.members.clone(), ..whole };
        }
        // As if the structured content had the whole of it as well, of which that of JSON has the tests that fit.
        let tokens = bytes.div_ceil(2) + 200;
        let next = next_call::report_document(self.format, tokens).map(|call| format!("{call} shows it"));
        let resource = || format!("the resource {} has it", run_uri::document_uri(&self.run_id, self.format));
        let headline = format!("the report has {bytes} bytes of {what}, more than max_tokens allows");
        ToolAnswer::fixed(headline.clone(), headline + "\n", Vec::new()).with_next(next.unwrap_or_else(resource))
    }
}

async fn summary_answer(call: &CallContext<'_>, fetched: &GetReportResponse) -> Result<ToolAnswer, CallError> {
    let document = bounded_report::parse_and_bound(&fetched.document)?;
    let run = get_run::status(call, &fetched.run_id, 0).await?;
    let report = run.report.ok_or(CallError::MalformedReport)?;
    let headline = run_headline::headline(&report, &failure::entries(&report));
    let used = report.resources.as_ref().map(run_text::resources);
    let layers = report.isolation.as_ref().map(run_text::isolation);
    let lines = [headline.clone()].into_iter().chain(used).chain(layers);
    let text: String = lines.map(|line| line + "\n").collect();
    let members = SUMMARY.iter().filter_map(|name| Some((*name, document.get(*name)?.clone())));
    let run_id = [("run_id", fetched.run_id.as_str().into())];
    let answer = ToolAnswer::fixed(headline, text, members.chain(run_id).collect());
    Ok(ToolAnswer { next: run_text::next(&report, &fetched.run_id), ..answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_format() {
        let formats = formats();
        let (last, others) = formats.split_last().unwrap();
        assert_eq!(FORMATS_TEXT, format!("{} or {last}", others.join(", ")));
    }
}
