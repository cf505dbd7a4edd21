//! Calls of the server as tasks: when a call becomes one, and the state of those that an earlier process began.

use crate::mcp_server::McpServer;
use crate::run_tasks::{self, ANSWER_DELAY_MAX, OngoingCall};
use crate::tools::Tool;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, ErrorData, JsonObject,
    TaskPayload,
};
use rmcp::service::RequestContext;
use std::time::SystemTime;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Whether calls of this tool may become tasks: those that run tests, and have a run to name them by.
pub(crate) fn may_be_task(tool: Tool) -> bool {
    matches!(tool, Tool::RunTests | Tool::RunFailingTests)
}

/// Carries out a call, which becomes a task if it takes long. Dropped before that, it detaches from its run.
pub(crate) async fn call_or_task(
    server: &McpServer,
    tool: Tool,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let (run_id_sender, mut run_id) = watch::channel(None);
    let (outcome_sender, outcome) = watch::channel(None);
    let mut call = OngoingCall { outcome, carrier: JoinSet::new() };
    let (server_of_call, context_of_call) = (server.clone(), context.clone());
    call.carrier.spawn(async move {
        let result = server_of_call.call(tool, request, &context_of_call, run_id_sender).await;
        outcome_sender.send_replace(Some((result, SystemTime::now())));
    });
    if tokio::time::timeout(ANSWER_DELAY_MAX, call.outcome.wait_for(Option::is_some)).await.is_err() {
        // Fails when the call ends without a run.
        let run_id = run_id.wait_for(Option::is_some).await.ok().and_then(|run_id| run_id.clone());
        if let Some(run_id) = run_id {
            call = match server.tasks().add(&run_id, call) {
                Ok(task) => return Ok(CallToolResponse::Task(CreateTaskResult::new(task))),
                Err(call) => call,
            };
        }
    }
    let outcome = call.outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
    let (result, _) = outcome.ok_or_else(|| ErrorData::internal_error("the call failed; call it again", None))?;
    Ok(result.into())
}

/// The state of a task. The supervisor knows the runs of earlier processes too.
pub(crate) async fn task_state(
    server: &McpServer,
    run_id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<DetailedTask, ErrorData> {
    if let Some(known) = server.tasks().get(run_id) {
        return Ok(known);
    }
    let result = get_run(server, run_id, false, context).await?;
    let member = |name: &str| result.structured_content.as_ref().and_then(|content| content.get(name)?.as_str());
    let payload = match (member("state"), member("outcome")) {
        (Some("finished"), Some("cancelled")) => TaskPayload::Cancelled,
        (Some("finished"), _) => run_tasks::completed(&result),
        _ => TaskPayload::Working,
    };
    Ok(run_tasks::foreign_task(run_id, payload))
}

/// Cancels the run of a task at once.
pub(crate) async fn cancel_task(
    server: &McpServer,
    run_id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    // Before the run ends, so that its end is not taken for its own.
    server.tasks().cancel(run_id);
    get_run(server, run_id, true, context).await.map(drop)
}

// Refuses unknown runs: the supervisor says the same of a run that is not there and of another tenant's.
async fn get_run(
    server: &McpServer,
    run_id: &str,
    cancel: bool,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let unknown = || ErrorData::invalid_params("Invalid params: no task has this taskId", None);
    if run_id.is_empty() {
        return Err(unknown());
    }
    let mut arguments = JsonObject::new();
    arguments.insert("run_id".to_owned(), run_id.into());
    arguments.insert("cancel".to_owned(), cancel.into());
    let request = CallToolRequestParams::new(Tool::GetRun.name()).with_arguments(arguments);
    let (run_id_sender, _) = watch::channel(None);
    let result = server.call(Tool::GetRun, request, context, run_id_sender).await;
    if result.is_error == Some(true) { Err(unknown()) } else { Ok(result) }
}
