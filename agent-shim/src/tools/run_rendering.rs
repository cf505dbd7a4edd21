//! What running tools have in common: follow the run, read its output, render it. Must not know why the run was started.

use super::tool_spec::TIMEOUT_S_MAX;
use crate::arguments::{ArgumentError, Arguments};
use crate::call_error::CallError;
use crate::progress::{ProgressReporter, ProgressState};
use crate::report_json::{self, Context};
use crate::run_follower::{EndedRun, RunFollower};
use crate::run_output::{OutputSpan, head, how_to_read_on};
use crate::supervisor_connection::Clients;
use crate::tool_answer::Answer;
use crate::tool_call::ToolCall;
use crate::{offline_report, run_summary, shortened_text};
use proctor_proto::reason;
use proctor_proto::text::{self, Head, Reader};
use proctor_proto::v1::{GetReportRequest, LastTestFailuresRequest, Limits, ReportFormat, RunEvent, Stream};
use tonic::{Status, Streaming};

/// Most failures listed in a shortened text.
const FAILURES_MAX: u32 = 50;

/// The limits that `timeout` asks for.
pub(super) fn limits(arguments: &mut Arguments) -> Result<Option<Limits>, ArgumentError> {
    let timeout = arguments.seconds("timeout", TIMEOUT_S_MAX)?;
    let wall_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    Ok(wall_ms.map(|wall_ms| Limits { wall_ms, ..Limits::default() }))
}

/// Most tokens wished for.
pub(super) fn max_tokens(arguments: &mut Arguments) -> Result<Option<u32>, ArgumentError> {
    arguments.count("max_tokens", 1_000_000)
}

/// Starts a run with `start`, follows it to its end and renders it.
pub(super) async fn follow<F>(
    call: &ToolCall<'_>,
    max_tokens: Option<u32>,
    start: impl Fn(Clients, String) -> F,
) -> Result<Answer, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let ended = call
        .reporting(ProgressState::waiting("starting"), async |progress| {
            match once(call, progress, &start).await {
                // Of a run that had to wait this is told in its events. Asked again, it is told at once, for which the
                // session has an answer.
                Err(error) if error.reason().is_some_and(|reason| reason.name == reason::WORKSPACE_REPLACED) => {
                    once(call, progress, &start).await
                }
                ended => ended,
            }
        })
        .await?;
    rendered(call, &ended, max_tokens).await
}

async fn once<F>(
    call: &ToolCall<'_>,
    progress: &ProgressReporter,
    start: &impl Fn(Clients, String) -> F,
) -> Result<EndedRun, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let events = call.in_session(start).await?;
    // After the call, which may have made the connection anew.
    let clients = call.clients().await?;
    let saw_run = |run_id: &str| call.session().saw_run(run_id);
    RunFollower::new(clients, progress, &saw_run).until_end(events).await
}

/// The answer for a run that has ended.
pub(super) async fn rendered(
    call: &ToolCall<'_>,
    ended: &EndedRun,
    max_tokens: Option<u32>,
) -> Result<Answer, CallError> {
    let bytes_max = max_tokens.map(shortened_text::bytes_of);
    match whole(call, ended, bytes_max).await {
        // How the run ended is known already, and must not be lost with what only the supervisor has.
        Err(error @ (CallError::Call(_) | CallError::Open(_) | CallError::Connect(_))) => {
            tracing::warn!(run = ended.run_id, ?error, "the output of a run that has ended cannot be read");
            Ok(offline_report::answer(ended, bytes_max))
        }
        answer => answer,
    }
}

async fn whole(call: &ToolCall<'_>, ended: &EndedRun, bytes_max: Option<usize>) -> Result<Answer, CallError> {
    let document = call
        .in_session(|mut clients, session_id| {
            let format = ReportFormat::Json.into();
            let request = GetReportRequest { session_id, format, run_id: ended.run_id.clone() };
            async move { Ok(clients.results.get_report(request).await?.into_inner().document) }
        })
        .await?;
    let context = Context { run_id: &ended.run_id, attached: ended.attached_age_ms.is_some(), bytes_max };
    let structured = report_json::structured(&document, &context)?;
    let [stdout, stderr] = call
        .ask(|clients| {
            let run_id = ended.run_id.clone();
            async move {
                Ok([head(&clients, &run_id, Stream::Stdout).await?, head(&clients, &run_id, Stream::Stderr).await?])
            }
        })
        .await?;
    let full = full_text(&stdout, &stderr, ended);
    let text = match bytes_max {
        Some(bytes_max) if full.len() > bytes_max => {
            let failures = failures(call, &ended.run_id).await?;
            let left_out = shortened_text::left_out(&ended.run_id);
            shortened_text::run(&ended.report, failures.as_deref(), &left_out, bytes_max)
        }
        _ => full,
    };
    Ok(Answer { text, summary: run_summary::run(&ended.report, ended.attached_age_ms), structured })
}

fn full_text(stdout: &OutputSpan, stderr: &OutputSpan, ended: &EndedRun) -> String {
    let stdout_on = how_to_read_on(&ended.run_id, Stream::Stdout, stdout.next_cursor());
    let stderr_on = how_to_read_on(&ended.run_id, Stream::Stderr, stderr.next_cursor());
    text::run(
        Head { bytes: &stdout.bytes, total: stdout.total, how_to_read_on: &stdout_on },
        Head { bytes: &stderr.bytes, total: stderr.total, how_to_read_on: &stderr_on },
        &ended.report,
    )
}

// The failures of that run, unless another one has taken its place or there are none.
async fn failures(call: &ToolCall<'_>, run_id: &str) -> Result<Option<String>, CallError> {
    let answer = call
        .in_session(|mut clients, session_id| {
            let request = LastTestFailuresRequest { session_id, limit: FAILURES_MAX };
            async move { Ok(clients.results.last_test_failures(request).await?.into_inner()) }
        })
        .await?;
    Ok((answer.run_id == run_id && answer.total > 0).then(|| text::failures(&answer, Reader::Agent)))
}
