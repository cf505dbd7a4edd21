//! The border between two tenants of one supervisor: a row for every call of `proto/` and every tool of the shim, each tried
//! with names of another tenant and with names that do not exist.

use proctor_proto::{FILE_DESCRIPTOR_SET, reason, v1};
use proctor_tests::grpc_client::Client;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use proctor_tests::test_workspace::TestWorkspace;
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Names that a call can contain: another tenant's, or nonexistent ones.
#[derive(Clone)]
struct Names {
    session: String,
    run: String,
    workspace: String,
    /// `client_request_id` of the request that opened the session.
    request: String,
}

impl Names {
    /// Names in the supervisor's form that it never issued.
    fn nonexistent(supervisor: &SupervisorProcess) -> Names {
        let session = "0123456789abcdef0123456789abcdef".to_owned();
        let workspace = supervisor.root("alpha").join("never-made").display().to_string();
        Names { run: format!("{session}-1"), session, workspace, request: "r-2".to_owned() }
    }

    fn all(text: &str) -> Names {
        Names {
            session: text.to_owned(),
            run: text.to_owned(),
            workspace: format!("/{text}"),
            request: "r-1".to_owned(),
        }
    }
}

type Answer = (&'static str, Status);

// Rows: the client's method, the call's name in `proto/`, and the request with another tenant's names.
macro_rules! rows {
    ($table:ident, $names:ident, $own:ident: $($service:ident.$method:ident $call:literal $request:expr;)*) => {
        impl $table {
            const CALLS: &[&str] = &[$($call),*];

            async fn answers(client: &Client, $names: &Names, $own: &str) -> Vec<Answer> {
                // Most rows do not use the caller's own session.
                _ = $own;
                vec![$(($call, match client.$service.clone().$method($request).await {
                    Ok(_) => panic!("{} was answered", $call),
                    Err(status) => status,
                })),*]
            }
        }
    };
}

/// Calls that name a session, a run or a workspace.
struct NamedCalls;

/// Calls about the host, without names, for operators only.
struct OperatorCalls;

/// Calls without names, and the test that proves their isolation.
const OTHERS: [(&str, &str); 1] =
    [("Sessions/ListSessions", "takes a page token: see lists_only_own_sessions_from_any_page_token")];

rows! { NamedCalls, names, own:
    sessions.create_session "Sessions/CreateSession" v1::CreateSessionRequest {
        workspace: names.workspace.clone(),
        client_request_id: names.request.clone(),
        ..Default::default()
    };
    sessions.get_session "Sessions/GetSession" v1::GetSessionRequest { session_id: names.session.clone() };
    sessions.close_session "Sessions/CloseSession" v1::CloseSessionRequest { session_id: names.session.clone() };
    runs.run_tests "Runs/RunTests" v1::RunTestsRequest { session_id: names.session.clone(), ..Default::default() };
    runs.run_failing_tests "Runs/RunFailingTests" v1::RunFailingTestsRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    runs.run_affected_tests "Runs/RunAffectedTests" v1::RunAffectedTestsRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    runs.run_checks "Runs/RunChecks" v1::RunChecksRequest { session_id: names.session.clone(), ..Default::default() };
    runs.watch_run "Runs/WatchRun" v1::WatchRunRequest { run_id: names.run.clone(), cursor: 0 };
    runs.get_run "Runs/GetRun" v1::GetRunRequest { run_id: names.run.clone(), wait_ms: 10 };
    runs.cancel_run "Runs/CancelRun" v1::CancelRunRequest { run_id: names.run.clone() };
    runs.read_output "Runs/ReadOutput" v1::ReadOutputRequest {
        run_id: names.run.clone(),
        stream: 1,
        cursor: 0,
        max_bytes: 0,
    };
    runs.read_artifact "Runs/ReadArtifact" v1::ReadArtifactRequest {
        run_id: names.run.clone(),
        name: "shot.png".to_owned(),
        ..Default::default()
    };
    results.list_tests "Results/ListTests" v1::ListTestsRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    results.last_test_failures "Results/LastTestFailures" v1::LastTestFailuresRequest {
        session_id: names.session.clone(),
        limit: 0,
        offset: 0,
    };
    results.tests_covering "Results/TestsCovering" v1::TestsCoveringRequest {
        session_id: names.session.clone(),
        file: "calc/calc.go".to_owned(),
        ..Default::default()
    };
    results.affected_tests "Results/AffectedTests" v1::AffectedTestsRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    results.analyze_failures "Results/AnalyzeFailures" v1::AnalyzeFailuresRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    // Through the caller's own session, which has no such run.
    results.analyze_failures "Results/AnalyzeFailures" v1::AnalyzeFailuresRequest {
        session_id: if own.is_empty() { names.session.clone() } else { own.to_owned() },
        run_id: names.run.clone(),
        ..Default::default()
    };
    results.history "Results/History" v1::HistoryRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    results.get_report "Results/GetReport" v1::GetReportRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    // Through the caller's own session, which has no such run.
    results.get_report "Results/GetReport" v1::GetReportRequest {
        session_id: if own.is_empty() { names.session.clone() } else { own.to_owned() },
        run_id: names.run.clone(),
        ..Default::default()
    };
}

rows! { OperatorCalls, names, own:
    host.get_host "Host/GetHost" { _ = names; v1::GetHostRequest {} };
    host.list_tenants "Host/ListTenants" v1::ListTenantsRequest {};
    host.list_all_sessions "Host/ListAllSessions" v1::ListAllSessionsRequest::default();
    host.list_runs "Host/ListRuns" v1::ListRunsRequest::default();
    host.stop_run "Host/StopRun" v1::StopRunRequest { run_id: names.run.clone() };
    host.drain "Host/Drain" v1::DrainRequest { deadline_ms: Some(1) };
}

fn comparable(answers: &[Answer]) -> Vec<(&'static str, Code, String, Vec<u8>)> {
    let part = |(name, status): &Answer| (*name, status.code(), status.message().to_owned(), status.details().to_vec());
    answers.iter().map(part).collect()
}

#[test]
fn every_call_of_every_service_is_in_the_table() {
    let described = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let services = described.file.iter().flat_map(|file| &file.service);
    let calls: BTreeSet<String> = services
        .flat_map(|service| service.method.iter().map(move |method| format!("{}/{}", service.name(), method.name())))
        .collect();
    let rows = NamedCalls::CALLS.iter().chain(OperatorCalls::CALLS).copied().chain(OTHERS.map(|(call, _)| call));
    assert_eq!(rows.map(str::to_owned).collect::<BTreeSet<_>>(), calls);
}

#[tokio::test]
async fn foreign_and_missing_names_get_identical_answers() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    let workspace = workspace.to_str().unwrap().to_owned();
    let request = v1::CreateSessionRequest {
        workspace: workspace.clone(),
        client_request_id: "r-1".to_owned(),
        ..Default::default()
    };
    let session =
        alpha.sessions.clone().create_session(request).await.unwrap().into_inner().session.unwrap().session_id;
    let run = alpha.run(&session).await;
    let own = beta.open_session(&supervisor.workspace("beta", "shop", "go/pass")).await;

    let theirs = Names { session: session.clone(), run: run.run_id.clone(), workspace, request: "r-1".to_owned() };
    let nonexistent = Names::nonexistent(&supervisor);
    let foreign_answers = comparable(&NamedCalls::answers(&beta, &theirs, &own).await);
    let missing_answers = comparable(&NamedCalls::answers(&beta, &nonexistent, &own).await);
    assert_eq!(foreign_answers, missing_answers);
    for (name, code, text, _) in &missing_answers {
        assert_eq!(*code, Code::PermissionDenied, "{name}");
        assert!(text.ends_with(" of this tenant"), "{name}: {text}");
    }
    for strange in ["", "..", "'; drop", "-", "x-1", &"x".repeat(10_000)] {
        let answers = comparable(&NamedCalls::answers(&beta, &Names::all(strange), "").await);
        assert!(answers.iter().all(|answer| answer.1 == Code::PermissionDenied), "{strange:?}: {answers:?}");
    }

    // An operator is not a tenant and gets the same answer for every name.
    let operator = supervisor.client("operator").await;
    let answers = comparable(&NamedCalls::answers(&operator, &theirs, "").await);
    assert_eq!(answers, comparable(&NamedCalls::answers(&operator, &nonexistent, "").await));
    for (name, code, text, _) in answers {
        assert_eq!(
            (code, text.as_str()),
            (Code::PermissionDenied, "this caller is an operator, not a tenant"),
            "{name}"
        );
    }
    // A tenant is not an operator.
    for client in [&alpha, &beta] {
        for (name, status) in OperatorCalls::answers(client, &theirs, "").await {
            assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "for operators only"), "{name}");
            let info = status.get_details_error_info().unwrap();
            assert_eq!((info.reason.as_str(), info.metadata.len()), (reason::OPERATORS_ONLY, 0), "{name}");
        }
    }
    // Alpha's session and run are unchanged.
    let session = alpha.wait_for_session(&session, "the session exists", |_| true).await;
    assert_eq!(session.last_run_id, run.run_id);
    assert_eq!(alpha.watch(&run.run_id, 0).await.read_to_end().await.events, run.events);
}

