//! The tool `run_tests`: runs the workspace's tests.

use super::run_rendering;
use super::tool_spec::ToolSpec;
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, boolean, number, one_of, strings};
use crate::report_json;
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use proctor_proto::v1::{CoverageMode, RunTestsRequest};
use serde_json::json;

const DESCRIPTION: &str = "\
Run the workspace's tests in a sandbox and wait for the result. Call it after every edit, with tests or files while you \
work on one place and without them before you finish. The project type is detected. The first block is the runner's own \
output ending in `exit: N`; structuredContent has every failure with file, line, expected and actual value. Failing tests \
are a normal result, not an error; only the outcome `passed` is success (no tests at all is not).

Instead: last_test_failures reads the failures of the last run again without running anything; run_failing_tests reruns \
only what failed; list_tests only lists; get_run reads on in long output or waits for a run whose call was cut off. The \
same call again while its run is going on and nothing has changed joins that run instead of starting another.";

pub(super) fn spec() -> ToolSpec {
    let env = json!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Environment variables to add, as {\"NAME\": \"value\"}; at most 64. PATH, HOME, LD_* and \
                        variables that steer the toolchain are refused.",
    });
    let properties = [
        ("timeout", json_schema::timeout()),
        ("framework", json_schema::framework()),
        (
            "tests",
            strings(
                "Exactly these tests, by the names that list_tests and failures give, verbatim; no patterns. Not with \
                 filter, files or command.",
            ),
        ),
        ("filter", json_schema::filter()),
        (
            "files",
            strings(
                "Files relative to the workspace; only the tests of their packages run. Combine it with tests_covering \
                 to run what a file needs.",
            ),
        ),
        (
            "command",
            strings(
                "A command as a list of arguments that replaces the framework's own, for example [\"make\", \"check\"]. \
                 No shell. Its exit status decides; JUnit XML that it writes to $PROCTOR_JUNIT, or TAP on stdout, is \
                 read test by test. Not with framework, tests, filter, files or parallel.",
            ),
        ),
        (
            "coverage",
            one_of(
                &["auto", "off"],
                "auto (default) measures what tests_covering needs where the framework can; off is a little faster.",
            ),
        ),
        ("env", env),
        ("repeat", number("Times to run the selection. Only 1, the default, in this version.")),
        ("parallel", number("Tests at the same time within one package, 1 to 256. Default: the runner's own choice.")),
        ("headed", boolean("Show the browser's window. Only for frameworks that drive browsers.")),
        (
            "fresh",
            boolean(
                "Run with empty build caches, to check a verdict without what earlier runs have left. Slow: compiles everything.",
            ),
        ),
        ("browser", one_of(&["chromium", "firefox", "webkit"], "Only for frameworks that drive browsers.")),
        ("max_tokens", json_schema::max_tokens()),
    ];
    ToolSpec {
        title: "Run tests",
        description: DESCRIPTION,
        input: json_schema::arguments(&properties, &[]),
        output: report_json::schema(report_json::REQUIRED),
        read_only: false,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let coverage = match arguments.choice("coverage", &["auto", "off"], "auto or off")? {
        Some("off") => CoverageMode::Off,
        _ => CoverageMode::Auto,
    };
    let browsers = ["chromium", "firefox", "webkit"];
    let request = RunTestsRequest {
        framework: arguments.text("framework")?.unwrap_or_default(),
        tests: arguments.texts("tests")?,
        filter: arguments.text("filter")?.unwrap_or_default(),
        files: arguments.texts("files")?,
        command: arguments.texts("command")?,
        limits: run_rendering::limits(arguments)?,
        coverage: coverage.into(),
        env: arguments.variables("env")?,
        repeat: arguments.count("repeat", 1_000)?.unwrap_or_default(),
        parallel: arguments.count("parallel", 256)?.unwrap_or_default(),
        headed: arguments.flag("headed")?,
        fresh: arguments.flag("fresh")?,
        browser: arguments.choice("browser", &browsers, "chromium, firefox or webkit")?.unwrap_or_default().to_owned(),
        ..RunTestsRequest::default()
    };
    let max_tokens = run_rendering::max_tokens(arguments)?;
    run_rendering::run_and_render(call, max_tokens, |mut clients, session_id| {
        let request = RunTestsRequest { session_id, ..request.clone() };
        async move { Ok(clients.runs.run_tests(request).await?.into_inner()) }
    })
    .await
}
