//! The MCP server: lists the tools and dispatches calls to them.

use crate::answer::budget::{self, MAX_TOKENS_MAX};
use crate::answer::error_result;
use crate::arguments::{Arguments, clip};
use crate::session::Session;
use crate::supervisor_connection::SupervisorConnection;
use crate::tool_call::{AnswerDefaults, ToolCall};
use crate::tools::Tool;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode, Implementation,
    InitializeResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::path::PathBuf;

const INSTRUCTIONS: &str = "\
Runs this workspace's tests in a sandbox and remembers how they ended. Usual order: run_tests after an edit; \
last_test_failures for file:line and messages; fix; run_failing_tests until it passes; run_tests once more. \
tests_covering tells which tests execute a file or line. A failing test is a result, not an error: read `outcome`, where \
only passed is success. If a call is cut off by your own timer, the run goes on for 30 s: call it again, or get_run, and \
you are attached to it.";

/// The MCP server for one client.
pub(crate) struct McpServer {
    supervisor: SupervisorConnection,
    session: Session,
    defaults: AnswerDefaults,
}

impl McpServer {
    /// A server for `workspace`, a canonical absolute path.
    pub(crate) fn new(workspace: PathBuf, supervisor: SupervisorConnection, defaults: AnswerDefaults) -> McpServer {
        let session = Session::new(workspace, !supervisor.is_private());
        McpServer { supervisor, session, defaults }
    }

    /// The supervisor connection, to be shut down after the server.
    pub(crate) fn supervisor(&self) -> SupervisorConnection {
        self.supervisor.clone()
    }

    /// The session, to be closed after the server.
    pub(crate) fn session(&self) -> Session {
        self.session.clone()
    }

    async fn call(
        &self,
        tool: Tool,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let name = tool.name();
        let client = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        let outcome = async {
            let mut arguments = Arguments::new(name, &tool.definition().input_schema, request.arguments)?;
            let max_tokens = arguments.count("max_tokens", MAX_TOKENS_MAX)?.unwrap_or(self.defaults.max_tokens);
            let bytes_max = budget::token_bytes(max_tokens);
            let (supervisor, session, defaults) = (&self.supervisor, &self.session, self.defaults);
            let call = ToolCall { supervisor, session, defaults, bytes_max, client };
            let answer = tool.call(&call, &mut arguments).await?;
            let mut notes = arguments.into_notes();
            notes.extend(self.session.take_notice().map(str::to_owned));
            Ok(budget::fit(&*answer, &notes, bytes_max))
        };
        match outcome.await {
            Ok(answer) => answer.into_result(),
            Err(error) => error_result(name, &error, self.supervisor.is_private()),
        }
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("proctor", env!("CARGO_PKG_VERSION")).with_title("proctor test runs"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Tool::ALL.iter().map(|tool| tool.definition()).collect()))
    }

    // rmcp also routes a known request here if its params do not fit MCP.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let expected = match request.method.as_str() {
            "tools/call" => "name, a string, and arguments, an object",
            "initialize" => "protocolVersion, capabilities and clientInfo",
            "tools/list" => "no params, or cursor, a string",
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, clip(&request.method).into_owned(), None)),
        };
        Err(ErrorData::invalid_params(format!("Invalid params: {} takes {expected}", request.method), None))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        Tool::from_name(name).map(Tool::definition)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::from_name(&request.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool: {}", clip(&request.name)), None));
        };
        tokio::select! {
            result = self.call(tool, request, &context) => Ok(result.into()),
            // Dropping the call drops its event stream: the run goes on for 30 s without a caller, and a retry attaches to it.
            () = context.ct.cancelled() => Ok(CallToolResult::error(Vec::new()).into()),
        }
    }
}
