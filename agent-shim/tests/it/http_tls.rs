//! TLS of the HTTP server, with real certificates: its own, and those of clients, which give access instead of a token.

use crate::client::shim_with_stderr;
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::http_client::{Answer, Connection, HttpShim, TOKEN};
use crate::private_supervisor::doctor;
use crate::raw_client::{SOON, initialize, stateless};
use hyper::Method;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Years in which certificates end.
const LATER: i32 = 4_000;
const BEFORE: i32 = 2_020;

const ME: &str = "spiffe://example/agents/me";

/// A certificate authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
struct Certificate {
    chain: String,
    key: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate with this name until the beginning of a year.
    fn certificate(&self, name: SanType, until: i32) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        params.not_after = date_time_ymd(until, 1, 1);
        Certificate { chain: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    fn client(&self, name: &str) -> Certificate {
        self.certificate(SanType::URI(name.try_into().unwrap()), LATER)
    }
}

/// A shim that speaks TLS, and the authority of its certificate and of its clients.
struct SecureShim {
    shim: HttpShim,
    authority: Authority,
}

impl SecureShim {
    /// `options`: beside those of its certificate; a name that ends in `.pem`, or is `token`, is that of a file of its directory.
    async fn start(fake: &FakeSupervisor, options: &[&str]) -> SecureShim {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let own = authority.certificate(SanType::DnsName("localhost".try_into().unwrap()), LATER);
        for (name, text) in
            [("cert.pem", &own.chain), ("key.pem", &own.key), ("ca.pem", &authority.pem), ("token", &TOKEN.to_owned())]
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let options = [&["--http-cert", "cert.pem", "--http-key", "key.pem", "--workspace", "/"], options].concat();
        let options: Vec<String> = options.into_iter().map(|option| in_dir(dir.path(), option)).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        SecureShim { shim: HttpShim::start(fake, &options, dir).await, authority }
    }

    /// How a client connects, with this certificate or without one.
    fn connector(&self, client: Option<&Certificate>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match client {
            Some(Certificate { chain, key }) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self, client: Option<&Certificate>) -> Result<Connection, Box<dyn Error>> {
        self.shim.secure_connection(&self.connector(client)).await
    }

    /// The answer to `message` over a connection, with this token if it is not empty.
    async fn post(&self, connection: &mut Connection, token: &str, message: Value) -> Result<Answer, Box<dyn Error>> {
        let authorization = if token.is_empty() { String::new() } else { format!("Bearer {token}") };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let name = message["params"]["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("authorization", authorization.as_str())];
        if method != "initialize" {
            headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", &method), ("mcp-name", &name)]);
        }
        connection.exchange(self.shim.request(Method::POST, "/mcp", &headers, message.to_string().into_bytes())).await
    }

    /// The status of a call over a new connection; an error if the handshake is refused.
    async fn status(&self, client: Option<&Certificate>, token: &str) -> Result<u16, Box<dyn Error>> {
        let mut connection = self.connect(client).await?;
        Ok(self.post(&mut connection, token, tool_call()).await?.status)
    }

    fn replace(&self, name: &str, text: &str) {
        let next = self.shim.dir.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.shim.dir.path().join(name)).unwrap();
    }
}

fn in_dir(dir: &Path, option: &str) -> String {
    let is_file = Path::new(option).extension().is_some_and(|end| end == "pem") || option == "token";
    if is_file { dir.join(option).to_str().unwrap().to_owned() } else { option.to_owned() }
}

// It opens a session at the supervisor.
fn tool_call() -> Value {
    stateless(json!(1), "tools/call", json!({"name": "last_test_failures", "arguments": {}}))
}

fn refusal(status: Result<u16, Box<dyn Error>>) -> String {
    format!("{:?}", status.unwrap_err())
}

#[tokio::test]
async fn a_client_certificate_gives_access_instead_of_a_token() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = SecureShim::start(&fake, &["--http-client-ca", "ca.pem"]).await;
    let expired = shim.authority.certificate(SanType::URI(ME.try_into().unwrap()), BEFORE);
    let forged = Authority::new().client(ME);
    assert!(refusal(shim.status(Some(&expired), "").await).contains("CertificateExpired"));
    let forged = refusal(shim.status(Some(&forged), "").await);
    assert!(forged.contains("UnknownCA") || forged.contains("DecryptError"), "{forged}");

