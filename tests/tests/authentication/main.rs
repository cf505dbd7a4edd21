//! Authentication at a real supervisor over all transports at once, and reloads by SIGHUP during calls. Unit tests beside
//! the code check which tokens and certificates are valid; these tests check that those rules are applied.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

mod credentials;
mod shim_tls;

use credentials::Keys;
use proctor_proto::client::TlsConfig;
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, first_uid, token};
use proctor_tests::test_workspace::chown_tree;
use std::fs;
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

async fn sessions(client: &Client) -> Result<Vec<v1::Session>, Status> {
    let answer = client.sessions.clone().list_sessions(v1::ListSessionsRequest::default()).await?;
    Ok(answer.into_inner().sessions)
}

async fn expect_refusal(client: &Client) -> (Code, String) {
    let status = sessions(client).await.unwrap_err();
    (status.code(), status.message().to_owned())
}

fn unauthenticated(text: &str) -> (Code, String) {
    (Code::Unauthenticated, text.to_owned())
}

#[tokio::test]
async fn accepts_every_credential_kind_and_confuses_none() {
    let keys = Keys::new();
    let supervisor = keys.supervisor();
    let tls = |name, token: Option<String>| {
        let (address, tls) = (supervisor.address, keys.client(name));
        async move { Client::tls(address, tls, token.as_deref()).await.unwrap() }
    };
    let local = supervisor.local_client().await;
    let session = local.open_session(&supervisor.paused_test("alpha", "shop").workspace).await;
    let beta_workspace = supervisor.empty_workspace("beta", "own");
    let beta = tls(Some("spiffe://x/beta"), None).await;
    let beta_session = beta.open_session(&beta_workspace).await;
    for (client, expected) in [
        (local, &session),
        (tls(None, Some(token("alpha"))).await, &session),
        (tls(None, Some(token("beta"))).await, &beta_session),
        (tls(None, Some(keys.jwt("beta", 60))).await, &beta_session),
        (beta.clone(), &beta_session),
        // A token takes precedence over the certificate of the connection.
        (tls(Some("spiffe://x/beta"), Some(token("alpha"))).await, &session),
    ] {
        let found: Vec<String> = sessions(&client).await.unwrap().into_iter().map(|found| found.session_id).collect();
        assert_eq!(found, std::slice::from_ref(expected));
    }
    let unknown = unauthenticated("the bearer token is not known");
    for (credentials, expected) in [
        ((None, Some("token-of-nobody".to_owned())), &unknown),
        ((Some("spiffe://x/beta"), Some("token-of-nobody".to_owned())), &unknown),
        ((None, Some(keys.jwt("beta", -60))), &unknown),
        ((None, Some(keys.jwt("nobody", 60))), &unknown),
        ((Some("spiffe://x/nobody"), None), &unauthenticated("the client certificate is not known")),
        ((None, None), &unauthenticated("metadata `authorization: Bearer TOKEN` is missing")),
    ] {
        let client = tls(credentials.0, credentials.1.clone()).await;
        assert_eq!(&expect_refusal(&client).await, expected, "{credentials:?}");
    }
    wait_until("the log names the reason", || supervisor.log().contains("expired"));

    let host = |client: Client| async move { client.host.clone().get_host(v1::GetHostRequest {}).await.map(drop) };
    let operator = tls(Some("spiffe://x/operator"), None).await;
    assert!(host(operator.clone()).await.is_ok());
    assert_eq!(host(beta).await.unwrap_err().code(), Code::PermissionDenied, "a tenant is no operator");
    assert_eq!(expect_refusal(&operator).await.0, Code::PermissionDenied, "an operator is no tenant");

    // A certificate of another authority, and a client that trusts another authority.
    let stranger = Keys::new();
    let forged = TlsConfig { authorities: keys.authorities.clone(), ..stranger.client(Some("spiffe://x/beta")) };
    let forged = Client::tls(supervisor.address, forged, None).await;
    assert!(match forged {
        Ok(client) => sessions(&client).await.is_err(),
        Err(_) => true,
    });
    assert!(Client::tls(supervisor.address, stranger.client(None), Some(&token("beta"))).await.is_err());
}

