//! The door: as many connections at the same time as there is room for, of peers that greet in time, and who leaves where
//! there is none. Must not know what is said after the greeting.

use super::connection::{Connection, Held};
use super::peer::{ConnectionState, Peer, PeerInfo, PeerKey, Stage, Visitor, ms_since};
use super::{KEEPALIVE, KEEPALIVE_ANSWER};
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

/// Connections of one listener at the same time. A shim or a service has one, so this is thousands of them, and a fraction of
/// the descriptors that a supervisor has.
const GUESTS_MAX: usize = 4_096;

/// How long nobody is let in after the host could not let anybody in.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a peer may take to greet, a handshake of TLS included. Whoever has greeted is asked from time to time whether it is
/// there.
const GREETING: Duration = Duration::from_secs(10);

/// How long a newcomer counts as one who has greeted, in milliseconds: a greeting takes few of them, and where all others have
/// greeted and do nothing, whoever comes would have to leave for the next one who does. For as long nobody leaves for one of
/// those who have most: a first call takes few more.
const NEWCOMER_MS: u64 = 1_000;

/// How long a peer may take nothing of what is written to it, as long as one may say nothing: it cannot be asked whether it is
/// there, and nothing else of it is read meanwhile.
const TAKING: Duration = KEEPALIVE.saturating_add(KEEPALIVE_ANSWER);

/// What every client of HTTP/2 begins with (RFC 9113, 3.4).
const GREETING_BYTES: usize = 24;

/// Somebody who was let in.
pub(super) type LetIn<S> = Connection<S, ConnectionGuard>;

/// Those of `incoming` that came. Where the host can let nobody in, as when descriptors have run out, it is asked again after a
/// pause: who waits there makes each try fail at once.
pub(super) fn accepted<S>(incoming: impl Stream<Item = io::Result<S>>) -> impl Stream<Item = S> {
    let came = incoming.then(async |stream| {
        match stream {
            Ok(stream) => return Some(stream),
            Err(error) if left_early(&error) => tracing::debug!(%error, "a peer left before it came in"),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(PAUSE).await;
            }
        }
        None
    });
    came.filter_map(|stream| stream)
}

// Whether it was the peer's doing. The next one may be there already, and nobody shall keep it out.
fn left_early(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The connections of `incoming` as they are let in.
pub(super) fn guarded<S: PeerInfo>(
    incoming: impl Stream<Item = io::Result<S>>,
) -> impl Stream<Item = io::Result<LetIn<S>>> {
    let mut door = ConnectionLimiter::new();
    accepted(incoming).map(move |stream| {
        let peer = stream.peer();
        let guest = door.let_in(&peer);
        Ok(guest.over(stream, peer))
    })
}

/// Lets everybody in. Where there is no room for one more, somebody leaves, as [`Claim`] says: peers that hold connections and
/// do nothing keep nobody out, and nobody who is known has to leave for somebody who is not. Whoever has most makes room for
/// itself: whatever else it has, it shuts no newcomer out.
pub(super) struct ConnectionLimiter {
    guests_max: usize,
    opened: Instant,
    /// Those who are there, and some who have left.
    guests: Vec<Known>,
    /// What all connections of the same peer share, for as long as there is one.
    peers: HashMap<PeerKey, Weak<()>>,
}

/// A guest, to the door.
struct Known {
    /// The guest has the other end.
    visit: Arc<ConnectionState>,
    whose: PeerKey,
    came_ms: u64,
    leave: CancellationToken,
}

impl Known {
    // Whether it may have to leave for one more of the peer that has most.
    fn leaves_for_most(&self, whose: PeerKey, now_ms: u64) -> bool {
        let had_time = now_ms.saturating_sub(self.came_ms) >= NEWCOMER_MS;
        self.whose == whose || (had_time && self.visit.stage() < Stage::Known)
    }
}

/// What a guest has for itself when somebody has to leave. The least leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    stage: Stage,
    /// Connections of the same peer: who has most has least need of one.
    of_whose: Reverse<usize>,
    last_ms: u64,
}

