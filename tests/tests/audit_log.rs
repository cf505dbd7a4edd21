//! The audit log of a real supervisor: callers, actions, limits and outcomes, and no secrets in it, in the supervisor's log
//! or in reports.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

use nix::sys::signal::Signal;
use proctor_proto::v1;
use proctor_tests::grpc_client::Client;
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use serde_json::{Value, json};
use std::fs;
use tokio::task::JoinSet;

fn lines(text: &str) -> Vec<Value> {
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(lines: &[Value], event: &str) -> Vec<Value> {
    lines.iter().filter(|line| line["event"] == event).cloned().collect()
}

#[tokio::test]
async fn records_every_action_and_redacts_secrets() {
    let mut supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.empty_workspace("alpha", "shop");
    let session = alpha.open_session(&workspace).await;
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let script = format!("printf 'TAP version 13\\n1..1\\nnot ok 1 - says {secret}\\n'; echo {secret} >&2; exit 1");
    let request = v1::RunTestsRequest {
        session_id: session.clone(),
        command: ["/bin/sh", "-c", &script].map(str::to_owned).to_vec(),
        limits: Some(v1::Limits { wall_ms: 20_000, ..Default::default() }),
        ..Default::default()
    };
    let run = alpha.start(request).await.unwrap().read_to_end().await;
    // The stored output keeps the secret; what the report shows of it is redacted.
    assert_eq!(run.output(v1::Stream::Stderr), format!("{secret}\n").into_bytes());
    let report = run.report();
    assert!(report.stderr_tail.contains("[redacted: github]"), "{:?}", report.stderr_tail);
    assert!(!report.stdout_tail.contains(&secret) && !report.stderr_tail.contains(&secret));
    let document = v1::GetReportRequest { session_id: session.clone(), ..Default::default() };
    alpha.results.clone().get_report(document).await.unwrap();
    let theirs = v1::GetRunRequest { run_id: run.run_id.clone(), wait_ms: 0 };
    beta.runs.clone().get_run(theirs).await.unwrap_err();
    let stranger = supervisor.client("stranger").await;
    let list = v1::ListSessionsRequest::default();
    stranger.sessions.clone().list_sessions(list).await.unwrap_err();
    let guess = Client::tcp(supervisor.address, Some(&secret)).await;
    guess.host.clone().get_host(v1::GetHostRequest {}).await.unwrap_err();
    _ = supervisor.client("operator").await.host.list_tenants(v1::ListTenantsRequest {}).await;
    alpha.sessions.clone().close_session(v1::CloseSessionRequest { session_id: session.clone() }).await.unwrap();
    let output = supervisor.stop(Signal::SIGTERM);
    assert_eq!(output.status, 0, "{output:?}");

    let text = fs::read_to_string(supervisor.audit_log()).unwrap();
    let lines = lines(&text);
    for secret in [secret.as_str(), &token("alpha"), &token("beta"), &token("stranger"), &token("operator")] {
        assert!(!text.contains(secret) && !supervisor.log().contains(secret), "{secret}");
    }
    assert_eq!(lines.first().unwrap()["event"], "started");
    assert_eq!(lines.last().unwrap()["event"], "stopped");
    assert_eq!(events(&lines, "authentication_refused").len(), 2);

    let created = &events(&lines, "session_created")[0];
    let fingerprint = &blake3::hash(token("alpha").as_bytes()).to_hex()[..16];
    assert_eq!(created["auth"], json!({"method": "token", "fingerprint": fingerprint}));
    assert_eq!((&created["tenant"], &created["session"]), (&json!("alpha"), &json!(session)));
    let accepted = &events(&lines, "run_accepted")[0];
    assert_eq!((&accepted["rpc"], &accepted["run"]), (&json!("Runs/RunTests"), &json!(run.run_id)));
    assert_eq!(accepted["asked"]["wall_ms"], 20_000);
    let finished = &events(&lines, "run_finished")[0];
    assert_eq!((&finished["outcome"], &finished["run"]), (&json!("failed"), &json!(run.run_id)));
    assert_eq!(finished["limits"]["wall_ms_max"], 20_000);
    let denied = &events(&lines, "denied")[0];
    assert_eq!((&denied["tenant"], &denied["run"]), (&json!("beta"), &json!(run.run_id)));
    assert_eq!((&denied["code"], &denied["outcome"]), (&json!("PermissionDenied"), &json!("error")));
    assert_eq!(events(&lines, "report_read")[0]["rpc"], "Results/GetReport");
    assert_eq!(events(&lines, "operator_call")[0]["rpc"], "Host/ListTenants");
    assert_eq!(events(&lines, "session_closed")[0]["session"], json!(session));
    assert!(lines.iter().all(|line| line.get("lost").is_none()), "{lines:?}");
}

/// Calls of each tenant after which a rate limit must have taken effect.
const CALLS_MAX: u64 = 20_000;

/// Events that cost a caller nothing are rate-limited and counted; state changes are always written.
#[tokio::test]
async fn counts_suppressed_events_and_keeps_state_changes() {
    let mut supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.empty_workspace("alpha", "shop");
    let session_id = alpha.open_session(&workspace).await;
    // Floods until events of both tenants are suppressed: a slow machine may stay below the rate limit for a while.
    let mut calls = 0;
    let is_suppressed = |tenant: &str| {
        let text = fs::read_to_string(supervisor.audit_log()).unwrap();
        // The last line may be incomplete.
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.any(|line| line["tenant"] == tenant && line["suppressed"].is_u64())
    };
    while !(is_suppressed("alpha") && is_suppressed("beta")) {
        assert!(calls < CALLS_MAX, "no event is suppressed");
        let mut flood = JoinSet::new();
        for _ in 0..100 {
            let (alpha, beta) = (alpha.clone(), beta.clone());
            let (workspace, session_id) = (workspace.clone(), session_id.clone());
            flood.spawn(async move {
                assert_eq!(alpha.open_session(&workspace).await, session_id);
                beta.sessions.clone().get_session(v1::GetSessionRequest { session_id }).await.unwrap_err();
            });
        }
        flood.join_all().await;
        calls += 100;
    }
    beta.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    alpha.sessions.clone().close_session(v1::CloseSessionRequest { session_id }).await.unwrap();
    assert_eq!(supervisor.stop(Signal::SIGTERM).status, 0);

    let lines = lines(&fs::read_to_string(supervisor.audit_log()).unwrap());
    for (tenant, event) in [("alpha", "session_found"), ("beta", "denied")] {
        let of_tenant = |line: &&Value| line["tenant"] == tenant;
        let written = events(&lines, event).iter().filter(of_tenant).count();
        let suppressed: u64 = lines.iter().filter(of_tenant).filter_map(|line| line["suppressed"].as_u64()).sum();
        assert_eq!(written as u64 + suppressed, calls, "{tenant}");
        assert!(written >= 10 && suppressed > 0, "{written} of {tenant} are written, {suppressed} suppressed");
        assert_eq!(events(&lines, "session_created").iter().filter(of_tenant).count(), 1);
    }
    assert_eq!(events(&lines, "session_closed").len(), 1);
}
