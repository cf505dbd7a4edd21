//! The connections on which no request with valid credentials has arrived yet. When there are too many, the oldest is closed: an
//! agent sends its request at once, so connections that stay silent leave first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Most connections without credentials: more than honest agents open within the time of a request.
const ANONYMOUS_MAX: usize = 128;

/// These connections.
#[derive(Clone, Default)]
pub(super) struct AnonymousConnections(Arc<Mutex<Connections>>);

#[derive(Default)]
struct Connections {
    next: u64,
    // By the number of the connection, so that the first is the oldest. Cancelled to close the connection.
    open: BTreeMap<u64, CancellationToken>,
}

/// One of them. Dropped with the connection.
pub(super) struct ConnectionEntry {
    connections: AnonymousConnections,
    number: u64,
    close: CancellationToken,
}

impl AnonymousConnections {
    /// Adds a connection; closes the oldest if there are too many.
    pub(super) fn add(&self) -> ConnectionEntry {
        let close = CancellationToken::new();
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.open.len() >= ANONYMOUS_MAX
            && let Some((_, oldest)) = connections.open.pop_first()
        {
            oldest.cancel();
        }
        let number = connections.next;
        connections.next += 1;
        connections.open.insert(number, close.clone());
        ConnectionEntry { connections: self.clone(), number, close }
    }
}

impl ConnectionEntry {
    /// A request with valid credentials has arrived.
    pub(super) fn identify(&self) {
        self.connections.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.number);
    }

    /// Waits until the connection has to be closed.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        self.identify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_the_oldest_without_credentials() {
        let connections = AnonymousConnections::default();
        let entries: Vec<ConnectionEntry> = (0..ANONYMOUS_MAX).map(|_| connections.add()).collect();
        entries[0].identify();
        let _newer = [connections.add(), connections.add()];
        let closed: Vec<usize> = (0..ANONYMOUS_MAX).filter(|number| entries[*number].close.is_cancelled()).collect();
        assert_eq!(closed, [1]);
        drop(entries);
        assert_eq!(connections.0.lock().unwrap().open.len(), 2);
    }
}
