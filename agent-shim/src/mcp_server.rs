//! The MCP server: lists the tools and dispatches calls to them, whatever the transport.

use crate::abandoned_runs::Caller;
use crate::answer::budget::{self, MAX_TOKENS_MAX, token_bytes};
use crate::answer::error_result;
use crate::arguments::{Arguments, clip};
use crate::call_context::{AnswerDefaults, CallContext, CallSignals};
use crate::handshake;
use crate::http::OpenSessionId;
use crate::long_calls;
use crate::progress::ProgressClient;
use crate::request_error::{Named, request_error};
use crate::run_resources::{self, RunResource};
use crate::run_tasks::RunTasks;
use crate::session::Session;
use crate::supervisor_connection::SupervisorConnection;
use crate::tools::Tool;
use crate::trace_context;
use futures_util::future::BoxFuture;
use hyper::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams, InitializeResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// How long a client may keep the list of tools and what `server/discover` says, in milliseconds: an hour. Both change only
/// with the program.
const DEFINITIONS_TTL_MS: u64 = 60 * 60 * 1_000;

/// Code of the error of a call that the end of the server interrupts.
const SERVER_ENDING: ErrorCode = ErrorCode(-32_001);

const INSTRUCTIONS: &str = "\
Runs this workspace's tests in a sandbox and remembers how they ended. Usual order: run_tests after an edit; \
last_test_failures for file:line and messages; fix; run_failing_tests until it passes; run_tests once more. \
tests_covering tells which tests execute a file or line. A failing test is a result, not an error: read `outcome`, where \
only passed is success. If a call is cut off by your own timer, the run goes on for 30 s unless you start another: call \
it again, or get_run, and you are attached to it.";

/// The MCP server of one workspace. Clones serve further clients, which share its session.
#[derive(Clone)]
pub(crate) struct McpServer {
    supervisor: SupervisorConnection,
    session: Session,
    defaults: AnswerDefaults,
    tasks: RunTasks,
    // Cancelled when the process ends, so that calls in flight are still answered.
    ending: CancellationToken,
}

impl McpServer {
    /// A server for `workspace`, a canonical absolute path.
    pub(crate) fn new(workspace: PathBuf, supervisor: SupervisorConnection, defaults: AnswerDefaults) -> McpServer {
        let session = Session::new(workspace, !supervisor.is_private());
        let (tasks, ending) = (RunTasks::default(), CancellationToken::new());
        McpServer { supervisor, session, defaults, tasks, ending }
    }

    /// Answers the calls in flight that the server ends, and all further ones.
    pub(crate) fn interrupt_calls(&self) {
        self.ending.cancel();
    }

    /// Closes the session and ends a private supervisor.
    pub(crate) async fn shut_down(self) {
        self.session.close_if_idle(&self.supervisor).await;
        self.supervisor.shut_down().await;
    }

    /// The calls that became tasks.
    pub(crate) fn tasks(&self) -> &RunTasks {
        &self.tasks
    }

    /// Carries out one call.
    pub(crate) async fn call(
        &self,
        tool: Tool,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        signals: CallSignals,
    ) -> CallToolResult {
        let name = tool.name();
        let outcome = async {
            let mut arguments = Arguments::new(name, &tool.definition().input_schema, request.arguments)?;
            let max_tokens = arguments.count("max_tokens", MAX_TOKENS_MAX)?.unwrap_or(self.defaults.max_tokens);
            let bytes_max = token_bytes(max_tokens);
            let call = self.call_context(context, bytes_max, signals);
            let answer = Box::pin(tool.call(&call, &mut arguments)).await?;
            let mut notes = arguments.into_notes();
            notes.extend(self.session.take_notice().map(str::to_owned));
            Ok(budget::fit(&*answer, &notes, bytes_max))
        };
        match trace_context::scope_tool(&context.meta, name, outcome).await {
            Ok(answer) => answer.into_result(),
            Err(error) => error_result(name, &error, self.supervisor.is_private()),
        }
    }

    /// The context of a request with an answer of at most `bytes_max`.
    pub(crate) fn call_context(
        &self,
        context: &RequestContext<RoleServer>,
        bytes_max: usize,
        signals: CallSignals,
    ) -> CallContext<'_> {
        let CallSignals { run_id, answered } = signals;
        let peer = context.peer.clone();
        let client = context.meta.get_progress_token().map(|token| ProgressClient { peer, token, answered });
        let (supervisor, session, defaults) = (&self.supervisor, &self.session, self.defaults);
        CallContext { supervisor, session, defaults, bytes_max, client, run_id, caller: caller_of(context) }
    }

    /// Whether this process started the supervisor.
    pub(crate) fn is_private(&self) -> bool {
        self.supervisor.is_private()
    }

    // The answer to a request, or an error if the server ends before it has one. On the heap: over HTTP the stack of a thread
    // holds the state of the connection and of the request as well.
    async fn unless_ending<T>(
        &self,
        context: &RequestContext<RoleServer>,
        answer: BoxFuture<'_, Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            answer = answer => answer,
            // Dropping a call drops its event stream: the run goes on for 30 s without a caller, and a retry attaches to it.
            // A client that cancelled the request does not get this error.
            () = context.ct.cancelled() => Err(self.ending_error()),
            () = self.ending.cancelled() => Err(self.ending_error()),
        }
    }

    fn ending_error(&self) -> ErrorData {
        let text = match self.supervisor.is_private() {
            true => "cancelled: the server is ending, and its private supervisor with it",
            false => "cancelled: the server is ending; the run goes on for 30 s",
        };
        ErrorData::new(SERVER_ENDING, text, None)
    }
}

