//! The tool `last_test_failures`: the failures of the last run, without running anything.

use super::Answer;
use super::tool_spec::ToolSpec;
use crate::answer::budget::{Detail, Draw, clip_end};
use crate::answer::failure::FailureEntry;
use crate::answer::{ToolAnswer, by_package};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, number, plain};
use proctor_proto::printable::block;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::{Failure, HungTest, LastTestFailuresRequest, LastTestFailuresResponse, Outcome, TestId};
use serde_json::Value;

/// Most failures that may be requested.
const LIMIT_MAX: u32 = 500;

const DESCRIPTION: &str = "\
The failures of the last run in this session, with file:line, message and the wanted and actual value, without running \
anything. Use it for what the answer of a run had to leave out. Build and collection errors are listed as failures too. \
While a run is going on it still shows the run before.";

pub(super) fn spec() -> ToolSpec {
    let run = json_schema::run().into_iter().filter(|(name, _)| ["outcome", "failures", "run_id"].contains(name));
    ToolSpec {
        title: "Failures of the last run",
        description: DESCRIPTION,
        input: vec![("limit", number("Most failures listed. Default 50, at most 500."))],
        required: &[],
        output: Some(run.chain([("total", plain("number")), ("not_run", json_schema::tests())]).collect()),
        read_only: true,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let limit = arguments.count("limit", LIMIT_MAX)?.unwrap_or_default();
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = LastTestFailuresRequest { session_id, limit };
            async move { Ok(clients.results.last_test_failures(request).await?.into_inner()) }
        })
        .await?;
    Ok(if answer.has_run { Box::new(LastFailures(answer)) } else { Box::new(ToolAnswer::no_run_yet()) })
}

/// The failures of a run that has ended.
struct LastFailures(LastTestFailuresResponse);

impl Draw for LastFailures {
    fn items(&self) -> usize {
        self.0.failures.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let all = &self.0;
        let failures: Vec<Failure> = all.failures.iter().take(detail.items).map(|one| clip(one, detail)).collect();
        let hung: Vec<HungTest> = all.hung.iter().take(detail.items).map(|one| clip_stack(one, detail)).collect();
        let running = all.running.iter().take(detail.items);
        let running = running
            .map(|test| FailureEntry::from_running(test, hung.iter().find(|hung| hung.test.as_ref() == Some(test))));
        let listed = failures.iter().map(FailureEntry::from_listed);
        let entries: Value = running.chain(listed).map(|entry| entry.to_json()).collect();
        let not_run: Vec<TestId> = all.not_run.iter().take(detail.items).cloned().collect();
        let not_run_left_out = all.not_run_left_out + (all.not_run.len() - not_run.len()) as u64;
        let shown = LastTestFailuresResponse {
            failures,
            hung,
            not_run,
            not_run_left_out,
            running: all.running.iter().take(detail.items).cloned().collect(),
            framework: all.framework.clone(),
            run_id: all.run_id.clone(),
            ..*all
        };
        let text = text::failures(&shown, Reader::Agent);
        let members = vec![
            ("outcome", text::outcome_name(all.outcome()).into()),
            ("failures", entries),
            ("run_id", all.run_id.as_str().into()),
            ("total", all.total.into()),
            ("not_run", if shown.not_run.is_empty() { Value::Null } else { by_package(&shown.not_run) }),
        ];
        let answer = ToolAnswer::with_own_headline(text, members);
        ToolAnswer { next: next_call(all).map(str::to_owned), ..answer }
    }
}

// Without stack and output, which this answer never shows.
fn clip(failure: &Failure, detail: &Detail) -> Failure {
    let clip = |text: &str| clip_end(&block(text), detail.message_bytes);
    Failure {
        nodeid: failure.nodeid.clone(),
        test: failure.test.clone(),
        collector: failure.collector,
        file: failure.file.clone(),
        line: failure.line,
        message: clip(&failure.message),
        expected: failure.expected.as_deref().map(clip),
        actual: failure.actual.as_deref().map(clip),
        ..Failure::default()
    }
}

fn clip_stack(hung: &HungTest, detail: &Detail) -> HungTest {
    let stack: Vec<&str> = hung.stack.lines().take(detail.stack_frames).collect();
    HungTest { test: hung.test.clone(), file: hung.file.clone(), line: hung.line, stack: stack.join("\n") }
}

fn next_call(answer: &LastTestFailuresResponse) -> Option<&'static str> {
    match answer {
        answer if answer.total > 0 || !answer.not_run.is_empty() => Some("run_failing_tests after a fix"),
        answer if answer.outcome() == Outcome::Passed => None,
        _ => Some("get_run {stream: \"stdout\"} reads the output of that run"),
    }
}
