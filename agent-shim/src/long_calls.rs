//! Long calls of tools that run tests: they become tasks for clients that know those, and are answered with the state of their
//! run for the others, before the timers of these run out. Also the state of tasks that an earlier process began.

use crate::call_context::CallSignals;
use crate::mcp_server::McpServer;
use crate::run_tasks::{self, ANSWER_DELAY_MAX, OngoingCall};
use crate::tools::Tool;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, ErrorData, JsonObject,
    TaskPayload,
};
use rmcp::service::RequestContext;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a call is awaited without progress notifications. Many clients give up after 60 s.
const SILENT_CALL_MAX: Duration = Duration::from_secs(50);

/// How long a call is awaited that reports progress, which restarts the timers of some clients; others give up after 300 s.
const CALL_MAX: Duration = Duration::from_secs(240);

/// Whether calls of this tool may take long: those that run tests, and have a run to name them by.
pub(crate) fn may_take_long(tool: Tool) -> bool {
    matches!(tool, Tool::RunTests | Tool::RunFailingTests)
}

/// Carries out a call. If it takes long, it goes on after its answer; dropped before that, it detaches from its run.
pub(crate) async fn call_with_deadline(
    server: &McpServer,
    tool: Tool,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let has_tasks = context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
    let deadline = match (has_tasks, context.meta.get_progress_token()) {
        (true, _) => ANSWER_DELAY_MAX,
        (false, Some(_)) => CALL_MAX,
        (false, None) => SILENT_CALL_MAX,
    };
    let signals = CallSignals::new();
    let mut run_id = signals.run_id.subscribe();
    let (outcome_sender, outcome) = watch::channel(None);
    let mut call = OngoingCall { outcome, carrier: JoinSet::new() };
    let (server_of_call, context_of_call) = (server.clone(), context.clone());
    let answered = signals.answered.clone();
    call.carrier.spawn(async move {
        let result = server_of_call.call(tool, request, &context_of_call, signals).await;
        outcome_sender.send_replace(Some((result, SystemTime::now())));
    });
    if tokio::time::timeout(deadline, call.outcome.wait_for(Option::is_some)).await.is_err() {
        // Fails when the call ends without a run.
        let run_id = run_id.wait_for(Option::is_some).await.ok().and_then(|run_id| run_id.clone());
        if let Some(run_id) = run_id {
            call = match server.tasks().add(&run_id, call) {
                Ok(task) if has_tasks => return Ok(CallToolResponse::Task(CreateTaskResult::new(task))),
                Ok(_) => {
                    answered.cancel();
                    return Ok(get_run(server, &run_id, false, context).await.into());
                }
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
    let result = known_run(server, run_id, false, context).await?;
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
    known_run(server, run_id, true, context).await.map(drop)
}

// Refuses unknown runs: the supervisor says the same of a run that is not there and of another tenant's.
async fn known_run(
    server: &McpServer,
    run_id: &str,
    cancel: bool,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let unknown = || ErrorData::invalid_params("Invalid params: no task has this taskId", None);
    if run_id.is_empty() {
        return Err(unknown());
    }
    let result = get_run(server, run_id, cancel, context).await;
    if result.is_error == Some(true) { Err(unknown()) } else { Ok(result) }
}

async fn get_run(
    server: &McpServer,
    run_id: &str,
    cancel: bool,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    let mut arguments = JsonObject::new();
    arguments.insert("run_id".to_owned(), run_id.into());
    arguments.insert("cancel".to_owned(), cancel.into());
    let request = CallToolRequestParams::new(Tool::GetRun.name()).with_arguments(arguments);
    server.call(Tool::GetRun, request, context, CallSignals::new()).await
}
