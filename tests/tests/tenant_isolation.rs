//! The border between two tenants of one supervisor: one row for every call of `proto/` and for every tool of the shim, each
//! tried with what is another tenant's and with what was never there. Must not know how a call is carried out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

#[path = "outcome_table/mcp_client.rs"]
#[expect(dead_code, reason = "a shim that is refused needs a part of it")]
mod mcp_client;

use mcp_client::Mcp;
use proctor_proto::{FILE_DESCRIPTOR_SET, reason, v1};
use proctor_tests::grpc_client::Client;
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use proctor_tests::test_workspace::TestWorkspace;
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What a call can name. Of another tenant, or of nobody.
#[derive(Clone)]
struct Names {
    session: String,
    run: String,
    workspace: String,
    /// Of the session's own request.
    request: String,
}

impl Names {
    /// Names that the supervisor never gave, in the form of those that it gives.
    fn made_up(supervisor: &SupervisorProcess) -> Names {
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

// The rows: the call as `proto/` names it, the client that makes it, and the request with another's names in it.
macro_rules! rows {
    ($table:ident, $names:ident, $own:ident: $($service:ident.$method:ident $call:literal $request:expr;)*) => {
        impl $table {
            const CALLS: &[&str] = &[$($call),*];

            async fn answers(client: &Client, $names: &Names, $own: &str) -> Vec<Answer> {
                // A caller's own session is no part of most rows.
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
struct Named;

/// Calls about the host, which name nothing and are for operators.
struct OfOperators;

/// Calls without any name of another's in them, and where it is proved that they tell a tenant its own only.
const OTHERS: [(&str, &str); 1] =
    [("Sessions/ListSessions", "names at most a page: see a_list_has_what_is_ones_own_wherever_it_begins")];

rows! { Named, names, own:
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
    };
    results.tests_covering "Results/TestsCovering" v1::TestsCoveringRequest {
        session_id: names.session.clone(),
        file: "calc/calc.go".to_owned(),
        line: None,
        limit: 0,
    };
    results.affected_tests "Results/AffectedTests" v1::AffectedTestsRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    results.analyze_failures "Results/AnalyzeFailures" v1::AnalyzeFailuresRequest {
        session_id: names.session.clone(),
        limit: 0,
    };
    results.history "Results/History" v1::HistoryRequest { session_id: names.session.clone(), limit: 0 };
    results.get_report "Results/GetReport" v1::GetReportRequest {
        session_id: names.session.clone(),
        ..Default::default()
    };
    // Through the caller's own session, which knows no other's run.
    results.get_report "Results/GetReport" v1::GetReportRequest {
        session_id: if own.is_empty() { names.session.clone() } else { own.to_owned() },
        run_id: names.run.clone(),
        ..Default::default()
    };
}

rows! { OfOperators, names, own:
    host.get_host "Host/GetHost" { _ = names; v1::GetHostRequest {} };
    host.list_tenants "Host/ListTenants" v1::ListTenantsRequest {};
    host.list_all_sessions "Host/ListAllSessions" v1::ListAllSessionsRequest::default();
    host.list_runs "Host/ListRuns" v1::ListRunsRequest::default();
    host.drain "Host/Drain" v1::DrainRequest { deadline_ms: Some(1) };
}

fn told(answers: &[Answer]) -> Vec<(&'static str, Code, String, Vec<u8>)> {
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
    let rows = Named::CALLS.iter().chain(OfOperators::CALLS).copied().chain(OTHERS.map(|(call, _)| call));
    assert_eq!(rows.map(str::to_owned).collect::<BTreeSet<_>>(), calls);
}

#[tokio::test]
async fn not_yours_and_not_there_are_the_same_answer_to_every_call() {
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
    let own = beta.open(&supervisor.workspace("beta", "shop", "go/pass")).await;

    let theirs = Names { session: session.clone(), run: run.run_id.clone(), workspace, request: "r-1".to_owned() };
    let made_up = Names::made_up(&supervisor);
    let not_yours = told(&Named::answers(&beta, &theirs, &own).await);
    let not_there = told(&Named::answers(&beta, &made_up, &own).await);
    assert_eq!(not_yours, not_there);
    for (name, code, text, _) in &not_there {
        assert_eq!(*code, Code::PermissionDenied, "{name}");
        assert!(text.ends_with(" of this tenant"), "{name}: {text}");
    }
    for strange in ["", "..", "'; drop", "-", "x-1", &"x".repeat(10_000)] {
        let answers = told(&Named::answers(&beta, &Names::all(strange), "").await);
        assert!(answers.iter().all(|answer| answer.1 == Code::PermissionDenied), "{strange:?}: {answers:?}");
    }

    // An operator is no tenant: it is told so, whatever it names.
    let operator = supervisor.client("operator").await;
    let answers = told(&Named::answers(&operator, &theirs, "").await);
    assert_eq!(answers, told(&Named::answers(&operator, &made_up, "").await));
    for (name, code, text, _) in answers {
        assert_eq!(
            (code, text.as_str()),
            (Code::PermissionDenied, "this caller is an operator, not a tenant"),
            "{name}"
        );
    }
    // And a tenant is no operator.
    for client in [&alpha, &beta] {
        for (name, status) in OfOperators::answers(client, &theirs, "").await {
            assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "for operators only"), "{name}");
            let info = status.get_details_error_info().unwrap();
            assert_eq!((info.reason.as_str(), info.metadata.len()), (reason::OPERATORS_ONLY, 0), "{name}");
        }
    }
    // Nothing of it has touched what alpha has.
    let session = alpha.until_session(&session, "it is there", |_| true).await;
    assert_eq!(session.last_run_id, run.run_id);
    assert_eq!(alpha.watch(&run.run_id, 0).await.to_end().await.events, run.events);
}

#[tokio::test]
async fn a_list_has_what_is_ones_own_wherever_it_begins() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let theirs = alpha.open(&supervisor.empty_workspace("alpha", "shop")).await;
    let own = beta.open(&supervisor.empty_workspace("beta", "shop")).await;
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
async fn no_command_tells_what_another_tenant_has() {
    let supervisor = SupervisorProcess::start();
    let beta = supervisor.client("beta").await;
    let workspace = supervisor.empty_workspace("beta", "shop");
    let session_id = beta.open(&workspace).await;
    let started = |program: &str| {
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
        let not_there = started(&program).await.err().unwrap();
        fs::copy("/bin/sh", &theirs).unwrap();
        let not_yours = started(&program).await.err().unwrap();
        fs::remove_file(&theirs).unwrap();
        assert_eq!(told(&[("Runs/RunTests", not_yours)]), told(&[("Runs/RunTests", not_there)]), "{program}");
    }
    // The host's own programs are everybody's, whatever leads to them.
    symlink("/bin/sh", workspace.join("own")).unwrap();
    for program in ["/bin/sh", "/usr/../bin/sh", "./own", &format!("{here}/own")] {
        let ran = started(program).await.unwrap().to_end().await;
        assert_eq!(ran.report().outcome(), v1::Outcome::Passed, "{program}");
    }
}

#[tokio::test]
async fn who_calls_is_what_the_transport_says() {
    let supervisor = SupervisorProcess::start();
    let session = supervisor.client("alpha").await.open(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let by_socket = supervisor.local_client().await;
    by_socket.until_session(&session, "our user id is alpha", |_| true).await;
    for (client, text) in [
        (Client::tcp(supervisor.address, None).await, "metadata `authorization: Bearer TOKEN` is missing"),
        (supervisor.client("nobody").await, "the bearer token is not known"),
        (Client::tcp(supervisor.address, Some("")).await, "metadata `authorization: Bearer TOKEN` is missing"),
    ] {
        let names = Names::all(&session);
        let named = Named::answers(&client, &names, "").await;
        let of_operators = OfOperators::answers(&client, &names, "").await;
        for (name, status) in named.into_iter().chain(of_operators) {
            assert_eq!((status.code(), status.message()), (Code::Unauthenticated, text), "{name}");
        }
        let refused = client.sessions.clone().list_sessions(v1::ListSessionsRequest::default()).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, text));
    }
}

/// What a tool is asked with another's names in it, and what it says: refused, or nothing of another's. Most tools take no
/// name: they are asked about the caller's own session, which knows nothing of the other's.
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
        ("last_test_failures", json!({"session_id": session}), true),
        ("last_test_failures", json!({}), false),
        ("list_tests", json!({"session_id": session}), true),
        ("run_failing_tests", json!({"session_id": session}), true),
        ("run_tests", json!({"session_id": session}), true),
        ("run_tests", json!({"files": [format!("{}/calc/calc.go", names.workspace)]}), true),
        ("tests_covering", json!({"file": format!("{}/calc/calc.go", names.workspace)}), true),
        ("tests_covering", json!({"file": "calc/calc.go", "session_id": session}), true),
        ("tests_covering", json!({"file": "calc/calc.go"}), false),
    ]
}

