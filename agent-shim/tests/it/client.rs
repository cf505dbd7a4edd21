//! A real MCP client of a real `proctor-mcp` process.

use crate::fake_supervisor::FakeSupervisor;
use rmcp::model::{CallToolRequestParams, CallToolResult, ProgressNotificationParam, Tool};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::process::{Child, Command};

/// Records progress notifications.
#[derive(Clone, Default)]
pub(crate) struct ProgressRecorder(Arc<Mutex<Vec<ProgressNotificationParam>>>);

impl ClientHandler for ProgressRecorder {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push(params);
    }
}

/// A client and its shim.
pub(crate) struct Client {
    service: RunningService<RoleClient, ProgressRecorder>,
    pub(crate) shim: Child,
    pub(crate) workspace: tempfile::TempDir,
    progress: ProgressRecorder,
}

/// Serialises fork and the writing of programs: a process forked while a program is open for writing inherits the descriptor,
/// and the program cannot be executed (ETXTBSY).
static FORK_OR_WRITE: Mutex<()> = Mutex::new(());

/// Writes a program that shims execute.
pub(crate) fn write_program(path: &Path, script: &str) {
    let _guard = FORK_OR_WRITE.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts `proctor-mcp` with these arguments, and pipes as stdin and stdout.
pub(crate) fn shim(arguments: &[&str]) -> Child {
    spawn(command(arguments).stderr(Stdio::inherit()))
}

/// The same with a stderr that is a pipe too.
pub(crate) fn shim_with_stderr(arguments: &[&str]) -> Child {
    spawn(command(arguments).stderr(Stdio::piped()))
}

/// The same with the log at level trace.
pub(crate) fn verbose_shim(arguments: &[&str]) -> Child {
    spawn(command(arguments).env("PROCTOR_LOG", "trace").stderr(Stdio::piped()))
}

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proctor-mcp"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

fn spawn(command: &mut Command) -> Child {
    let _guard = FORK_OR_WRITE.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

impl Client {
    /// A client of a shim whose supervisor is `fake`.
    pub(crate) async fn connected_to(fake: &FakeSupervisor) -> Client {
        Client::with(&["--supervisor", &format!("unix:{}", fake.socket().display())]).await
    }

    /// A client of a shim with `arguments` and a temporary workspace.
    pub(crate) async fn with(arguments: &[&str]) -> Client {
        Client::started_by(shim, arguments).await
    }

    /// The same with a shim started by `start`.
    pub(crate) async fn started_by(start: impl FnOnce(&[&str]) -> Child, arguments: &[&str]) -> Client {
        let workspace = tempfile::tempdir().unwrap();
        let mut all = vec!["--workspace", workspace.path().to_str().unwrap()];
        all.extend(arguments);
        let mut shim = start(&all);
        let progress = ProgressRecorder::default();
        let transport = (shim.stdout.take().unwrap(), shim.stdin.take().unwrap());
        let service = progress.clone().serve(transport).await.unwrap();
        Client { service, shim, workspace, progress }
    }

    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.service.list_all_tools().await.unwrap()
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let arguments = arguments.as_object().unwrap().clone();
        self.service.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
    }

    /// The text of the only block of a call that fails.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        assert_eq!(result.content.len(), 1, "{result:?}");
        block(&result, 0)
    }

    pub(crate) fn progress(&self) -> Vec<ProgressNotificationParam> {
        self.progress.0.lock().unwrap().clone()
    }

    /// Ends the client by closing the shim's stdin.
    pub(crate) async fn leave(self) -> Child {
        self.service.cancel().await.unwrap();
        self.shim
    }

    /// The protocol, for requests other than tool calls.
    pub(crate) fn service(&self) -> &RunningService<RoleClient, ProgressRecorder> {
        &self.service
    }

    pub(crate) fn root(&self) -> &Path {
        self.workspace.path()
    }
}

/// The text of one block of a result.
pub(crate) fn block(result: &CallToolResult, number: usize) -> String {
    result.content[number].as_text().unwrap_or_else(|| panic!("{result:?}")).text.clone()
}

/// The structured content, checked against the tool's output schema.
pub(crate) async fn structured(client: &Client, tool: &str, result: &CallToolResult) -> Value {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let tools = client.tools().await;
    let schema = tools.iter().find(|listed| listed.name == tool).unwrap().output_schema.clone().unwrap();
    let value = result.structured_content.clone().unwrap();
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{tool}: {required} in {value}");
    }
    conforms(&Value::Object(schema.as_ref().clone()), &value, tool);
    value
}

fn conforms(schema: &Value, value: &Value, path: &str) {
    let has_type = match schema["type"].as_str().unwrap() {
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    assert!(has_type, "{path}: {value} is not a {}", schema["type"]);
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            conforms(schema, value, &format!("{path}.{name}"));
        }
    }
    if value.is_array() && schema["items"].is_object() {
        for item in value.as_array().unwrap() {
            conforms(&schema["items"], item, &format!("{path}[]"));
        }
    }
}
