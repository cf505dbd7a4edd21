//! Every failure of a run can be had: an agent that makes the next call of each answer reads the name and the place of each
//! failure once.

use crate::next_calls;
use proctor_tests::mcp_client::{Answer, Mcp};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Line of the first test in the generated file, and lines of each.
const FIRST_LINE: usize = 5;
const LINES: usize = 3;

fn go_suite(failing: usize) -> String {
    let test = |number| {
        format!("func TestCase{number}(t *testing.T) {{\n\tt.Errorf(\"case %d of many is wrong\", {number})\n}}\n")
    };
    "package many\n\nimport \"testing\"\n\n".to_owned() + &(0..failing).map(test).collect::<String>()
}

// `name at file:line` of each failure that the structured content has.
fn failures(answer: &Answer) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut failures = Vec::new();
    for failure in list(&answer.structured["failures"]) {
        let names = list(&failure["alike"]).into_iter().chain([failure["name"].clone()]);
        failures.extend(names.map(|name| format!("{} at {}", text(&name), text(&failure["at"]))));
    }
    for group in list(&answer.structured["named"]) {
        let (names, lines) = (list(&group["names"]), list(&group["lines"]));
        assert_eq!(names.len(), lines.len(), "{group}");
        let place = |line: &Value| format!("{}:{line}", text(&group["file"]));
        let named = names.iter().zip(&lines);
        failures
            .extend(named.map(|(name, line)| format!("{}/{} at {}", text(&group["package"]), text(name), place(line))));
    }
    failures
}

// The names and lines in the text, so that both halves are compared.
fn count_in_text(answer: &Answer) -> usize {
    answer.text.lines().filter(|line| line.contains("TestCase") && !line.contains("alike")).count()
        + answer
            .text
            .lines()
            .filter(|line| line.contains("alike: "))
            .map(|line| line.matches("TestCase").count())
            .sum::<usize>()
}

async fn read_all(failing: usize) {
    let workspace = TestWorkspace::with_fixture("go/many");
    workspace.write("many_test.go", &go_suite(failing));
    let mcp = Mcp::start(&workspace).await;
    let mut answer = mcp.call("run_tests", json!({})).await;
    let (mut read, mut pages) = (Vec::new(), 0);
    loop {
        let shown = failures(&answer);
        assert_eq!(count_in_text(&answer), shown.len(), "{}", answer.text);
        read.extend(shown);
        pages += 1;
        let Some((tool, arguments)) =
            next_calls::in_answer(&answer).into_iter().find(|(tool, _)| *tool == "last_test_failures")
        else {
            break;
        };
        answer = mcp.call(tool, arguments).await;
        assert!(!answer.is_error, "{answer:?}");
    }
    mcp.close().await;
    let expected: BTreeSet<String> = (0..failing)
        .map(|number| format!("example.com/many/TestCase{number} at many_test.go:{}", FIRST_LINE + 1 + LINES * number))
        .collect();
    assert_eq!(read.len(), failing, "each of them once, in {pages} pages");
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), expected);
    // 2,000 tokens name more than a hundred.
    assert!(pages <= failing / 100 + 1, "{pages} pages");
}

#[tokio::test]
async fn pages_have_each_of_300_failures_once() {
    read_all(300).await;
}

#[tokio::test]
async fn pages_have_each_of_1_200_failures_once() {
    read_all(1_200).await;
}