impl Claim {
    fn of(visit: &ConnectionState, now_ms: u64) -> Claim {
        let last_ms = visit.last_ms();
        let is_new = now_ms.saturating_sub(last_ms) < NEWCOMER_MS;
        let stage = if is_new { visit.stage().max(Stage::Greeted) } else { visit.stage() };
        Claim { stage, of_whose: Reverse(visit.of_same()), last_ms }
    }
}

/// The place of the one who leaves.
fn leaving(claims: impl Iterator<Item = (usize, Claim)>) -> Option<usize> {
    claims.min_by_key(|(_, claim)| *claim).map(|(place, _)| place)
}

impl ConnectionLimiter {
    pub(super) fn new() -> ConnectionLimiter {
        ConnectionLimiter { guests_max: GUESTS_MAX, opened: Instant::now(), guests: Vec::new(), peers: HashMap::new() }
    }

    pub(super) fn let_in(&mut self, peer: &Peer) -> ConnectionGuard {
        let (whose, now_ms) = (peer.whose(), ms_since(self.opened));
        if self.guests.len() >= self.guests_max {
            self.guests.retain(|known| Arc::strong_count(&known.visit) > 1);
            self.peers.retain(|_, shared| shared.strong_count() > 0);
        }
        if self.guests.len() >= self.guests_max {
            self.send_one_away(whose, now_ms);
        }
        let shared = self.peers.entry(whose).or_default();
        let of_whose = shared.upgrade().unwrap_or_default();
        *shared = Arc::downgrade(&of_whose);
        let visit = Arc::new(ConnectionState::new(self.opened, of_whose));
        let leave = CancellationToken::new();
        let guest = ConnectionGuard {
            visit: Arc::clone(&visit),
            left: Box::pin(leave.clone().cancelled_owned()),
            greeting: Some((Box::pin(sleep(GREETING)), GREETING_BYTES)),
            taking: None,
        };
        self.guests.push(Known { visit, whose, came_ms: now_ms, leave });
        guest
    }

    // Makes room for one more.
    fn send_one_away(&mut self, whose: PeerKey, now_ms: u64) {
        let own = self.guests.iter().filter(|known| known.whose == whose).count();
        let mut others = self.guests.iter().filter(|known| known.whose != whose);
        let has_most = own > 0 && others.all(|known| known.visit.of_same() <= own);
        let may_leave = |known: &&Known| !has_most || known.leaves_for_most(whose, now_ms);
        let guests = self.guests.iter().enumerate().filter(|(_, known)| may_leave(known));
        let Some(place) = leaving(guests.map(|(place, known)| (place, Claim::of(&known.visit, now_ms)))) else {
            return;
        };
        let Known { visit, leave, .. } = self.guests.swap_remove(place);
        leave.cancel();
        tracing::warn!(max = self.guests_max, stage = ?visit.stage(), "too many connections: one is closed");
    }
}

/// What goes with the connection of somebody who was let in.
pub(super) struct ConnectionGuard {
    visit: Arc<ConnectionState>,
    left: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until when it has to greet, and how many bytes of that are to come; `None` after it.
    greeting: Option<(Pin<Box<Sleep>>, usize)>,
    /// Until when it has to take something; `None` while nothing waits for it.
    taking: Option<Pin<Box<Sleep>>>,
}

impl ConnectionGuard {
    /// Its connection.
    pub(super) fn over<S>(self, stream: S, peer: Peer) -> LetIn<S> {
        let visitor = Visitor { peer, visit: Arc::clone(&self.visit) };
        Connection::new(stream, visitor, self)
    }

    /// Returns when it has to go, and why.
    pub(super) async fn dismissed(&mut self) -> io::Error {
        poll_fn(|cx| self.may_go_on(cx).map_or_else(Poll::Ready, |()| Poll::Pending)).await
    }
}

