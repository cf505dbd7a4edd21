//! Sessions: sharing, expiry, paging, quotas, and the end of the supervisor.

use crate::PausedSession;
use nix::sys::signal::Signal;
use proctor_proto::v1::{CreateSessionRequest, GetSessionRequest, ListSessionsRequest, Outcome};
use proctor_tests::process::{WAIT_MAX, processes_matching, signal, supervisor_cgroups, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::Code;
use tonic_types::StatusExt;

#[tokio::test]
async fn shares_one_session_per_workspace_unless_separate() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    let open = |id: &str, separate: bool| {
        let workspace = workspace.to_str().unwrap().to_owned();
        let request = CreateSessionRequest { workspace, client_request_id: id.to_owned(), separate, idle_ms_max: 0 };
        let mut sessions = client.sessions.clone();
        async move {
            let opened = sessions.create_session(request).await.unwrap().into_inner();
            let session = opened.session.unwrap();
            assert_eq!(session.idle_ms_max, 12 * 60 * 60 * 1_000);
            (session.session_id, opened.existing)
        }
    };
    let (shared, existing) = open("one", false).await;
    assert!(!existing);
    assert_eq!(open("two", false).await, (shared.clone(), true));
    let (own, existing) = open("own", true).await;
    assert!(!existing && own != shared);
    assert_eq!(open("own", true).await, (own.clone(), true), "the same client_request_id");
    assert_ne!(open("", true).await, open("", true).await, "without client_request_id every call opens a session");
    assert!(shared.len() == 32 && shared.chars().all(|digit| digit.is_ascii_hexdigit()), "{shared}");
}

#[tokio::test]
async fn separate_session_expires_after_its_requested_idle_time() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    let open = |idle_ms_max: u64, separate: bool| {
        let workspace = workspace.to_str().unwrap().to_owned();
        let request = CreateSessionRequest { workspace, separate, idle_ms_max, ..CreateSessionRequest::default() };
        let mut sessions = client.sessions.clone();
        async move { sessions.create_session(request).await.map(|opened| opened.into_inner().session.unwrap()) }
    };
    let half_a_day = 12 * 60 * 60 * 1_000;
    let short = open(1, true).await.unwrap();
    assert_eq!(short.idle_ms_max, 1_000);
    assert_eq!(open(u64::MAX, true).await.unwrap().idle_ms_max, half_a_day);
    let long = open(half_a_day - 1, true).await.unwrap();
    assert_eq!(long.idle_ms_max, half_a_day - 1);
    let refused = open(1, false).await.unwrap_err();
    assert_eq!((refused.code(), refused.message().split(':').next()), (Code::InvalidArgument, Some("idle_ms_max")));
    let get_session = |session_id: &str| {
        let request = GetSessionRequest { session_id: session_id.to_owned() };
        let mut sessions = client.sessions.clone();
        async move { sessions.get_session(request).await.map_err(|status| status.code()).map(drop) }
    };
    tokio::time::timeout(WAIT_MAX, async {
        while get_session(&short.session_id).await != Err(Code::PermissionDenied) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(get_session(&long.session_id).await, Ok(()));
}

#[tokio::test]
async fn lists_sessions_in_pages() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let workspace = supervisor.workspace("beta", "shop", "go/pass");
    let mut opened = BTreeSet::new();
    for _ in 0..5 {
        opened.insert(client.open_separate_session(&workspace).await);
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
async fn sessions_max_limits_one_tenant_only() {
    let settings = SupervisorSettings { tenant: "sessions_max = 2".to_owned(), ..SupervisorSettings::default() };
    let supervisor = SupervisorProcess::with_settings(&settings);
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    alpha.open_session(&workspace).await;
    let second = alpha.open_separate_session(&workspace).await;
    let refused = alpha.try_open_session(&workspace, true).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.get_details_error_info().unwrap().metadata["quota"], "sessions_max");
    assert!(refused.get_details_retry_info().is_some());
    beta.open_session(&supervisor.workspace("beta", "shop", "go/pass")).await;
    let close = proctor_proto::v1::CloseSessionRequest { session_id: second };
    alpha.sessions.clone().close_session(close).await.unwrap();
    alpha.open_separate_session(&workspace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_sigterm_cancels_runs_and_reports_them() {
    let settings = SupervisorSettings { host: "drain = \"1h\"".to_owned(), ..SupervisorSettings::default() };
    let mut setup = PausedSession::with(&settings).await;
    let mut run = setup.client.start(setup.request()).await.unwrap();
    run.wait_for_test("TestWaits").await;
    let pid = setup.supervisor.pid();
    let socket = setup.supervisor.socket();
    let following = tokio::spawn(run.try_read_to_end());
    // The first SIGTERM gives the run an hour to finish, the second one cancels it.
    signal(pid, Signal::SIGTERM);
    wait_until("the supervisor drains", || setup.supervisor.log().contains("draining"));
    let output = setup.supervisor.stop(Signal::SIGTERM);
    assert_eq!(output.status, 0);
    let report = following.await.unwrap().unwrap().report().clone();
    assert_eq!((report.outcome(), report.evidence.unwrap().killed.as_str()), (Outcome::Cancelled, "closed"));
    assert_eq!(processes_matching(&format!("proctor-{pid}-")), []);
    assert_eq!(processes_matching(setup.paused.workspace.to_str().unwrap()), []);
    assert_eq!(supervisor_cgroups(pid), [""; 0].map(std::path::PathBuf::from));
    assert!(!socket.exists(), "the socket is removed");
}
