//! The body of a request on its way in: counted as it comes, and not waited for longer than it takes. Must not know what is in
//! it.

use super::{OPEN_REQUEST_BYTES_MAX, status};
use crate::tenants::allowance::{ARRIVING_BYTES_MAX, Reservation};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// How long a request may take to come: the largest comes within it at 7 Mbit/s.
const ARRIVAL: Duration = Duration::from_secs(10);

/// How much may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    bytes_max: u64,
    refusal: fn(u64) -> Status,
}

impl Bound {
    /// Of all requests of a caller who is known together.
    pub(super) const OF_CALLER: Bound = Bound { bytes_max: ARRIVING_BYTES_MAX, refusal: status::too_much_arrives };

    /// Of a request whose caller nobody asks for: what is counted together with others' would be in their way.
    pub(super) const OF_REQUEST: Bound = Bound { bytes_max: OPEN_REQUEST_BYTES_MAX as u64, refusal: status::too_large };
}

/// A body that arrives.
pub(super) struct Arriving {
    body: Body,
    bound: Bound,
    /// What has come of it, for whoever waits for its answer.
    arrived: Arc<Reservation>,
    late: Pin<Box<Sleep>>,
}

impl Arriving {
    pub(super) fn new(body: Body, bound: Bound, arrived: Arc<Reservation>) -> Arriving {
        Arriving { body, bound, arrived, late: Box::pin(sleep(ARRIVAL)) }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => self.late.as_mut().poll(cx).map(|()| Some(Err(status::late(ARRIVAL)))),
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                let Bound { bytes_max, refusal } = self.bound;
                let fits = self.arrived.grow(bytes, bytes_max);
                Poll::Ready(Some(if fits { Ok(frame) } else { Err(refusal(bytes_max)) }))
            }
            end => end,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::allowance::Gauge;
    use futures_util::future::poll_fn;
    use tokio::sync::mpsc;
    use tokio::time::{Instant, advance};
    use tonic::Code;
    use tonic_types::StatusExt;

    struct Slow(mpsc::Receiver<Bytes>);

    impl HttpBody for Slow {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    fn arriving(count: &Arc<Gauge>) -> (mpsc::Sender<Bytes>, Arriving) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Arriving::new(Body::new(Slow(receiver)), Bound::OF_CALLER, Arc::new(count.add(0))))
    }

    async fn next(body: &mut Arriving) -> Option<Result<usize, Status>> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.map(|frame| frame.data_ref().unwrap().len()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_stops_on_its_way_is_not_waited_for() {
        let count = Arc::default();
        let (sender, mut body) = arriving(&count);
        let began = Instant::now();
        for _ in 0..3 {
            sender.send(Bytes::from_static(b"some")).await.unwrap();
            assert_eq!(next(&mut body).await.unwrap().unwrap(), 4);
            advance(ARRIVAL / 4).await;
        }
        assert_eq!(count.now(), 12);
        let status = next(&mut body).await.unwrap().unwrap_err();
        assert_eq!((status.code(), began.elapsed().as_secs()), (Code::DeadlineExceeded, ARRIVAL.as_secs()));
        drop(body);
        assert_eq!(count.now(), 0);
    }

    #[tokio::test]
    async fn what_all_requests_of_a_caller_have_on_the_way_is_bounded() {
        let count = Arc::default();
        let (sender, mut body) = arriving(&count);
        let (sender_of_other, mut other) = arriving(&count);
        let half = Bytes::from(vec![0; usize::try_from(ARRIVING_BYTES_MAX / 2).unwrap()]);
        for (sender, body) in [(&sender, &mut body), (&sender_of_other, &mut other)] {
            sender.send(half.clone()).await.unwrap();
            assert_eq!(next(body).await.unwrap().unwrap(), half.len());
        }
        sender.send(Bytes::from_static(b"x")).await.unwrap();
        let status = next(&mut body).await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.get_details_error_info().unwrap().metadata["quota"], "request_bytes");
        assert!(status.get_details_retry_info().is_some());
        drop(other);
        sender.send(Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(next(&mut body).await.unwrap().unwrap(), 1);
    }
}
