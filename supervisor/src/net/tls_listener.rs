//! TLS on a TCP listener: concurrent handshakes, each with the certificates in force at its start, behind the
//! connection limiter.

use super::connection_limiter::{ConnectionGuard, ConnectionLimiter, LimitedConnection, accepted};
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

/// Most connections waiting to be served. They are taken at once, so these are a few milliseconds' worth.
const WAITING: usize = 16;

/// A TLS connection admitted by the limiter.
type TlsConnection = LimitedConnection<TlsStream<TcpStream>>;

/// The connections of a listener after their handshakes, until `stopping`.
pub(super) fn incoming(
    listener: TcpListener,
    access: CurrentAccess,
    stopping: CancellationToken,
) -> impl Stream<Item = io::Result<TlsConnection>> {
    let (sender, incoming) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = accept_all(listener, &access, &sender) => {}
        }
    });
    ReceiverStream::new(incoming)
}

// Every connection is admitted at once: an unfinished handshake counts as a connection without a preface.
async fn accept_all(listener: TcpListener, access: &CurrentAccess, sender: &mpsc::Sender<io::Result<TlsConnection>>) {
    let (mut limiter, mut accepted) = (ConnectionLimiter::new(), pin!(accepted(TcpListenerStream::new(listener))));
    while let Some(stream) = accepted.next().await {
        // The certificates in force now; an existing connection keeps its own.
        let Some(server) = access.borrow().server() else { continue };
        let guard = limiter.admit(&stream.peer());
        let sender = sender.clone();
        tokio::spawn(async move {
            match handshake(stream, server, guard).await {
                Ok(connection) => _ = sender.send(Ok(connection)).await,
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            }
        });
    }
}

async fn handshake(
    stream: TcpStream,
    server: Arc<ServerConfig>,
    mut guard: ConnectionGuard,
) -> io::Result<TlsConnection> {
    _ = stream.set_nodelay(true);
    let Peer::Tcp(address) = stream.peer() else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
    let stream = tokio::select! {
        error = guard.closed() => return Err(error),
        stream = TlsAcceptor::from(server).accept(stream) => stream?,
    };
    let presented = stream.get_ref().1.peer_certificates();
    let certificates = presented.map(|chain| chain.iter().map(|one| CertificateDer::clone(one).into_owned()).collect());
    Ok(guard.wrap(stream, Peer::Tls { address, certificates }))
}