/// Rotation: the new token is accepted beside the old one, and the session survives the removal of the old one.
#[tokio::test]
async fn token_rotation_keeps_sessions_and_ends_streams_of_the_old_token() {
    let supervisor = SupervisorProcess::start();
    let old = supervisor.client("beta").await;
    let paused = supervisor.paused_test("beta", "shop");
    let session = old.open_session(&paused.workspace).await;
    let request = v1::RunTestsRequest { session_id: session.clone(), ..Default::default() };
    let mut running = old.start(request).await.unwrap();
    let run = running.wait_for_event("the start", |event| matches!(event, Event::Started(_))).await.run_id;
    paused.wait_until_paused();

    let hash = |name: &str| blake3::hash(token(name).as_bytes()).to_string();
    let both =
        |text: String| text.replace(&format!("{:?}", hash("beta")), &format!("{:?}, {:?}", hash("beta"), hash("new")));
    assert!(supervisor.reload_host_file(both).contains("was reloaded"));
    let new = supervisor.client("new").await;
    let mut watched = new.watch(&run, 0).await;
    watched.wait_for_event("the start", |event| matches!(event, Event::Started(_))).await;
    assert_eq!(sessions(&old).await.unwrap().len(), 1, "both tokens are accepted");
    let waiting_call = tokio::spawn({
        let (mut runs, run_id) = (old.runs.clone(), run.clone());
        async move { runs.get_run(v1::GetRunRequest { run_id, wait_ms: 600_000 }).await }
    });

    let only_new = |text: String| text.replace(&format!("{:?}, ", hash("beta")), "");
    assert!(supervisor.reload_host_file(only_new).contains("sessions_closed=0"));
    let gone = unauthenticated("the bearer token is not known");
    assert_eq!(expect_refusal(&old).await, gone);
    let ended = loop {
        match running.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended as if the run had ended"),
            Err(status) => break (status.code(), status.message().to_owned()),
        }
    };
    assert_eq!(ended, gone);
    // The call may have been accepted before or after the reload: in both cases it is refused without waiting 10 minutes.
    assert_eq!(waiting_call.await.unwrap().unwrap_err().code(), Code::Unauthenticated);
    paused.resume();
    let report = watched.read_to_end().await;
    assert_eq!(report.report().outcome(), v1::Outcome::Passed, "the run and its other streams go on");
    assert_eq!(sessions(&new).await.unwrap()[0].session_id, session);
}

/// The transport does not poll a stream while its client reads nothing.
#[tokio::test]
async fn revocation_frees_a_stream_whose_client_reads_nothing() {
    let tenant = "quota = { subscribers = 1 }".to_owned();
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings { tenant, ..SupervisorSettings::default() });
    let hash = |name: &str| blake3::hash(token(name).as_bytes()).to_string();
    let both =
        |text: String| text.replace(&format!("{:?}", hash("beta")), &format!("{:?}, {:?}", hash("beta"), hash("new")));
    assert!(supervisor.reload_host_file(both).contains("was reloaded"));
    let new = supervisor.client("new").await;
    let session_id = new.open_session(&supervisor.empty_workspace("beta", "shop")).await;
    let command = ["/usr/bin/head", "-c", "1M", "/dev/zero"].map(str::to_owned).into();
    let request = v1::RunTestsRequest { session_id, command, ..Default::default() };
    let run = new.start(request).await.unwrap().read_to_end().await.run_id;

    let endpoint: Endpoint = format!("http://{}", supervisor.address).parse().unwrap();
    let old = Client::over_channel(&endpoint.initial_stream_window_size(0).connect().await.unwrap(), "beta");
    let mut watched = old.watch(&run, 0).await;
    let refused = new.runs.clone().watch_run(v1::WatchRunRequest { run_id: run.clone(), cursor: 0 }).await;
    assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted, "the quota is one stream");
    let only_new = |text: String| text.replace(&format!("{:?}, ", hash("beta")), "");
    assert!(supervisor.reload_host_file(only_new).contains("was reloaded"));
    let again = async {
        while new.runs.clone().watch_run(v1::WatchRunRequest { run_id: run.clone(), cursor: 0 }).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, again).await.expect("the stream is released");
    tokio::select! {
        biased;
        event = watched.next() => panic!("its client still reads nothing: {event:?}"),
        () = std::future::ready(()) => {}
    }
}

