//! `proctor-mcp`: the agent shim of one tenant. An MCP server over stdio or HTTP on one side, a gRPC client on the other. This
//! file starts it and shuts it down.
//!
//! Tasks: rmcp's service loop, and one task per call, another if that may take long (`long_calls`); those of the HTTP server
//! (`http`); one task per call that reports progress (`progress`), and per run that is followed for an agent that was cut off
//! (`abandoned_runs`); one that keeps the session alive (`keepalive`). Channels: a `watch` per call, which holds one value; the
//! queue of log lines on their way to the log thread (`stderr_log`). Everything else is a future of the call that needs it.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "stdout is the protocol, and these panic where nothing can be written"
)]
#![deny(clippy::large_futures, reason = "a future in a future in a future overflows the stack of its thread")]

mod abandoned_runs;
mod answer;
mod arguments;
mod batch_answers;
mod bearer_token;
mod bounded_report;
mod call_context;
mod call_error;
mod certificate_errors;
mod command_line;
mod doctor;
mod doctor_http;
mod doctor_tls;
mod end_of_input;
mod end_of_output;
mod handshake;
mod http;
mod json_rpc_line;
mod json_schema;
mod keepalive;
mod line_reader;
mod line_transport;
mod line_writer;
mod long_calls;
mod mcp_server;
mod private_supervisor;
mod progress;
mod reconnect;
mod request_error;
mod requests_in_flight;
mod run_follower;
mod run_output;
mod run_resources;
mod run_tasks;
mod run_uri;
mod session;
mod stderr_log;
mod stdio_server;
mod supervisor_connection;
mod tls_probe;
mod tools;
mod trace_context;

use clap::Parser;
use command_line::{Args, Workspace};
use futures_util::future::join_all;
use http::HttpWorkspace;
use mcp_server::McpServer;
use proctor_proto::printable::Printable;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use stderr_log::StderrLog;
use supervisor_connection::SupervisorConnection;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Log filter without PROCTOR_LOG. rmcp warns of every error that a client is answered with, which any client can cause.
const LOG_FILTER: &str = "warn,rmcp::service=error";

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return print_usage(&error),
    };
    match args.shell_file() {
        Some(Ok(file)) => return print_bytes(&file),
        Some(Err(error)) => return exit_with_error(&format!("proctor-mcp: {error}")),
        None => {}
    }
    match start(args) {
        Ok(status) => status,
        // Printed whatever the log level: a person who starts the shim by hand has to see it.
        Err(error) => exit_with_error(&format!("proctor-mcp: {error:#}")),
    }
}

// Help and version succeed, even if their reader has gone; everything else is a usage error.
fn print_usage(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        return exit_with_error(text.trim_end());
    }
    print_bytes(text.as_bytes())
}

fn print_bytes(text: &[u8]) -> ExitCode {
    let mut stdout = Printable(anstream::stdout());
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            exit_with_error(&format!("proctor-mcp: standard output cannot be written: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

fn exit_with_error(text: &str) -> ExitCode {
    print_line(text);
    ExitCode::from(2)
}

fn print_line(text: &str) {
    _ = Printable(anstream::stderr()).write_all(format!("{text}\n").as_bytes());
}

fn start(args: Args) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_env("PROCTOR_LOG").unwrap_or_else(|_| EnvFilter::new(LOG_FILTER));
    let colours = std::io::stderr().is_terminal();
    let log = StderrLog::start(std::io::stderr())?;
    let lines = log.clone();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(move || lines.clone()).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2) // one thread reads while the other renders
        .enable_all()
        .build()?;
    let ended = runtime.block_on(run(args));
    // A blocking read of a terminal's stdin cannot be interrupted and must not delay the end.
    runtime.shutdown_background();
    log.finish();
    ended
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.is_doctor() {
        let http = args.http()?.map(|settings| Ok::<_, anyhow::Error>((settings, args.http_paths()?)));
        return Ok(doctor::run(http.transpose()?).await);
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let terminated = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let workspaces = args.workspaces()?.into_iter().map(|Workspace { name, path }| {
        let supervisor = SupervisorConnection::new(args.endpoint(&path));
        HttpWorkspace { name, server: McpServer::new(path, supervisor, args.answer_defaults()) }
    });
    let workspaces: Vec<HttpWorkspace> = workspaces.collect();
    let servers: Vec<McpServer> = workspaces.iter().map(|workspace| workspace.server.clone()).collect();
    let served = match args.http()? {
        Some(settings) => {
            let server = http::bind(&settings, workspaces).await?;
            server.urls().iter().for_each(|url| print_line(&format!("proctor-mcp: serving MCP at {url}")));
            server.run(terminated).await;
            Ok(())
        }
        None => match servers.first() {
            Some(server) => stdio_server::serve(server.clone(), terminated).await,
            None => Ok(()),
        },
    };
    join_all(servers.into_iter().map(McpServer::shut_down)).await;
    served.map(|()| ExitCode::SUCCESS)
}
