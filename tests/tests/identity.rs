//! Who calls a real supervisor, over every transport at once, and what SIGHUP changes under calls that go on. Which tokens
//! and certificates count is proved beside the code; here it is only whether that is what is asked.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proctor_proto::client::Tls;
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use proctor_tests::supervisor::{Settings, Supervisor, token};
use proctor_tests::wire::Client;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tonic::{Code, Status};

/// Certificates and keys of a supervisor and of those who call it.
struct Keys {
    dir: TempDir,
    authorities: String,
    authority: Issuer<'static, KeyPair>,
    issuer: KeyPair,
}

impl Keys {
    fn new() -> Keys {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authorities = params.self_signed(&key).unwrap().pem();
        let authority = Issuer::new(params, key);
        let issuer = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let keys = Keys { dir, authorities, authority, issuer };
        keys.renew();
        keys.write("clients.pem", &keys.authorities);
        keys.write("issuer.pem", &keys.issuer.public_key_pem());
        keys
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// A new certificate for the supervisor: what is in it.
    fn renew(&self) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        self.write("server.pem", &certificate.pem());
        self.write("server.key", &key.serialize_pem());
        certificate.der().to_vec()
    }

    fn client(&self, name: Option<&str>) -> Tls {
        let own = name.map(|name| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
            (params.signed_by(&key, &self.authority).unwrap().pem(), key.serialize_pem())
        });
        Tls { authorities: self.authorities.clone(), own }
    }

    fn jwt(&self, subject: &str, lives_s: i64) -> String {
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
        let claims = serde_json::json!({ "iss": "i", "aud": "proctor", "sub": subject, "exp": now + lives_s });
        let key = EncodingKey::from_ed_der(self.issuer.serialized_der());
        encode(&Header::new(Algorithm::EdDSA), &claims, &key).unwrap()
    }

    fn supervisor(&self) -> Supervisor {
        let dir = self.dir.path().display();
        let listen = format!(
            "[listen.tls]\ncert = \"{dir}/server.pem\"\nkey = \"{dir}/server.key\"\nclient_ca = \"{dir}/clients.pem\"\n\
             [jwt]\nkeys = [\"{dir}/issuer.pem\"]\nissuer = \"i\"\naudience = \"proctor\"\n"
        );
        let supervisor = Supervisor::with(&Settings { listen, ..Settings::default() });
        let said = supervisor.reload(|text| {
            let text = text.replace("[operators]\n", "[operators]\ncert_names = [\"spiffe://x/operator\"]\n");
            let beta = "jwt_subjects = [\"beta\"]\ncert_names = [\"spiffe://x/beta\"]\n";
            text.replace("id = \"beta\"\n", &format!("id = \"beta\"\n{beta}"))
        });
        assert!(said.contains("was read anew"), "{said}");
        supervisor
    }
}

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
    let session = local.open(&supervisor.waiting("alpha", "shop").workspace).await;
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
    assert!(supervisor.said().contains("expired"), "the log says why:\n{}", supervisor.said());

    let host = |client: Client| async move { client.host.clone().get_host(v1::GetHostRequest {}).await.map(drop) };
    let operator = tls(Some("spiffe://x/operator"), None).await;
    assert!(host(operator.clone()).await.is_ok());
    assert_eq!(host(beta).await.unwrap_err().code(), Code::PermissionDenied, "a tenant is no operator");
    assert_eq!(refused(&operator).await.0, Code::PermissionDenied, "an operator is no tenant");

    // Somebody else's authority, and nobody who speaks without TLS.
    let stranger = Keys::new();
    let forged = Tls { authorities: keys.authorities.clone(), ..stranger.client(Some("spiffe://x/beta")) };
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
    let supervisor = Supervisor::start();
    let old = supervisor.client("beta").await;
    let waiting = supervisor.waiting("beta", "shop");
    let session = old.open(&waiting.workspace).await;
    let request = v1::RunTestsRequest { session_id: session.clone(), ..Default::default() };
    let mut running = old.start(request).await.unwrap();
    let run = running.until("the start", |event| matches!(event, Event::Started(_))).await.run_id;
    waiting.until_it_waits();

    let hash = |name: &str| blake3::hash(token(name).as_bytes()).to_string();
    let both =
        |text: String| text.replace(&format!("{:?}", hash("beta")), &format!("{:?}, {:?}", hash("beta"), hash("new")));
    assert!(supervisor.reload(both).contains("was read anew"));
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
    waiting.open_the_gate();
    assert_eq!(watched.to_end().await.report().outcome(), v1::Outcome::Passed, "the run and its other streams go on");
    assert_eq!(sessions(&new).await.unwrap()[0].session_id, session);
}

