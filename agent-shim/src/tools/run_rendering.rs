//! Shared by the tools that run tests: follow the run, read its output, render the answer.

use super::tool_spec::TIMEOUT_S_MAX;
use crate::arguments::{ArgumentError, Arguments};
use crate::call_error::CallError;
use crate::progress::{ProgressReporter, ProgressState};
use crate::report_json::{self, Context};
use crate::run_follower::{EndedRun, RunFollower};
use crate::run_output::{OutputSpan, read_head, read_on_hint};
use crate::supervisor_connection::Clients;
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use crate::{offline_report, run_summary, shortened_text};
use proctor_proto::reason;
use proctor_proto::text::{self, Head, Reader};
use proctor_proto::v1::{GetReportRequest, LastTestFailuresRequest, Limits, ReportFormat, RunEvent, Stream};
use tonic::{Status, Streaming};

/// Most failures listed in a shortened text.
const FAILURES_MAX: u32 = 50;

/// The limits requested by the argument `timeout`.
pub(super) fn limits(arguments: &mut Arguments) -> Result<Option<Limits>, ArgumentError> {
    let timeout = arguments.seconds("timeout", TIMEOUT_S_MAX)?;
    let wall_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    Ok(wall_ms.map(|wall_ms| Limits { wall_ms, ..Limits::default() }))
}

/// The argument `max_tokens`.
pub(super) fn max_tokens(arguments: &mut Arguments) -> Result<Option<u32>, ArgumentError> {
    arguments.count("max_tokens", 1_000_000)
}

/// Starts a run with `start`, follows it to its end and renders it.
pub(super) async fn run_and_render<F>(
    call: &ToolCall<'_>,
    max_tokens: Option<u32>,
    start: impl Fn(Clients, String) -> F,
) -> Result<ToolAnswer, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let ended = call
        .with_progress(ProgressState::waiting("starting"), async |progress| {
            match start_and_follow(call, progress, &start).await {
                // A queued run reports this in its event stream. The second request is refused at once, and the session then
                // opens a new one.
                Err(error) if error.reason().is_some_and(|reason| reason.name == reason::WORKSPACE_REPLACED) => {
                    start_and_follow(call, progress, &start).await
                }
                ended => ended,
            }
        })
        .await?;
    render(call, &ended, max_tokens).await
}

async fn start_and_follow<F>(
    call: &ToolCall<'_>,
    progress: &ProgressReporter,
    start: &impl Fn(Clients, String) -> F,
) -> Result<EndedRun, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let events = call.request_in_session(start).await?;
    // After the call, because it may have reconnected.
    let clients = call.clients().await?;
    let on_run_id = |run_id: &str| call.record_run(run_id);
    RunFollower::new(clients, progress, &on_run_id).follow(events).await
}

/// Renders the answer for an ended run.
pub(super) async fn render(
    call: &ToolCall<'_>,
    ended: &EndedRun,
    max_tokens: Option<u32>,
) -> Result<ToolAnswer, CallError> {
    let bytes_max = max_tokens.map(shortened_text::token_bytes);
    match render_full(call, ended, bytes_max).await {
        // The outcome is known and must not be lost, although the supervisor cannot be queried for the rest.
        Err(error @ (CallError::Call(_) | CallError::Open(_) | CallError::Connect(_))) => {
            tracing::warn!(run = ended.run_id, ?error, "cannot read the output of an ended run");
            Ok(offline_report::answer(ended, bytes_max))
        }
        answer => answer,
    }
}

async fn render_full(call: &ToolCall<'_>, ended: &EndedRun, bytes_max: Option<usize>) -> Result<ToolAnswer, CallError> {
    let document = call
        .request_in_session(|mut clients, session_id| {
            let format = ReportFormat::Json.into();
            let request = GetReportRequest { session_id, format, run_id: ended.run_id.clone() };
            async move { Ok(clients.results.get_report(request).await?.into_inner().document) }
        })
        .await?;
    let context = Context { run_id: &ended.run_id, attached: ended.attached_age_ms.is_some(), bytes_max };
    let structured = report_json::parse_document(&document, &context)?;
    let [stdout, stderr] = call
        .request(|clients| {
            let run_id = ended.run_id.clone();
            async move {
                Ok([
                    read_head(&clients, &run_id, Stream::Stdout).await?,
                    read_head(&clients, &run_id, Stream::Stderr).await?,
                ])
            }
        })
        .await?;
    let full = full_text(&stdout, &stderr, ended);
    let text = match bytes_max {
        Some(bytes_max) if full.len() > bytes_max => {
            let failures = failures(call, &ended.run_id).await?;
            let note = shortened_text::left_out_note(&ended.run_id);
            shortened_text::shorten_run(&ended.report, failures.as_deref(), &note, bytes_max)
        }
        _ => full,
    };
    Ok(ToolAnswer { text, summary: run_summary::lines_with_hint(&ended.report, ended.attached_age_ms), structured })
}

fn full_text(stdout: &OutputSpan, stderr: &OutputSpan, ended: &EndedRun) -> String {
    let stdout_hint = read_on_hint(&ended.run_id, Stream::Stdout, stdout.next_cursor());
    let stderr_hint = read_on_hint(&ended.run_id, Stream::Stderr, stderr.next_cursor());
    text::run(
        Head { bytes: &stdout.bytes, total: stdout.total, read_on_hint: &stdout_hint },
        Head { bytes: &stderr.bytes, total: stderr.total, read_on_hint: &stderr_hint },
        &ended.report,
    )
}

// The text of the run's failures; `None` if there are none or another run has replaced them.
async fn failures(call: &ToolCall<'_>, run_id: &str) -> Result<Option<String>, CallError> {
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = LastTestFailuresRequest { session_id, limit: FAILURES_MAX };
            async move { Ok(clients.results.last_test_failures(request).await?.into_inner()) }
        })
        .await?;
    Ok((answer.run_id == run_id && answer.total > 0).then(|| text::failures(&answer, Reader::Agent)))
}
