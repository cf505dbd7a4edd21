//! Encoding of answers of many megabytes: on blocking threads, and for one tenant no more at a time than its permits.

use super::status;
use crate::grpc::convert;
use crate::tenants::allowance::{InFlightBytes, Reservation};
use proctor_core::bounds::UNREAD_BYTES_MAX;
use proctor_core::report::Report;
use proctor_proto::v1;
use prost::Message;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

/// Most tests and bytes of a report that is encoded on the runtime's own thread: that takes less time than a change of
/// threads.
const INLINE_TESTS_MAX: usize = 100;
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Permission to encode one answer.
pub(super) struct EncodePermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl EncodePermit {
    /// Waits for a permit.
    pub(super) async fn acquire(in_flight: &InFlightBytes) -> EncodePermit {
        EncodePermit { _permit: in_flight.encode_permit().await }
    }

    /// Runs `encode` on a blocking thread. The permit is held until it returns, also when the call is gone by then.
    pub(super) async fn encode<T: Send + 'static>(
        self,
        encode: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let task = spawn_blocking(move || {
            let encoded = encode();
            drop(self);
            encoded
        });
        task.await.map_err(|_| status::internal("the answer could not be encoded"))
    }
}

/// Encodes a report for a unary call.
pub(super) async fn encode_report(in_flight: &InFlightBytes, report: Arc<Report>) -> Result<v1::Report, Status> {
    if is_small(&report) {
        return Ok(convert::report(&report));
    }
    EncodePermit::acquire(in_flight).await.encode(move || convert::report(&report)).await
}

/// Encodes a report for a stream. The transport may stop polling the stream in the meantime for as long as the client
/// likes: so a separate task waits for the permit and releases it, and counts the encoded report as unread.
pub(super) async fn encode_report_for_stream(
    in_flight: &Arc<InFlightBytes>,
    report: Arc<Report>,
) -> Result<v1::Report, Status> {
    if is_small(&report) {
        return Ok(convert::report(&report));
    }
    let in_flight = Arc::clone(in_flight);
    let encoding = tokio::spawn(async move {
        let encoding = EncodePermit::acquire(&in_flight).await.encode(move || {
            let encoded = convert::report(&report);
            let bytes = encoded.encoded_len() as u64;
            (encoded, bytes)
        });
        let (encoded, bytes) = encoding.await?;
        let counted = in_flight.unread.try_add(bytes, UNREAD_BYTES_MAX);
        counted.map(|counted| (encoded, counted)).ok_or_else(status::too_much_unread)
    });
    let encoded: Result<(v1::Report, Reservation), Status> = AbortOnDropHandle::new(encoding)
        .await
        .unwrap_or_else(|_| Err(status::internal("the answer could not be encoded")));
    encoded.map(|(report, _)| report)
}

fn is_small(report: &Report) -> bool {
    report.tests.len() <= INLINE_TESTS_MAX && report.memory_bytes() <= INLINE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::without_running;
    use futures_util::FutureExt;
    use proctor_core::bounds::ENCODE_PERMITS_MAX;
    use proctor_core::limits::Limits;
    use proctor_core::outcome::KillReason;
    use proctor_core::timestamp::Timestamp;
    use std::pin::pin;

    fn report_of(tail_bytes: usize) -> Arc<Report> {
        let report = without_running(Timestamp(0), Limits::DEFAULT, "go", KillReason::Cancelled, "");
        Arc::new(Report { stdout_tail: "x".repeat(tail_bytes), ..report })
    }

    async fn all_permits(in_flight: &InFlightBytes) -> Vec<EncodePermit> {
        let mut permits = Vec::new();
        for _ in 0..ENCODE_PERMITS_MAX {
            permits.push(EncodePermit::acquire(in_flight).await);
        }
        permits
    }

    #[tokio::test]
    async fn a_large_report_waits_for_a_permit_and_a_small_one_does_not() {
        let in_flight = Arc::<InFlightBytes>::default();
        let permits = all_permits(&in_flight).await;
        assert_eq!(encode_report(&in_flight, report_of(10)).await.unwrap().stdout_tail.len(), 10);
        assert_eq!(encode_report_for_stream(&in_flight, report_of(10)).await.unwrap().stdout_tail.len(), 10);
        let (mut call, mut stream) = (
            pin!(encode_report(&in_flight, report_of(2 * INLINE_BYTES_MAX))),
            pin!(encode_report_for_stream(&in_flight, report_of(2 * INLINE_BYTES_MAX))),
        );
        assert!(call.as_mut().now_or_never().is_none() && stream.as_mut().now_or_never().is_none());
        drop(permits);
        assert_eq!(call.await.unwrap(), stream.await.unwrap());
        assert_eq!(in_flight.unread.now(), 0);
    }

    #[tokio::test]
    async fn an_unpolled_stream_holds_no_permit_and_counts_as_unread() {
        let in_flight = Arc::<InFlightBytes>::default();
        let permits = all_permits(&in_flight).await;
        let mut stream = pin!(encode_report_for_stream(&in_flight, report_of(2 * INLINE_BYTES_MAX)));
        assert!(stream.as_mut().now_or_never().is_none());
        // Waits behind the stream, which is not polled again.
        tokio::task::yield_now().await;
        drop(permits);
        drop(all_permits(&in_flight).await);
        while in_flight.unread.now() == 0 {
            tokio::task::yield_now().await;
        }
        let report = stream.await.unwrap();
        assert_eq!(in_flight.unread.now(), 0, "the response body counts it from here on");
        let full = in_flight.unread.add(UNREAD_BYTES_MAX - report.encoded_len() as u64 + 1);
        let refused = encode_report_for_stream(&in_flight, report_of(2 * INLINE_BYTES_MAX)).await.unwrap_err();
        assert!(refused.message().starts_with("quota `answer_bytes` is used up"), "{refused}");
        drop(full);
        // A stream that is gone holds no permit either.
        let permits = all_permits(&in_flight).await;
        assert!(encode_report_for_stream(&in_flight, report_of(2 * INLINE_BYTES_MAX)).now_or_never().is_none());
        drop(permits);
        drop(all_permits(&in_flight).await);
    }
}
