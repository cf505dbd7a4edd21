//! The agent shim: what a tool call takes longer than the gRPC calls that it makes, a hundred agents at one HTTP shim, and the
//! memory of a shim at rest.

use crate::bench_setup::{BenchSetup, command};
use crate::demo_supervisor::{ExtraKeys, program};
use crate::seeded_random::SeededRandom;
use crate::soak::ResourceUsage;
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{CreateSessionRequest, GetSessionRequest};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Rounds that are not measured, and measured ones. A round is one call through the shim and one past it.
const WARM_UP: usize = 50;
const ROUNDS: usize = 1_000;

/// Agents at one HTTP shim, and calls of each: fewer together than the shim accepts at once.
const AGENTS: usize = 100;
const CALLS: usize = 40;

const TOKEN: &str = "of-the-agents";

/// A shim process, killed on drop.
struct Shim(Child);

impl Drop for Shim {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub(crate) fn bench() -> Result<Vec<Figure>> {
    let tenant = "sessions_max = 64\n[tenant.quota]\nrequests_per_second = 1000000";
    let setup = BenchSetup::start_with(2, ExtraKeys { host: "", tenant })?;
    let supervisor = format!("unix:{}", setup.path().join("proctor.sock").display());
    let (through, direct, rss_kib) = setup.runtime.block_on(measure_calls(&setup, &supervisor))?;
    let [(shim_p50, shim_p99), (direct_p50, direct_p99)] =
        [&through, &direct].map(|times| (quantile(times, 0.5), quantile(times, 0.99)));
    let (calls_per_s, errors) = setup.runtime.block_on(measure_agents(&setup, &supervisor))?;
    setup.stop()?;
    #[expect(clippy::cast_precision_loss, reason = "kibibytes, and a count of errors")]
    let (rss_mib, errors) = (rss_kib as f64 / 1024.0, errors as f64);
    anstream::println!(
        "\nshim: get_run p50 {shim_p50:.2} ms, p99 {shim_p99:.2} ms; its gRPC call p50 {direct_p50:.2} ms, p99 {direct_p99:.2} \
         ms ({:.1}x); RSS at rest {rss_mib:.1} MiB;\n  {AGENTS} agents with {CALLS} calls each over HTTP: {calls_per_s:.0} \
         calls/s, {errors} errors",
        shim_p50 / direct_p50,
    );
    Ok(vec![
        Figure::at_most("shim: p50 over gRPC p50", "ms", shim_p50 - direct_p50, 2.0),
        Figure::at_most("shim: errors of 100 agents over HTTP", "", errors, 0.0).firm(),
        Figure::at_most("shim: RSS at rest", "MiB", rss_mib, 20.0),
    ])
}

// Milliseconds of calls through a shim on stdio and past it, in random order, and the shim's memory in KiB after them.
async fn measure_calls(setup: &BenchSetup, supervisor: &str) -> Result<(Vec<f64>, Vec<f64>, u64)> {
    let workspace = setup.workspace(0);
    let mut shim = Shim(
        command(program("proctor-mcp")?)
            .args(["--supervisor", supervisor, "--workspace"])
            .arg(&workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting proctor-mcp")?,
    );
    let (stdin, stdout) = shim.0.stdin.take().zip(shim.0.stdout.take()).context("no pipes")?;
    let pipes = (tokio::process::ChildStdout::from_std(stdout)?, tokio::process::ChildStdin::from_std(stdin)?);
    let agent = ().serve(pipes).await.context("initializing")?;
    let mut sessions = SessionsClient::new(setup.channel());
    let workspace = workspace.to_str().context("the workspace's path is not UTF-8")?.to_owned();
    let request = CreateSessionRequest { workspace, separate: true, ..CreateSessionRequest::default() };
    let session =
        sessions.create_session(request).await?.into_inner().session.context("an answer without a session")?;
    let (mut through, mut direct) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    let mut random = SeededRandom::new();
    for round in 0..WARM_UP + ROUNDS {
        let shim_first = random.below(2) == 0;
        for is_shim in [shim_first, !shim_first] {
            let started = Instant::now();
            if is_shim {
                // Without a run, the call asks for the session's state and nothing else.
                let answer = agent.call_tool(CallToolRequestParams::new("get_run")).await?;
                ensure!(answer.is_error != Some(true), "get_run: {answer:?}");
            } else {
                sessions.get_session(GetSessionRequest { session_id: session.session_id.clone() }).await?;
            }
            let times = if is_shim { &mut through } else { &mut direct };
            if round >= WARM_UP {
                times.push(started.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let rss_kib = ResourceUsage::measure_at_rest(shim.0.id())?.rss_kib;
    agent.cancel().await?;
    Ok((through, direct, rss_kib))
}

// Calls per second of all agents together, and the number of calls without a good answer.
async fn measure_agents(setup: &BenchSetup, supervisor: &str) -> Result<(f64, usize)> {
    let token = setup.path().join("token");
    std::fs::write(&token, TOKEN).context("writing the token")?;
    let (_shim, address) = start_http(supervisor, &setup.workspace(1), &token)?;
    let started = Instant::now();
    let agents: Vec<_> = (0..AGENTS)
        .map(|_| {
            let address = address.clone();
            tokio::spawn(async move {
                let mut errors = 0;
                for _ in 0..CALLS {
                    errors += usize::from(!call(&address).await.unwrap_or(false));
                }
                errors
            })
        })
        .collect();
    let mut errors = 0;
    for agent in agents {
        errors += agent.await?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand calls")]
    let calls = (AGENTS * CALLS) as f64;
    Ok((calls / started.elapsed().as_secs_f64(), errors))
}

fn start_http(supervisor: &str, workspace: &Path, token: &Path) -> Result<(Shim, String)> {
    let mut shim = Shim(
        command(program("proctor-mcp")?)
            .args(["--supervisor", supervisor, "--http", "127.0.0.1:0", "--http-token-file"])
            .arg(token)
            .arg("--workspace")
            .arg(workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting proctor-mcp")?,
    );
    let mut line = String::new();
    BufReader::new(shim.0.stderr.take().context("no pipe")?).read_line(&mut line)?;
    let address =
        line.trim().strip_prefix("proctor-mcp: serving MCP at http://").and_then(|url| url.strip_suffix("/mcp"));
    let address = address.with_context(|| format!("proctor-mcp does not serve: {line}"))?.to_owned();
    Ok((shim, address))
}

// One call of an agent without a session (2026-07-28). Whether it got a good answer.
async fn call(address: &str) -> Result<bool> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "get_run", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: get_run\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let answers = response.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    let answers = answers.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(response.starts_with("HTTP/1.1 200 ")
        && answers.into_iter().any(|answer| answer["result"]["structuredContent"]["state"] == "none"))
}
