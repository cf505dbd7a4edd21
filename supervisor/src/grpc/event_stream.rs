//! Streams the events of a run from its log to the client.

use super::revocation::Revocation;
use super::{encode_permit, status};
use crate::grpc::convert;
use crate::runs::{LoggedEvent, RunEnd, RunHandle, WatchGuard};
use crate::tenants::allowance::{InFlightBytes, Reservation};
use futures_util::stream::unfold;
use proctor_core::bounds::EVENT_OUTPUT_BYTES_MAX;
use proctor_core::event::{RunEvent, Stream};
use proctor_core::id::RunId;
use proctor_core::timestamp::Timestamp;
use proctor_proto::v1;
use proctor_proto::v1::run_event::Event;
use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::vec;
use tonic::Status;

/// Response type of the streaming calls.
pub(super) type EventStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::RunEvent, Status>> + Send>>;

/// Resources of a client that follows a run, held until its credential is revoked.
pub(super) struct RunSubscription {
    handle: RunHandle,
    _watch: WatchGuard,
    _subscription: Reservation,
}

impl RunSubscription {
    /// Starts to watch the run.
    pub(super) fn new(handle: RunHandle, subscription: Reservation) -> RunSubscription {
        RunSubscription { _watch: handle.watch(), handle, _subscription: subscription }
    }
}

/// Request of a client to follow a run.
pub(super) struct FollowRequest {
    pub(super) run: RunId,
    pub(super) subscription: Weak<RunSubscription>,
    pub(super) revocation: Revocation,
    pub(super) cursor: u64,
    pub(super) attached_age_ms: Option<u64>,
    /// Bytes in flight between the tenant and the supervisor.
    pub(super) in_flight: Arc<InFlightBytes>,
}

/// All events from the cursor to the end of the run, until the caller's credential is revoked.
pub(super) async fn follow(request: FollowRequest) -> Result<EventStream, Status> {
    let FollowRequest { run, subscription, mut revocation, cursor, attached_age_ms, in_flight } = request;
    let Some(handle) = subscription.upgrade().map(|subscription| subscription.handle.clone()) else {
        return Err(revocation.revoked().await);
    };
    if cursor > 0 {
        let snapshot = handle.snapshot().await.map_err(|error| status::read(&error))?;
        // A cursor beyond the next event would wait for an event that may never come.
        if cursor > snapshot.next_sequence {
            return Err(status::cursor_beyond(cursor, snapshot.next_sequence));
        }
    }
    let (batch, outputs, accepted_at) = (Vec::new().into_iter(), VecDeque::new(), handle.accepted_at);
    let reader = EventReader { run, subscription, accepted_at, cursor, attached_age_ms, in_flight, batch, outputs };
    Ok(Box::pin(unfold(Some((revocation, reader)), |state| async move {
        let (mut revocation, reader) = state?;
        tokio::select! {
            biased;
            status = revocation.revoked() => Some((Err(status), None)),
            next = reader.next() => next.map(|(event, reader)| (event, reader.map(|reader| (revocation, reader)))),
        }
    })))
}

/// Reads a run's log at the pace of one client; dropped with the client's stream.
struct EventReader {
    run: RunId,
    /// Weak, because an unpolled stream would otherwise keep the subscription after a revocation.
    subscription: Weak<RunSubscription>,
    accepted_at: Timestamp,
    cursor: u64,
    attached_age_ms: Option<u64>,
    in_flight: Arc<InFlightBytes>,
    /// Events read from the log and not yet sent.
    batch: vec::IntoIter<LoggedEvent>,
    /// Output bytes already read for the next output events.
    outputs: VecDeque<Vec<u8>>,
}

