//! Who calls a real supervisor, over every transport at once, and what SIGHUP changes under calls that go on. Which tokens
//! and certificates count is proved beside the code; here it is only whether that is what is asked.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

mod credentials;
#[path = "../outcome_table/mcp_client.rs"]
#[expect(dead_code, reason = "a shim that is asked little needs a part of it")]
mod mcp_client;
mod shim_tls;

use credentials::Keys;
use proctor_proto::client::TlsConfig;
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, first_uid, token};
use proctor_tests::test_workspace::give;
use std::fs;
use std::time::Duration;
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

async fn sessions(client: &Client) -> Result<Vec<v1::Session>, Status> {
    let answer = client.sessions.clone().list_sessions(v1::ListSessionsRequest::default()).await?;
    Ok(answer.into_inner().sessions)
}

async fn refused(client: &Client) -> (Code, String) {
    let status = sessions(client).await.unwrap_err();
    (status.code(), status.message().to_owned())
}

fn unauthenticated(text: &str) -> (Code, String) {
    (Code::Unauthenticated, text.to_owned())
}

#[tokio::test]
async fn every_way_to_be_known_is_open_at_once_and_none_stands_in_for_another() {
    let keys = Keys::new();
    let supervisor = keys.supervisor();
    let tls = |name, token: Option<String>| {
        let (address, tls) = (supervisor.address, keys.client(name));
        async move { Client::tls(address, tls, token.as_deref()).await.unwrap() }
    };
    let local = supervisor.local_client().await;
    let session = local.open(&supervisor.paused_test("alpha", "shop").workspace).await;
    let own = supervisor.empty_workspace("beta", "own");
    let beta = tls(Some("spiffe://x/beta"), None).await;
    let betas = beta.open(&own).await;
    for (client, expected) in [
        (local, &session),
        (tls(None, Some(token("alpha"))).await, &session),
        (tls(None, Some(token("beta"))).await, &betas),
        (tls(None, Some(keys.jwt("beta", 60))).await, &betas),
        (beta.clone(), &betas),
        // A call with a token is judged by the token, whatever its connection has shown.
        (tls(Some("spiffe://x/beta"), Some(token("alpha"))).await, &session),
    ] {
        let seen: Vec<String> = sessions(&client).await.unwrap().into_iter().map(|seen| seen.session_id).collect();
        assert_eq!(seen, std::slice::from_ref(expected));
    }
    let nobody = unauthenticated("the bearer token is not known");
    for (shown, expected) in [
        ((None, Some("token-of-nobody".to_owned())), &nobody),
        ((Some("spiffe://x/beta"), Some("token-of-nobody".to_owned())), &nobody),
        ((None, Some(keys.jwt("beta", -60))), &nobody),
        ((None, Some(keys.jwt("nobody", 60))), &nobody),
        ((Some("spiffe://x/nobody"), None), &unauthenticated("the client certificate is not known")),
        ((None, None), &unauthenticated("metadata `authorization: Bearer TOKEN` is missing")),
    ] {
        assert_eq!(&refused(&tls(shown.0, shown.1.clone()).await).await, expected, "{shown:?}");
    }
    wait_until("the log says why", || supervisor.said().contains("expired"));

    let host = |client: Client| async move { client.host.clone().get_host(v1::GetHostRequest {}).await.map(drop) };
    let operator = tls(Some("spiffe://x/operator"), None).await;
    assert!(host(operator.clone()).await.is_ok());
    assert_eq!(host(beta).await.unwrap_err().code(), Code::PermissionDenied, "a tenant is no operator");
    assert_eq!(refused(&operator).await.0, Code::PermissionDenied, "an operator is no tenant");

    // Somebody else's authority, and nobody who speaks without TLS.
    let stranger = Keys::new();
    let forged = TlsConfig { authorities: keys.authorities.clone(), ..stranger.client(Some("spiffe://x/beta")) };
    let forged = Client::tls(supervisor.address, forged, None).await;
    assert!(match forged {
        Ok(client) => sessions(&client).await.is_err(),
        Err(_) => true,
    });
    assert!(Client::tls(supervisor.address, stranger.client(None), Some(&token("beta"))).await.is_err());
}

