//! The peer of a connection as its transport identifies it, and the state of the connection.

use crate::tenants::allowance::{Gauge, Reservation};
use proctor_core::bounds::OPEN_CALLS_MAX;
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

/// The peer of a connection, as far as its transport identifies it.
#[derive(Debug, Clone)]
pub enum Peer {
    /// On a unix socket, with its user id if the kernel reports it.
    Unix(Option<u32>),
    /// On TCP, with its address.
    Tcp(Option<IpAddr>),
    /// On TLS.
    Tls {
        /// Address of the peer.
        address: Option<IpAddr>,
        /// Its certificate chain, its own first; `None` without a client certificate.
        certificates: Option<Arc<[CertificateDer<'static>]>>,
    },
}

/// Connections with the same key are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PeerKey {
    User(Option<u32>),
    Address(Option<IpAddr>),
}

impl Peer {
    /// The key: a user, an IPv4 address, or an IPv6 network, since a peer can use any number of addresses of its
    /// network.
    pub(super) fn key(&self) -> PeerKey {
        match self {
            Peer::Unix(uid) => PeerKey::User(*uid),
            Peer::Tcp(address) | Peer::Tls { address, .. } => PeerKey::Address(address.map(network)),
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A stream that can identify its peer.
pub(super) trait PeerInfo {
    /// The peer of this stream.
    fn peer(&self) -> Peer;
}

impl PeerInfo for UnixStream {
    fn peer(&self) -> Peer {
        Peer::Unix(self.peer_cred().ok().map(|found| found.uid()))
    }
}

impl PeerInfo for TcpStream {
    fn peer(&self) -> Peer {
        Peer::Tcp(self.peer_addr().ok().map(|address| address.ip()))
    }
}

/// How far a connection has advanced, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionStage {
    /// The HTTP/2 preface is missing.
    NoPreface,
    /// The preface is complete, and no call was authenticated yet.
    PrefaceReceived,
    /// A call was authenticated.
    Authenticated,
}

/// Milliseconds since `then`.
pub(super) fn ms_since(then: Instant) -> u64 {
    u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// State of one connection, shared by its guard, the limiter and its calls.
#[derive(Debug)]
pub struct ConnectionState {
    stage: AtomicU8,
    /// Milliseconds after `since` of the last activity.
    last_active_ms: AtomicU64,
    since: Instant,
    /// Marker shared by the connections of the same peer; each holds one reference.
    same_peer: Arc<()>,
    open_calls: Arc<Gauge>,
}

impl ConnectionState {
    /// State of a new connection at a limiter created at `since`.
    pub(super) fn new(since: Instant, same_peer: Arc<()>) -> ConnectionState {
        let state = ConnectionState {
            stage: AtomicU8::new(ConnectionStage::NoPreface as u8),
            last_active_ms: AtomicU64::new(0),
            since,
            same_peer,
            open_calls: Arc::default(),
        };
        state.record_activity();
        state
    }

    /// Records activity.
    pub(super) fn record_activity(&self) {
        self.last_active_ms.store(ms_since(self.since), Ordering::Relaxed);
    }

    pub(super) fn last_active_ms(&self) -> u64 {
        self.last_active_ms.load(Ordering::Relaxed)
    }

    /// Number of connections of the same peer.
    pub(super) fn same_peer_count(&self) -> usize {
        Arc::strong_count(&self.same_peer)
    }

    /// Raises the stage; it never falls.
    pub(super) fn advance_to(&self, stage: ConnectionStage) {
        self.stage.fetch_max(stage as u8, Ordering::Relaxed);
    }

    pub(super) fn stage(&self) -> ConnectionStage {
        match self.stage.load(Ordering::Relaxed) {
            0 => ConnectionStage::NoPreface,
            1 => ConnectionStage::PrefaceReceived,
            _ => ConnectionStage::Authenticated,
        }
    }

    /// Records that a call was authenticated.
    pub fn mark_authenticated(&self) {
        self.advance_to(ConnectionStage::Authenticated);
    }

    /// Reserves one call without authentication.
    ///
    /// # Errors
    /// The greatest number of such calls.
    pub fn reserve_open_call(&self) -> Result<Reservation, u32> {
        self.open_calls.try_add_one(OPEN_CALLS_MAX).ok_or(OPEN_CALLS_MAX)
    }
}

/// Information about a connection that every call over it receives.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// The peer.
    pub peer: Peer,
    /// The state of the connection.
    pub state: Arc<ConnectionState>,
}

impl ConnectionInfo {
    /// Information about the only connection.
    pub(super) fn single(peer: Peer) -> ConnectionInfo {
        ConnectionInfo { peer, state: Arc::new(ConnectionState::new(Instant::now(), Arc::default())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_of_one_network_have_the_same_key() {
        let key = |text: &str| Peer::Tcp(Some(text.parse().unwrap())).key();
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_ne!(key("10.0.0.1"), key("10.0.0.2"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_ne!(Peer::Unix(Some(1)).key(), Peer::Unix(Some(2)).key());
    }
}
