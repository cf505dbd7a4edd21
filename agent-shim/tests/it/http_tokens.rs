//! Tokens of an authorization server at the HTTP server: signed JSON web tokens, of which only one for this very resource gives
//! access, and none of which reaches the supervisor.

use crate::client::shim_with_stderr;
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::http_client::{HttpShim, TOKEN};
use crate::raw_client::{SOON, stateless};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

const ISSUER: &str = "https://login.example";

/// An authorization server's key.
struct IssuerKey(KeyPair);

impl IssuerKey {
    fn new() -> IssuerKey {
        IssuerKey(KeyPair::generate_for(&PKCS_ED25519).unwrap())
    }

    fn key_set(&self) -> String {
        let key = URL_SAFE_NO_PAD.encode(self.0.der_bytes());
        // Sets have keys for other purposes too.
        let other = json!({"kty": "oct", "k": "c2VjcmV0"});
        json!({"keys": [other, {"kty": "OKP", "crv": "Ed25519", "x": key, "kid": "1", "alg": "EdDSA"}]}).to_string()
    }

    fn sign(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &EncodingKey::from_ed_der(self.0.serialized_der())).unwrap()
    }
}

fn header() -> Header {
    Header { kid: Some("1".to_owned()), ..Header::new(Algorithm::EdDSA) }
}

