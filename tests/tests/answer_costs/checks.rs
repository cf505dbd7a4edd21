//! What the answers of `run_lint` and `run_typecheck` cost: of a project without findings, with one, and with 500.

use crate::{recorded, tokens};
use proctor_tests::mcp_client::{Answer, Mcp};
use proctor_tests::process::{ensure_installed, search_path, tools};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The most tokens that the answers about no finding, one and 500 may cost.
const TARGETS: [usize; 3] = [120, 250, 2_000];

/// A module with this many findings of the checker.
fn module(checker: &str, findings: usize) -> String {
    let mut text = String::new();
    for number in 0..findings {
        let _ = match checker {
            "ruff" => writeln!(text, "import module_{number}"),
            _ => writeln!(text, "value_{number}: int = \"text\""),
        };
    }
    text
}

async fn measure(tool: &'static str, checker: &str, settings: (&str, &str)) {
    ensure_installed("checkers");
    let mut measured = Vec::new();
    for findings in [0, 1, 500] {
        let workspace = TestWorkspace::empty();
        workspace.write(settings.0, settings.1);
        workspace.write("shop/totals.py", &module(checker, findings));
        let mut shim = workspace.command("proctor-mcp");
        let ours = search_path();
        let path = std::env::split_paths(&ours).chain([tools().join("checkers/bin")]);
        shim.env("PATH", std::env::join_paths(path).unwrap());
        let mcp = Mcp::start_with(&mut shim, &workspace).await;
        let answer = mcp.call(tool, json!({})).await;
        check_facts(findings, &answer);
        measured.push(tokens(&answer));
        mcp.close().await;
    }
    let line = format!("{tool} {} {} {}", measured[0], measured[1], measured[2]);
    for (target, tokens) in TARGETS.iter().zip(&measured) {
        assert!(tokens <= target, "an answer may cost {target} tokens; measured: {line}");
    }
    let recorded = recorded(tool);
    let has_grown = |(tokens, recorded): (&usize, &usize)| tokens * 10 > recorded * 11;
    assert!(
        recorded.len() == measured.len() && !measured.iter().zip(&recorded).any(has_grown),
        "costs.txt has {recorded:?}; measured: {line}"
    );
}

// A small answer that says too little would be cheap as well.
fn check_facts(findings: usize, answer: &Answer) {
    let (text, data) = (&answer.text, &answer.structured);
    assert!(!answer.is_error, "{answer:?}");
    match findings {
        0 => assert!(text.starts_with("passed: no findings ("), "{text}"),
        _ => {
            assert!(text.starts_with(&format!("failed: {findings} error")), "{text}");
            let first = &data["findings"][0];
            assert_eq!(first["at"].as_str().map(|at| at.starts_with("shop/totals.py:1:")), Some(true), "{data}");
            assert!(first["rule"].is_string() && first["message"].is_string(), "{data}");
        }
    }
    let shown = data["findings"].as_array().map_or(0, Vec::len);
    assert_eq!(data["left_out"].as_u64().unwrap_or_default(), (findings - shown) as u64, "{data}");
    assert!(data["findings"] == Value::Null || shown >= findings.min(20), "{shown} of {findings} are shown");
}

#[tokio::test]
async fn run_lint() {
    measure("run_lint", "ruff", ("ruff.toml", "")).await;
}

#[tokio::test]
async fn run_typecheck() {
    measure("run_typecheck", "mypy", ("mypy.ini", "[mypy]\n")).await;
}
