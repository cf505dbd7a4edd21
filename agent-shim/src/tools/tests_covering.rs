//! The tool `tests_covering`: the tests that execute a file, a line or a function.

use super::Answer;
use super::tool_spec::ToolSpec;
use crate::answer::budget::{Detail, Draw};
use crate::answer::{ToolAnswer, by_package, next_call as calls};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, boolean, number, plain, string};
use proctor_proto::text::{self, Reader};
use proctor_proto::v1::{Attribution, LineRange, TestsCoveringRequest, TestsCoveringResponse};
use std::path::Path;

const DESCRIPTION: &str = "\
The tests that execute a file, line or function, as measured (Go, Python, Rust, JavaScript). Call it before you \
change code, to see what guards it, or after: run_tests with these names runs only them. Needs a run_tests. Runs nothing.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Tests that execute code",
        description: DESCRIPTION,
        input: vec![
            ("file", string("Relative to the workspace.")),
            ("line", number("From 1")),
            ("function", string("Instead of line: Cart.total")),
        ],
        required: &["file"],
        output: Some(vec![
            ("tests", json_schema::tests()),
            ("total", plain("number")),
            ("attribution", string("test, or coarser: file, package")),
            ("file_changed", boolean("since it was measured")),
            ("not_executed", string("of the function")),
        ]),
        read_only: true,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let file = relative(&arguments.required_text("file")?, call.session().workspace());
    let line = arguments.count("line", u32::MAX)?;
    let function = arguments.text("function")?.unwrap_or_default();
    let mut answer = call
        .request_in_session(|mut clients, session_id| {
            let (file, function) = (file.clone(), function.clone());
            let request = TestsCoveringRequest { session_id, file, line, limit: 0, last_line: None, function };
            async move { Ok(clients.results.tests_covering(request).await?.into_inner()) }
        })
        .await?;
    // A supervisor of an earlier version does not repeat the line.
    answer.range = answer.range.or(line.map(|line| LineRange { first_line: line, last_line: line }));
    let is_missing = !call.session().workspace().join(&file).exists();
    Ok(Box::new(CoveringTests { answer, file, is_missing }))
}

/// The tests that execute `file`, or some lines of it.
struct CoveringTests {
    answer: TestsCoveringResponse,
    file: String,
    /// Whether the workspace has no such file.
    is_missing: bool,
}

impl Draw for CoveringTests {
    fn items(&self) -> usize {
        self.answer.tests.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let CoveringTests { answer, file, is_missing } = self;
        let tests = answer.tests.iter().take(detail.items).cloned().collect();
        let shown = TestsCoveringResponse { tests, ..answer.clone() };
        let text = text::covering(&shown, file, Reader::Agent);
        let mut members = vec![
            ("tests", by_package(&shown.tests)),
            ("total", answer.total.into()),
            ("attribution", attribution(answer).into()),
            ("file_changed", answer.file_changed.into()),
        ];
        if answer.executable_lines.is_some() && answer.range.is_some_and(|range| range.first_line < range.last_line) {
            let ranges: Vec<String> = answer.not_executed.iter().map(text::range_text).collect();
            members.push(("not_executed", ranges.join(",").into()));
        }
        let missing = format!("{file} is not in the workspace: the path is relative to its root");
        let notes = is_missing.then_some(missing);
        ToolAnswer::with_own_headline(text, members).with_notes(notes).with_next(next_call(answer))
    }
}

// Agents often pass an absolute path; the supervisor takes relative ones and validates everything else.
fn relative(file: &str, workspace: &Path) -> String {
    let file = file.trim();
    let inside = Path::new(file).strip_prefix(workspace).ok().and_then(Path::to_str);
    inside.unwrap_or(file).trim_start_matches("./").to_owned()
}

fn next_call(answer: &TestsCoveringResponse) -> String {
    let fixed = match answer {
        answer if !answer.has_coverage => {
            "run_tests, with coverage not off; in this version coverage is measured for Go, Python, Rust, Jest, Vitest, Mocha and Node only"
        }
        answer if answer.tests.is_empty() => "run_tests without a filter may know more",
        answer if answer.file_changed => "run_tests measures the changed file anew",
        _ => match calls::run_these_tests(&answer.tests) {
            Some(these) => return format!("{these} runs these tests"),
            None => "run_tests with tests, a list of these names",
        },
    };
    fixed.to_owned()
}

fn attribution(answer: &TestsCoveringResponse) -> Option<&'static str> {
    match answer.attribution() {
        Attribution::Unspecified => None,
        Attribution::Test => Some("test"),
        Attribution::File => Some("file"),
        Attribution::Package => Some("package"),
    }
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
