//! The tool `run_tests`: runs the workspace's tests.

use super::Answer;
use super::run_rendering::{self, RunView};
use super::tool_spec::ToolSpec;
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, boolean, number, one_of, strings};
use proctor_proto::v1::{CoverageMode, RunTestsRequest};
use serde_json::json;

const DESCRIPTION: &str = "\
Run the workspace's tests in a sandbox. Call it after every edit: with tests, files or filter while you work on one \
place, without them before you finish. Answers with the outcome and each failure: name, file:line, message, expected \
and actual value. Failing tests are no error; only the outcome passed is success (no tests at all is not). The same \
call, while its run goes on and nothing has changed, joins that run.";

pub(super) fn spec() -> ToolSpec {
    let env = json!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Environment variables, {\"NAME\": \"value\"}, at most 64; not PATH, HOME, LD_* or what steers the \
                        toolchain.",
    });
    let input = vec![
        ("timeout", json_schema::timeout()),
        ("framework", json_schema::framework()),
        (
            "tests",
            strings(
                "Exactly these tests, by the names of list_tests and failures; no patterns. Not with filter, files or \
                 command.",
            ),
        ),
        ("filter", json_schema::filter()),
        ("files", strings("Files relative to the workspace; only the tests of their packages run.")),
        (
            "command",
            strings(
                "A command (list of arguments, no shell) in place of the framework's. Its exit status decides; JUnit XML in \
                 $PROCTOR_JUNIT, or TAP on stdout, is read test by test.",
            ),
        ),
        ("raw", json_schema::raw()),
        ("verbose", json_schema::verbose()),
        ("coverage", one_of(&["auto", "on", "off"], "auto (default) measures what tests_covering needs.")),
        ("env", env),
        ("repeat", number("Execute the tests this many times: finds flaky ones.")),
        ("parallel", number("Tests at the same time within one package, 1 to 256.")),
        ("headed", boolean("Show the browser's window.")),
        ("fresh", boolean("Empty build caches: compiles everything.")),
        ("browser", one_of(&["chromium", "firefox", "webkit"], "Only for frameworks that drive browsers.")),
    ];
    ToolSpec {
        title: "Run tests",
        description: DESCRIPTION,
        input,
        required: &[],
        output: Some(json_schema::run()),
        read_only: false,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let coverage = match arguments.choice("coverage", &["auto", "on", "off"], "auto, on or off")? {
        Some("on") => CoverageMode::On,
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
    let view = RunView::from_arguments(call, arguments)?;
    run_rendering::run_and_render(call, view, |mut clients, session_id| {
        let request = RunTestsRequest { session_id, ..request.clone() };
        async move { Ok(clients.runs.run_tests(request).await?.into_inner()) }
    })
    .await
}
