//! Following a run: from its log to a stream of events on the wire. Must not know who started it.

use super::status;
use crate::allowance::Subscription;
use crate::convert;
use crate::run::{Entry, RunEnd, RunHandle, Watch};
use futures_util::stream::unfold;
use proctor_core::event::RunEvent;
use proctor_core::id::RunId;
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use std::pin::Pin;
use std::vec;
use tokio_stream::Stream;
use tonic::Status;

/// What the streaming calls answer with.
pub(super) type EventStream = Pin<Box<dyn Stream<Item = Result<v1::RunEvent, Status>> + Send>>;

/// A client that follows a run.
pub(super) struct Follow {
    pub(super) run: RunId,
    pub(super) handle: RunHandle,
    pub(super) cursor: u64,
    pub(super) attached_age_ms: Option<u64>,
    pub(super) _subscription: Subscription,
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
    let following = Following { follow, batch: Vec::new().into_iter(), _watch: watch };
    Ok(Box::pin(unfold(Some(following), |following| async move { following?.next().await })))
}

/// A stream on its way. It reads the log as its client takes events in, and is gone with the client.
struct Following {
    follow: Follow,
    /// What was read and is not yet passed on.
    batch: vec::IntoIter<Entry>,
    _watch: Watch,
}

impl Following {
    /// The next event and what comes after it; nothing comes after an error.
    async fn next(mut self) -> Option<(Result<v1::RunEvent, Status>, Option<Following>)> {
        let entry = match self.batch.next() {
            Some(entry) => entry,
            None => match self.read().await {
                Ok(entry) => entry?,
                Err(status) => return Some((Err(status), None)),
            },
        };
        self.follow.cursor = entry.sequence + 1;
        let event = on_the_wire(&self.follow, entry).await;
        Some((Ok(event), Some(self)))
    }

    /// Waits for more; `None` at the end.
    async fn read(&mut self) -> Result<Option<Entry>, Status> {
        let Follow { handle, cursor, .. } = &self.follow;
        let batch = handle.read(*cursor).await.map_err(|_| status::denied("run"))?;
        if batch.is_empty()
            && let Ok(RunEnd::NotStarted(why)) = handle.end().await
        {
            return Err(status::not_started(&why));
        }
        self.batch = batch.into_iter();
        Ok(self.batch.next())
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
