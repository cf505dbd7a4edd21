//! The connection limiter: bounds the connections of a listener and the time for the HTTP/2 preface, and chooses which
//! connection to close when the bound is reached.

use super::connection::{Connection, ConnectionHooks};
use super::peer::{ConnectionInfo, ConnectionStage, ConnectionState, Peer, PeerInfo, PeerKey, ms_since};
use proctor_core::bounds::{CONNECTIONS_MAX, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, PREFACE_TIMEOUT};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Pause after the host failed to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a new connection counts as one that has sent its preface, in milliseconds. A preface takes a few
/// milliseconds; where all others have sent theirs and are idle, a new connection would otherwise be closed for the
/// next one. For as long it is also not closed in favour of the peer with the most connections: a first call takes a
/// few milliseconds more.
const GRACE_MS: u64 = 1_000;

/// How long a write may be blocked: as long as a peer may be silent, because a blocked peer cannot be pinged and
/// nothing else of it is read.
const WRITE_STALL_MAX: Duration = KEEPALIVE_INTERVAL.saturating_add(KEEPALIVE_TIMEOUT);

/// Length of the preface of every HTTP/2 client (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;

/// A connection admitted by the limiter.
pub(super) type LimitedConnection<S> = Connection<S, ConnectionGuard>;

/// Accepted connections of `incoming`. After an accept error of the host, as when descriptors have run out, it pauses:
/// the waiting peer would make each accept fail at once.
pub(super) fn accepted<S>(incoming: impl Stream<Item = io::Result<S>>) -> impl Stream<Item = S> {
    let accepted = incoming.then(async |stream| {
        match stream {
            Ok(stream) => return Some(stream),
            Err(error) if is_peer_error(&error) => {
                tracing::debug!(%error, "a peer left before its connection was accepted")
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        None
    });
    accepted.filter_map(|stream| stream)
}

// Whether the peer caused the error. The next connection may be waiting already, so there is no pause.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The connections of `incoming`, admitted by a limiter.
pub(super) fn limited<S: PeerInfo>(
    incoming: impl Stream<Item = io::Result<S>>,
) -> impl Stream<Item = io::Result<LimitedConnection<S>>> {
    let mut limiter = ConnectionLimiter::new();
    accepted(incoming).map(move |stream| {
        let peer = stream.peer();
        let guard = limiter.admit(&peer);
        Ok(guard.wrap(stream, peer))
    })
}

/// Admits every connection. At the bound it closes one, chosen by [`KeepPriority`]: idle peers keep no other out, and
/// no authenticated connection is closed for an unauthenticated one. A new connection of the peer with the most
/// connections replaces one of that peer's own, or an unauthenticated one that has had its time, so that it shuts no
/// new peer out.
pub(super) struct ConnectionLimiter {
    connections_max: usize,
    opened: Instant,
    /// Open connections, and some that have ended.
    connections: Vec<TrackedConnection>,
    /// Per peer, a marker to which each of its connections holds a reference, so that the references count the
    /// connections. Dead once the last one has ended.
    peers: HashMap<PeerKey, Weak<()>>,
}

/// The limiter's view of a connection.
struct TrackedConnection {
    /// Also held by the connection's guard, as long as the connection lasts.
    state: Arc<ConnectionState>,
    peer_key: PeerKey,
    accepted_ms: u64,
    close: CancellationToken,
}

impl TrackedConnection {
    // Whether it may be closed for one more connection of the peer with the most connections.
    fn yields_to_busiest_peer(&self, peer_key: PeerKey, now_ms: u64) -> bool {
        let is_past_grace = now_ms.saturating_sub(self.accepted_ms) >= GRACE_MS;
        self.peer_key == peer_key || (is_past_grace && self.state.stage() < ConnectionStage::Authenticated)
    }
}

/// Priority of a connection when one has to be closed; the least is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KeepPriority {
    stage: ConnectionStage,
    /// Number of connections of the same peer: a peer with many needs each of them least.
    same_peer_count: Reverse<usize>,
    last_active_ms: u64,
}

impl KeepPriority {
    fn for_connection(state: &ConnectionState, now_ms: u64) -> KeepPriority {
        let last_active_ms = state.last_active_ms();
        let is_new = now_ms.saturating_sub(last_active_ms) < GRACE_MS;
        let stage = if is_new { state.stage().max(ConnectionStage::PrefaceReceived) } else { state.stage() };
        KeepPriority { stage, same_peer_count: Reverse(state.same_peer_count()), last_active_ms }
    }
}

/// Index of the connection to close.
fn eviction_candidate(priorities: impl Iterator<Item = (usize, KeepPriority)>) -> Option<usize> {
    priorities.min_by_key(|(_, priority)| *priority).map(|(index, _)| index)
}

impl ConnectionLimiter {
    pub(super) fn new() -> ConnectionLimiter {
        ConnectionLimiter {
            connections_max: CONNECTIONS_MAX,
            opened: Instant::now(),
            connections: Vec::new(),
            peers: HashMap::new(),
        }
    }

    pub(super) fn admit(&mut self, peer: &Peer) -> ConnectionGuard {
        let (peer_key, now_ms) = (peer.key(), ms_since(self.opened));
        if self.connections.len() >= self.connections_max {
            self.connections.retain(|tracked| Arc::strong_count(&tracked.state) > 1);
            self.peers.retain(|_, shared| shared.strong_count() > 0);
        }
        if self.connections.len() >= self.connections_max {
            self.evict_one(peer_key, now_ms);
        }
        let shared = self.peers.entry(peer_key).or_default();
        let same_peer = shared.upgrade().unwrap_or_default();
        *shared = Arc::downgrade(&same_peer);
        let state = Arc::new(ConnectionState::new(self.opened, same_peer));
        let close = CancellationToken::new();
        let guard = ConnectionGuard {
            state: Arc::clone(&state),
            evicted: Box::pin(close.clone().cancelled_owned()),
            preface: Some((Box::pin(sleep(PREFACE_TIMEOUT)), PREFACE_BYTES)),
            write_deadline: None,
        };
        self.connections.push(TrackedConnection { state, peer_key, accepted_ms: now_ms, close });
        guard
    }

    // Closes one connection.
    fn evict_one(&mut self, peer_key: PeerKey, now_ms: u64) {
        let own = self.connections.iter().filter(|tracked| tracked.peer_key == peer_key).count();
        let mut others = self.connections.iter().filter(|tracked| tracked.peer_key != peer_key);
        let has_most = own > 0 && others.all(|tracked| tracked.state.same_peer_count() <= own);
        let is_evictable = |tracked: &&TrackedConnection| !has_most || tracked.yields_to_busiest_peer(peer_key, now_ms);
        let connections = self.connections.iter().enumerate().filter(|(_, tracked)| is_evictable(tracked));
        let Some(index) = eviction_candidate(
            connections.map(|(index, tracked)| (index, KeepPriority::for_connection(&tracked.state, now_ms))),
        ) else {
            return;
        };
        let TrackedConnection { state, close, .. } = self.connections.swap_remove(index);
        close.cancel();
        tracing::warn!(max = self.connections_max, stage = ?state.stage(), "too many connections: closed one");
    }
}

/// The guard of an admitted connection, dropped with it.
pub(super) struct ConnectionGuard {
    state: Arc<ConnectionState>,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Deadline for the preface, and its missing bytes; `None` once it is complete.
    preface: Option<(Pin<Box<Sleep>>, usize)>,
    /// Deadline of a blocked write; `None` while none is blocked.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl ConnectionGuard {
    /// Wraps `stream` into an admitted connection.
    pub(super) fn wrap<S>(self, stream: S, peer: Peer) -> LimitedConnection<S> {
        let info = ConnectionInfo { peer, state: Arc::clone(&self.state) };
        Connection::new(stream, info, self)
    }

    /// Waits until the connection has to end, and returns why.
    pub(super) async fn closed(&mut self) -> io::Error {
        poll_fn(|cx| self.check_open(cx).map_or_else(Poll::Ready, |()| Poll::Pending)).await
    }
}

impl ConnectionHooks for ConnectionGuard {
    fn check_open(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let is_late = |(deadline, _): &mut (Pin<Box<Sleep>>, usize)| deadline.as_mut().poll(cx).is_ready();
        if self.preface.as_mut().is_some_and(is_late) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "a peer sent no HTTP/2 preface"));
        }
        match self.evicted.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "too many connections")),
            Poll::Pending => Ok(()),
        }
    }

    fn on_read(&mut self, bytes: usize) {
        if bytes > 0 {
            self.state.record_activity();
        }
        if let Some((_, missing)) = &mut self.preface {
            *missing = missing.saturating_sub(bytes);
            if *missing == 0 {
                self.preface = None;
                self.state.advance_to(ConnectionStage::PrefaceReceived);
            }
        }
    }

    fn on_write(&mut self) {
        self.state.record_activity();
    }

    fn on_write_ready(&mut self) {
        self.write_deadline = None;
    }

    fn on_write_blocked(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(WRITE_STALL_MAX)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "a peer reads nothing")),
            Poll::Pending => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::advance;
    use tonic::service::Routes;
    use tonic::transport::Server;

    type Ours = LimitedConnection<DuplexStream>;

    fn limiter(connections_max: usize) -> ConnectionLimiter {
        ConnectionLimiter { connections_max, ..ConnectionLimiter::new() }
    }

    fn admit(limiter: &mut ConnectionLimiter, uid: u32) -> (Ours, DuplexStream) {
        let (ours, theirs) = duplex(1_024);
        let peer = Peer::Unix(Some(uid));
        (limiter.admit(&peer).wrap(ours, peer), theirs)
    }

    // The result of one read from a connection.
    async fn read_once(connection: &mut Ours) -> Result<usize, io::ErrorKind> {
        let read = tokio::time::timeout(Duration::from_millis(1), connection.read(&mut [0; 64])).await;
        read.map_or(Ok(0), |read| read.map_err(|error| error.kind()))
    }

    async fn send_preface((ours, theirs): &mut (Ours, DuplexStream)) {
        theirs.write_all(&[0; PREFACE_BYTES]).await.unwrap();
        assert_eq!(read_once(ours).await, Ok(PREFACE_BYTES));
    }

    async fn closed(connections: &mut [(Ours, DuplexStream)]) -> Vec<usize> {
        let mut left = Vec::new();
        for (index, (ours, _)) in connections.iter_mut().enumerate() {
            match read_once(ours).await {
                Err(io::ErrorKind::ConnectionAborted) => left.push(index),
                other => assert_eq!(other, Ok(0), "{index}"),
            }
        }
        left
    }

    #[tokio::test(start_paused = true)]
    async fn retries_a_failed_accept_after_a_pause() {
        let full = || Err(Errno::MFILE.into());
        let aborted = || Err(Errno::CONNABORTED.into());
        let mut stream = pin!(accepted(tokio_stream::iter([aborted(), Ok(1), full(), full(), Ok(2), Ok(3)])));
        let began = Instant::now();
        for (expected, pauses) in [(Some(1), 0), (Some(2), 2), (Some(3), 2), (None, 2)] {
            assert_eq!((stream.next().await, began.elapsed()), (expected, ACCEPT_PAUSE * pauses));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn closes_a_connection_without_a_preface_in_time() {
        let mut limiter = limiter(9);
        let (mut silent, _peer) = admit(&mut limiter, 1);
        let (mut slow, mut slow_peer) = admit(&mut limiter, 1);
        let (mut polite, mut polite_peer) = admit(&mut limiter, 1);
        slow_peer.write_all(&[0; PREFACE_BYTES - 1]).await.unwrap();
        polite_peer.write_all(&[0; PREFACE_BYTES]).await.unwrap();
        let reads = [read_once(&mut silent).await, read_once(&mut slow).await, read_once(&mut polite).await];
        assert_eq!(reads, [Ok(0), Ok(PREFACE_BYTES - 1), Ok(PREFACE_BYTES)]);
        // A pending read is woken by the deadline.
        let waiting = tokio::spawn(async move { silent.read(&mut [0; 64]).await.map_err(|error| error.kind()) });
        advance(PREFACE_TIMEOUT).await;
        assert_eq!(waiting.await.unwrap(), Err(io::ErrorKind::TimedOut));
        assert_eq!([read_once(&mut slow).await, read_once(&mut polite).await], [Err(io::ErrorKind::TimedOut), Ok(0)]);
    }

    #[test]
    fn closes_the_least_advanced_then_of_the_busiest_peer_then_the_quietest() {
        use ConnectionStage::{Authenticated, NoPreface, PrefaceReceived};
        let priority = |(stage, same_peer_count, last_active_ms)| KeepPriority {
            stage,
            same_peer_count: Reverse(same_peer_count),
            last_active_ms,
        };
        for (priorities, expected) in [
            (vec![], None),
            (vec![(Authenticated, 9, 0), (PrefaceReceived, 9, 0), (NoPreface, 1, 99)], Some(2)),
            (vec![(Authenticated, 9, 0), (PrefaceReceived, 1, 99), (Authenticated, 9, 1)], Some(1)),
            (
                vec![(Authenticated, 1, 0), (Authenticated, 3, 50), (Authenticated, 3, 49), (Authenticated, 2, 1)],
                Some(2),
            ),
            (vec![(NoPreface, 1, 0), (NoPreface, 2, 50), (PrefaceReceived, 3, 0)], Some(1)),
            (vec![(Authenticated, 2, 7), (Authenticated, 2, 5), (Authenticated, 2, 6)], Some(1)),
        ] {
            assert_eq!(
                eviction_candidate(priorities.iter().copied().map(priority).enumerate()),
                expected,
                "{priorities:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn closes_a_flood_before_an_authenticated_idle_connection() {
        let mut limiter = limiter(4);
        // One authenticated, one with a preface, and two silent ones, in the order of their slots.
        let mut connections: Vec<_> = [7, 8].into_iter().map(|uid| admit(&mut limiter, uid)).collect();
        for guard in &mut connections {
            send_preface(guard).await;
        }
        connections[0].0.connect().mark_authenticated();
        for flood in 2..8 {
            advance(Duration::from_millis(GRACE_MS + 100)).await;
            connections.push(admit(&mut limiter, 9));
            let evicted: Vec<usize> = (2..flood - 1).collect();
            assert_eq!(closed(&mut connections).await, evicted, "the oldest of the silent ones");
        }
        // Each that ended makes room for one.
        connections.truncate(2);
        for _ in 0..2 {
            advance(Duration::from_millis(GRACE_MS + 100)).await;
            connections.push(admit(&mut limiter, 9));
            send_preface(connections.last_mut().unwrap()).await;
        }
        connections.push(admit(&mut limiter, 8));
        assert_eq!(closed(&mut connections).await, [2], "of two peers with a preface, one has more connections");
        for guard in &connections[3..] {
            guard.0.connect().mark_authenticated();
        }
        connections.push(admit(&mut limiter, 9));
        assert_eq!(
            closed(&mut connections).await,
            [1, 2],
            "an unauthenticated one is closed before authenticated ones"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_time_for_its_preface_among_idle_ones() {
        let mut limiter = limiter(3);
        let mut connections = Vec::new();
        for _ in 0..3 {
            advance(Duration::from_millis(GRACE_MS)).await;
            connections.push(admit(&mut limiter, 1));
            send_preface(connections.last_mut().unwrap()).await;
        }
        advance(Duration::from_millis(GRACE_MS)).await;
        for come in 0..2 {
            connections.push(admit(&mut limiter, 1));
            assert_eq!(closed(&mut connections).await, [0, 1][..=come]);
        }
        send_preface(&mut connections[3]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_with_the_most_connections_replaces_its_own_and_shuts_no_new_peer_out() {
        let mut limiter = limiter(4);
        let mut connections = Vec::new();
        let mut come = async |connections: &mut Vec<_>, uid: u32, is_known: bool| {
            advance(Duration::from_millis(GRACE_MS / 4)).await;
            connections.push(admit(&mut limiter, uid));
            send_preface(connections.last_mut().unwrap()).await;
            if is_known {
                connections.last().unwrap().0.connect().mark_authenticated();
            }
        };
        for _ in 0..4 {
            come(&mut connections, 1, true).await;
        }
        come(&mut connections, 2, false).await;
        assert_eq!(closed(&mut connections).await, [0]);
        come(&mut connections, 1, true).await;
        come(&mut connections, 1, true).await;
        assert_eq!(closed(&mut connections).await, [0, 1, 2], "the new peer has not authenticated yet, and stays");
        advance(Duration::from_millis(GRACE_MS)).await;
        come(&mut connections, 1, true).await;
        assert_eq!(closed(&mut connections).await, [0, 1, 2, 4], "its grace time is over");
        come(&mut connections, 2, true).await;
        advance(Duration::from_millis(GRACE_MS)).await;
        come(&mut connections, 1, false).await;
        assert_eq!(
            closed(&mut connections).await,
            [0, 1, 2, 3, 4, 5],
            "no authenticated connection is closed for more of another peer's"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn closes_the_quietest_among_equals() {
        let mut limiter = limiter(3);
        let mut connections: Vec<_> = (0..3).map(|uid| admit(&mut limiter, uid)).collect();
        for index in [1, 2, 0] {
            advance(Duration::from_secs(1)).await;
            send_preface(&mut connections[index]).await;
        }
        advance(Duration::from_secs(1)).await;
        connections[1].0.write_all(b"an answer").await.unwrap();
        connections.push(admit(&mut limiter, 3));
        assert_eq!(closed(&mut connections).await, [2]);
        // Connections that ended make room.
        connections.remove(2);
        connections.remove(0);
        connections.push(admit(&mut limiter, 4));
        assert!(closed(&mut connections).await.is_empty());
    }

    /// A peer that sends its preface and then pings again and again.
    struct Flood {
        theirs: DuplexStream,
        sent_bytes: usize,
    }

    impl Flood {
        // Pings until the peer would have to read answers.
        async fn start((ours, mut theirs): (Ours, DuplexStream)) -> Flood {
            let incoming = tokio_stream::once(Ok::<_, io::Error>(ours)).chain(tokio_stream::pending());
            tokio::spawn(Server::builder().add_routes(Routes::default()).serve_with_incoming(incoming));
            theirs.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
            let mut flood = Flood { theirs, sent_bytes: 0 };
            while flood.ping(Duration::from_millis(1)).await.is_some() {}
            flood
        }

        // The result of one write of a ping within a time.
        async fn ping(&mut self, within: Duration) -> Option<Result<(), io::ErrorKind>> {
            const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0 or not?";
            let rest = &PING[self.sent_bytes % PING.len()..];
            let sent = tokio::time::timeout(within, self.theirs.write(rest)).await.ok()?;
            Some(sent.map(|bytes| self.sent_bytes += bytes).map_err(|error| error.kind()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn closes_a_flooding_peer_that_reads_nothing_when_evicted() {
        let mut limiter = limiter(1);
        let mut flood = Flood::start(admit(&mut limiter, 1)).await;
        assert_eq!(flood.ping(WRITE_STALL_MAX / 2).await, None, "the transport reads no more from it");
        let _another = admit(&mut limiter, 2);
        assert_eq!(flood.ping(Duration::from_millis(1)).await, Some(Err(io::ErrorKind::BrokenPipe)));
    }

    #[tokio::test(start_paused = true)]
    async fn closes_a_peer_that_reads_nothing_and_keeps_one_that_reads_slowly() {
        let mut limiter = limiter(2);
        let mut flood = Flood::start(admit(&mut limiter, 1)).await;
        let mut slow = Flood::start(admit(&mut limiter, 2)).await;
        for _ in 0..3 {
            sleep(WRITE_STALL_MAX / 2).await;
            slow.theirs.read_exact(&mut [0; 64]).await.unwrap();
        }
        assert_eq!(flood.ping(Duration::from_millis(1)).await, Some(Err(io::ErrorKind::BrokenPipe)));
        while let Some(sent) = slow.ping(Duration::from_millis(1)).await {
            assert_eq!(sent, Ok(()));
        }
    }

    impl Ours {
        fn connect(&self) -> Arc<ConnectionState> {
            tonic::transport::server::Connected::connect_info(self).state
        }
    }
}
