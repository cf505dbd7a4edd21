//! A real MCP client of a real `proctor-mcp` with a private supervisor. Must not know the table.

use proctor_tests::process::WAIT_MAX;
use proctor_tests::test_workspace::TestWorkspace;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, Tool};
use rmcp::service::RunningService;
use serde_json::Value;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A client and its shim.
pub(crate) struct Mcp {
    service: RunningService<rmcp::RoleClient, ()>,
    pub(crate) shim: Child,
    tools: Vec<Tool>,
}

/// An answer with its parts.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The first block.
    pub(crate) text: String,
    /// The second one; empty when there is none.
    pub(crate) hint: String,
    pub(crate) structured: Value,
    pub(crate) is_error: bool,
}

impl Mcp {
    /// A shim on the workspace of `place`, with nothing but its defaults.
    pub(crate) async fn on(place: &TestWorkspace) -> Mcp {
        Mcp::started_by(&mut place.command("proctor-mcp"), place).await
    }

    /// The same with a command of the test's own making.
    pub(crate) async fn started_by(command: &mut std::process::Command, place: &TestWorkspace) -> Mcp {
        command.arg("--workspace").arg(&place.workspace).stdin(Stdio::piped()).stderr(Stdio::inherit());
        let command = std::mem::replace(command, place.command("proctor-mcp"));
        let mut shim = Command::from(command).kill_on_drop(true).spawn().unwrap();
        let transport = (shim.stdout.take().unwrap(), shim.stdin.take().unwrap());
        let service = ().serve(transport).await.unwrap();
        let tools = service.list_all_tools().await.unwrap();
        Mcp { service, shim, tools }
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Calls a tool; what it gives as data must be what its output schema promises.
    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Answer {
        let arguments = arguments.as_object().unwrap().clone();
        let call = self.service.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments));
        let result = tokio::time::timeout(WAIT_MAX, call).await.unwrap().unwrap();
        let answer = Answer::of(&result);
        if !answer.is_error {
            let definition = self.tools.iter().find(|known| known.name == tool).unwrap();
            let schema = definition.output_schema.clone().unwrap();
            conforms(&Value::Object(schema.as_ref().clone()), &answer.structured, tool);
        }
        answer
    }

    /// The text of a call that is refused.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> String {
        let answer = self.call(tool, arguments).await;
        assert!(answer.is_error, "{answer:?}");
        answer.text
    }

    /// Ends the client as clients do, and returns when the shim has ended.
    pub(crate) async fn leave(mut self) {
        self.service.cancel().await.unwrap();
        let status = tokio::time::timeout(WAIT_MAX, self.shim.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status:?}");
    }
}

impl Answer {
    fn of(result: &CallToolResult) -> Answer {
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

// The part of JSON Schema that the shim's schemas use.
fn conforms(schema: &Value, value: &Value, path: &str) {
    let kind = schema["type"].as_str().unwrap();
    let good = match kind {
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{path}: {other} is no type that agents know"),
    };
    assert!(good, "{path}: {value} is no {kind}");
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{path}: no {required} in {value}");
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            conforms(schema, value, &format!("{path}.{name}"));
        }
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(&schema["items"], item, &format!("{path}[]"));
    }
}