    let mut stranger = shim.connect(None).await.unwrap();
    let answer = shim.post(&mut stranger, "", initialize("2025-11-25")).await.unwrap();
    assert_eq!((answer.status, answer.error().0), (401, -32600), "{answer:?}");
    assert!(answer.error().1.contains("client certificate of an authority in --http-client-ca"), "{answer:?}");
    let base = format!("https://127.0.0.1:{}", shim.shim.port);
    let path = "/.well-known/oauth-protected-resource/mcp";
    assert!(answer.header("www-authenticate").contains(&format!("resource_metadata=\"{base}{path}\"")), "{answer:?}");
    let request = shim.shim.request(Method::GET, path, &[("authorization", "")], vec![]);
    let document: Value = serde_json::from_str(&stranger.exchange(request).await.unwrap().body).unwrap();
    assert_eq!(document["resource"], format!("{base}/mcp"));
    assert_eq!(document["bearer_methods_supported"], json!([]));
    assert_eq!(shim.status(None, TOKEN).await.unwrap(), 401, "no token gives access");
    assert!(fake.state().created.is_empty(), "a refused caller reaches no supervisor");

    let mut connection = shim.connect(Some(&shim.authority.client(ME))).await.unwrap();
    for message in [initialize("2025-11-25"), tool_call()] {
        let answer = shim.post(&mut connection, "", message).await.unwrap();
        assert!(answer.status == 200 && answer.message()["result"].is_object(), "{answer:?}");
    }
    assert_eq!(fake.state().created.len(), 1);
}

#[tokio::test]
async fn only_certificates_with_a_configured_name_give_access() {
    let fake = FakeSupervisor::start(FakeState::default());
    let names = ["--http-client-ca", "ca.pem", "--http-client-name", ME, "--http-client-name", "Agent.example"];
    let shim = SecureShim::start(&fake, &names).await;
    let dns = |name: &str| shim.authority.certificate(SanType::DnsName(name.try_into().unwrap()), LATER);
    for (client, status) in [
        (shim.authority.client(ME), 200),
        (dns("agent.example"), 200),
        (shim.authority.client("spiffe://example/agents/other"), 401),
        (shim.authority.client(&ME.to_uppercase()), 401),
        (dns("other.example"), 401),
    ] {
        assert_eq!(shim.status(Some(&client), "").await.unwrap(), status);
    }
}

#[tokio::test]
async fn a_token_takes_precedence_over_a_certificate_and_neither_reaches_the_supervisor() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = SecureShim::start(&fake, &["--http-client-ca", "ca.pem", "--http-token-file", "token"]).await;
    let me = shim.authority.client(ME);
    assert_eq!(shim.status(None, TOKEN).await.unwrap(), 200);
    assert_eq!(shim.status(Some(&me), "").await.unwrap(), 200);
    assert_eq!(shim.status(Some(&me), TOKEN).await.unwrap(), 200);
    assert_eq!(shim.status(Some(&me), "another").await.unwrap(), 401);
    assert_eq!(shim.status(None, "").await.unwrap(), 401);
    assert!(!fake.state().created.is_empty());
    assert_eq!(fake.state().authorization, None);
}

