//! Calls that run linters and type checkers: arguments, text and structured content.

use crate::client::{Client, block, structured};
use crate::fake_supervisor::{FakeState, FakeSupervisor, RUN_ID};
use crate::runs::failed;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::*;
use serde_json::json;

fn finding(line: u32) -> Finding {
    Finding {
        checker: "ruff".into(),
        kind: CheckKind::Lint.into(),
        rule: "F401".into(),
        severity: Severity::Error.into(),
        file: "a.py".into(),
        range: Some(Range { line, column: 8, ..Range::default() }),
        message: "`os` imported but unused".into(),
        fix: Some(Fix { description: "Remove it".into(), is_safe: true, ..Fix::default() }),
        new: line == 1,
        ..Finding::default()
    }
}

fn checked(check: CheckReport, outcome: Outcome) -> FakeState {
    let report = Report {
        outcome: outcome.into(),
        exit_code: if outcome == Outcome::Failed { 1 } else { 3 },
        framework: "ruff".into(),
        duration_s: 0.26,
        check: Some(check),
        ..Report::default()
    };
    FakeState { report, events: vec![Event::Queued(Queued::default())], ..failed() }
}

fn status(state: CheckerState, reason: &str) -> CheckerStatus {
    let (checker, kind) = ("ruff".to_owned(), CheckKind::Lint.into());
    CheckerStatus { checker, kind, state: state.into(), reason: reason.into(), ..CheckerStatus::default() }
}

#[tokio::test]
async fn a_check_is_a_small_answer_in_text_and_in_data() {
    let check = CheckReport {
        findings: vec![finding(1), finding(2)],
        errors: 2,
        elsewhere: 3,
        since: "commit ab".into(),
        checkers: vec![status(CheckerState::Complete, "")],
        comparison: Some(CheckComparison { new: 1, fixed: 2, ..CheckComparison::default() }),
        ..CheckReport::default()
    };
    let fake = FakeSupervisor::start(checked(check, Outcome::Failed));
    let client = Client::connected_to(&fake).await;
    let result = client.call("run_lint", json!({"files": ["a.py"], "since": "main", "checkers": ["ruff"]})).await;
    let request = fake.state().run_checks[0].clone();
    assert_eq!(
        (request.kinds, request.files, request.since, request.checkers),
        (vec![i32::from(CheckKind::Lint)], vec!["a.py".to_owned()], "main".to_owned(), vec!["ruff".to_owned()])
    );
    let text = "failed: 2 errors in 1 changed file (ruff, 0.3s); 1 new, 2 fixed\n\
                a.py:1:8: error F401 `os` imported but unused [ruff] (new)\n   fix: Remove it\n\
                a.py:2:8: error F401 `os` imported but unused [ruff]\n   fix: Remove it\n\
                note: 3 findings in files that did not change since commit ab left out\n\
                next: run_lint {\"files\":[\"a.py\"]} after a fix\nexit: 1\n";
    assert_eq!(block(&result, 0), text);
    let data = structured(&client, "run_lint", &result).await;
    let one = json!({
        "at": "a.py:1:8", "severity": "error", "rule": "F401", "message": "`os` imported but unused", "checker": "ruff",
        "fix": "Remove it", "new": true,
    });
    assert_eq!((&data["outcome"], &data["findings"][0], &data["run_id"]), (&json!("failed"), &one, &json!(RUN_ID)));
    let later = client.call("get_run", json!({"run_id": RUN_ID})).await;
    assert_eq!(block(&later, 0), text, "get_run answers as the tool did");
}

#[tokio::test]
async fn a_checker_without_a_verdict_is_named_with_its_reason() {
    let check = CheckReport {
        checkers: vec![status(CheckerState::Failed, "it exited with 2: unknown key\nin ruff.toml")],
        ..CheckReport::default()
    };
    let fake = FakeSupervisor::start(checked(check, Outcome::CollectionFailed));
    let client = Client::connected_to(&fake).await;
    let result = client.call("run_typecheck", json!({})).await;
    assert_eq!(fake.state().run_checks[0].kinds, [i32::from(CheckKind::Typecheck)]);
    let reason = "ruff gave no verdict: it exited with 2: unknown key\nin ruff.toml";
    let text = format!(
        "collection_failed: no complete verdict of ruff (ruff, 0.3s)\n{reason}\n\
         next: run_lint once that is mended\nexit: 3\n"
    );
    assert_eq!(block(&result, 0), text);
    let data = structured(&client, "run_typecheck", &result).await;
    assert_eq!((&data["no_verdict"], &data["findings"]), (&json!([reason]), &json!(null)));
}

#[tokio::test]
async fn findings_beyond_the_budget_are_counted() {
    let findings: Vec<Finding> = (1..=500).map(finding).collect();
    let check = CheckReport {
        findings,
        errors: 500,
        checkers: vec![status(CheckerState::Complete, "")],
        ..CheckReport::default()
    };
    let fake = FakeSupervisor::start(checked(check, Outcome::Failed));
    let client = Client::connected_to(&fake).await;
    for max_tokens in [100, 400, 2_000] {
        let result = client.call("run_lint", json!({"max_tokens": max_tokens})).await;
        let data = structured(&client, "run_lint", &result).await;
        let shown = data["findings"].as_array().unwrap().len();
        assert_eq!(data["left_out"], json!(500 - shown));
        assert_eq!(block(&result, 0).matches(": error F401 ").count(), shown, "both halves show the same");
        let bytes = block(&result, 0).len() + data.to_string().len();
        assert!(bytes <= max_tokens * 4 || shown == 1, "{bytes} bytes for {max_tokens} tokens");
    }
}