#[tokio::test]
async fn lists_only_own_sessions_from_any_page_token() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let theirs = alpha.open_session(&supervisor.empty_workspace("alpha", "shop")).await;
    let own = beta.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let before = format!("{}0", &own[..own.len() - 1]);
    for (page_token, listed) in [("", true), (&*before, before != own), (&*own, false), (&*theirs, theirs < own)] {
        let request = v1::ListSessionsRequest { page_token: page_token.to_owned(), ..Default::default() };
        let answer = beta.sessions.clone().list_sessions(request).await.unwrap().into_inner();
        let found: Vec<&str> = answer.sessions.iter().map(|session| session.session_id.as_str()).collect();
        assert_eq!(found, if listed { vec![own.as_str()] } else { vec![] }, "{page_token}");
        assert_eq!(answer.next_page_token, "");
    }
}

#[tokio::test]
async fn command_paths_reveal_nothing_of_other_tenants() {
    let supervisor = SupervisorProcess::start();
    let beta = supervisor.client("beta").await;
    let workspace = supervisor.empty_workspace("beta", "shop");
    let session_id = beta.open_session(&workspace).await;
    let start = |program: &str| {
        let request = v1::RunTestsRequest {
            session_id: session_id.clone(),
            command: [program, "-c", "exit 0"].map(str::to_owned).to_vec(),
            ..Default::default()
        };
        beta.start(request)
    };
    symlink(supervisor.root("alpha"), workspace.join("link")).unwrap();
    let theirs = supervisor.root("alpha").join("tool");
    let (tool, here) = (theirs.display(), workspace.display());
    for program in [
        format!("{tool}"),
        format!("/usr/..{tool}"),
        format!("/proc/self/root{tool}"),
        format!("{here}/link/tool"),
        "link/tool".to_owned(),
    ] {
        let missing = start(&program).await.err().unwrap();
        fs::copy("/bin/sh", &theirs).unwrap();
        let foreign = start(&program).await.err().unwrap();
        fs::remove_file(&theirs).unwrap();
        assert_eq!(comparable(&[("Runs/RunTests", foreign)]), comparable(&[("Runs/RunTests", missing)]), "{program}");
    }
    // All tenants may run the host's own programs, by any path.
    symlink("/bin/sh", workspace.join("own")).unwrap();
    for program in ["/bin/sh", "/usr/../bin/sh", "./own", &format!("{here}/own")] {
        let run = start(program).await.unwrap().read_to_end().await;
        assert_eq!(run.report().outcome(), v1::Outcome::Passed, "{program}");
    }
}

