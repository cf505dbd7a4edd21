//! Shared by the tools that run tests: follow the run, and make the answer that its caller asked for.

use super::Answer;
use super::tool_spec::TIMEOUT_S_MAX;
use crate::abandoned_runs::{self, CallGuard};
use crate::answer::run::RunAnswer;
use crate::arguments::{ArgumentError, Arguments};
use crate::bounded_report;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::progress::{ProgressReporter, ProgressState};
use crate::run_follower::{EndedRun, RunFollower};
use crate::run_output::{OutputSpan, read_head, read_on_hint};
use crate::supervisor_connection::Clients;
use proctor_proto::reason;
use proctor_proto::text::{self, Head};
use proctor_proto::v1::{Limits, RunEvent, Stream};
use serde_json::{Map, Value};
use tonic::{Status, Streaming};

const OUTPUT_LOST: &str = "the output and the report of this run can no longer be read, because the supervisor closed the \
                           session or ended when the run had";

/// What a caller wants to see of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunView {
    raw: bool,
    verbose: bool,
}

impl RunView {
    /// The arguments `raw` and `verbose`.
    pub(super) fn from_arguments(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<RunView, ArgumentError> {
        let raw = arguments.optional_flag("raw")?.unwrap_or(call.defaults.raw);
        Ok(RunView { raw, verbose: arguments.flag("verbose")? })
    }
}

/// The limits requested by the argument `timeout`.
pub(super) fn limits(arguments: &mut Arguments) -> Result<Option<Limits>, ArgumentError> {
    let timeout = arguments.seconds("timeout", TIMEOUT_S_MAX)?;
    let wall_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    Ok(wall_ms.map(|wall_ms| Limits { wall_ms, ..Limits::default() }))
}

/// Starts a run with `start`, follows it to its end and makes its answer.
pub(super) async fn run_and_render<F>(
    call: &CallContext<'_>,
    view: RunView,
    start: impl Fn(Clients, String) -> F,
) -> Result<Answer, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let ended = run_to_end(call, ProgressState::waiting("starting"), start).await?;
    Ok(Box::new(render(call, ended, view).await?))
}

/// Starts a run with `start` and follows it to its end. `progress` is that before its first event.
pub(super) async fn run_to_end<F>(
    call: &CallContext<'_>,
    progress: ProgressState,
    start: impl Fn(Clients, String) -> F,
) -> Result<EndedRun, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let guard = CallGuard::new(call);
    let ended = call
        .with_progress(progress, async |progress| {
            match start_and_follow(call, progress, &start).await {
                // A queued run reports this in its event stream. The second request is refused at once, and the session then
                // opens a new one.
                Err(error) if error.reason().is_some_and(|reason| reason.name == reason::WORKSPACE_REPLACED) => {
                    start_and_follow(call, progress, &start).await
                }
                ended => ended,
            }
        })
        .await;
    // Without its event stream a run may still be going on.
    if !matches!(ended, Err(CallError::StreamLost { .. })) {
        guard.end();
    }
    ended
}

async fn start_and_follow<F>(
    call: &CallContext<'_>,
    progress: &ProgressReporter,
    start: &impl Fn(Clients, String) -> F,
) -> Result<EndedRun, CallError>
where
    F: Future<Output = Result<Streaming<RunEvent>, Status>>,
{
    let watched = abandoned_runs::watch_runs_of_others(call).await;
    let events = call.request_in_session(start).await?;
    drop(watched);
    // After the call, because it may have reconnected.
    let clients = call.clients().await?;
    let on_run_id = |run_id: &str| call.record_run(run_id);
    RunFollower::new(clients, progress, &on_run_id).follow(events).await
}

/// Makes the answer for an ended run. Its report is there already; the supervisor is asked for the rest.
pub(super) async fn render(call: &CallContext<'_>, ended: EndedRun, view: RunView) -> Result<RunAnswer, CallError> {
    let raw = if view.raw { available(raw_text(call, &ended).await)? } else { None };
    let report = if view.verbose { available(fetch_report(call, &ended.run_id).await)? } else { None };
    let is_incomplete = view.raw && raw.is_none() || view.verbose && report.is_none();
    let is_last = call.session().last_run().as_ref() == Some(&ended.run_id);
    let mut answer = RunAnswer::new(ended, is_last);
    if let Some(raw) = raw {
        answer = answer.with_raw(raw);
    }
    if let Some(report) = report {
        answer = answer.with_report(report);
    }
    Ok(if is_incomplete { answer.with_note(OUTPUT_LOST.to_owned()) } else { answer })
}

// The outcome is known and must not be lost, although the supervisor cannot be asked for the rest.
fn available<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ (CallError::Call(_) | CallError::Open(_) | CallError::Connect(_))) => {
            tracing::warn!(?error, "cannot read the output of an ended run");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn fetch_report(call: &CallContext<'_>, run_id: &str) -> Result<Map<String, Value>, CallError> {
    bounded_report::parse_and_bound(&call.fetch_report(run_id).await?.document)
}

// The runner's own output and the trailer, as the contract has it.
async fn raw_text(call: &CallContext<'_>, ended: &EndedRun) -> Result<String, CallError> {
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
    let hint = |stream, span: &OutputSpan| read_on_hint(&ended.run_id, stream, span.next_cursor());
    let (stdout_hint, stderr_hint) = (hint(Stream::Stdout, &stdout), hint(Stream::Stderr, &stderr));
    Ok(text::run(
        Head { bytes: &stdout.bytes, total: stdout.total, read_on_hint: &stdout_hint },
        Head { bytes: &stderr.bytes, total: stderr.total, read_on_hint: &stderr_hint },
        &ended.report,
    ))
}
