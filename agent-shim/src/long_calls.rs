//! Long calls of tools that run tests: they become tasks for clients that know those, and are answered with the state of their
//! run for the others, before the timers of these run out. Also the state of tasks that an earlier process began.

use crate::call_context::CallSignals;
use crate::mcp_server::{McpServer, caller_of};
use crate::request_error::{Named, request_error};
use crate::run_tasks::{self, ANSWER_DELAY_MAX, EndedCall, OngoingCall};
use crate::tools::Tool;
use crate::tools::get_run::{self, CANCEL_MS_MAX};
use crate::trace_context;
use proctor_proto::v1::{CancelRunRequest, GetRunResponse, Outcome, Report};
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

/// Whether calls of this tool may take long: those that run tests or checks, and have a run to name them by.
pub(crate) fn may_take_long(tool: Tool) -> bool {
    match tool {
        Tool::RunTests | Tool::RunFailingTests | Tool::RunAffectedTests | Tool::RunLint | Tool::RunTypecheck => true,
        Tool::LastTestFailures
        | Tool::AnalyzeFailures
        | Tool::TestsCovering
        | Tool::ListTests
        | Tool::GetRun
        | Tool::GetTestReport => false,
    }
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
    let called_at = SystemTime::now();
    let signals = CallSignals::new();
    let mut run_id = signals.run_id.subscribe();
    let (outcome_sender, outcome) = watch::channel(None);
    let mut call = OngoingCall { outcome, carrier: JoinSet::new() };
    let (server_of_call, context_of_call) = (server.clone(), context.clone());
    let answered = signals.answered.clone();
    call.carrier.spawn(async move {
        let result = server_of_call.call(tool, request, &context_of_call, signals).await;
        outcome_sender.send_replace(Some(EndedCall::new(result)));
    });
    if tokio::time::timeout(deadline, call.outcome.wait_for(Option::is_some)).await.is_err() {
        // Fails when the call ends without a run.
        let run_id = run_id.wait_for(Option::is_some).await.ok().and_then(|run_id| run_id.clone());
        if let Some(run_id) = run_id {
            let status = run_status(server, "tools/call", &run_id, 0, context).await;
            let created_at = status.map_or(called_at, |status| created_at(&status));
            call = match server.tasks().add(&caller_of(context), &run_id, created_at, call) {
                Ok(task) if has_tasks => return Ok(CallToolResponse::Task(CreateTaskResult::new(task))),
                Ok(_) => {
                    answered.cancel();
                    return Ok(get_run(server, &run_id, context).await.into());
                }
                Err(call) => call,
            };
        }
    }
    let outcome = call.outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
    let ended = outcome.ok_or_else(|| ErrorData::internal_error("the call failed; call it again", None))?;
    Ok(ended.result.into())
}

/// The state of a task. The supervisor knows the runs of earlier processes too.
pub(crate) async fn task_state(
    server: &McpServer,
    method: &'static str,
    run_id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<DetailedTask, ErrorData> {
    if let Some(known) = server.tasks().get(&caller_of(context), run_id) {
        return Ok(known);
    }
    let status = run_status(server, method, run_id, 0, context).await?;
    let payload = match status.report.as_ref().map(Report::outcome) {
        None => TaskPayload::Working,
        Some(Outcome::Cancelled) => TaskPayload::Cancelled,
        Some(_) => run_tasks::completed(&get_run(server, run_id, context).await),
    };
    Ok(run_tasks::foreign_task(run_id, created_at(&status), payload))
}

/// Cancels the run of a task at once, and waits for its end.
pub(crate) async fn cancel_task(
    server: &McpServer,
    run_id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let method = "tasks/cancel";
    let call = server.call_context(context, 0, CallSignals::new());
    let request = CancelRunRequest { run_id: required(run_id)?.to_owned() };
    let cancel = call.request(|mut clients| {
        let request = request.clone();
        async move { clients.runs.cancel_run(request).await }
    });
    let cancelled = trace_context::scope(&context.meta, method, cancel).await;
    cancelled.map_err(|error| request_error(Named::Task, method, &error, server.is_private()))?;
    let status = run_status(server, method, run_id, CANCEL_MS_MAX, context).await?;
    // It may have ended by itself before that.
    if status.report.is_none_or(|report| report.outcome() == Outcome::Cancelled) {
        server.tasks().cancel(&caller_of(context), run_id);
    }
    Ok(())
}

async fn run_status(
    server: &McpServer,
    method: &'static str,
    run_id: &str,
    wait_ms: u64,
    context: &RequestContext<RoleServer>,
) -> Result<GetRunResponse, ErrorData> {
    let call = server.call_context(context, 0, CallSignals::new());
    // Boxed, as the future holds a report.
    let status = Box::pin(get_run::status(&call, required(run_id)?, wait_ms));
    let status = trace_context::scope(&context.meta, method, status).await;
    status.map_err(|error| request_error(Named::Task, method, &error, server.is_private()))
}

// An empty id would mean another run to some requests.
fn required(run_id: &str) -> Result<&str, ErrorData> {
    let missing = || ErrorData::invalid_params("Invalid params: taskId is empty", None);
    Some(run_id).filter(|run_id| !run_id.is_empty()).ok_or_else(missing)
}

fn created_at(status: &GetRunResponse) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(Duration::from_millis(status.age_ms)).unwrap_or(now)
}

async fn get_run(server: &McpServer, run_id: &str, context: &RequestContext<RoleServer>) -> CallToolResult {
    let mut arguments = JsonObject::new();
    arguments.insert("run_id".to_owned(), run_id.into());
    let request = CallToolRequestParams::new(Tool::GetRun.name()).with_arguments(arguments);
    server.call(Tool::GetRun, request, context, CallSignals::new()).await
}
