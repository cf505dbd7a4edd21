//! An MCP client (rmcp) of a real `proctor-mcp` with a private supervisor.

use crate::Boxed;
use crate::process::WAIT_MAX;
use crate::test_workspace::TestWorkspace;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, Tool};
use rmcp::service::RunningService;
use serde_json::Value;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A client and its shim process.
pub struct Mcp {
    service: RunningService<rmcp::RoleClient, ()>,
    /// The shim.
    pub shim: Child,
    tools: Vec<Tool>,
}

/// An answer of a tool.
#[derive(Debug)]
pub struct Answer {
    /// First content block.
    pub text: String,
    /// Second content block; empty when there is none.
    pub hint: String,
    /// Structured content.
    pub structured: Value,
    /// Whether the tool answers with an error.
    pub is_error: bool,
}

impl Mcp {
    /// Starts a shim on `workspace` with default options.
    pub fn start(workspace: &TestWorkspace) -> Boxed<'static, Mcp> {
        Mcp::start_with(&mut workspace.command("proctor-mcp"), workspace)
    }

    /// Starts a shim with a given command, to which `--workspace` is added.
    pub fn start_with(command: &mut std::process::Command, workspace: &TestWorkspace) -> Boxed<'static, Mcp> {
        command.arg("--workspace").arg(&workspace.path).stdin(Stdio::piped()).stderr(Stdio::inherit());
        let command = std::mem::replace(command, workspace.command("proctor-mcp"));
        Box::pin(async move {
            let mut shim = Command::from(command).kill_on_drop(true).spawn().unwrap();
            let transport = (shim.stdout.take().unwrap(), shim.stdin.take().unwrap());
            let service = ().serve(transport).await.unwrap();
            let tools = service.list_all_tools().await.unwrap();
            Mcp { service, shim, tools }
        })
    }

    /// The tools that the shim lists.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Calls a tool and checks structured data against the tool's output schema.
    pub fn call(&self, tool: &'static str, arguments: Value) -> Boxed<'_, Answer> {
        Box::pin(async move {
            let arguments = arguments.as_object().unwrap().clone();
            let call = self.service.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments));
            let result = tokio::time::timeout(WAIT_MAX, call).await.unwrap().unwrap();
            let answer = Answer::from_result(&result);
            if !answer.is_error {
                let definition = self.tools.iter().find(|known| known.name == tool).unwrap();
                if let Some(schema) = definition.output_schema.clone() {
                    assert_conforms(&Value::Object(schema.as_ref().clone()), &answer.structured, tool);
                }
            }
            answer
        })
    }

    /// Calls a tool that must return an error, and returns its text.
    pub async fn expect_error(&self, tool: &'static str, arguments: Value) -> String {
        let answer = self.call(tool, arguments).await;
        assert!(answer.is_error, "{answer:?}");
        answer.text
    }

    /// Closes the connection and waits for the shim to exit with success.
    pub fn close(mut self) -> Boxed<'static, ()> {
        Box::pin(async move {
            self.service.cancel().await.unwrap();
            let status = tokio::time::timeout(WAIT_MAX, self.shim.wait()).await.unwrap().unwrap();
            assert!(status.success(), "{status:?}");
        })
    }
}

impl Answer {
    fn from_result(result: &CallToolResult) -> Answer {
        let block = |number: usize| {
            let block = result.content.get(number).and_then(|block| block.as_text());
            block.map(|text| text.text.clone()).unwrap_or_default()
        };
        Answer {
            text: block(0),
            hint: block(1),
            structured: result.structured_content.clone().unwrap_or_default(),
            is_error: result.is_error == Some(true),
        }
    }
}

// Supports the part of JSON Schema that the shim's schemas use.
fn assert_conforms(schema: &Value, value: &Value, path: &str) {
    let kind = schema["type"].as_str().unwrap();
    let good = match kind {
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{path}: type {other} is not one that agents know"),
    };
    assert!(good, "{path}: {value} is not a {kind}");
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{path}: no {required} in {value}");
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            assert_conforms(schema, value, &format!("{path}.{name}"));
        }
    }
    for item in value.as_array().into_iter().flatten() {
        assert_conforms(&schema["items"], item, &format!("{path}[]"));
    }
}