impl EventReader {
    /// The next event and the reader for what follows; no reader after an error.
    async fn next(mut self) -> Option<(Result<v1::RunEvent, Status>, Option<EventReader>)> {
        let entry = match self.batch.next() {
            Some(entry) => entry,
            None => match self.read().await {
                Ok(entry) => entry?,
                Err(status) => return Some((Err(status), None)),
            },
        };
        let sequence = entry.sequence;
        // No event follows the last one, and the run may be forgotten before its client has read it.
        let is_last = matches!(entry.event, RunEvent::Finished(_));
        match self.wire_event(entry).await {
            Ok(event) => {
                self.cursor = sequence + 1;
                Some((Ok(event), (!is_last).then_some(self)))
            }
            Err(status) => Some((Err(status), None)),
        }
    }

    // Without a subscription no further event is sent: the stream reports the revocation instead.
    async fn handle(&self) -> RunHandle {
        match self.subscription.upgrade() {
            Some(subscription) => subscription.handle.clone(),
            None => pending().await,
        }
    }

    /// Waits for more events; `None` at the end.
    async fn read(&mut self) -> Result<Option<LoggedEvent>, Status> {
        let handle = self.handle().await;
        let batch = handle.read(self.cursor).await.map_err(|error| status::read(&error))?;
        // An empty batch means that the run has ended and the cursor is beyond its end.
        if batch.is_empty()
            && let RunEnd::NotStarted(why) = handle.end().await.map_err(|error| status::read(&error))?
        {
            return Err(status::not_started(&why));
        }
        self.batch = batch.into_iter();
        Ok(self.batch.next())
    }

    async fn wire_event(&mut self, entry: LoggedEvent) -> Result<v1::RunEvent, Status> {
        let event = match entry.event {
            RunEvent::Queued { position } => Event::Queued(v1::Queued {
                position,
                attached: self.attached_age_ms.is_some(),
                attached_age_ms: self.attached_age_ms.unwrap_or(0),
            }),
            RunEvent::Started { limits, isolation } => Event::Started(v1::Started {
                limits: Some(convert::limits(&limits)),
                isolation: Some(convert::isolation(&isolation)),
            }),
            RunEvent::TestStarted(test) => Event::TestStarted(v1::TestStarted { test: Some(convert::test_id(&test)) }),
            RunEvent::TestFinished(test) => Event::TestFinished(convert::test_case(&test)),
            RunEvent::Collector(collector) => Event::Collector(convert::collector(&collector)),
            RunEvent::Output { stream, offset, .. } => {
                let bytes = self.output(&entry).await?;
                Event::Output(v1::Output { stream: convert::stream(stream).into(), bytes, cursor: offset })
            }
            RunEvent::Progress(progress) => Event::Progress(convert::progress(&progress)),
            RunEvent::Missed { events } => Event::Missed(v1::Missed { events }),
            RunEvent::Finished(report) => {
                Event::Finished(encode_permit::encode_report_for_stream(&self.in_flight, report).await?)
            }
        };
        Ok(v1::RunEvent {
            run_id: self.run.to_string(),
            sequence: entry.sequence,
            at_ms: entry.at.ms_since(self.accepted_at),
            event: Some(event),
        })
    }

    /// The output bytes of an event of the batch.
    async fn output(&mut self, entry: &LoggedEvent) -> Result<Vec<u8>, Status> {
        if self.outputs.is_empty() {
            self.read_outputs(entry).await?;
        }
        // Fails rather than send other bytes as the run's output.
        self.outputs.pop_front().ok_or_else(|| status::output_unreadable(entry.sequence))
    }

