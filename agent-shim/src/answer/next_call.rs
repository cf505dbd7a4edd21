//! Calls that an answer proposes, written so that they can be made as they stand: the name of a tool, then its arguments as
//! JSON.

use super::budget::MAX_TOKENS_MAX;
use crate::run_output::stream_name;
use crate::tools::TIMEOUT_S_MAX;
use proctor_proto::report_format::ReportFormat;
use proctor_proto::text;
use proctor_proto::v1::{Stream, TestId};
use serde_json::{Value, json};

/// Failures requested by a proposed call: as many as there can be, since the budget bounds the answer.
pub(crate) const FAILURES_LIMIT: u32 = 500;

/// A budget that holds any answer about a run that one wants to see whole.
const LARGE_MAX_TOKENS: u32 = 50_000;

/// Most tests named in a proposed call, and most bytes of their names.
const NAMES_MAX: usize = 10;
const NAME_BYTES_MAX: usize = 400;

/// Executions of a flaky test in a proposed call.
const REPETITIONS: u32 = 20;

const _: () = assert!(LARGE_MAX_TOKENS <= MAX_TOKENS_MAX);

fn call(tool: &str, arguments: &Value) -> String {
    format!("{tool} {arguments}")
}

/// The failures of the last run, which is `run_id`, without the first `cursor` ones.
pub(crate) fn failures_from(run_id: &str, cursor: usize) -> String {
    call("last_test_failures", &json!({"run_id": run_id, "cursor": cursor, "limit": FAILURES_LIMIT}))
}

/// The same answer about a run with a larger budget.
pub(crate) fn larger_answer(run_id: &str) -> String {
    call("get_run", &json!({"run_id": run_id, "max_tokens": LARGE_MAX_TOKENS}))
}

/// A page of the output of a run.
pub(crate) fn output_from(run_id: &str, stream: Stream, cursor: u64) -> String {
    call("get_run", &json!({"run_id": run_id, "stream": stream_name(stream), "cursor": cursor}))
}

/// The output of a run from its beginning.
pub(crate) fn output(run_id: &str, stream: Stream) -> String {
    call("get_run", &json!({"run_id": run_id, "stream": stream_name(stream)}))
}

/// The two calls about a run that has not ended.
pub(crate) fn unfinished(run_id: &str) -> String {
    let wait = call("get_run", &json!({"run_id": run_id, "wait_s": 45}));
    let kill = call("get_run", &json!({"run_id": run_id, "cancel": true}));
    format!("{wait} waits for the end; {kill} kills it")
}

/// The run of one test. `framework`: the one that its list was asked for; empty if it need not be named.
pub(crate) fn run_one_test(framework: &str, name: &str) -> String {
    match framework {
        "" => call("run_tests", &json!({"tests": [name]})),
        framework => call("run_tests", &json!({"framework": framework, "tests": [name]})),
    }
}

/// The report of the last run in a format, if any budget holds it.
pub(crate) fn report_document(format: ReportFormat, max_tokens: usize) -> Option<String> {
    let is_possible = u32::try_from(max_tokens).is_ok_and(|tokens| tokens <= MAX_TOKENS_MAX);
    is_possible.then(|| call("get_test_report", &json!({"format": format.name(), "max_tokens": max_tokens})))
}

/// A list of the report: `flaky`.
pub(crate) fn report_list(name: &str) -> String {
    call("get_test_report", &json!({"format": name}))
}

/// Enough executions of a test alone to tell a failure that happens at times.
pub(crate) fn repeat_test(test: &TestId) -> String {
    call("run_tests", &json!({"tests": [text::full_name(test)], "repeat": REPETITIONS}))
}

/// A check of these files, by the tool of its kind.
pub(crate) fn check_files(tool: &str, files: &[&str]) -> String {
    call(tool, &json!({"files": files}))
}

/// A file that the last run left.
pub(crate) fn artifact(name: &str) -> String {
    call("get_test_report", &json!({"artifact": name}))
}

/// A run with twice the time, where that is allowed.
pub(crate) fn run_with_more_time(wall_ms: u64) -> String {
    let less = "tests or files run less";
    match wall_ms.saturating_mul(2) / 1_000 {
        seconds if seconds == 0 || wall_ms >= u64::from(TIMEOUT_S_MAX) * 1_000 => format!("run_tests with {less}"),
        seconds => {
            let again = call("run_tests", &json!({"timeout": seconds.min(TIMEOUT_S_MAX.into())}));
            format!("{again}, with the other arguments of this run, allows more time; {less}")
        }
    }
}

/// A run of these tests, if naming them costs little. A name alone would select the tests of other packages too.
pub(crate) fn run_these_tests(tests: &[TestId]) -> Option<String> {
    if tests.len() > NAMES_MAX {
        return None;
    }
    let names: Vec<String> = tests.iter().map(text::full_name).collect();
    let bytes: usize = names.iter().map(String::len).sum();
    (bytes <= NAME_BYTES_MAX).then(|| call("run_tests", &json!({"tests": names})))
}
