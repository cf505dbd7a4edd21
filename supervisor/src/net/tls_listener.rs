//! TLS on a TCP listener: handshakes beside each other, each with the certificates of its moment, behind the same door as
//! everybody's connection. Must not know who a peer is; what it has shown travels with its connection.

use super::connection_limiter::{ConnectionGuard, ConnectionLimiter, LetIn, accepted};
use super::peer::{Peer, PeerInfo};
use crate::tenants::access::CurrentAccess;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

/// Connections that may wait to be served. They are taken as they come, so these are few milliseconds' worth.
const WAITING: usize = 16;

/// A connection that is encrypted.
type Secured = LetIn<TlsStream<TcpStream>>;

/// The connections of a listener, greeted, until `stopping`.
pub(super) fn incoming(
    listener: TcpListener,
    access: CurrentAccess,
    stopping: CancellationToken,
) -> impl Stream<Item = io::Result<Secured>> {
    let (greeted, incoming) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = greet_all(listener, &access, &greeted) => {}
        }
    });
    ReceiverStream::new(incoming)
}

// Whoever calls is let in at once: one whose handshake does not end is a guest who has not greeted.
async fn greet_all(listener: TcpListener, access: &CurrentAccess, greeted: &mpsc::Sender<io::Result<Secured>>) {
    let (mut door, mut accepted) = (ConnectionLimiter::new(), pin!(accepted(TcpListenerStream::new(listener))));
    while let Some(stream) = accepted.next().await {
        // The certificates are those of now: a connection that is there keeps its own.
        let Some(server) = access.borrow().server() else { continue };
        let guest = door.let_in(&stream.peer());
        let greeted = greeted.clone();
        tokio::spawn(async move {
            match greet(stream, server, guest).await {
                Ok(secured) => _ = greeted.send(Ok(secured)).await,
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            }
        });
    }
}

async fn greet(stream: TcpStream, server: Arc<ServerConfig>, mut guest: ConnectionGuard) -> io::Result<Secured> {
    _ = stream.set_nodelay(true);
    let Peer::Remote(address) = stream.peer() else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
    let stream = tokio::select! {
        why = guest.dismissed() => return Err(why),
        stream = TlsAcceptor::from(server).accept(stream) => stream?,
    };
    let shown = stream.get_ref().1.peer_certificates();
    let certificates = shown.map(|chain| chain.iter().map(|one| CertificateDer::clone(one).into_owned()).collect());
    Ok(guest.over(stream, Peer::Secured { address, certificates }))
}