/// The agent that made a request. Over HTTP the headers are there, those of versions with sessions with the id of one.
pub(crate) fn caller_of(context: &RequestContext<RoleServer>) -> Caller {
    let Some(request) = context.extensions.get::<Parts>() else { return Caller::Only };
    request.extensions.get::<OpenSessionId>().map_or(Caller::Unknown, |id| Caller::Session(id.0.to_string()))
}

// Every list is one page, so no cursor was ever given.
fn refuse_cursor(method: &str, request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor) else { return Ok(()) };
    let text = format!("Invalid params: no {method} has given the cursor {:?}", clip(&cursor));
    Err(ErrorData::invalid_params(text, None))
}

// Older versions of the protocol know no hints for caches.
fn has_cache_hints(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build())
            .with_server_info(Implementation::new("proctor", env!("CARGO_PKG_VERSION")).with_title("proctor test runs"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        // The other clients of these versions know no extensions.
        if !request.capabilities.supports_tasks() {
            result.capabilities.extensions = None;
        }
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let state = Box::pin(long_calls::task_state(self, "tasks/get", &request.task_id, &context));
        self.unless_ending(&context, state).await.map(GetTaskResult::new)
    }

    // A task never asks its client for anything, so that there is nothing to update.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let state = Box::pin(long_calls::task_state(self, "tasks/update", &request.task_id, &context));
        self.unless_ending(&context, state).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cancelled = Box::pin(long_calls::cancel_task(self, &request.task_id, &context));
        self.unless_ending(&context, cancelled).await
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(result.with_ttl_ms(DEFINITIONS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        refuse_cursor("tools/list", request)?;
        let tools = ListToolsResult::with_all_items(Tool::ALL.iter().map(|tool| tool.definition()).collect());
        Ok(match has_cache_hints(&context) {
            true => tools.with_ttl_ms(DEFINITIONS_TTL_MS).with_cache_scope(CacheScope::Public),
            false => tools,
        })
    }

    // rmcp also routes a known request here if its params do not fit MCP.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let expected = match request.method.as_str() {
            "initialize" => return Err(handshake::initialize_error(request.params.as_ref())),
            "tools/call" => "name, a string, and arguments, an object",
            "tools/list" | "resources/list" | "resources/templates/list" => "no params, or cursor, a string",
            "resources/read" => "uri, a string",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId, a string",
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, clip(&request.method).into_owned(), None)),
        };
        Err(ErrorData::invalid_params(format!("Invalid params: {} takes {expected}", request.method), None))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        refuse_cursor("resources/list", request)?;
        // Nothing is listed before there is a session: listing must not start a supervisor.
        let resources = self.session.last_run().map(|run_id| run_resources::list(&run_id)).unwrap_or_default();
        let listed = ListResourcesResult::with_all_items(resources);
        Ok(match has_cache_hints(&context) {
            true => listed.with_ttl_ms(0).with_cache_scope(CacheScope::Private),
            false => listed,
        })
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        refuse_cursor("resources/templates/list", request)?;
        let templates = ListResourceTemplatesResult::with_all_items(run_resources::templates());
        Ok(match has_cache_hints(&context) {
            true => templates.with_ttl_ms(DEFINITIONS_TTL_MS).with_cache_scope(CacheScope::Public),
            false => templates,
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let unknown = || ErrorData::resource_not_found(format!("no resource {:?}", clip(&uri)), None);
        let resource = RunResource::from_uri(&uri).ok_or_else(unknown)?;
        let call = self.call_context(&context, token_bytes(self.defaults.max_tokens), CallSignals::new());
        let read = trace_context::scope(&context.meta, "resources/read", resource.read(&call, &uri));
        let contents = self.unless_ending(&context, Box::pin(async { Ok(read.await) })).await?;
        let contents =
            contents.map_err(|error| request_error(Named::Resource, "resources/read", &error, self.is_private()))?;
        Ok(ReadResourceResult::new(vec![contents]).into())
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
        let answer = Box::pin(async {
            match long_calls::may_take_long(tool) {
                true => long_calls::call_with_deadline(self, tool, request, &context).await,
                false => Ok(self.call(tool, request, &context, CallSignals::new()).await.into()),
            }
        });
        self.unless_ending(&context, answer).await
    }
}
