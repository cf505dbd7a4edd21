//! Sessions: opened twice, paged through, limited, ended with the supervisor.

use crate::Scene;
use nix::sys::signal::Signal;
use proctor_proto::v1::{CreateSessionRequest, ListSessionsRequest, Outcome};
use proctor_tests::process::{cgroups_of, processes_of};
use proctor_tests::supervisor::{Settings, Supervisor};
use std::collections::BTreeSet;
use tonic::Code;
use tonic_types::StatusExt;

#[tokio::test]
async fn the_same_request_id_opens_the_same_session() {
    let supervisor = Supervisor::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    let open = |id: &str| {
        let workspace = workspace.to_str().unwrap().to_owned();
        let request = CreateSessionRequest { workspace, client_request_id: id.to_owned() };
        let mut sessions = client.sessions.clone();
        async move { sessions.create_session(request).await.unwrap().into_inner().session.unwrap().session_id }
    };
    let first = open("one").await;
    assert_eq!(open("one").await, first);
    assert_ne!(open("two").await, first);
    assert_ne!(open("").await, open("").await, "without an id every call opens one");
    assert!(first.len() == 32 && first.chars().all(|digit| digit.is_ascii_hexdigit()), "{first}");
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let supervisor = Supervisor::start();
    let client = supervisor.client("beta").await;
    let workspace = supervisor.workspace("beta", "shop", "go/pass");
    let mut opened = BTreeSet::new();
    for _ in 0..5 {
        opened.insert(client.open(&workspace).await);
    }
    let mut listed = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListSessionsRequest { page_size: 2, page_token };
        let page = client.sessions.clone().list_sessions(request).await.unwrap().into_inner();
        assert!(page.sessions.len() <= 2);
        listed.extend(page.sessions.into_iter().map(|session| session.session_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, opened.into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_tenants_sessions_are_limited_and_its_neighbours_are_not_touched() {
    let settings = Settings { tenant: "sessions_max = 2".to_owned(), ..Settings::default() };
    let supervisor = Supervisor::with(&settings);
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    alpha.open(&workspace).await;
    let second = alpha.open(&workspace).await;
    let path = workspace.to_str().unwrap().to_owned();
    let request = CreateSessionRequest { workspace: path, ..CreateSessionRequest::default() };
    let refused = alpha.sessions.clone().create_session(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.get_details_error_info().unwrap().metadata["quota"], "sessions");
    assert!(refused.get_details_retry_info().is_some());
    beta.open(&supervisor.workspace("beta", "shop", "go/pass")).await;
    let close = proctor_proto::v1::CloseSessionRequest { session_id: second };
    alpha.sessions.clone().close_session(close).await.unwrap();
    alpha.sessions.clone().create_session(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_is_told_to_end_takes_its_runs_along_and_says_how_they_ended() {
    let mut scene = Scene::new().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    run.until_running("TestWaits").await;
    let pid = scene.supervisor.pid();
    let socket = scene.supervisor.socket();
    let following = tokio::spawn(run.try_to_end());
    let said = scene.supervisor.end(Signal::SIGTERM);
    assert_eq!(said.status, 0);
    let report = following.await.unwrap().unwrap().report().clone();
    assert_eq!((report.outcome(), report.evidence.unwrap().killed.as_str()), (Outcome::Cancelled, "closed"));
    assert_eq!(processes_of(&format!("proctor-{pid}-")), []);
    assert_eq!(processes_of(scene.waiting.workspace.to_str().unwrap()), []);
    assert_eq!(cgroups_of(pid), [""; 0].map(std::path::PathBuf::from));
    assert!(!socket.exists(), "its socket is gone");
}