/// Rotation: the new token counts beside the old one, and the session does not notice that the old one goes.
#[tokio::test]
async fn a_token_is_replaced_under_a_session_that_lives_on_and_streams_of_the_old_one_end() {
    let supervisor = SupervisorProcess::start();
    let old = supervisor.client("beta").await;
    let waiting = supervisor.paused_test("beta", "shop");
    let session = old.open(&waiting.workspace).await;
    let request = v1::RunTestsRequest { session_id: session.clone(), ..Default::default() };
    let mut running = old.start(request).await.unwrap();
    let run = running.until("the start", |event| matches!(event, Event::Started(_))).await.run_id;
    waiting.wait_until_paused();

    let hash = |name: &str| blake3::hash(token(name).as_bytes()).to_string();
    let both =
        |text: String| text.replace(&format!("{:?}", hash("beta")), &format!("{:?}, {:?}", hash("beta"), hash("new")));
    assert!(supervisor.reload(both).contains("was reloaded"));
    let new = supervisor.client("new").await;
    let mut watched = new.watch(&run, 0).await;
    watched.until("the start", |event| matches!(event, Event::Started(_))).await;
    assert_eq!(sessions(&old).await.unwrap().len(), 1, "both count");
    let waits = tokio::spawn({
        let (mut runs, run_id) = (old.runs.clone(), run.clone());
        async move { runs.get_run(v1::GetRunRequest { run_id, wait_ms: 600_000 }).await }
    });

    let only_new = |text: String| text.replace(&format!("{:?}, ", hash("beta")), "");
    assert!(supervisor.reload(only_new).contains("sessions_closed=0"));
    let gone = unauthenticated("the bearer token is not known");
    assert_eq!(refused(&old).await, gone);
    let ended = loop {
        match running.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended as if the run had"),
            Err(status) => break (status.code(), status.message().to_owned()),
        }
    };
    assert_eq!(ended, gone);
    // It may have asked just before or just after: it is refused in both cases, and does not wait for ten minutes.
    assert_eq!(waits.await.unwrap().unwrap_err().code(), Code::Unauthenticated);
    waiting.resume();
    assert_eq!(watched.to_end().await.report().outcome(), v1::Outcome::Passed, "the run and its other streams go on");
    assert_eq!(sessions(&new).await.unwrap()[0].session_id, session);
}

/// The transport asks a stream for nothing while its client takes nothing.
#[tokio::test]
async fn a_stream_of_an_old_token_that_nobody_takes_from_is_in_nobodys_way() {
    let tenant = "quota = { subscribers = 1 }".to_owned();
    let supervisor = SupervisorProcess::with(&SupervisorSettings { tenant, ..SupervisorSettings::default() });
    let hash = |name: &str| blake3::hash(token(name).as_bytes()).to_string();
    let both =
        |text: String| text.replace(&format!("{:?}", hash("beta")), &format!("{:?}, {:?}", hash("beta"), hash("new")));
    assert!(supervisor.reload(both).contains("was reloaded"));
    let new = supervisor.client("new").await;
    let session_id = new.open(&supervisor.empty_workspace("beta", "shop")).await;
    let command = ["/usr/bin/head", "-c", "1M", "/dev/zero"].map(str::to_owned).into();
    let request = v1::RunTestsRequest { session_id, command, ..Default::default() };
    let run = new.start(request).await.unwrap().to_end().await.run_id;

    let endpoint: Endpoint = format!("http://{}", supervisor.address).parse().unwrap();
    let old = Client::on(&endpoint.initial_stream_window_size(0).connect().await.unwrap(), "beta");
    let mut watched = old.watch(&run, 0).await;
    let refused = new.runs.clone().watch_run(v1::WatchRunRequest { run_id: run.clone(), cursor: 0 }).await;
    assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted, "there is one stream");
    let only_new = |text: String| text.replace(&format!("{:?}, ", hash("beta")), "");
    assert!(supervisor.reload(only_new).contains("was reloaded"));
    let again = async {
        while new.runs.clone().watch_run(v1::WatchRunRequest { run_id: run.clone(), cursor: 0 }).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, again).await.expect("the stream is given back");
    assert!(timeout(Duration::from_millis(1), watched.next()).await.is_err(), "its client takes nothing still");
}

