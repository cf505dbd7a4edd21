//! Who is at the other end of a connection, as far as its transport says, and how far the two have come. Must not know who
//! that is to us.

use crate::tenants::allowance::{Gauge, Reservation};
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

/// Calls of one connection at the same time whose caller nobody asks for: health and reflection. A prober has one of each.
const OPEN_CALLS_MAX: u32 = 16;

/// What a transport says of the other end.
#[derive(Debug, Clone)]
pub enum Peer {
    /// On a unix socket, with its user id where the kernel says it.
    Local(Option<u32>),
    /// On TCP.
    Remote(Option<IpAddr>),
    /// On TLS.
    Secured {
        /// Where it calls from.
        address: Option<IpAddr>,
        /// Its certificates, its own first; none from a peer who has shown none.
        certificates: Option<Arc<[CertificateDer<'static>]>>,
    },
}

/// PeerKey connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PeerKey {
    User(Option<u32>),
    Address(Option<IpAddr>),
}

impl Peer {
    /// PeerKey this one is: a user's, an address's, or a network's of IPv6, of which anybody has as many addresses as they like.
    pub(super) fn whose(&self) -> PeerKey {
        match self {
            Peer::Local(uid) => PeerKey::User(*uid),
            Peer::Remote(address) | Peer::Secured { address, .. } => PeerKey::Address(address.map(network)),
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A stream that says who is at its other end.
pub(super) trait PeerInfo {
    /// What it says.
    fn peer(&self) -> Peer;
}

impl PeerInfo for UnixStream {
    fn peer(&self) -> Peer {
        Peer::Local(self.peer_cred().ok().map(|found| found.uid()))
    }
}

impl PeerInfo for TcpStream {
    fn peer(&self) -> Peer {
        Peer::Remote(self.peer_addr().ok().map(|address| address.ip()))
    }
}

/// How far a peer has come. Each is more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It has not greeted.
    Silent,
    /// It has, and nobody knows whose calls these are.
    Greeted,
    /// A call of it was of somebody who is known.
    Known,
}

/// Milliseconds since `then`.
pub(super) fn ms_since(then: Instant) -> u64 {
    u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// One connection, for as long as it lasts, to everybody who has to do with it.
#[derive(Debug)]
pub struct ConnectionState {
    stage: AtomicU8,
    /// Milliseconds after `since` when something was last said.
    last_ms: AtomicU64,
    since: Instant,
    /// The same for all of whose this is; each holds one.
    of_whose: Arc<()>,
    open_calls: Arc<Gauge>,
}

impl ConnectionState {
    /// One that begins, at a door that was opened at `since`.
    pub(super) fn new(since: Instant, of_whose: Arc<()>) -> ConnectionState {
        let visit = ConnectionState {
            stage: AtomicU8::new(Stage::Silent as u8),
            last_ms: AtomicU64::new(0),
            since,
            of_whose,
            open_calls: Arc::default(),
        };
        visit.moved();
        visit
    }

    /// Something was said.
    pub(super) fn moved(&self) {
        self.last_ms.store(ms_since(self.since), Ordering::Relaxed);
    }

    pub(super) fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Relaxed)
    }

    /// How many connections of the same there are.
    pub(super) fn of_same(&self) -> usize {
        Arc::strong_count(&self.of_whose)
    }

    /// It has come so far, and never goes back.
    pub(super) fn reach(&self, stage: Stage) {
        self.stage.fetch_max(stage as u8, Ordering::Relaxed);
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Silent,
            1 => Stage::Greeted,
            _ => Stage::Known,
        }
    }

    /// A call of it was of somebody who is known.
    pub fn known(&self) {
        self.reach(Stage::Known);
    }

    /// Takes one call whose caller nobody asks for.
    ///
    /// # Errors
    /// How many there may be.
    pub fn open_call(&self) -> Result<Reservation, u32> {
        self.open_calls.one_more(OPEN_CALLS_MAX).ok_or(OPEN_CALLS_MAX)
    }
}

/// What every call over a connection is told of it.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// Who is at its other end.
    pub peer: Peer,
    /// How far it has come.
    pub visit: Arc<ConnectionState>,
}

impl Visitor {
    /// The only one there is.
    pub(super) fn alone(peer: Peer) -> Visitor {
        Visitor { peer, visit: Arc::new(ConnectionState::new(Instant::now(), Arc::default())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_anybody_has_as_many_of_as_they_like_are_one() {
        let whose = |text: &str| Peer::Remote(Some(text.parse().unwrap())).whose();
        assert_eq!(whose("2001:db8:1:2::1"), whose("2001:db8:1:2:ffff::9"));
        assert_ne!(whose("2001:db8:1:2::1"), whose("2001:db8:1:3::1"));
        assert_ne!(whose("10.0.0.1"), whose("10.0.0.2"));
        assert_eq!(whose("::ffff:10.0.0.1"), whose("10.0.0.1"));
        assert_ne!(Peer::Local(Some(1)).whose(), Peer::Local(Some(2)).whose());
    }
}
