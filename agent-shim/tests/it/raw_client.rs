//! A client that writes its lines by hand, for messages that no MCP client library sends.

use crate::client::shim;
use crate::fake_supervisor::FakeSupervisor;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// Timeout for something that happens at once.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A shim on stdio, whose lines are written and read one by one.
pub(crate) struct RawClient {
    pub(crate) shim: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl RawClient {
    /// A client of a shim whose supervisor is `fake`, before the handshake.
    pub(crate) fn of(fake: &FakeSupervisor) -> RawClient {
        let mut shim = shim(&["--workspace", "/", "--supervisor", &format!("unix:{}", fake.socket().display())]);
        let stdin = shim.stdin.take();
        let stdout = BufReader::new(shim.stdout.take().unwrap()).lines();
        RawClient { shim, stdin, stdout }
    }

    /// The same after the handshake in this version of MCP.
    pub(crate) async fn initialized(fake: &FakeSupervisor, version: &str) -> RawClient {
        let mut client = RawClient::of(fake);
        client.send(initialize(version)).await;
        let answer = client.next().await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_line(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(line).await.unwrap();
    }

    /// Closes stdin.
    pub(crate) fn leave(&mut self) {
        self.stdin = None;
    }

    /// The next line of the shim.
    pub(crate) async fn next(&mut self) -> Value {
        self.next_if_any().await.unwrap()
    }

    /// The next line of the shim; `None` at its end.
    pub(crate) async fn next_if_any(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(SOON, self.stdout.next_line()).await.unwrap().unwrap();
        line.map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Asserts that the next line answers a good request: nothing else was answered, and the server lives.
    pub(crate) async fn assert_alive(&mut self) {
        self.send(request(json!("alive"), "tools/list", json!({}))).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], "alive", "{answer}");
        assert!(answer["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{answer}");
    }
}

/// The `initialize` request, with id 0.
pub(crate) fn initialize(version: &str) -> Value {
    let client = json!({"name": "t", "version": "0"});
    request(json!(0), "initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}

pub(crate) fn request(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A call of a tool.
pub(crate) fn call(id: Value, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// A request of 2026-07-28, which carries its version.
pub(crate) fn stateless(id: Value, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request(id, method, params)
}

/// Peak resident memory of a process in bytes.
pub(crate) fn peak_memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}