/// Whose sessions are being closed.
async fn until_none(client: &Client) {
    let closed = async { while !sessions(client).await.unwrap().is_empty() {} };
    timeout(WAIT_MAX, closed).await.unwrap();
}

#[tokio::test]
async fn a_tenant_that_is_gone_has_no_session_left_and_one_whose_root_is_gone_either() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    alpha.open(&supervisor.empty_workspace("alpha", "kept")).await;
    let waiting = supervisor.paused_test("beta", "shop");
    let session = beta.open(&waiting.workspace).await;
    let request = v1::RunTestsRequest { session_id: session, ..Default::default() };
    let mut running = beta.start(request).await.unwrap();
    running.until("the start", |event| matches!(event, Event::Started(_))).await;
    waiting.wait_until_paused();

    let mut whole = String::new();
    let said = supervisor.reload(|text| {
        whole.clone_from(&text);
        text.split("[[tenant]]\nid = \"beta\"").next().unwrap().to_owned()
    });
    assert!(said.contains("sessions_closed=1"), "{said}");
    assert_eq!(refused(&beta).await.0, Code::Unauthenticated);
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1, "of others nothing is closed");
    assert!(supervisor.reload(|_| whole).contains("was reloaded"));
    until_none(&beta).await; // What is gone does not come back.

    let elsewhere = supervisor.dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let root = format!("{:?}", supervisor.dir().join("alpha"));
    let said = supervisor.reload(|text| text.replace(&root, &format!("{elsewhere:?}")));
    assert!(said.contains("sessions_closed=1"), "{said}");
    until_none(&alpha).await;
}

/// A tenant may remove what is below its roots, and a volume may not be mounted: others' tokens are revoked all the same.
#[tokio::test]
async fn a_root_that_is_not_there_keeps_nobody_from_starting_or_from_revoking_a_token() {
    let place = tempfile::tempdir().unwrap();
    let unmounted = place.path().join("unmounted");
    let root = unmounted.to_str().unwrap().to_owned();
    let supervisor =
        SupervisorProcess::with(&SupervisorSettings { root: root.clone(), ..SupervisorSettings::default() });
    let told = format!("tenant \"alpha\": root {root} cannot be read (No such file or directory");
    assert!(supervisor.said().contains(&told), "the start says it:\n{}", supervisor.said());
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let sub = supervisor.empty_workspace("alpha", "sub");
    let alphas = format!("{:?}", supervisor.root("alpha"));
    let nested = |text: String| text.replace(&alphas, &format!("{alphas}, {sub:?}"));
    assert!(supervisor.reload(nested).contains("is inside root"));
    alpha.open(&sub).await;

    fs::remove_dir(&sub).unwrap();
    std::os::unix::fs::symlink("/etc", &sub).unwrap();
    let beta_token = blake3::hash(token("beta").as_bytes()).to_string();
    let said = supervisor.reload(|text| text.replace(&beta_token, &"ab".repeat(32)));
    assert!(said.contains("is reached through a link") && said.contains("was reloaded"), "{said}");
    assert_eq!(refused(&beta).await, unauthenticated("the bearer token is not known"));
    assert!(alpha.try_open_session(&sub, true).await.is_err(), "a link in place of a root leads nowhere");

    fs::remove_file(&sub).unwrap();
    assert!(supervisor.reload(|text| text).contains("was reloaded"));
    assert!(alpha.try_open_session(&unmounted, true).await.is_err());
    // One that comes back needs no SIGHUP.
    fs::create_dir(&unmounted).unwrap();
    give(&unmounted, first_uid("alpha"));
    alpha.open(&unmounted).await;
}

