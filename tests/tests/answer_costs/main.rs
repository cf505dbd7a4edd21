//! What an answer costs an agent: tokens (characters / 4) of text and structured content together, for suites of 500 tests
//! that pass, of which one or 300 fail, or that do not build. `costs.txt` has the measured figures; a figure that grows by a
//! tenth fails, and so does one above its target. What an answer leaves out can be had by the calls that it proposes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod checks;
mod failure_pages;
mod next_calls;
mod next_calls_work;
mod suites;

use proctor_tests::mcp_client::{Answer, Mcp};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use suites::{Case, Framework};

/// The most tokens that each case may cost.
const TARGETS: [(Case, usize); 4] =
    [(Case::Passed, 150), (Case::OneFailed, 400), (Case::NotBuilt, 500), (Case::ManyFailed, 2_000)];

/// A line per framework, with a column per case in the order of [`TARGETS`].
const COSTS: &str = include_str!("costs.txt");

fn tokens(answer: &Answer) -> usize {
    let texts = [&answer.text, &answer.hint];
    let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
    (characters + answer.structured.to_string().chars().count()).div_ceil(4)
}

fn recorded(framework: &str) -> Vec<usize> {
    let line = COSTS.lines().skip(1).find_map(|line| line.strip_prefix(&format!("{framework} ")));
    line.unwrap_or_default().split_whitespace().filter_map(|cell| cell.parse().ok()).collect()
}

async fn measure(framework: Framework) {
    let mut measured = Vec::new();
    for (case, _) in TARGETS {
        // A workspace for each case: a build or a cache of one must not explain another.
        let workspace = TestWorkspace::with_fixture(&format!("{}/many", framework.name()));
        for (file, content) in framework.suite(case) {
            workspace.write(file, &content);
        }
        let mcp = Mcp::start(&workspace).await;
        let answer = mcp.call("run_tests", json!({})).await;
        check_facts(case, &answer);
        measured.push(tokens(&answer));
        mcp.close().await;
    }
    let line: Vec<String> = measured.iter().map(usize::to_string).collect();
    let line = format!("{} {}", framework.name(), line.join(" "));
    for ((case, target), tokens) in TARGETS.iter().zip(&measured) {
        assert!(tokens <= target, "{case:?} may cost {target} tokens; measured: {line}");
    }
    let recorded = recorded(framework.name());
    let has_grown = |(tokens, recorded): (&usize, &usize)| tokens * 10 > recorded * 11;
    assert!(
        recorded.len() == measured.len() && !measured.iter().zip(&recorded).any(has_grown),
        "costs.txt has {recorded:?}; measured: {line}"
    );
}

// A small answer that says too little would be cheap as well.
fn check_facts(case: Case, answer: &Answer) {
    assert!(!answer.is_error, "{answer:?}");
    let (text, data) = (&answer.text, &answer.structured);
    let first = &data["failures"][0];
    match case {
        Case::Passed => assert!(text.starts_with("passed: 500 tests ("), "{text}"),
        Case::OneFailed => {
            assert!(text.starts_with("failed: 1 of 500 ("), "{text}");
            assert!(explains(first, "77"), "{data}");
            assert!(first["at"].is_string() && first["name"].as_str().unwrap().contains("77"), "{data}");
        }
        Case::NotBuilt => {
            let outcome = data["outcome"].as_str().unwrap();
            assert!(["build_failed", "collection_failed"].contains(&outcome), "{data}");
            assert!(first["at"].is_string() && first["message"].is_string(), "{data}");
        }
        Case::ManyFailed => {
            assert!(text.starts_with("failed: 300 of 500 ("), "{text}");
            assert!(explains(first, ""), "{data}");
        }
    }
}

// Jest makes the message of an assertion anew from its values.
fn explains(failure: &Value, case: &str) -> bool {
    let message = failure["message"].as_str().unwrap();
    message.contains(&format!("total of case {case}")) || message.contains("toBe") && failure["expected"].is_string()
}

macro_rules! frameworks {
    ($($name:ident $framework:ident)*) => { $(#[tokio::test] async fn $name() { measure(Framework::$framework).await; })* };
}

frameworks! {
    cargo Cargo
    go Go
    jest Jest
    mocha Mocha
    node Node
    pytest Pytest
    unittest Unittest
    vitest Vitest
}
