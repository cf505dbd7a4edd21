//! Following a run: from its log to a stream of events on the wire. Must not know who started it.

use super::revocation::Lease;
use super::{encode_permit, status};
use crate::grpc::convert;
use crate::runs::{LoggedEvent, OUTPUT_BYTES_MAX, RunEnd, RunHandle, WatchGuard};
use crate::tenants::allowance::{InFlightBytes, Reservation};
use futures_util::stream::unfold;
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

/// What the streaming calls answer with.
pub(super) type EventStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::RunEvent, Status>> + Send>>;

/// What a client has of a run that it follows, for as long as it is known.
pub(super) struct Followed {
    handle: RunHandle,
    _watch: WatchGuard,
    _subscription: Reservation,
}

impl Followed {
    /// The run is watched from now on.
    pub(super) fn new(handle: RunHandle, subscription: Reservation) -> Followed {
        Followed { _watch: handle.watch(), handle, _subscription: subscription }
    }
}

/// A client that follows a run.
pub(super) struct Follow {
    pub(super) run: RunId,
    pub(super) followed: Weak<Followed>,
    pub(super) lease: Lease,
    pub(super) cursor: u64,
    pub(super) attached_age_ms: Option<u64>,
    /// What is on the wire between its tenant and the supervisor.
    pub(super) wire: Arc<InFlightBytes>,
}

/// All events from the cursor to the end of the run, as long as the lease lasts.
pub(super) async fn follow(follow: Follow) -> Result<EventStream, Status> {
    let Follow { run, followed, mut lease, cursor, attached_age_ms, wire } = follow;
    let Some(handle) = followed.upgrade().map(|followed| followed.handle.clone()) else {
        return Err(lease.over().await);
    };
    if cursor > 0 {
        let snapshot = handle.snapshot().await.map_err(|error| status::read(&error))?;
        // Whoever waits for an event that nobody has told it of waits for one that may never come.
        if cursor > snapshot.next_sequence {
            return Err(status::beyond(cursor, snapshot.next_sequence));
        }
    }
    let (batch, outputs, accepted_at) = (Vec::new().into_iter(), VecDeque::new(), handle.accepted_at);
    let following = Following { run, followed, accepted_at, cursor, attached_age_ms, wire, batch, outputs };
    Ok(Box::pin(unfold(Some((lease, following)), |state| async move {
        let (mut lease, following) = state?;
        tokio::select! {
            biased;
            status = lease.over() => Some((Err(status), None)),
            next = following.next() => next.map(|(event, following)| (event, following.map(|then| (lease, then)))),
        }
    })))
}

