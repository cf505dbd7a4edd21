//! The tool `last_test_failures`: the failures of the last run, without running anything.

use super::tool_spec::{ToolSpec, seconds};
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, boolean, number, object, objects, string};
use crate::report_json::{counts, tests};
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::{Failure, LastTestFailuresRequest, LastTestFailuresResponse, Outcome};
use serde_json::{Value, json};

/// Most failures that may be requested.
const LIMIT_MAX: u32 = 500;

/// Most tests listed in `not_run`.
const NOT_RUN_MAX: usize = 200;

const DESCRIPTION: &str = "\
The failures of the last run in this session, with file:line, message and the wanted and actual value, without running \
anything. Call it after a run_tests that did not pass, instead of reading its raw output. Build and collection errors \
are listed as failures too. Every run replaces the list; while a run is going on it still shows the one before.";

pub(super) fn spec() -> ToolSpec {
    let failure = [
        ("nodeid", string("The test or package in the runner's own form.")),
        ("package", string("What the framework runs as a unit; absent for a build or collection error.")),
        ("name", string("The test within it; absent for a build or collection error.")),
        ("kind", string("test, build or collection.")),
        ("file", string("Relative to the workspace.")),
        ("line", number("From 1.")),
        ("message", string("What the assertion or the compiler said.")),
        ("expected", string("The wanted value.")),
        ("actual", string("The value that came instead.")),
        ("stack", string("Innermost frame first.")),
        ("output", string("What the test printed.")),
    ];
    let output = [
        ("has_run", boolean("Whether a run has ended in this session; nothing else is there when it is false.")),
        ("run_id", string("For get_run.")),
        ("framework", string("The test framework.")),
        ("outcome", string("How the run ended; only passed is success.")),
        ("structured", boolean("Whether the runner gives results test by test.")),
        ("age_s", number("Seconds since the run ended.")),
        ("summary", object("Counts: total, passed, failed, skipped, xfailed, xpassed, error.")),
        ("failures", objects(&failure, "In the order they finished.")),
        ("total", number("All failures, also those beyond limit.")),
        ("running", json_schema::tests("Tests that were running when the run was cut off.")),
        (
            "not_run",
            json_schema::tests("Tests that were to run again and of which nothing came; they are still to be run."),
        ),
        ("not_run_left_out", number("How many more there are.")),
    ];
    ToolSpec {
        title: "Failures of the last run",
        description: DESCRIPTION,
        input: json_schema::arguments(
            &[("limit", number("Most failures listed. Default 50, more than 500 is 500."))],
            &[],
        ),
        output: json_schema::answer(&output, &["has_run"]),
        read_only: true,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let limit = arguments.count("limit", LIMIT_MAX)?.unwrap_or_default();
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = LastTestFailuresRequest { session_id, limit };
            async move { Ok(clients.results.last_test_failures(request).await?.into_inner()) }
        })
        .await?;
    let summary = next_hint(&answer).map(str::to_owned).into_iter().collect();
    Ok(ToolAnswer { text: text::failures(&answer, Reader::Agent), summary, structured: structured(&answer) })
}

fn next_hint(answer: &LastTestFailuresResponse) -> Option<&'static str> {
    match answer {
        answer if !answer.has_run => Some("Next: run_tests."),
        answer if answer.total > 0 || !answer.not_run.is_empty() => Some("Next: run_failing_tests after a fix."),
        answer if answer.outcome() == Outcome::Passed => None,
        _ => Some("Next: get_run without arguments shows the output of that run; run_tests starts a new one."),
    }
}

fn structured(answer: &LastTestFailuresResponse) -> Value {
    if !answer.has_run {
        return json!({"has_run": false});
    }
    json!({
        "has_run": true,
        "run_id": answer.run_id,
        "framework": answer.framework,
        "outcome": text::outcome_name(answer.outcome()),
        "structured": answer.structured,
        "age_s": seconds(answer.age_ms),
        "summary": counts(&answer.summary.unwrap_or_default()),
        "failures": answer.failures.iter().map(failure).collect::<Vec<_>>(),
        "total": answer.total,
        "running": tests(&answer.running),
        "not_run": tests(&answer.not_run[..answer.not_run.len().min(NOT_RUN_MAX)]),
        "not_run_left_out": answer.not_run.len().saturating_sub(NOT_RUN_MAX) as u64 + answer.not_run_left_out,
    })
}

fn failure(failure: &Failure) -> Value {
    let kind = match failure.collector() {
        proctor_proto::v1::CollectorKind::Unspecified => "test",
        proctor_proto::v1::CollectorKind::Build => "build",
        proctor_proto::v1::CollectorKind::Collection => "collection",
    };
    json!({
        "nodeid": failure.nodeid,
        "package": failure.test.as_ref().map(|test| &test.package),
        "name": failure.test.as_ref().map(|test| &test.name),
        "kind": kind,
        "file": failure.file,
        "line": failure.line,
        "message": failure.message,
        "expected": failure.expected,
        "actual": failure.actual,
        "stack": failure.stack,
        "output": failure.output,
    })
}