#[tokio::test]
async fn transport_alone_identifies_the_caller() {
    let supervisor = SupervisorProcess::start();
    let session =
        supervisor.client("alpha").await.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let by_socket = supervisor.local_client().await;
    by_socket.wait_for_session(&session, "the test's user id is alpha's", |_| true).await;
    for (client, text) in [
        (Client::tcp(supervisor.address, None).await, "metadata `authorization: Bearer TOKEN` is missing"),
        (supervisor.client("nobody").await, "the bearer token is not known"),
        (Client::tcp(supervisor.address, Some("")).await, "metadata `authorization: Bearer TOKEN` is missing"),
    ] {
        let names = Names::all(&session);
        let named = NamedCalls::answers(&client, &names, "").await;
        let of_operators = OperatorCalls::answers(&client, &names, "").await;
        for (name, status) in named.into_iter().chain(of_operators) {
            assert_eq!((status.code(), status.message()), (Code::Unauthenticated, text), "{name}");
        }
        let refused = client.sessions.clone().list_sessions(v1::ListSessionsRequest::default()).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, text));
    }
}

/// Tool calls with another tenant's names, and whether they must be refused. Tools that take no names query the caller's
/// own session, whose answers must not contain anything of the other's.
fn tools(names: &Names) -> Vec<(&'static str, Value, bool)> {
    let (run, session) = (&names.run, &names.session);
    vec![
        ("get_run", json!({"run_id": run}), true),
        ("get_run", json!({"run_id": run, "cancel": true}), true),
        ("get_run", json!({"run_id": run, "wait_s": 0.01}), true),
        ("get_run", json!({"run_id": run, "stream": "stdout"}), true),
        ("get_run", json!({"session_id": session}), true),
        ("get_test_report", json!({"run_id": run}), true),
        ("get_test_report", json!({}), false),
        ("get_test_report", json!({"artifact": "shot.png"}), false),
        ("analyze_failures", json!({"run_id": run}), true),
        ("analyze_failures", json!({}), false),
        ("last_test_failures", json!({"session_id": session}), true),
        ("last_test_failures", json!({}), false),
        ("list_tests", json!({"session_id": session}), true),
        ("run_failing_tests", json!({"session_id": session}), true),
        ("run_affected_tests", json!({"session_id": session}), true),
        ("run_lint", json!({"session_id": session}), true),
        ("run_lint", json!({"files": [format!("{}/calc/calc.go", names.workspace)]}), true),
        ("run_typecheck", json!({"session_id": session}), true),
        ("run_tests", json!({"session_id": session}), true),
        ("run_tests", json!({"files": [format!("{}/calc/calc.go", names.workspace)]}), true),
        ("tests_covering", json!({"file": format!("{}/calc/calc.go", names.workspace)}), true),
        ("tests_covering", json!({"file": "calc/calc.go", "session_id": session}), true),
        ("tests_covering", json!({"file": "calc/calc.go"}), false),
    ]
}