/// A stream on its way. It reads the log as its client takes events in, and is gone with the client.
struct Following {
    run: RunId,
    /// Not its own: while its client takes nothing, nobody asks it for anything, and it would keep it.
    followed: Weak<Followed>,
    accepted_at: Timestamp,
    cursor: u64,
    attached_age_ms: Option<u64>,
    wire: Arc<InFlightBytes>,
    /// What was read and is not yet passed on.
    batch: vec::IntoIter<LoggedEvent>,
    /// What the next events with output in it hold, as far as it was read.
    outputs: VecDeque<Vec<u8>>,
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
        let sequence = entry.sequence;
        // Nothing comes after it, and the run may be forgotten before its client has taken it.
        let is_last = matches!(entry.event, RunEvent::Finished(_));
        match self.on_the_wire(entry).await {
            Ok(event) => {
                self.cursor = sequence + 1;
                Some((Ok(event), (!is_last).then_some(self)))
            }
            Err(status) => Some((Err(status), None)),
        }
    }

    // Without a lease there is no next event: its client is told why instead.
    async fn handle(&self) -> RunHandle {
        match self.followed.upgrade() {
            Some(followed) => followed.handle.clone(),
            None => pending().await,
        }
    }

    /// Waits for more; `None` at the end.
    async fn read(&mut self) -> Result<Option<LoggedEvent>, Status> {
        let handle = self.handle().await;
        let batch = handle.read(self.cursor).await.map_err(|error| status::read(&error))?;
        // It has ended, and who reads from beyond its end finds nothing.
        if batch.is_empty()
            && let RunEnd::NotStarted(why) = handle.end().await.map_err(|error| status::read(&error))?
        {
            return Err(status::not_started(&why));
        }
        self.batch = batch.into_iter();
        Ok(self.batch.next())
    }

    async fn on_the_wire(&mut self, entry: LoggedEvent) -> Result<v1::RunEvent, Status> {
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
            RunEvent::Finished(report) => Event::Finished(encode_permit::report_to_come(&self.wire, report).await?),
        };
        Ok(v1::RunEvent {
            run_id: self.run.to_string(),
            sequence: entry.sequence,
            at_ms: entry.at.ms_since(self.accepted_at),
            event: Some(event),
        })
    }

    /// The bytes of an event of the batch.
    async fn output(&mut self, entry: &LoggedEvent) -> Result<Vec<u8>, Status> {
        if self.outputs.is_empty() {
            self.read_outputs(entry).await?;
        }
        // Something else in its place would be taken for what the run wrote.
        self.outputs.pop_front().ok_or_else(|| status::unread(entry.sequence))
    }

    /// Reads what `entry` and those after it hold, all at once, since many a runner writes line by line; but no more than a
    /// single event may, so that a stream whose client takes nothing keeps no more than that. What comes after one that cannot
    /// be read waits for its turn.
    async fn read_outputs(&mut self, entry: &LoggedEvent) -> Result<(), Status> {
        let mut bytes = 0;
        let output = |entry: &LoggedEvent| match entry.event {
            RunEvent::Output { stream, offset, len } => {
                Some((stream, offset, usize::try_from(len).unwrap_or(usize::MAX)))
            }
            _ => None,
        };
        let within = |(place, (_, _, len)): &(usize, (Stream, u64, usize))| {
            bytes += len;
            *place == 0 || bytes <= OUTPUT_BYTES_MAX as usize
        };
        let outputs = [entry].into_iter().chain(self.batch.as_slice()).filter_map(output);
        let wanted: Vec<_> = outputs.enumerate().take_while(within).map(|(_, output)| output).collect();
        let files = self.handle().await.files().await.map_err(|error| status::read(&error))?;
        let run = self.run.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = |(stream, offset, len)| {
                let bytes = files.read_output(stream, offset, len);
                bytes.inspect_err(|error| tracing::error!(%error, %run, "a run's output could not be read back")).ok()
            };
            wanted.into_iter().map_while(read).collect()
        });
        self.outputs = read.await.unwrap_or_default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::revocation::lend;
    use super::*;
    use crate::clock::Clock;
    use crate::runs::{Spools, open};
    use crate::tenants::allowance::{Gauge, RetainedQuota};
    use futures_util::FutureExt;
    use proctor_core::event::Progress;
    use proctor_proto::reason;
    use proctor_sandbox::Spool;
    use tokio::sync::oneshot;
    use tokio_stream::StreamExt;
    use tonic::Code;
    use tonic_types::StatusExt;

    async fn from(handle: &RunHandle, cursor: u64) -> Result<EventStream, Status> {
        lent(handle, cursor, &Arc::default(), pending()).await
    }

    // With a subscription that is counted, until the caller is lost.
    async fn lent(
        handle: &RunHandle,
        cursor: u64,
        subscriptions: &Arc<Gauge>,
        lost: impl Future<Output = Status> + Send + 'static,
    ) -> Result<EventStream, Status> {
        let (run, wire) = (RunId::new("r"), Arc::default());
        let (followed, lease) = lend(Followed::new(handle.clone(), subscriptions.add(1)), lost);
        follow(Follow { run, followed, lease, cursor, attached_age_ms: None, wire }).await
    }

    #[tokio::test]
    async fn a_stream_of_a_caller_who_is_lost_holds_on_to_nothing_though_nobody_asks_it() {
        let (writer, handle) = open(Clock::new(), &Spools::default(), RetainedQuota::unbounded().room());
        writer.append(vec![RunEvent::Missed { events: 1 }, RunEvent::Missed { events: 2 }]).await;
        let (subscriptions, (lose, lost)) = (Arc::default(), oneshot::channel());
        let lost = async { lost.await.unwrap() };
        let mut stream = lent(&handle, 0, &subscriptions, lost).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().sequence, 0);
        assert_eq!((subscriptions.now(), handle.watchers()), (1, 1));
        lose.send(Status::unauthenticated("it is not known")).unwrap();
        while subscriptions.now() > 0 || handle.watchers() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stream.next().await.unwrap().unwrap_err().message(), "it is not known");
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn the_next_event_is_waited_for_and_one_beyond_it_is_refused_from_the_first_on() {
        let (writer, handle) = open(Clock::new(), &Spools::default(), RetainedQuota::unbounded().room());
        writer.append(vec![RunEvent::Missed { events: 1 }]).await;
        for beyond in [2, u64::MAX] {
            let refused = from(&handle, beyond).await.err().unwrap();
            assert_eq!(refused.code(), Code::OutOfRange);
            assert_eq!(refused.message(), format!("cursor {beyond} is beyond the run's next event 1"));
        }
        let mut next = from(&handle, 1).await.unwrap();
        assert!(next.next().now_or_never().is_none(), "it is not there yet");
        writer.append(vec![RunEvent::Missed { events: 2 }]).await;
        assert_eq!(next.next().await.unwrap().unwrap().sequence, 1);
    }

    #[tokio::test]
    async fn output_that_cannot_be_read_back_ends_the_stream_before_it() {
        let dir = tempfile::tempdir().unwrap();
        // A file that only takes, as a disk does that fails.
        let mut spools =
            Spools { stdout: Spool::of(std::fs::File::create(dir.path().join("x")).unwrap()), ..Spools::default() };
        spools.stdout.append(b"said").unwrap();
        let (writer, handle) = open(Clock::new(), &spools, RetainedQuota::unbounded().room());
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
            assert!(stream.next().await.is_none(), "nothing follows in its place");
        }
    }

    fn reason(status: &Status) -> String {
        status.get_details_error_info().unwrap().reason
    }

    #[tokio::test]
    async fn outputs_of_a_batch_are_read_together_as_far_as_one_event_may_hold_and_each_as_it_was_written() {
        let mut spools = Spools::default();
        let pieces =
            [(Stream::Stdout, 1), (Stream::Stderr, 2), (Stream::Stdout, 3), (Stream::Stderr, OUTPUT_BYTES_MAX)];
        let mut events = Vec::new();
        let mut written = Vec::new();
        for (byte, (stream, len)) in (0..).zip(pieces) {
            let spool = if stream == Stream::Stdout { &mut spools.stdout } else { &mut spools.stderr };
            let bytes = vec![byte; usize::try_from(len).unwrap()];
            events.push(RunEvent::Output { stream, offset: spool.append(&bytes).unwrap(), len });
            events.push(RunEvent::Progress(Progress::default()));
            written.push(bytes);
        }
        let (writer, handle) = open(Clock::new(), &spools, RetainedQuota::unbounded().room());
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
        // The fourth of them would be more than one event may hold.
        for bytes in &written[1..3] {
            assert_eq!(next().await.unwrap(), None);
            assert_eq!(next().await.unwrap().as_ref(), Some(bytes));
        }
        assert_eq!(next().await.unwrap(), None);
        assert_eq!(reason(&next().await.unwrap_err()), reason::RUN_FORGOTTEN);
    }

    #[tokio::test]
    async fn what_is_before_output_that_cannot_be_read_back_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let only_takes = Spool::of(std::fs::File::create(dir.path().join("x")).unwrap());
        let mut spools = Spools { stderr: only_takes, ..Spools::default() };
        spools.stdout.append(b"said").unwrap();
        spools.stderr.append(b"lost").unwrap();
        let (writer, handle) = open(Clock::new(), &spools, RetainedQuota::unbounded().room());
        let output = |stream| RunEvent::Output { stream, offset: 0, len: 4 };
        writer.append(vec![output(Stream::Stdout), output(Stream::Stderr), output(Stream::Stdout)]).await;
        let mut stream = from(&handle, 0).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().sequence, 0);
        let status = stream.next().await.unwrap().unwrap_err();
        assert_eq!(reason(&status), reason::HOST_FAILED);
        assert!(status.message().contains("event 1"), "{status:?}");
    }
}