/// Waits until all sessions of the tenant are closed.
async fn wait_until_no_sessions(client: &Client) {
    let closed = async { while !sessions(client).await.unwrap().is_empty() {} };
    timeout(WAIT_MAX, closed).await.unwrap();
}

#[tokio::test]
async fn removing_a_tenant_or_its_root_closes_its_sessions() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    alpha.open_session(&supervisor.empty_workspace("alpha", "kept")).await;
    let paused = supervisor.paused_test("beta", "shop");
    let session = beta.open_session(&paused.workspace).await;
    let request = v1::RunTestsRequest { session_id: session, ..Default::default() };
    let mut running = beta.start(request).await.unwrap();
    running.wait_for_event("the start", |event| matches!(event, Event::Started(_))).await;
    paused.wait_until_paused();

    let mut whole = String::new();
    let log = supervisor.reload_host_file(|text| {
        whole.clone_from(&text);
        text.split("[[tenant]]\nid = \"beta\"").next().unwrap().to_owned()
    });
    assert!(log.contains("sessions_closed=1"), "{log}");
    assert_eq!(expect_refusal(&beta).await.0, Code::Unauthenticated);
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1, "other tenants keep their sessions");
    assert!(supervisor.reload_host_file(|_| whole).contains("was reloaded"));
    wait_until_no_sessions(&beta).await; // Closed sessions do not come back.

    let elsewhere = supervisor.dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let root = format!("{:?}", supervisor.dir().join("alpha"));
    let log = supervisor.reload_host_file(|text| text.replace(&root, &format!("{elsewhere:?}")));
    assert!(log.contains("sessions_closed=1"), "{log}");
    wait_until_no_sessions(&alpha).await;
}

/// A tenant may remove a directory below its root, and a volume may be unmounted: tokens must stay revocable.
#[tokio::test]
async fn missing_root_blocks_neither_start_nor_revocation() {
    let dir = tempfile::tempdir().unwrap();
    let unmounted = dir.path().join("unmounted");
    let root = unmounted.to_str().unwrap().to_owned();
    let supervisor =
        SupervisorProcess::with_settings(&SupervisorSettings { root: root.clone(), ..SupervisorSettings::default() });
    let warning = format!("tenant \"alpha\": root {root} cannot be read (No such file or directory");
    assert!(supervisor.log().contains(&warning), "the start logs it:\n{}", supervisor.log());
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let sub = supervisor.empty_workspace("alpha", "sub");
    let alpha_root = format!("{:?}", supervisor.root("alpha"));
    let nested = |text: String| text.replace(&alpha_root, &format!("{alpha_root}, {sub:?}"));
    assert!(supervisor.reload_host_file(nested).contains("is inside root"));
    alpha.open_session(&sub).await;

    fs::remove_dir(&sub).unwrap();
    std::os::unix::fs::symlink("/etc", &sub).unwrap();
    let beta_token = blake3::hash(token("beta").as_bytes()).to_string();
    let log = supervisor.reload_host_file(|text| text.replace(&beta_token, &"ab".repeat(32)));
    assert!(log.contains("is reached through a link") && log.contains("was reloaded"), "{log}");
    assert_eq!(expect_refusal(&beta).await, unauthenticated("the bearer token is not known"));
    assert!(alpha.try_open_session(&sub, true).await.is_err(), "a symlink in place of a root is refused");

    fs::remove_file(&sub).unwrap();
    assert!(supervisor.reload_host_file(|text| text).contains("was reloaded"));
    assert!(alpha.try_open_session(&unmounted, true).await.is_err());
    // A root that reappears needs no SIGHUP.
    fs::create_dir(&unmounted).unwrap();
    chown_tree(&unmounted, first_uid("alpha"));
    alpha.open_session(&unmounted).await;
}