fn claims(audience: &Value, changes: &Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({"iss": ISSUER, "aud": audience, "sub": "agent", "exp": now + 600});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

async fn start(fake: &FakeSupervisor, key: &IssuerKey, more: &[&str]) -> HttpShim {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.json");
    std::fs::write(&keys, key.key_set()).unwrap();
    let keys = keys.to_str().unwrap().to_owned();
    HttpShim::start(fake, &[&["--http-issuer", ISSUER, "--http-issuer-keys", &keys], more].concat(), dir).await
}

// It opens a session at the supervisor.
fn tool_call() -> Value {
    stateless(json!(1), "tools/call", json!({"name": "last_test_failures", "arguments": {}}))
}

#[tokio::test]
async fn only_a_token_for_this_resource_gives_access() {
    let fake = FakeSupervisor::start(FakeState::default());
    let (key, other) = (IssuerKey::new(), IssuerKey::new());
    let shim = start(&fake, &key, &["--workspace", "shop=/", "--workspace", "api=/tmp"]).await;
    let base = format!("http://127.0.0.1:{}", shim.port);
    let mine = json!(format!("{base}/mcp/shop"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let none = json!({});
    let crit: String = {
        let token = key.sign(&header(), &claims(&mine, &none));
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","kid":"1","crit":["x"]}"#);
        format!("{header}.{}", token.split_once('.').unwrap().1)
    };
    let unsigned = {
        let (header, claims) = (r#"{"alg":"none"}"#, claims(&mine, &none).to_string());
        format!("{}.{}.", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    };
    let shared = {
        let header = Header { kid: Some("1".to_owned()), ..Header::new(Algorithm::HS256) };
        encode(&header, &claims(&mine, &none), &EncodingKey::from_secret(b"secret")).unwrap()
    };
    for (token, fault) in [
        (key.sign(&header(), &claims(&json!(format!("{base}/mcp/api")), &none)), "for another audience"),
        (key.sign(&header(), &claims(&json!("https://elsewhere.example/mcp/shop"), &none)), "for another audience"),
        (key.sign(&header(), &claims(&json!(base), &none)), "for another audience"),
        (key.sign(&header(), &claims(&Value::Null, &none)), "the token"),
        (key.sign(&header(), &claims(&mine, &json!({"iss": "https://other.example"}))), "from another issuer"),
        (key.sign(&header(), &claims(&mine, &json!({"exp": now - 600}))), "has expired"),
        (key.sign(&header(), &claims(&mine, &json!({"nbf": now + 600}))), "not valid yet"),
        (key.sign(&header(), &claims(&mine, &json!({"nbf": (now + 600).to_string()}))), "the token is wrong"),
        (other.sign(&header(), &claims(&mine, &none)), "signed by no key"),
        (shared, "signed by no key"),
        (unsigned, "the token"),
        (crit, "the token is wrong"),
        (TOKEN.to_owned(), "the token is wrong"),
        ("a.b.c".to_owned(), "the token is wrong"),
    ] {
        let bearer = format!("Bearer {token}");
        let answer = shim.post_stateless("/mcp/shop", &[("authorization", &bearer)], tool_call()).await;
        assert_eq!((answer.status, answer.error().0), (401, -32600), "{fault}: {answer:?}");
        let challenge = answer.header("www-authenticate");
        assert!(challenge.contains("error=\"invalid_token\"") && challenge.contains(fault), "{fault}: {challenge}");
    }
    assert!(fake.state().created.is_empty(), "a refused caller reaches no supervisor");
    for audience in [mine, json!(["https://elsewhere.example", format!("{base}/mcp/shop")])] {
        let bearer = format!("Bearer {}", key.sign(&header(), &claims(&audience, &none)));
        let answer = shim.post_stateless("/mcp/shop", &[("authorization", &bearer)], tool_call()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(fake.state().authorization, None, "no token is passed through");
}

#[tokio::test]
async fn the_metadata_names_the_authorization_server() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = start(&fake, &IssuerKey::new(), &["--workspace", "/"]).await;
    let path = "/.well-known/oauth-protected-resource/mcp";
    let answer = shim.exchange(shim.request(Method::GET, path, &[("authorization", "")], vec![])).await;
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["resource"], format!("http://127.0.0.1:{}/mcp", shim.port));
    assert_eq!(document["authorization_servers"], json!([ISSUER]));
}

/// A caller cannot choose the audience by the name under which it calls the server.
#[tokio::test]
async fn with_a_configured_url_only_that_one_is_the_audience() {
    let fake = FakeSupervisor::start(FakeState::default());
    let key = IssuerKey::new();
    let shim = start(&fake, &key, &["--workspace", "/", "--http-url", "https://mcp.example.com"]).await;
    let local = format!("127.0.0.1:{}", shim.port);
    for (base, status) in [(format!("http://{local}"), 401), ("https://mcp.example.com".to_owned(), 200)] {
        let bearer = format!("Bearer {}", key.sign(&header(), &claims(&json!(format!("{base}/mcp")), &json!({}))));
        for host in [local.as_str(), "mcp.example.com"] {
            let headers = [("authorization", bearer.as_str()), ("host", host)];
            let answer = shim.post_stateless("/mcp", &headers, tool_call()).await;
            assert_eq!(answer.status, status, "{base} {host}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn replaced_keys_count_at_once() {
    let fake = FakeSupervisor::start(FakeState::default());
    let (key, next) = (IssuerKey::new(), IssuerKey::new());
    let shim = start(&fake, &key, &["--workspace", "/"]).await;
    let claims = claims(&json!(format!("http://127.0.0.1:{}/mcp", shim.port)), &json!({}));
    let tokens = [&key, &next].map(|key| format!("Bearer {}", key.sign(&header(), &claims)));
    let statuses = async || {
        let mut statuses = Vec::new();
        for token in &tokens {
            statuses.push(shim.post_stateless("/mcp", &[("authorization", token)], tool_call()).await.status);
        }
        statuses
    };
    assert_eq!(statuses().await, [200, 401]);
    let file = shim.dir.path().join("next.json");
    std::fs::write(&file, next.key_set()).unwrap();
    std::fs::rename(file, shim.dir.path().join("keys.json")).unwrap();
    assert_eq!(statuses().await, [401, 200]);
}

#[tokio::test]
async fn an_unusable_key_set_is_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.json");
    for text in ["", "{}", r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#] {
        std::fs::write(&keys, text).unwrap();
        let issuer = ["--http-issuer", ISSUER, "--http-issuer-keys", keys.to_str().unwrap()];
        let shim = shim_with_stderr(&[&["--http", "127.0.0.1:0"], &issuer[..]].concat());
        let output = tokio::time::timeout(SOON, shim.wait_with_output()).await.unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains("--http-issuer-keys"), "{text}: {stderr}");
    }
}