#[tokio::test]
async fn a_tenant_that_is_gone_has_no_session_left_and_one_whose_root_is_gone_either() {
    let supervisor = Supervisor::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    alpha.open(&supervisor.empty_workspace("alpha", "kept")).await;
    let waiting = supervisor.waiting("beta", "shop");
    let session = beta.open(&waiting.workspace).await;
    let request = v1::RunTestsRequest { session_id: session, ..Default::default() };
    let mut running = beta.start(request).await.unwrap();
    running.until("the start", |event| matches!(event, Event::Started(_))).await;
    waiting.until_it_waits();

    let mut whole = String::new();
    let said = supervisor.reload(|text| {
        whole.clone_from(&text);
        text.split("[[tenant]]\nid = \"beta\"").next().unwrap().to_owned()
    });
    assert!(said.contains("sessions_closed=1"), "{said}");
    assert_eq!(refused(&beta).await.0, Code::Unauthenticated);
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1, "of others nothing is closed");
    assert!(supervisor.reload(|_| whole).contains("was read anew"));
    assert_eq!(sessions(&beta).await.unwrap(), [], "what is gone does not come back");

    let elsewhere = supervisor.dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let root = format!("{:?}", supervisor.dir().join("alpha"));
    let said = supervisor.reload(|text| text.replace(&root, &format!("{elsewhere:?}")));
    assert!(said.contains("sessions_closed=1"), "{said}");
    assert_eq!(sessions(&alpha).await.unwrap(), []);
}

#[tokio::test]
async fn a_host_file_that_is_wrong_or_asks_too_much_changes_nothing() {
    let supervisor = Supervisor::start();
    let alpha = supervisor.client("alpha").await;
    alpha.open(&supervisor.empty_workspace("alpha", "kept")).await;
    let mut whole = String::new();
    let said = supervisor.reload(|text| {
        whole.clone_from(&text);
        text.replace("id = \"alpha\"", "id = \"al pha\"").replace("id = \"beta\"", "id = \"beta\"\nsessions = 3")
    });
    for wanted in ["id must be 1 to 64 letters", "tenant.1.sessions: unknown field", "stays in force"] {
        assert!(said.contains(wanted), "{wanted} in\n{said}");
    }
    assert_eq!(sessions(&alpha).await.unwrap().len(), 1);

    // Users of the host do not change hands under a running supervisor.
    if nix::unistd::geteuid().is_root() {
        let said = supervisor.reload(|_| whole.replace("first = 401000", "first = 900000"));
        assert!(said.contains("tenant \"beta\": uid_range changes with a restart only"), "{said}");
        let said = supervisor.reload(|_| whole.replace("id = \"beta\"", "id = \"gamma\""));
        assert!(said.contains("tenant \"gamma\": uid_range overlaps that of tenant \"beta\""), "{said}");
    }

    let said = supervisor.reload(|_| {
        let text = whole
            .replace("tcp = \"127.0.0.1:0\"", "tcp = \"127.0.0.1:1\"")
            .replace("state_dir = \"", "state_dir = \"/x");
        text.replace("[host]\n", "[host]\ncpus = 7\n")
    });
    for wanted in ["listen.tcp changes with a restart only", "state_dir changes", "host changes", "was read anew"] {
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
        fs::copy(other.dir.path().join(name), keys.dir.path().join(name)).unwrap();
    }
    assert!(supervisor.reload(|text| text).contains("was read anew"));
    assert_eq!(refused(&beta).await, unauthenticated("the client certificate is not known"), "on its old connection");
    assert!(Client::tls(supervisor.address, keys.client(None), None).await.is_err(), "another certificate is shown");
    let new = Client::tls(supervisor.address, other.client(Some("spiffe://x/beta")), None).await.unwrap();
    assert_eq!(sessions(&new).await.unwrap(), []);
}
