//! Access to the HTTP server: token, origin, host, address.

use crate::client::shim_with_stderr;
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::http_client::{HttpShim, TOKEN};
use crate::raw_client::{SOON, call, initialize, stateless};
use hyper::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_caller_without_the_token_is_told_where_to_read_about_it() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let base = format!("http://127.0.0.1:{}", shim.port);
    for (authorization, error) in [
        ("", ""),
        ("Bearer wrong", "invalid_token"),
        ("Bearer the-token-of-the-agents-and-more", "invalid_token"),
        ("Bearer the-token", "invalid_token"),
        ("Basic dXNlcjpwYXNz", "invalid_token"),
        ("Bearer eyJhbGciOiJub25lIn0.eyJleHAiOjB9.", "invalid_token"),
    ] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let body = initialize("2025-11-25").to_string().into_bytes();
            let answer = shim.exchange(shim.request(method, "/mcp", &[("authorization", authorization)], body)).await;
            assert_eq!((answer.status, answer.error().0), (401, -32600), "{authorization}: {answer:?}");
            let challenge = answer.header("www-authenticate");
            let metadata = format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
            assert!(challenge.starts_with("Bearer ") && challenge.contains(&metadata), "{challenge}");
            assert_eq!(challenge.contains("error=\"invalid_token\""), !error.is_empty(), "{challenge}");
        }
    }
    assert!(fake.state().created.is_empty());
}

#[tokio::test]
async fn the_metadata_of_the_resource_needs_no_token() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let path = "/.well-known/oauth-protected-resource/mcp";
    let local = format!("localhost:{}", shim.port);
    let answer =
        shim.exchange(shim.request(Method::GET, path, &[("authorization", ""), ("host", &local)], vec![])).await;
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(document["resource"], format!("http://{local}/mcp"), "as the caller names it");
    assert_eq!(document["bearer_methods_supported"], json!(["header"]));
    let foreign = [("authorization", ""), ("host", "evil.example")];
    let answer = shim.exchange(shim.request(Method::GET, path, &foreign, vec![])).await;
    assert!(!answer.body.contains("evil"), "{answer:?}");
}

#[tokio::test]
async fn neither_token_travels_the_other_way() {
    let fake = FakeSupervisor::start(FakeState::default());
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("supervisor-token");
    std::fs::write(&token, "of-the-supervisor").unwrap();
    let shim = HttpShim::with(&fake, &["--workspace", "/", "--token-file", token.to_str().unwrap()]).await;
    let call = stateless(json!(1), "tools/call", json!({"name": "last_test_failures", "arguments": {}}));
    assert_eq!(shim.post_stateless("/mcp", &[], call.clone()).await.status, 200);
    assert_eq!(fake.state().authorization.as_deref(), Some("Bearer of-the-supervisor"));
    let answer = shim.post_stateless("/mcp", &[("authorization", "Bearer of-the-supervisor")], call).await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn a_replaced_token_counts_at_once() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let next = shim.dir.path().join("next");
    std::fs::write(&next, "another").unwrap();
    std::fs::rename(&next, shim.dir.path().join("token")).unwrap();
    assert_eq!(shim.post("/mcp", &[], initialize("2025-11-25")).await.status, 401);
    let answer = shim.post("/mcp", &[("authorization", "Bearer another")], initialize("2025-11-25")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_refused() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let (own, other_port) = (format!("http://localhost:{}", shim.port), format!("http://localhost:{}", shim.port ^ 1));
    for origin in ["https://evil.example", "null", "http://localhost", &other_port, "x"] {
        for method in [Method::POST, Method::GET] {
            let body = initialize("2025-11-25").to_string().into_bytes();
            let answer = shim.exchange(shim.request(method, "/mcp", &[("origin", origin)], body)).await;
            assert_eq!((answer.status, answer.error().0), (403, -32600), "{origin}: {answer:?}");
        }
    }
    assert_eq!(shim.post("/mcp", &[("origin", &own)], initialize("2025-11-25")).await.status, 200);
    for host in ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1"] {
        let answer = shim.post("/mcp", &[("host", host)], initialize("2025-11-25")).await;
        assert_eq!((answer.status, answer.error().0), (403, -32600), "{host}: {answer:?}");
    }
}

#[tokio::test]
async fn the_url_of_a_tls_proxy_is_the_resource() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::with(&fake, &["--workspace", "/", "--http-url", "https://mcp.example.com"]).await;
    let headers = [("host", "mcp.example.com"), ("origin", "https://mcp.example.com")];
    assert_eq!(shim.post("/mcp", &headers, initialize("2025-11-25")).await.status, 200);
    let answer = shim.post("/mcp", &[("host", "mcp.example.com"), ("authorization", "")], json!({})).await;
    let challenge = answer.header("www-authenticate");
    let metadata = "resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource/mcp\"";
    assert!(challenge.contains(metadata), "{challenge}");
}

#[tokio::test]
async fn an_exposed_or_useless_server_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let token = token.to_str().unwrap();
    for (arguments, text) in [
        (vec!["--http", "0.0.0.0:0", "--http-token-file", token], "not loopback and not encrypted"),
        (vec!["--http", "127.0.0.1:0", "--http-token-file", "/nowhere/token"], "cannot read the token file"),
        (vec!["--http", "127.0.0.1:0"], "name what gives access"),
        (
            vec!["--http", "127.0.0.1:0", "--http-token-file", token, "--supervisor", "unix:/s", "--token-file", token],
            "holds the supervisor's token",
        ),
    ] {
        let shim = shim_with_stderr(&arguments);
        let output = tokio::time::timeout(SOON, shim.wait_with_output()).await.unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(text), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn no_answer_names_a_path_of_the_host() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-11-25").await;
    let answer = shim.post("/mcp", &[("mcp-session-id", &session)], call(json!(1), "no such tool", json!({}))).await;
    let dir = shim.dir.path().to_str().unwrap();
    assert!(!answer.body.contains(dir) && !answer.body.contains(env!("CARGO_MANIFEST_DIR")), "{answer:?}");
}
