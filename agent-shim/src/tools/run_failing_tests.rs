//! The tool `run_failing_tests`: reruns what failed in the last run.

use super::run_rendering;
use super::tool_spec::ToolSpec;
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, number};
use crate::report_json;
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use proctor_proto::reason;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::RunFailingTestsRequest;
use serde_json::json;

const DESCRIPTION: &str = "\
Run again exactly what failed in the last run of this session: the failing tests, and the packages that did not build. \
Call it after a fix; it is much faster than run_tests. When it passes, call run_tests once without a filter: a fix can \
break something else. Answers as run_tests does.";

pub(super) fn spec() -> ToolSpec {
    let properties = [
        ("limit", number("Most failures to run again. Default: all of them.")),
        ("timeout", json_schema::timeout()),
        ("max_tokens", json_schema::max_tokens()),
    ];
    ToolSpec {
        title: "Run failing tests again",
        description: DESCRIPTION,
        input: json_schema::arguments(&properties, &[]),
        output: report_json::schema(&[]),
        read_only: false,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let request = RunFailingTestsRequest {
        // The most tests that a report holds.
        limit: arguments.count("limit", 100_000)?.unwrap_or_default(),
        limits: run_rendering::limits(arguments)?,
        ..RunFailingTestsRequest::default()
    };
    let max_tokens = run_rendering::max_tokens(arguments)?;
    let result = run_rendering::run_and_render(call, max_tokens, |mut clients, session_id| {
        let request = RunFailingTestsRequest { session_id, ..request.clone() };
        async move { Ok(clients.runs.run_failing_tests(request).await?.into_inner()) }
    })
    .await;
    result.or_else(nothing_ran_answer)
}

// Nothing to rerun is an answer, not an error.
fn nothing_ran_answer(error: CallError) -> Result<ToolAnswer, CallError> {
    let Some(reason) = error.reason() else { return Err(error) };
    let (text, next) = match reason.name.as_str() {
        reason::NO_RUN_YET => (text::NO_RUN_YET.to_owned(), "Next: run_tests."),
        reason::NOTHING_TO_RERUN => {
            (text::nothing_to_rerun(&reason.framework, Reader::Agent), "Next: run_tests runs everything.")
        }
        _ => return Err(error),
    };
    let structured = json!({"nothing_ran": reason.name, "framework": reason.framework, "attached": false});
    Ok(ToolAnswer { text, summary: vec![next.to_owned()], structured })
}
