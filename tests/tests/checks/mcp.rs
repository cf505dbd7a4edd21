//! `run_lint` and `run_typecheck`.

use crate::{UNUSED_IMPORT, program};
use proctor_proto::reason;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::{Value, json};

async fn start(workspace: &TestWorkspace) -> Mcp {
    Mcp::start_with(&mut program(workspace, "proctor-mcp"), workspace).await
}

#[tokio::test]
async fn text_and_structured_content_have_the_same_findings() {
    let workspace = TestWorkspace::with_fixture("checks/ruff/findings");
    let mcp = start(&workspace).await;
    let answer = mcp.call("run_lint", json!({})).await;
    assert!(!answer.is_error, "{answer:?}");
    assert_eq!(answer.structured["outcome"], "failed", "{answer:?}");
    assert_eq!(answer.text.lines().next(), answer.structured["headline"].as_str());
    assert!(answer.text.ends_with("\nexit: 1\n"), "{answer:?}");
    let findings = answer.structured["findings"].as_array().unwrap();
    assert!(findings.len() > 2, "{answer:?}");
    for finding in findings {
        let [at, severity, rule, checker] = ["at", "severity", "rule", "checker"].map(|name| finding[name].as_str());
        let line = format!("{}: {} {} ", at.unwrap(), severity.unwrap(), rule.unwrap_or_default()).replace("  ", " ");
        assert!(answer.text.contains(&line) && checker == Some("ruff"), "{line}: {answer:?}");
        if let Some(fix) = finding["fix"].as_str() {
            assert!(answer.text.contains(&format!("fix: {fix}")), "{fix}: {answer:?}");
        }
    }
    let first = "app/totals.py:1:8: error F401 `os` imported but unused [ruff]\n   fix: Remove unused import: `os`\n";
    assert!(answer.text.contains(first), "{answer:?}");
    let next = answer.structured["next"].as_str().unwrap();
    let again = next.strip_prefix("run_lint ").and_then(|next| next.strip_suffix(" after a fix")).unwrap();
    let again = mcp.call("run_lint", serde_json::from_str::<Value>(again).unwrap()).await;
    assert_eq!(again.structured["findings"], answer.structured["findings"]);
    // A smaller answer says what it left out.
    let small = mcp.call("run_lint", json!({"max_tokens": 120})).await;
    let shown = small.structured["findings"].as_array().unwrap().len();
    assert_eq!(small.structured["left_out"], json!(findings.len() - shown), "{small:?}");
    assert!(small.text.contains("findings not shown: pass a larger max_tokens"), "{small:?}");
    let run_id = answer.structured["run_id"].as_str().unwrap();
    let later = mcp.call("get_run", json!({"run_id": run_id})).await;
    assert_eq!(later.structured["findings"], answer.structured["findings"], "{later:?}");
    assert_eq!(mcp.call("last_test_failures", json!({})).await.structured["nothing_ran"], reason::NO_RUN_YET);
    mcp.close().await;
}

#[tokio::test]
async fn an_edit_shows_what_is_new_and_what_is_fixed() {
    let workspace = TestWorkspace::empty();
    workspace.write("ruff.toml", "");
    workspace.write("a.py", UNUSED_IMPORT);
    let mcp = start(&workspace).await;
    assert_eq!(mcp.call("run_lint", json!({})).await.structured["outcome"], "failed");
    workspace.write("a.py", "import json\n");
    let second = mcp.call("run_lint", json!({})).await;
    assert!(second.text.lines().next().unwrap().ends_with("; 1 new, 1 fixed"), "{second:?}");
    assert!(second.text.contains("[ruff] (new)\n") && second.structured["findings"][0]["new"] == true, "{second:?}");
    workspace.write("a.py", "");
    let third = mcp.call("run_lint", json!({"files": ["a.py"]})).await;
    assert!(third.text.starts_with("passed: no findings (ruff, "), "{third:?}");
    assert_eq!((&third.structured["outcome"], &third.structured["findings"]), (&json!("passed"), &json!(null)));
    mcp.close().await;
}

#[tokio::test]
async fn type_checkers_have_their_own_tool() {
    let workspace = TestWorkspace::with_fixture("checks/mypy/findings");
    let mcp = start(&workspace).await;
    let types = mcp.call("run_typecheck", json!({})).await;
    assert_eq!((types.is_error, &types.structured["outcome"]), (false, &json!("failed")), "{types:?}");
    assert!(types.text.contains("shop/totals.py:") && types.text.contains("[mypy]"), "{types:?}");
    let next = types.structured["next"].as_str().unwrap();
    assert!(next.starts_with("run_typecheck {\"files\":["), "{next}");
    let lint = mcp.call("run_lint", json!({})).await;
    assert!(lint.is_error && lint.text.starts_with("no checker is set up in the workspace ("), "{lint:?}");
    mcp.close().await;
}

#[tokio::test]
async fn a_checker_without_a_verdict_is_named_and_nothing_to_check_is_an_answer() {
    let workspace = TestWorkspace::with_fixture("checks/ruff/broken");
    let mcp = start(&workspace).await;
    let broken = mcp.call("run_lint", json!({})).await;
    assert_eq!((broken.is_error, &broken.structured["outcome"]), (false, &json!("collection_failed")), "{broken:?}");
    let why = broken.structured["no_verdict"][0].as_str().unwrap();
    assert!(why.starts_with("ruff gave no verdict: ") && broken.text.contains(why), "{broken:?}");
    assert!(!broken.text.contains("no findings"), "{broken:?}");
    mcp.close().await;

    let workspace = TestWorkspace::with_fixture("go/pass");
    let mcp = start(&workspace).await;
    let none = mcp.call("run_typecheck", json!({"checkers": ["ruff"]})).await;
    assert!(none.is_error && none.text.contains("ruff is no typecheck checker"), "{none:?}");
    mcp.call("run_tests", json!({})).await;
    let nothing = mcp.call("run_lint", json!({"checkers": ["go-vet"], "since": "last_run"})).await;
    assert_eq!((nothing.is_error, &nothing.structured["nothing_ran"]), (false, &json!(reason::NOTHING_AFFECTED)));
    assert!(nothing.text.starts_with("no file that is checked changed since the last run"), "{nothing:?}");
    mcp.close().await;
}
