//! The tool `get_run`: progress of a run, its result, its output page by page, and its cancellation.

use super::run_rendering;
use super::tool_spec::{ToolSpec, seconds};
use crate::arguments::Arguments;
use crate::call_error::CallError;
use crate::json_schema::{self, boolean, number, object, one_of, string};
use crate::progress::ProgressState;
use crate::run_follower::{EndedRun, RunFollower};
use crate::run_output::{self, OutputSpan, stream_name};
use crate::shortened_text;
use crate::tool_answer::ToolAnswer;
use crate::tool_call::ToolCall;
use proctor_proto::text;
use proctor_proto::v1::{
    CancelRunRequest, GetRunRequest, GetRunResponse, GetSessionRequest, RunState, Stream, WatchRunRequest,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait that may be requested, in seconds.
const WAIT_S_MAX: u32 = 600;
/// How long to wait for the end of a cancelled run before answering without its report. The kill itself takes milliseconds.
const CANCEL_MS_MAX: u64 = 15_000;
/// Bytes of a page of output without `max_tokens`: some 16,000 tokens.
const PAGE_BYTES: usize = 64 * 1024;
/// Largest page, in bytes; the same as the part of a stream that the text of a run shows.
const PAGE_BYTES_MAX: usize = text::STREAM_BYTES_MAX;

const DESCRIPTION: &str = "\
Look at a run: the one that is going on, or the last one, unless run_id names another. Without other arguments it says at \
once how far the run is, or gives the same answer as run_tests when it has ended. wait_s waits for the end, also of a run \
whose call your own timer cut off (such a run ends by itself after 30 s without a caller). stream and cursor read on in \
output that was truncated. cancel kills it at once.";

pub(super) fn spec() -> ToolSpec {
    let input = [
        ("run_id", string("A run, as structuredContent.run_id of run_tests has it. Default: the last one.")),
        ("wait_s", number("Seconds to wait for the run to end, 0 (default) to 600.")),
        ("cancel", boolean("Kill the run and report what had finished. Default false.")),
        ("stream", one_of(&["stdout", "stderr"], "Return a piece of this stream instead of the run's status.")),
        ("cursor", number("Offset in bytes at which the piece begins. Default 0; each answer says how to go on.")),
        ("max_tokens", json_schema::max_tokens()),
    ];
    let output = [
        ("state", string("queued, running, finished, or none when there has been no run.")),
        ("run_id", string("The run.")),
        ("age_s", number("Seconds since the run was accepted.")),
        ("progress", object("tests_finished, tests_failed, elapsed_s, memory_bytes.")),
        ("stdout_bytes", number("Bytes of stdout so far.")),
        ("stderr_bytes", number("Bytes of stderr so far.")),
        ("next_sequence", number("Number that the run's next event will have.")),
        ("report", object("When it has ended: the report, as structuredContent of run_tests.")),
        ("output", object("With stream: stream, cursor, next_cursor, total_bytes, end.")),
    ];
    ToolSpec {
        title: "Look at a run",
        description: DESCRIPTION,
        input: json_schema::arguments(&input, &[]),
        output: json_schema::answer(&output, &["state"]),
        read_only: false,
    }
}

pub(super) async fn call(call: &ToolCall<'_>, arguments: &mut Arguments) -> Result<ToolAnswer, CallError> {
    let requested = arguments.text("run_id")?;
    let wait = arguments.seconds_or_zero("wait_s", WAIT_S_MAX)?.unwrap_or_default();
    let cancel = arguments.flag("cancel")?;
    let stream = arguments.choice("stream", &["stdout", "stderr"], "stdout or stderr")?;
    let cursor = arguments.offset("cursor")?;
    let max_tokens = run_rendering::max_tokens(arguments)?;
    let Some(run_id) = (match requested {
        Some(run_id) => Some(run_id),
        None => last_run(call).await?,
    }) else {
        let structured = json!({"state": "none"});
        return Ok(ToolAnswer {
            text: text::NO_RUN_YET.to_owned(),
            summary: vec!["Next: run_tests.".to_owned()],
            structured,
        });
    };
    if cancel {
        let request = CancelRunRequest { run_id: run_id.clone() };
        call.request(|mut clients| {
            let request = request.clone();
            async move { clients.runs.cancel_run(request).await }
        })
        .await?;
    }
    let mut status = status(call, &run_id, if cancel { CANCEL_MS_MAX } else { 0 }).await?;
    if status.state() != RunState::Finished && !wait.is_zero() {
        status = wait_for_end(call, status, wait).await?;
    }
    if stream.is_some() || cursor.is_some() {
        let stream = if stream == Some("stderr") { Stream::Stderr } else { Stream::Stdout };
        let bytes_max = max_tokens.map_or(PAGE_BYTES, shortened_text::token_bytes).min(PAGE_BYTES_MAX);
        let cursor = cursor.unwrap_or_default();
        let span = call
            .request(|clients| {
                let run_id = run_id.clone();
                async move { run_output::read_page(&clients, &run_id, stream, cursor, bytes_max).await }
            })
            .await?;
        return Ok(page_answer(&status, stream, &span));
    }
    match status.report.take() {
        Some(report) => {
            finished_answer(call, &status, EndedRun { run_id, report, attached_age_ms: None }, max_tokens).await
        }
        None => Ok(unfinished_answer(&status)),
    }
}

// The last run that this shim has seen; after a restart of the shim, the one that the session knows.
async fn last_run(call: &ToolCall<'_>) -> Result<Option<String>, CallError> {
    if let Some(run_id) = call.session().last_run() {
        return Ok(Some(run_id));
    }
    let session = call
        .request_in_session(|mut clients, session_id| async move {
            let answer = clients.sessions.get_session(GetSessionRequest { session_id }).await?;
            Ok(answer.into_inner().session.unwrap_or_default())
        })
        .await?;
    Ok([session.running_run_id, session.last_run_id].into_iter().find(|run_id| !run_id.is_empty()))
}

pub(super) async fn status(call: &ToolCall<'_>, run_id: &str, wait_ms: u64) -> Result<GetRunResponse, CallError> {
    let request = GetRunRequest { run_id: run_id.to_owned(), wait_ms };
    call.request(|mut clients| {
        let request = request.clone();
        async move { Ok(clients.runs.get_run(request).await?.into_inner()) }
    })
    .await
}

// Watches the run: unlike GetRun, that keeps a run alive whose caller is gone.
async fn wait_for_end(
    call: &ToolCall<'_>,
    before: GetRunResponse,
    wait: Duration,
) -> Result<GetRunResponse, CallError> {
    let mut progress_state = match before.state() {
        RunState::Queued => ProgressState::waiting("queued"),
        _ => ProgressState::default(),
    };
    progress_state.record_counts_if_any(before.progress.as_ref());
    let ended = call
        .with_progress(progress_state, async |progress| {
            let mut clients = call.clients().await?;
            let request = WatchRunRequest { run_id: before.run_id.clone(), cursor: before.next_sequence };
            let events = clients.runs.watch_run(request).await?.into_inner();
            let ignore_id = |_: &str| {};
            let follower =
                RunFollower::new(clients, progress, &ignore_id).resume_at(before.run_id.clone(), before.next_sequence);
            tokio::time::timeout(wait, follower.follow(events)).await.ok().transpose()
        })
        .await?;
    match (status(call, &before.run_id, 0).await, ended) {
        // The session was closed after the end of the run, but the report is here.
        (Err(_), Some(EndedRun { report, .. })) => {
            Ok(GetRunResponse { state: RunState::Finished.into(), report: Some(report), ..before })
        }
        (status, _) => status,
    }
}

async fn finished_answer(
    call: &ToolCall<'_>,
    status: &GetRunResponse,
    ended: EndedRun,
    max_tokens: Option<u32>,
) -> Result<ToolAnswer, CallError> {
    let mut answer = run_rendering::render(call, &ended, max_tokens).await?;
    answer.summary.insert(0, format!("Run {} has ended.", ended.run_id));
    answer.structured = with_member(structured(status), "report", answer.structured);
    Ok(answer)
}

fn unfinished_answer(status: &GetRunResponse) -> ToolAnswer {
    let mut progress_state = ProgressState::default();
    progress_state.record_counts_if_any(status.progress.as_ref());
    let state = state_name(status.state());
    let age = Duration::from_millis(status.age_ms);
    let text = match status.state() {
        RunState::Queued => format!("run {} is {state}, {:.1}s\n", status.run_id, age.as_secs_f64()),
        _ => format!("run {} is {state}: {}\n", status.run_id, progress_state.line(age)),
    };
    let next = "Next: get_run {wait_s: 60} waits for the end; get_run {cancel: true} kills it.".to_owned();
    ToolAnswer { text, summary: vec![next], structured: structured(status) }
}

fn page_answer(status: &GetRunResponse, stream: Stream, span: &OutputSpan) -> ToolAnswer {
    let name = stream_name(stream);
    // After a cursor beyond the end, reading goes on at the end.
    let next_cursor = span.next_cursor().min(span.total);
    let hint = run_output::read_on_hint(&status.run_id, stream, next_cursor);
    let summary = vec![
        describe_page(name, span),
        match (next_cursor < span.total, span.end) {
            (true, _) => format!("Next: {hint}."),
            (false, true) => "That is the end of it.".to_owned(),
            (false, false) => format!("The run is going on: {hint}, later."),
        },
    ];
    let output = json!({
        "stream": name,
        "cursor": span.cursor,
        "next_cursor": next_cursor,
        "total_bytes": span.total,
        "end": span.end,
    });
    let lossy = String::from_utf8_lossy(&span.bytes);
    let text = anstream::adapter::strip_str(&lossy).to_string();
    ToolAnswer { text, summary, structured: with_member(structured(status), "output", output) }
}

// Which part of its stream a page is.
fn describe_page(name: &str, span: &OutputSpan) -> String {
    match span.total {
        0 => format!("{name} is empty."),
        total if span.cursor > total => format!("{name} has {total} bytes, so nothing is at cursor {}.", span.cursor),
        total if span.bytes.is_empty() => format!("{name} has {total} bytes, and nothing after them."),
        total => format!("{name} bytes {} to {} of {total}.", span.cursor, span.next_cursor()),
    }
}

fn structured(status: &GetRunResponse) -> Value {
    let progress = status.progress.as_ref().map(|progress| {
        json!({
            "tests_finished": progress.tests_finished,
            "tests_failed": progress.tests_failed,
            "elapsed_s": seconds(progress.elapsed_ms),
            "memory_bytes": progress.memory_bytes,
        })
    });
    json!({
        "state": state_name(status.state()),
        "run_id": status.run_id,
        "age_s": seconds(status.age_ms),
        "progress": progress,
        "stdout_bytes": status.stdout_bytes,
        "stderr_bytes": status.stderr_bytes,
        "next_sequence": status.next_sequence,
    })
}

fn with_member(mut object: Value, name: &str, member: Value) -> Value {
    object[name] = member;
    object
}

fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Queued => "queued",
        RunState::Running | RunState::Unspecified => "running",
        RunState::Finished => "finished",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_page_says_why_it_is_empty() {
        let describe = |cursor, total, end| {
            let span = OutputSpan { cursor, total, end, ..OutputSpan::default() };
            let page = page_answer(&GetRunResponse { run_id: "r".into(), ..Default::default() }, Stream::Stderr, &span);
            (page.summary.join(" "), page.structured["output"]["next_cursor"].clone())
        };
        assert_eq!(describe(5, 0, true), ("stderr is empty. That is the end of it.".into(), json!(0)));
        let beyond = "stderr has 4 bytes, so nothing is at cursor 9. That is the end of it.";
        assert_eq!(describe(9, 4, true), (beyond.into(), json!(4)));
        let later = "stderr has 4 bytes, and nothing after them. The run is going on: read on with get_run {run_id: \"r\", \
                     stream: \"stderr\", cursor: 4}, later.";
        assert_eq!(describe(4, 4, false), (later.into(), json!(4)));
    }
}
