//! Resources of a caller that are released when its credential is revoked. A separate task releases them, since the
//! transport does not poll a stream while its client reads nothing.

use super::status;
use std::future::Future;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use tonic::Status;

/// Signals that the caller's credential is revoked. The resource held with it is released then, or when this is
/// dropped.
pub(super) struct Revocation(oneshot::Receiver<Status>);

/// Holds `resource` until `revoked` resolves to the status that tells the caller why.
pub(super) fn hold_until_revoked<T: Send + Sync + 'static>(
    resource: T,
    revoked: impl Future<Output = Status> + Send + 'static,
) -> (Weak<T>, Revocation) {
    let (mut sender, receiver) = oneshot::channel();
    let resource = Arc::new(resource);
    let weak = Arc::downgrade(&resource);
    tokio::spawn(async move {
        tokio::select! {
            status = revoked => {
                drop(resource);
                _ = sender.send(status);
            }
            () = sender.closed() => {}
        }
    });
    (weak, Revocation(receiver))
}

impl Revocation {
    /// Waits for the revocation and returns its status.
    pub(super) async fn revoked(&mut self) -> Status {
        let status = (&mut self.0).await;
        status.unwrap_or_else(|_| status::internal("the caller's credential can no longer be checked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn releases_the_resource_on_revocation_without_being_polled() {
        let (revoke, revoked) = oneshot::channel();
        let (resource, mut revocation) = hold_until_revoked((), async { revoked.await.unwrap() });
        tokio::task::yield_now().await;
        assert!(resource.upgrade().is_some());
        revoke.send(Status::unauthenticated("revoked")).unwrap();
        while resource.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(revocation.revoked().await.message(), "revoked");
    }

    #[tokio::test]
    async fn releases_the_resource_when_its_caller_leaves() {
        let (resource, revocation) = hold_until_revoked((), pending());
        tokio::task::yield_now().await;
        assert!(resource.upgrade().is_some());
        drop(revocation);
        while resource.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    }
}
