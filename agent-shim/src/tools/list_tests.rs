//! The tool `list_tests`: lists tests without running them.

use super::tool_spec::ToolSpec;
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, number, objects, string};
use crate::progress::ProgressState;
use crate::report_json::tests;
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use proctor_proto::printable::line;
use proctor_proto::text;
use proctor_proto::v1::{Collector, ListTestsRequest, ListTestsResponse, TestId};
use serde_json::{Value, json};

/// Tests listed by default: a model reads the list.
const LIMIT_DEFAULT: u32 = 500;
/// Most tests that may be requested.
const LIMIT_MAX: u32 = 10_000;

const DESCRIPTION: &str = "\
List the workspace's tests without running them. Call it to find names for the argument tests of run_tests, or to see whether a new test is \
found at all. The code is compiled or imported for it, in the sandbox, so it can take as long as a build. Does not touch \
what last_test_failures and tests_covering know.";

pub(super) fn spec() -> ToolSpec {
    let input = [
        ("framework", json_schema::framework()),
        ("filter", json_schema::filter()),
        ("limit", number("Most tests listed. Default 500, more than 10000 is 10000.")),
    ];
    let collector = [
        ("nodeid", string("The package or file.")),
        ("file", string("Where the first error is.")),
        ("line", number("From 1.")),
        ("message", string("The first error.")),
    ];
    let output = [
        ("framework", string("The test framework.")),
        ("tests", json_schema::tests("By package and name.")),
        ("left_out", number("Tests beyond limit.")),
        ("collectors", objects(&collector, "Packages or files that could not be listed.")),
    ];
    ToolSpec {
        title: "List tests",
        description: DESCRIPTION,
        input: json_schema::arguments(&input, &[]),
        output: json_schema::answer(&output, &["framework", "tests", "left_out"]),
        read_only: false,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let request = ListTestsRequest {
        framework: arguments.text("framework")?.unwrap_or_default(),
        filter: arguments.text("filter")?.unwrap_or_default(),
        limit: arguments.count("limit", LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT),
        ..ListTestsRequest::default()
    };
    let answer = call
        .with_progress(ProgressState::waiting("listing tests"), async |_| {
            call.request_in_session(|mut clients, session_id| {
                let request = ListTestsRequest { session_id, ..request.clone() };
                async move { Ok(clients.results.list_tests(request).await?.into_inner()) }
            })
            .await
        })
        .await?;
    let next = match example(&answer.tests) {
        Some(name) => format!("Next: run_tests {{\"tests\": {}}} runs exactly this test.", json!([name])),
        None if !answer.tests.is_empty() => "Next: run_tests with tests, a list of these names.".to_owned(),
        None => "Next: check filter and framework, or add a test.".to_owned(),
    };
    Ok(ToolAnswer { text: text::test_list(&answer), summary: vec![next], structured: structured(&answer) })
}

/// The first name that only one of the tests has and that is printed as it is.
fn example(tests: &[TestId]) -> Option<&str> {
    let is_only = |name: &str| tests.iter().filter(|test| test.name == name).nth(1).is_none();
    let mut names = tests.iter().map(|test| test.name.as_str()).filter(|name| line(name) == *name);
    names.find(|name| is_only(name))
}

fn structured(answer: &ListTestsResponse) -> Value {
    json!({
        "framework": answer.framework,
        "tests": tests(&answer.tests),
        "left_out": answer.left_out,
        "collectors": answer.collectors.iter().map(collector).collect::<Vec<_>>(),
    })
}

fn collector(collector: &Collector) -> Value {
    json!({
        "nodeid": collector.nodeid,
        "file": collector.file,
        "line": collector.line,
        "message": collector.message,
    })
}
