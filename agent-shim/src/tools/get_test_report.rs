//! The tool `get_test_report`: the report of the last run, or one of its artifacts.

use super::tool_spec::ToolSpec;
use super::{Answer, artifact, get_run};
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
use proctor_proto::v1::GetReportResponse;
use std::sync::Arc;

const DESCRIPTION: &str = "\
The report of the last run that has ended, without running anything: outcome, counts, resources, limits and isolation. \
last_test_failures is better for the failures themselves. Formats of this version: summary (a few lines) and json (the whole \
document, which needs a large max_tokens). With artifact it shows a screenshot, trace or video that the run left.";

/// Members of the document that the summary has.
const SUMMARY: [&str; 7] = ["outcome", "summary", "exit_code", "resources", "limits", "isolation", "coverage"];

// A picture has no structured content, so there is no output schema: clients refuse answers that do not conform.
pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Report of the last run",
        description: DESCRIPTION,
        input: vec![
            ("format", one_of(&["summary", "json"], "summary is the default.")),
            ("artifact", string("Name of a file that the run left, as the document's artifacts list it.")),
        ],
        required: &[],
        output: None,
        read_only: true,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let format = arguments.choice("format", &["summary", "json"], "summary or json")?.unwrap_or("summary");
    let name = arguments.text("artifact")?;
    let fetched = call.fetch_report("").await;
    match (fetched, name) {
        (Ok(fetched), Some(name)) => artifact::show_artifact(call, &fetched, &name).await,
        (Ok(fetched), None) if format == "json" => Ok(Box::new(Document::new(&fetched)?)),
        (Ok(fetched), None) => Ok(Box::new(summary_answer(call, &fetched).await?)),
        (Err(error), _) if error.reason().is_some_and(|reason| reason.name == reason::NO_RUN_YET) => {
            Ok(Box::new(ToolAnswer::no_run_yet()))
        }
        (Err(error), _) => Err(error),
    }
}

/// The whole JSON document. Half of one would not parse, so it is shown whole or not at all.
struct Document {
    run_id: String,
    text: String,
    members: Arc<ReportMembers>,
}

impl Document {
    fn new(fetched: &GetReportResponse) -> Result<Document, CallError> {
        let members = ReportMembers::new(bounded_report::parse_and_bound(&fetched.document)?);
        let (run_id, text) = (fetched.run_id.clone(), String::from_utf8_lossy(&fetched.document).into_owned());
        Ok(Document { run_id, text, members })
    }
}

impl Draw for Document {
    fn items(&self) -> usize {
        1
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let bytes = self.text.len();
        if detail.is_verbose {
            let whole = ToolAnswer::fixed(format!("the report, {bytes} bytes of JSON"), self.text.clone(), Vec::new());
            return ToolAnswer { report: Some(self.members.clone()), ..whole };
        }
        // As if the structured content had the whole of it as well, of which it has the tests that fit.
        let tokens = bytes.div_ceil(2) + 200;
        let next = next_call::report_document(tokens).map(|call| format!("{call} shows it"));
        let next = next.unwrap_or_else(|| format!("the resource {} has it", run_uri::report_uri(&self.run_id)));
        let headline = format!("the report has {bytes} bytes of JSON, more than max_tokens allows");
        ToolAnswer::fixed(headline.clone(), headline + "\n", Vec::new()).with_next(next)
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