#[tokio::test]
async fn reload_rejects_an_invalid_host_file_as_a_whole() {
    let supervisor = SupervisorProcess::start();
    let alpha = supervisor.client("alpha").await;
    alpha.open_session(&supervisor.empty_workspace("alpha", "kept")).await;
    let mut whole = String::new();
    let log = supervisor.reload_host_file(|text| {
        whole.clone_from(&text);
        text.replace("id = \"alpha\"", "id = \"al pha\"").replace("id = \"beta\"", "id = \"beta\"\nsessions = 3")
    });
    for wanted in ["id must be 1 to 64 letters", "tenant \"beta\": sessions: unknown field", "stays in force"] {
        assert!(log.contains(wanted), "{wanted} in\n{log}");
    }
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1);
    // Of an unparsable file no key is reported, and notes about an invalid file are not errors.
    let log = supervisor
        .reload_host_file(|_| format!("garbage = = =\n{}", whole.replace("state_dir = \"", "state_dir = \"/x")));
    assert!(log.contains("stays in force") && !log.contains("after a restart"), "{log}");
    let log = supervisor.reload_host_file(|_| {
        let text = whole.replace("id = \"alpha\"", "id = \"al pha\"").replace("[host]\n", "[host]\ncpus = 7\n");
        format!("{text}[max]\nmemory = \"1GiB\"\n[defaults]\nmemory = \"2GiB\"\n")
    });
    let level = |words: &str| log.lines().find(|line| line.contains(words)).unwrap().split_whitespace().nth(1).unwrap();
    assert_eq!((level("id must be 1 to 64"), level("exceeds [max]")), ("ERROR", "WARN"), "{log}");
    assert!(!log.contains("after a restart"), "{log}");

    // User id ranges of a running supervisor do not change.
    if nix::unistd::geteuid().is_root() {
        let log = supervisor.reload_host_file(|_| whole.replace("first = 401000", "first = 900000"));
        assert!(log.contains("tenant \"beta\": uid_range cannot change without a restart"), "{log}");
        let log = supervisor.reload_host_file(|_| whole.replace("id = \"beta\"", "id = \"gamma\""));
        assert!(log.contains("tenant \"gamma\": uid_range overlaps that of tenant \"beta\""), "{log}");
    }

    let log = supervisor.reload_host_file(|_| {
        let text = whole
            .replace("tcp = \"127.0.0.1:0\"", "tcp = \"127.0.0.1:1\"")
            .replace("state_dir = \"", "state_dir = \"/x");
        text.replace("[host]\n", "[host]\ncpus = 7\n")
    });
    for wanted in ["listen.tcp takes effect only after a restart", "state_dir takes", "host.cpus takes", "was reloaded"]
    {
        assert!(log.contains(wanted), "{wanted} in\n{log}");
    }
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1);
}

#[tokio::test]
async fn reload_applies_new_certificates_and_authorities() {
    let keys = Keys::new();
    let supervisor = keys.supervisor();
    let beta = Client::tls(supervisor.address, keys.client(Some("spiffe://x/beta")), None).await.unwrap();
    assert_eq!(sessions(&beta).await.unwrap(), []);
    let other = Keys::new();
    for name in ["server.pem", "server.key", "clients.pem"] {
        fs::copy(other.path(name), keys.path(name)).unwrap();
    }
    assert!(supervisor.reload_host_file(|text| text).contains("was reloaded"));
    assert_eq!(
        expect_refusal(&beta).await,
        unauthenticated("the client certificate is not known"),
        "on its old connection"
    );
    let result = Client::tls(supervisor.address, keys.client(None), None).await;
    assert!(result.is_err(), "the new certificate is presented");
    let new = Client::tls(supervisor.address, other.client(Some("spiffe://x/beta")), None).await.unwrap();
    assert_eq!(sessions(&new).await.unwrap(), []);
}
