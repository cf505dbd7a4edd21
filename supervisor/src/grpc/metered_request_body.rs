//! The request body: counts its bytes as they arrive and bounds the time until it is complete.

use super::status;
use crate::tenants::allowance::Reservation;
use http_body::{Body as HttpBody, Frame, SizeHint};
use proctor_core::bounds::{OPEN_REQUEST_BYTES_MAX, REQUEST_ARRIVAL_TIMEOUT, UNANSWERED_BYTES_MAX};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;

/// Bound on request bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestBound {
    bytes_max: u64,
    error: fn(u64) -> Status,
}

impl RequestBound {
    /// For all requests of one authenticated caller together.
    pub(super) const PER_CALLER: RequestBound =
        RequestBound { bytes_max: UNANSWERED_BYTES_MAX, error: status::too_much_unanswered };

    /// For each request without authentication: with a shared bound, one caller could block all others.
    pub(super) const PER_REQUEST: RequestBound =
        RequestBound { bytes_max: OPEN_REQUEST_BYTES_MAX as u64, error: status::too_large };
}

/// A request body while it arrives.
pub(super) struct MeteredRequestBody {
    body: Body,
    bound: RequestBound,
    /// Bytes that have arrived, shared with the call, which holds them until its answer.
    arrived: Arc<Reservation>,
    timeout: Pin<Box<Sleep>>,
}

impl MeteredRequestBody {
    pub(super) fn new(body: Body, bound: RequestBound, arrived: Arc<Reservation>) -> MeteredRequestBody {
        MeteredRequestBody { body, bound, arrived, timeout: Box::pin(sleep(REQUEST_ARRIVAL_TIMEOUT)) }
    }
}

impl HttpBody for MeteredRequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => {
                self.timeout.as_mut().poll(cx).map(|()| Some(Err(status::request_late(REQUEST_ARRIVAL_TIMEOUT))))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                let RequestBound { bytes_max, error } = self.bound;
                let fits = self.arrived.try_grow(bytes, bytes_max);
                Poll::Ready(Some(if fits { Ok(frame) } else { Err(error(bytes_max)) }))
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

    struct ChannelBody(mpsc::Receiver<Bytes>);

    impl HttpBody for ChannelBody {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    fn channel_body(gauge: &Arc<Gauge>) -> (mpsc::Sender<Bytes>, MeteredRequestBody) {
        let (sender, receiver) = mpsc::channel(1);
        (
            sender,
            MeteredRequestBody::new(Body::new(ChannelBody(receiver)), RequestBound::PER_CALLER, Arc::new(gauge.add(0))),
        )
    }

    async fn next(body: &mut MeteredRequestBody) -> Option<Result<usize, Status>> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.map(|frame| frame.data_ref().unwrap().len()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_stops_arriving_times_out() {
        let gauge = Arc::default();
        let (sender, mut body) = channel_body(&gauge);
        let started_at = Instant::now();
        for _ in 0..3 {
            sender.send(Bytes::from_static(b"some")).await.unwrap();
            assert_eq!(next(&mut body).await.unwrap().unwrap(), 4);
            advance(REQUEST_ARRIVAL_TIMEOUT / 4).await;
        }
        assert_eq!(gauge.now(), 12);
        let status = next(&mut body).await.unwrap().unwrap_err();
        assert_eq!(
            (status.code(), started_at.elapsed().as_secs()),
            (Code::DeadlineExceeded, REQUEST_ARRIVAL_TIMEOUT.as_secs())
        );
        drop(body);
        assert_eq!(gauge.now(), 0);
    }

    #[tokio::test]
    async fn bounds_the_unanswered_requests_of_a_caller_together() {
        let gauge = Arc::default();
        let (sender, mut body) = channel_body(&gauge);
        let (other_sender, mut other) = channel_body(&gauge);
        let half = Bytes::from(vec![0; usize::try_from(UNANSWERED_BYTES_MAX / 2).unwrap()]);
        for (sender, body) in [(&sender, &mut body), (&other_sender, &mut other)] {
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