#[tokio::test]
async fn replaced_authorities_count_at_once_also_on_open_connections() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = SecureShim::start(&fake, &["--http-client-ca", "ca.pem"]).await;
    let (me, others) = (shim.authority.client(ME), Authority::new());
    let connector = shim.connector(Some(&me));
    let mut connection = shim.shim.secure_connection(&connector).await.unwrap();
    assert_eq!(shim.post(&mut connection, "", tool_call()).await.unwrap().status, 200);
    shim.replace("ca.pem", &others.pem);
    let answer = shim.post(&mut connection, "", tool_call()).await.unwrap();
    assert_eq!((answer.status, answer.error().0), (401, -32600), "{answer:?}");
    // The connector could resume its session, which a server need not verify again.
    let again = async {
        let mut connection = shim.shim.secure_connection(&connector).await?;
        Ok(shim.post(&mut connection, "", tool_call()).await?.status)
    };
    refusal(again.await);
    assert_eq!(shim.status(Some(&others.client(ME)), "").await.unwrap(), 200);
    shim.replace("ca.pem", "no certificate");
    assert!(shim.status(Some(&others.client(ME)), "").await.is_err(), "no file, no access");
}

#[tokio::test]
async fn unfinished_handshakes_keep_no_agent_out() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = SecureShim::start(&fake, &["--http-client-ca", "ca.pem"]).await;
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(tokio::net::TcpStream::connect(("127.0.0.1", shim.shim.port)).await.unwrap());
    }
    assert_eq!(shim.status(Some(&shim.authority.client(ME)), "").await.unwrap(), 200);
    drop(silent);
}

#[tokio::test]
async fn the_doctor_checks_a_server_that_speaks_tls() {
    let fake = FakeSupervisor::start(FakeState::default());
    let access = ["--http-client-ca", "ca.pem", "--http-token-file", "token"];
    let shim = SecureShim::start(&fake, &access).await;
    let other = shim.authority.certificate(SanType::DnsName("localhost".try_into().unwrap()), LATER);
    for (name, text) in [("other.pem", &other.chain), ("other-key.pem", &other.key)] {
        shim.replace(name, text);
    }
    let address = format!("127.0.0.1:{}", shim.shim.port);
    for (options, is_success, line) in [
        (&[&["--http-cert", "cert.pem", "--http-key", "key.pem"], &access[2..]].concat(), true, "/mcp lists 11 tools"),
        (
            &[&["--http-cert", "cert.pem", "--http-key", "key.pem"], &access[..2]].concat(),
            true,
            "no workspace was tried",
        ),
        (
            &[&["--http-cert", "other.pem", "--http-key", "other-key.pem"], &access[2..]].concat(),
            false,
            "FAILED  handshake: ",
        ),
    ] {
        let options: Vec<String> = options.iter().map(|option| in_dir(shim.shim.dir.path(), option)).collect();
        let all = ["--workspace", "/", "--http", &address].into_iter().chain(options.iter().map(String::as_str));
        let (works, text) = doctor(&all.collect::<Vec<_>>()).await;
        assert!(works == is_success && text.contains(line), "{options:?}: {text}");
    }
}

#[tokio::test]
async fn an_unusable_certificate_is_named_at_the_start() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let (own, other) = (authority.client(ME), authority.client(ME));
    for (name, text) in
        [("cert.pem", &own.chain), ("key.pem", &own.key), ("other.pem", &other.key), ("ca.pem", &"x".to_owned())]
    {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    for (options, text) in [
        (&["--http-cert", "none.pem", "--http-key", "key.pem"][..], "--http-cert"),
        (&["--http-cert", "key.pem", "--http-key", "key.pem"], "no certificate in PEM"),
        (&["--http-cert", "cert.pem", "--http-key", "cert.pem"], "no private key in PEM"),
        (&["--http-cert", "cert.pem", "--http-key", "other.pem"], "--http-key"),
        (&["--http-cert", "cert.pem", "--http-key", "key.pem", "--http-client-ca", "ca.pem"], "--http-client-ca"),
    ] {
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        let options = [&["--http", "127.0.0.1:0", "--http-token-file", "token"], options].concat();
        let options: Vec<String> = options.into_iter().map(|option| in_dir(dir.path(), option)).collect();
        let shim = shim_with_stderr(&options.iter().map(String::as_str).collect::<Vec<_>>());
        let output = tokio::time::timeout(SOON, shim.wait_with_output()).await.unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(text), "{options:?}: {stderr}");
    }
}