#[tokio::test]
async fn a_host_file_that_is_wrong_or_asks_too_much_changes_nothing() {
    let supervisor = SupervisorProcess::start();
    let alpha = supervisor.client("alpha").await;
    alpha.open(&supervisor.empty_workspace("alpha", "kept")).await;
    let mut whole = String::new();
    let said = supervisor.reload(|text| {
        whole.clone_from(&text);
        text.replace("id = \"alpha\"", "id = \"al pha\"").replace("id = \"beta\"", "id = \"beta\"\nsessions = 3")
    });
    for wanted in ["id must be 1 to 64 letters", "tenant \"beta\": sessions: unknown field", "stays in force"] {
        assert!(said.contains(wanted), "{wanted} in\n{said}");
    }
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1);
    // A file that cannot be read says nothing about any key, and what is only a note of a wrong one is no error.
    let said = supervisor.reload(|_| format!("garbage = = =\n{}", whole.replace("state_dir = \"", "state_dir = \"/x")));
    assert!(said.contains("stays in force") && !said.contains("after a restart"), "{said}");
    let said = supervisor.reload(|_| {
        let text = whole.replace("id = \"alpha\"", "id = \"al pha\"").replace("[host]\n", "[host]\ncpus = 7\n");
        format!("{text}[max]\nmemory = \"1GiB\"\n[defaults]\nmemory = \"2GiB\"\n")
    });
    let level =
        |words: &str| said.lines().find(|line| line.contains(words)).unwrap().split_whitespace().nth(1).unwrap();
    assert_eq!((level("id must be 1 to 64"), level("exceeds [max]")), ("ERROR", "WARN"), "{said}");
    assert!(!said.contains("after a restart"), "{said}");

    // Users of the host do not change hands under a running supervisor.
    if nix::unistd::geteuid().is_root() {
        let said = supervisor.reload(|_| whole.replace("first = 401000", "first = 900000"));
        assert!(said.contains("tenant \"beta\": uid_range cannot change without a restart"), "{said}");
        let said = supervisor.reload(|_| whole.replace("id = \"beta\"", "id = \"gamma\""));
        assert!(said.contains("tenant \"gamma\": uid_range overlaps that of tenant \"beta\""), "{said}");
    }

    let said = supervisor.reload(|_| {
        let text = whole
            .replace("tcp = \"127.0.0.1:0\"", "tcp = \"127.0.0.1:1\"")
            .replace("state_dir = \"", "state_dir = \"/x");
        text.replace("[host]\n", "[host]\ncpus = 7\n")
    });
    for wanted in ["listen.tcp takes effect only after a restart", "state_dir takes", "host.cpus takes", "was reloaded"]
    {
        assert!(said.contains(wanted), "{wanted} in\n{said}");
    }
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1);
}

#[tokio::test]
async fn new_connections_see_the_new_certificate_and_old_ones_the_new_authorities() {
    let keys = Keys::new();
    let supervisor = keys.supervisor();
    let beta = Client::tls(supervisor.address, keys.client(Some("spiffe://x/beta")), None).await.unwrap();
    assert_eq!(sessions(&beta).await.unwrap(), []);
    let other = Keys::new();
    for name in ["server.pem", "server.key", "clients.pem"] {
        fs::copy(other.path(name), keys.path(name)).unwrap();
    }
    assert!(supervisor.reload(|text| text).contains("was reloaded"));
    assert_eq!(refused(&beta).await, unauthenticated("the client certificate is not known"), "on its old connection");
    assert!(Client::tls(supervisor.address, keys.client(None), None).await.is_err(), "another certificate is shown");
    let new = Client::tls(supervisor.address, other.client(Some("spiffe://x/beta")), None).await.unwrap();
    assert_eq!(sessions(&new).await.unwrap(), []);
}
