//! The tool `run_affected_tests`: runs the tests that changes may affect.

use super::Answer;
use super::run_rendering::{self, RunView};
use super::tool_spec::ToolSpec;
use crate::answer::budget::{Detail, Draw};
use crate::answer::run::affected_json;
use crate::answer::{ToolAnswer, by_package};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{as_in_run_tests, boolean, list, plain, string};
use proctor_proto::v1::{AffectedTestsRequest, AffectedTestsResponse, RunAffectedTestsRequest};
use proctor_proto::{reason, text};
use serde_json::{Value, json};

const DESCRIPTION: &str = "\
Run only the tests that changes may affect; counts what it leaves out. Faster than run_tests after an edit. Where it \
cannot be sure, it runs all and says why. Answers as run_tests does.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Run affected tests",
        description: DESCRIPTION,
        input: vec![
            ("since", string("last_run (default), last_green or a git revision.")),
            ("dry_run", boolean("Only list them.")),
            ("timeout", as_in_run_tests("number")),
            ("raw", as_in_run_tests("boolean")),
            ("verbose", as_in_run_tests("boolean")),
        ],
        required: &[],
        // Beside these, the members of every run.
        output: Some(vec![
            ("outcome", plain("string")),
            ("affected", plain("object")),
            ("tests", list(plain("object"))),
            ("nothing_ran", plain("string")),
        ]),
        read_only: false,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let since = arguments.text("since")?.unwrap_or_default();
    let is_dry = arguments.flag("dry_run")?;
    let limits = run_rendering::limits(arguments)?;
    let view = RunView::from_arguments(call, arguments)?;
    if is_dry {
        let answer = call
            .request_in_session(|mut clients, session_id| {
                let request = AffectedTestsRequest { session_id, since: since.clone(), limit: 0 };
                async move { Ok(clients.results.affected_tests(request).await?.into_inner()) }
            })
            .await?;
        return Ok(Box::new(Selected(answer)));
    }
    let request = RunAffectedTestsRequest { since, limits, ..RunAffectedTestsRequest::default() };
    let result = run_rendering::run_and_render(call, view, |mut clients, session_id| {
        let request = RunAffectedTestsRequest { session_id, ..request.clone() };
        async move { Ok(clients.runs.run_affected_tests(request).await?.into_inner()) }
    })
    .await;
    result.or_else(|error| Ok(Box::new(nothing_ran_answer(error)?)))
}

// Nothing affected is an answer, not an error.
fn nothing_ran_answer(error: CallError) -> Result<ToolAnswer, CallError> {
    match error.reason() {
        Some(reason) if reason.name == reason::NOTHING_AFFECTED => {
            let text = error.text("run_affected_tests", false);
            Ok(ToolAnswer::nothing_ran(&reason.name, text).with_next("run_tests runs everything"))
        }
        _ => Err(error),
    }
}

/// The tests that a run would execute.
struct Selected(AffectedTestsResponse);

impl Draw for Selected {
    fn items(&self) -> usize {
        self.0.tests.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let tests: Vec<_> = self.0.tests.iter().take(detail.items).cloned().collect();
        let reasons = self.0.reasons.iter().take(detail.items).cloned().collect();
        let members = vec![
            ("affected", self.0.affected.as_ref().map_or(Value::Null, affected_json)),
            ("tests", by_package(&tests)),
            ("new_units", if self.0.new_units.is_empty() { Value::Null } else { json!(self.0.new_units) }),
        ];
        let shown = AffectedTestsResponse { tests, reasons, ..self.0.clone() };
        let next = match (&self.0.full_run_reason, self.0.tests.is_empty() && self.0.new_units.is_empty()) {
            (None, true) => "run_tests runs everything",
            _ => "run_affected_tests without dry_run runs them",
        };
        ToolAnswer::with_own_headline(text::affected_tests(&shown), members).with_next(next)
    }
}
