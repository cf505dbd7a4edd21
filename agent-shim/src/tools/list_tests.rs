//! The tool `list_tests`: lists tests without running them.

use super::Answer;
use super::tool_spec::ToolSpec;
use crate::answer::budget::{Detail, Draw};
use crate::answer::{ToolAnswer, by_package, failure, next_call as calls};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, as_in_run_tests, list, number, object, plain};
use crate::progress::ProgressState;
use proctor_proto::printable::line;
use proctor_proto::text;
use proctor_proto::v1::{Collector, ListTestsRequest, ListTestsResponse, TestId};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Tests listed by default: a model reads the list.
const LIMIT_DEFAULT: u32 = 500;
/// Most tests that may be requested.
const LIMIT_MAX: u32 = 10_000;

const DESCRIPTION: &str = "\
List the workspace's tests without running them: to find names for run_tests, or to see whether a new test is found. \
Code is compiled or imported in the sandbox, which can take as long as a build. What last_test_failures and \
tests_covering know stays.";

pub(super) fn spec() -> ToolSpec {
    let collector = [("name", plain("string")), ("at", plain("string")), ("message", plain("string"))];
    ToolSpec {
        title: "List tests",
        description: DESCRIPTION,
        input: vec![
            ("framework", as_in_run_tests("string")),
            ("filter", as_in_run_tests("string")),
            ("limit", number("Most tests listed. Default 500, at most 10000.")),
        ],
        required: &[],
        output: Some(vec![
            ("tests", json_schema::tests()),
            ("left_out", plain("number")),
            ("collectors", list(object(collector))),
        ]),
        read_only: false,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let request = ListTestsRequest {
        framework: arguments.text("framework")?.unwrap_or_default(),
        filter: arguments.text("filter")?.unwrap_or_default(),
        limit: arguments.count("limit", LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT),
        ..ListTestsRequest::default()
    };
    let running = call.session_status().await?.running_run_id;
    let waiting = match running.as_str() {
        "" => "listing tests".to_owned(),
        run_id => format!("listing tests, behind run {run_id}"),
    };
    let answer = call
        .with_progress(ProgressState::waiting(waiting), async |_| {
            call.request_in_session(|mut clients, session_id| {
                let request = ListTestsRequest { session_id, ..request.clone() };
                async move { Ok(clients.results.list_tests(request).await?.into_inner()) }
            })
            .await
        })
        .await?;
    let next = next_call(&request.framework, &answer);
    Ok(Box::new(TestList { answer, next }))
}

/// The tests of a workspace, and the call that usually follows.
struct TestList {
    answer: ListTestsResponse,
    next: String,
}

impl Draw for TestList {
    fn items(&self) -> usize {
        self.answer.tests.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let TestList { answer: all, next } = self;
        let tests: Vec<_> = all.tests.iter().take(detail.items).cloned().collect();
        let left_out = all.left_out + (all.tests.len() - tests.len()) as u64;
        let shown = ListTestsResponse {
            framework: all.framework.clone(),
            tests,
            left_out,
            partial: all.partial,
            outcome: all.outcome,
            collectors: all.collectors.clone(),
        };
        let advice = match (all.tests.len() > detail.items, all.left_out > 0) {
            (false, _) => "pass a larger limit",
            (true, false) => "pass a larger max_tokens",
            (true, true) => "pass a larger max_tokens and limit",
        };
        let text = text::test_list_advising(&shown, advice);
        let members = vec![
            ("tests", by_package(&shown.tests)),
            ("left_out", if left_out > 0 { left_out.into() } else { Value::Null }),
            ("collectors", if all.collectors.is_empty() { Value::Null } else { collectors(&all.collectors) }),
        ];
        ToolAnswer::with_own_headline(text, members).with_next(next.as_str())
    }
}

fn next_call(framework: &str, answer: &ListTestsResponse) -> String {
    match example(&answer.tests) {
        Some(name) => format!("{} runs exactly this test", calls::run_one_test(framework, name)),
        None if !answer.tests.is_empty() => "run_tests with tests, a list of these names".to_owned(),
        None if !answer.collectors.is_empty() => "mend what could not be listed, then list_tests again".to_owned(),
        None => "list_tests with another filter or framework, or after a test was added".to_owned(),
    }
}

// The first name that only one of the tests has and that is printed as it is.
fn example(tests: &[TestId]) -> Option<&str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    tests.iter().for_each(|test| *counts.entry(test.name.as_str()).or_default() += 1);
    let mut names = tests.iter().map(|test| test.name.as_str());
    names.find(|name| counts.get(name) == Some(&1) && line(name) == *name)
}

fn collectors(collectors: &[Collector]) -> Value {
    let one = |collector: &Collector| {
        let place = failure::place(collector.file.as_deref(), collector.line);
        json!({"name": collector.nodeid, "at": place, "message": collector.message})
    };
    collectors.iter().map(one).collect()
}