    /// Reads the output of `entry` and of the events after it in one go, since many runners write line by line; but no
    /// more than a single event may hold, so that a stream whose client reads nothing keeps no more than that. Output
    /// after one that cannot be read is left for a later call.
    async fn read_outputs(&mut self, entry: &LoggedEvent) -> Result<(), Status> {
        let mut bytes = 0;
        let output = |entry: &LoggedEvent| match entry.event {
            RunEvent::Output { stream, offset, len } => {
                Some((stream, offset, usize::try_from(len).unwrap_or(usize::MAX)))
            }
            _ => None,
        };
        let fits = |(index, (_, _, len)): &(usize, (Stream, u64, usize))| {
            bytes += len;
            *index == 0 || bytes <= EVENT_OUTPUT_BYTES_MAX as usize
        };
        let outputs = [entry].into_iter().chain(self.batch.as_slice()).filter_map(output);
        let ranges: Vec<_> = outputs.enumerate().take_while(fits).map(|(_, output)| output).collect();
        let files = self.handle().await.files().await.map_err(|error| status::read(&error))?;
        let run = self.run.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = |(stream, offset, len)| {
                let bytes = files.read_output(stream, offset, len);
                bytes.inspect_err(|error| tracing::error!(%error, %run, "a run's output could not be read back")).ok()
            };
            ranges.into_iter().map_while(read).collect()
        });
        self.outputs = read.await.unwrap_or_default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::revocation::hold_until_revoked;
    use super::*;
    use crate::clock::Clock;
    use crate::runs::{Spools, open};
    use crate::tenants::allowance::{Gauge, MemoryReservation};
    use futures_util::FutureExt;
    use proctor_core::event::Progress;
    use proctor_proto::reason;
    use proctor_sandbox::Spool;
    use tokio::sync::oneshot;
    use tokio_stream::StreamExt;
    use tonic::Code;
    use tonic_types::StatusExt;

    async fn from(handle: &RunHandle, cursor: u64) -> Result<EventStream, Status> {
        revocable(handle, cursor, &Arc::default(), pending()).await
    }

    // A stream with a counted subscription that ends when `revoked` resolves.
    async fn revocable(
        handle: &RunHandle,
        cursor: u64,
        subscriptions: &Arc<Gauge>,
        revoked: impl Future<Output = Status> + Send + 'static,
    ) -> Result<EventStream, Status> {
        let (run, in_flight) = (RunId::new("r"), Arc::default());
        let (subscription, revocation) =
            hold_until_revoked(RunSubscription::new(handle.clone(), subscriptions.add(1)), revoked);
        follow(FollowRequest { run, subscription, revocation, cursor, attached_age_ms: None, in_flight }).await
    }

    #[tokio::test]
    async fn an_unpolled_stream_of_a_revoked_caller_releases_its_subscription() {
        let (writer, handle) = open(Clock::new(), &Spools::default(), MemoryReservation::unbounded());
        writer.append(vec![RunEvent::Missed { events: 1 }, RunEvent::Missed { events: 2 }]).await;
        let (subscriptions, (revoke, revoked)) = (Arc::default(), oneshot::channel());
        let revoked = async { revoked.await.unwrap() };
        let mut stream = revocable(&handle, 0, &subscriptions, revoked).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().sequence, 0);
        assert_eq!((subscriptions.now(), handle.watchers()), (1, 1));
        revoke.send(Status::unauthenticated("revoked")).unwrap();
        while subscriptions.now() > 0 || handle.watchers() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stream.next().await.unwrap().unwrap_err().message(), "revoked");
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn waits_for_the_next_event_and_rejects_a_cursor_beyond_it() {
        let (writer, handle) = open(Clock::new(), &Spools::default(), MemoryReservation::unbounded());
        writer.append(vec![RunEvent::Missed { events: 1 }]).await;
        for beyond in [2, u64::MAX] {
            let refused = from(&handle, beyond).await.err().unwrap();
            assert_eq!(refused.code(), Code::OutOfRange);
            assert_eq!(refused.message(), format!("cursor {beyond} is beyond the run's next event 1"));
        }
        let mut next = from(&handle, 1).await.unwrap();
        assert!(next.next().now_or_never().is_none(), "the event does not exist yet");
        writer.append(vec![RunEvent::Missed { events: 2 }]).await;
        assert_eq!(next.next().await.unwrap().unwrap().sequence, 1);
    }

    #[tokio::test]
    async fn unreadable_output_ends_the_stream_before_its_event() {
        let dir = tempfile::tempdir().unwrap();
        // A write-only file, as on a disk that fails on reads.
        let mut spools = Spools {
            stdout: Spool::from_file(std::fs::File::create(dir.path().join("x")).unwrap()),
            ..Spools::default()
        };
        spools.stdout.append(b"text").unwrap();
        let (writer, handle) = open(Clock::new(), &spools, MemoryReservation::unbounded());
        let output = RunEvent::Output { stream: Stream::Stdout, offset: 0, len: 4 };
        writer.append(vec![RunEvent::Progress(Progress::default()), output, RunEvent::Missed { events: 1 }]).await;
        for cursor in [0, 1] {
            let mut stream = from(&handle, cursor).await.unwrap();
            if cursor == 0 {
                assert_eq!(stream.next().await.unwrap().unwrap().sequence, 0);
            }
            let status = stream.next().await.unwrap().unwrap_err();
            let info = status.get_details_error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str()), (Code::Unavailable, reason::HOST_FAILED));
            assert!(status.get_details_retry_info().is_some() && status.message().contains("event 1"), "{status:?}");
            assert!(stream.next().await.is_none(), "the stream ends");
        }
    }

    fn reason(status: &Status) -> String {
        status.get_details_error_info().unwrap().reason
    }

    #[tokio::test]
    async fn reads_the_outputs_of_a_batch_together_up_to_the_size_of_one_event() {
        let mut spools = Spools::default();
        let pieces =
            [(Stream::Stdout, 1), (Stream::Stderr, 2), (Stream::Stdout, 3), (Stream::Stderr, EVENT_OUTPUT_BYTES_MAX)];
        let mut events = Vec::new();
        let mut written = Vec::new();
        for (byte, (stream, len)) in (0..).zip(pieces) {
            let spool = if stream == Stream::Stdout { &mut spools.stdout } else { &mut spools.stderr };
            let bytes = vec![byte; usize::try_from(len).unwrap()];
            events.push(RunEvent::Output { stream, offset: spool.append(&bytes).unwrap(), len });
            events.push(RunEvent::Progress(Progress::default()));
            written.push(bytes);
        }
        let (writer, handle) = open(Clock::new(), &spools, MemoryReservation::unbounded());
        writer.append([events.clone(), events].concat()).await;
        let mut stream = from(&handle, 0).await.unwrap();
        let mut next = async || match stream.next().await.unwrap().map(|event| event.event.unwrap()) {
            Ok(Event::Output(output)) => Ok(Some(output.bytes)),
            Ok(_) => Ok(None),
            Err(status) => Err(status),
        };
        for bytes in &written {
            assert_eq!(next().await.unwrap().as_ref(), Some(bytes));
            assert_eq!(next().await.unwrap(), None);
        }
        assert_eq!(next().await.unwrap().as_ref(), Some(&written[0]));
        writer.forget().await;
        // The fourth output exceeds what one event may hold.
        for bytes in &written[1..3] {
            assert_eq!(next().await.unwrap(), None);
            assert_eq!(next().await.unwrap().as_ref(), Some(bytes));
        }
        assert_eq!(next().await.unwrap(), None);
        assert_eq!(reason(&next().await.unwrap_err()), reason::RUN_FORGOTTEN);
    }

    #[tokio::test]
    async fn sends_the_events_before_unreadable_output() {
        let dir = tempfile::tempdir().unwrap();
        let write_only = Spool::from_file(std::fs::File::create(dir.path().join("x")).unwrap());
        let mut spools = Spools { stderr: write_only, ..Spools::default() };
        spools.stdout.append(b"text").unwrap();
        spools.stderr.append(b"lost").unwrap();
        let (writer, handle) = open(Clock::new(), &spools, MemoryReservation::unbounded());
        let output = |stream| RunEvent::Output { stream, offset: 0, len: 4 };
        writer.append(vec![output(Stream::Stdout), output(Stream::Stderr), output(Stream::Stdout)]).await;
        let mut stream = from(&handle, 0).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().sequence, 0);
        let status = stream.next().await.unwrap().unwrap_err();
        assert_eq!(reason(&status), reason::HOST_FAILED);
        assert!(status.message().contains("event 1"), "{status:?}");
    }
}
