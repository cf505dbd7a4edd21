//! The calls that an answer proposes: names of tools, each followed by its arguments as JSON unless it needs none.

use proctor_tests::mcp_client::Answer;
use serde_json::{Value, json};

const TOOLS: [&str; 11] = [
    "run_tests",
    "run_failing_tests",
    "run_affected_tests",
    "run_lint",
    "run_typecheck",
    "last_test_failures",
    "analyze_failures",
    "tests_covering",
    "list_tests",
    "get_run",
    "get_test_report",
];

/// The proposed calls in the order of the answer.
pub(crate) fn in_answer(answer: &Answer) -> Vec<(&'static str, Value)> {
    in_text(answer.structured["next"].as_str().unwrap_or_default())
}

/// The calls that a text proposes.
pub(crate) fn in_text(text: &str) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for (at, _) in text.char_indices() {
        let is_start = !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let named = TOOLS.iter().find(|tool| {
            let rest = text[at..].strip_prefix(**tool);
            rest.is_some_and(|rest| !rest.starts_with(|after: char| after.is_alphanumeric() || after == '_'))
        });
        let Some(tool) = named.filter(|_| is_start) else { continue };
        let rest = text[at + tool.len()..].trim_start();
        let arguments = match rest.starts_with('{') {
            true => serde_json::Deserializer::from_str(rest).into_iter().next().unwrap().unwrap(),
            false => json!({}),
        };
        calls.push((*tool, arguments));
    }
    calls
}