async fn tool_answers(mcp: &Mcp, names: &Names) -> Vec<(&'static str, String)> {
    let mut answers = Vec::new();
    for (tool, arguments, is_error) in tools(names) {
        let answer = mcp.call(tool, arguments.clone()).await;
        assert_eq!(answer.is_error, is_error, "{tool} {arguments}: {answer:?}");
        // An answer may repeat the names of the call.
        let text = format!("{}\n{}\n{}", answer.text, answer.hint, answer.structured);
        answers.push((
            tool,
            [&names.run, &names.session, &names.workspace].iter().fold(text, |text, name| text.replace(*name, "NAME")),
        ));
    }
    answers
}

#[tokio::test]
async fn mcp_tools_reveal_nothing_of_other_tenants() {
    let supervisor = SupervisorProcess::start();
    let alpha = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let session = alpha.open_session(&workspace).await;
    let run = alpha.run(&session).await;
    let workspace = workspace.display().to_string();
    let theirs = Names { session, run: run.run_id, workspace, request: String::new() };

    let mut shim_workspace = TestWorkspace::empty();
    let token_file = shim_workspace.root().join("token");
    fs::write(&token_file, token("beta")).unwrap();
    shim_workspace.path = supervisor.workspace("beta", "shop", "go/fail");
    let shim = |workspace: &TestWorkspace| {
        let mut command = workspace.command("proctor-mcp");
        command.args(["--supervisor", &format!("http://{}", supervisor.address), "--token-file"]).arg(&token_file);
        command
    };
    let mcp = Mcp::start_with(&mut shim(&shim_workspace), &shim_workspace).await;
    let called: BTreeSet<&str> = tools(&theirs).into_iter().map(|(tool, ..)| tool).collect();
    let offered: BTreeSet<&str> = mcp.tools().iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(called, offered, "every tool is in the table");
    let foreign_answers = tool_answers(&mcp, &theirs).await;
    assert_eq!(foreign_answers, tool_answers(&mcp, &Names::nonexistent(&supervisor)).await);
    mcp.close().await;

    // A shim on another tenant's workspace gets the same errors as on any directory outside of the tenant's roots.
    let elsewhere = TestWorkspace::with_fixture("go/fail");
    let mut refusals = Vec::new();
    for workspace in [theirs.workspace.as_ref(), elsewhere.path.as_path()] {
        shim_workspace.path = workspace.to_owned();
        let mcp = Mcp::start_with(&mut shim(&shim_workspace), &shim_workspace).await;
        let mut answers = Vec::new();
        for tool in ["run_tests", "run_failing_tests", "list_tests", "last_test_failures", "get_test_report", "get_run"]
        {
            answers.push(mcp.expect_error(tool, json!({})).await);
        }
        answers.push(mcp.expect_error("tests_covering", json!({"file": "calc/calc.go"})).await);
        refusals.push(answers);
        mcp.close().await;
    }
    assert_eq!(refusals[0], refusals[1]);
    assert!(
        refusals[0].iter().all(|text| text.contains("does not let this tenant open the workspace")),
        "{refusals:?}"
    );
}
