//! Hostile messages, one table for both transports: each gets a typed error, a good request is answered afterwards, and the
//! memory of the shim stays bounded.

use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::raw_client::{RawClient, call, initialize, peak_memory_bytes, request, stateless};
use serde_json::{Value, json};

/// Most memory that the shim may have used after all of them, in bytes. A message has at most 1 MiB, and its parsed forms take
/// some dozen times as much; the largest of these has 20 MiB.
pub(crate) const MEMORY_BYTES_MAX: u64 = 192 << 20;

const MIB: usize = 1 << 20;

/// One message and the error that answers it.
pub(crate) struct Hostile {
    pub(crate) name: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) id: Value,
    pub(crate) code: i64,
}

fn hostile(name: &'static str, body: impl Into<Vec<u8>>, id: Value, code: i64) -> Hostile {
    Hostile { name, body: body.into(), id, code }
}

fn with_arguments(arguments: &[u8]) -> Vec<u8> {
    let head = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_tests","arguments":"#;
    [head, arguments, b"}}"].concat()
}

/// The messages. None has a line end.
pub(crate) fn messages() -> Vec<Hostile> {
    const PARSE: i64 = -32700;
    const REQUEST: i64 = -32600;
    const PARAMS: i64 = -32602;
    let seven = || json!(7);
    let nested = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat().into_bytes();
    let megabyte_of = |text: &str| text.repeat((MIB - 1_000) / text.len());
    vec![
        hostile("20 MiB", vec![b'x'; 20 * MIB], Value::Null, REQUEST),
        hostile(
            "an argument of 15 MiB",
            with_arguments(format!("{{\"filter\":\"{}\"}}", "x".repeat(15 * MIB)).as_bytes()),
            seven(),
            REQUEST,
        ),
        hostile("100,000 arrays", with_arguments(&nested("[", "]")), seven(), PARSE),
        hostile("100,000 objects", with_arguments(&nested("{\"a\":", "1}")), seven(), PARSE),
        hostile("100,000 opened only", "{\"a\":[".repeat(100_000), Value::Null, PARSE),
        hostile("a mebibyte of commas", format!("{{{}", megabyte_of(",")), Value::Null, PARSE),
        hostile("a mebibyte of zeros", with_arguments(format!("[{}0]", megabyte_of("0,")).as_bytes()), seven(), PARAMS),
        hostile(
            "a mebibyte of objects",
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":1,\"x\":[{}0]}}", megabyte_of("{},")),
            seven(),
            REQUEST,
        ),
        hostile(
            "a mebibyte of escapes",
            with_arguments(format!("\"{}\"", megabyte_of("\\u0000")).as_bytes()),
            seven(),
            PARAMS,
        ),
        hostile("invalid UTF-8", with_arguments(b"{\"filter\":\"\xff\xfe\"}"), seven(), PARSE),
        hostile("a lone surrogate", with_arguments(br#"{"filter":"\ud800"}"#), seven(), PARSE),
        hostile("NUL bytes", vec![0; 1_000], Value::Null, PARSE),
        hostile("NaN", with_arguments(br#"{"timeout":NaN}"#), seven(), PARSE),
        hostile("a number", "5", Value::Null, REQUEST),
        hostile("an object of nothing", "{}", Value::Null, REQUEST),
        hostile("a null id", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, REQUEST),
        hostile("an id of an object", r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Value::Null, REQUEST),
        hostile("a fractional id", r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Value::Null, REQUEST),
        hostile("JSON-RPC 1.0", r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, seven(), REQUEST),
        hostile("no version", r#"{"id":7,"method":"ping"}"#, seven(), REQUEST),
        hostile("params of an array", r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#, seven(), PARAMS),
        hostile(
            "a call without a name",
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#,
            seven(),
            PARAMS,
        ),
        hostile(
            "a result beside a method",
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#,
            seven(),
            REQUEST,
        ),
        hostile("an unknown method", r#"{"jsonrpc":"2.0","id":7,"method":"__proto__"}"#, seven(), -32601),
        hostile(
            "a method of 1,000 kB",
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"{}\"}}", "x".repeat(1_000_000)),
            seven(),
            -32601,
        ),
        hostile("an empty batch", "[]", Value::Null, REQUEST),
        hostile("a batch of 65", format!("[{}1]", "1,".repeat(64)), Value::Null, REQUEST),
        hostile("a batch of half a million", format!("[{}0]", megabyte_of("0,")), Value::Null, REQUEST),
    ]
}

#[tokio::test]
async fn stdio_answers_each_with_a_typed_error_and_lives_on() {
    let fake = FakeSupervisor::start(FakeState::default());
    let mut client = RawClient::initialized(&fake, "2025-11-25").await;
    for Hostile { name, mut body, id, code } in messages() {
        body.push(b'\n');
        client.send_line(&body).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{name}: {answer}");
        assert!(answer.to_string().len() < 500, "{name}: {answer}");
        client.assert_alive().await;
    }
    let peak = peak_memory_bytes(client.shim.id().unwrap());
    assert!(peak < MEMORY_BYTES_MAX, "{} MiB", peak >> 20);
}

/// Messages with some bytes replaced, removed, doubled or cut off, the same in each run.
pub(crate) fn fuzzed_messages(count: usize) -> Vec<Vec<u8>> {
    let seeds = [
        initialize("2025-03-26").to_string(),
        call(json!(5), "get_test_report", json!({"format": "json"})).to_string(),
        stateless(json!("s"), "tools/list", json!({"cursor": "x"})).to_string(),
        json!([request(json!(1), "ping", json!({})), {"jsonrpc": "2.0", "method": "notifications/initialized"}])
            .to_string(),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}).to_string(),
    ];
    // Replacements that mean something in JSON, or are no UTF-8.
    let bytes = *b"\"\\{}[]:,0-9eE.tfn \x00\x7f\x80\xff";
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % bound as u64).unwrap()
    };
    let mut mutate = |number: usize| {
        let mut message = seeds[number % seeds.len()].clone().into_bytes();
        for _ in 0..=next(4) {
            let at = next(message.len());
            match next(5) {
                0 => message[at] = bytes[next(bytes.len())],
                1 => _ = message.remove(at),
                2 => message.insert(at, bytes[next(bytes.len())]),
                3 => message.truncate(at + 1),
                _ => message.extend_from_within(at..),
            }
        }
        message.retain(|byte| *byte != b'\n');
        message
    };
    (0..count).map(&mut mutate).collect()
}

#[tokio::test]
async fn fuzzed_lines_do_not_end_the_server() {
    let fake = FakeSupervisor::start(FakeState::default());
    for initialized in [false, true] {
        let mut client = match initialized {
            true => RawClient::initialized(&fake, "2025-03-26").await,
            false => RawClient::of(&fake),
        };
        for mut message in fuzzed_messages(1_000) {
            message.push(b'\n');
            client.send_line(&message).await;
            client.send(request(json!("next"), "ping", json!({}))).await;
            // A cancelled or ignored message has no answer.
            while client.next().await["id"] != "next" {}
        }
    }
}
