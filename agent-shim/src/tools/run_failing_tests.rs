//! The tool `run_failing_tests`: reruns what failed in the last run.

use super::Answer;
use super::run_rendering::{self, RunView};
use super::tool_spec::ToolSpec;
use crate::answer::ToolAnswer;
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, as_in_run_tests, number};
use proctor_proto::reason;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::RunFailingTestsRequest;

const DESCRIPTION: &str = "\
Run again exactly what failed in this session and has not been run since: failing tests, and packages that did not build. \
Call it after a fix. When it passes, call run_tests once without a filter: a fix can break something else. Answers as \
run_tests does.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Run failing tests again",
        description: DESCRIPTION,
        input: vec![
            ("limit", number("Most failures. Default: all.")),
            ("timeout", as_in_run_tests("number")),
            ("raw", as_in_run_tests("boolean")),
            ("verbose", as_in_run_tests("boolean")),
        ],
        required: &[],
        output: Some(json_schema::run_in_brief()),
        read_only: false,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let request = RunFailingTestsRequest {
        // The most tests that a report holds.
        limit: arguments.count("limit", 100_000)?.unwrap_or_default(),
        limits: run_rendering::limits(arguments)?,
        ..RunFailingTestsRequest::default()
    };
    let view = RunView::from_arguments(call, arguments)?;
    let result = run_rendering::run_and_render(call, view, |mut clients, session_id| {
        let request = RunFailingTestsRequest { session_id, ..request.clone() };
        async move { Ok(clients.runs.run_failing_tests(request).await?.into_inner()) }
    })
    .await;
    result.or_else(|error| Ok(Box::new(nothing_ran_answer(error)?)))
}

// Nothing to rerun is an answer, not an error.
fn nothing_ran_answer(error: CallError) -> Result<ToolAnswer, CallError> {
    let Some(reason) = error.reason() else { return Err(error) };
    match reason.name.as_str() {
        reason::NO_RUN_YET => Ok(ToolAnswer::no_run_yet()),
        reason::NOTHING_TO_RERUN => {
            let text = text::nothing_to_rerun(&reason.framework, Reader::Agent);
            Ok(ToolAnswer::nothing_ran(&reason.name, text).with_next("run_tests runs everything"))
        }
        _ => Err(error),
    }
}
