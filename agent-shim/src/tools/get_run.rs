//! The tool `get_run`: progress of a run, its result, its output page by page, and its cancellation.

use super::Answer;
use super::run_rendering::{self, RunView};
use super::tool_spec::{ToolSpec, seconds};
use crate::answer::budget::{Detail, Draw};
use crate::answer::check::CheckAnswer;
use crate::answer::{ToolAnswer, next_call};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{self, as_in_run_tests, boolean, number, object, one_of, plain, string};
use crate::progress::ProgressState;
use crate::run_follower::{EndedRun, RunFollower};
use crate::run_output::{self, OutputSpan, stream_name};
use proctor_proto::text;
use proctor_proto::v1::{CancelRunRequest, GetRunRequest, GetRunResponse, RunState, Stream, WatchRunRequest};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait that may be requested, in seconds.
const WAIT_S_MAX: u32 = 600;
/// How long to wait for the end of a cancelled run before answering without its report. The kill itself takes milliseconds.
pub(crate) const CANCEL_MS_MAX: u64 = 15_000;
/// Largest page of output, in bytes; the same as the part of a stream that the text of a run shows.
const PAGE_BYTES_MAX: usize = text::STREAM_BYTES_MAX;

const DESCRIPTION: &str = "\
Look at a run: the one going on, else the last one, or run_id. Alone it says how far the run is, or answers as its \
own tool does once it has ended. wait_s waits for the end, also of a run whose call your timer cut off (it ends \
after 30 s without a caller, or when you start another). stream and cursor page through the output; cancel kills the \
run.";

