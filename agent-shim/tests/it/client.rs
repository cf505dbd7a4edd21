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

/// Keeps the progress that it is told.
#[derive(Clone, Default)]
pub(crate) struct Listener(Arc<Mutex<Vec<ProgressNotificationParam>>>);

impl ClientHandler for Listener {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push(params);
    }
}

/// A client with its shim.
pub(crate) struct Client {
    service: RunningService<RoleClient, Listener>,
    pub(crate) shim: Child,
    pub(crate) workspace: tempfile::TempDir,
    listener: Listener,
}

/// A process that is made while a program is being written holds it open for writing, and nobody can execute it (ETXTBSY).
static NO_OTHER: Mutex<()> = Mutex::new(());

/// Writes a program that shims execute.
pub(crate) fn write_program(path: &Path, script: &str) {
    let _no_other = NO_OTHER.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts `proctor-mcp` with these arguments, its stdin and stdout being pipes.
pub(crate) fn shim(arguments: &[&str]) -> Child {
    spawn(command(arguments).stderr(Stdio::inherit()))
}

/// The same with all that it can log, on a stderr that is a pipe too.
pub(crate) fn talkative_shim(arguments: &[&str]) -> Child {
    spawn(command(arguments).env("PROCTOR_LOG", "trace").stderr(Stdio::piped()))
}

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proctor-mcp"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

fn spawn(command: &mut Command) -> Child {
    let _no_other = NO_OTHER.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

impl Client {
    /// A client of a shim whose supervisor is `fake`.
    pub(crate) async fn of(fake: &FakeSupervisor) -> Client {
        Client::with(&["--supervisor", &format!("unix:{}", fake.socket().display())]).await
    }

    /// A client of a shim with `arguments`, besides a workspace of its own.
    pub(crate) async fn with(arguments: &[&str]) -> Client {
        Client::made_by(shim, arguments).await
    }

    /// The same of a shim that is started in another way.
    pub(crate) async fn made_by(start: impl FnOnce(&[&str]) -> Child, arguments: &[&str]) -> Client {
        let workspace = tempfile::tempdir().unwrap();
        let mut all = vec!["--workspace", workspace.path().to_str().unwrap()];
        all.extend(arguments);
        let mut shim = start(&all);
        let listener = Listener::default();
        let transport = (shim.stdout.take().unwrap(), shim.stdin.take().unwrap());
        let service = listener.clone().serve(transport).await.unwrap();
        Client { service, shim, workspace, listener }
    }

    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.service.list_all_tools().await.unwrap()
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let arguments = arguments.as_object().unwrap().clone();
        self.service.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
    }

    /// The text of the one block of a refused call.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        assert_eq!(result.content.len(), 1, "{result:?}");
        block(&result, 0)
    }

    pub(crate) fn progress(&self) -> Vec<ProgressNotificationParam> {
        self.listener.0.lock().unwrap().clone()
    }

    /// Ends the client, that is, closes the shim's stdin.
    pub(crate) async fn leave(self) -> Child {
        self.service.cancel().await.unwrap();
        self.shim
    }

    pub(crate) fn root(&self) -> &Path {
        self.workspace.path()
    }
}

/// The text of one block of a result.
pub(crate) fn block(result: &CallToolResult, number: usize) -> String {
    result.content[number].as_text().unwrap_or_else(|| panic!("{result:?}")).text.clone()
}

/// The structured content, which must have what the tool's output schema requires, in the types that it names.
pub(crate) async fn structured(client: &Client, tool: &str, result: &CallToolResult) -> Value {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let tools = client.tools().await;
    let schema = tools.iter().find(|known| known.name == tool).unwrap().output_schema.clone().unwrap();
    let value = result.structured_content.clone().unwrap();
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{tool}: {required} in {value}");
    }
    conforms(&Value::Object(schema.as_ref().clone()), &value, tool);
    value
}

fn conforms(schema: &Value, value: &Value, path: &str) {
    let good = match schema["type"].as_str().unwrap() {
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    assert!(good, "{path}: {value} is no {}", schema["type"]);
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
