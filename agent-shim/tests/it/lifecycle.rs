//! The end of the shim, its session and its private supervisor.

use crate::client::{Client, shim, verbose_shim, write_program};
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Timeout for something that happens at once.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_end_of_the_client_ends_the_shim_and_closes_an_idle_session() {
    let fake = FakeSupervisor::start(FakeState::default());
    let client = Client::connected_to(&fake).await;
    client.call("last_test_failures", json!({})).await;
    let mut shim = client.leave().await;
    let status = tokio::time::timeout(SOON, shim.wait()).await.unwrap().unwrap();
    assert!(status.success());
    assert_eq!(fake.state().closed, ["session-1"]);
}

#[tokio::test]
async fn a_call_in_flight_does_not_delay_the_end() {
    let fake = FakeSupervisor::start(FakeState { endless: true, ..FakeState::default() });
    let mut shim = shim(&["--workspace", "/", "--supervisor", &format!("unix:{}", fake.socket().display())]);
    let mut input = shim.stdin.take().unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_tests","arguments":{}}}
"#;
    input.write_all(hello.as_bytes()).await.unwrap();
    tokio::time::timeout(SOON, async {
        while fake.state().run_tests.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    drop(input);
    let status = tokio::time::timeout(SOON, shim.wait()).await.unwrap().unwrap();
    assert!(status.success());
    let mut output = String::new();
    shim.stdout.take().unwrap().read_to_string(&mut output).await.unwrap();
    assert!(output.lines().all(|line| line.starts_with('{')), "stdout has something besides the protocol: {output}");
}

#[tokio::test]
async fn a_client_that_does_not_read_the_log_gets_its_answers() {
    let fake = FakeSupervisor::start(FakeState::default());
    let supervisor = format!("unix:{}", fake.socket().display());
    let client = Client::started_by(verbose_shim, &["--supervisor", &supervisor]).await;
    let calls = async {
        for _ in 0..100 {
            client.call("last_test_failures", json!({})).await;
        }
    };
    tokio::time::timeout(SOON, calls).await.expect("the shim must not block on its log");
    let mut shim = client.leave().await;
    assert!(tokio::time::timeout(SOON, shim.wait()).await.unwrap().unwrap().success());
    let mut logged = Vec::new();
    shim.stderr.take().unwrap().read_to_end(&mut logged).await.unwrap();
    // A pipe has sixteen pages, and a line that does not fit into a page begins another.
    assert!(logged.len() > 8 * 4096, "the {} logged bytes would fit into a pipe", logged.len());
}

// A private supervisor that lives as long as its socket and then writes the file `ended`.
fn stand_in(dir: &Path) -> (PathBuf, PathBuf) {
    let (program, ended) = (dir.join("proctor"), dir.join("ended"));
    let script = format!("#!/bin/sh\ntouch {}/began\ncat >/dev/null\necho ended >{}\n", dir.display(), ended.display());
    write_program(&program, &script);
    (program, ended)
}

async fn until_exists(path: &Path) {
    let exists = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, exists).await.unwrap();
}

#[tokio::test]
async fn a_private_supervisor_ends_with_the_shim_even_if_that_is_killed() {
    for kill in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (program, ended) = stand_in(dir.path());
        let began = dir.path().join("began");
        let client = Client::with(&["--proctor-binary", program.to_str().unwrap()]).await;
        // The stand-in never answers, so this call is in flight until the end.
        let call = client.call("last_test_failures", json!({}));
        tokio::select! {
            ended = call => panic!("{ended:?}"),
            () = until_exists(&began) => {}
        }
        assert!(!ended.exists());
        if kill {
            let mut client = client;
            client.shim.kill().await.unwrap();
            until_exists(&ended).await;
        } else {
            let mut shim = client.leave().await;
            assert!(tokio::time::timeout(SOON, shim.wait()).await.unwrap().unwrap().success());
            assert!(ended.exists(), "the shim must wait for its supervisor");
        }
    }
}

#[tokio::test]
async fn every_call_carries_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let fake = FakeSupervisor::start(FakeState::default());
    let supervisor = format!("unix:{}", fake.socket().display());
    let client = Client::with(&["--supervisor", &supervisor, "--token-file", token.to_str().unwrap()]).await;
    client.call("last_test_failures", json!({})).await;
    assert_eq!(fake.state().authorization.as_deref(), Some("Bearer s3cret"));
}
