//! The tool `tests_covering`: the tests that execute a file or a line.

use super::tool_spec::ToolSpec;
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, boolean, number, string};
use crate::report_json::tests;
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::{Attribution, TestsCoveringRequest, TestsCoveringResponse};
use serde_json::{Value, json};
use std::path::Path;

const DESCRIPTION: &str = "\
Which tests execute a file, or one line of it, as the runs of this session have measured. Call it before you change code, \
to know what guards it, or after, to run only what matters: pass the packages' files or a filter to run_tests. Needs a \
run_tests before it, of Go tests: nothing else is measured in this version. It runs nothing itself and reads no source.";

pub(super) fn spec() -> ToolSpec {
    let input = [
        ("file", string("Source file, relative to the workspace: internal/tools/read.go. Required.")),
        ("line", number("Line from 1. Leave it out for any line of the file.")),
    ];
    let output = [
        ("has_coverage", boolean("Whether a run of this session has measured coverage.")),
        ("file", string("The file asked for.")),
        ("line", number("The line asked for.")),
        ("tests", json_schema::tests("At most 200, by package and name.")),
        ("total", number("All covering tests.")),
        ("attribution", string("test: the test itself executes it; file or package: some test of the same one does.")),
        ("file_changed", boolean("Whether the file has changed since it was measured, so that lines may have moved.")),
    ];
    ToolSpec {
        title: "Tests that execute a file or line",
        description: DESCRIPTION,
        input: json_schema::arguments(&input, &["file"]),
        output: json_schema::answer(&output, &["has_coverage", "file", "tests", "total"]),
        read_only: true,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let file = relative(&arguments.required_text("file")?, call.session().workspace());
    let line = arguments.count("line", u32::MAX)?;
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = TestsCoveringRequest { session_id, file: file.clone(), line, limit: 0 };
            async move { Ok(clients.results.tests_covering(request).await?.into_inner()) }
        })
        .await?;
    let summary = next_hint(&answer).map(str::to_owned).into_iter().collect();
    let text = text::covering(&answer, &file, line, Reader::Agent);
    Ok(ToolAnswer { text, summary, structured: structured(&answer, &file, line) })
}

// Agents often pass an absolute path; the supervisor takes relative ones and validates everything else.
fn relative(file: &str, workspace: &Path) -> String {
    let file = file.trim();
    let inside = Path::new(file).strip_prefix(workspace).ok().and_then(Path::to_str);
    inside.unwrap_or(file).trim_start_matches("./").to_owned()
}

fn next_hint(answer: &TestsCoveringResponse) -> Option<&'static str> {
    match answer {
        answer if !answer.has_coverage => Some(
            "Coverage is measured for Go only in this version: runs of anything else bring none. Next, for Go: run_tests, with \
             coverage not off.",
        ),
        answer if answer.tests.is_empty() => {
            Some("No test of the runs so far executes it; a run without a filter may know more.")
        }
        answer if answer.file_changed => Some("Next: run_tests measures the changed file anew."),
        _ => Some("Next: run_tests with a filter that names these tests."),
    }
}

fn structured(answer: &TestsCoveringResponse, file: &str, line: Option<u32>) -> Value {
    let attribution = match answer.attribution() {
        Attribution::Unspecified => None,
        Attribution::Test => Some("test"),
        Attribution::File => Some("file"),
        Attribution::Package => Some("package"),
    };
    json!({
        "has_coverage": answer.has_coverage,
        "file": file,
        "line": line,
        "tests": tests(&answer.tests),
        "total": answer.total,
        "attribution": attribution,
        "file_changed": answer.file_changed,
    })
}

#[cfg(test)]
mod path_tests {
    use super::*;

    #[test]
    fn accepts_an_absolute_path_inside_the_workspace() {
        let workspace = Path::new("/w/shop");
        for (given, file) in [
            ("/w/shop/a/b.go", "a/b.go"),
            ("./a/b.go", "a/b.go"),
            (" a/b.go ", "a/b.go"),
            ("/w/shopping/b.go", "/w/shopping/b.go"),
            ("../b.go", "../b.go"),
        ] {
            assert_eq!(relative(given, workspace), file);
        }
    }
}
