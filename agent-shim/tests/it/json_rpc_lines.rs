//! The shim's answers to lines that no MCP client library sends.

use crate::client::shim;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Timeout for something that happens at once.
const SOON: Duration = Duration::from_secs(60);

const HELLO: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

/// All messages that the shim sends for `input`, until it ends.
async fn answers_to(input: Vec<u8>) -> Vec<Value> {
    let mut shim = shim(&["--workspace", "/"]);
    let (mut stdin, mut stdout) = (shim.stdin.take().unwrap(), shim.stdout.take().unwrap());
    let mut output = String::new();
    let all = async {
        // Concurrently: a pipe holds less than the longest of these lines.
        let writing = async {
            stdin.write_all(&input).await.unwrap();
            drop(stdin);
        };
        tokio::join!(writing, async { stdout.read_to_string(&mut output).await.unwrap() });
    };
    tokio::time::timeout(SOON, all).await.unwrap();
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The ids and error codes of all answers.
async fn error_codes(input: Vec<u8>) -> Vec<(Value, Value)> {
    answers_to(input).await.into_iter().map(|line| (line["id"].clone(), line["error"]["code"].clone())).collect()
}

fn call(id: u32, params: &[u8]) -> Vec<u8> {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":"#);
    [head.as_bytes(), params, b"}\n"].concat()
}

#[tokio::test]
async fn every_call_is_answered_however_malformed() {
    let lines: Vec<(Vec<u8>, i32)> = vec![
        (call(1, br#"{"name":"run_tests","arguments":{"timeout":NaN}}"#), -32700),
        (call(2, br#"{"name":"run_tests","arguments":{"timeout":1e999}}"#), -32700),
        (call(3, br#"{"name":"run_tests","arguments":{"filter":"\ud800"}}"#), -32700),
        (call(4, b"{\"name\":\"run_tests\",\"arguments\":{\"filter\":\"\xff\"}}"), -32700),
        (call(5, br#"{"arguments":{}}"#), -32602),
        (call(6, br#"{"name":"run_tests","arguments":[1]}"#), -32602),
        (call(7, br#"{"name":"run_tests","arguments":"x"}"#), -32602),
        (call(8, b"[]"), -32602),
        (call(9, format!(r#"{{"name":"{}"}}"#, "x".repeat(2 << 20)).as_bytes()), -32600),
        // The last line lacks its line end.
        (call(10, br#"{"name":"no such tool"}"#).trim_ascii().to_vec(), -32602),
    ];
    let mut codes =
        error_codes([HELLO.to_vec(), lines.iter().flat_map(|(line, _)| line.clone()).collect()].concat()).await;
    codes.sort_by_key(|(id, _)| id.as_i64());
    let expected = (1..).zip(&lines).map(|(id, (_, code))| (json!(id), json!(code)));
    assert_eq!(codes, [(json!(0), Value::Null)].into_iter().chain(expected).collect::<Vec<_>>());
}

#[tokio::test]
async fn invalid_lines_before_the_handshake_do_not_break_it() {
    let codes = error_codes([b"\xff\n\n", HELLO].concat()).await;
    assert_eq!(codes, [(Value::Null, json!(-32700)), (json!(0), Value::Null)]);
}

#[tokio::test]
async fn unknown_names_are_quoted_in_part_only() {
    let long = "x".repeat(20_000);
    let method = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{long}\"}}\n");
    let tool = call(2, json!({"name": &long}).to_string().as_bytes());
    let argument = call(3, json!({"name": "get_run", "arguments": {&long: 1}}).to_string().as_bytes());
    let answers = answers_to([HELLO.to_vec(), method.into(), tool, argument].concat()).await;
    assert_eq!(answers.len(), 4);
    for line in &answers[1..] {
        assert!(line.to_string().len() < 400 && line.to_string().contains(&"x".repeat(40)), "{line}");
    }
}
