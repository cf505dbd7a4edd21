//! `proctor-mcp doctor`: starts this program as an MCP client would, with the same options, goes through what every client does,
//! and says at which step it fails and why. `doctor_http` does so for a server that listens already.

use crate::command_line::HttpSettings;
use crate::doctor_http;
use proctor_proto::printable::Printable;
use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Name of the command among the arguments.
pub(crate) const COMMAND: &str = "doctor";

/// Longest time for one step. Clients give up after a minute at the latest.
const STEP_MAX: Duration = Duration::from_secs(30);

/// A step that failed: what was tried, what went wrong, what helps.
pub(crate) struct Failure {
    step: &'static str,
    cause: String,
    remedy: &'static str,
}

impl Failure {
    pub(crate) fn new(step: &'static str, cause: &dyn Display, remedy: &'static str) -> Failure {
        Failure { step, cause: cause.to_string(), remedy }
    }
}

/// Runs all steps and prints each. `http`: the server to check, if it is one that listens, and the paths of its workspaces.
pub(crate) async fn run(http: Option<(HttpSettings, Vec<String>)>) -> ExitCode {
    let checked = match http {
        Some((settings, paths)) => doctor_http::check(&settings, &paths).await,
        None => check().await,
    };
    match checked {
        Ok(verdict) => {
            print(verdict);
            ExitCode::SUCCESS
        }
        Err(Failure { step, cause, remedy }) => {
            print(&format!("FAILED  {step}: {cause}\n        {remedy}"));
            ExitCode::FAILURE
        }
    }
}

/// The last line if all that a client does first was tried and works.
pub(crate) const ALL_WORKS: &str = "everything that a client does first works";

async fn check() -> Result<&'static str, Failure> {
    let mut shim = start()?;
    let client = connect(&mut shim).await?;
    let tools = step("list the tools", "the log above says why", client.list_all_tools()).await?;
    print(&format!("ok      the server lists {} tools", tools.len()));
    // Opens a session, which needs the supervisor, the tenant and the workspace, and runs nothing.
    let asked = client.call_tool(CallToolRequestParams::new("get_run"));
    let answer = step("open a session", "the log above says why", asked).await?;
    let text =
        answer.content.iter().find_map(|block| block.as_text()).map(|text| text.text.clone()).unwrap_or_default();
    if answer.is_error == Some(true) {
        return Err(Failure::new("open a session", &text, "mend this, then run the doctor again"));
    }
    print("ok      the supervisor opens a session on the workspace");
    step("end", "the log above says why", client.cancel()).await?;
    let ended = timeout(STEP_MAX, shim.wait()).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(ALL_WORKS),
        Ok(Ok(status)) => Err(Failure::new("end", &status, "the log above says why")),
        Ok(Err(error)) => Err(Failure::new("end", &error, "the log above says why")),
        Err(late) => Err(Failure::new("end", &late, "the server does not end when its input does")),
    }
}

#[expect(clippy::disallowed_methods, reason = "this program itself, which starts nothing but its supervisor")]
// The same options without the command, as a client's configuration has them. The log goes to this terminal.
fn start() -> Result<Child, Failure> {
    let failed =
        |error: &dyn Display| Failure::new("start the server", error, "check that the program can be executed");
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut options: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Only the command: a directory may have the same name.
    if let Some(position) = options.iter().position(|argument| argument == COMMAND) {
        options.remove(position);
    }
    let mut command = Command::new(&program);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let shim = command.spawn().map_err(|error| failed(&error))?;
    print(&format!("ok      started {}", program.display()));
    Ok(shim)
}

async fn connect(shim: &mut Child) -> Result<RunningService<RoleClient, ()>, Failure> {
    let remedy = "if the server has ended, its message is above";
    let pipes = shim.stdout.take().zip(shim.stdin.take());
    let Some(pipes) = pipes else { return Err(Failure::new("connect", &"it has no pipes", remedy)) };
    let client = step("initialize", remedy, ().serve(pipes)).await?;
    let version = client.peer_info().map(|server| server.protocol_version.to_string()).unwrap_or_default();
    print(&format!("ok      initialized, protocol {version}"));
    Ok(client)
}

pub(crate) async fn step<T, E: Display>(
    name: &'static str,
    remedy: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    match timeout(STEP_MAX, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Failure::new(name, &error, remedy)),
        Err(_) => Err(Failure::new(name, &format!("no answer within {} s", STEP_MAX.as_secs()), remedy)),
    }
}

pub(crate) fn print(text: &str) {
    _ = Printable(anstream::stdout()).write_all(format!("{text}\n").as_bytes());
}
