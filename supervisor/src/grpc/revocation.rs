//! What a caller has for as long as it is known. It is taken back by a task of its own, since the transport does not ask a stream
//! for anything while its client takes nothing. Must not know who the caller is, nor what it has.

use super::status;
use std::future::Future;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use tonic::Status;

/// Lasts until its caller is not known any more. What was lent with it is given back then, or when this is dropped.
pub(super) struct Lease(oneshot::Receiver<Status>);

/// Lends `held` until `lost`, which tells why its caller is not known any more.
pub(super) fn lend<T: Send + Sync + 'static>(
    held: T,
    lost: impl Future<Output = Status> + Send + 'static,
) -> (Weak<T>, Lease) {
    let (mut over, lease) = oneshot::channel();
    let held = Arc::new(held);
    let lent = Arc::downgrade(&held);
    tokio::spawn(async move {
        tokio::select! {
            status = lost => {
                drop(held);
                _ = over.send(status);
            }
            () = over.closed() => {}
        }
    });
    (lent, Lease(lease))
}

impl Lease {
    /// Returns when it is over: what its caller is told.
    pub(super) async fn over(&mut self) -> Status {
        let over = (&mut self.0).await;
        over.unwrap_or_else(|_| status::internal("it cannot be told any more who calls"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn what_is_lent_is_given_back_though_nobody_asks_whether_it_is_over() {
        let (lose, lost) = oneshot::channel();
        let (lent, mut lease) = lend((), async { lost.await.unwrap() });
        tokio::task::yield_now().await;
        assert!(lent.upgrade().is_some());
        lose.send(Status::unauthenticated("it is not known")).unwrap();
        while lent.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(lease.over().await.message(), "it is not known");
    }

    #[tokio::test]
    async fn what_is_lent_is_given_back_when_its_caller_leaves() {
        let (lent, lease) = lend((), pending());
        tokio::task::yield_now().await;
        assert!(lent.upgrade().is_some());
        drop(lease);
        while lent.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    }
}
