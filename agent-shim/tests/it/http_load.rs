//! Many or hostile clients of the HTTP server: good calls are answered meanwhile and afterwards, and memory stays bounded.

use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::hostile_messages::{Hostile, MEMORY_BYTES_MAX, fuzzed_messages, messages};
use crate::http_client::HttpShim;
use crate::raw_client::{SOON, peak_memory_bytes, request, stateless};
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

async fn assert_alive(shim: &HttpShim) {
    let answer = shim.post_stateless("/mcp", &[], stateless(json!("alive"), "tools/list", json!({}))).await;
    assert_eq!((answer.status, &answer.message()["id"]), (200, &json!("alive")), "{answer:?}");
}

#[tokio::test]
async fn hostile_messages_get_typed_errors() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-11-25").await;
    for Hostile { name, body, id, code } in messages() {
        let headers = [("mcp-session-id", session.as_str())];
        let answer = shim.exchange(shim.request(Method::POST, "/mcp", &headers, body)).await;
        assert_eq!((&answer.message()["id"], answer.error().0), (&id, code), "{name}: {answer:?}");
        // rmcp answers what it understood with 200.
        assert!([200, 400, 413].contains(&answer.status) && answer.body.len() < 600, "{name}: {answer:?}");
        assert_alive(&shim).await;
    }
    for body in [&b""[..], b" \n"] {
        let answer = shim.exchange(shim.request(Method::POST, "/mcp", &[], body.to_vec())).await;
        assert_eq!((answer.status, answer.error().0), (400, -32700));
    }
    let peak = peak_memory_bytes(shim.process.id().unwrap());
    assert!(peak < MEMORY_BYTES_MAX, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn fuzzed_messages_get_an_answer() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let session = shim.session("/mcp", "2025-03-26").await;
    for (number, message) in fuzzed_messages(600).into_iter().enumerate() {
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2026-07-28")];
        let text = String::from_utf8_lossy(&message).into_owned();
        let answer = shim.exchange(shim.request(Method::POST, "/mcp", &headers[..number % 3], message)).await;
        assert!((200..500).contains(&answer.status), "{text}: {answer:?}");
    }
    assert_alive(&shim).await;
}

#[tokio::test]
async fn wrong_forms_of_requests_get_typed_errors() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let ping = || request(json!(1), "ping", json!({})).to_string().into_bytes();
    for (method, headers, status) in [
        (Method::POST, ("accept", "application/json"), 406),
        (Method::POST, ("accept", "text/event-stream"), 406),
        (Method::POST, ("content-type", "text/plain"), 415),
        (Method::POST, ("mcp-session-id", "no-such-session"), 404),
        (Method::GET, ("accept", "application/json"), 406),
        (Method::GET, ("mcp-session-id", "no-such-session"), 404),
        (Method::PUT, ("x-none", "1"), 405),
        (Method::OPTIONS, ("x-none", "1"), 405),
    ] {
        let answer = shim.exchange(shim.request(method.clone(), "/mcp", &[headers], ping())).await;
        assert_eq!((answer.status, answer.error().0), (status, -32600), "{method} {headers:?}: {answer:?}");
    }
    assert_alive(&shim).await;
}

#[tokio::test]
async fn half_open_connections_do_not_keep_others_out() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    // Some silent, some with half a request, some with the head of a request whose body does not come.
    let host = format!("host: 127.0.0.1:{}\r\n", shim.port);
    let beginnings = [
        String::new(),
        format!("POST /mcp HTTP/1.1\r\n{host}"),
        format!("POST /mcp HTTP/1.1\r\n{host}content-length: 1000000\r\n\r\n{{"),
    ];
    let mut held = Vec::new();
    for number in 0..700 {
        let mut stream = TcpStream::connect(("127.0.0.1", shim.port)).await.unwrap();
        // The server may have closed it already.
        _ = stream.write_all(beginnings[number % beginnings.len()].as_bytes()).await;
        held.push(stream);
        if number % 100 == 0 {
            assert_alive(&shim).await;
        }
    }
    assert_alive(&shim).await;
    let peak = peak_memory_bytes(shim.process.id().unwrap());
    assert!(peak < MEMORY_BYTES_MAX, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn event_streams_have_a_bound() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    // rmcp keeps 33 streams of a session.
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(shim.session("/mcp", "2025-11-25").await);
    }
    let get = |number: usize| shim.request(Method::GET, "/mcp", &[("mcp-session-id", &sessions[number % 8])], vec![]);
    let mut streams = Vec::new();
    for number in 0..128 {
        let stream = shim.send(get(number)).await;
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let refused = shim.exchange(get(0)).await;
    assert_eq!((refused.status, refused.error().0, refused.header("retry-after")), (503, -32000, "1"));
    assert_alive(&shim).await;
    drop(streams);
    let freed = async { while shim.send(get(0)).await.status() != 200 {} };
    tokio::time::timeout(SOON, freed).await.unwrap();
}

#[tokio::test]
async fn sessions_left_behind_make_room_for_new_ones() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let used = shim.session("/mcp", "2025-11-25").await;
    let list = |session: &str| {
        let body = request(json!(1), "tools/list", json!({})).to_string().into_bytes();
        shim.request(Method::POST, "/mcp", &[("mcp-session-id", session)], body)
    };
    let abandoned = shim.session("/mcp", "2025-11-25").await;
    for number in 0..300 {
        shim.session("/mcp", "2025-11-25").await;
        if number % 50 == 0 {
            assert_eq!(shim.exchange(list(&used)).await.status, 200, "{number}");
        }
    }
    assert_eq!(shim.exchange(list(&used)).await.status, 200);
    assert_eq!(shim.exchange(list(&abandoned)).await.status, 404);
}

#[tokio::test]
async fn a_hundred_agents_share_one_server() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let agent = async |number: usize| -> Vec<Value> {
        let call = stateless(json!(number), "tools/call", json!({"name": "last_test_failures", "arguments": {}}));
        let mut ids = Vec::new();
        for _ in 0..5 {
            let message = shim.post_stateless("/mcp", &[], call.clone()).await.message();
            assert_eq!(message["result"]["isError"], false, "{message}");
            ids.push(message["id"].clone());
        }
        ids
    };
    let all = futures_util::future::join_all((0..100).map(agent)).await;
    for (number, ids) in all.into_iter().enumerate() {
        assert_eq!(ids, vec![json!(number); 5], "each agent gets its own answers");
    }
}

#[tokio::test]
async fn slow_senders_of_large_bodies_do_not_delay_the_usual_requests() {
    // A machine that is slower than the time for a body, in which the server gives up the senders, proves nothing.
    for _ in 0..10 {
        if usual_requests_precede_the_end_of_slow_ones().await {
            return;
        }
    }
    panic!("the usual requests are answered only after the slow senders were given up");
}

// Whether usual requests are answered while slow senders of large bodies are awaited.
async fn usual_requests_precede_the_end_of_slow_ones() -> bool {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::of(&fake).await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(("127.0.0.1", shim.port)).await.unwrap();
        let token = crate::http_client::TOKEN;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {token}\r\ncontent-length: 200000\r\n\r\n",
            shim.port
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 100_000]).await.unwrap();
        slow.push(stream);
    }
    assert_alive(&shim).await;
    let waits = |stream: &TcpStream| {
        stream.try_read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    slow.iter().all(waits)
}