impl Held for ConnectionGuard {
    fn may_go_on(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let is_late = |(deadline, _): &mut (Pin<Box<Sleep>>, usize)| deadline.as_mut().poll(cx).is_ready();
        if self.greeting.as_mut().is_some_and(is_late) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "a peer did not greet"));
        }
        match self.left.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "too many connections")),
            Poll::Pending => Ok(()),
        }
    }

    fn heard(&mut self, bytes: usize) {
        if bytes > 0 {
            self.visit.moved();
        }
        if let Some((_, to_come)) = &mut self.greeting {
            *to_come = to_come.saturating_sub(bytes);
            if *to_come == 0 {
                self.greeting = None;
                self.visit.reach(Stage::Greeted);
            }
        }
    }

    fn answered(&mut self) {
        self.visit.moved();
    }

    fn taken(&mut self) {
        self.taking = None;
    }

    fn untaken(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let deadline = self.taking.get_or_insert_with(|| Box::pin(sleep(TAKING)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "a peer takes nothing")),
            Poll::Pending => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::advance;
    use tonic::service::Routes;
    use tonic::transport::Server;

    type Ours = LetIn<DuplexStream>;

    fn door(guests_max: usize) -> ConnectionLimiter {
        ConnectionLimiter { guests_max, ..ConnectionLimiter::new() }
    }

    fn let_in(door: &mut ConnectionLimiter, uid: u32) -> (Ours, DuplexStream) {
        let (ours, theirs) = duplex(1_024);
        let peer = Peer::Local(Some(uid));
        (door.let_in(&peer).over(ours, peer), theirs)
    }

    // What reading from a connection says at once.
    async fn says(connection: &mut Ours) -> Result<usize, io::ErrorKind> {
        let read = tokio::time::timeout(Duration::from_millis(1), connection.read(&mut [0; 64])).await;
        read.map_or(Ok(0), |read| read.map_err(|error| error.kind()))
    }

    async fn greet((ours, theirs): &mut (Ours, DuplexStream)) {
        theirs.write_all(&[0; GREETING_BYTES]).await.unwrap();
        assert_eq!(says(ours).await, Ok(GREETING_BYTES));
    }

    async fn who_left(guests: &mut [(Ours, DuplexStream)]) -> Vec<usize> {
        let mut left = Vec::new();
        for (place, (ours, _)) in guests.iter_mut().enumerate() {
            match says(ours).await {
                Err(io::ErrorKind::ConnectionAborted) => left.push(place),
                said => assert_eq!(said, Ok(0), "{place}"),
            }
        }
        left
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_can_let_nobody_in_is_asked_again_after_a_pause() {
        let full = || Err(io::Error::from_raw_os_error(libc::EMFILE));
        let gone = || Err(io::Error::from_raw_os_error(libc::ECONNABORTED));
        let mut accepted = pin!(accepted(tokio_stream::iter([gone(), Ok(1), full(), full(), Ok(2), Ok(3)])));
        let began = Instant::now();
        for (came, pauses) in [(Some(1), 0), (Some(2), 2), (Some(3), 2), (None, 2)] {
            assert_eq!((accepted.next().await, began.elapsed()), (came, PAUSE * pauses));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_greet_in_time_is_not_waited_for() {
        let mut door = door(9);
        let (mut silent, _peer) = let_in(&mut door, 1);
        let (mut slow, mut slow_peer) = let_in(&mut door, 1);
        let (mut polite, mut polite_peer) = let_in(&mut door, 1);
        slow_peer.write_all(&[0; GREETING_BYTES - 1]).await.unwrap();
        polite_peer.write_all(&[0; GREETING_BYTES]).await.unwrap();
        let heard = [says(&mut silent).await, says(&mut slow).await, says(&mut polite).await];
        assert_eq!(heard, [Ok(0), Ok(GREETING_BYTES - 1), Ok(GREETING_BYTES)]);
        // Whoever waits for it hears of the end.
        let waits = tokio::spawn(async move { silent.read(&mut [0; 64]).await.map_err(|error| error.kind()) });
        advance(GREETING).await;
        assert_eq!(waits.await.unwrap(), Err(io::ErrorKind::TimedOut));
        assert_eq!([says(&mut slow).await, says(&mut polite).await], [Err(io::ErrorKind::TimedOut), Ok(0)]);
    }

    #[test]
    fn who_has_come_least_far_leaves_then_whose_are_most_then_the_quietest() {
        use Stage::{Greeted, Known, Silent};
        let claim = |(stage, of_whose, last_ms)| Claim { stage, of_whose: Reverse(of_whose), last_ms };
        for (claims, leaves) in [
            (vec![], None),
            (vec![(Known, 9, 0), (Greeted, 9, 0), (Silent, 1, 99)], Some(2)),
            (vec![(Known, 9, 0), (Greeted, 1, 99), (Known, 9, 1)], Some(1)),
            (vec![(Known, 1, 0), (Known, 3, 50), (Known, 3, 49), (Known, 2, 1)], Some(2)),
            (vec![(Silent, 1, 0), (Silent, 2, 50), (Greeted, 3, 0)], Some(1)),
            (vec![(Known, 2, 7), (Known, 2, 5), (Known, 2, 6)], Some(1)),
        ] {
            assert_eq!(leaving(claims.iter().copied().map(claim).enumerate()), leaves, "{claims:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_leaves_before_anybody_who_is_known_and_quiet() {
        let mut door = door(4);
        // One who is known, one who has greeted, and two who say nothing, in the order in which they keep their places.
        let mut guests: Vec<_> = [7, 8].into_iter().map(|uid| let_in(&mut door, uid)).collect();
        for guest in &mut guests {
            greet(guest).await;
        }
        guests[0].0.connect().known();
        for flood in 2..8 {
            advance(Duration::from_millis(NEWCOMER_MS + 100)).await;
            guests.push(let_in(&mut door, 9));
            let gone: Vec<usize> = (2..flood - 1).collect();
            assert_eq!(who_left(&mut guests).await, gone, "the one who came first of those who say nothing");
        }
        // Each who leaves makes room for one.
        guests.truncate(2);
        for _ in 0..2 {
            advance(Duration::from_millis(NEWCOMER_MS + 100)).await;
            guests.push(let_in(&mut door, 9));
            greet(guests.last_mut().unwrap()).await;
        }
        guests.push(let_in(&mut door, 8));
        assert_eq!(who_left(&mut guests).await, [2], "of two peers who have greeted, one has most");
        for guest in &guests[3..] {
            guest.0.connect().known();
        }
        guests.push(let_in(&mut door, 9));
        assert_eq!(who_left(&mut guests).await, [1, 2], "one who is not known goes before those who are");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_has_time_to_greet_where_others_have_and_do_nothing() {
        let mut door = door(3);
        let mut guests = Vec::new();
        for _ in 0..3 {
            advance(Duration::from_millis(NEWCOMER_MS)).await;
            guests.push(let_in(&mut door, 1));
            greet(guests.last_mut().unwrap()).await;
        }
        advance(Duration::from_millis(NEWCOMER_MS)).await;
        for come in 0..2 {
            guests.push(let_in(&mut door, 1));
            assert_eq!(who_left(&mut guests).await, [0, 1][..=come]);
        }
        greet(&mut guests[3]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_most_makes_room_for_itself_and_shuts_no_newcomer_out() {
        let mut door = door(4);
        let mut guests = Vec::new();
        let mut come = async |guests: &mut Vec<_>, uid: u32, is_known: bool| {
            advance(Duration::from_millis(NEWCOMER_MS / 4)).await;
            guests.push(let_in(&mut door, uid));
            greet(guests.last_mut().unwrap()).await;
            if is_known {
                guests.last().unwrap().0.connect().known();
            }
        };
        for _ in 0..4 {
            come(&mut guests, 1, true).await;
        }
        come(&mut guests, 2, false).await;
        assert_eq!(who_left(&mut guests).await, [0]);
        come(&mut guests, 1, true).await;
        come(&mut guests, 1, true).await;
        assert_eq!(who_left(&mut guests).await, [0, 1, 2], "the newcomer has not said yet who calls, and stays");
        advance(Duration::from_millis(NEWCOMER_MS)).await;
        come(&mut guests, 1, true).await;
        assert_eq!(who_left(&mut guests).await, [0, 1, 2, 4], "it has had its time");
        come(&mut guests, 2, true).await;
        advance(Duration::from_millis(NEWCOMER_MS)).await;
        come(&mut guests, 1, false).await;
        assert_eq!(who_left(&mut guests).await, [0, 1, 2, 3, 4, 5], "nobody who is known leaves for more of another's");
    }

    #[tokio::test(start_paused = true)]
    async fn among_equals_the_quietest_leaves() {
        let mut door = door(3);
        let mut guests: Vec<_> = (0..3).map(|uid| let_in(&mut door, uid)).collect();
        for place in [1, 2, 0] {
            advance(Duration::from_secs(1)).await;
            greet(&mut guests[place]).await;
        }
        advance(Duration::from_secs(1)).await;
        guests[1].0.write_all(b"an answer").await.unwrap();
        guests.push(let_in(&mut door, 3));
        assert_eq!(who_left(&mut guests).await, [2]);
        // Who has gone makes room.
        guests.remove(2);
        guests.remove(0);
        guests.push(let_in(&mut door, 4));
        assert!(who_left(&mut guests).await.is_empty());
    }

    /// A peer who greets and asks whether we are there, again and again.
    struct Flood {
        theirs: DuplexStream,
        asked_bytes: usize,
    }

    impl Flood {
        // Until it would have to take our answers.
        async fn of((ours, mut theirs): (Ours, DuplexStream)) -> Flood {
            let incoming = tokio_stream::once(Ok::<_, io::Error>(ours)).chain(tokio_stream::pending());
            tokio::spawn(Server::builder().add_routes(Routes::default()).serve_with_incoming(incoming));
            theirs.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
            let mut flood = Flood { theirs, asked_bytes: 0 };
            while flood.asks(Duration::from_millis(1)).await.is_some() {}
            flood
        }

        // What came of asking within a time.
        async fn asks(&mut self, within: Duration) -> Option<Result<(), io::ErrorKind>> {
            const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0 or not?";
            let rest = &PING[self.asked_bytes % PING.len()..];
            let asked = tokio::time::timeout(within, self.theirs.write(rest)).await.ok()?;
            Some(asked.map(|bytes| self.asked_bytes += bytes).map_err(|error| error.kind()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_floods_and_takes_nothing_is_gone_once_it_has_to_leave() {
        let mut door = door(1);
        let mut flood = Flood::of(let_in(&mut door, 1)).await;
        assert_eq!(flood.asks(TAKING / 2).await, None, "nothing of it is read any more");
        let _another = let_in(&mut door, 2);
        assert_eq!(flood.asks(Duration::from_millis(1)).await, Some(Err(io::ErrorKind::BrokenPipe)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_not_waited_for_and_who_takes_little_is() {
        let mut door = door(2);
        let mut flood = Flood::of(let_in(&mut door, 1)).await;
        let mut slow = Flood::of(let_in(&mut door, 2)).await;
        for _ in 0..3 {
            sleep(TAKING / 2).await;
            slow.theirs.read_exact(&mut [0; 64]).await.unwrap();
        }
        assert_eq!(flood.asks(Duration::from_millis(1)).await, Some(Err(io::ErrorKind::BrokenPipe)));
        while let Some(asked) = slow.asks(Duration::from_millis(1)).await {
            assert_eq!(asked, Ok(()));
        }
    }

    impl Ours {
        fn connect(&self) -> Arc<ConnectionState> {
            tonic::transport::server::Connected::connect_info(self).visit
        }
    }
}
