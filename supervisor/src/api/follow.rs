//! Following a run: from its log to a stream of events on the wire. Must not know who started it.

use super::status;
use crate::convert;
use crate::run::{Entry, RunEnd, RunHandle, Watch};
use proctor_core::event::RunEvent;
use proctor_core::id::RunId;
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use std::pin::Pin;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Events on their way to one client. Beyond these the follower waits, and the log keeps what comes.
const AHEAD: usize = 64;

/// What the streaming calls answer with.
pub(super) type EventStream = Pin<Box<dyn Stream<Item = Result<v1::RunEvent, Status>> + Send>>;

/// A client that follows a run.
pub(super) struct Follow {
    pub(super) run: RunId,
    pub(super) handle: RunHandle,
    pub(super) cursor: u64,
    pub(super) attached_age_ms: Option<u64>,
}

/// All events from the cursor to the end of the run. The run is watched until the stream is dropped.
pub(super) async fn follow(follow: Follow) -> Result<EventStream, Status> {
    let watch = follow.handle.watch();
    if follow.cursor > 0 {
        let snapshot = follow.handle.snapshot().await.map_err(|_| status::denied("run"))?;
        if snapshot.end.is_some() && follow.cursor > snapshot.next_sequence {
            let text = format!("cursor {} is beyond the run's last event {}", follow.cursor, snapshot.next_sequence);
            return Err(Status::out_of_range(text));
        }
    }
    let (events, stream) = mpsc::channel(AHEAD);
    tokio::spawn(deliver(follow, watch, events));
    Ok(Box::pin(ReceiverStream::new(stream)))
}

async fn deliver(mut follow: Follow, watch: Watch, events: mpsc::Sender<Result<v1::RunEvent, Status>>) {
    loop {
        let batch = tokio::select! {
            batch = follow.handle.read(follow.cursor) => batch,
            // The client went away: the run is not watched by it any more.
            () = events.closed() => return,
        };
        let Ok(batch) = batch else {
            _ = events.send(Err(status::denied("run"))).await;
            return;
        };
        if batch.is_empty() {
            if let Ok(RunEnd::NotStarted(why)) = follow.handle.end().await {
                _ = events.send(Err(status::not_started(&why))).await;
            }
            return;
        }
        for entry in batch {
            follow.cursor = entry.sequence + 1;
            let event = on_the_wire(&follow, entry).await;
            if events.send(Ok(event)).await.is_err() {
                return;
            }
        }
        debug_assert!(follow.handle.watchers() > 0, "{watch:?} counts");
    }
}

async fn on_the_wire(follow: &Follow, entry: Entry) -> v1::RunEvent {
    let event = match entry.event {
        RunEvent::Queued { position } => Event::Queued(v1::Queued {
            position,
            attached: follow.attached_age_ms.is_some(),
            attached_age_ms: follow.attached_age_ms.unwrap_or(0),
        }),
        RunEvent::Started { limits, isolation } => Event::Started(v1::Started {
            limits: Some(convert::limits(&limits)),
            isolation: Some(convert::isolation(&isolation)),
        }),
        RunEvent::TestStarted(test) => Event::TestStarted(v1::TestStarted { test: Some(convert::test_id(&test)) }),
        RunEvent::TestFinished(test) => Event::TestFinished(convert::test_case(&test)),
        RunEvent::Collector(collector) => Event::Collector(convert::collector(&collector)),
        RunEvent::Output { stream, offset, len } => {
            let handle = follow.handle.clone();
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let read = tokio::task::spawn_blocking(move || handle.read_output(stream, offset, len)).await;
            let bytes = match read {
                Ok(Ok(bytes)) => bytes,
                failed => {
                    tracing::error!(?failed, run = %follow.run, "a run's output could not be read back");
                    Vec::new()
                }
            };
            Event::Output(v1::Output { stream: convert::stream(stream).into(), bytes, cursor: offset })
        }
        RunEvent::Progress(progress) => Event::Progress(convert::progress(&progress)),
        RunEvent::Finished(report) => Event::Finished(convert::report(&report)),
    };
    v1::RunEvent {
        run_id: follow.run.to_string(),
        sequence: entry.sequence,
        at_ms: entry.at.ms_since(follow.handle.accepted_at),
        event: Some(event),
    }
}
