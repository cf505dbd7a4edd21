//! Two tenants of one supervisor: neither can see, touch or guess anything of the other, on any call.

use proctor_proto::v1;
use proctor_tests::supervisor::Supervisor;
use proctor_tests::wire::Client;
use tonic::{Code, Status};

/// Every call that names a session or a run, with these names.
async fn every_call(client: &Client, session_id: &str, run_id: &str) -> Vec<(&'static str, Status)> {
    let session_id = || session_id.to_owned();
    let run_id = || run_id.to_owned();
    macro_rules! calls {
        ($($service:ident.$method:ident($request:expr)),* $(,)?) => {
            vec![$((stringify!($method), match client.$service.clone().$method($request).await {
                Ok(_) => panic!("{} was answered", stringify!($method)),
                Err(status) => status,
            })),*]
        };
    }
    calls![
        sessions.get_session(v1::GetSessionRequest { session_id: session_id() }),
        sessions.close_session(v1::CloseSessionRequest { session_id: session_id() }),
        runs.run_tests(v1::RunTestsRequest { session_id: session_id(), ..Default::default() }),
        runs.run_failing_tests(v1::RunFailingTestsRequest { session_id: session_id(), ..Default::default() }),
        runs.run_affected_tests(v1::RunAffectedTestsRequest { session_id: session_id(), ..Default::default() }),
        runs.watch_run(v1::WatchRunRequest { run_id: run_id(), cursor: 0 }),
        runs.get_run(v1::GetRunRequest { run_id: run_id(), wait_ms: 10 }),
        runs.cancel_run(v1::CancelRunRequest { run_id: run_id() }),
        runs.read_output(v1::ReadOutputRequest { run_id: run_id(), stream: 1, cursor: 0, max_bytes: 0 }),
        results.list_tests(v1::ListTestsRequest { session_id: session_id(), ..Default::default() }),
        results.last_test_failures(v1::LastTestFailuresRequest { session_id: session_id(), limit: 0 }),
        results.tests_covering(v1::TestsCoveringRequest {
            session_id: session_id(),
            file: "calc/calc.go".to_owned(),
            line: None,
            limit: 0
        }),
        results.affected_tests(v1::AffectedTestsRequest { session_id: session_id(), ..Default::default() }),
        results.analyze_failures(v1::AnalyzeFailuresRequest { session_id: session_id(), limit: 0 }),
        results.history(v1::HistoryRequest { session_id: session_id(), limit: 0 }),
        results.get_report(v1::GetReportRequest { session_id: session_id(), ..Default::default() }),
    ]
}

fn told(answers: &[(&'static str, Status)]) -> Vec<(&'static str, Code, String, Vec<u8>)> {
    let part = |(name, status): &(&'static str, Status)| {
        (*name, status.code(), status.message().to_owned(), status.details().to_vec())
    };
    answers.iter().map(part).collect()
}

#[tokio::test]
async fn not_yours_and_not_there_are_the_same_answer_to_every_call() {
    let supervisor = Supervisor::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let session = alpha.open(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let run = alpha.run(&session).await;
    let own = beta.open(&supervisor.workspace("beta", "shop", "go/pass")).await;

    let not_yours = told(&every_call(&beta, &session, &run.run_id).await);
    let unknown = "0123456789abcdef0123456789abcdef";
    let not_there = told(&every_call(&beta, unknown, unknown).await);
    assert_eq!(not_yours, not_there);
    for (name, code, text, _) in &not_there {
        assert_eq!(*code, Code::PermissionDenied, "{name}");
        assert!(text.ends_with(" of this tenant"), "{name}: {text}");
    }
    for strange in ["", "..", "'; drop", &"x".repeat(10_000)] {
        let strange = told(&every_call(&beta, strange, strange).await);
        assert!(strange.iter().all(|answer| answer.1 == Code::PermissionDenied), "{strange:?}");
    }

    // A run of one session cannot be read through another session of the same caller either.
    let report = v1::GetReportRequest { session_id: own.clone(), run_id: run.run_id.clone(), ..Default::default() };
    assert_eq!(beta.results.clone().get_report(report).await.unwrap_err().code(), Code::PermissionDenied);
    let listed = beta.sessions.clone().list_sessions(v1::ListSessionsRequest::default()).await.unwrap().into_inner();
    let listed: Vec<String> = listed.sessions.into_iter().map(|session| session.session_id).collect();
    assert_eq!(listed, [own]);
    // Nothing of it has touched what alpha has.
    let session = alpha.until_session(&session, "it is there", |_| true).await;
    assert_eq!(session.last_run_id, run.run_id);
    assert_eq!(alpha.watch(&run.run_id, 0).await.to_end().await.events, run.events);
}

#[tokio::test]
async fn who_calls_is_what_the_transport_says() {
    let supervisor = Supervisor::start();
    let session = supervisor.client("alpha").await.open(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let by_socket = supervisor.local_client().await;
    by_socket.until_session(&session, "our user id is alpha", |_| true).await;
    let request = || v1::GetSessionRequest { session_id: session.clone() };
    for (client, text) in [
        (Client::tcp(supervisor.address, None).await, "metadata `authorization: Bearer TOKEN` is missing"),
        (supervisor.client("nobody").await, "the bearer token is not known"),
        (Client::tcp(supervisor.address, Some("")).await, "metadata `authorization: Bearer TOKEN` is missing"),
    ] {
        let refused = client.sessions.clone().get_session(request()).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, text));
        for (name, status) in every_call(&client, &session, &session).await {
            assert_eq!(status.code(), Code::Unauthenticated, "{name}");
        }
    }
}

#[tokio::test]
async fn the_same_workspace_in_two_sessions_shares_nothing() {
    let supervisor = Supervisor::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let (one, two) = (client.open_separate(&workspace).await, client.open_separate(&workspace).await);
    client.run(&one).await;
    assert_eq!(client.failures(&one).await.total, 4);
    assert!(!client.failures(&two).await.has_run);
    let place = v1::TestsCoveringRequest { session_id: two, file: "greet.go".to_owned(), line: None, limit: 0 };
    assert!(!client.results.clone().tests_covering(place).await.unwrap().into_inner().has_coverage);
}

#[tokio::test]
async fn two_tenants_run_side_by_side() {
    let supervisor = Supervisor::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let first = alpha.open(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let second = beta.open(&supervisor.workspace("beta", "shop", "go/fail")).await;
    let (first, second) = tokio::join!(alpha.run(&first), beta.run(&second));
    assert_eq!(first.report().outcome(), v1::Outcome::Passed);
    assert_eq!(second.report().outcome(), v1::Outcome::Failed);
    assert_ne!(first.run_id, second.run_id);
}