pub(super) fn spec() -> ToolSpec {
    let page = [
        ("stream", plain("string")),
        ("cursor", plain("number")),
        ("next_cursor", plain("number")),
        ("total_bytes", plain("number")),
        ("end", plain("boolean")),
        ("text", plain("string")),
    ];
    let status = vec![
        ("state", string("queued, running, finished or none")),
        ("age_s", plain("number")),
        ("progress", plain("object")),
        ("output", object(page)),
    ];
    ToolSpec {
        title: "Look at a run",
        description: DESCRIPTION,
        input: vec![
            ("run_id", string("Default: the one going on, else the last.")),
            ("wait_s", number("Seconds to wait for the run to end, 0 (default) to 600.")),
            ("cancel", boolean("Kill the run and report what had finished.")),
            ("stream", one_of(&["stdout", "stderr"], "Read this stream instead of the run's status.")),
            ("cursor", number("Byte at which the page begins; each page names the next.")),
            ("raw", as_in_run_tests("boolean")),
            ("verbose", as_in_run_tests("boolean")),
        ],
        required: &[],
        // Beside these, the members of the run's own tool.
        output: Some(status.into_iter().chain(json_schema::run_in_brief()).collect()),
        read_only: false,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let requested = arguments.text("run_id")?;
    let wait = arguments.seconds_or_zero("wait_s", WAIT_S_MAX)?.unwrap_or_default();
    let cancel = arguments.flag("cancel")?;
    let stream = arguments.choice("stream", &["stdout", "stderr"], "stdout or stderr")?;
    let cursor = arguments.offset("cursor")?;
    let view = RunView::from_arguments(call, arguments)?;
    let Some(run_id) = (match requested {
        Some(run_id) => Some(run_id),
        None => last_run(call).await?,
    }) else {
        let mut none = ToolAnswer::no_run_yet();
        none.members.push(("state", "none".into()));
        return Ok(Box::new(none));
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
        let bytes_max = call.bytes_max.min(PAGE_BYTES_MAX);
        let cursor = cursor.unwrap_or_default();
        let span = call
            .request(|clients| {
                let run_id = run_id.clone();
                async move { run_output::read_page(&clients, &run_id, stream, cursor, bytes_max).await }
            })
            .await?;
        return Ok(Box::new(Page { status, stream, span }));
    }
    match status.report.take() {
        Some(report) => {
            let ended = EndedRun { run_id, report, attached_age_ms: None };
            let members = vec![("state", "finished".into()), ("age_s", seconds(status.age_ms).into())];
            if ended.report.check.is_some() {
                return Ok(Box::new(CheckAnswer::new(ended).with_members(members)));
            }
            Ok(Box::new(run_rendering::render(call, ended, view).await?.with_members(members)))
        }
        None => Ok(Box::new(unfinished_answer(&status))),
    }
}

// The run that is going on, not one that waits behind it; else the last one that this shim has seen, or the session knows.
async fn last_run(call: &CallContext<'_>) -> Result<Option<String>, CallError> {
    let session = call.session_status().await?;
    // After the call: the session may be a new one, which knows nothing of the shim's last run.
    let last = call.session().last_run();
    Ok([session.running_run_id].into_iter().chain(last).chain([session.last_run_id]).find(|run_id| !run_id.is_empty()))
}

/// The state of a run, once it has ended or `wait_ms` are over.
pub(crate) async fn status(call: &CallContext<'_>, run_id: &str, wait_ms: u64) -> Result<GetRunResponse, CallError> {
    let request = GetRunRequest { run_id: run_id.to_owned(), wait_ms };
    call.request(|mut clients| {
        let request = request.clone();
        async move { Ok(clients.runs.get_run(request).await?.into_inner()) }
    })
    .await
}

// Watches the run: unlike GetRun, that keeps a run alive whose caller is gone.
async fn wait_for_end(
    call: &CallContext<'_>,
    before: GetRunResponse,
    wait: Duration,
) -> Result<GetRunResponse, CallError> {
    let progress_state = progress_state(&before);
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

fn progress_state(status: &GetRunResponse) -> ProgressState {
    let mut state = ProgressState::default();
    match status.state() {
        RunState::Queued => state.record_queue_position(status.queue_position),
        _ => state.record_counts_if_any(status.progress.as_ref()),
    }
    state
}

fn unfinished_answer(status: &GetRunResponse) -> ToolAnswer {
    let line = progress_state(status).line(Duration::from_millis(status.age_ms));
    let headline = match status.state() {
        RunState::Queued => format!("run {} is {line}", status.run_id),
        state => format!("run {} is {}: {line}", status.run_id, state_name(state)),
    };
    let progress = match (status.state(), &status.progress) {
        (RunState::Queued, _) => Some(json!({"queue_position": status.queue_position})),
        (_, progress) => progress.as_ref().map(|progress| {
            json!({
                "tests_finished": progress.tests_finished,
                "tests_total": progress.tests_total,
                "tests_failed": progress.tests_failed,
                "elapsed_s": seconds(progress.elapsed_ms),
                "memory_bytes": progress.memory_bytes,
            })
        }),
    };
    let mut members = status_members(status);
    members.push(("progress", progress.unwrap_or_default()));
    ToolAnswer::fixed(headline.clone(), headline + "\n", members).with_next(next_call::unfinished(&status.run_id))
}

fn status_members(status: &GetRunResponse) -> Vec<(&'static str, Value)> {
    vec![
        ("state", state_name(status.state()).into()),
        ("run_id", status.run_id.as_str().into()),
        ("age_s", seconds(status.age_ms).into()),
    ]
}

/// A page of the output of a run. As many of its bytes are shown as fit.
struct Page {
    status: GetRunResponse,
    stream: Stream,
    span: OutputSpan,
}

impl Draw for Page {
    fn items(&self) -> usize {
        self.span.bytes.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let Page { status, stream, span } = self;
        let (span, name) = (span.first(detail.items), stream_name(*stream));
        // After a cursor beyond the end, reading goes on at the end.
        let next_cursor = span.next_cursor().min(span.total);
        let hint = run_output::read_on_hint(&status.run_id, *stream, next_cursor);
        let lossy = String::from_utf8_lossy(&span.bytes);
        let text = anstream::adapter::strip_str(&lossy).to_string();
        let output = json!({
            "stream": name,
            "cursor": span.cursor,
            "next_cursor": next_cursor,
            "total_bytes": span.total,
            "end": span.end,
            "text": text,
        });
        let headline = describe_page(name, &span);
        let mut members = status_members(status);
        members.push(("output", output));
        let answer = ToolAnswer::fixed(headline.clone(), text, members);
        // The text is the page alone, so that it can be joined to the next.
        let answer = answer.with_notes([headline]);
        match (next_cursor < span.total, span.end) {
            (true, _) => answer.with_next(hint),
            (false, true) => answer.with_notes(["that is the end of it".to_owned()]),
            (false, false) => answer.with_next(format!("the run is going on: {hint}, later")),
        }
    }
}

// Which part of its stream a page is.
fn describe_page(name: &str, span: &OutputSpan) -> String {
    match span.total {
        0 => format!("{name} is empty"),
        total if span.cursor > total => format!("{name} has {total} bytes, so nothing is at cursor {}", span.cursor),
        total if span.bytes.is_empty() => format!("{name} has {total} bytes, and nothing after them"),
        total => format!("{name} bytes {} to {} of {total}", span.cursor, span.next_cursor()),
    }
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

    fn page(cursor: u64, total: u64, end: bool, bytes: &[u8]) -> ToolAnswer {
        let span = OutputSpan { cursor, total, end, bytes: bytes.to_vec() };
        let status = GetRunResponse { run_id: "r".into(), ..Default::default() };
        crate::answer::budget::fit(&Page { status, stream: Stream::Stderr, span }, &[], 1_000)
    }

    #[test]
    fn an_empty_page_says_why_it_is_empty() {
        let describe = |cursor, total, end| {
            let answer = page(cursor, total, end, &[]);
            (answer.blocks()[1].clone(), answer.structured()["output"]["next_cursor"].clone())
        };
        assert_eq!(describe(5, 0, true), ("stderr is empty\nthat is the end of it".into(), json!(0)));
        let beyond = "stderr has 4 bytes, so nothing is at cursor 9\nthat is the end of it";
        assert_eq!(describe(9, 4, true), (beyond.into(), json!(4)));
        let later = "stderr has 4 bytes, and nothing after them\nnext: the run is going on: get_run {\"run_id\":\"r\",\"stream\":\"stderr\",\
                     \"cursor\":4} reads on, later";
        assert_eq!(describe(4, 4, false), (later.into(), json!(4)));
    }

    #[test]
    fn a_page_ends_where_the_budget_does() {
        let answer = page(10, 5_000, true, "é\n".repeat(800).as_bytes());
        let output = answer.structured()["output"].clone();
        let text = output["text"].as_str().unwrap();
        assert!(answer.bytes() <= 1_000 && text.len() > 100, "{}", answer.bytes());
        assert_eq!(output["next_cursor"], 10 + text.len());
        assert_eq!((answer.blocks()[0].as_str(), output["end"].clone()), (text, json!(false)));
    }
}
