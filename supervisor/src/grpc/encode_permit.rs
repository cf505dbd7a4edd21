//! Making answers of many megabytes: on threads for such work, and no more of them for one tenant at a time than its turns. Must
//! not know what they are answers to.

use super::status;
use crate::grpc::convert;
use crate::tenants::allowance::{InFlightBytes, Reservation, UNTAKEN_BYTES_MAX};
use proctor_core::report::Report;
use proctor_proto::v1;
use prost::Message;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

/// Most tests of a report that is copied where it is asked for, and most bytes of it: that takes less than a change of threads.
const TESTS_AT_ONCE: usize = 100;
const BYTES_AT_ONCE: usize = 64 * 1024;

/// A turn to make one answer.
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Waits for one.
    pub(super) async fn of(wire: &InFlightBytes) -> Turn {
        Turn { _permit: wire.making().await }
    }

    /// What `make` makes, on a thread for it. The turn lasts as long as that does, also when nobody waits for it any more.
    pub(super) async fn make<T: Send + 'static>(self, make: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
        let made = spawn_blocking(move || {
            let made = make();
            drop(self);
            made
        });
        made.await.map_err(|_| status::internal("the answer could not be made"))
    }
}

/// A report on the wire, for a call that is waited for.
pub(super) async fn report(wire: &InFlightBytes, report: Arc<Report>) -> Result<v1::Report, Status> {
    if is_small(&report) {
        return Ok(convert::report(&report));
    }
    Turn::of(wire).await.make(move || convert::report(&report)).await
}

/// The same for a stream. Its transport may stop to ask for the next event while this one is made, for as long as the client
/// pleases: so a task of its own waits for the turn and gives it back, and what it made is counted as not taken.
pub(super) async fn report_to_come(wire: &Arc<InFlightBytes>, report: Arc<Report>) -> Result<v1::Report, Status> {
    if is_small(&report) {
        return Ok(convert::report(&report));
    }
    let wire = Arc::clone(wire);
    let making = tokio::spawn(async move {
        let made = Turn::of(&wire).await.make(move || {
            let made = convert::report(&report);
            let bytes = made.encoded_len() as u64;
            (made, bytes)
        });
        let (made, bytes) = made.await?;
        let counted = wire.untaken.add_within(bytes, UNTAKEN_BYTES_MAX);
        counted.map(|counted| (made, counted)).ok_or_else(status::too_much_untaken)
    });
    let made: Result<(v1::Report, Reservation), Status> =
        AbortOnDropHandle::new(making).await.unwrap_or_else(|_| Err(status::internal("the answer could not be made")));
    made.map(|(report, _)| report)
}

fn is_small(report: &Report) -> bool {
    report.tests.len() <= TESTS_AT_ONCE && report.memory_bytes() <= BYTES_AT_ONCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::without_running;
    use crate::tenants::allowance::MAKING_MAX;
    use futures_util::FutureExt;
    use proctor_core::limits::Limits;
    use proctor_core::outcome::KillReason;
    use proctor_core::timestamp::Timestamp;
    use std::pin::pin;

    fn of(tail_bytes: usize) -> Arc<Report> {
        let report = without_running(Timestamp(0), Limits::DEFAULT, "go", KillReason::Cancelled, "");
        Arc::new(Report { stdout_tail: "x".repeat(tail_bytes), ..report })
    }

    async fn all_turns(wire: &InFlightBytes) -> Vec<Turn> {
        let mut turns = Vec::new();
        for _ in 0..MAKING_MAX {
            turns.push(Turn::of(wire).await);
        }
        turns
    }

    #[tokio::test]
    async fn what_is_large_has_its_turn_and_what_is_small_waits_for_none() {
        let wire = Arc::<InFlightBytes>::default();
        let turns = all_turns(&wire).await;
        assert_eq!(report(&wire, of(10)).await.unwrap().stdout_tail.len(), 10);
        assert_eq!(report_to_come(&wire, of(10)).await.unwrap().stdout_tail.len(), 10);
        let (mut call, mut stream) =
            (pin!(report(&wire, of(2 * BYTES_AT_ONCE))), pin!(report_to_come(&wire, of(2 * BYTES_AT_ONCE))));
        assert!(call.as_mut().now_or_never().is_none() && stream.as_mut().now_or_never().is_none());
        drop(turns);
        assert_eq!(call.await.unwrap(), stream.await.unwrap());
        assert_eq!(wire.untaken.now(), 0);
    }

    #[tokio::test]
    async fn a_stream_whose_client_asks_for_nothing_more_keeps_no_turn_and_counts() {
        let wire = Arc::<InFlightBytes>::default();
        let turns = all_turns(&wire).await;
        let mut stream = pin!(report_to_come(&wire, of(2 * BYTES_AT_ONCE)));
        assert!(stream.as_mut().now_or_never().is_none());
        // Waits behind the stream, which is not asked again.
        tokio::task::yield_now().await;
        drop(turns);
        drop(all_turns(&wire).await);
        while wire.untaken.now() == 0 {
            tokio::task::yield_now().await;
        }
        let report = stream.await.unwrap();
        assert_eq!(wire.untaken.now(), 0, "from here on the answer counts");
        let full = wire.untaken.add(UNTAKEN_BYTES_MAX - report.encoded_len() as u64 + 1);
        let refused = report_to_come(&wire, of(2 * BYTES_AT_ONCE)).await.unwrap_err();
        assert!(refused.message().starts_with("quota `answer_bytes` is used up"), "{refused}");
        drop(full);
        // Nor does one that is gone.
        let turns = all_turns(&wire).await;
        assert!(report_to_come(&wire, of(2 * BYTES_AT_ONCE)).now_or_never().is_none());
        drop(turns);
        drop(all_turns(&wire).await);
    }
}