async fn said(mcp: &Mcp, names: &Names) -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    for (tool, arguments, refused) in tools(names) {
        let answer = mcp.call(tool, arguments.clone()).await;
        assert_eq!(answer.is_error, refused, "{tool} {arguments}: {answer:?}");
        // What an answer repeats of the question is no news.
        let text = format!("{}\n{}\n{}", answer.text, answer.hint, answer.structured);
        said.push((
            tool,
            [&names.run, &names.session, &names.workspace].iter().fold(text, |text, name| text.replace(*name, "NAME")),
        ));
    }
    said
}

#[tokio::test]
async fn no_tool_reaches_across_the_border() {
    let supervisor = SupervisorProcess::start();
    let alpha = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let session = alpha.open(&workspace).await;
    let run = alpha.run(&session).await;
    let workspace = workspace.display().to_string();
    let theirs = Names { session, run: run.run_id, workspace, request: String::new() };

    let mut place = TestWorkspace::empty();
    let token_file = place.root().join("token");
    fs::write(&token_file, token("beta")).unwrap();
    place.workspace = supervisor.workspace("beta", "shop", "go/fail");
    let shim = |place: &TestWorkspace| {
        let mut command = place.command("proctor-mcp");
        command.args(["--supervisor", &format!("http://{}", supervisor.address), "--token-file"]).arg(&token_file);
        command
    };
    let mcp = Mcp::started_by(&mut shim(&place), &place).await;
    let asked: BTreeSet<&str> = tools(&theirs).into_iter().map(|(tool, ..)| tool).collect();
    let known: BTreeSet<&str> = mcp.tools().iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(asked, known, "every tool is in the table");
    let not_yours = said(&mcp, &theirs).await;
    assert_eq!(not_yours, said(&mcp, &Names::made_up(&supervisor)).await);
    mcp.leave().await;

    // A shim on a workspace of the other's is told the same of it as of any directory that is not the tenant's.
    let elsewhere = TestWorkspace::with_fixture("go/fail");
    let mut refusals = Vec::new();
    for workspace in [theirs.workspace.as_ref(), elsewhere.workspace.as_path()] {
        place.workspace = workspace.to_owned();
        let mcp = Mcp::started_by(&mut shim(&place), &place).await;
        let mut answers = Vec::new();
        for tool in ["run_tests", "run_failing_tests", "list_tests", "last_test_failures", "get_test_report", "get_run"]
        {
            answers.push(mcp.refused(tool, json!({})).await);
        }
        answers.push(mcp.refused("tests_covering", json!({"file": "calc/calc.go"})).await);
        refusals.push(answers);
        mcp.leave().await;
    }
    assert_eq!(refusals[0], refusals[1]);
    assert!(
        refusals[0].iter().all(|text| text.contains("does not let this tenant open the workspace")),
        "{refusals:?}"
    );
}
