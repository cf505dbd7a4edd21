//! The tools `run_lint` and `run_typecheck`: what linters and type checkers find in the workspace.

use super::Answer;
use super::run_rendering;
use super::tool_spec::ToolSpec;
use crate::answer::ToolAnswer;
use crate::answer::check::CheckAnswer;
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{list, plain, string, strings};
use crate::progress::ProgressState;
use proctor_proto::reason;
use proctor_proto::v1::{CheckKind, RunChecksRequest};

const LINT: &str = "\
Run the workspace's linters in the sandbox. Answers with each finding: file:line:column, severity, rule, message, \
fix, and whether it is new since the check before. passed: no errors or warnings.";

const TYPECHECK: &str = "\
Run the workspace's type checkers, and the compiler where it is one. Call it after an edit: often faster than the \
tests. Answers as run_lint does.";

/// The description of `run_lint`.
pub(super) fn lint_spec() -> ToolSpec {
    ToolSpec {
        title: "Lint",
        description: LINT,
        input: vec![
            ("files", strings("Only findings in these files or directories.")),
            ("checkers", strings("These by name, even with their defaults alone.")),
            ("since", string("Only in files changed since last_run or last_green of the tests, or a git revision.")),
        ],
        required: &[],
        output: Some(vec![("outcome", plain("string")), ("findings", list(plain("object")))]),
        read_only: false,
    }
}

/// The description of `run_typecheck`.
pub(super) fn typecheck_spec() -> ToolSpec {
    let as_in_run_lint = "As in run_lint.";
    ToolSpec {
        title: "Check types",
        description: TYPECHECK,
        input: vec![
            ("files", strings(as_in_run_lint)),
            ("checkers", strings(as_in_run_lint)),
            ("since", string(as_in_run_lint)),
        ],
        ..lint_spec()
    }
}

pub(super) async fn call(
    call: &CallContext<'_>,
    arguments: &mut Arguments,
    kind: CheckKind,
) -> Result<Answer, CallError> {
    let request = RunChecksRequest {
        kinds: vec![kind.into()],
        checkers: arguments.texts("checkers")?,
        files: arguments.texts("files")?,
        since: arguments.text("since")?.unwrap_or_default(),
        ..RunChecksRequest::default()
    };
    let ended = run_rendering::run_to_end(call, ProgressState::waiting_check(), |mut clients, session_id| {
        let request = RunChecksRequest { session_id, ..request.clone() };
        async move { Ok(clients.runs.run_checks(request).await?.into_inner()) }
    })
    .await;
    match ended {
        Ok(ended) => Ok(Box::new(CheckAnswer::new(ended))),
        // Nothing to check is an answer, not an error.
        Err(error) => match error.reason() {
            Some(reason) if reason.name == reason::NOTHING_AFFECTED => {
                let tool = if kind == CheckKind::Lint { "run_lint" } else { "run_typecheck" };
                let text = error.text(tool, false);
                let next = format!("{tool} without since checks all files");
                Ok(Box::new(ToolAnswer::nothing_ran(&reason.name, text).with_next(next)))
            }
            _ => Err(error),
        },
    }
}
